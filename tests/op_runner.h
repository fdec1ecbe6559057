// Runs one layer forward and backward over memory of its own.

#ifndef RINGLET_TESTS_OP_RUNNER_H_
#define RINGLET_TESTS_OP_RUNNER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/random.h"

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

struct OpRun {
  Floats y;
  std::vector<Floats> dx;
  std::vector<Floats> d_weights;
  std::vector<int64_t> ready;  // what the sink was told
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

  std::vector<Floats> RandomWeights(uint64_t seed) const {
    std::vector<Floats> weights;
    for (const WeightSpec& w : op_->weights()) {
      weights.push_back(RandomFloats(static_cast<size_t>(w.shape.elements()),
                                     seed + weights.size()));
    }
    return weights;
  }

  // dy empty: forward only.
  OpRun Run(int64_t batch, const std::vector<Floats>& x,
            std::vector<Floats> weights, Floats dy, int threads = 1) {
    ThreadPool pool(threads);
    OpRun run;
    // Poison, so that what is not written shows.
    run.y.assign(static_cast<size_t>(batch * op_->output().elements()), 1e30f);
    std::vector<const float*> xs;
    std::vector<float*> ws, dxs, dws;
    for (const Floats& v : x) xs.push_back(v.data());
    for (Floats& w : weights) {
      ws.push_back(w.data());
      run.d_weights.push_back(Floats(w.size(), 1e30f));
    }
    for (Floats& d : run.d_weights) dws.push_back(d.data());
    for (const Floats& v : x) run.dx.push_back(Floats(v.size(), 1e30f));
    for (Floats& d : run.dx) dxs.push_back(d.data());
    Floats scratch(op_->forward_scratch(batch, threads) + 1, 1e30f);
    OpCall call;
    call.batch = batch;
    call.x = xs.data();
    call.y = run.y.data();
    call.weights = ws.data();
    call.scratch = scratch.data();
    call.training = training;
    call.seed = 3;
    call.counter = static_cast<uint64_t>(counter);
    call.pool = &pool;
    op_->Forward(call);
    if (dy.empty()) return run;
    scratch.assign(op_->backward_scratch(batch, threads) + 1, 1e30f);
    call.scratch = scratch.data();
    call.dy = dy.data();
    call.dx = dxs.data();
    call.d_weights = dws.data();
    call.weight_offset = 1000;
    call.sink = this;
    ready_.clear();
    op_->Backward(call);
    run.ready = ready_;
    return run;
  }

 private:
  void Ready(int64_t begin) override { ready_.push_back(begin); }
  void Take(int64_t begin, const float*) override { Ready(begin); }

  std::vector<Shape> inputs_;
  std::unique_ptr<Op> op_;
  Status status_;
  std::vector<int64_t> ready_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_OP_RUNNER_H_
