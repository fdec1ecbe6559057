// CompileArguments: the arguments of Compile as one JSON object.

#ifndef RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
#define RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "field_reader.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Values for the outputs: by the outputs' names, or in their order.
template <typename T>
struct ByOutput {
  enum class Form : uint8_t { kAll, kOrder, kNames };
  Form form = Form::kOrder;  // kAll: one value for all outputs
  std::vector<std::pair<std::string, T>> values;
  bool nested = false;  // a list holds lists
};

struct CompileArguments {
  Optimizer optimizer;
  ByOutput<std::optional<Loss>> losses;
  ByOutput<float> weights;  // empty if each is 1
  // In a model with one output a list in order has its metrics.
  ByOutput<std::vector<Metric>> metrics, weighted_metrics;
};

// {"optimizer": …, "loss": …, "metrics": […]}, each in the form of
// compile_json.h, and "weighted_metrics" and "loss_weights" if there are any.
// With several outputs all but the optimizer are lists by output.
std::string CompileArgumentsToJson(const Model& compiled);
Status CompileArgumentsFromJson(const std::string& text,
                                CompileArguments* arguments);
// Reads all fields but the optimizer.
void ReadCompileFields(FieldReader* fields, CompileArguments* arguments);
// Compiles a model with these arguments. An error becomes the model's status.
Status Compile(const CompileArguments& arguments, const CompileOptions& options,
               Model* model);

// The learning rate: "0.001", or a schedule's class, "CosineDecay".
std::string DescribeRate(const Optimizer& optimizer);
// One line: "SGD, learning rate 0.001; SparseCategoricalCrossentropy from
// logits; metrics accuracy".
std::string DescribeCompile(const CompileArguments& arguments);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
