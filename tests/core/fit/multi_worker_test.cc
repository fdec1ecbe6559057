// Tests core in a job of several ranks, over threads instead of a network.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/base/crc32c.h"
#include "core/base/solo_collective.h"
#include "core/base/text.h"
#include "core/data/dataset_parts.h"
#include "core/model/fingerprint.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

struct Outcome {
  Status status;
  std::vector<double> losses;  // the losses of the steps, over the whole job
  std::vector<float> weights;
  std::vector<float> predictions;
  std::vector<double> epochs, validation;
};

// Losses of the steps: Mean over the epoch with one step an epoch.
Outcome Train(Collective* collective, const Dataset& data,
              const Optimizer& optimizer) {
  Outcome outcome;
  CompileOptions compile(collective);
  compile.seed = 3;
  auto model = TinyModel(optimizer, 0, compile);
  FitOptions options = Quiet(12);
  options.steps_per_epoch = 1;
  options.check_replicas_every = 1;
  options.validation_data = Points(23, 9).Batch(10);
  const auto history = model->Fit(data, options);
  outcome.status = history.status();
  if (!history.ok()) return outcome;
  outcome.losses = history->Values("loss");
  outcome.validation = history->Values("val_loss");
  outcome.weights = WeightsOf(model.get());
  auto predictions = model->Predict(Points(23, 9).Batch(10));
  EXPECT_OK(predictions);
  outcome.predictions = predictions.value();
  return outcome;
}

// N ranks with a global batch follow one worker with that batch, with uneven
// parts and a short last batch too.
TEST(MultiWorkerTest, Ranks_ShareTheBatch_FollowOneWorker) {
  for (const int64_t batch : {4, 15, 16}) {
    const Dataset data = Points(50).Shuffle(3).Repeat(20).Batch(batch);
    for (const Optimizer& optimizer :
         {SGD(0.1f, 0.9f), Adam(0.01f), SGD(0.1f).GlobalClipNorm(0.5f)}) {
      SoloCollective solo;
      const Outcome one = Train(&solo, data, optimizer);
      ASSERT_OK(one.status);
      for (int world = 2; world <= 5; ++world) {
        std::vector<Outcome> ranks(world);
        RunRanks(world, [&](Collective* collective) {
          ranks[collective->rank()] = Train(collective, data, optimizer);
        });
        for (const Outcome& rank : ranks) {
          ASSERT_OK(rank.status);
          EXPECT_EQ(rank.weights, ranks[0].weights);
          EXPECT_EQ(rank.predictions, ranks[0].predictions);
        }
        for (size_t i = 0; i < one.losses.size(); ++i) {
          EXPECT_NEAR(ranks[0].losses[i], one.losses[i], 1e-4) << i;
          EXPECT_NEAR(ranks[world - 1].losses[i], one.losses[i], 1e-4) << i;
          EXPECT_NEAR(ranks[0].validation[i], one.validation[i], 1e-4) << i;
        }
        ASSERT_EQ(ranks[0].predictions.size(), one.predictions.size());
        for (size_t i = 0; i < one.predictions.size(); ++i) {
          EXPECT_NEAR(ranks[0].predictions[i], one.predictions[i], 1e-3);
        }
      }
    }
  }
}

// A file source that gives `data`, cut into files of these sizes.
Dataset InFiles(const Dataset& data, const std::vector<int64_t>& sizes) {
  class Cut final : public Source {
   public:
    Cut(std::shared_ptr<Source> whole, const std::vector<int64_t>& sizes)
        : whole_(std::move(whole)) {
      int64_t start = 0;
      for (const int64_t size : sizes) {
        starts_.push_back(start);
        start += size;
      }
      EXPECT_EQ(start, whole_->size());
    }
    int64_t size() const override { return whole_->size(); }
    ExampleSpec x() const override { return whole_->x(); }
    ExampleSpec y() const override { return whole_->y(); }
    std::string name() const override { return "files"; }
    std::vector<int64_t> FileStarts() const override { return starts_; }
    Status Read(const int64_t* index, int count, void* x, void* y) override {
      return whole_->Read(index, count, x, y);
    }

   private:
    const std::shared_ptr<Source> whole_;
    std::vector<int64_t> starts_;
  };
  return Dataset(std::make_shared<Cut>(data.source(), sizes));
}

