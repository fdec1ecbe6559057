// Tests the moving statistics of BatchNormalization in a step, alone and with
// several workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/guarded_memory.h"
#include "../../support/model_weights.h"
#include "../../support/op_runner.h"
#include "../../support/thread_collective.h"
#include "core/layers/layer_kind.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kClasses = 3;
const Shape kImage = {6, 5, 2};

// A block of a residual network, a bottleneck of dense layers, and one with
// normalizations that have no trained weights.
std::unique_ptr<Model> Build(int kind, bool trainable = true) {
  auto model = std::make_unique<Functional>();
  int x = model->Add(Input(kImage));
  const auto normalize = [&](Layer layer) {
    x = model->Add(layer.Trainable(trainable), {x});
  };
  switch (kind) {
    case 0: {
      x = model->Add(Conv2D(4, 3).Padding(kSame).UseBias(false), {x});
      normalize(BatchNormalization());
      const int start = x = model->Add(ReLU(), {x});
      x = model->Add(Conv2D(4, 3, kTanh).Padding(kSame), {x});
      normalize(BatchNormalization(0.9f, 0.01f).GammaRegularizer(L2(0.01f)));
      x = model->Add(Add(), {start, x});
      x = model->Add(ReLU(), {x});
      x = model->Add(GlobalAveragePooling2D(), {x});
      break;
    }
    case 1:
      x = model->Add(Flatten(), {x});
      for (const int64_t units : {17, 3, 17}) {
        x = model->Add(Dense(units), {x});
        normalize(BatchNormalization(0.5f));
        x = model->Add(ReLU(), {x});
      }
      break;
    default:
      normalize(BatchNormalization(0.5f).Center(false).Scale(false));
      x = model->Add(Conv2D(3, 2, kRelu).Trainable(false), {x});
      normalize(BatchNormalization().Center(false).Scale(false));
      x = model->Add(Flatten(), {x});
  }
  model->Add(Dense(kClasses), {x});
  return model;
}
constexpr int kKinds = 3;

void CompileFor(const Optimizer& optimizer, Collective* collective, int threads,
                Model* model) {
  CompileOptions options;
  options.threads = threads;
  options.collective = collective;
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  ASSERT_OK(model->status());
}

// `count` examples of `global`, from number `first` on.
struct Examples {
  Examples(int64_t first, int64_t count, int64_t global) {
    const int64_t width = kImage.elements();
    x = RandomFloats(static_cast<size_t>((first + count) * width), 4);
    x.erase(x.begin(), x.begin() + first * width);
    for (int64_t i = first; i < first + count; ++i) {
      y.push_back(static_cast<int32_t>((i * 5 + i / 3) % kClasses));
    }
    batch.count = count;
    batch.global_count = global;
    batch.x = x.data();
    batch.y = y.data();
  }
  std::vector<float> x;
  std::vector<int32_t> y;
  Batch batch;
};

// Keras's formula for the first of the model's layers, over these examples.
void ExpectMoved(const Model& model, const std::vector<float>& before,
                 const std::vector<float>& after,
                 const std::vector<Examples>& parts, double momentum) {
  const int64_t channels = kImage.back();
  std::vector<double> mean(2), variance(2);
  for (const Examples& part : parts) {
    std::vector<double> m(2), v(2);
    const double n = static_cast<double>(part.x.size()) / 2;
    for (size_t i = 0; i < part.x.size(); ++i) m[i % 2] += part.x[i] / n;
    for (size_t i = 0; i < part.x.size(); ++i) {
      v[i % 2] += std::pow(part.x[i] - m[i % 2], 2) / n;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float* const old = &before[model.variables()[0].offset];
      const auto share = static_cast<double>(parts.size());
      // A part without examples leaves things as they are.
      mean[c] += (part.x.empty() ? old[c] : m[c]) / share;
      variance[c] += (part.x.empty() ? old[channels + c] : v[c]) / share;
    }
  }
  ASSERT_TRUE(model.variables()[0].is_layer_state);
  const int64_t at = model.variables()[0].offset;
  for (int64_t c = 0; c < channels; ++c) {
    EXPECT_NEAR(after[at + c],
                momentum * before[at + c] + (1 - momentum) * mean[c], 1e-6);
    const int64_t v = at + channels + c;
    EXPECT_NEAR(after[v], momentum * before[v] + (1 - momentum) * variance[c],
                1e-6);
  }
}

