// mixed_bfloat16 rounds as a float32 model with a layer behind each layer that
// rounds its output and its gradient.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "core/base/float16.h"
#include "ringlet/custom_layer.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

class Rounding final : public CustomLayer {
 public:
  const char* class_name() const override { return "Rounding"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->backward_reads_input = plan->backward_reads_output = false;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    Round(call, call.x[0], call.y);
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    Round(call, call.dy, call.dx[0]);
    return Status();
  }

 private:
  static void Round(const LayerCall& call, const float* from, float* to) {
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      to[i] = FloatOfBFloat16(BFloat16OfFloat(from[i]));
    }
  }
};

// Adds layers, with the policy or with a Rounding behind each.
class Maker {
 public:
  explicit Maker(bool mixed) : mixed_(mixed) {}
  int Add(Layer layer, const std::vector<int>& inputs) {
    layer.DType(mixed_ ? DTypePolicy::kMixedBFloat16 : DTypePolicy::kFloat32);
    const int node = model->Add(layer, inputs);
    return mixed_ ? node : AddRounding(node);
  }
  int CallAgain(int node, const std::vector<int>& inputs) {
    // In a float32 model `node` is the node of the layer's Rounding.
    const int again = model->CallAgain(mixed_ ? node : node - 1, inputs);
    return mixed_ ? again : AddRounding(again);
  }
  std::unique_ptr<Functional> model = std::make_unique<Functional>();

 private:
  int AddRounding(int node) {
    return model->Add(Custom(std::make_shared<Rounding>()), {node});
  }
  const bool mixed_;
};

// Adds a head that keeps float32.
std::unique_ptr<Functional> Finish(Maker maker, int node) {
  maker.model->Add(Dense(3, kSoftmax).Name("head"), {node});
  return std::move(maker.model);
}

// Views, a shared layer, a branch that skips, gates, pools, and layers that
// overwrite their input.
std::unique_ptr<Functional> Pictures(bool mixed) {
  Maker m(mixed);
  const int input = m.model->Add(Input({8, 8, 3}));
  int x = m.Add(Conv2D(6, 3, kRelu).Padding(kSame), {input});
  x = m.Add(BatchNormalization(0.5f), {x});
  const int skip = m.Add(ReLU(), {x});
  const int conv = m.Add(Conv2D(6, 3).Padding(kSame).UseBias(false), {skip});
  x = m.Add(BatchNormalization(0.5f), {conv});
  x = m.Add(ActivationLayer(kGelu), {x});
  x = m.Add(Add(), {x, skip});
  const int again = m.CallAgain(conv, {x});
  x = m.Add(Maximum(), {again, skip});
  x = m.Add(DepthwiseConv2D(3).Padding(kSame), {x});
  x = m.Add(MaxPooling2D(3).Strides(2), {x});
  const int mean = m.Add(GlobalMaxPooling2D(), {x});
  const int gate = m.Add(Dense(6), {mean});
  x = m.Add(Multiply(), {x, m.Add(ActivationLayer(kSilu), {gate})});
  x = m.Add(Concatenate(), {x, x});
  x = m.Add(Flatten(), {x});
  return Finish(std::move(m), x);
}

// Numbers of rows above 256 are exact, also behind layers with the policy. The
// recurrent layers have none: theirs rounds what they save, too.
std::unique_ptr<Functional> Words(bool mixed) {
  Maker m(mixed);
  int x = m.model->Add(Input({10}));
  if (mixed) {
    x = m.model->Add(Reshape({10, 1}).DType(DTypePolicy::kMixedBFloat16), {x});
    x = m.model->Add(ZeroPadding1D(0).DType(DTypePolicy::kMixedBFloat16), {x});
    x = m.model->Add(Reshape({10}).DType(DTypePolicy::kMixedBFloat16), {x});
  }
  x = m.Add(Embedding(1000, 4), {x});
  const int lstm = m.model->Add(LSTM(5).ReturnSequences(true), {x});
  x = m.Add(LayerNormalization(), {lstm});
  x = m.Add(MultiHeadAttention(2, 3), {x, lstm});
  x = m.model->Add(GRU(4), {x});
  return Finish(std::move(m), x);
}

// Recurrent layers of each kind, one of them for each of several steps.
std::unique_ptr<Functional> Steps(bool mixed) {
  Maker m(mixed);
  int x = m.model->Add(Input({4, 6, 8}));
  x = m.Add(TimeDistributed(LSTM(5).ReturnSequences(true)), {x});
  x = m.Add(Reshape({24, 5}), {x});
  x = m.Add(Bidirectional(GRU(6).ReturnSequences(true)), {x});
  x = m.Add(SimpleRNN(6).ReturnSequences(true), {x});
  x = m.Add(LSTM(12).RecurrentDropout(0.1f), {x});
  return Finish(std::move(m), x);
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights, outputs;
  MemoryPlan plan;
};

using MakeFunction = std::unique_ptr<Functional> (*)(bool);