// The reference of the workers: one worker over memory that makes the steps of
// `data` as `world` workers do.
Dataset InOrderOfSteps(const Dataset& data, int world) {
  static std::vector<std::unique_ptr<std::vector<float>>> xs;
  static std::vector<std::unique_ptr<std::vector<int32_t>>> ys;
  auto x = std::make_unique<std::vector<float>>();
  auto y = std::make_unique<std::vector<int32_t>>();
  const DataPosition at;
  for (int rank = 0; rank < world; ++rank) {
    const BatchPlan plan = data.parts().Plan(at, rank, world);
    for (int64_t i = 0; i < plan.count; ++i) {
      const int64_t index =
          data.parts().ExampleAt(at, plan.first + i, rank, world);
      x->resize(x->size() + 2);
      y->resize(y->size() + 1);
      EXPECT_OK(data.source()->Read(&index, 1, x->data() + x->size() - 2,
                                    &y->back()));
    }
  }
  const auto count = static_cast<int64_t>(y->size());
  xs.push_back(std::move(x));
  ys.push_back(std::move(y));
  return Dataset(MemorySource({DType::kFloat32, {2}}, xs.back()->data(),
                              {DType::kInt32, {}}, ys.back()->data(), count))
      .Batch(count);
}

// The workers of uneven files all end each pass together, with the same
// weights, and each example weighs the same however few share its step.
TEST(MultiWorkerTest, Files_OfUnevenSizes_NeitherHangNorBias) {
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto,
                            AutoShardPolicy::kOff}) {
    for (int world = 2; world <= 5; ++world) {
      const Dataset data = InFiles(Points(50), {31, 2, 9, 1, 7})
                               .AutoShard(policy)
                               .Shuffle(3)
                               .Batch(8);
      std::vector<std::vector<float>> weights(world);
      std::vector<std::vector<float>> predictions(world);
      RunRanks(world, [&](Collective* collective) {
        auto model = TinyModel(SGD(0.1f, 0.9f), 0, CompileOptions(collective));
        FitOptions options = Quiet(3);
        options.check_replicas_every = 1;
        options.validation_data = data;
        ASSERT_OK(model->Fit(data, options).status());
        EXPECT_EQ(model->iterations(), 3 * data.steps(world));
        // Every example counts once (kOff: once a worker) in the metrics.
        EvaluateOptions quiet;
        quiet.verbose = Verbose::kSilent;
        const auto logs = model->Evaluate(data, quiet);
        ASSERT_OK(logs);
        const auto whole = model->Evaluate(Points(50).Batch(50), quiet);
        ASSERT_OK(whole);
        EXPECT_NEAR(*logs->Find("loss"), *whole->Find("loss"), 1e-4);
        EXPECT_NEAR(*logs->Find("accuracy"), *whole->Find("accuracy"), 1e-6);
        const int rank = collective->rank();
        weights[rank] = WeightsOf(model.get());
        predictions[rank] = model->Predict(data).value();
        const auto ordered =
            model->Predict(data.AutoShard(AutoShardPolicy::kData));
        EXPECT_EQ(predictions[rank], ordered.value());
      });
      for (int rank = 1; rank < world; ++rank) {
        EXPECT_EQ(weights[rank], weights[0]);
        EXPECT_EQ(predictions[rank], predictions[0]);
      }
    }
  }
}

// A step of files of 8 and 1 examples takes the mean over all examples, not the
// mean of the two workers' means.
TEST(MultiWorkerTest, FilePart_Short_WeighsByItsExamples) {
  const Dataset data =
      InFiles(Points(9), {8, 1}).AutoShard(AutoShardPolicy::kFile).Batch(16);
  ASSERT_EQ(data.parts().Plan({0, 0}, 0, 2).count, 4);
  ASSERT_EQ(data.parts().Plan({0, 0}, 1, 2).count, 1);
  FitOptions options = Quiet(1);
  options.steps_per_epoch = 1;
  auto alone = TinyModel(SGD(0.1f));
  ASSERT_OK(alone->Fit(InOrderOfSteps(data, 2), options));
  const std::vector<float> expected = WeightsOf(alone.get());
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(SGD(0.1f), 0, CompileOptions(collective));
    ASSERT_OK(model->Fit(data, options));
    const std::vector<float> weights = WeightsOf(model.get());
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NEAR(weights[i], expected[i], 1e-6);
    }
  });
}

