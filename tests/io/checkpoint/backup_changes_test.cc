// Runs that are resumed with other callbacks, metrics, optimizers, seeds or
// layers than the backup has.

#include "ringlet/checkpoint.h"
#include "ringlet/loggers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "backup_runs.h"
#include "core/fit/fit_details.h"
#include "io/checkpoint/run_description.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

struct Resumed {
  Status status;
  std::string printed;  // the text of stderr
  std::vector<float> weights;
};

std::unique_ptr<Sequential> WithMetrics(std::vector<Metric> metrics,
                                        const Optimizer& optimizer = SGD(0.1f),
                                        uint64_t seed = 1) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(16, kRelu));
  model->Add(Dense(3));
  CompileOptions options;
  options.seed = seed;
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 std::move(metrics), options);
  return model;
}

Resumed FitOn(const std::string& folder, int64_t die_at,
              std::unique_ptr<Sequential> model,
              const std::vector<std::shared_ptr<Callback>>& callbacks,
              const BackupAndRestoreOptions& backup = SaveEvery(5)) {
  FitOptions options = WithBackup(folder, 1, die_at);
  options.callbacks[0] = BackupAndRestore(folder, backup);
  options.callbacks.insert(options.callbacks.end(), callbacks.begin(),
                           callbacks.end());
  testing::internal::CaptureStderr();
  Resumed resumed;
  resumed.status = model->Fit(Data(), options).status();
  resumed.printed = testing::internal::GetCapturedStderr();
  resumed.weights = WeightsOf(model.get());
  return resumed;
}

// A callback that changes no weights, of the class number `kind`.
constexpr int kKinds = 5;
std::shared_ptr<Callback> OfKind(int kind, const std::string& folder,
                                 FileSystem* disk) {
  EarlyStoppingOptions never;
  never.monitor = "loss";
  never.patience = 100;
  never.restore_best_weights = false;
  ReduceLROnPlateauOptions plateau;
  plateau.monitor = "loss";
  plateau.patience = 100;
  ModelCheckpointOptions checkpoint;
  checkpoint.files = disk;
  switch (kind) {
    case 0:
      return EarlyStopping(never);
    case 1:
      return ReduceLROnPlateau(plateau);
    case 2:
      return CSVLogger(folder + "/log.csv");
    case 3:
      return StepLogger(folder + "/steps.csv");
    default:
      return ModelCheckpoint("m.safetensors", checkpoint);
  }
}
constexpr const char* kNames[kKinds] = {"early_stopping",
                                        "reduce_lr_on_plateau", "csv_logger",
                                        "step_logger", "model_checkpoint"};

// For any set of callbacks before and any set after, the run ends with the same
// bits. Each callback that was added or removed is named once.
TEST(BackupTest, Resume_CallbacksAddedAndRemoved_ContinuesAndNamesThem) {
  TempFolder undisturbed;
  const std::vector<float> weights =
      FitOn(undisturbed.path(), 0, TinyModel(), {}).weights;
  for (int before = 0; before < 1 << kKinds; ++before) {
    for (int after = before % 5; after < 1 << kKinds; after += 5) {
      SCOPED_TRACE(std::to_string(before) + " to " + std::to_string(after));
      TempFolder logs;
      SimulatedFileSystem disk;
      BackupAndRestoreOptions backup = SaveEvery(5);
      backup.files = &disk;
      backup.background = false;
      const auto set = [&](int bits) {
        std::vector<std::shared_ptr<Callback>> callbacks;
        for (int kind = 0; kind < kKinds; ++kind) {
          if ((bits >> kind & 1) == 0) continue;
          callbacks.push_back(OfKind(kind, logs.path(), &disk));
        }
        return callbacks;
      };
      ASSERT_FALSE(
          FitOn("b", 15, TinyModel(), set(before), backup).status.ok());
      const Resumed resumed = FitOn("b", 0, TinyModel(), set(after), backup);
      ASSERT_OK(resumed.status);
      EXPECT_EQ(resumed.weights, weights);
      for (int kind = 0; kind < kKinds; ++kind) {
        const bool was = before >> kind & 1, is = after >> kind & 1;
        const std::string name = std::string("the callback ") + kNames[kind];
        EXPECT_EQ(resumed.printed.find(name + " is new in this run") !=
                      std::string::npos,
                  is && !was)
            << resumed.printed;
        EXPECT_EQ(
            resumed.printed.find(name + " of the run that saved it is not") !=
                std::string::npos,
            was && !is)
            << resumed.printed;
      }
    }
  }
}

