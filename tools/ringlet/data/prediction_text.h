// PredictionText: a model's outputs as rows of a CSV.

#ifndef RINGLET_TOOLS_RINGLET_DATA_PREDICTION_TEXT_H_
#define RINGLET_TOOLS_RINGLET_DATA_PREDICTION_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/model.h"
#include "ringlet/shape.h"

namespace ringlet {

// The values of one output.
struct Output {
  std::string name;
  Shape shape;  // its first axis is the number of examples
  const float* values = nullptr;
};

// Splits the result of Model::Predict, which has one output after another.
std::vector<Output> SplitOutputs(const Model& model,
                                 const std::vector<float>& values);

// Each row has all outputs for an example. If the model has names of classes
// and was trained by a crossentropy, the class's name and its probability come
// first. A single output is then the probability, or its logit, of class 1 of
// two. Numbers have the fewest digits that read back exactly.
class PredictionText {
 public:
  explicit PredictionText(const Model& model);

  // "class,probability" and a name for each value; empty without names.
  std::string HeaderLine() const;
  // "Gentoo,0.97,0.01,0.02,0.97".
  std::string RowLine(const std::vector<Output>& outputs,
                      int64_t example) const;

 private:
  std::string Name(const float* values) const;

  std::vector<std::string>
      names_;          // the classes' names by number, may be empty
  int64_t width_ = 0;  // outputs of an example
  Activation to_probabilities_ = kLinear;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_PREDICTION_TEXT_H_
