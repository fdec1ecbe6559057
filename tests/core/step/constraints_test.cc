// Constraints against a float64 reference: alone, and after each update of a
// training, on any number of threads and workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/layers/constraints.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

using Kind = Constraint::Kind;

// The norm's number that each element of a weight belongs to.
std::vector<size_t> NormsOf(const Constraint& c, const Shape& shape) {
  std::vector<size_t> norms;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i, norm = 0, stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const int64_t at = rest % shape[axis];
      rest /= shape[axis];
      const bool summed =
          c.axis.empty() ||
          std::any_of(c.axis.begin(), c.axis.end(), [&](int64_t a) {
            return a == axis || a + shape.rank() == axis;
          });
      norm += summed ? 0 : at * stride;
      stride *= shape[axis];
    }
    norms.push_back(static_cast<size_t>(norm));
  }
  return norms;
}

// Keras's formulas in float64.
std::vector<double> Expected(const Constraint& c, const Shape& shape,
                             const Floats& weights) {
  std::vector<double> result(weights.begin(), weights.end());
  if (c.kind == Kind::kNonNeg) {
    for (double& w : result) w = std::max(w, 0.0);
    return result;
  }
  const std::vector<size_t> norms = NormsOf(c, shape);
  std::vector<double> squares(weights.size(), 0);
  for (size_t i = 0; i < result.size(); ++i) {
    squares[norms[i]] += result[i] * result[i];
  }
  for (size_t i = 0; i < result.size(); ++i) {
    const double norm = std::sqrt(squares[norms[i]]);
    const double rate = double{c.rate};
    const double desired =
        c.kind == Kind::kUnitNorm
            ? 1
            : rate * std::min(std::max(norm, double{c.min_value}),
                              double{c.max_value}) +
                  (1 - rate) * norm;
    result[i] *= desired / (1e-7 + norm);
  }
  return result;
}

void ExpectNear(const Floats& weights, const std::vector<double>& expected,
                double by) {
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(double{weights[i]}, expected[i], by) << i;
  }
}

TEST(ConstraintsTest, Constrain_AnyKindAndShape_EqualsKeras) {
  const struct {
    Shape shape;
    std::vector<int64_t> axis;
  } cases[] = {{{7}, {0}},
               {{5, 150}, {0}},
               {{5, 150}, {1}},
               {{5, 150}, {}},
               {{70, 3}, {-1}},
               {{70, 3}, {-2}},
               {{3, 2, 5, 70}, {0, 1, 2}},
               {{3, 2, 5, 70}, {0, 1}},
               {{3, 2, 5, 70}, {1, 3}},
               {{3, 4, 5}, {0, -1}},
               {{3, 4, 5}, {1}}};
  uint64_t seed = 1;
  for (const auto& [shape, axis] : cases) {
    const auto size = static_cast<size_t>(shape.elements());
    for (const Constraint& c :
         {MaxNorm(0.5f, axis), NonNeg(), UnitNorm(axis),
          MinMaxNorm(1.5f, 3, 1, axis), MinMaxNorm(0.5f, 1, 0.25f, axis)}) {
      SCOPED_TRACE(shape.ToString() + " " + ConstraintText(c));
      ASSERT_OK(CheckConstraint(c, shape));
      const Floats weights = RandomFloats(size, ++seed);
      Floats one;
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        GuardedFloats result(weights);
        Constrain(c, shape, &pool, result.data());
        result.ExpectUntouched(size, "weights");
        if (threads == 1) one = result.values();
        EXPECT_EQ(result.values(), one) << threads << " threads";
      }
      ExpectNear(one, Expected(c, shape, weights), 1e-6);
    }
  }
}

TEST(ConstraintsTest, Constrain_ZerosAndNotANumber_EqualKeras) {
  ThreadPool pool(1);
  for (const Constraint& c : {MaxNorm(), UnitNorm(), MinMaxNorm(0.5f, 1)}) {
    float zeros[3] = {};
    Constrain(c, {3}, &pool, zeros);
    for (const float w : zeros) EXPECT_EQ(w, 0);
    float broken[2] = {1, std::nanf("")};
    Constrain(c, {2}, &pool, broken);
    EXPECT_TRUE(std::isnan(broken[0]) && std::isnan(broken[1]));
  }
  float broken[3] = {-1, std::nanf(""), 2};
  Constrain(NonNeg(), {3}, &pool, broken);
  EXPECT_EQ(broken[0], 0);
  EXPECT_TRUE(std::isnan(broken[1]));
}

TEST(ConstraintsTest, Compile_WrongConstraint_NamesTheWeight) {
  const auto error = [](const Constraint& c) {
    Sequential model({Input({4}), Dense(3).KernelConstraint(c)});
    return std::string(model.status().message());
  };
  EXPECT_TRUE(Contains(error(MaxNorm(2, {2})), "kernel"));
  EXPECT_TRUE(Contains(error(MaxNorm(2, {2})), "the axis 2"));
  EXPECT_TRUE(Contains(error(UnitNorm({-3})), "(4, 3)"));
  EXPECT_TRUE(Contains(error(MaxNorm(-1)), "max_value"));
  EXPECT_TRUE(Contains(error(MinMaxNorm(2, 1)), "min_value"));
  EXPECT_TRUE(Contains(error(MinMaxNorm(0, 1, 1.5f)), "rate 1.5"));
  Sequential other({Input({4, 4, 1}), Flatten().KernelConstraint(NonNeg())});
  EXPECT_FALSE(other.status().ok());
}