TEST(BackupTest, Resume_LogLeftOutOnce_KeepsItsEarlierRows) {
  TempFolder folder, logs;
  const auto log = [&] { return CSVLogger(logs / "epochs.csv"); };
  ASSERT_FALSE(FitOn(folder.path(), 15, TinyModel(), {log()}).status.ok());
  const std::string rows = ReadWhole(logs / "epochs.csv");
  ASSERT_TRUE(Contains(rows, "\n0,"));
  ASSERT_FALSE(FitOn(folder.path(), 18, TinyModel(), {}).status.ok());
  EXPECT_EQ(ReadWhole(logs / "epochs.csv"), rows);
  const Resumed last = FitOn(folder.path(), 0, TinyModel(), {log()});
  ASSERT_OK(last.status);
  EXPECT_EQ(ReadWhole(logs / "epochs.csv").compare(0, rows.size(), rows), 0)
      << ReadWhole(logs / "epochs.csv");
}

// The backup stays and has the request to stop. It holds for the callbacks that
// made it.
TEST(BackupTest, Resume_StoppedByACallbackThatIsGone_TrainsOn) {
  for (const bool gone : {false, true}) {
    SCOPED_TRACE(gone);
    TempFolder folder;
    BackupAndRestoreOptions backup = SaveEvery(0);
    backup.delete_checkpoint = false;
    EarlyStoppingOptions early;
    early.monitor = "loss";
    early.mode = MonitorMode::kMax;
    early.patience = 1;
    const auto epochs = [&](std::vector<std::shared_ptr<Callback>> callbacks) {
      FitOptions options = WithBackup(folder.path(), 1, 0);
      options.epochs = 6;
      options.callbacks = {BackupAndRestore(folder.path(), backup)};
      options.callbacks.insert(options.callbacks.end(), callbacks.begin(),
                               callbacks.end());
      const auto history = TinyModel()->Fit(Data(), options);
      EXPECT_OK(history.status());
      return history->Values("loss").size();
    };
    const size_t first = epochs({EarlyStopping(early)});
    ASSERT_LT(first, 6u);
    if (!gone) early.patience = 10;
    std::vector<std::shared_ptr<Callback>> later;
    if (!gone) later.push_back(EarlyStopping(early));
    EXPECT_GT(epochs(later), 0u);
  }
}

TEST(BackupTest, Resume_MetricsAddedAndRemoved_ContinuesWithRowsOfOneWidth) {
  const std::vector<std::vector<Metric>> sets = {
      {},
      {Accuracy()},
      {SparseTopKCategoricalAccuracy(2)},
      {Accuracy(), SparseTopKCategoricalAccuracy(2)}};
  for (const auto& before : sets) {
    for (const auto& after : sets) {
      TempFolder folder, logs;
      const auto rows = [&] {
        return std::vector<std::shared_ptr<Callback>>{
            StepLogger(logs / "steps.csv"), CSVLogger(logs / "log.csv")};
      };
      ASSERT_FALSE(
          FitOn(folder.path(), 15, WithMetrics(before), rows()).status.ok());
      const Resumed resumed =
          FitOn(folder.path(), 0, WithMetrics(after), rows());
      ASSERT_OK(resumed.status);
      for (const auto& [file, count] :
           {std::pair<const char*, size_t>{"steps.csv", 31}, {"log.csv", 4}}) {
        std::istringstream lines(ReadWhole(logs / file));
        size_t found = 0, commas = 0;
        for (std::string line; std::getline(lines, line); ++found) {
          const auto here =
              static_cast<size_t>(std::count(line.begin(), line.end(), ','));
          if (found == 0) commas = here;
          EXPECT_EQ(here, commas) << line;
        }
        EXPECT_EQ(found, count) << file;
      }
      const bool drops = before.size() > after.size();
      EXPECT_EQ(resumed.printed.empty(), &before == &after) << resumed.printed;
      if (drops) {
        EXPECT_TRUE(Contains(resumed.printed, "its state is dropped"));
      }
    }
  }
}

// Counts steps, each as `by`.
class StepCounter final : public Callback {
 public:
  StepCounter(std::string label, int64_t by)
      : label_(std::move(label)), by_(by) {}
  const char* name() const override { return "counts"; }
  std::string Identity() const override { return label_; }
  Status OnTrainBatchEnd(FitState&, const Logs&) override {
    total += by_;
    return Status();
  }
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back({"callback/counts/total", DType::kInt64, {}, &total});
  }
  int64_t total = 0;

 private:
  const std::string label_;
  const int64_t by_;
};

