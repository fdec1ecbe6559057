// Optimizers, losses and metrics in Keras's serialized form.
//
// Each reader accepts a JSON text: a name, such as "adam" or
// "sparse_categorical_crossentropy" (with or without quotes), or Keras's
// {"class_name": "Adam", "config": {…}}. Omitted fields have Keras's defaults.
// A learning rate is a number or one of Keras's schedules.
//
// Unknown and unsupported fields and names are errors, kInvalidArgument, which
// name the field and the nearest known name. Readers ignore only the own name
// of an optimizer, a loss and a schedule, fn (the function behind a class),
// jit_compile and is_legacy_optimizer. They read at most 1 MiB and 64 levels.
//
// The writers write what Keras 3 reads, with every field. Equal values give the
// same text.

#ifndef RINGLET_IO_KERAS_COMPILE_JSON_H_
#define RINGLET_IO_KERAS_COMPILE_JSON_H_

#include <string>

#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/optimizers.h"
#include "ringlet/status.h"

namespace ringlet {

// Reads any optimizer of optimizers.h.
Status OptimizerFromJson(const std::string& json, Optimizer* optimizer);
std::string ToJson(const Optimizer& optimizer);

Status LossFromJson(const std::string& json, Loss* loss);
// A custom loss or metric is written without its options, and cannot be read.
std::string ToJson(const Loss& loss);

// "accuracy" and "acc" mean, as in Keras, the accuracy (of three) that fits the
// model. ringlet has no metric like Keras's class Accuracy, which compares
// values.
Status MetricFromJson(const std::string& json, Metric* metric);
std::string ToJson(const Metric& metric);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_COMPILE_JSON_H_