// --- training ----------------------------------------------------------------

constexpr int64_t kWidth = 2;

struct Setting {
  Optimizer optimizer = SGD(0.1f);
  bool constrained = true;
  int threads = 1, replicas = 0;
  LocalUpdates local;
};

std::unique_ptr<Model> Make(const Setting& s, Collective* collective) {
  Constraint kernel, bias, gamma;
  if (s.constrained) {
    kernel = MinMaxNorm(0.4f, 0.6f, 0.5f);
    bias = NonNeg();
    gamma = MaxNorm(5);
  }
  auto model = std::make_unique<Sequential>();
  model->Add(Input({kWidth}));
  model->Add(Dense(80, kTanh).KernelConstraint(kernel).BiasConstraint(bias));
  model->Add(LayerNormalization().GammaConstraint(gamma));
  model->Add(Dense(3).KernelConstraint(s.constrained ? UnitNorm({1}) : kernel));
  CompileOptions options(collective);
  options.threads = s.threads;
  options.replicas = s.replicas;
  options.local = s.local;
  model->Compile(s.optimizer, SparseCategoricalCrossentropy(kFromLogits), {},
                 options);
  EXPECT_OK(model->status());
  return model;
}

void Step(Model* model, uint64_t step) {
  const Floats x = RandomFloats(8 * kWidth, 100 + step);
  std::vector<int32_t> y;
  for (int i = 0; i < 8; ++i) y.push_back((i * 5 + static_cast<int>(step)) % 3);
  Batch batch;
  batch.count = batch.global_count = 8;
  batch.x = x.data();
  batch.y = y.data();
  ASSERT_OK(model->TrainStep(batch));
}

// One optimizer only adds gradients in some steps, and one updates weights as
// soon as their gradients are final.
TEST(ConstraintsTest, TrainStep_AnyOptimizer_ConstrainsAfterTheUpdate) {
  for (const Optimizer& optimizer :
       {SGD(0.1f, 0.9f), SGD(0.1f).GlobalClipNorm(0.5f),
        SGD(0.1f).GradientAccumulationSteps(2)}) {
    Setting plain;
    plain.optimizer = optimizer;
    Setting constrained = plain;
    constrained.threads = 2;
    plain.constrained = false;
    const auto expected = Make(plain, nullptr),
               model = Make(constrained, nullptr);
    for (uint64_t step = 0; step < 6; ++step) {
      Step(expected.get(), step);
      Step(model.get(), step);
      for (const Variable& v : model->variables()) {
        if (v.constraint.empty()) continue;
        float* const w = expected->weights() + v.offset;
        const std::vector<double> now =
            Expected(v.constraint, v.shape, Floats(w, w + v.shape.elements()));
        std::copy(now.begin(), now.end(), w);
      }
      const Floats weights = WeightsOf(expected.get());
      ExpectNear(WeightsOf(model.get()), {weights.begin(), weights.end()},
                 2e-5);
    }
  }
}

TEST(ConstraintsTest, TrainStep_FrozenLayer_KeepsItsWeights) {
  Sequential model({Input({kWidth}),
                    Dense(4).Trainable(false).KernelConstraint(NonNeg()),
                    Dense(3)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {});
  const Floats before = WeightsOf(&model);
  Step(&model, 1);
  const Floats after = WeightsOf(&model);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 12, after.begin()));
  EXPECT_LT(*std::min_element(after.begin(), after.begin() + 8), 0);
}

Floats Fitted(const Setting& setting, Collective* collective) {
  const auto model = Make(setting, collective);
  FitOptions fit = Quiet(2);
  fit.check_replicas_every = 1;
  EXPECT_OK(model->Fit(Points(50, 7).Shuffle(3).Batch(16), fit).status());
  return WeightsOf(model.get());
}

// With local updates each replica constrains its own weights.
TEST(ConstraintsTest, Fit_ThreeWorkers_HasTheBitsOfOne) {
  LocalUpdates local;
  local.steps = 2;
  for (const LocalUpdates& updates : {LocalUpdates(), local}) {
    for (const Optimizer& optimizer :
         {Adam(0.01f), SGD(0.1f).GlobalClipNorm(0.5f)}) {
      Setting setting;
      setting.optimizer = optimizer;
      setting.replicas = 3;
      setting.local = updates;
      const Floats one = Fitted(setting, nullptr);
      setting.threads = 2;
      RunRanks(3, [&](Collective* collective) {
        EXPECT_TRUE(Fitted(setting, collective) == one) << collective->rank();
      });
      setting.constrained = false;
      EXPECT_FALSE(Fitted(setting, nullptr) == one);
    }
  }
}

}  // namespace
}  // namespace ringlet
