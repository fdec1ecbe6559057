// Rounds of local updates against separate models, one a replica. Their changes
// are averaged and applied in double.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/replica_step.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

struct Job {
  int replicas = 4;
  int64_t examples = 203, batch = 40, epochs = 3, steps_per_epoch = 0;
  bool repeats = false;
  Optimizer optimizer = Adam(0.01f);
  LocalUpdates local;
  AutoShardPolicy policy = AutoShardPolicy::kData;
};

std::unique_ptr<Sequential> ModelOf(const Optimizer& optimizer,
                                    const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(16, kTanh));
  model->Add(BatchNormalization(0.8f));
  model->Add(Dense(3));
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

Dataset DataOf(const Job& run) {
  Dataset data = Points(run.examples).AutoShard(run.policy).Shuffle(5);
  if (run.repeats) data = data.Repeat();
  return data.Batch(run.batch);
}

std::vector<float> Train(const Job& run, Collective* collective) {
  CompileOptions options(collective);
  options.replicas = run.replicas;
  options.local = run.local;
  const auto model = ModelOf(run.optimizer, options);
  FitOptions fit = Quiet(run.epochs);
  fit.steps_per_epoch = run.steps_per_epoch;
  EXPECT_OK(model->Fit(DataOf(run), fit).status());
  EXPECT_EQ(
      model->iterations(),
      run.epochs * (run.steps_per_epoch > 0 ? run.steps_per_epoch
                                            : DataOf(run).steps(run.replicas)));
  return WeightsOf(model.get());
}

// The state behind the trained weights of ModelOf.
constexpr int64_t kState = 32;

class Reference {
 public:
  explicit Reference(const Job& run)
      : run_(run), data_(DataOf(run)), model_(ModelOf(run.optimizer, {})) {
    const std::vector<float> first = WeightsOf(model_.get());
    weights_.assign(first.begin(), first.end());
    momentum_.assign(weights_.size(), 0);
  }

  std::vector<double> Train() {
    const int64_t steps = run_.steps_per_epoch > 0 ? run_.steps_per_epoch
                                                   : data_.steps(run_.replicas);
    for (int64_t epoch = 0; epoch < run_.epochs; ++epoch) {
      for (int64_t step = 0; step < steps; step += run_.local.steps) {
        Round(std::min(run_.local.steps, steps - step));
      }
    }
    return weights_;
  }

 private:
  void Round(int64_t steps) {
    std::vector<double> mean(weights_.size(), 0);
    double all_examples = 0;
    DataPosition end;
    for (int r = 0; r < run_.replicas; ++r) {
      std::copy(weights_.begin(), weights_.end(), model_->weights());
      model_->Compile(run_.optimizer,
                      SparseCategoricalCrossentropy(kFromLogits), {});
      end = at_;
      double examples = 0;
      for (int64_t s = 0; s < steps; ++s) examples += Step(r, &end);
      all_examples += examples;
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += examples * (weights_[i] - double{model_->weights()[i]});
      }
    }
    at_ = end;
    const LocalUpdates& local = run_.local;
    const double rate = double{local.learning_rate};
    const double mu = double{local.momentum};
    for (size_t i = 0; i < mean.size(); ++i) {
      const double d = mean[i] / all_examples;
      if (i >= mean.size() - kState) {
        weights_[i] -= d;
        continue;
      }
      momentum_[i] = mu * momentum_[i] + d;
      weights_[i] -=
          rate * (local.nesterov ? d + mu * momentum_[i] : momentum_[i]);
    }
  }

  double Step(int r, DataPosition* at) {
    return TrainPart(model_.get(), data_, r, run_.replicas, at);
  }

  const Job run_;
  const Dataset data_;
  const std::unique_ptr<Sequential> model_;
  std::vector<double> weights_, momentum_;
  DataPosition at_;
};

// The bound between weights in float32 and a model in double. Without fused
// multiply-adds the distance is about 2e-4.
constexpr double kClose = 1e-3;

double Distance(const std::vector<float>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::fabs(double{a[i]} - b[i]) / (1 + fabs(b[i])));
  }
  return most;
}

std::vector<Job> Runs() {
  std::vector<Job> runs(9);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].local.steps = static_cast<int64_t>(1 + i);
  }
  runs[1].local.learning_rate = 1;
  runs[1].local.momentum = 0;
  runs[2].local.nesterov = false;
  runs[2].replicas = 1;
  runs[3].replicas = 3;
  runs[4].batch = 3;  // one replica has no example of it
  runs[4].examples = 31;
  runs[5].optimizer = SGD(0.05f, 0.9f).GlobalClipNorm(0.3f);
  runs[6].policy = AutoShardPolicy::kOff;
  runs[6].replicas = 5;
  runs[7].repeats = true;
  runs[7].steps_per_epoch = 10;
  runs[8].local.steps = 100;  // an epoch is one round
  return runs;
}