TEST(MultiWorkerTest, Dropout_TwoRanks_RepeatsInEachRun) {
  std::vector<float> runs[2];
  for (auto& run : runs) {
    std::vector<std::vector<float>> weights(2);
    RunRanks(2, [&](Collective* collective) {
      auto model = TinyModel(SGD(0.1f), 0.5f, CompileOptions(collective));
      ASSERT_OK(model->Fit(Points(40).Shuffle(1).Batch(8), Quiet(2)));
      weights[collective->rank()] = WeightsOf(model.get());
    });
    EXPECT_EQ(weights[0], weights[1]);
    run = weights[0];
  }
  EXPECT_EQ(runs[0], runs[1]);
}

Metric TopKOf(int k) {
  Metric metric = SparseTopKCategoricalAccuracy();
  metric.k = k;
  return metric;
}

// Twelve images of 6 x 6, of three classes.
Dataset Images() {
  static const std::vector<float> x(12 * 36, 0.5f);
  static const std::vector<int32_t> y = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
  return Dataset(MemorySource({DType::kFloat32, {6, 6, 1}}, x.data(),
                              {DType::kInt32, {}}, y.data(), 12));
}

std::vector<std::string> Messages(
    int world, const std::function<Status(Collective*)>& body,
    Code expected = Code::kInvalidArgument) {
  std::vector<std::string> messages(world);
  RunRanks(world, [&](Collective* collective) {
    const Status status = body(collective);
    EXPECT_EQ(status.code(), expected);
    messages[collective->rank()] = status.message();
  });
  for (const std::string& m : messages) EXPECT_EQ(m, messages[0]);
  return messages;
}

TEST(MultiWorkerTest, Model_DiffersOnOneRank_IsNamedWithTheRank) {
  const auto messages = Messages(3, [](Collective* collective) {
    Sequential model({Input({2}), Dense(collective->rank() == 2 ? 5 : 4)});
    model.Compile(SGD(), MeanSquaredError(), {}, collective);
    return model.status();
  });
  EXPECT_TRUE(Contains(messages[0], "rank 2"));
}

// The message on rank 0 if each rank fits on its data.
std::string MessageOfFit(int ranks, const std::function<Dataset(int)>& data_of,
                         const FitOptions& options = Quiet(1)) {
  return Messages(ranks, [&](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    return model->Fit(data_of(collective->rank()), options).status();
  })[0];
}

TEST(MultiWorkerTest, BatchSize_DiffersOnOneRank_IsNamedWithBothValues) {
  const std::string message = MessageOfFit(
      2, [](int rank) { return Points(40).Batch(rank == 1 ? 10 : 8); });
  EXPECT_TRUE(
      Contains(message, "the batch size is 10 on rank 1, but 8 on rank 0"));
}

TEST(MultiWorkerTest, ShuffleSeed_DiffersOnOneRank_ErrorNamesIt) {
  const std::string message = MessageOfFit(
      2, [](int rank) { return Points(40).Shuffle(rank).Batch(8); });
  EXPECT_TRUE(Contains(message, "seed"));
}

TEST(MultiWorkerTest, SizesOfFiles_DifferOnOneRank_ErrorNamesThem) {
  const std::string message = MessageOfFit(2, [](int rank) {
    const std::vector<int64_t> sizes[] = {{20, 20}, {21, 19}};
    return InFiles(Points(40), sizes[rank])
        .AutoShard(AutoShardPolicy::kFile)
        .Batch(8);
  });
  EXPECT_TRUE(Contains(message, "other sizes of the files"));
}

TEST(MultiWorkerTest, ShardingPolicy_DiffersOnOneRank_ErrorNamesIt) {
  FitOptions options = Quiet(1);
  options.steps_per_epoch = 4;
  const std::string message = MessageOfFit(
      2,
      [](int rank) {
        return Points(40)
            .AutoShard(rank == 0 ? AutoShardPolicy::kData
                                 : AutoShardPolicy::kOff)
            .Batch(8);
      },
      options);
  EXPECT_TRUE(Contains(message, "the sharding policy"));
}

TEST(MultiWorkerTest, Files_FewerThanReplicas_ErrorNamesThem) {
  const std::string message = MessageOfFit(3, [](int) {
    return InFiles(Points(40), {20, 20})
        .AutoShard(AutoShardPolicy::kAuto)
        .Batch(8);
  });
  EXPECT_TRUE(Contains(message, "2 files cannot be divided among 3 replicas"));
}

