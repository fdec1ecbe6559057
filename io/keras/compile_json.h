// Optimizers, losses and metrics in Keras's serialized form.
//
// Internal to io/ and tools/. Each reader takes a JSON text: a name, as "adam"
// or "sparse_categorical_crossentropy" (the quotes may be left out), or Keras's
// {"class_name": "Adam", "config": {…}} with fields omitted that have Keras's
// defaults. A learning rate is a number or one of Keras's schedules.
// What ringlet does not have, and fields that are not known, are errors,
// kInvalidArgument, that name the field and the nearest known. Passed over are
// only an optimizer's, a loss's and a schedule's own name, fn (the function
// behind a class), jit_compile and is_legacy_optimizer. At most 1 MiB and 64
// levels are read.
//
// The writers write what Keras 3 reads, every field there, and of equal values
// the same text.

#ifndef RINGLET_IO_KERAS_COMPILE_JSON_H_
#define RINGLET_IO_KERAS_COMPILE_JSON_H_

#include <string>

#include "../../core/base/status.h"
#include "../../core/model/losses.h"
#include "../../core/model/metrics.h"
#include "../../core/model/optimizers.h"

namespace ringlet {

// SGD, RMSprop, Adam, AdamW.
Status OptimizerFromJson(const std::string& json, Optimizer* optimizer);
std::string ToJson(const Optimizer& optimizer);

Status LossFromJson(const std::string& json, Loss* loss);
// (A custom loss or metric is written without its options, and not read.)
std::string ToJson(const Loss& loss);

// "accuracy" and "acc" stand, as in Keras, for the one of the three accuracies
// that fits the model. Keras's class Accuracy, which asks for equal values, is
// not among ringlet's metrics.
Status MetricFromJson(const std::string& json, Metric* metric);
std::string ToJson(const Metric& metric);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_COMPILE_JSON_H_