// A run has two callbacks of one class, and one is removed. The other keeps its
// own state.
TEST(BackupTest, Resume_OneOfTwoOfAClassRemoved_TheOtherKeepsItsState) {
  const auto ones = [] { return std::make_shared<StepCounter>("a", 1); };
  const auto tens = [] { return std::make_shared<StepCounter>("b", 10); };
  {
    TempFolder folder;
    ASSERT_FALSE(
        FitOn(folder.path(), 15, TinyModel(), {ones(), tens()}).status.ok());
    const auto stays = tens();
    const Resumed resumed = FitOn(folder.path(), 0, TinyModel(), {stays});
    ASSERT_OK(resumed.status);
    EXPECT_EQ(stays->total, 300);
  }
  {
    TempFolder folder;
    ASSERT_FALSE(FitOn(folder.path(), 15, TinyModel(), {tens()}).status.ok());
    const auto stays = tens(), added = ones();
    const Resumed resumed =
        FitOn(folder.path(), 0, TinyModel(), {added, stays});
    ASSERT_OK(resumed.status);
    EXPECT_EQ(stays->total, 300);
    EXPECT_EQ(added->total, 15);
  }
}

// A callback that saves more tensors than before has no complete state in the
// backup.
TEST(BackupTest, Resume_CallbackSavesMoreThanBefore_StartsAgain) {
  const auto stopping = [](bool restores) {
    EarlyStoppingOptions options;
    options.monitor = "loss";
    options.patience = 100;
    options.restore_best_weights = restores;
    return EarlyStopping(options);
  };
  for (const bool restores : {false, true}) {
    TempFolder folder;
    ASSERT_FALSE(FitOn(folder.path(), 15, TinyModel(), {stopping(restores)})
                     .status.ok());
    const Resumed resumed =
        FitOn(folder.path(), 0, TinyModel(), {stopping(!restores)});
    ASSERT_OK(resumed.status);
    EXPECT_EQ(resumed.printed.find("early_stopping had other options") !=
                  std::string::npos,
              !restores)
        << resumed.printed;
  }
}

TEST(BackupTest, Resume_AnotherOptimizerOrSeed_IsRefusedUnlessAskedFor) {
  BackupAndRestoreOptions takes = SaveEvery(5);
  takes.other_optimizer = takes.other_seed = true;
  const struct {
    Optimizer optimizer;
    uint64_t seed;
    const char* difference;
    bool fits;  // whether the optimizer's slots are the same
  } cases[] = {
      {SGD(0.2f), 1, "the optimizer's learning rate is 0.1 there and 0.2 here",
       true},
      {SGD(0.1f, 0.9f), 1, "the optimizer's momentum is 0 there", false},
      {Adam(0.1f), 1, "the optimizer is SGD there and Adam here", false},
      {SGD(0.1f), 2, "by a run with seed 1, and this run has 2", true},
  };
  for (const auto& other : cases) {
    SCOPED_TRACE(other.difference);
    TempFolder folder;
    ASSERT_FALSE(FitOn(folder.path(), 15, WithMetrics({}), {}).status.ok());
    const Resumed refused = FitOn(
        folder.path(), 0, WithMetrics({}, other.optimizer, other.seed), {});
    const std::string message = refused.status.message();
    EXPECT_EQ(refused.status.code(), Code::kInvalidArgument) << message;
    EXPECT_TRUE(Contains(message, other.difference));
    EXPECT_TRUE(Contains(message, "--continue-with"));
    EXPECT_TRUE(Contains(message, "--init " + (folder / "backup-")));
    const Resumed taken =
        FitOn(folder.path(), 0, WithMetrics({}, other.optimizer, other.seed),
              {}, takes);
    EXPECT_EQ(taken.status.ok(), other.fits) << taken.status.message();
    EXPECT_EQ(fs::exists(folder / "checkpoint"), !other.fits);
  }
}