bool StateIsOf(const Model& model, const std::vector<float>& a,
               const std::vector<float>& b) {
  for (const Variable& v : model.variables()) {
    if (!v.is_layer_state) continue;
    if (!std::equal(&a[v.offset], &a[v.offset] + v.size(), &b[v.offset])) {
      return false;
    }
  }
  return true;
}

TEST(BatchNormalizationTest, TrainStep_AnyBatch_MovesTheStatistics) {
  const auto model = Build(2);
  CompileFor(SGD(0.1f), nullptr, 2, model.get());
  for (const int64_t count : {32, 1, 32, 7}) {
    const std::vector<float> before = WeightsOf(model.get());
    const Examples part(count, count, count);
    ASSERT_OK(model->TrainStep(part.batch));
    ExpectMoved(*model, before, WeightsOf(model.get()), {part}, 0.5);
  }
}

TEST(BatchNormalizationTest, Step_NotApplied_LeavesTheStatistics) {
  const auto run = [](Collective* collective) {
    const int64_t world = collective == nullptr ? 1 : collective->size();
    for (int kind = 0; kind < kKinds; ++kind) {
      const auto model = Build(kind);
      CompileFor(Adam(0.01f), collective, 1, model.get());
      const Examples part(0, 8, 8 * world), larger(8, 40, 40 * world);
      ASSERT_OK(model->TrainStep(part.batch));
      const std::vector<float> before = WeightsOf(model.get());
      const auto forward = [&](const Examples& examples, bool training) {
        ASSERT_OK(
            model->Forward(examples.batch.x, examples.batch.count, training));
      };
      double loss;
      forward(part, /*training=*/true);
      EXPECT_EQ(WeightsOf(model.get()), before);
      ASSERT_OK(model->ComputeLoss(part.batch, &loss));
      ASSERT_OK(model->Backward());
      EXPECT_EQ(WeightsOf(model.get()), before);
      forward(part, /*training=*/false);  // drops the step
      EXPECT_FALSE(model->ApplyGradients().ok());
      ASSERT_OK(model->TestStep(larger.batch));
      EXPECT_EQ(WeightsOf(model.get()), before);
      // The dropped step has no effect on the next one.
      const auto other = Build(kind);
      CompileFor(Adam(0.01f), collective, 1, other.get());
      for (Model* each : {other.get(), model.get()}) {
        if (each == other.get()) {
          ASSERT_OK(each->TrainStep(part.batch));
        }
        ASSERT_OK(each->TrainStep(larger.batch));
      }
      EXPECT_EQ(WeightsOf(model.get()), WeightsOf(other.get()));
      EXPECT_FALSE(StateIsOf(*model, before, WeightsOf(model.get())));
    }
  };
  run(nullptr);
  RunRanks(3, run);
}

// A step made by its parts equals TrainStep.
TEST(BatchNormalizationTest, UserLoop_Pieces_AreTrainStep) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto whole = Build(kind), pieces = Build(kind);
    for (Model* each : {whole.get(), pieces.get()}) {
      CompileFor(SGD(0.1f, 0.9f), nullptr, 2, each);
    }
    for (const int64_t count : {32, 5}) {
      const Examples part(count, count, count);
      double loss;
      ASSERT_OK(whole->TrainStep(part.batch));
      ASSERT_OK(pieces->Forward(part.batch.x, count, /*training=*/true));
      ASSERT_OK(pieces->ComputeLoss(part.batch, &loss));
      ASSERT_OK(pieces->Backward());
      ASSERT_OK(pieces->ApplyGradients());
      EXPECT_EQ(WeightsOf(whole.get()), WeightsOf(pieces.get()));
    }
  }
}

TEST(BatchNormalizationTest,
     TrainStep_SeveralWorkers_TakesTheMeanOfTheStatistics) {
  for (const int64_t global : {96, 32, 4, 2, 1}) {
    SCOPED_TRACE(global);
    RunRanks(3, [global](Collective* collective) {
      const auto model = Build(2);
      CompileFor(SGD(0.1f), collective, 1, model.get());
      const int64_t each = (global + 2) / 3;
      std::vector<Examples> parts;
      for (int64_t r = 0; r < 3; ++r) {
        const int64_t first = std::min(global, each * r);
        parts.emplace_back(first, std::min(each, global - first), global);
      }
      for (int i = 0; i < 3; ++i) {
        const std::vector<float> before = WeightsOf(model.get());
        ASSERT_OK(model->TrainStep(parts[collective->rank()].batch));
        ExpectMoved(*model, before, WeightsOf(model.get()), parts, 0.5);
        ASSERT_OK(model->CheckReplicas());
      }
    });
  }
}

