// Checks for every layer. The gradients match the outputs. The results have the
// same bits on any number of threads, and in memory planned for more.

#ifndef RINGLET_TESTS_SUPPORT_OP_CHECKS_H_
#define RINGLET_TESTS_SUPPORT_OP_CHECKS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "expect_ok.h"
#include "op_runner.h"

namespace ringlet {

inline double Dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

inline void ExpectClose(const Floats& actual, const Floats& expected,
                        double tol) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tol) << "at " << i;
  }
}

inline std::vector<Floats> RandomInputs(const std::vector<Shape>& shapes,
                                        int64_t batch) {
  std::vector<Floats> x;
  for (const Shape& s : shapes) {
    x.push_back(RandomFloats(static_cast<size_t>(batch * s.elements()),
                             100 + x.size()));
  }
  return x;
}

// Compares Backward with central differences of sum(y * dy) in every input and
// weight, or in a part of large ones.
inline void CheckGradients(const Layer& layer, const std::vector<Shape>& shapes,
                           int64_t batch, int threads = 1) {
  SCOPED_TRACE(ClassName(layer));
  OpRunner runner(layer, shapes);
  ASSERT_OK(runner.status());
  std::vector<Floats> x = RandomInputs(shapes, batch);
  std::vector<Floats> w = runner.RandomWeights(7);
  const Floats dy = RandomFloats(
      static_cast<size_t>(batch * runner.op().output().elements()), 55);
  const OpRun run = runner.Run(batch, x, w, dy, threads);
  const std::vector<WeightSpec>& specs = runner.op().weights();
  if (std::any_of(specs.begin(), specs.end(),
                  [](const WeightSpec& spec) { return spec.trainable; })) {
    EXPECT_EQ(run.ready.back(), 1000);
    EXPECT_TRUE(std::is_sorted(run.ready.rbegin(), run.ready.rend()));
  }
  const float h = 1e-2f;
  const auto check = [&](Floats* values, const Floats& gradient) {
    const size_t stride = std::max<size_t>(1, values->size() / 60);
    for (size_t i = 0; i < values->size(); i += stride) {
      const float saved = (*values)[i];
      (*values)[i] = saved + h;
      const double up = Dot(runner.Run(batch, x, w, {}, threads).y, dy);
      (*values)[i] = saved - h;
      const double down = Dot(runner.Run(batch, x, w, {}, threads).y, dy);
      (*values)[i] = saved;
      const double slope = (up - down) / (2 * h);
      EXPECT_NEAR(gradient[i], slope, 2e-2 * std::max(1.0, std::fabs(slope)))
          << "at " << i;
    }
  };
  for (size_t k = 0; k < x.size(); ++k) check(&x[k], run.dx[k]);
  for (size_t k = 0; k < w.size(); ++k) {
    if (runner.op().weights()[k].trainable) check(&w[k], run.d_weights[k]);
  }
}

// A layer that runs on random numbers.
class RandomOp : public OpRunner {
 public:
  RandomOp(const Layer& layer, const std::vector<Shape>& shapes, int64_t batch)
      : OpRunner(layer, shapes), batch_(batch) {
    EXPECT_OK(status());
    if (!status().ok()) return;
    x_ = RandomInputs(shapes, batch);
    w_ = RandomWeights(7);
    dy_ =
        RandomFloats(static_cast<size_t>(batch * op().output().elements()), 55);
  }
  OpRun Run(int threads, int64_t planned = 0) {
    return OpRunner::Run(batch_, x_, w_, dy_, threads, planned);
  }

 private:
  int64_t batch_;
  std::vector<Floats> x_, w_;
  Floats dy_;
};

// Expects that the layer writes the same on one thread and on several, and with
// memory for a larger batch.
inline void ExpectSameBits(const Layer& layer, const std::vector<Shape>& shapes,
                           int64_t batch) {
  SCOPED_TRACE(ClassName(layer));
  RandomOp op(layer, shapes, batch);
  ASSERT_OK(op.status());
  const OpRun one = op.Run(1);
  for (const int threads : {2, 3, 5}) {
    for (const int64_t planned : {batch, batch + 1, 3 * batch + 7}) {
      const OpRun run = op.Run(threads, planned);
      EXPECT_EQ(run.y, one.y) << threads;
      EXPECT_EQ(run.dx, one.dx) << threads;
      EXPECT_EQ(run.d_weights, one.d_weights) << threads;
    }
  }
}

// Expects that each gradient is the same if the other is not computed.
inline void ExpectSameGradientsAlone(Layer layer,
                                     const std::vector<Shape>& shapes,
                                     int64_t batch) {
  SCOPED_TRACE(ClassName(layer));
  RandomOp op(layer, shapes, batch);
  ASSERT_OK(op.status());
  const OpRun both = op.Run(2);
  op.wants_dx = false;
  EXPECT_EQ(op.Run(2).d_weights, both.d_weights);
  const OpRun frozen = RandomOp(layer.Trainable(false), shapes, batch).Run(2);
  EXPECT_EQ(frozen.dx, both.dx);
  EXPECT_TRUE(frozen.ready.empty());
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_OP_CHECKS_H_