TEST(LocalUpdatesTest, Rounds_Float32_FollowTheReference) {
  int number = 0;
  for (Job run : Runs()) {
    SCOPED_TRACE(number++);
    run.local.delta = LocalUpdates::Delta::kFloat32;
    const std::vector<double> wanted = Reference(run).Train();
    EXPECT_LT(Distance(Train(run, nullptr), wanted), kClose);
  }
}

// A round on 8 bits is off by at most the outer step of half a level. If a
// block's greatest number was clamped, it is off by at most the outer step of a
// level.
TEST(LocalUpdatesTest, Delta_EightBits_IsOffByOneLevelAtMost) {
  for (const int replicas : {1, 2, 3, 4, 8, 18, 19, 40}) {
    SCOPED_TRACE(replicas);
    Job run;
    run.replicas = replicas;
    run.examples = run.batch = 120;
    run.epochs = 1;
    run.local.steps = 5;
    run.steps_per_epoch = 5;
    run.repeats = true;
    std::vector<float> whole, levels;
    run.local.delta = LocalUpdates::Delta::kFloat32;
    whole = Train(run, nullptr);
    run.local.delta = LocalUpdates::Delta::kInt8;
    levels = Train(run, nullptr);
    const double most = replicas <= 18 ? 127 / replicas : 32767 / replicas;
    // Adam moves no weight by more than 0.05 in five steps of 0.01.
    const double unit = 2 * 0.0625 / most, moves = 0.7 * 1.9;
    double off = 0;
    for (size_t i = 0; i + kState < whole.size(); ++i) {
      off = std::max(off, std::fabs(double{whole[i]} - double{levels[i]}));
    }
    EXPECT_LE(off, moves * unit);
    EXPECT_GT(off, 0);
    for (size_t i = whole.size() - kState; i < whole.size(); ++i) {
      EXPECT_EQ(whole[i], levels[i]) << "state travels whole";
    }
  }
}

// A learning rate so large that one replica's weights become infinite: every
// rank then has a number that is not finite.
TEST(LocalUpdatesTest, Update_NotFiniteInOneReplica_ReachesAllRanks) {
  Job run;
  run.local.steps = 3;
  run.optimizer = SGD(1e30f);
  std::vector<std::vector<float>> ranks(2);
  RunRanks(2, [&](Collective* collective) {
    ranks[static_cast<size_t>(collective->rank())] = Train(run, collective);
  });
  int unfinite = 0;
  for (size_t i = 0; i < ranks[0].size(); ++i) {
    unfinite += std::isfinite(ranks[0][i]) ? 0 : 1;
    EXPECT_EQ(std::isfinite(ranks[0][i]), std::isfinite(ranks[1][i]));
  }
  EXPECT_GT(unfinite, 0);
}

// Points, of which those from a number on cannot be read.
class SourceWithBadEnd final : public Source {
 public:
  SourceWithBadEnd(std::shared_ptr<Source> points, int64_t good)
      : points_(std::move(points)), good_(good) {}
  int64_t size() const override { return points_->size(); }
  ExampleSpec x() const override { return points_->x(); }
  ExampleSpec y() const override { return points_->y(); }
  Status Read(const int64_t* index, int n, void* x, void* y) override {
    if (n > 0 && *std::max_element(index, index + n) >= good_) {
      return Corruption("a bad example");
    }
    return points_->Read(index, n, x, y);
  }
  std::string name() const override { return "ends_badly"; }

 private:
  const std::shared_ptr<Source> points_;
  const int64_t good_;
};

// An error in examples that are read ahead, and never trained on, ends nothing.
TEST(LocalUpdatesTest, Data_AfterTheLastRound_NeedNotBeThere) {
  for (const int64_t steps : {0, 2, 4}) {
    for (const bool prefetch : {false, true}) {
      SCOPED_TRACE(std::to_string(steps) + (prefetch ? " ahead" : ""));
      CompileOptions options;
      options.local.steps = steps;
      options.replicas = 2;
      const auto model = ModelOf(SGD(0.01f), options);
      const Dataset data(
          std::make_shared<SourceWithBadEnd>(Points(60).source(), /*good=*/32));
      FitOptions fit = Quiet(1);
      fit.steps_per_epoch = 4;
      fit.prefetch = prefetch;
      const Status status = model->Fit(data.Batch(8), fit).status();
      EXPECT_OK(status);
      fit.steps_per_epoch = 5;
      EXPECT_EQ(model->Fit(data.Batch(8), fit).status().code(),
                Code::kCorruption);
    }
  }
}

