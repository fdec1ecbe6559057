// Layers that are not trained, and weights that are state.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/guarded_memory.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "core/base/arena.h"
#include "ringlet/custom_layer.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kClasses = 3;

// y = x * scale + shift, and `offset`, which is state.
class Scale final : public CustomLayer {
 public:
  const char* class_name() const override { return "Scale"; }
  Status Build(const std::vector<Shape>& inputs,
               LayerPlan* plan) const override {
    const Shape width = {inputs[0].back()};
    plan->weights = {{"scale", width, Constant(1.5f), {}},
                     {"shift", width, Zeros(), {}},
                     {"offset", width, Constant(0.25f), {}, {}, false}};
    plan->backward_scratch.fixed = 5;
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    const int64_t width = call.output->back();
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      const int64_t c = i % width;
      call.y[i] = call.x[0][i] * call.weights[0][c] + call.weights[1][c] +
                  call.weights[2][c];
    }
    return Status();
  }
  Status Backward(const LayerCall& call) const override {
    ++backwards;
    call.scratch[4] = 1;
    const int64_t width = call.output->back();
    for (int64_t i = 0; i < call.batch * call.output->elements(); ++i) {
      const int64_t c = i % width;
      call.d_weights[0][c] += call.dy[i] * call.x[0][i];
      call.d_weights[1][c] += call.dy[i];
      call.d_weights[2][c] += call.dy[i];
      if (call.dx[0] != nullptr)
        call.dx[0][i] = call.dy[i] * call.weights[0][c];
    }
    return Status();
  }
  mutable int backwards = 0;
};

struct Case {
  int kind;
  Optimizer optimizer;
  int64_t batch, examples;
  int threads = 1, workers = 1;
  std::set<std::string> frozen = {};
  std::string Describe() const {
    std::string s = "kind " + std::to_string(kind) + ", batch " +
                    std::to_string(batch) + " of " + std::to_string(examples) +
                    ", threads " + std::to_string(threads) + ", workers " +
                    std::to_string(workers) + ", " + optimizer.name() +
                    ", frozen";
    for (const std::string& name : frozen) s += " " + name;
    return s;
  }
};

const Shape kImage = {8, 8, 2};

std::unique_ptr<Model> Build(int kind) {
  auto model = std::make_unique<Functional>();
  int x = model->Add(Input(kImage));
  const auto flat = [&] { x = model->Add(Flatten(), {x}); };
  switch (kind) {
    case 0:  // dense layers, which replace their inputs
      flat();
      for (const Activation a : {kRelu, kTanh, kLinear, kSigmoid}) {
        x = model->Add(Dense(19, a), {x});
      }
      break;
    case 1:  // few taps and many, pools
      x = model->Add(Conv2D(16, 3, kRelu), {x});
      x = model->Add(MaxPooling2D(2), {x});
      x = model->Add(Conv2D(5, 2, kTanh).Padding(kSame).UseBias(false), {x});
      x = model->Add(
          DepthwiseConv2D(2, kRelu).Padding(kSame).DepthMultiplier(2), {x});
      x = model->Add(SeparableConv2D(6, 2, kTanh).Padding(kSame), {x});
      x = model->Add(Conv2D(4, 3, kRelu), {x});
      x = model->Add(GlobalAveragePooling2D(), {x});
      break;
    case 2: {  // two ways, one of them past a layer
      flat();
      const int a = model->Add(Dense(11, kRelu), {x});
      const int b = model->Add(Dense(11, kTanh), {a});
      const int c = model->Add(Add(), {a, b});
      x = model->Add(Concatenate(), {c, model->Add(Dense(4), {x})});
      x = model->Add(Dense(9, kRelu), {x});
      break;
    }
    case 3:  // a product in several blocks
      flat();
      x = model->Add(Dense(900, kRelu), {x});
      x = model->Add(Dense(5, kTanh), {x});
      break;
    default:  // a custom layer with a backward pass that may fail
      flat();
      x = model->Add(Dense(13, kRelu), {x});
      x = model->Add(Custom(std::make_shared<Scale>()), {x});
      x = model->Add(Dropout(0.25f), {x});
      x = model->Add(Dense(7, kTanh), {x});
  }
  model->Add(Dense(kClasses), {x});
  return model;
}