// The settings of a fit that decide its numbers.
struct Settings {
  Layer conv = Conv2D(4, 3, kRelu);
  Layer pool = MaxPooling2D(2);
  Layer dropout = Dropout(0.25f);
  Layer dense = Dense(3);
  Optimizer optimizer = SGD(0.1f, 0.9f);
  Loss loss = SparseCategoricalCrossentropy(kFromLogits);
  std::vector<Metric> metrics = {Accuracy()};
  CompileOptions compile;
  FitOptions fit = Quiet(2);
  Dataset data;
};

EarlyStoppingOptions StopByLoss() {
  EarlyStoppingOptions options;
  options.monitor = "loss";
  return options;
}

ReduceLROnPlateauOptions ReduceByLoss() {
  ReduceLROnPlateauOptions options;
  options.monitor = "loss";
  return options;
}

// A setting to change, and its name in the message.
struct Change {
  const char* message;
  std::function<void(Settings*)> apply;
};

const Change kChanges[] = {
    {"activation tanh", [](Settings* s) { s->conv.activation = kTanh; }},
    {"AveragePooling2D", [](Settings* s) { s->pool = AveragePooling2D(2); }},
    {"rate 0.5", [](Settings* s) { s->dropout = Dropout(0.5f); }},
    {"seed 5", [](Settings* s) { s->dropout.Seed(5); }},
    {"l2 0.01", [](Settings* s) { s->dense.KernelRegularizer(L2(0.01f)); }},
    {"strides 2x1", [](Settings* s) { s->pool.Strides(2, 1); }},
    {"Adam", [](Settings* s) { s->optimizer = Adam(0.1f); }},
    {"learning rate is 0.2",
     [](Settings* s) { s->optimizer = SGD(0.2f, 0.9f); }},
    {"momentum is 0.8", [](Settings* s) { s->optimizer = SGD(0.1f, 0.8f); }},
    {"nesterov is 1", [](Settings* s) { s->optimizer.nesterov = true; }},
    {"clipnorm is 1", [](Settings* s) { s->optimizer.ClipNorm(1); }},
    {"schedule is CosineDecay",
     [](Settings* s) { s->optimizer.learning_rate = CosineDecay(0.1f, 9); }},
    {"gradient_accumulation_steps is 2",
     [](Settings* s) { s->optimizer.GradientAccumulationSteps(2); }},
    {"from_logits is 0",
     [](Settings* s) { s->loss = SparseCategoricalCrossentropy(); }},
    {"metric 0", [](Settings* s) { s->metrics = {TopKOf(2)}; }},
    {"metric 1", [](Settings* s) { s->metrics.push_back(TopKOf(2)); }},
    {"the seed is 9", [](Settings* s) { s->compile.seed = 9; }},
    {"epochs is 3", [](Settings* s) { s->fit.epochs = 3; }},
    {"initial_epoch is 1", [](Settings* s) { s->fit.initial_epoch = 1; }},
    {"steps_per_epoch is 1", [](Settings* s) { s->fit.steps_per_epoch = 1; }},
    {"steps_per_epoch as given is 2",
     [](Settings* s) { s->fit.steps_per_epoch = 2; }},
    {"check_replicas_every is 7",
     [](Settings* s) { s->fit.check_replicas_every = 7; }},
    {"validation", [](Settings* s) { s->fit.validation_data = s->data; }},
    {"callback 0 is terminate_on_nan",
     [](Settings* s) { s->fit.callbacks = {TerminateOnNaN()}; }},
    {"patience 4",
     [](Settings* s) {
       EarlyStoppingOptions stopping = StopByLoss();
       stopping.patience = 4;
       s->fit.callbacks = {EarlyStopping(stopping)};
     }},
    {"min_delta 2e-07",
     [](Settings* s) {
       EarlyStoppingOptions stopping = StopByLoss();
       stopping.min_delta = 2e-7;
       s->fit.callbacks = {EarlyStopping(stopping)};
     }},
    {"min_lr 1e-08",
     [](Settings* s) {
       ReduceLROnPlateauOptions reduces = ReduceByLoss();
       reduces.min_lr = 1e-8;
       s->fit.callbacks = {ReduceLROnPlateau(reduces)};
     }},
    {"save_freq 5",
     [](Settings* s) {
       s->fit.callbacks = {BackupAndRestore("unused", SaveEvery(5))};
     }},
    {"the batch size is 4", [](Settings* s) { s->data = Images().Batch(4); }},
    {"the scale's factor is 2",
     [](Settings* s) { s->data = Images().Map(Scale(2)).Batch(6); }},
    {"the number of examples is 11",
     [](Settings* s) { s->data = Images().Skip(1).Take(11).Batch(6); }},
    {"drop_remainder is 1",
     [](Settings* s) { s->data = Images().Batch(6, /*drop_remainder=*/true); }},
};

