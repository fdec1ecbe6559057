// Models of several inputs and several outputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "../../support/two_by_two.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// Inputs of 2, 3 and 4 values; a trunk; outputs of several kinds, of which the
// first is taken by the others' layers too.
struct RandomGraph {
  Functional model;
  std::vector<OutputLoss> losses;
  int64_t x_floats = 0;

  RandomGraph(uint32_t seed, int inputs, int outputs) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return random() % n; };
    std::vector<int> given, values;
    for (int i = 0; i < inputs; ++i) {
      given.push_back(model.Add(Input({2 + i}).Name("in" + std::to_string(i))));
      x_floats += 2 + i;
    }
    for (const int node : given) {
      values.push_back(model.Add(Dense(5, kTanh), {node}));
    }
    if (below(2) == 0) values.push_back(model.CallAgain(values[0], {given[0]}));
    int trunk = values.size() > 1 ? model.Add(Add(), values) : values[0];
    if (below(2) == 0) trunk = model.Add(BatchNormalization(), {trunk});
    if (below(2) == 0) trunk = model.Add(ReLU(), {trunk});
    std::vector<int> ends;
    for (int k = 0; k < outputs; ++k) {
      const std::string name = "out" + std::to_string(k);
      const bool taken = k > 0 && below(2) == 0;
      const int from = taken ? ends[below(static_cast<uint32_t>(k))] : trunk;
      OutputLoss loss;
      switch (below(4)) {
        case 0:
          ends.push_back(model.Add(Dense(3, kSoftmax).Name(name), {from}));
          loss = {name, SparseCategoricalCrossentropy(), {Accuracy()}};
          break;
        case 1:
          ends.push_back(model.Add(Dense(1, kSigmoid).Name(name), {from}));
          loss = {name, BinaryCrossentropy()};
          break;
        case 2:
          ends.push_back(model.Add(Reshape({2, 2}).Name(name),
                                   {model.Add(Dense(4), {trunk})}));
          loss = {name, MeanSquaredError(), {MeanAbsoluteErrorMetric()}};
          break;
        default:
          ends.push_back(model.Add(Dense(2).Name(name), {from}));
          loss = {name, Huber()};
      }
      // (A Dense over rows of two takes the reshaped one.)
      loss.weight = 0.5f * static_cast<float>(1 + below(4));
      losses.push_back(loss);
    }
    std::vector<size_t> order;
    for (size_t k = 0; k < ends.size(); ++k) order.push_back(k);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int> ordered;
    for (const size_t k : order) ordered.push_back(ends[k]);
    model.Outputs(ordered);
    // Losses have names, so any order is right.
    std::shuffle(losses.begin(), losses.end(), random);
  }

  // Targets of `count` examples, for those outputs that have a loss.
  std::vector<float> Targets(int64_t count, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<float> y;
    for (size_t k = 0; k < model.losses().size(); ++k) {
      const OutputLoss& loss = model.losses()[k];
      if (!loss.trains) continue;
      const Shape& shape =
          model.output_shape(model.output_node(static_cast<int>(k)));
      const int64_t n = count * loss.loss.targets(shape);
      for (int64_t i = 0; i < n; ++i) {
        const auto number = static_cast<int32_t>(
            random() % static_cast<uint32_t>(
                           loss.loss.takes_classes() ? shape.back() : 2));
        float value = static_cast<float>(number);
        if (loss.loss.takes_classes()) std::memcpy(&value, &number, 4);
        y.push_back(value);
      }
    }
    return y;
  }
};

Batch BatchOf(const Floats& x, const Floats& y, int64_t count) {
  Batch batch;
  batch.count = batch.global_count = count;
  batch.x = x.data();
  batch.y = y.data();
  return batch;
}

// The gradient over the whole span of weights, by Forward, ComputeLoss and
// Backward; 0 where a weight is not trained.
Floats GradientOf(RandomGraph* graph, int64_t count, uint32_t seed,
                  double* loss) {
  Model& m = graph->model;
  const Floats x = Values(count * graph->x_floats, seed);
  const Floats y = graph->Targets(count, seed);
  EXPECT_OK(m.Forward(x.data(), count, /*training=*/true));
  EXPECT_OK(m.ComputeLoss(BatchOf(x, y, count), loss));
  EXPECT_OK(m.Backward());
  Floats all(static_cast<size_t>(m.num_weights()), 0);
  for (const Variable& v : m.variables()) {
    if (!v.trained()) continue;
    std::copy_n(m.gradients() + v.gradient_offset, v.size(),
                all.begin() + v.offset);
  }
  return all;
}