bool IsOf(const Variable& v, const std::set<std::string>& layers) {
  return layers.count(v.path.substr(0, v.path.rfind('/'))) > 0;
}

void CompileFor(const Case& c, Collective* collective, Model* model) {
  CompileOptions options;
  options.threads = c.threads;
  options.collective = collective;
  model->Compile(c.optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  ASSERT_OK(model->status());
}

// This rank's part of each batch, of which the last may be short.
template <typename Body>
void ForEachBatch(const Case& c, Collective* collective, const Body& body) {
  const int64_t width = kImage.elements();
  const Floats x = RandomFloats(static_cast<size_t>(c.examples * width), 4);
  std::vector<int32_t> y;
  for (int64_t i = 0; i < c.examples; ++i) {
    y.push_back(static_cast<int32_t>((i * 5 + i / 3) % kClasses));
  }
  const int64_t world = collective == nullptr ? 1 : collective->size();
  const int64_t rank = collective == nullptr ? 0 : collective->rank();
  for (int64_t at = 0; at < c.examples; at += c.batch) {
    const int64_t global = std::min(c.batch, c.examples - at);
    const int64_t piece = (global + world - 1) / world;
    const int64_t first = std::min(global, piece * rank);
    Batch batch;
    batch.count = std::min(piece, global - first);
    batch.global_count = global;
    batch.x = x.data() + (at + first) * width;
    batch.y = y.data() + at + first;
    body(batch);
  }
}

// Training with frozen layers equals training all layers and restoring the
// frozen layers' weights after each step.
void ExpectAsPutBack(const Case& c, Collective* collective) {
  const auto frozen = Build(c.kind), whole = Build(c.kind);
  for (const std::string& name : c.frozen) {
    ASSERT_OK(frozen->SetTrainable(name, false));
  }
  CompileFor(c, collective, frozen.get());
  CompileFor(c, collective, whole.get());
  const std::vector<float> initial = WeightsOf(frozen.get());
  ASSERT_EQ(initial, WeightsOf(whole.get()));
  ForEachBatch(c, collective, [&](const Batch& batch) {
    ASSERT_OK(frozen->TrainStep(batch));
    ASSERT_OK(whole->TrainStep(batch));
    for (const Variable& v : whole->variables()) {
      if (!IsOf(v, c.frozen)) continue;
      std::copy_n(initial.begin() + v.offset, v.size(),
                  whole->weights() + v.offset);
    }
    EXPECT_EQ(frozen->step_metrics()[0].total, whole->step_metrics()[0].total);
    ASSERT_EQ(WeightsOf(frozen.get()), WeightsOf(whole.get()));
  });
  int64_t trained = 0;
  for (const Variable& v : frozen->variables()) {
    EXPECT_EQ(v.trained(), !v.is_layer_state && !IsOf(v, c.frozen)) << v.path;
    if (!v.trained()) continue;
    EXPECT_EQ(v.gradient_offset, trained);
    trained += v.size();
  }
  EXPECT_EQ(frozen->num_trained(), trained);
  EXPECT_OK(frozen->CheckReplicas());
  const MemoryPlan plan = frozen->PlanMemory(c.batch);
  const auto bytes = [](int64_t floats) {
    return Arena::RoundUp(static_cast<size_t>(floats) * sizeof(float));
  };
  EXPECT_EQ(plan.weights, bytes(frozen->num_weights()));
  EXPECT_EQ(plan.gradients, bytes(trained));
  EXPECT_EQ(plan.slots, bytes(trained) * c.optimizer.num_slots());
}

TEST(TrainableTest, FrozenWeights_AnyStep_AreAsPutBackAfterIt) {
  const char* const seed = std::getenv("RINGLET_TRAINABLE_SEED");
  std::mt19937 random(seed == nullptr ? 7 : std::atoi(seed));
  const auto below = [&](uint32_t n) { return static_cast<int>(random() % n); };
  const Optimizer optimizers[] = {SGD(0.05f),
                                  SGD(0.05f, 0.9f),
                                  Adam(0.01f),
                                  RMSprop(0.01f),
                                  Adam(0.01f).ClipNorm(0.1f),
                                  SGD(0.05f).GradientAccumulationSteps(2),
                                  AdamW(0.01f).ClipValue(0.01f)};
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const int64_t batch = std::vector<int64_t>{1, 32, 100, 128}[below(4)];
    Case c = {i % 5,        optimizers[below(7)],
              batch,        batch * 2 + 1 + below(static_cast<uint32_t>(batch)),
              1 + below(2), below(3) == 0 ? 3 : 1};
    const auto model = Build(c.kind);
    for (int node = 0; node < model->num_nodes(); ++node) {
      if (below(2) == 0) c.frozen.insert(model->layer(node).name);
    }
    SCOPED_TRACE("case " + std::to_string(i) + ": " + c.Describe());
    if (c.workers == 1) {
      ExpectAsPutBack(c, nullptr);
    } else {
      RunRanks(c.workers,
               [&](Collective* collective) { ExpectAsPutBack(c, collective); });
    }
  }
}