Status FitWith(const Settings& s) {
  Sequential model(
      {Input({6, 6, 1}), s.conv, s.pool, Flatten(), s.dropout, s.dense});
  model.Compile(s.optimizer, s.loss, s.metrics, s.compile);
  if (!model.status().ok()) return model.status();
  return model.Fit(s.data, s.fit).status();
}

TEST(MultiWorkerTest, Setting_DiffersOnOneRank_IsNamedWithBothValues) {
  for (const Change& change : kChanges) {
    const std::string message = change.message;
    const std::vector<std::string> messages =
        Messages(3, [&](Collective* collective) {
          Settings s;
          s.compile.collective = collective;
          s.data = Images().Batch(6);
          s.fit.callbacks = {EarlyStopping(StopByLoss())};
          if (StartsWith(message, "save_freq")) {
            s.fit.callbacks = {BackupAndRestore("unused", SaveEvery(7))};
          }
          if (StartsWith(message, "min_lr")) {
            s.fit.callbacks = {ReduceLROnPlateau(ReduceByLoss())};
          }
          if (collective->rank() == 2) change.apply(&s);
          return FitWith(s);
        });
    EXPECT_TRUE(Contains(messages[0], message));
    EXPECT_TRUE(Contains(messages[0], "rank 2"));
    EXPECT_TRUE(Contains(messages[0], "rank 0"));
  }
}

// Compile compares the fields, of which the version is the first.
TEST(MultiWorkerTest, Compile_TwoVersionsInOneRing_NamesBoth) {
  RunRanks(2, [](Collective* collective) {
    Fingerprint ours;
    ours.Add("the version of ringlet",
             collective->rank() == 0 ? "0.1.0" : "0.2.0");
    ours.Add("the seed", int64_t{collective->rank()});
    const Status status = Agree(collective, "model 'm'", ours);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_STREQ(status.message(),
                 "model 'm': the version of ringlet is 0.2.0 on rank 1, but "
                 "0.1.0 on rank 0; it must be the same on every worker");
  });
}

// Points with labels 0 and 1 swapped, as in another file of labels.
Dataset Swapped(int64_t count) {
  struct Data {
    std::vector<float> x = std::vector<float>(2 * 64);
    std::vector<int32_t> y = std::vector<int32_t>(64);
    Data() {
      std::vector<int64_t> all(64);
      std::iota(all.begin(), all.end(), 0);
      const auto source = Points(64).source();
      EXPECT_OK(source->Read(all.data(), 64, x.data(), y.data()));
      for (int32_t& label : y) label = label == 2 ? 2 : 1 - label;
    }
  };
  static const Data data;
  return Dataset(MemorySource({DType::kFloat32, {2}}, data.x.data(),
                              {DType::kInt32, {}}, data.y.data(), count));
}

TEST(MultiWorkerTest, Examples_LabelsSwappedOnOneRank_EndTheFitAndNameIt) {
  for (const bool validation : {false, true}) {
    for (int faulty = 0; faulty < 3; ++faulty) {
      SCOPED_TRACE(faulty);
      const auto messages = Messages(3, [&](Collective* collective) {
        const bool wrong = collective->rank() == faulty;
        const Dataset other = (wrong ? Swapped(40) : Points(40)).Batch(8);
        auto model = TinyModel(SGD(), 0, CompileOptions(collective));
        FitOptions options = Quiet(1);
        if (validation) options.validation_data = other;
        return model->Fit(validation ? Points(40).Batch(8) : other, options)
            .status();
      });
      // Two ranks agree against one, also if that one is the chief.
      const std::string message =
          "Fit: rank " + std::to_string(faulty) + " has other examples" +
          (validation ? " of the validation data" : "") + " than rank " +
          (faulty == 0 ? "1" : "0") + "; run the same program";
      EXPECT_TRUE(Contains(messages[0], message));
    }
  }
}

