// CustomLayer: a user-defined layer, as a subclass of Keras's Layer.
//
// Build sets the layer's output and weights; Forward and Backward compute. The
// object has no state of its own, so several places and models may use it.
//
//   Sequential model({Input({8}), Custom(std::make_shared<MyLayer>()), …});
//
// samples/custom_parts.cc is a complete program. The layer's weights are
// trained, saved, regularized and summed over workers as the weights of any
// layer; only SaveModel refuses it. Compile the program with -ffp-contract=off,
// as pkg-config, CMake and Meson do, so that workers of different processors
// compute the same bits.
//
// Build, Forward and Backward may throw: what() becomes the error of the call.
// The other methods must not throw.

#ifndef RINGLET_CUSTOM_LAYER_H_
#define RINGLET_CUSTOM_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compute.h"
#include "layers.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

struct WeightSpec {
  std::string name;  // "kernel", "bias"; unique in the layer
  Shape shape;
  Initializer initializer;
  Regularizer regularizer;
  Constraint constraint = {};
  // If false, the weight is layer state. As in Keras, layer state comes after
  // all trainable weights.
  bool trainable = true;
  // The elements in this range begin as 1, not as the initializer's values.
  Range ones = {};
};

// Temporary floats of a call.
struct ScratchFloats {
  int64_t fixed = 0;
  int64_t per_example = 0;
  int64_t per_thread = 0;
};

// The properties of a layer for inputs of certain shapes (of one example).
struct LayerPlan {
  Shape output;
  std::vector<WeightSpec> weights;
  ScratchFloats forward_scratch, backward_scratch;
  // If false, Backward does not read the input, or the output, of the forward
  // pass, and gets null.
  bool backward_reads_input = true;
  bool backward_reads_output = true;
};

// One call for `batch` consecutive examples. The layer writes only y, scratch,
// dx and d_weights.
struct LayerCall {
  int64_t batch = 0;  // >= 1
  bool training = false;
  const Shape* inputs = nullptr;    // the shapes passed to Build
  const Shape* output = nullptr;    // the shape that Build has set
  const float* const* x = nullptr;  // one for each input: (batch, inputs[i])
  float* y = nullptr;               // (batch, output). Forward writes all of it
  const float* const* weights = nullptr;  // in the plan's order
  float* scratch = nullptr;  // as large as planned, any content; or null
  // The arguments of Philox(seed, counter) for this layer. They are new in each
  // step, and the same in Backward as in Forward.
  uint64_t seed = 0, counter = 0;

  // Backward only. dy is y's gradient. dx and d_weights begin as zeros and
  // become the gradients, summed over the batch. A null in dx is not needed.
  const float* dy = nullptr;
  float* const* dx = nullptr;
  float* const* d_weights = nullptr;

  ThreadPool* pool = nullptr;
  int threads() const { return pool->threads(); }
  // Calls body(begin, end) for parts of [0, n) on all threads. An exception in
  // `body` ends the program.
  template <typename Body>
  void Parallel(int64_t n, const Body& body) const {
    pool->Run([&](int t) noexcept {
      const Range part = Split(n, pool->threads(), t);
      if (!part.empty()) body(part.begin, part.end);
    });
  }
};

class CustomLayer {
 public:
  virtual ~CustomLayer() = default;

  // Keras's class name, "Scale". Default names are "scale", "scale_1".
  virtual const char* class_name() const = 0;
  // The layer's options in one line, if they change numbers. Workers compare
  // this line.
  virtual std::string Describe() const { return ""; }

  // Sets the plan; `output` begins as the first input's shape. The same shapes
  // must give the same plan.
  virtual Status Build(const std::vector<Shape>& inputs,
                       LayerPlan* plan) const = 0;
  // An error ends the step and the Fit.
  virtual Status Forward(const LayerCall& call) const = 0;
  // Backward is not called if neither the layer nor a layer before it is
  // trained.
  virtual Status Backward(const LayerCall& call) const = 0;
};

Layer Custom(std::shared_ptr<const CustomLayer> layer);

struct GradientCheck {
  int64_t batch = 3;
  int threads = 1;
  // The seed of inputs, weights and gradients in [-1, 1).
  uint64_t seed = 1;
  float distance = 1e-2f;  // between a number and each point of its difference
  // The permitted difference between both slopes. It is relative to slopes
  // above 1.
  double tolerance = 2e-2;
};

// Compares each gradient of Backward with a central difference of Forward. It
// is slow for large shapes and wrong near kinks. The error names the first
// wrong value, or the buffer that was written beyond its end.
Status CheckGradients(const Layer& layer, const std::vector<Shape>& inputs,
                      const GradientCheck& check = {});

}  // namespace ringlet

#endif  // RINGLET_CUSTOM_LAYER_H_