// A worker without examples sends no statistics.
TEST(BatchNormalizationTest,
     TrainStep_WorkersWithoutExamples_ChangesNoStatistics) {
  RunRanks(2, [](Collective* collective) {
    const auto model = Build(0);
    CompileFor(SGD(0.1f), collective, 1, model.get());
    const std::vector<float> before = WeightsOf(model.get());
    const Examples none(0, 0, 1);
    ASSERT_OK(model->TrainStep(none.batch));
    EXPECT_TRUE(StateIsOf(*model, before, WeightsOf(model.get())));
  });
}

TEST(BatchNormalizationTest, Layer_Frozen_StaysInInference) {
  const auto run = [](Collective* collective) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const auto model = Build(kind, /*trainable=*/false);
      CompileFor(SGD(0.1f), collective, 1, model.get());
      const std::vector<float> before = WeightsOf(model.get());
      const Examples part(0, 6, 12);
      ASSERT_OK(model->Forward(part.batch.x, 6, /*training=*/true));
      const std::vector<float> training(model->output(),
                                        model->output() + 6 * kClasses);
      ASSERT_OK(model->Forward(part.batch.x, 6, /*training=*/false));
      EXPECT_TRUE(
          std::equal(training.begin(), training.end(), model->output()));
      ASSERT_OK(model->TrainStep(part.batch));
      EXPECT_TRUE(StateIsOf(*model, before, WeightsOf(model.get())));
      EXPECT_NE(WeightsOf(model.get()), before);
      // The statistics move again from the next Compile on.
      for (int node = 0; node < model->num_nodes(); ++node) {
        ASSERT_OK(model->SetTrainable(model->layer(node).name, true));
      }
      ASSERT_OK(model->TrainStep(part.batch));
      EXPECT_TRUE(StateIsOf(*model, before, WeightsOf(model.get())));
      CompileFor(SGD(0.1f), collective, 1, model.get());
      ASSERT_OK(model->TrainStep(part.batch));
      EXPECT_FALSE(StateIsOf(*model, before, WeightsOf(model.get())));
    }
  };
  run(nullptr);
  RunRanks(2, run);
}

// The optimizer does not change the statistics.
TEST(BatchNormalizationTest, Optimizer_AnyKind_LeavesTheStatisticsAlone) {
  const Optimizer optimizers[] = {
      SGD(0), SGD(0).GradientAccumulationSteps(3), Adam(0).ClipNorm(1e-6f),
      Adam(0).GlobalClipNorm(1e-6f), Adam(0).ClipValue(1e-6f)};
  const auto run = [&](Collective* collective) {
    std::vector<float> expected;
    for (const Optimizer& optimizer : optimizers) {
      const auto model = Build(1);
      CompileFor(optimizer, collective, 1, model.get());
      const std::vector<float> before = WeightsOf(model.get());
      for (int i = 0; i < 4; ++i) {
        const Examples part(i * 9, 9, 18);
        ASSERT_OK(model->TrainStep(part.batch));
      }
      if (expected.empty()) expected = WeightsOf(model.get());
      EXPECT_EQ(WeightsOf(model.get()), expected);
      EXPECT_FALSE(StateIsOf(*model, before, expected));
    }
  };
  run(nullptr);
  RunRanks(2, run);
}

// Rounds what is longer than `exact` bytes, as a wire of half floats does.
class Rounding final : public Collective {
 public:
  Rounding(Collective* whole, size_t exact) : whole_(*whole), exact_(exact) {}
  int rank() const override { return whole_.rank(); }
  int size() const override { return whole_.size(); }
  size_t bucket_bytes() const override { return 4096; }
  size_t unrounded_bytes() const override { return exact_; }
  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    if (count * sizeof(float) > exact_) {
      std::fill_n(data, count, 0.0f);
    }
    return whole_.StartAllReduce(data, count, ticket);
  }
  Status Wait(Ticket ticket) override { return whole_.Wait(ticket); }
  Status Broadcast(void* data, size_t bytes, int root) override {
    return whole_.Broadcast(data, bytes, root);
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    return whole_.AllGather(in, bytes, out);
  }
  Status Barrier() override { return whole_.Barrier(); }

 private:
  Collective& whole_;
  const size_t exact_;
};