void CompileAll(RandomGraph* graph, const std::vector<OutputLoss>& losses,
                const CompileOptions& options = {}) {
  graph->model.Compile(SGD(0.1f, 0.9f), losses, options);
  ASSERT_OK(graph->model.status());
}

TEST(OutputsTest, Gradients_SeveralOutputs_AgreeWithFiniteDifferences) {
  for (uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph graph(seed, 1 + static_cast<int>(seed % 3),
                      1 + static_cast<int>(seed / 3 % 3));
    CompileAll(&graph, graph.losses);
    double loss = 0;
    const Floats gradient = GradientOf(&graph, 7, seed, &loss);
    float* const w = graph.model.weights();
    const int64_t trained = graph.model.num_trained();
    for (int64_t i = 0; i < trained; i += 3) {
      const float was = w[i];
      double ends[2];
      for (const int side : {0, 1}) {
        w[i] = was + (side == 0 ? -2e-3f : 2e-3f);
        GradientOf(&graph, 7, seed, &ends[side]);
      }
      w[i] = was;
      const double slope = (ends[1] - ends[0]) / 4e-3;
      const double g = double{gradient[static_cast<size_t>(i)]};
      // Kinks of ReLU and Huber let a few be off by more.
      EXPECT_NEAR(slope, g, 0.02 + 0.05 * std::fabs(g)) << i;
    }
  }
}

// The total is the sum of the weighted losses of models with one output each.
TEST(OutputsTest, LossAndGradient_SeveralOutputs_AreTheWeightedSums) {
  for (uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const int inputs = 1 + static_cast<int>(seed % 3);
    RandomGraph all(seed, inputs, 3);
    CompileAll(&all, all.losses);
    const Floats x = Values(6 * all.x_floats, seed), y = all.Targets(6, seed);
    double loss = 0, sum = 0;
    const Floats gradient = GradientOf(&all, 6, seed, &loss);
    Floats sums(gradient.size(), 0);
    int64_t first = 0;
    for (const OutputLoss& kept : all.model.losses()) {
      RandomGraph one(seed, inputs, 3);
      std::vector<OutputLoss> losses;
      for (const OutputLoss& each : one.losses) {
        losses.push_back(each.output == kept.output ? each
                                                    : NoLoss(each.output));
        if (each.output == kept.output) losses.back().weight = 1;
      }
      // A layer of an output without a loss is called nowhere else.
      CompileAll(&one, losses);
      std::copy_n(all.model.weights(), all.model.num_weights(),
                  one.model.weights());
      const Floats own = one.Targets(6, 0);
      const Floats mine(y.begin() + first,
                        y.begin() + first + static_cast<int64_t>(own.size()));
      first += static_cast<int64_t>(own.size());
      double part = 0;
      ASSERT_OK(one.model.Forward(x.data(), 6, /*training=*/true));
      ASSERT_OK(one.model.ComputeLoss(BatchOf(x, mine, 6), &part));
      ASSERT_OK(one.model.Backward());
      sum += double{kept.weight} * part;
      for (const Variable& v : one.model.variables()) {
        for (int64_t i = 0; v.trained() && i < v.size(); ++i) {
          sums[static_cast<size_t>(v.offset + i)] +=
              kept.weight * one.model.gradients()[v.gradient_offset + i];
        }
      }
    }
    EXPECT_NEAR(loss, sum, 1e-5 * (1 + std::fabs(sum)));
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(gradient[i], sums[i], 2e-5f * (1 + std::fabs(sums[i]))) << i;
    }
  }
}

// Threads, recomputation, values in place, and a short batch after a long one
// change no bit.
TEST(OutputsTest, Training_ThreadsOrRecompute_ChangesNoBit) {
  for (uint32_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Floats first;
    for (const int way : {0, 1, 2, 3}) {
      RandomGraph graph(seed, 1 + static_cast<int>(seed % 3), 3);
      CompileOptions options;
      options.threads = way == 1 ? 3 : 1;
      options.recompute = way == 2;
      CompileAll(&graph, graph.losses, options);
      if (way == 3) {
        ASSERT_OK(graph.model.Reserve(64, /*training=*/true));
      }
      for (uint32_t step = 0; step < 6; ++step) {
        const int64_t count = step % 3 == 1 ? 1 : 9;
        const Floats x = Values(count * graph.x_floats, step);
        const Floats y = graph.Targets(count, step);
        ASSERT_OK(graph.model.TrainStep(BatchOf(x, y, count)));
      }
      const Floats weights = WeightsOf(&graph.model);
      if (way == 0) first = weights;
      EXPECT_EQ(weights, first) << way;
    }
  }
}

