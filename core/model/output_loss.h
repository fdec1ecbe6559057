// OutputLoss: the loss and the metrics of one of a model's outputs.
//
// Public. A plain value, which Model::Compile takes one of for each output.

#ifndef RINGLET_CORE_MODEL_OUTPUT_LOSS_H_
#define RINGLET_CORE_MODEL_OUTPUT_LOSS_H_

#include <string>
#include <utility>
#include <vector>

#include "losses.h"
#include "metrics.h"

namespace ringlet {

// How one output of several is trained, and measured.
//
//   model.Compile(Adam(), {OutputLoss("kind", CategoricalCrossentropy(),
//                                     {Accuracy()}),
//                          OutputLoss("age", MeanSquaredError(), {}, 0.1f)});
struct OutputLoss {
  OutputLoss() = default;
  OutputLoss(std::string of, const Loss& l, std::vector<Metric> m = {},
             float w = 1)
      : output(std::move(of)), loss(l), metrics(std::move(m)), weight(w) {}

  // Its layer's name; empty: that of the same place among the model's outputs.
  std::string output;
  Loss loss;
  bool trains = true;  // false: there is no loss, and there are no targets
  std::vector<Metric> metrics;
  float weight = 1;  // the loss is the sum of the outputs', each times this
};
// Of an output that is not trained.
inline OutputLoss NoLoss(std::string output) {
  OutputLoss none(std::move(output), Loss());
  none.trains = false;
  return none;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_OUTPUT_LOSS_H_
