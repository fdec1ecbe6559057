// Models as layers of models, and layers that are called several times.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/random_models.h"
#include "../../support/thread_collective.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kWidth = RandomBlock::kWidth;

void CompileAs(Model* model, Collective* collective, int threads,
               const Optimizer& optimizer = Adam(0.01f)) {
  CompileOptions options;
  options.collective = collective;
  options.threads = threads;
  model->Compile(optimizer, MeanSquaredError(), {}, options);
  ASSERT_OK(model->status());
}

// The part of step `step` that this rank takes; of some steps none.
struct Part {
  Part(int step, int64_t batch, Collective* collective) {
    const int64_t world = collective == nullptr ? 1 : collective->size();
    const int64_t rank = collective == nullptr ? 0 : collective->rank();
    const auto floats = static_cast<size_t>(batch * kWidth);
    x = RandomFloats(floats, 2 * static_cast<uint64_t>(step));
    y = RandomFloats(floats, 2 * static_cast<uint64_t>(step) + 1);
    const int64_t piece = (batch + world - 1) / world;
    const int64_t first = std::min(batch, piece * rank);
    part.count = std::min(piece, batch - first);
    part.global_count = batch;
    part.x = x.data() + first * kWidth;
    part.y = y.data() + first * kWidth;
  }
  Floats x, y;
  Batch part;
};

void ExpectSameNodes(const Model& a, const Model& b) {
  ASSERT_EQ(a.num_nodes(), b.num_nodes());
  for (int i = 0; i < a.num_nodes(); ++i) {
    EXPECT_EQ(a.layer(i).name, b.layer(i).name);
    EXPECT_EQ(a.layer(i).kind, b.layer(i).kind);
    EXPECT_EQ(a.layer(i).trainable, b.layer(i).trainable) << a.layer(i).name;
    EXPECT_EQ(a.inputs(i), b.inputs(i));
    EXPECT_EQ(a.first_call(i), b.first_call(i));
  }
  ASSERT_EQ(a.variables().size(), b.variables().size());
  for (size_t v = 0; v < a.variables().size(); ++v) {
    EXPECT_EQ(a.variables()[v].path, b.variables()[v].path);
    EXPECT_EQ(a.variables()[v].offset, b.variables()[v].offset);
    EXPECT_EQ(a.variables()[v].gradient_offset,
              b.variables()[v].gradient_offset);
  }
}

void ExpectSameTraining(const RandomBlock& block, Collective* collective,
                        int threads) {
  const auto nested = RandomModels::Nested(block);
  const auto flat = RandomModels::Flat(block);
  CompileAs(nested.get(), collective, threads);
  CompileAs(flat.get(), collective, threads);
  ExpectSameNodes(*nested, *flat);
  ASSERT_EQ(WeightsOf(nested.get()), WeightsOf(flat.get()));
  EXPECT_EQ(nested->BytesNeeded(32), flat->BytesNeeded(32));
  for (int step = 0; step < 20; ++step) {
    const Part part(step, std::vector<int64_t>{32, 1, 7}[step % 3], collective);
    ASSERT_OK(nested->TrainStep(part.part));
    ASSERT_OK(flat->TrainStep(part.part));
    ASSERT_EQ(WeightsOf(nested.get()), WeightsOf(flat.get())) << step;
  }
  EXPECT_OK(nested->CheckReplicas());
}

TEST(NestedTest, Training_NestedModel_EqualsItsLayersAddedOneByOne) {
  for (uint32_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const auto block = RandomModels(seed).Draw(3);
    const int threads = 1 + static_cast<int>(seed % 2);
    if (seed % 3 == 0) {
      RunRanks(3, [&](Collective* collective) {
        ExpectSameTraining(*block, collective, threads);
      });
    } else {
      ExpectSameTraining(*block, nullptr, threads);
    }
  }
}

// The gradient of each variable of `shared` is the sum of its calls' gradients,
// added from the last one back.
std::vector<float> SumsOfCalls(const Model& shared, const Model& apart) {
  std::vector<float> sums(static_cast<size_t>(shared.num_trained()), 0);
  for (const Variable& sum : shared.variables()) {
    if (!sum.trained()) continue;
    bool first = true;
    for (auto v = apart.variables().rbegin(); v != apart.variables().rend();
         ++v) {
      const size_t slash = sum.path.rfind('/');
      const std::string layer = sum.path.substr(0, slash);
      const std::string role = sum.path.substr(slash);
      const std::string layer_path = v->path.substr(0, v->path.rfind('/'));
      if (v->path.substr(v->path.rfind('/')) != role ||
          layer_path.substr(0, layer_path.find('#')) != layer) {
        continue;
      }
      const float* const g = apart.gradients() + v->gradient_offset;
      for (int64_t i = 0; i < v->size(); ++i) {
        float& to = sums[static_cast<size_t>(sum.gradient_offset + i)];
        to = first ? g[i] : to + g[i];
      }
      first = false;
    }
  }
  return sums;
}