TEST(BatchNormalizationTest, Plan_TrainableOrFrozen_HoldsToTheByte) {
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const bool trainable : {true, false}) {
      const auto model = Build(kind, trainable);
      CompileFor(Adam(0.01f), nullptr, 2, model.get());
      const size_t bytes = model->BytesNeeded(32);
      const GuardedMemory memory(bytes);
      CompileOptions options;
      options.memory = memory.data();
      options.memory_bytes = bytes;
      options.threads = 2;
      model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                     {}, options);
      ASSERT_OK(model->status());
      const auto other = Build(kind, trainable);
      CompileFor(Adam(0.01f), nullptr, 2, other.get());
      for (const int64_t count : {32, 1, 20}) {
        const Examples part(0, count, count);
        ASSERT_OK(model->TrainStep(part.batch));
        ASSERT_OK(other->TrainStep(part.batch));
        EXPECT_EQ(WeightsOf(model.get()), WeightsOf(other.get()));
      }
      EXPECT_EQ(model->BytesUsed(), bytes);
      memory.ExpectIntact();
    }
  }
}

TEST(BatchNormalizationTest, Summary_MovingStatistics_CountAsInKeras) {
  const auto model = Build(1);
  EXPECT_TRUE(Contains(model->Summary(), " Trainable params: 1,287 ("));
  EXPECT_TRUE(
      Contains(model->Summary(), " Non-trainable params: 74 (296.00 B)"));
  std::string names;
  for (const Variable& v : model->variables()) {
    if (v.path.find("batch_normalization/") == 0) names += v.path + " ";
  }
  EXPECT_EQ(names,
            "batch_normalization/gamma batch_normalization/beta "
            "batch_normalization/moving_mean "
            "batch_normalization/moving_variance ");
}

// --- statistics of all workers ----------------------------------------------

std::unique_ptr<Model> BuildSynchronized(int kind) {
  const auto plain = Build(kind);
  auto model = std::make_unique<Functional>();
  for (int node = 0; node < plain->num_nodes(); ++node) {
    Layer layer = plain->layer(node);
    if (layer.kind == Layer::Kind::kBatchNormalization) {
      layer.Synchronized(true);
    }
    model->Add(layer, plain->inputs(node));
  }
  return model;
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
  }
}

TEST(BatchNormalizationTest, Statistics_WireRoundsGradients_AreNotRounded) {
  for (const bool synchronized : {false, true}) {
    std::vector<std::vector<float>> weights(2);
    for (const bool rounds : {false, true}) {
      RunRanks(2, [&](Collective* collective) {
        Rounding rounding(collective, 20);
        const auto model = synchronized ? BuildSynchronized(1) : Build(1);
        CompileFor(SGD(0), rounds ? &rounding : collective, 1, model.get());
        for (int i = 0; i < 3; ++i) {
          const Examples part(9 * (i + 3 * collective->rank()), 9, 18);
          ASSERT_OK(model->TrainStep(part.batch));
        }
        if (collective->rank() == 0) weights[rounds] = WeightsOf(model.get());
      });
    }
    EXPECT_EQ(weights[0], weights[1]);
  }
}

// Several workers that synchronize are one with the whole batch, also if some
// have no examples.
TEST(BatchNormalizationTest,
     Synchronized_SeveralWorkers_EqualOneOfTheWholeBatch) {
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const auto& parts : std::vector<std::vector<int64_t>>{
             {12, 12}, {12, 5}, {9, 0, 7}, {0, 8}, {1, 1, 1}}) {
      SCOPED_TRACE(kind);
      int64_t global = 0;
      for (const int64_t part : parts) global += part;
      const auto whole = BuildSynchronized(kind);
      CompileFor(SGD(0.05f), nullptr, 2, whole.get());
      const Examples all(0, global, global);
      for (int i = 0; i < 4; ++i) {
        ASSERT_OK(whole->TrainStep(all.batch));
      }
      const std::vector<float> expected = WeightsOf(whole.get());
      RunRanks(static_cast<int>(parts.size()), [&](Collective* collective) {
        const auto rank = static_cast<size_t>(collective->rank());
        const auto model = BuildSynchronized(kind);
        CompileFor(SGD(0.05f), collective, 1, model.get());
        int64_t first = 0;
        for (size_t r = 0; r < rank; ++r) first += parts[r];
        const Examples part(first, parts[rank], global);
        for (int i = 0; i < 4; ++i) {
          ASSERT_OK(model->TrainStep(part.batch));
          // The test step uses the worker's own examples, or none.
          ASSERT_OK(model->TestStep(part.batch));
        }
        ASSERT_OK(model->CheckReplicas());
        ExpectNear(WeightsOf(model.get()), expected, 2e-4);
      });
    }
  }
}