// A batch read ahead is dropped if an earlier batch is read again.
TEST(LocalUpdatesTest, ReadAhead_BatchIsReadAgain_IsForgotten) {
  const auto model = ModelOf(SGD(0.01f), {});
  const Dataset data(
      std::make_shared<SourceWithBadEnd>(Points(60).source(), 32));
  for (void (BatchLoader::*again)() :
       {&BatchLoader::RewindStep, &BatchLoader::RewindRound}) {
    std::unique_ptr<BatchLoader> loader;
    ASSERT_OK(model->OpenLoader(data.Batch(32), {}, &loader));
    Batch batch;
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(loader->Next(&batch));
      (loader.get()->*again)();
    }
    ASSERT_OK(loader->Next(&batch));
    EXPECT_EQ(loader->Next(&batch).code(), Code::kCorruption);
  }
}

class StepRecorder final : public Callback {
 public:
  const char* name() const override { return "sees_steps"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    begins.push_back(fit.step);
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    ends.push_back(fit.step);
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool) override {
    next.push_back(fit.step);
    return Status();
  }
  std::vector<int64_t> begins, ends, next;
};

TEST(LocalUpdatesTest, Callbacks_InRounds_SeeTheLastStep) {
  CompileOptions options;
  options.local.steps = 4;
  options.replicas = 2;
  const auto model = ModelOf(SGD(0.01f), options);
  FitOptions fit = Quiet(1);
  const auto recorder = std::make_shared<StepRecorder>();
  fit.callbacks = {recorder};
  ASSERT_OK(model->Fit(Points(60).Batch(6), fit));
  EXPECT_EQ(recorder->begins, (std::vector<int64_t>{0, 4, 8}));
  EXPECT_EQ(recorder->ends, (std::vector<int64_t>{3, 7, 9}));
  EXPECT_EQ(recorder->next, (std::vector<int64_t>{4, 8, 10, 0}));
}

// A model saved from steps or rounds is loaded for either. Weights and step
// numbers are kept. In the same way training continues as if undisturbed.
TEST(LocalUpdatesTest, SavedModel_StepsOrRounds_LoadsForEither) {
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  const Dataset data = Points(60).Batch(6);
  for (const int64_t saved : {0, 4}) {
    for (const int64_t loaded : {0, 4}) {
      SCOPED_TRACE(std::to_string(saved) + " " + std::to_string(loaded));
      CompileOptions options;
      options.local.steps = saved;
      const auto model = ModelOf(Adam(0.01f), options);
      ASSERT_OK(model->Fit(data, Quiet(1)));
      ASSERT_OK(SaveModel(model.get(), path));
      std::unique_ptr<Model> other;
      options.local.steps = loaded;
      ASSERT_OK(LoadModel(path, &other, options));
      EXPECT_EQ(WeightsOf(other.get()), WeightsOf(model.get()));
      EXPECT_EQ(other->iterations(), 10);
      ASSERT_OK(other->Fit(data, Quiet(1)));
      EXPECT_EQ(other->iterations(), 20);
      ASSERT_OK(model->Fit(data, Quiet(1)));
      if (saved != loaded) continue;
      EXPECT_EQ(WeightsOf(other.get()), WeightsOf(model.get()));
    }
  }
}

TEST(LocalUpdatesTest, Options_NotForRounds_AreRefused) {
  const auto refused = [](const Optimizer& optimizer, LocalUpdates local) {
    CompileOptions options;
    options.local = local;
    return std::string(ModelOf(optimizer, options)->status().message());
  };
  LocalUpdates on;
  on.steps = 3;
  Optimizer ema = Adam();
  ema.use_ema = true;
  EXPECT_TRUE(Contains(refused(ema, on), "use_ema with local"));
  EXPECT_TRUE(Contains(refused(Adam().GradientAccumulationSteps(2), on),
                       "gradient_accumulation_steps with local"));
  LocalUpdates rate = on, momentum = on, steps = on;
  rate.learning_rate = 0;
  EXPECT_TRUE(Contains(refused(Adam(), rate), "outer learning_rate"));
  rate.learning_rate = NAN;
  EXPECT_NE(refused(Adam(), rate), "");
  momentum.momentum = 1;
  EXPECT_TRUE(Contains(refused(Adam(), momentum), "outer momentum"));
  steps.steps = -2;  // -1: chosen from the link
  EXPECT_NE(refused(Adam(), steps), "");
  CompileOptions options;
  options.local = on;
  const auto model = ModelOf(SGD(0.1f), options);
  Batch batch;
  EXPECT_TRUE(Contains(model->TrainStep(batch), "by Fit"));
}

}  // namespace
}  // namespace ringlet
