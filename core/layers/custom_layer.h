// CustomLayer: a layer of your own, as a subclass of Keras's Layer.
//
// Public. Build says what the layer gives and which weights it has, Forward and
// Backward compute. It keeps no state of its own: one object may be at work at
// several places of a model, and in several models. samples/custom_parts.cc has
// one whole.
//
//   Sequential model({Input({8}), Custom(std::make_shared<MyLayer>()), …});
//
// Its weights are trained, saved (SaveWeights, BackupAndRestore), regularized
// and summed over workers as any other's. SaveModel, which would have to build
// it again, refuses a model that has one.
//
// Backward is right if CheckGradients (below) says so. Build,
// Forward and Backward may throw where the program has exceptions: what()
// becomes the error of the call. The other methods must not.

#ifndef RINGLET_CORE_LAYERS_CUSTOM_LAYER_H_
#define RINGLET_CORE_LAYERS_CUSTOM_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../base/shape.h"
#include "../base/status.h"
#include "../base/thread_pool.h"
#include "initializers.h"
#include "layers.h"

namespace ringlet {

struct WeightSpec {
  std::string name;  // "kernel", "bias"; of one layer no two alike
  Shape shape;
  Initializer initializer;
  Regularizer regularizer;
  // False: state, which is kept and saved with the weights and never trained.
  // Of one layer it comes after what is trained, as Keras orders them.
  bool trainable = true;
};

// Floats that a call works with and nobody keeps.
struct ScratchFloats {
  int64_t fixed = 0;
  int64_t per_example = 0;
  int64_t per_thread = 0;
};

// What a layer is over inputs of certain shapes (of one example).
struct LayerPlan {
  Shape output;
  std::vector<WeightSpec> weights;
  ScratchFloats forward_scratch, backward_scratch;
  // What Backward reads of the forward pass. What it does not read need not be
  // kept until then, and is null in its call.
  bool backward_reads_input = true;
  bool backward_reads_output = true;
};

// What one call of Forward or Backward works on: `batch` examples one after
// another. What is not said to be written is not the layer's to write.
struct LayerCall {
  int64_t batch = 0;  // >= 1
  bool training = false;
  const Shape* inputs = nullptr;    // of one example, as Build was told …
  const Shape* output = nullptr;    // … and as it said
  const float* const* x = nullptr;  // one for each input: (batch, inputs[i])
  float* y = nullptr;               // (batch, output). Forward writes all of it
  const float* const* weights = nullptr;  // in the order of the plan
  float* scratch = nullptr;  // as planned, of any content; null for none
  // For random numbers, as Philox(seed, counter) in random.h: a layer's own,
  // others at each step, in Backward the same as in Forward.
  uint64_t seed = 0, counter = 0;

  // Backward only. dy is the gradient of y. What dx and d_weights point to is
  // zero, and becomes the gradients of x and of the weights, summed over the
  // batch. Null in dx: nobody asks for that one. Those of d_weights that nobody
  // asks for, since the layer is frozen or the weight is state, are thrown
  // away.
  const float* dy = nullptr;
  float* const* dx = nullptr;
  float* const* d_weights = nullptr;

  ThreadPool* pool = nullptr;
  int threads() const { return pool->threads(); }
  // Calls body(begin, end) for ranges that make up [0, n), on all threads. An
  // exception in it ends the program.
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

  // Keras's class name, "Scale"; a layer without a name is "scale", "scale_1".
  virtual const char* class_name() const = 0;
  // Its options in a line, as far as they change numbers: the workers of a job
  // compare them.
  virtual std::string Describe() const { return ""; }

  // Checks the inputs and fills in the plan, whose output is that of the first
  // input at first. Always the same for the same shapes.
  virtual Status Build(const std::vector<Shape>& inputs,
                       LayerPlan* plan) const = 0;
  // An error ends the step, and Fit, with it.
  virtual Status Forward(const LayerCall& call) const = 0;
  // With weights or without; where nothing before the layer is trained either,
  // it is not called.
  virtual Status Backward(const LayerCall& call) const = 0;
};

Layer Custom(std::shared_ptr<const CustomLayer> layer);

// CheckGradients: whether Backward is the derivative of Forward, for the tests
// of a layer of your own.

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

#endif  // RINGLET_CORE_LAYERS_CUSTOM_LAYER_H_
