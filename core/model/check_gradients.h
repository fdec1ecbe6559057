// CheckGradients: whether a layer's Backward is the derivative of its Forward.
//
// Public. For the tests of a layer of your own (custom_layer.h).

#ifndef RINGLET_CORE_MODEL_CHECK_GRADIENTS_H_
#define RINGLET_CORE_MODEL_CHECK_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "../base/shape.h"
#include "../base/status.h"
#include "../layers/layers.h"

namespace ringlet {

struct GradientCheck {
  int64_t batch = 3;
  int threads = 1;
  uint64_t seed = 1;       // of inputs, weights and gradients in [-1, 1)
  float distance = 1e-2f;  // of the two values of a difference
  // By which gradient and difference may differ, for slopes above 1 of them.
  double tolerance = 2e-2;
};

// Runs the layer over inputs of these shapes (of one example), and compares
// each gradient with a central difference: so not for large shapes, nor near
// kinks. An error names the first value that is wrong, or the buffer of which
// more was written than is the layer's.
Status CheckGradients(const Layer& layer, const std::vector<Shape>& inputs,
                      const GradientCheck& check = {});

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_CHECK_GRADIENTS_H_