// Each worker has its own, or reads files that the other workers do not read.
TEST(MultiWorkerTest, Examples_OfWorkersThatReadOthers_AreNotCompared) {
  enum Kind { kByFile, kOff, kOwn };
  for (const Kind kind : {kByFile, kOff, kOwn}) {
    RunRanks(2, [&](Collective* collective) {
      Dataset data = collective->rank() == 0 ? Points(40) : Swapped(40);
      data = kind == kByFile
                 ? InFiles(data, {20, 20}).AutoShard(AutoShardPolicy::kFile)
                 : data.AutoShard(AutoShardPolicy::kOff);
      if (kind == kOwn) data = data.OwnExamples({40, 40});
      auto model = TinyModel(SGD(), 0, CompileOptions(collective));
      EXPECT_OK(model->Fit(data.Batch(8), Quiet(1)).status());
    });
  }
}

// A callback on one rank ends the fit with each code.
TEST(MultiWorkerTest, Callback_ErrorOfAnyCode_ReachesTheOthers) {
  class FailingCallback final : public Callback {
   public:
    FailingCallback(Code code, bool mine) : code_(code), mine_(mine) {}
    const char* name() const override { return "ends"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (!mine_ || fit.step != 2) return Status();
      return Error(code_, "it is over");
    }

   private:
    const Code code_;
    const bool mine_;
  };
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    RunRanks(3, [&](Collective* collective) {
      auto model = TinyModel(SGD(), 0, CompileOptions(collective));
      FitOptions options = Quiet(4);
      options.callbacks = {std::make_shared<FailingCallback>(
          static_cast<Code>(code), collective->rank() == 1)};
      const Status status = model->Fit(Points(40).Batch(8), options).status();
      EXPECT_EQ(static_cast<int>(status.code()), code) << status.message();
      EXPECT_TRUE(Contains(status, "it is over"));
    });
  }
}

// A rank that cannot read its own data in Evaluate or Predict sends its error
// to the other workers.
TEST(MultiWorkerTest, EvaluateOrPredict_FailsOnOneRank_ReachesTheOthers) {
  for (const bool predicts : {false, true}) {
    RunRanks(3, [&](Collective* collective) {
      auto model = TinyModel(SGD(), 0, CompileOptions(collective));
      class Damaged final : public Source {
       public:
        explicit Damaged(std::shared_ptr<Source> whole)
            : whole_(std::move(whole)) {}
        int64_t size() const override { return whole_->size(); }
        ExampleSpec x() const override { return whole_->x(); }
        ExampleSpec y() const override { return whole_->y(); }
        std::string name() const override { return "damaged"; }
        Status Read(const int64_t*, int, void*, void*) override {
          return Corruption("an example is damaged");
        }

       private:
        const std::shared_ptr<Source> whole_;
      };
      Dataset data = Points(40);
      if (collective->rank() == 1) {
        data = Dataset(std::make_shared<Damaged>(data.source()));
      }
      const Status status = predicts ? model->Predict(data.Batch(8)).status()
                                     : model->Evaluate(data.Batch(8)).status();
      EXPECT_EQ(status.code(), Code::kCorruption) << status.message();
      EXPECT_TRUE(Contains(status, "an example is damaged"));
    });
  }
}

// The workers have different numbers of examples, so their batches end at
// different steps.
TEST(MultiWorkerTest, Predict_OwnExamples_GivesEachWorkerItsOwnOutputs) {
  const std::vector<int64_t> sizes = {5, 40, 13};
  for (const bool shuffles : {false, true}) {
    RunRanks(3, [&](Collective* collective) {
      const auto rank = static_cast<size_t>(collective->rank());
      const Dataset points = Points(sizes[rank], 20 + rank);
      auto model = TinyModel(SGD(), 0, CompileOptions(collective));
      Dataset data = points.AutoShard(AutoShardPolicy::kOff).OwnExamples(sizes);
      if (shuffles) data = data.Shuffle(5);
      const auto outputs = model->Predict(data.Batch(6));
      ASSERT_OK(outputs.status());

      auto alone = TinyModel();  // has the chief's initial weights
      const auto expected = alone->Predict(points.Batch(sizes[rank]));
      ASSERT_OK(expected);
      std::vector<float> a = outputs.value(), b = expected.value();
      if (shuffles) {
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
      }
      EXPECT_EQ(a, b);
    });
  }
}

