// Op: a layer at work.
//
// Internal to core/. An Op is made from a Layer and the shapes of its inputs,
// says what memory it will want, and computes over memory that the model
// placed. It owns none, keeps no state between calls and allocates nothing in
// Forward and Backward.

#ifndef RINGLET_CORE_LAYERS_OP_H_
#define RINGLET_CORE_LAYERS_OP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../base/status.h"
#include "../base/thread_pool.h"
#include "custom_layer.h"
#include "layers.h"

namespace ringlet {

class MaxPool;

// Told as gradients become final. They do so from the last trained weight of
// the model to the first, so the final ones are always the end of the gradient
// span.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Gradients from `begin` (an offset in the model's gradient span, in floats)
  // on are final, and the op will read the weights they belong to no more:
  // they may be updated at once. Called from the training thread, `begin`
  // never growing.
  virtual void Ready(int64_t begin) = 0;
  // The same, where OpCall::sink_takes: the gradients from `begin` to the last
  // call's stand at `gradients` until this returns, and not in d_weights.
  virtual void Take(int64_t begin, const float* gradients) = 0;
};

// What an op has of the other workers in the middle of a training step. The op
// of every worker makes the same calls in the same order.
class WorkerSums {
 public:
  virtual ~WorkerSums() = default;
  // values[0 … count) become the sums of all workers', the same bits on each.
  // After an error, which ends the step, they are undefined.
  virtual Status Sum(float* values, int64_t count) = 0;
};

// What one call of Forward or Backward works on. Spans hold `batch` examples
// one after another. Entries of `weights` and `d_weights` are in the order of
// Op::weights().
struct OpCall {
  int64_t batch = 0;
  const float* const* x = nullptr;  // one for each input
  float* y = nullptr;               // Forward writes it, Backward may read it
  float* const* weights = nullptr;
  // forward_scratch() or backward_scratch() floats of a batch >= `batch`, of
  // which those of `batch` may be touched.
  float* scratch = nullptr;
  bool training = false;
  // Forward once more, for the backward pass: what it saved is there, and no
  // state changes.
  bool again = false;
  // saved_floats(), which Forward while training leaves for Backward; null
  // where there are none, and not to be touched where nothing trains.
  float* saved = nullptr;
  // Forward while training adds here what the op's state is to change by once
  // the step is applied, and leaves the state itself alone: a step may be given
  // up. Null for other weights, and for all where nothing is to be noted.
  float* const* state_changes = nullptr;
  // The activation is left out: forward and backward of the last one, where
  // the loss takes its input (see Model); backward, where dy holds its gradient
  // already. Only for an op with fused_activation().
  bool without_activation = false;
  uint64_t seed = 0;     // for this op's random numbers …
  uint64_t counter = 0;  // … at this step
  ThreadPool* pool = nullptr;
  WorkerSums* workers = nullptr;  // null where this is the only one
  Status* status = nullptr;       // becomes the error of an op that may_fail()

  // Backward only. dy may be overwritten. Entries of dx are null where nobody
  // asks for them; others are written, not added to. Where the op
  // replaces_input() dx[0] may be x[0], the output of `x_activation`, whose
  // gradient is then a factor of dx.
  float* dy = nullptr;
  float* const* dx = nullptr;
  Activation x_activation = kLinear;
  // Null for weights that are not trained: all of them where the op is frozen,
  // or state.
  float* const* d_weights = nullptr;
  // Of the op's first trained weight in the gradient span.
  int64_t gradient_offset = 0;
  // Nobody reads d_weights after the step: gradients may be given to
  // sink->Take from scratch, still in cache, and be forgotten.
  bool sink_takes = false;
  GradientSink* sink = nullptr;
};

// What Forward costs beside a product of matrices, if it may be run once more
// for the backward pass: it then writes the same bits over the same inputs.
enum class Recompute : uint8_t { kNever, kCheap, kCostly };

class Op {
 public:
  virtual ~Op() = default;

  // The op for `layer` over inputs of these shapes (without batch), or an
  // error that says what does not fit.
  static Status Make(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op);

  const Shape& output() const { return output_; }
  const std::vector<WeightSpec>& weights() const { return weights_; }
  // y is the bytes of x[0] under another shape; nothing is computed.
  virtual bool is_view() const { return false; }
  // Maxima that the op which makes x[0] may compute with its own output, where
  // nobody else takes that: it then writes y. Null for other layers.
  virtual const MaxPool* max_pool() const { return nullptr; }
  // Output and its gradient are those of this pool from now on, which outlives
  // the op; false where the op knows of none.
  virtual bool TakePool(const MaxPool&) { return false; }
  // Of a pool that was taken, which is a view then.
  bool joined() const { return joined_; }
  void set_joined() { joined_ = true; }
  // What Backward reads.
  virtual bool keeps_input() const { return false; }
  virtual bool keeps_output() const { return false; }
  virtual Activation fused_activation() const { return kLinear; }
  // Backward can write dx over x, with the gradient of the activation that
  // made x: a pass over memory less, and a buffer less.
  virtual bool replaces_input() const { return false; }
  // Forward may be given y == x[0]: it reads no place of x[0] once it has
  // written that place of y.
  virtual bool may_overwrite_input() const { return false; }
  // Backward may be given dx[input] == dy, for one of the inputs.
  virtual bool dx_over_dy(size_t) const { return false; }
  virtual Recompute recompute() const { return Recompute::kNever; }
  // Floats of scratch that suffice for every batch in 1..batch on so many
  // threads: never less for a larger batch. Memory is planned once, for the
  // largest batch, and used for all of them.
  virtual uint64_t forward_scratch(int64_t, int) const { return 0; }
  virtual uint64_t backward_scratch(int64_t, int) const { return 0; }
  // Floats that Forward while training leaves for Backward besides input and
  // output; never less for a larger batch.
  virtual uint64_t saved_floats(int64_t) const { return 0; }
  // Forward while training notes state_changes, unless the op is frozen.
  virtual bool changes_state() const { return false; }
  // While training Forward and Backward call OpCall::workers where it is given.
  // A worker without examples then calls them with a batch of 0.
  virtual bool synchronizes() const { return false; }
  // The op may leave an error in OpCall::status, and then undefined output.
  virtual bool may_fail() const { return false; }
  // Multiply-adds of one example's forward pass.
  virtual int64_t multiply_adds() const { return 0; }
  // None of its weights is trained: Backward writes dx alone, and tells the
  // sink nothing. Chosen when a model is compiled.
  bool frozen() const { return frozen_; }
  virtual void set_frozen(bool frozen) { frozen_ = frozen; }

  virtual void Forward(const OpCall&) const {}
  // Writes dx and d_weights, and ends with sink->Ready(gradient_offset) where
  // some of the op's weights are trained and there is no error.
  virtual void Backward(const OpCall&) const {}

 protected:
  Shape output_;
  std::vector<WeightSpec> weights_;

 private:
  bool frozen_ = false;
  bool joined_ = false;
};

// body(part) for each thread's part of n elements, all but the last cut at
// multiples of `grain`.
template <typename Body>
void ForEachPart(const OpCall& call, int64_t n, int64_t grain,
                 const Body& body) {
  call.pool->Run([&](int t) {
    const Range part = Split(n, call.pool->threads(), t, grain);
    if (!part.empty()) body(part);
  });
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_OP_H_