// A Normalization that adapts has the statistics of the run's data.
TEST(BackupTest, Resume_OtherStatisticsOfNormalization_IsRefused) {
  const auto normalized = [](const Layer& first) {
    auto model = std::make_unique<Sequential>(
        std::initializer_list<Layer>{Input({2}), first, Dense(3)});
    model->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits), {});
    return model;
  };
  const Layer one = Normalization({0, 1}, {1, 1}).Name("norm"),
              another = Normalization({0, 2}, {1, 1}).Name("norm"),
              adapts = Normalization().Name("norm");
  const struct {
    Layer before, after;
    bool fits;
  } cases[] = {{one, one, true}, {one, another, false}, {adapts, adapts, true}};
  for (const auto& run : cases) {
    TempFolder folder;
    const Resumed ended = FitOn(folder.path(), 15, normalized(run.before), {});
    ASSERT_FALSE(ended.status.ok());
    const Resumed resumed = FitOn(folder.path(), 0, normalized(run.after), {});
    EXPECT_EQ(resumed.status.ok(), run.fits) << resumed.status.message();
    if (run.fits) continue;
    EXPECT_TRUE(Contains(resumed.status.message(), "another mean or variance"));
  }
}

// A callback has set the rate in the run that saved the backup.
TEST(BackupTest, Resume_AnotherOptimizer_ItsOwnRateHolds) {
  class RateSetter final : public Callback {
   public:
    const char* name() const override { return "sets_rate"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      fit.model->SetLearningRate(0.01f);
      return Status();
    }
  };
  class RateRecorder final : public Callback {
   public:
    const char* name() const override { return "notes_rate"; }
    Status OnTrainBatchBegin(FitState& fit) override {
      rate = fit.model->LearningRate();
      return Status();
    }
    float rate = 0;
  };
  BackupAndRestoreOptions takes = SaveEvery(5);
  takes.other_optimizer = true;
  Optimizer decays = SGD(0.1f);
  decays.weight_decay = 0.001f;
  const std::pair<Optimizer, float> cases[] = {
      {SGD(0.1f), 0.01f}, {SGD(0.2f), 0.2f}, {decays, 0.1f}};
  for (const auto& [optimizer, rate] : cases) {
    SCOPED_TRACE(rate);
    TempFolder folder;
    ASSERT_FALSE(FitOn(folder.path(), 15, WithMetrics({}),
                       {std::make_shared<RateSetter>()})
                     .status.ok());
    const auto notes = std::make_shared<RateRecorder>();
    const Resumed taken =
        FitOn(folder.path(), 0, WithMetrics({}, optimizer), {notes}, takes);
    EXPECT_OK(taken.status);
    EXPECT_EQ(notes->rate, rate);
    const bool has_warning =
        taken.printed.find(
            "it has a learning rate of 0.01 that was set while the "
            "run trained. This run has another optimizer, so its "
            "own rate of ") != std::string::npos;
    EXPECT_EQ(has_warning, rate != 0.01f) << taken.printed;
  }
}

// After a loss the same callback loads the same backup once more.
TEST(BackupTest, Rollback_AnotherOptimizer_RateOfTheLostPartDoesNotStay) {
  BackupAndRestoreOptions takes = SaveEvery(5);
  takes.other_optimizer = true;
  for (const float set : {0.0f, 0.05f}) {
    SCOPED_TRACE(set);
    TempFolder folder;
    auto before = WithMetrics({});
    if (set == 0) before->SetLearningRate(0.03f);
    ASSERT_FALSE(FitOn(folder.path(), 15, std::move(before), {}).status.ok());
    auto model = WithMetrics({}, SGD(0.2f));
    if (set > 0) model->SetLearningRate(set);
    const float own = model->LearningRate();
    const std::vector<std::shared_ptr<Callback>> callbacks = {
        BackupAndRestore(folder.path(), takes)};
    for (const bool after_loss : {false, true}) {
      FitState fit;
      fit.model = model.get();
      fit.callbacks = &callbacks;
      fit.epochs = 100;
      fit.metrics.assign(model->num_metric_states(), MetricState());
      fit.details->after_loss = after_loss;
      ASSERT_OK(callbacks[0]->OnSetup(fit));
      ASSERT_OK(callbacks[0]->OnTrainBegin(fit));
      EXPECT_EQ(fit.details->source, RestoreSource::kBackup);
      EXPECT_EQ(model->LearningRate(), own);
      model->SetLearningRate(0.01f);  // a callback of the lost part
      callbacks[0]->OnFitReturn(fit, PeerLost(1, "lost"));
    }
  }
}

TEST(BackupTest, Resume_BackupOfAnotherModel_NamesTheFirstDifference) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  Sequential other({Input({2}), Dense(17, kRelu), Dense(3)});
  other.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  const auto history = other.Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_EQ(history.status().code(), Code::kInvalidArgument);
  const std::string message = history.status().message();
  EXPECT_TRUE(Contains(message, "model/dense/kernel"));
  EXPECT_TRUE(Contains(message, folder.path()));
}