TEST(MultiWorkerTest, Check_WeightsDriftOnOneRank_NamesTheRank) {
  Messages(
      3,
      [](Collective* collective) {
        auto model = TinyModel(SGD(), 0, CompileOptions(collective));
        if (collective->rank() == 1) model->weights()[3] += 1e-3f;
        FitOptions options = Quiet(1);
        options.check_replicas_every = 2;
        const Status status = model->Fit(Points(40).Batch(8), options).status();
        EXPECT_TRUE(Contains(status, "rank 1 has other weights"));
        return status;
      },
      Code::kOutOfSync);
}

// Without a Fit: a program may look at status() and end.
TEST(MultiWorkerTest, Compile_RefusedOnOneRank_EndsOnAll) {
  for (int faulty = 0; faulty < 3; ++faulty) {
    RunRanks(3, [&](Collective* collective) {
      Sequential model({Input({2}), Dense(3)});
      CompileOptions options(collective);
      if (collective->rank() == faulty) options.threads = -1;
      model.Compile(SGD(), MeanSquaredError(), {}, options);
      EXPECT_EQ(model.status().code(), Code::kInvalidArgument);
      const std::string message = model.status().message();
      EXPECT_TRUE(Contains(message, "threads must be in 1..1024, not -1"));
    });
  }
}

TEST(MultiWorkerTest, StopTraining_OnOneRank_StopsAll) {
  class TrainingStopper final : public Callback {
   public:
    explicit TrainingStopper(bool wishes) : wishes_(wishes) {}
    const char* name() const override { return "stops"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (wishes_ && fit.step == 2) fit.stop_training = true;
      return Status();
    }

   private:
    const bool wishes_;
  };
  RunRanks(3, [&](Collective* collective) {
    auto model = TinyModel(SGD(), 0, CompileOptions(collective));
    FitOptions options = Quiet(4);
    options.callbacks = {
        std::make_shared<TrainingStopper>(collective->rank() == 1)};
    ASSERT_OK(model->Fit(Points(40).Batch(8), options));
    EXPECT_EQ(model->iterations(), 3);
  });
}

class SavePointFailure final : public Callback {
 public:
  explicit SavePointFailure(int64_t at) : at_(at) {}
  const char* name() const override { return "save_point_failure"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (at_ == 0 || fit.model->iterations() < at_) return Status();
    return Error(Code::kInternal, "the power went");
  }

 private:
  const int64_t at_;
};

// Only the chief has the backup. A job resumed from it ends with the bits of
// the undisturbed job, also of the running metrics.
TEST(MultiWorkerTest, Backup_OfAKilledJob_ResumesExactly) {
  for (const auto& [freq, policy] :
       {std::pair<int64_t, AutoShardPolicy>{0, AutoShardPolicy::kData},
        {3, AutoShardPolicy::kData},
        {3, AutoShardPolicy::kFile},
        {3, AutoShardPolicy::kOff}}) {
    const int64_t save_freq = freq;
    const Dataset data = InFiles(Points(50), {31, 9, 10})
                             .AutoShard(policy)
                             .Shuffle(1)
                             .Repeat()
                             .Batch(8);
    const auto run = [&](const std::string& folder, int64_t die_at,
                         std::vector<float>* weights, std::string* log) {
      RunRanks(3, [&](Collective* collective) {
        auto model = TinyModel(Adam(0.01f), 0.2f, CompileOptions(collective));
        FitOptions options = Quiet(3);
        options.steps_per_epoch = 7;
        BackupAndRestoreOptions backup;
        backup.save_freq = save_freq;
        backup.save_before_preemption = false;
        options.callbacks = {CSVLogger(folder + "/log.csv"),
                             BackupAndRestore(folder + "/backup", backup),
                             std::make_shared<SavePointFailure>(die_at)};
        const auto history = model->Fit(data, options);
        EXPECT_EQ(history.ok(), die_at == 0) << history.status().message();
        if (collective->rank() == 1) *weights = WeightsOf(model.get());
      });
      *log = ReadWhole(folder + "/log.csv");
    };
    TempFolder undisturbed, killed;
    std::vector<float> expected, resumed;
    std::string expected_log, log;
    run(undisturbed.path(), 0, &expected, &expected_log);
    run(killed.path(), 12, &resumed, &log);
    run(killed.path(), 0, &resumed, &log);
    EXPECT_EQ(resumed, expected) << freq;
    EXPECT_EQ(log, expected_log) << freq;
  }
}

}  // namespace
}  // namespace ringlet