// Memory of just the planned size, which a guard follows.
TEST(TrainableTest, Plan_FrozenLayers_HoldsToTheByte) {
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    Case c = {kind, Adam(0.01f), /*batch=*/32, /*examples=*/70, /*threads=*/2};
    const auto model = Build(kind);
    CompileFor(c, nullptr, model.get());
    const size_t whole = model->BytesNeeded(c.batch);
    for (int node = 0; node + 1 < model->num_nodes(); ++node) {
      ASSERT_OK(model->SetTrainable(model->layer(node).name, false));
    }
    // Frozen layers count after Compile.
    EXPECT_EQ(model->BytesNeeded(c.batch), whole);
    CompileFor(c, nullptr, model.get());
    const size_t bytes = model->BytesNeeded(c.batch);
    EXPECT_LT(bytes, whole);
    EXPECT_EQ(model->PlanMemory(c.batch).total(), bytes);
    const GuardedMemory memory(bytes);
    CompileOptions options;
    options.memory = memory.data();
    options.memory_bytes = bytes;
    options.threads = c.threads;
    model->Compile(c.optimizer, SparseCategoricalCrossentropy(kFromLogits), {},
                   options);
    ASSERT_OK(model->status());
    ForEachBatch(c, nullptr, [&](const Batch& batch) {
      ASSERT_OK(model->TrainStep(batch));
    });
    EXPECT_EQ(model->BytesUsed(), bytes);
    memory.ExpectIntact();
  }
}

// After a failed Compile the gradients and slots are still those that the model
// reports.
TEST(TrainableTest, Compile_Fails_LeavesWhatIsTrained) {
  for (const bool lacks_memory : {true, false}) {
    Case c = {2, Adam(0.01f), /*batch=*/8, /*examples=*/20};
    const auto model = Build(c.kind);
    const auto train = [&](bool trainable) {
      for (int node = 0; node + 1 < model->num_nodes(); ++node) {
        ASSERT_OK(model->SetTrainable(model->layer(node).name, trainable));
      }
    };
    train(/*trainable=*/false);
    CompileFor(c, nullptr, model.get());
    const size_t bytes = model->BytesNeeded(c.batch);
    const int64_t trained = model->num_trained();
    train(/*trainable=*/true);
    CompileOptions options;
    if (lacks_memory) options.memory_limit = bytes;
    model->Compile(lacks_memory ? c.optimizer : Adam(0.01f).ClipNorm(-1),
                   SparseCategoricalCrossentropy(kFromLogits), {}, options);
    EXPECT_EQ(model->status().code(),
              lacks_memory ? Code::kResourceExhausted : Code::kInvalidArgument);
    EXPECT_EQ(model->num_trained(), trained);
    EXPECT_EQ(model->BytesNeeded(c.batch), bytes);
    EXPECT_FALSE(model->layer(2).trainable);
    std::vector<StateSpan> spans;
    model->optimizer_state()->AppendState(&spans);
    int64_t slots = 0;
    for (const StateSpan& span : spans) {
      slots += span.dtype == DType::kFloat32 ? span.shape.elements() : 0;
    }
    EXPECT_EQ(slots, 2 * trained + 1);  // 1 is the learning rate
  }
}

