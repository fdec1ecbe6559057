#include "reconstruction.h"

#include <cmath>

namespace ringlet {

Status CheckReconstructs(const Model& model) {
  if (model.num_inputs() != 1 || model.num_outputs() != 1) {
    return InvalidArgument(
        "an anomaly score needs a model of one input and one output; this "
        "model has %d and %d",
        model.num_inputs(), model.num_outputs());
  }
  const Shape in = model.output_shape(0),
              out = model.output_shape(model.output_node(0));
  if (in.elements() == out.elements()) return Status();
  return InvalidArgument(
      "an anomaly score is the error of an autoencoder, with an output of the "
      "input's size; this model's input is %s and its output %s",
      in.ToString().c_str(), out.ToString().c_str());
}

float ComputeError(ReconstructionError error, const float* x, const float* y,
                   int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = double{y[i]} - double{x[i]};
    sum += error == ReconstructionError::kSquared ? d * d : std::fabs(d);
  }
  return static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace ringlet
