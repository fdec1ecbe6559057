// Op: the computation of a layer.
//
// An Op is made from a Layer and the shapes of its inputs. It reports the
// memory that it needs, and computes in memory that the model placed. It owns
// no memory but the tables of table_bytes(), keeps no state between calls and
// allocates nothing in Forward and Backward.

#ifndef RINGLET_CORE_LAYERS_OP_H_
#define RINGLET_CORE_LAYERS_OP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "ringlet/compute.h"
#include "ringlet/custom_layer.h"
#include "ringlet/layers.h"
#include "ringlet/status.h"

namespace ringlet {

class MaxPool;

// Gradients of some rows of a matrix with rows of `width`. Row rows[i] is at
// gradients + rows[i] * width. The rows are different.
struct GradientRows {
  int64_t width;
  const int32_t* rows;
  int64_t count;
  const float* gradients;
};

// Receives gradients as they become final, from the last trained weight of the
// model to the first. The gradients [begin, end of the span) are final.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Gradients from `begin` (an offset in the model's gradient span, in floats)
  // on are final. The op does not read their weights again, so these may be
  // updated now. Called from the training thread; `begin` never grows.
  virtual void OnGradientsFinal(int64_t begin) = 0;
  // Called instead of OnGradientsFinal if OpCall::sink_consumes. `gradients`
  // has the gradients from `begin` to the previous call's `begin`, which are
  // not in d_weights. It is valid until ConsumeGradients returns.
  virtual void ConsumeGradients(int64_t begin, const float* gradients) = 0;
  // Called instead of OnGradientsFinal if OpCall::skips_zeros, by an op with
  // one trained weight, a matrix. The gradients of rows that are not in `rows`
  // are zeros.
  virtual void ConsumeRows(int64_t begin, const GradientRows& rows) = 0;
};

// Sums over all workers in the middle of a training step. The op of every
// worker makes the same calls in the same order.
class WorkerSums {
 public:
  virtual ~WorkerSums() = default;
  // values[0 … count) become the sums over all workers, with the same bits on
  // each. An error ends the step, and leaves the values undefined.
  virtual Status Sum(float* values, int64_t count) = 0;
};

// The arguments of one call of Forward or Backward. Spans have `batch`
// consecutive examples. Entries of `weights` and `d_weights` are in the order
// of Op::weights().
struct OpCall {
  int64_t batch = 0;
  const float* const* x = nullptr;  // one for each input
  float* y = nullptr;               // Forward writes it, Backward may read it
  float* const* weights = nullptr;
  // At least forward_scratch(batch) floats in Forward, and at least
  // backward_scratch(batch) in Backward. The op must not use more.
  float* scratch = nullptr;
  bool training = false;
  // Repeats Forward for the backward pass: `saved` has its content, and no
  // state changes.
  bool repeats_forward = false;
  // The saved_floats() that Forward in training leaves for Backward. Null if
  // there are none; do not access them outside training.
  float* saved = nullptr;
  // Forward in training adds here the changes of the op's state that an applied
  // step makes. It does not write the state itself, since a step may be given
  // up. Null for other weights, and for all if changes are not recorded.
  float* const* layer_state_changes = nullptr;
  // Leaves out the activation. Both passes leave out the last activation if the
  // loss takes its input (see Model). The backward pass leaves out an
  // activation if dy already includes its gradient. Only for an op with
  // fused_activation().
  bool without_activation = false;
  uint64_t seed = 0;     // the seed of this op's random numbers
  uint64_t counter = 0;  // the counter of this step
  ThreadPool* pool = nullptr;
  WorkerSums* workers = nullptr;  // null if this is the only worker
  Status* status = nullptr;       // gets an error of the op

  // Backward only. dy may be overwritten. Entries of dx that are not needed are
  // null. The other entries are written, not added to. If dx_may_overwrite_x(),
  // dx[0] may be x[0], the output of `x_activation`; dx then has the gradient
  // of that activation as a factor.
  float* dy = nullptr;
  float* const* dx = nullptr;
  Activation x_activation = kLinear;
  // Null for weights that are not trained: state, and all weights of a frozen
  // op.
  float* const* d_weights = nullptr;
  // The offset of the op's first trained weight in the gradient span.
  int64_t gradient_offset = 0;
  // Nothing reads d_weights after the step: gradients may go to
  // sink->ConsumeGradients directly from scratch, while they are in the cache.
  bool sink_consumes = false;
  // With sink_consumes: a gradient of zero changes no weight, so it may be left
  // out by sink->ConsumeRows.
  bool skips_zeros = false;
  GradientSink* sink = nullptr;
};

// The cost of Forward without matrix products, if it may be repeated for the
// backward pass. It then writes the same bits for the same inputs.
enum class Recompute : uint8_t { kNever, kCheap, kCostly };

class Op {
 public:
  virtual ~Op() = default;

  // Makes the op of `layer` for inputs of these shapes (without batch), or
  // returns an error that names what does not fit.
  static Status Make(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op);

