// Runs one layer forward and backward over memory of its own. The memory is
// planned for the batch or for a larger one. There is a guard on both sides of
// every buffer.

#ifndef RINGLET_TESTS_SUPPORT_OP_RUNNER_H_
#define RINGLET_TESTS_SUPPORT_OP_RUNNER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/layers/op.h"
#include "expect_ok.h"
#include "ringlet/compute.h"

namespace ringlet {

using Floats = std::vector<float>;

// Uniform in [-1, 1).
inline Floats RandomFloats(size_t n, uint64_t seed) {
  const Philox random(seed, 77);
  Floats v(n);
  for (size_t i = 0; i < n; ++i) {
    v[i] = 2 * Philox::Unit(random.At(i)[0]) - 1;
  }
  return v;
}

// `size` floats between two guards, filled with a value that shows unwritten
// floats.
class GuardedFloats {
 public:
  static constexpr float kUnwritten = 1e30f;

  explicit GuardedFloats(size_t size)
      : size_(size), floats_(size + 2 * kGuard, kUnwritten) {
    std::fill_n(floats_.begin(), kGuard, kGuardValue);
    std::fill_n(floats_.end() - kGuard, kGuard, kGuardValue);
  }
  explicit GuardedFloats(const Floats& values) : GuardedFloats(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return floats_.data() + kGuard; }
  Floats values() const {
    return Floats(floats_.begin() + kGuard, floats_.end() - kGuard);
  }
  // The guards are unchanged, and so is the buffer from float number `from` on.
  void ExpectUntouched(size_t from, const char* what) const {
    const auto body = floats_.begin() + kGuard;
    const auto end = body + static_cast<ptrdiff_t>(size_);
    ExpectAll(kGuardValue, floats_.begin(), body, what);
    ExpectAll(kUnwritten, body + static_cast<ptrdiff_t>(from), end, what);
    ExpectAll(kGuardValue, end, floats_.end(), what);
  }

 private:
  static constexpr ptrdiff_t kGuard = 256;
  static constexpr float kGuardValue = -7e29f;
  using At = Floats::const_iterator;
  void ExpectAll(float value, At begin, At end, const char* what) const {
    const At other =
        std::find_if(begin, end, [value](float v) { return v != value; });
    EXPECT_TRUE(other == end)
        << what << ": " << *other << " at " << other - floats_.begin() - kGuard
        << " of " << size_;
  }
  size_t size_;
  Floats floats_;
};

struct OpRun {
  Floats y;
  std::vector<Floats> dx;
  std::vector<Floats> d_weights;            // not written for layer state
  std::vector<Floats> layer_state_changes;  // zeros for other weights
  std::vector<int64_t> ready;               // calls of OnGradientsFinal
  Floats taken;  // taken and given, in the order of the weights
};

class OpRunner : private GradientSink {
 public:
  OpRunner(const Layer& layer, const std::vector<Shape>& inputs)
      : inputs_(inputs) {
    status_ = Op::Make(layer, inputs, &op_);
  }
  const Status& status() const { return status_; }
  const Op& op() const { return *op_; }
  int64_t counter = 5;
  bool training = true;
  bool sink_consumes = false, skips_zeros = false;
  bool wants_dx = true;

  std::vector<Floats> RandomWeights(uint64_t seed) const {
    std::vector<Floats> weights;
    for (const WeightSpec& w : op_->weights()) {
      weights.push_back(RandomFloats(static_cast<size_t>(w.shape.elements()),
                                     seed + weights.size()));
    }
    return weights;
  }