// All weights have the same names and shapes, but the layers differ.
TEST(BackupTest, Resume_SameShapesButOtherLayers_IsRefused) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  const auto resume = [&](Model* other) {
    other->Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                   {Accuracy()});
    const std::vector<float> before = WeightsOf(other);
    const Status status =
        other->Fit(Data(), WithBackup(folder.path(), 0, 0)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(WeightsOf(other), before);
    return std::string(status.message());
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_TRUE(Contains(message, part));
  };
  Sequential tanh({Input({2}), Dense(16, kTanh), Dense(3)});
  expect(resume(&tanh),
         "layer 1 dense is Dense relu in the file, Dense tanh here");
  Sequential longer({Input({2}), Dense(16, kRelu), Dense(3), Softmax()});
  expect(resume(&longer),
         "layer 3 activation is missing in the file, Activation softmax here");
  Functional shortcut;
  const auto x = shortcut.Add(Input({2}));
  const auto y = shortcut.Add(Dense(16, kRelu), {x});
  shortcut.Add(Dense(3), {shortcut.Add(Add(), {y, y})});
  expect(resume(&shortcut),
         "layer 2 add is Dense in the file, Add of layer 1, 1 here");
  Sequential frozen({Input({2}), Dense(16, kRelu).Trainable(false), Dense(3)});
  expect(resume(&frozen),
         "layer 1 dense is Dense relu in the file, Dense relu frozen here");
  Sequential constrained(
      {Input({2}), Dense(16, kRelu), Dense(3).KernelConstraint(MaxNorm(3))});
  expect(
      resume(&constrained),
      "layer 2 dense_1 is Dense in the file, Dense kernel_constraint MaxNorm "
      "max 3 axis 0 here");
  // These settings may be changed in a run.
  Sequential same({Input({2}), Dense(16, kRelu).KernelInitializer(HeNormal()),
                   Dense(3).KernelRegularizer(L2())});
  same.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
               {Accuracy()});
  EXPECT_OK(same.Fit(Data(), WithBackup(folder.path(), 0, 0)).status());
}

// The text is in files that were written before.
TEST(BackupTest, LayersText_SeveralKinds_KeepsTheTextOfOlderFiles) {
  Functional model;
  const auto x = model.Add(Input({8, 8, 1}));
  const auto a = model.Add(Conv2D(4, 3, kRelu).Padding(kSame), {x});
  const auto b = model.Add(Conv2D(4, 1, 2).Padding(kSame).UseBias(false), {x});
  const auto c = model.Add(Add(), {a, b});
  const auto d = model.Add(MaxPooling2D(2, 3).Strides(2, 1), {c});
  const auto e = model.Add(Reshape({-1, 4}), {d});
  const auto f = model.Add(Dropout(0.3f).Seed(7).Trainable(false), {e});
  model.Add(Softmax(), {model.Add(Dense(3).KernelRegularizer(L2()), {f})});
  EXPECT_EQ(LayersText(model),
            "InputLayer (8, 8, 1)\n"
            "Conv2D 3x3 by 1x1 same relu\n"
            "Conv2D 1x2 by 1x1 same of layer 0\n"
            "Add of layer 1, 2\n"
            "MaxPooling2D 2x3 by 2x1 valid\n"
            "Reshape (24, 4)\n"
            "Dropout\n"
            "Dense\n"
            "Activation softmax");
}

TEST(BackupTest, Resume_TwoCallbacksOfOneKind_RestoresBoth) {
  TempFolder folder;
  const auto fit = [&](int64_t die_at, std::vector<int64_t>* totals) {
    FitOptions options = WithBackup(folder.path(), 1, die_at);
    const auto ones = std::make_shared<StepCounter>("counts", 1);
    const auto tens = std::make_shared<StepCounter>("counts", 10);
    options.callbacks.push_back(ones);
    options.callbacks.push_back(tens);
    const Status status = TinyModel()->Fit(Data(), options).status();
    *totals = {ones->total, tens->total};
    return status;
  };
  std::vector<int64_t> totals;
  ASSERT_FALSE(fit(15, &totals).ok());
  ASSERT_OK(fit(0, &totals));
  EXPECT_EQ(totals, (std::vector<int64_t>{30, 300}));
}

}  // namespace
}  // namespace ringlet
