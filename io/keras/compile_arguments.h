// CompileArguments: how a model is compiled, as one JSON object.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
#define RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/status.h"
#include "../../core/model/model.h"
#include "field_reader.h"

namespace ringlet {

// What is given of each output: by the outputs' names, or by order.
template <typename T>
struct ByOutput {
  enum class Form : uint8_t { kAll, kOrder, kNames };
  Form form = Form::kOrder;  // kAll: one value, that of each
  std::vector<std::pair<std::string, T>> values;
  bool nested = false;  // a list holds lists
};

struct CompileArguments {
  Optimizer optimizer;
  ByOutput<std::optional<Loss>> losses;
  ByOutput<float> weights;  // none: each is 1
  // Of a model of one output a list by order is of its metrics.
  ByOutput<std::vector<Metric>> metrics, weighted_metrics;
};

// {"optimizer": …, "loss": …, "metrics": […]}, each as compile_json.h has it;
// and "weighted_metrics" and "loss_weights", where there are any. Of a model of
// several outputs the others are lists by output.
std::string CompileArgumentsToJson(const Model& compiled);
Status CompileArgumentsFromJson(const std::string& text,
                                CompileArguments* arguments);
// The fields of all but the optimizer.
void ReadCompileFields(FieldReader* fields, CompileArguments* arguments);
// Compiles a model, for whose outputs the arguments are; an error is the
// model's status.
Status Compile(const CompileArguments& arguments, const CompileOptions& options,
               Model* model);

// Of its learning rate: "0.001", or a schedule's class, "CosineDecay".
std::string DescribeRate(const Optimizer& optimizer);
// In a line: "SGD, learning rate 0.001; SparseCategoricalCrossentropy from
// logits; metrics accuracy".
std::string DescribeCompile(const CompileArguments& arguments);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