  // If dy is empty, only the forward pass runs. `planned` is the batch that the
  // memory is for; 0 means `batch`.
  OpRun Run(int64_t batch, const std::vector<Floats>& x,
            const std::vector<Floats>& weights, const Floats& dy,
            int threads = 1, int64_t planned = 0) {
    planned = std::max(planned, batch);
    ThreadPool pool(threads);
    GuardedFloats y(OutputFloats(planned));
    Buffers ws(weights), dws(Sizes(weights)), dxs(PlannedSizes(x, planned));
    std::vector<const float*> xs;
    for (const Floats& v : x) xs.push_back(v.data());
    GuardedFloats scratch(op_->forward_scratch(planned, threads));
    OpCall call;
    call.batch = batch;
    call.x = xs.data();
    call.y = y.data();
    call.weights = ws.pointers.data();
    call.scratch = scratch.data();
    call.training = training;
    call.seed = 3;
    call.counter = static_cast<uint64_t>(counter);
    GuardedFloats saved(op_->saved_floats(planned));
    call.saved = saved.data();
    std::vector<Floats> zeros;
    for (const Floats& w : weights) zeros.emplace_back(w.size(), 0.0f);
    Buffers changes(zeros);
    call.layer_state_changes = changes.pointers.data();
    KeepTo(/*trained=*/false, &changes.pointers);
    KeepTo(/*trained=*/true, &dws.pointers);
    call.pool = &pool;
    Status failed;
    call.status = &failed;
    op_->Forward(call);
    EXPECT_OK(failed);
    scratch.ExpectUntouched(op_->forward_scratch(batch, threads), "scratch");
    saved.ExpectUntouched(op_->saved_floats(batch), "saved");
    changes.ExpectUntouched(Sizes(weights), "state changes");
    y.ExpectUntouched(OutputFloats(batch), "y");
    ws.ExpectUntouched(Sizes(weights), "weights");
    OpRun run;
    run.y = FirstFloats(y, OutputFloats(batch));
    for (const GuardedFloats& d : changes.buffers) {
      run.layer_state_changes.push_back(d.values());
    }
    if (dy.empty()) return run;
    GuardedFloats backward(op_->backward_scratch(planned, threads));
    GuardedFloats gradient(dy);
    call.scratch = backward.data();
    call.dy = gradient.data();
    if (!wants_dx) std::fill_n(dxs.pointers.begin(), x.size(), nullptr);
    call.dx = dxs.pointers.data();
    call.d_weights = dws.pointers.data();
    call.gradient_offset = 1000;
    call.sink_consumes = sink_consumes;
    call.skips_zeros = skips_zeros;
    call.sink = this;
    ready_.clear();
    taken_.assign(static_cast<size_t>(WeightFloats()),
                  GuardedFloats::kUnwritten);
    taken_to_ = WeightFloats();
    op_->Backward(call);
    EXPECT_OK(failed);
    backward.ExpectUntouched(op_->backward_scratch(batch, threads),
                             "backward scratch");
    gradient.ExpectUntouched(dy.size(), "dy");
    y.ExpectUntouched(OutputFloats(batch), "y");
    ws.ExpectUntouched(Sizes(weights), "weights");
    dxs.ExpectUntouched(Sizes(x), "dx");
    dws.ExpectUntouched(Sizes(weights), "dw");
    for (size_t i = 0; i < x.size(); ++i) {
      run.dx.push_back(FirstFloats(dxs.buffers[i], x[i].size()));
    }
    for (const GuardedFloats& d : dws.buffers) {
      run.d_weights.push_back(d.values());
    }
    run.ready = ready_;
    run.taken = taken_;
    return run;
  }

 private:
  struct Buffers {
    explicit Buffers(const std::vector<size_t>& sizes) {
      for (const size_t size : sizes) buffers.emplace_back(size);
      for (GuardedFloats& b : buffers) pointers.push_back(b.data());
    }
    explicit Buffers(const std::vector<Floats>& values) {
      for (const Floats& v : values) buffers.emplace_back(v);
      for (GuardedFloats& b : buffers) pointers.push_back(b.data());
    }
    void ExpectUntouched(const std::vector<size_t>& from,
                         const char* what) const {
      for (size_t i = 0; i < buffers.size(); ++i) {
        buffers[i].ExpectUntouched(from[i], what);
      }
    }
    std::vector<GuardedFloats> buffers;
    std::vector<float*> pointers;
  };

  // Null for the weights that are of the other kind.
  void KeepTo(bool trained, std::vector<float*>* pointers) const {
    for (size_t i = 0; i < pointers->size(); ++i) {
      if (op_->weights()[i].trainable != trained) (*pointers)[i] = nullptr;
    }
  }
  static std::vector<size_t> Sizes(const std::vector<Floats>& values) {
    std::vector<size_t> sizes;
    for (const Floats& v : values) sizes.push_back(v.size());
    return sizes;
  }
  std::vector<size_t> PlannedSizes(const std::vector<Floats>& x,
                                   int64_t planned) const {
    std::vector<size_t> sizes;
    for (size_t i = 0; i < x.size(); ++i) {
      sizes.push_back(static_cast<size_t>(planned * inputs_[i].elements()));
    }
    return sizes;
  }
  static Floats FirstFloats(const GuardedFloats& buffer, size_t n) {
    Floats values = buffer.values();
    values.resize(n);
    return values;
  }
  size_t OutputFloats(int64_t batch) const {
    return static_cast<size_t>(batch * op_->output().elements());
  }
  int64_t WeightFloats() const {
    int64_t n = 0;
    for (const WeightSpec& w : op_->weights()) n += w.shape.elements();
    return n;
  }

  void OnGradientsFinal(int64_t begin) override {
    ready_.push_back(begin);
    taken_to_ = begin - 1000;
  }
  void ConsumeGradients(int64_t begin, const float* gradients) override {
    std::copy_n(gradients, taken_to_ - (begin - 1000),
                taken_.begin() + (begin - 1000));
    OnGradientsFinal(begin);
  }
  void ConsumeRows(int64_t begin, const GradientRows& rows) override {
    std::fill_n(taken_.begin() + (begin - 1000), taken_to_ - (begin - 1000),
                0.0f);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t at = rows.rows[i] * rows.width;
      std::copy_n(rows.gradients + at, rows.width,
                  taken_.begin() + (begin - 1000) + at);
    }
    OnGradientsFinal(begin);
  }

  std::vector<Shape> inputs_;
  std::unique_ptr<Op> op_;
  Status status_;
  std::vector<int64_t> ready_;
  Floats taken_;
  int64_t taken_to_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_OP_RUNNER_H_