void CopyWeights(Model* from, Model* to) {
  for (const Variable& v : to->variables()) {
    const size_t slash = v.path.rfind('/');
    const std::string layer = v.path.substr(0, slash);
    const std::string path =
        layer.substr(0, layer.find('#')) + v.path.substr(slash);
    for (const Variable& w : from->variables()) {
      if (w.path != path) continue;
      std::copy_n(from->weights() + w.offset, w.size(),
                  to->weights() + v.offset);
    }
  }
}

TEST(NestedTest, Gradient_SharedLayer_IsTheSumOverItsCalls) {
  int with_shared = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const auto block = RandomModels(seed, /*dropout=*/false).Draw(2);
    const auto shared = RandomModels::Flat(*block);
    const auto apart = RandomModels::Flat(*block, /*shared=*/false);
    CompileAs(shared.get(), nullptr, 1);
    CompileAs(apart.get(), nullptr, 1);
    if (shared->num_trained() == 0) continue;
    with_shared += shared->num_weights() != apart->num_weights();
    CopyWeights(shared.get(), apart.get());
    const Part part(static_cast<int>(seed), 9, nullptr);
    double losses[2];
    int which = 0;
    for (Model* model : {shared.get(), apart.get()}) {
      ASSERT_OK(model->Forward(part.part.x, 9, /*training=*/true));
      ASSERT_OK(model->ComputeLoss(part.part, &losses[which++]));
      ASSERT_OK(model->Backward());
    }
    EXPECT_EQ(losses[0], losses[1]);
    const std::vector<float> sums = SumsOfCalls(*shared, *apart);
    ASSERT_TRUE(std::equal(sums.begin(), sums.end(), shared->gradients()));
  }
  EXPECT_GT(with_shared, 30);
}

// Each call updates the statistics of the call before, as in Keras.
TEST(NestedTest, BatchNormalization_Shared_MovesOnceForEachCall) {
  Functional model;
  const auto x = model.Add(Input({kWidth}));
  const auto a = model.Add(BatchNormalization(0.5f), {x});
  const auto b = model.CallAgain(a, {model.Add(Dense(kWidth), {a})});
  model.Add(Add(), {a, b});
  CompileAs(&model, nullptr, 1);
  const Part part(3, 16, nullptr);
  // Computes the input of the second call by a forward pass like the step's.
  Functional probe;
  const auto px = probe.Add(Input({kWidth}));
  const auto pa = probe.Add(BatchNormalization(0.5f), {px});
  probe.Add(Dense(kWidth), {pa});
  CompileAs(&probe, nullptr, 1);
  std::copy_n(model.weights(), probe.num_weights(), probe.weights());
  ASSERT_OK(probe.Forward(part.part.x, 16, /*training=*/true));
  const Floats given(probe.output(), probe.output() + 16 * kWidth);
  ASSERT_OK(model.TrainStep(part.part));
  const auto mean = [](const float* columns, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < 16; ++i) sum += double{columns[i * kWidth + c]};
    return sum / 16;
  };
  for (const Variable& v : model.variables()) {
    if (v.path.find("moving_mean") == std::string::npos) continue;
    EXPECT_TRUE(v.is_layer_state);
    for (int64_t c = 0; c < kWidth; ++c) {
      const double once = 0.5 * mean(part.part.x, c);
      const double twice = 0.5 * once + 0.5 * mean(given.data(), c);
      EXPECT_NEAR(model.weights()[v.offset + c], twice, 1e-6);
    }
  }
}

// TrainStep may update weights while others' gradients are computed.
TEST(NestedTest, TrainStep_InPieces_GivesTheSameBits) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto block = RandomModels(seed).Draw(2);
    const auto whole = RandomModels::Nested(*block);
    const auto pieces = RandomModels::Nested(*block);
    CompileAs(whole.get(), nullptr, 2);
    CompileAs(pieces.get(), nullptr, 2);
    for (int step = 0; step < 5; ++step) {
      const Part part(step, 8, nullptr);
      double loss = 0;
      ASSERT_OK(whole->TrainStep(part.part));
      ASSERT_OK(pieces->Forward(part.part.x, 8, /*training=*/true));
      ASSERT_OK(pieces->ComputeLoss(part.part, &loss));
      ASSERT_OK(pieces->Backward());
      ASSERT_OK(pieces->ApplyGradients());
      ASSERT_EQ(WeightsOf(whole.get()), WeightsOf(pieces.get()));
    }
  }
}