  const Shape& output() const { return output_; }
  const std::vector<WeightSpec>& weights() const { return weights_; }
  // True if y is the memory of x[0] with a different shape, so that nothing is
  // computed.
  virtual bool is_view() const { return false; }
  // The maxima that the op before this one may compute with its own output, if
  // no other op reads that output: it then writes y. Null for other layers.
  virtual const MaxPool* max_pool() const { return nullptr; }
  // Takes the memory of the output and its gradient from this pool, which
  // outlives the op. False if the op cannot do it.
  virtual bool FusePool(const MaxPool&) { return false; }
  // True for a pool that the op before it computes; the pool is then a view.
  bool fused_into_previous() const { return fused_into_previous_; }
  void set_fused_into_previous() { fused_into_previous_ = true; }
  // True if Backward reads the input, or the output.
  virtual bool backward_reads_input() const { return false; }
  virtual bool backward_reads_output() const { return false; }
  virtual Activation fused_activation() const { return kLinear; }
  // Backward can write dx over x, with the gradient of the activation that made
  // x. This saves a pass over memory and a buffer.
  virtual bool dx_may_overwrite_x() const { return false; }
  // Forward accepts y == x[0]: it reads no element of x[0] after it has written
  // that element of y.
  virtual bool may_overwrite_input() const { return false; }
  // Backward accepts dx[input] == dy, for one of the inputs.
  virtual bool dx_may_overwrite_dy(size_t /*input*/) const { return false; }
  virtual Recompute recompute() const { return Recompute::kNever; }
  // `y` is true if each number of y is a number of an input, is 0, or is
  // another number of bfloat16. `dx` is true if each number of dx is a number
  // of dy, the negative of a number of dy, or 0.
  struct ExactResults {
    bool y = false, dx = false;
  };
  virtual ExactResults exact_results() const { return {}; }
  // Floats of scratch that suffice for every batch in 1..batch on this number
  // of threads, so never less for a larger batch. Memory is planned once, for
  // the largest batch.
  virtual uint64_t forward_scratch(int64_t, int) const { return 0; }
  virtual uint64_t backward_scratch(int64_t, int) const { return 0; }
  // Floats that Forward in training leaves for Backward besides input and
  // output. Never less for a larger batch.
  virtual uint64_t saved_floats(int64_t) const { return 0; }
  // Forward in training records layer_state_changes, unless the op is frozen.
  virtual bool changes_state() const { return false; }
  // In training Forward and Backward call OpCall::workers if it is set. A
  // worker without examples calls them with a batch of 0.
  virtual bool synchronizes() const { return false; }
  // True if Backward may write an error to OpCall::status; its gradients are
  // then undefined. Every op's Forward may write one; its output is then
  // undefined.
  virtual bool backward_may_fail() const { return false; }
  // If false, Backward computes no gradient of the input, so that no layer
  // before this one can be trained.
  virtual bool has_gradient() const { return true; }
  // Multiply-adds of one example's forward pass.
  virtual int64_t multiply_adds() const { return 0; }
  // Memory of constants that the op computed from its layer.
  virtual uint64_t table_bytes() const { return 0; }
  // True if none of the op's weights is trained: Backward writes only dx, and
  // does not call the sink. Compile sets it.
  bool frozen() const { return frozen_; }
  virtual void set_frozen(bool frozen) { frozen_ = frozen; }

  virtual void Forward(const OpCall&) const {}
  // Writes dx and d_weights. If some of the op's weights are trained and there
  // is no error, it ends with sink->OnGradientsFinal(gradient_offset).
  virtual void Backward(const OpCall&) const {}

 protected:
  // Adds the weight "bias" (`units`), if the layer has one.
  void AddBias(const Layer& layer, int64_t units);

  Shape output_;
  std::vector<WeightSpec> weights_;

 private:
  bool frozen_ = false;
  bool fused_into_previous_ = false;
};

// Calls body(part) for each thread's part of n elements. All parts but the last
// end at multiples of `grain`.
template <typename Body>
void ForEachPart(const OpCall& call, int64_t n, int64_t grain,
                 const Body& body) {
  call.pool->Run([&](int t) {
    const Range part = Split(n, call.pool->threads(), t, grain);
    if (!part.empty()) body(part);
  });
}

// Calls body(i), or body(i, thread), for each i < n; the threads divide them.
template <typename Body>
void ForEachIndex(const OpCall& call, int64_t n, const Body& body) {
  call.pool->Run([&](int t) {
    const Range part = Split(n, call.pool->threads(), t);
    for (int64_t i = part.begin; i < part.end; ++i) {
      if constexpr (std::is_invocable_v<Body, int64_t, int>) {
        body(i, t);
      } else {
        body(i);
      }
    }
  });
}

// The number of a layer's inputs that are masks; these are the last ones.
size_t CountMasks(const Layer& layer);

// Returns an error if a layer's field `name` is not at least 1.
Status CheckAtLeastOne(const char* name, int64_t value);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_OP_H_