// Steps of batches of 32, 1, 100 and 7, a second Compile, and predictions.
Trained Train(MakeFunction make, bool mixed, int threads, bool recompute,
              Collective* collective = nullptr) {
  Trained result;
  const auto model = make(mixed);
  CompileOptions options;
  options.threads = threads;
  options.recompute = recompute;
  options.collective = collective;
  const int64_t width = model->input_shape().elements();
  Floats x = RandomFloats(static_cast<size_t>(100 * width), 1);
  if (width == 10) {
    for (float& each : x) each = std::floor((each + 1) * 499);
  }
  std::vector<int32_t> y(100);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
  for (int compile = 0; compile < 2; ++compile) {
    model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(), {}, options);
    EXPECT_OK(model->status());
    for (const int64_t count : {32, 1, 100, 7}) {
      Batch batch;
      batch.x = x.data();
      batch.y = y.data();
      batch.count = count;
      batch.global_count = count * (collective ? collective->size() : 1);
      EXPECT_OK(model->TrainStep(batch));
      result.losses.push_back(model->step_metrics()[0].total);
      batch.count = batch.global_count = 33;
      EXPECT_OK(model->TestStep(batch));
      result.losses.push_back(model->rank_metrics()[0].total);
    }
  }
  EXPECT_OK(model->Forward(x.data(), 100, /*training=*/false));
  result.outputs.assign(model->output(), model->output() + 300);
  result.weights = WeightsOf(model.get());
  result.plan = model->PlanMemory(100);
  return result;
}

void ExpectSame(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.outputs, b.outputs);
}

TEST(MixedBFloat16Test, Training_RoundsAsARoundingLayerBehindEach) {
  for (const MakeFunction make : {Pictures, Words}) {
    const Trained expected =
        Train(make, /*mixed=*/false, 1, /*recompute=*/false);
    ASSERT_TRUE(std::isfinite(expected.losses.back()));
    for (const int threads : {1, 2}) {
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(threads * 10 + recompute);
        ExpectSame(Train(make, /*mixed=*/true, threads, recompute), expected);
      }
    }
  }
}

TEST(MixedBFloat16Test, Training_ThreeWorkers_HaveTheSameNumbers) {
  for (const MakeFunction make : {Pictures, Steps}) {
    std::vector<Trained> all(3);
    RunRanks(3, [&](Collective* collective) {
      all[collective->rank()] =
          Train(make, /*mixed=*/true, 1 + collective->rank() % 2,
                collective->rank() == 2, collective);
    });
    EXPECT_EQ(all[1].weights, all[0].weights);
    EXPECT_EQ(all[2].weights, all[0].weights);
  }
}

TEST(MixedBFloat16Test, Recurrent_AnyThreads_HaveTheSameNumbersInLessMemory) {
  const Trained expected = Train(Steps, /*mixed=*/true, 1, /*recompute=*/false);
  ASSERT_TRUE(std::isfinite(expected.losses.back()));
  ExpectSame(Train(Steps, /*mixed=*/true, 2, /*recompute=*/true), expected);
  const Trained float32 = Train(Steps, /*mixed=*/false, 1, /*recompute=*/false);
  const auto saved = [](const Trained& of) { return of.plan.scratch; };
  EXPECT_LT(saved(expected), saved(float32) * 6 / 10);
}

// The policy of a second Compile is that of the recurrent layers' memory.
TEST(MixedBFloat16Test, Recurrent_CompiledWithAnotherPolicy_HasItsNumbers) {
  const auto make = [](DTypePolicy policy) {
    auto model = std::make_unique<Sequential>(std::initializer_list<Layer>{
        Input({9, 4}), LSTM(7).DType(policy), Dense(2).DType(policy)});
    model->Compile(SGD(0.1f), MeanSquaredError());
    EXPECT_OK(model->status());
    return model;
  };
  const auto step = [](Model* model) {
    const Floats x = RandomFloats(40 * 36, 3), y = RandomFloats(40 * 2, 4);
    Batch batch;
    batch.x = x.data();
    batch.y = y.data();
    batch.count = batch.global_count = 40;
    EXPECT_OK(model->TrainStep(batch));
    return WeightsOf(model);
  };
  const DTypePolicy policies[] = {DTypePolicy::kFloat32,
                                  DTypePolicy::kMixedBFloat16};
  std::vector<Floats> weights;
  for (const DTypePolicy policy : policies) {
    weights.push_back(step(make(policy).get()));
    const auto other = make(policies[policy == policies[0] ? 1 : 0]);
    CompileOptions options;
    options.dtype_policy = policy;
    other->Compile(SGD(0.1f), MeanSquaredError(), {}, options);
    EXPECT_EQ(step(other.get()), weights.back());
  }
  EXPECT_NE(weights[0], weights[1]);
}

std::unique_ptr<Functional> Deep(bool) {
  auto model = std::make_unique<Functional>();
  int x = model->Add(Input({16, 16, 8}));
  for (int i = 0; i < 16; ++i) {
    x = model->Add(Conv2D(8, 3).Padding(kSame), {x});
    x = model->Add(BatchNormalization(), {x});
    x = model->Add(ReLU(), {x});
  }
  model->Add(Dense(3), {model->Add(GlobalAveragePooling2D(), {x})});
  return model;
}