class Backwards final : public StepObserver {
 public:
  void OnPart(const char* what, const char* phase, int64_t, int64_t) override {
    if (std::string(phase) == "backward") names.push_back(what);
  }
  std::vector<std::string> names;
};

TEST(TrainableTest, Backward_FirstLayersFrozen_StopsAtTheFirstTrained) {
  const auto scale = std::make_shared<Scale>();
  Sequential model({Input(kImage), Flatten(), Dense(4, kRelu).Trainable(false),
                    Custom(scale).Trainable(false), Dense(5, kTanh),
                    Dropout(0.5f), Dense(6, kRelu).Trainable(false),
                    Dense(kClasses)});
  const Case c = {0, SGD(0.1f), /*batch=*/4, /*examples=*/4};
  CompileFor(c, nullptr, &model);
  Backwards backwards;
  model.set_observer(&backwards);
  const auto step = [&] {
    backwards.names.clear();
    ForEachBatch(c, nullptr, [&](const Batch& batch) {
      ASSERT_OK(model.TrainStep(batch));
    });
    return backwards.names;
  };
  const std::vector<std::string> names = {"dense_3", "dense_2", "dropout",
                                          "dense_1"};
  EXPECT_EQ(step(), names);
  EXPECT_EQ(scale->backwards, 0);
  // A change takes effect at the next Compile, which keeps the weights.
  ASSERT_OK(model.SetTrainable("dense", true));
  EXPECT_EQ(step(), names);
  EXPECT_FALSE(model.layer(2).trainable);
  const std::vector<float> before = WeightsOf(&model);
  CompileFor(c, nullptr, &model);
  EXPECT_TRUE(model.layer(2).trainable);
  EXPECT_EQ(WeightsOf(&model), before);
  EXPECT_EQ(step().back(), "dense");
  EXPECT_EQ(scale->backwards, 1);
  for (const Variable& v : model.variables()) {
    const bool same = std::equal(before.begin() + v.offset,
                                 before.begin() + v.offset + v.size(),
                                 model.weights() + v.offset);
    EXPECT_EQ(same, !v.trained()) << v.path;
  }
  EXPECT_TRUE(Contains(model.SetTrainable("dense_9", true),
                       "there is no layer 'dense_9'"));
  EXPECT_OK(model.status());
}

TEST(TrainableTest, TrainStep_AllLayersFrozen_ChangesNoWeight) {
  const auto run = [](Collective* collective) {
    Case c = {4, Adam(0.1f), /*batch=*/32, /*examples=*/70};
    const auto model = Build(c.kind);
    for (int node = 0; node < model->num_nodes(); ++node) {
      ASSERT_OK(model->SetTrainable(model->layer(node).name, false));
    }
    CompileFor(c, collective, model.get());
    const std::vector<float> before = WeightsOf(model.get());
    EXPECT_EQ(model->num_trained(), 0);
    ForEachBatch(c, collective, [&](const Batch& batch) {
      ASSERT_OK(model->TrainStep(batch));
    });
    EXPECT_EQ(model->iterations(), 3);
    EXPECT_EQ(WeightsOf(model.get()), before);
    EXPECT_EQ(model->PlanMemory(32).gradients, 0u);
    EXPECT_EQ(model->PlanMemory(32).slots, 0u);
  };
  run(nullptr);
  RunRanks(3, run);
}

// Keras 3 takes the penalties of trainable_weights only.
TEST(TrainableTest, Regularizer_FrozenWeights_IsNotCounted) {
  const auto loss = [](bool trainable) {
    Sequential model(
        {Input({2}),
         Dense(2).KernelInitializer(Ones()).KernelRegularizer(L2(10)).Trainable(
             trainable),
         Dense(1).KernelInitializer(Zeros())});
    model.Compile(SGD(0.1f), MeanSquaredError());
    const float x[2] = {1, 1}, y[1] = {0};
    Batch batch;
    batch.count = batch.global_count = 1;
    batch.x = x;
    batch.y = y;
    EXPECT_OK(model.TrainStep(batch));
    return model.step_metrics()[0].Result();
  };
  EXPECT_EQ(loss(true), 40);
  EXPECT_EQ(loss(false), 0);
}