TEST(OutputsTest, Logs_SeveralOutputs_HaveKerasNames) {
  const TwoByTwoData data;
  TwoByTwo made;
  FitOptions options = Quiet(2);
  options.validation_data = data.zipped.Batch(32);
  const auto history = made.model.Fit(data.zipped.Shuffle(1).Batch(8), options);
  ASSERT_OK(history.status());
  for (const std::string val : {"", "val_"}) {
    double value[3];
    int i = 0;
    for (const char* name : {"loss", "kind_loss", "age_loss"}) {
      value[i++] = history->Values(val + name)[1];
    }
    EXPECT_NEAR(value[0], value[1] + 0.25 * value[2], 1e-9);
    for (const char* name : {"kind_accuracy", "age_mean_absolute_error"}) {
      EXPECT_TRUE(std::isfinite(history->Values(val + name)[1])) << name;
    }
    EXPECT_TRUE(
        std::isfinite(history->Values(val + "kind_weighted_accuracy")[1]));
  }
  EXPECT_LT(history->Values("loss")[1], history->Values("loss")[0]);
}

// The same examples in a row of floats.
TEST(OutputsTest, Zip_SeveralParts_ReadsThemInTurn) {
  const TwoByTwoData data;
  Floats rows;
  for (int64_t i = 0; i < 60; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      rows.push_back(static_cast<float>(data.images[4 * i + j]) * (1 / 255.f));
    }
    rows.push_back(data.numbers[2 * i]);
    rows.push_back(data.numbers[2 * i + 1]);
  }
  const Dataset row(
      MemorySource({DType::kFloat32, {6}}, rows.data(), {}, nullptr, 60));
  TwoByTwo made;
  const auto a = made.model.Predict(data.zipped.Batch(7));
  const auto b = made.model.Predict(row.Batch(60));
  ASSERT_OK(a.status());
  ASSERT_OK(b.status());
  ASSERT_EQ(a->size(), 60u * 4);
  for (size_t i = 0; i < a->size(); ++i) {
    EXPECT_NEAR(a.value()[i], b.value()[i], 1e-6f) << i;
  }
  // All of the first output come first: rows that sum to 1.
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_NEAR(a.value()[3 * i] + a.value()[3 * i + 1] + a.value()[3 * i + 2],
                1, 1e-5);
  }
}

TEST(OutputsTest, Training_SeveralWorkers_EqualsOneWorker) {
  const TwoByTwoData data;
  TwoByTwo alone;
  FitOptions options = Quiet(2);
  const Dataset batches = data.zipped.Shuffle(3).Batch(12);
  ASSERT_OK(alone.model.Fit(batches, options));
  const auto outputs = alone.model.Predict(batches);
  RunRanks(3, [&](Collective* collective) {
    TwoByTwo made(collective);
    ASSERT_OK(made.model.Fit(batches, Quiet(2)).status());
    EXPECT_OK(made.model.CheckReplicas());
    const auto predicted = made.model.Predict(batches);
    ASSERT_OK(predicted.status());
    ASSERT_EQ(predicted->size(), outputs->size());
    for (size_t i = 0; i < outputs->size(); ++i) {
      ASSERT_NEAR(predicted.value()[i], outputs.value()[i], 1e-4f) << i;
    }
  });
}

TEST(OutputsTest, Output_WithoutALoss_IsNotTrained) {
  const TwoByTwoData data;
  const Dataset kinds =
      Zip({TwoByTwoData::Of(DType::kUint8, {2, 2}, data.images.data()),
           TwoByTwoData::Of(DType::kFloat32, {2}, data.numbers.data())},
          {TwoByTwoData::Of(DType::kInt32, {}, data.kinds.data())});
  TwoByTwo made(nullptr, {NoLoss("age"),
                          OutputLoss("kind", SparseCategoricalCrossentropy())});
  const Floats before = WeightsOf(&made.model);
  EXPECT_EQ(made.model.num_trained(), made.model.num_weights() - 9);
  ASSERT_OK(made.model.Fit(kinds.Batch(8), Quiet(1)).status());
  EXPECT_EQ(made.model.num_metrics(), 1);  // no "kind_loss" beside "loss"
  for (const Variable& v : made.model.variables()) {
    const bool same = std::equal(before.begin() + v.offset,
                                 before.begin() + v.offset + v.size(),
                                 made.model.weights() + v.offset);
    EXPECT_EQ(same, v.path.substr(0, 3) == "age") << v.path;
  }
}

std::string ErrorOf(const std::vector<OutputLoss>& losses) {
  TwoByTwo made;
  made.model.Compile(SGD(), losses);
  return made.model.status().message();
}