// --- freezing ---------------------------------------------------------------

Sequential Body() {
  Sequential body(
      {Input({kWidth}), Dense(8, kRelu).Name("a"), Dense(kWidth).Name("b")});
  body.set_name("body");
  return body;
}

std::vector<std::string> Trained(const Model& model) {
  std::vector<std::string> paths;
  for (const Variable& v : model.variables()) {
    if (v.trained()) paths.push_back(v.path);
  }
  return paths;
}

TEST(NestedTest, SetTrainable_ModelFrozen_FreezesAllInIt) {
  using Paths = std::vector<std::string>;
  Sequential inner = Body();
  Sequential outer({Input({kWidth}), inner.AsLayer(), Dense(2).Name("c")});
  const auto compile = [&] { CompileAs(&outer, nullptr, 1); };
  const Paths all = {"body/a/kernel", "body/a/bias", "body/b/kernel",
                     "body/b/bias",   "c/kernel",    "c/bias"};
  EXPECT_EQ(Trained(outer), all);
  ASSERT_OK(outer.SetTrainable("body", false));
  EXPECT_EQ(Trained(outer), Paths({"c/kernel", "c/bias"}));
  compile();
  EXPECT_EQ(outer.num_trained(), kWidth * 2 + 2);
  // Frozen from outside, as in Keras.
  ASSERT_OK(outer.SetTrainable("body/b", true));
  compile();
  EXPECT_EQ(outer.num_trained(), kWidth * 2 + 2);
  ASSERT_OK(outer.SetTrainable("body", true));
  ASSERT_OK(outer.SetTrainable("body/a", false));
  EXPECT_EQ(outer.num_trained(), kWidth * 2 + 2);
  compile();
  EXPECT_EQ(Trained(outer),
            Paths({"body/b/kernel", "body/b/bias", "c/kernel", "c/bias"}));
  const Status unknown = outer.SetTrainable("body/d", /*trainable=*/true);
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_FALSE(outer.SetTrainable("a", true).ok());
}

TEST(NestedTest, Summary_NestedModel_HasOneRow) {
  Functional outer;
  const auto x = outer.Add(Input({kWidth}));
  const auto y = outer.Add(Body().AsLayer().Trainable(false), {x});
  const auto z = outer.CallAgain(y, {y});
  outer.Add(Dense(2), {z});
  const std::string summary = outer.Summary();
  EXPECT_TRUE(Contains(summary, "body (Sequential)               │ (None, 6)"));
  EXPECT_EQ(summary.find("body"), summary.rfind("body"));
  EXPECT_FALSE(Contains(summary, "a (Dense)"));
  EXPECT_TRUE(Contains(summary, "Total params: 124"));
  EXPECT_TRUE(Contains(summary, "Trainable params: 14"));
  EXPECT_TRUE(Contains(summary, "Non-trainable params: 110"));
}

// --- weights ----------------------------------------------------------------

TEST(NestedTest, AsLayer_ModelHasWeights_BeginsWithThem) {
  Sequential body = Body();
  CompileAs(&body, nullptr, 1);
  for (int step = 0; step < 3; ++step) {
    ASSERT_OK(body.TrainStep(Part(step, 4, nullptr).part));
  }
  const std::vector<float> weights = WeightsOf(&body);
  Sequential middle({Input({kWidth}), Dense(kWidth), body.AsLayer()});
  middle.set_name("middle");
  Sequential outer({Input({kWidth}), Dense(kWidth), middle.AsLayer(),
                    body.AsLayer(/*with_weights=*/false), Dense(2)});
  ASSERT_OK(body.TrainStep(Part(9, 4, nullptr).part));  // not seen
  outer.Compile(SGD(0.1f), MeanSquaredError());
  ASSERT_OK(outer.status());
  for (const Variable& v : outer.variables()) {
    for (const Variable& w : body.variables()) {
      const float* const here = outer.weights() + v.offset;
      const bool same =
          std::equal(here, here + v.size(), weights.begin() + w.offset);
      if (v.path == "middle/body/" + w.path) {
        EXPECT_TRUE(same) << v.path;
      } else if (v.path == "body/a/kernel" && w.path == "a/kernel") {
        EXPECT_FALSE(same);
      }
    }
  }
}

