// CompileArguments: how a model is compiled, as one JSON object.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
#define RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_

#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../../core/model/model.h"

namespace ringlet {

struct CompileArguments {
  Optimizer optimizer;
  Loss loss;
  std::vector<Metric> metrics;
};

// {"optimizer": …, "loss": …, "metrics": […]}, each as compile_json.h has it.
std::string CompileArgumentsToJson(const Model& compiled);
Status CompileArgumentsFromJson(const std::string& text,
                                CompileArguments* arguments);

// Of its learning rate: "0.001", or a schedule's class, "CosineDecay".
std::string DescribeRate(const Optimizer& optimizer);
// In a line: "SGD, learning rate 0.001; SparseCategoricalCrossentropy from
// logits; metrics accuracy".
std::string DescribeCompile(const CompileArguments& arguments);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_COMPILE_ARGUMENTS_H_