TEST(OutputsTest, Outputs_DoNotFit_ErrorNamesThem) {
  const OutputLoss kind("kind", SparseCategoricalCrossentropy()),
      age("age", MeanSquaredError());
  EXPECT_TRUE(Contains(ErrorOf({kind}), "2 outputs"));
  EXPECT_TRUE(Contains(ErrorOf({kind, kind}), "'kind' is given twice"));
  OutputLoss other = age;
  other.output = "ages";
  EXPECT_TRUE(
      Contains(ErrorOf({kind, other}), "no output 'ages'; it has kind, age"));
  EXPECT_TRUE(
      Contains(ErrorOf({NoLoss("kind"), NoLoss("age")}), "no output has"));
  OutputLoss measured = NoLoss("age");
  measured.metrics = {MeanAbsoluteErrorMetric()};
  EXPECT_TRUE(Contains(ErrorOf({kind, measured}), "has metrics, but no loss"));
  EXPECT_TRUE(Contains(ErrorOf({age, age}), "given twice"));
  const OutputLoss wrong("age", SparseCategoricalCrossentropy());
  EXPECT_TRUE(Contains(ErrorOf({kind, wrong}), "output 'age'"));

  const TwoByTwoData data;
  TwoByTwo made;
  FitOptions options = Quiet(1);
  options.class_weight = {{0, 2.0f}};
  const auto refused = made.model.Fit(data.zipped.Batch(8), options);
  EXPECT_TRUE(Contains(refused.status(),
                       "`class_weight` is only supported for Models with a "
                       "single output"));
  const Dataset one =
      TwoByTwoData::Of(DType::kFloat32, {2}, data.numbers.data());
  EXPECT_TRUE(
      Contains(made.model.Fit(one.Batch(8)).status(), "the model takes 2"));

  Functional model;
  const auto x = model.Add(Input({3}));
  const auto y = model.Add(Dense(2), {x});
  const auto z = model.Add(Flatten(), {y});
  model.Outputs({y, z});
  EXPECT_TRUE(Contains(model.status(), "the same values"));
}

// A single loss is used for every output. One metric for each output is taken
// in their order, as in Keras.
TEST(OutputsTest, Compile_OneLoss_IsUsedForAllOutputs) {
  Functional model;
  const auto x = model.Add(Input({3}));
  const auto a = model.Add(Dense(2), {x});
  model.Outputs({a, model.CallAgain(a, {model.Add(Dense(3), {x})})});
  model.Compile(SGD(), MeanSquaredError(),
                {MeanAbsoluteErrorMetric(), MeanSquaredErrorMetric()});
  ASSERT_OK(model.status());
  std::vector<std::string> names;
  for (int i = 0; i < model.num_metrics(); ++i) {
    names.push_back(model.metric_name(i));
  }
  const std::vector<std::string> expected = {
      "loss", "dense_loss", "dense_1_loss", "dense_mean_absolute_error",
      "dense_1_mean_squared_error"};
  EXPECT_EQ(names, expected);
  model.Compile(SGD(), MeanSquaredError(), std::vector<Metric>(3, Accuracy()));
  EXPECT_FALSE(model.status().ok());
}

// A model of several inputs within another, called twice.
TEST(OutputsTest, NestedModel_SeveralInputs_IsCalledTwice) {
  Functional inner;
  const auto a = inner.Add(Input({3}));
  const auto b = inner.Add(Input({4}));
  inner.Add(Add(), {inner.Add(Dense(2), {a}), inner.Add(Dense(2), {b})});
  Functional outer;
  const auto x = outer.Add(Input({3}));
  const auto y = outer.Add(Input({4}));
  const auto once = outer.Add(inner.AsLayer().Name("pair"), {x, y});
  const auto twice = outer.CallAgain(once, {x, y});
  outer.Outputs({outer.Add(Subtract().Name("zero"), {once, twice}), once});
  outer.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(outer.status());
  EXPECT_EQ(outer.output_name(1), "pair");
  const Floats values = Values(7 * 5, 1);
  ASSERT_OK(outer.Forward(values.data(), 5, /*training=*/false));
  EXPECT_EQ(Floats(outer.output(0), outer.output(0) + 10), Floats(10, 0.0f));
  const Layer several = outer.AsLayer();
  Functional refused;
  const auto p = refused.Add(Input({3})), q = refused.Add(Input({4}));
  refused.Add(several, {p, q});
  EXPECT_TRUE(Contains(refused.status(), "has 2 outputs"));
}

}  // namespace
}  // namespace ringlet