// --- what cannot be ---------------------------------------------------------

std::string ErrorOf(const Model& model) {
  EXPECT_EQ(model.status().code(), Code::kInvalidArgument);
  return model.status().message();
}

void ExpectError(const Model& model, const std::string& part) {
  EXPECT_TRUE(Contains(ErrorOf(model), part));
}

TEST(NestedTest, AsLayer_DoesNotFit_IsAnError) {
  Sequential shape({Input({kWidth + 1}), Body().AsLayer()});
  ExpectError(shape, "layer 'body' (Sequential): takes an input of (6,)");
  Sequential twice({Input({kWidth}), Body().AsLayer(), Body().AsLayer()});
  ExpectError(twice, "layer 'body': two layers have this name");
  Sequential clash(
      {Input({kWidth}), Dense(kWidth).Name("body/b"), Body().AsLayer()});
  ExpectError(clash, "two layers have this name: body/b");
  Sequential setting({Input({kWidth}), Body().AsLayer().UseBias(false)});
  ExpectError(setting, "AsLayer");
  Layer none = Body().AsLayer();
  none.model = nullptr;
  ExpectError(Sequential({Input({kWidth}), none}), "AsLayer");
  Sequential broken({Input({kWidth}), Dense(-1)});
  ExpectError(Sequential({Input({kWidth}), broken.AsLayer()}), "Dense");
  ExpectError(Sequential({Input({kWidth}), Sequential().AsLayer()}),
              "needs an Input");
  Functional open;
  open.Add(Dense(2), {open.Add(Input({kWidth}))});
  open.Add(Dense(2), {0});
  ExpectError(Sequential({Input({kWidth}), open.AsLayer()}),
              "no layer takes its output");
  ExpectError(Sequential({Body().AsLayer()}), "must be an Input");
  Sequential weights = Body();
  ASSERT_OK(weights.SetInitialWeights(
      std::vector<float>(static_cast<size_t>(weights.num_weights()))));
  weights.Add(Dense(2));
  ExpectError(Sequential({Input({kWidth}), weights.AsLayer()}),
              "layers were added after");
}

TEST(NestedTest, CallAgain_InvalidCall_IsAnError) {
  const auto model = [](const auto& add) {
    Functional m;
    const auto x = m.Add(Input({kWidth}));
    const auto d = m.Add(Dense(4), {x});
    add(&m, x, d);
    return m;
  };
  ExpectError(model([](Functional* m, int, int d) { m->CallAgain(d, {d}); }),
              "another shape of input");
  ExpectError(model([](Functional* m, int x, int) { m->CallAgain(x, {x}); }),
              "cannot be called again");
  ExpectError(model([](Functional* m, int x, int) { m->CallAgain(99, {x}); }),
              "cannot be called again");
  ExpectError(model([](Functional* m, int x, int) { m->CallAgain(-1, {x}); }),
              "cannot be called again");
  ExpectError(model([](Functional* m, int, int d) { m->CallAgain(d, {7}); }),
              "not an earlier layer");
  ExpectError(model([](Functional* m, int, int d) { m->CallAgain(d, {}); }),
              "one input");
  ExpectError(model([](Functional* m, int x, int) {
                m->Add(Dense(1), {m->Add(Body().AsLayer(), {x}) - 1});
              }),
              "inside of a model");
  ExpectError(model([](Functional* m, int x, int) {
                m->CallAgain(m->Add(Body().AsLayer(), {x}) - 1, {x});
              }),
              "cannot be called again");
}

// Models nested without end, and a few layers that expand to a great many.
TEST(NestedTest, Nesting_TooDeepOrTooLarge_IsAnError) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({kWidth}));
  model->Add(Dense(kWidth));
  int depth = 1;
  for (; model->status().ok() && depth < 10000; ++depth) {
    auto outer = std::make_unique<Sequential>();
    outer->Add(Input({kWidth}));
    outer->Add(model->AsLayer());
    model = std::move(outer);
  }
  EXPECT_EQ(depth, 17);
  ExpectError(*model, "16 deep");

  auto grown = std::make_unique<Functional>();
  grown->Add(Dense(kWidth), {grown->Add(Input({kWidth}))});
  for (int i = 0; i < 15 && grown->status().ok(); ++i) {
    auto outer = std::make_unique<Functional>();
    int x = outer->Add(Input({kWidth}));
    x = outer->Add(grown->AsLayer(), {x});
    outer->CallAgain(x, {x});
    grown = std::move(outer);
  }
  ExpectError(*grown, "at most 4096");
}

}  // namespace
}  // namespace ringlet