// The rows are also far from the moving mean, and a worker may have no
// examples.
TEST(BatchNormalizationTest, Synchronized_EqualRows_GiveBetaToTheBit) {
  const std::vector<float> row = {1000.1f, 0.3f, -7e5f, 0, 1e-3f};
  const auto width = static_cast<int64_t>(row.size());
  for (const int64_t second : {0, 1, 300}) {
    SCOPED_TRACE(second);
    RunRanks(2, [&](Collective* collective) {
      Layer layer = BatchNormalization(0.9f, 1e-6f).Synchronized(true);
      Sequential model({Input({width}), layer});
      CompileOptions options;
      options.collective = collective;
      model.Compile(SGD(0), MeanSquaredError(), {}, options);
      ASSERT_OK(model.status());
      const int64_t count = collective->rank() == 0 ? 7 : second;
      std::vector<float> x;
      for (int64_t i = 0; i < count; ++i) {
        x.insert(x.end(), row.begin(), row.end());
      }
      ASSERT_OK(model.Forward(x.data(), count, /*training=*/true));
      for (int64_t i = 0; i < count * width; ++i) {
        ASSERT_EQ(model.output()[i], 0) << i;
      }
    });
  }
}

// Without it the statistics are each worker's.
TEST(BatchNormalizationTest, Statistics_NotSynchronized_AreEachWorkersOwn) {
  std::vector<float> weights[2];
  for (const bool synchronized : {false, true}) {
    RunRanks(2, [&](Collective* collective) {
      const auto model = synchronized ? BuildSynchronized(1) : Build(1);
      CompileFor(SGD(0.05f), collective, 1, model.get());
      const Examples part(collective->rank() * 6, 6, 12);
      ASSERT_OK(model->TrainStep(part.batch));
      if (collective->rank() == 0)
        weights[synchronized] = WeightsOf(model.get());
    });
  }
  EXPECT_NE(weights[0], weights[1]);
}

TEST(BatchNormalizationTest,
     Synchronized_WorkerLeavesInForward_EndsTheOthersStep) {
  for (const int calls : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(calls);
    RunRanks(3, [calls](Collective* collective) {
      const auto model = BuildSynchronized(0);
      CompileFor(SGD(0.05f), collective, 1, model.get());
      const std::vector<float> before = WeightsOf(model.get());
      const Examples part(collective->rank() * 6, 6, 18);
      if (collective->rank() == 1) {
        // This rank makes only the first `calls` all-reduces of the step. Each
        // of the two layers makes two: of 6 numbers, then of 8.
        std::vector<float> sums(8);
        for (int i = 0; i < calls; ++i) {
          const size_t count = i % 2 == 0 ? 6 : 8;
          ASSERT_OK(collective->AllReduce(sums.data(), count));
        }
        return;
      }
      const Status status = model->TrainStep(part.batch);
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      EXPECT_EQ(WeightsOf(model.get()), before);
    });
  }
}

// Requests on one rank that the fit ends after some steps. The next step is
// given up while the other ranks are in its passes.
class StopsAfter final : public Callback {
 public:
  explicit StopsAfter(int64_t steps) : steps_(steps) {}
  const char* name() const override { return "stops"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (fit.model->iterations() == steps_) fit.stop_training = 1;
    return Status();
  }

 private:
  const int64_t steps_;
};

TEST(BatchNormalizationTest, Synchronized_OneRankStops_AllGiveTheStepUp) {
  const Examples all(0, 60, 60);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int64_t steps : {1, 3}) {
      RunRanks(3, [&](Collective* collective) {
        const Dataset dataset =
            Dataset(MemorySource({DType::kFloat32, kImage}, all.x.data(),
                                 {DType::kInt32, {}}, all.y.data(), 60))
                .Batch(18);
        const auto model = BuildSynchronized(kind);
        CompileFor(SGD(0.05f), collective, 1, model.get());
        FitOptions fit;
        fit.verbose = Verbose::kSilent;
        fit.epochs = 2;
        fit.callbacks = {
            std::make_shared<StopsAfter>(collective->rank() == 1 ? steps : -1)};
        ASSERT_OK(model->Fit(dataset, fit).status());
        EXPECT_EQ(model->iterations(), steps);
        ASSERT_OK(model->CheckReplicas());
      });
    }
  }
}

}  // namespace
}  // namespace ringlet