// The policy of Compile holds for all layers. No float32 copy outlives its
// pass.
TEST(MixedBFloat16Test, Plan_ManyLayers_TakesHalfTheMemory) {
  const auto step_bytes = [](bool mixed) {
    const auto model = Deep(mixed);
    CompileOptions options;
    if (mixed) options.dtype_policy = DTypePolicy::kMixedBFloat16;
    model->Compile(SGD(0.01f), MeanSquaredError(), {}, options);
    EXPECT_OK(model->status());
    EXPECT_EQ(model->layer(1).dtype == DTypePolicy::kMixedBFloat16, mixed);
    const MemoryPlan plan = model->PlanMemory(64);
    return plan.total() - plan.kept() - plan.batches;
  };
  const size_t float32 = step_bytes(/*mixed=*/false);
  EXPECT_LT(step_bytes(/*mixed=*/true), float32 * 65 / 100);
}

// Many cheap layers between the outputs that are packed: no plan may be larger
// than the plan of float32.
TEST(MixedBFloat16Test, Plan_DenselyConnected_IsNotLarger) {
  const auto step_bytes = [](DTypePolicy policy) {
    Functional model;
    int x = model.Add(Input({8, 8, 4}));
    for (int i = 0; i < 16; ++i) {
      int y = model.Add(ReLU(), {model.Add(BatchNormalization(), {x})});
      y = model.Add(Conv2D(4, 3).Padding(kSame), {y});
      x = model.Add(Concatenate(), {x, y});
    }
    model.Add(Dense(3), {model.Add(GlobalAveragePooling2D(), {x})});
    CompileOptions options;
    options.dtype_policy = policy;
    model.Compile(SGD(0.01f), MeanSquaredError(), {}, options);
    EXPECT_OK(model.status());
    return model.PlanMemory(32).total();
  };
  EXPECT_LE(step_bytes(DTypePolicy::kMixedBFloat16),
            step_bytes(DTypePolicy::kFloat32));
}

TEST(MixedBFloat16Test, Masking_NumberThatWouldBeRounded_IsFound) {
  Sequential model(
      {Input({2, 2}), Rescaling(1).DType(DTypePolicy::kMixedBFloat16),
       Masking(-999).DType(DTypePolicy::kMixedBFloat16), Flatten()});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(model.status());
  const float x[] = {-999, -999, 1, 2};
  ASSERT_OK(model.Forward(x, 1, /*training=*/false));
  const std::vector<float> y(model.output(), model.output() + 4);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 1, 2}));
}

TEST(MixedBFloat16Test, TimeDistributed_PolicyOfItsLayer_IsUsed) {
  const auto predict = [](Layer inner, DTypePolicy outer) {
    Sequential model({Input({3, 2}), TimeDistributed(inner).DType(outer),
                      Flatten(), Dense(1)});
    model.Compile(SGD(), MeanSquaredError());
    EXPECT_OK(model.status());
    const float x[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
    EXPECT_OK(model.Forward(x, 1, /*training=*/false));
    return *model.output();
  };
  const float of_inner = predict(Dense(3).DType(DTypePolicy::kMixedBFloat16),
                                 DTypePolicy::kFloat32);
  EXPECT_EQ(of_inner, predict(Dense(3), DTypePolicy::kMixedBFloat16));
  EXPECT_NE(of_inner, predict(Dense(3), DTypePolicy::kFloat32));
}

// A Dense, and a model, of which one layer has the policy.
TEST(MixedBFloat16Test, Summary_PolicyWithinALayer_CountsTheLayer) {
  const Layer mixed = Dense(3).DType(DTypePolicy::kMixedBFloat16);
  Sequential inner({Input({2}), Dense(2), mixed});
  Sequential model({Input({4, 2}), TimeDistributed(mixed), Dense(2),
                    TimeDistributed(inner.AsLayer()), Flatten(), Dense(1)});
  EXPECT_OK(model.status());
  EXPECT_NE(model.Summary().find("Layers with mixed_bfloat16: 2"),
            std::string::npos)
      << model.Summary();
  CompileOptions options;
  options.dtype_policy = DTypePolicy::kFloat32;
  model.Compile(SGD(), MeanSquaredError(), {}, options);
  EXPECT_OK(model.status());
  EXPECT_EQ(model.Summary().find("mixed_bfloat16"), std::string::npos);
  EXPECT_EQ(model.PlanMemory(64).packed, 0);
}

TEST(MixedBFloat16Test, Workers_OtherPolicy_IsNamed) {
  RunRanks(2, [&](Collective* collective) {
    Sequential model({Input({2}), Dense(2), Dense(1)});
    CompileOptions options = collective;
    if (collective->rank() == 1) {
      options.dtype_policy = DTypePolicy::kMixedBFloat16;
    }
    model.Compile(SGD(), MeanSquaredError(), {}, options);
    EXPECT_NE(std::string(model.status().message()).find("mixed_bfloat16"),
              std::string::npos)
        << model.status().message();
  });
}

}  // namespace
}  // namespace ringlet