TEST(TrainableTest, State_AmongTrainedLayers_LiesBehindTheOtherWeights) {
  const auto model = Build(4);
  std::vector<int64_t> offsets;
  for (const Variable& v : model->variables()) {
    EXPECT_EQ(v.is_layer_state, v.path == "scale/offset");
    if (v.is_layer_state) {
      EXPECT_EQ(v.offset, model->num_weights() - v.size());
    } else {
      offsets.push_back(v.offset);
    }
  }
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_EQ(offsets[0], 0);
  EXPECT_TRUE(
      Contains(model->Summary(), " Non-trainable params: 13 (52.00 B)"));
  model->Compile(SGD(0.1f, 0.9f), SparseCategoricalCrossentropy(kFromLogits));
  const auto state_names = [](Saveable* state) {
    std::vector<StateSpan> spans;
    state->AppendState(&spans);
    std::set<std::string> all;
    for (const StateSpan& span : spans) all.insert(span.name);
    return all;
  };
  EXPECT_EQ(state_names(model->weights_state()).count("model/scale/offset"),
            1u);
  EXPECT_EQ(state_names(model->optimizer_state())
                .count("optimizer/momentum/scale/offset"),
            0u);
  EXPECT_EQ(model->weights()[model->num_weights() - 1], 0.25f);
}

// A rank with another state is found. At the start all ranks get the chief's
// state.
TEST(TrainableTest, CheckReplicas_OtherStateOnOneRank_IsFound) {
  RunRanks(2, [](Collective* collective) {
    Case c = {4,
              SGD(0.1f),
              /*batch=*/8,
              /*examples=*/8,
              /*threads=*/1,
              /*workers=*/2};
    const auto model = Build(c.kind);
    std::vector<float> mine(static_cast<size_t>(model->num_weights()),
                            static_cast<float>(collective->rank()));
    ASSERT_OK(model->SetInitialWeights(mine));
    CompileFor(c, collective, model.get());
    EXPECT_EQ(model->weights()[model->num_weights() - 1], 0);
    EXPECT_OK(model->CheckReplicas());
    // A NaN of another sign is the same: a diverged run does not report a
    // faulty machine.
    model->weights()[0] = std::copysign(NAN, collective->rank() - 0.5f);
    EXPECT_OK(model->CheckReplicas());
    if (collective->rank() == 1) model->weights()[model->num_weights() - 1] = 1;
    EXPECT_EQ(model->CheckReplicas().code(), Code::kOutOfSync);
  });
}

TEST(TrainableTest, Compile_RanksFreezeOtherLayers_NamesTheRank) {
  RunRanks(2, [](Collective* collective) {
    Sequential model(
        {Input({2}), Dense(2).Trainable(collective->rank() == 0), Dense(1)});
    CompileOptions options;
    options.collective = collective;
    model.Compile(SGD(), MeanSquaredError(), {}, options);
    const std::string message = model.status().message();
    EXPECT_TRUE(Contains(message, "frozen on rank 1"));
  });
}

TEST(TrainableTest, Build_StateBeforeTrainedWeights_IsRefused) {
  class Early final : public CustomLayer {
   public:
    const char* class_name() const override { return "Early"; }
    Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
      plan->weights = {{"a", {1}, Zeros(), {}, {}, false},
                       {"b", {1}, Zeros(), {}}};
      return Status();
    }
    Status Forward(const LayerCall&) const override { return Status(); }
    Status Backward(const LayerCall&) const override { return Status(); }
  };
  Sequential model({Input({1}), Custom(std::make_shared<Early>())});
  EXPECT_TRUE(
      Contains(model.status(), "weight 'b' is trained, and comes after state"));
}

}  // namespace
}  // namespace ringlet
