#include "ringlet/checkpoint.h"
#include "ringlet/loggers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/sanitized.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "io/checkpoint/run_description.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

const std::string& Runner() {
  static const std::string path =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tests/backup_runner";
  return path;
}

// `moment`: "kill=N" or "hold=N" (backup_runner.cc).
pid_t Start(const std::string& folder, const std::string& optimizer,
            const std::string& freq, const std::string& moment = "") {
  const pid_t pid = fork();
  if (pid == 0) {
    execl(Runner().c_str(), "backup_runner", folder.c_str(), optimizer.c_str(),
          freq.c_str(), moment.empty() ? nullptr : moment.c_str(), nullptr);
    _exit(127);
  }
  return pid;
}

int WaitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// The same final files, nothing of the backup left, and no temporary file.
void ExpectSame(const TempFolder& killed, const TempFolder& undisturbed,
                const std::string& what) {
  for (const char* file : {"final.safetensors", "log.csv"}) {
    EXPECT_EQ(ReadWhole(killed / file), ReadWhole(undisturbed / file))
        << what << " " << file;
  }
  for (const auto& entry : fs::directory_iterator(killed / "backup")) {
    EXPECT_EQ(entry.path().filename(), ".lock");
  }
}

// SIGKILL in random calls of its files, half of what one writes being there,
// until it completes: the same files, byte for byte.
TEST(BackupTest, Resume_KilledInRandomCalls_EndsAsTheUndisturbedRun) {
  std::mt19937 random(20261121);
  int kills = 0;
  for (const char* optimizer : {"sgd", "rmsprop", "adam"}) {
    for (const char* freq : {"0", "1", "7", "30"}) {
      TempFolder undisturbed(TempFolder::InMemory());
      ASSERT_EQ(WaitFor(Start(undisturbed.path(), optimizer, freq)), 0);
      const int calls = std::atoi(ReadWhole(undisturbed / "calls").c_str());
      ASSERT_GT(calls, 0);
      for (int mine = 0; mine < 5;) {
        TempFolder killed(TempFolder::InMemory());
        for (bool completed = false; !completed;) {
          // After enough kills the run is let through, as it must be where it
          // saves too seldom to get on.
          const unsigned call = 1 + random() % static_cast<unsigned>(calls);
          const int status =
              WaitFor(Start(killed.path(), optimizer, freq,
                            mine < 5 ? "kill=" + std::to_string(call) : ""));
          completed = WIFEXITED(status);
          ASSERT_TRUE(!completed || status == 0) << optimizer << " " << freq;
          mine += completed ? 0 : 1;
        }
        ExpectSame(killed, undisturbed, std::string(optimizer) + " " + freq);
      }
      kills += 5;
    }
  }
  std::printf("%d kills\n", kills);
  EXPECT_GE(kills, 50);
}

TEST(BackupTest, Fit_SignalInAStep_SavesAndExitsResumable) {
  TempFolder undisturbed(TempFolder::InMemory());
  TempFolder stopped(TempFolder::InMemory());
  ASSERT_EQ(WaitFor(Start(undisturbed.path(), "adam", "30")), 0);
  for (const int step : {1, 10, 29, 32, 75, 100}) {
    const pid_t pid =
        Start(stopped.path(), "adam", "30", "hold=" + std::to_string(step));
    EXPECT_TRUE(Eventually([&] { return fs::exists(stopped / "held"); }));
    kill(pid, step % 2 == 0 ? SIGTERM : SIGINT);
    fs::remove(stopped / "held");  // it goes on
    const int status = WaitFor(pid);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    ASSERT_EQ(WEXITSTATUS(status), 75) << "step " << step;
    ASSERT_TRUE(fs::exists(stopped / "backup/checkpoint"));
  }
  ASSERT_EQ(WaitFor(Start(stopped.path(), "adam", "30")), 0);
  EXPECT_EQ(ReadWhole(stopped / "final.safetensors"),
            ReadWhole(undisturbed / "final.safetensors"));
  EXPECT_EQ(ReadWhole(stopped / "log.csv"), ReadWhole(undisturbed / "log.csv"));
}

class Dies final : public Callback {
 public:
  explicit Dies(int64_t at) : at_(at) {}
  const char* name() const override { return "dies"; }
  Status OnSavePoint(FitState& fit, bool) override {
    if (fit.model->iterations() < at_) return Status();
    return Error(Code::kInternal, "the power went");
  }

 private:
  const int64_t at_;
};

FitOptions WithBackup(const std::string& folder, int64_t freq, int64_t die_at,
                      FileSystem* files = FileSystem::Posix()) {
  FitOptions options = Quiet(3);
  BackupAndRestoreOptions backup;
  backup.save_freq = freq;
  backup.files = files;
  options.callbacks = {BackupAndRestore(folder, backup)};
  if (die_at > 0) options.callbacks.push_back(std::make_shared<Dies>(die_at));
  return options;
}

const Dataset& Data() {
  static const Dataset data = Points(40).Shuffle(1).Batch(4);
  return data;
}

TEST(BackupTest, Resume_AnySaveFrequency_BeginsAtTheStepOfTheBackup) {
  for (const auto& [freq, done] :
       {std::pair<int64_t, int64_t>{0, 10}, {7, 14}, {1, 15}}) {
    TempFolder folder;
    auto first = TinyModel();
    ASSERT_FALSE(first->Fit(Data(), WithBackup(folder.path(), freq, 15)).ok());
    auto second = TinyModel();
    int64_t steps = 0;
    FitOptions options = WithBackup(folder.path(), freq, 0);
    LambdaCallbackOptions count;
    count.on_train_batch_end = [&](int64_t, const Logs&) { ++steps; };
    options.callbacks.push_back(LambdaCallback(count));
    ASSERT_TRUE(second->Fit(Data(), options).ok());
    EXPECT_EQ(steps, 30 - done) << freq;
    EXPECT_EQ(second->iterations(), 30);
  }
}

// Returns the text on stderr of a resume with `data`.
std::string ResumeWith(const Dataset& data, const std::string& from,
                       Status* status) {
  TempFolder folder;
  fs::copy(from, folder.path(), fs::copy_options::recursive);
  testing::internal::CaptureStderr();
  auto model = TinyModel();
  *status = model->Fit(data, WithBackup(folder.path(), 1, 0)).status();
  return testing::internal::GetCapturedStderr();
}

TEST(BackupTest, Resume_OtherData_WarnsOrIsRefusedIfThePositionIsOutside) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  Status status;
  EXPECT_EQ(ResumeWith(Data(), folder.path(), &status), "");
  EXPECT_OK(status);
  const std::string saved =
      "was saved with other data or batches: 40 examples, shuffled with seed "
      "1, batches of 4, 10 steps an epoch; this run: ";
  for (const auto& [data, here] : {
           std::pair<Dataset, const char*>{
               Points(60).Shuffle(1).Batch(4),
               "60 examples, shuffled with seed 1, batches of 4, 15 steps"},
           {Points(40).Shuffle(1).Batch(8), "batches of 8, 5 steps"},
           {Points(40).Shuffle(2).Batch(4), "shuffled with seed 2"},
           {Points(40).Batch(4), "not shuffled"},
       }) {
    const std::string told = ResumeWith(data, folder.path(), &status);
    EXPECT_OK(status);
    EXPECT_TRUE(Contains(told, saved));
    EXPECT_NE(told.find(here, told.find("this run: ")), std::string::npos)
        << told;
  }
  // 5 steps of 4 examples into its second pass.
  ResumeWith(Points(20).Shuffle(1).Batch(4), folder.path(), &status);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "cannot be resumed"));
}

// --- other callbacks, metrics, optimizers and seeds than the backup's

struct Resumed {
  Status status;
  std::string said;  // on stderr
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
  resumed.said = testing::internal::GetCapturedStderr();
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
        EXPECT_EQ(resumed.said.find(name + " is new in this run") !=
                      std::string::npos,
                  is && !was)
            << resumed.said;
        EXPECT_EQ(
            resumed.said.find(name + " of the run that saved it is not") !=
                std::string::npos,
            was && !is)
            << resumed.said;
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
      EXPECT_EQ(resumed.said.empty(), &before == &after) << resumed.said;
      if (drops) {
        EXPECT_TRUE(Contains(resumed.said, "its state is dropped"));
      }
    }
  }
}

// A run has two callbacks of one class, and one is removed. The other keeps its
// own state.
TEST(BackupTest, Resume_OneOfTwoOfAClassRemoved_TheOtherKeepsItsState) {
  class Counts final : public Callback {
   public:
    Counts(std::string label, int64_t by) : label_(std::move(label)), by_(by) {}
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
  const auto ones = [] { return std::make_shared<Counts>("a", 1); };
  const auto tens = [] { return std::make_shared<Counts>("b", 10); };
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
    EXPECT_EQ(resumed.said.find("early_stopping had other options") !=
                  std::string::npos,
              !restores)
        << resumed.said;
  }
}

TEST(BackupTest, Resume_AnotherOptimizerOrSeed_IsRefusedUnlessAskedFor) {
  BackupAndRestoreOptions takes = SaveEvery(5);
  takes.other_optimizer = takes.other_seed = true;
  const struct {
    Optimizer optimizer;
    uint64_t seed;
    const char* said;
    bool fits;  // whether the optimizer's slots are the same
  } cases[] = {
      {SGD(0.2f), 1, "the optimizer's learning rate is 0.1 there and 0.2 here",
       true},
      {SGD(0.1f, 0.9f), 1, "the optimizer's momentum is 0 there", false},
      {Adam(0.1f), 1, "the optimizer is SGD there and Adam here", false},
      {SGD(0.1f), 2, "by a run with seed 1, and this run has 2", true},
  };
  for (const auto& other : cases) {
    SCOPED_TRACE(other.said);
    TempFolder folder;
    ASSERT_FALSE(FitOn(folder.path(), 15, WithMetrics({}), {}).status.ok());
    const Resumed refused = FitOn(
        folder.path(), 0, WithMetrics({}, other.optimizer, other.seed), {});
    const std::string message = refused.status.message();
    EXPECT_EQ(refused.status.code(), Code::kInvalidArgument) << message;
    EXPECT_TRUE(Contains(message, other.said));
    EXPECT_TRUE(Contains(message, "--continue-with"));
    EXPECT_TRUE(Contains(message, "--init " + (folder / "backup-")));
    const Resumed taken =
        FitOn(folder.path(), 0, WithMetrics({}, other.optimizer, other.seed),
              {}, takes);
    EXPECT_EQ(taken.status.ok(), other.fits) << taken.status.message();
    EXPECT_EQ(fs::exists(folder / "checkpoint"), !other.fits);
  }
}

// A Normalization that adapts has those of the run's data.
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
    const Resumed died = FitOn(folder.path(), 15, normalized(run.before), {});
    ASSERT_FALSE(died.status.ok());
    const Resumed resumed = FitOn(folder.path(), 0, normalized(run.after), {});
    EXPECT_EQ(resumed.status.ok(), run.fits) << resumed.status.message();
    if (run.fits) continue;
    EXPECT_TRUE(Contains(resumed.status.message(), "another mean or variance"));
  }
}

// A callback has set the rate in the run that saved the backup.
TEST(BackupTest, Resume_AnotherOptimizer_ItsOwnRateHolds) {
  class SetsRate final : public Callback {
   public:
    const char* name() const override { return "sets_rate"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      fit.model->SetLearningRate(0.01f);
      return Status();
    }
  };
  class NotesRate final : public Callback {
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
                       {std::make_shared<SetsRate>()})
                     .status.ok());
    const auto notes = std::make_shared<NotesRate>();
    const Resumed taken =
        FitOn(folder.path(), 0, WithMetrics({}, optimizer), {notes}, takes);
    EXPECT_OK(taken.status);
    EXPECT_EQ(notes->rate, rate);
    const bool is_told =
        taken.said.find(
            "it has a learning rate of 0.01 that was set while the "
            "run trained. This run has another optimizer, so its "
            "own rate of ") != std::string::npos;
    EXPECT_EQ(is_told, rate != 0.01f) << taken.said;
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
      fit.after_loss = after_loss;
      ASSERT_TRUE(callbacks[0]->OnSetup(fit).ok());
      ASSERT_OK(callbacks[0]->OnTrainBegin(fit));
      EXPECT_EQ(fit.source, RestoreSource::kBackup);
      EXPECT_EQ(model->LearningRate(), own);
      model->SetLearningRate(0.01f);  // a callback of the lost part
      callbacks[0]->OnFitReturn(fit, PeerLost(1, "lost"));
    }
  }
}

TEST(BackupTest, Resume_BackupBehindTheLastEpoch_IsRefusedAndStays) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  FitOptions options = WithBackup(folder.path(), 1, 0);
  options.epochs = 1;
  const Status refused = TinyModel()->Fit(Data(), options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_TRUE(
      Contains(refused, "of epoch 2, step 6, but the fit ends with epoch 1"));
  EXPECT_TRUE(fs::exists(folder / "checkpoint"));
}

TEST(BackupTest, Backup_TrainingCompleted_IsRemovedUnlessKept) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  EXPECT_TRUE(fs::exists(folder / "backup-1.safetensors"));
  auto again = TinyModel();
  ASSERT_TRUE(again->Fit(Data(), WithBackup(folder.path(), 0, 0)).ok());
  EXPECT_FALSE(fs::exists(folder / "checkpoint"));
  FitOptions kept = Quiet(2);
  BackupAndRestoreOptions keep;
  keep.delete_checkpoint = false;
  kept.callbacks = {BackupAndRestore(folder.path(), keep)};
  auto third = TinyModel();
  ASSERT_TRUE(third->Fit(Data(), kept).ok());
  EXPECT_TRUE(fs::exists(folder / "checkpoint"));
  // The run has ended, so the fit does nothing.
  auto fourth = TinyModel();
  ASSERT_TRUE(fourth->Fit(Data(), kept).ok());
  EXPECT_EQ(WeightsOf(fourth.get()), WeightsOf(third.get()));
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

TEST(BackupTest, Resume_AllBackupsDamaged_IsAnErrorAndNoNewStart) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  std::string bytes = ReadWhole(folder / "backup-1.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  WriteWhole(folder / "backup-1.safetensors", bytes);
  auto again = TinyModel();
  const auto history = again->Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_EQ(history.status().code(), Code::kCorruption);
  EXPECT_EQ(again->iterations(), 0);
}

// A disk that is full, or fails, costs backups and not the training; once it
// has room again there are backups again.
TEST(BackupTest, Save_DiskIsFull_WarnsAndContinuesOnceThereIsSpace) {
  SimulatedFileSystem files;
  files.set_capacity(100);
  FitOptions options = Quiet(3);
  BackupAndRestoreOptions backup;
  backup.save_freq = 1;
  backup.files = &files;
  backup.background = false;
  LambdaCallbackOptions lambda;
  lambda.on_epoch_begin = [&](int64_t epoch) {
    if (epoch == 1) files.set_capacity(-1);
  };
  options.callbacks = {BackupAndRestore("backup", backup),
                       LambdaCallback(lambda), std::make_shared<Dies>(15)};
  auto model = TinyModel();
  testing::internal::CaptureStderr();
  ASSERT_FALSE(model->Fit(Data(), options).ok());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(said, "training continues"));
  EXPECT_EQ(model->iterations(), 15);

  files.Kill();
  int64_t steps = 0;
  lambda = {};
  lambda.on_train_batch_end = [&](int64_t, const Logs&) { ++steps; };
  options.callbacks = {BackupAndRestore("backup", backup),
                       LambdaCallback(lambda)};
  auto again = TinyModel();
  ASSERT_OK(again->Fit(Data(), options).status());
  EXPECT_EQ(steps, 15);
}

// No message claims that the state was saved if it was not.
TEST(BackupTest, Interrupt_DiskIsFull_NamesTheUsableBackup) {
  for (const bool background : {false, true}) {
    for (const int64_t full_from : {0, 9}) {
      // The simulated disk is one thread's at a time.
      if (background && full_from > 0) continue;
      SimulatedFileSystem files;
      FitOptions options = Quiet(3);
      BackupAndRestoreOptions backup;
      backup.save_freq = 7;
      backup.files = &files;
      backup.background = background;
      LambdaCallbackOptions lambda;
      lambda.on_train_batch_begin = [&](int64_t step) {
        if (step == full_from) files.set_capacity(0);
        if (step == 9) raise(SIGTERM);
      };
      options.callbacks = {BackupAndRestore("backup", backup),
                           LambdaCallback(lambda)};
      auto model = TinyModel();
      testing::internal::CaptureStderr();
      const Status status = model->Fit(Data(), options).status();
      testing::internal::GetCapturedStderr();
      const std::string message = status.message();
      EXPECT_EQ(model->iterations(), 10);
      EXPECT_TRUE(Contains(message, "interrupted, and no backup was written"));
      EXPECT_FALSE(Contains(message, "the state was saved"));
      if (full_from == 0) {
        EXPECT_EQ(status.code(), Code::kResourceExhausted) << message;
      } else {
        EXPECT_EQ(status.code(), Code::kCancelled) << message;
        EXPECT_TRUE(
            Contains(message, "continue from backup/backup-1.safetensors"));
      }
    }
  }
}

TEST(BackupTest, Save_AnyOperationFails_CostsAtMostThatBackup) {
  auto undisturbed = TinyModel();
  ASSERT_TRUE(undisturbed->Fit(Data(), Quiet(3)).ok());
  for (const int error : {EIO, ENOSPC, EINTR}) {
    for (int64_t operation = 1; operation <= 40; ++operation) {
      SimulatedFileSystem files;
      BackupAndRestoreOptions backup;
      backup.save_freq = 7;
      backup.files = &files;
      backup.background = false;
      FitOptions options = Quiet(3);
      LambdaCallbackOptions lambda;
      lambda.on_epoch_begin = [&](int64_t epoch) {
        if (epoch == 1) files.FailAfter(operation, error);
      };
      options.callbacks = {BackupAndRestore("backup", backup),
                           LambdaCallback(lambda), std::make_shared<Dies>(29)};
      auto model = TinyModel();
      testing::internal::CaptureStderr();
      ASSERT_FALSE(model->Fit(Data(), options).ok());
      EXPECT_EQ(model->iterations(), 29) << operation;
      files.Kill();
      options.callbacks = {BackupAndRestore("backup", backup)};
      auto again = TinyModel();
      const auto history = again->Fit(Data(), options);
      testing::internal::GetCapturedStderr();
      ASSERT_OK(history.status());
      EXPECT_EQ(WeightsOf(again.get()), WeightsOf(undisturbed.get()))
          << operation << " " << error;
    }
  }
}

TEST(BackupTest, Fit_DirectoryInUse_IsRefusedByItsName) {
  TempFolder folder;
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(folder.path(), {}, &held).ok());
  auto model = TinyModel();
  const auto history = model->Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_FALSE(history.ok());
  EXPECT_TRUE(Contains(history.status(), folder.path()));
}

TEST(BackupTest, Fit_WrongBackupOptions_IsRefused) {
  auto model = TinyModel();
  auto empty = model->Fit(Data(), WithBackup("", 0, 0));
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(empty.status(), "Empty `backup_dir` argument passed"));
  EXPECT_EQ(model->Fit(Data(), WithBackup("x", -1, 0)).status().code(),
            Code::kInvalidArgument);
  const auto unwritable = model->Fit(Data(), WithBackup("/proc/backup", 0, 0));
  EXPECT_FALSE(unwritable.ok());
  EXPECT_TRUE(Contains(unwritable.status(), "/proc/backup"));
}

enum class Moment : uint8_t {
  kEpochBegin,
  kBatchBegin,
  kBatchEnd,
  kEpochEnd,
  kCount
};

// Asks to interrupt the fit once, in the second epoch, at a moment of a step.
class InterruptsAt final : public Callback {
 public:
  InterruptsAt(Moment moment, int64_t step, bool* asked)
      : moment_(moment), step_(step), asked_(*asked) {}
  const char* name() const override { return "interrupts_at"; }
  Status OnEpochBegin(FitState& fit) override {
    return At(Moment::kEpochBegin, &fit);
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    return At(Moment::kBatchBegin, &fit);
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    return At(Moment::kBatchEnd, &fit);
  }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    return At(Moment::kEpochEnd, &fit);
  }

 private:
  Status At(Moment moment, FitState* fit) {
    const bool in_step =
        moment == Moment::kBatchBegin || moment == Moment::kBatchEnd;
    if (asked_ || moment != moment_ || fit->epoch != 1 ||
        (in_step && fit->step != step_)) {
      return Status();
    }
    asked_ = true;
    fit->interrupted = true;
    fit->signal = SIGTERM;
    return Status();
  }

  const Moment moment_;
  const int64_t step_;
  bool& asked_;
};

// OnEpochBegin changes the rate once, whenever the signal comes.
TEST(BackupTest, Interruption_AnyMomentOfAnEpoch_SchedulesTheRateOnce) {
  const auto train = [](int ranks, Moment moment, int64_t step) {
    SimulatedFileSystem files;
    std::vector<float> weights;
    std::vector<char> asked(static_cast<size_t>(ranks), 0);
    int runs = 0;
    for (bool ended = false; !ended && runs < 4; ++runs) {
      RunRanks(ranks, [&](Collective* collective) {
        const bool last = collective->rank() + 1 == ranks;
        bool before = !last || asked[0] != 0;
        BackupAndRestoreOptions backup;
        backup.files = &files;
        backup.background = false;
        FitOptions options = Quiet(4);
        options.callbacks = {
            LearningRateScheduler([](int64_t, float rate) { return rate / 2; }),
            std::make_shared<InterruptsAt>(moment, step, &before),
            BackupAndRestore("backup", backup)};
        auto model = TinyModel(SGD(0.5f), 0, CompileOptions(collective));
        const Status status =
            model->Fit(Points(48).Batch(16), options).status();
        if (!last) return;
        asked[0] = before ? 1 : 0;
        EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled)
            << status.message();
        ended = status.ok();
        weights = WeightsOf(model.get());
      });
    }
    EXPECT_EQ(runs, moment == Moment::kCount ? 1 : 2);
    return weights;
  };
  for (const int ranks : {1, 2}) {
    const std::vector<float> undisturbed = train(ranks, Moment::kCount, 0);
    for (int m = 0; m < static_cast<int>(Moment::kCount); ++m) {
      for (const int64_t step : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, moment " << m << ", step " << step);
        EXPECT_EQ(train(ranks, static_cast<Moment>(m), step), undisturbed);
      }
    }
  }
}

// After the fit, however many backups it had, a signal does what it did before.
TEST(BackupTest, SignalHandler_FitHasReturned_IsTheOneFromBefore) {
  TempFolder folder;
  static volatile sig_atomic_t heard;
  heard = 0;
  struct sigaction own = {}, before = {}, after = {};
  own.sa_handler = [](int) { heard = heard + 1; };
  ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  for (int backups = 1; backups <= 3; ++backups) {
    FitOptions options = Quiet(1);
    for (int i = 0; i < backups; ++i) {
      options.callbacks.push_back(BackupAndRestore(folder / std::to_string(i)));
    }
    auto model = TinyModel();
    ASSERT_TRUE(model->Fit(Data(), options).ok());
    raise(SIGTERM);
    raise(SIGTERM);
    EXPECT_EQ(heard, 2 * backups);
  }
  ASSERT_EQ(sigaction(SIGTERM, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, own.sa_handler);
}

TEST(BackupTest, Resume_TwoCallbacksOfOneKind_RestoresBoth) {
  class Counts final : public Callback {
   public:
    explicit Counts(int64_t by) : by_(by) {}
    const char* name() const override { return "counts"; }
    Status OnTrainBatchEnd(FitState&, const Logs&) override {
      total += by_;
      return Status();
    }
    void AppendState(std::vector<StateSpan>* spans) override {
      spans->push_back({"callback/counts/total", DType::kInt64, {}, &total});
    }
    int64_t total = 0;

   private:
    const int64_t by_;
  };
  TempFolder folder;
  const auto fit = [&](int64_t die_at, std::vector<int64_t>* totals) {
    FitOptions options = WithBackup(folder.path(), 1, die_at);
    const auto ones = std::make_shared<Counts>(1);
    const auto tens = std::make_shared<Counts>(10);
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

// --- elastic jobs: each worker has a folder of its own

constexpr int kEpochs = 3;
constexpr int64_t kSteps = 18;  // of all epochs

// Counts the steps that it sees, and has something done before one of them.
class Watches final : public Callback {
 public:
  Watches(int64_t at, std::function<void(FitState&)> what)
      : at_(at), what_(std::move(what)) {}
  static constexpr int64_t kGoesOn = -2;  // as it goes on after a loss
  static constexpr int64_t kMeets = -3;  // before it meets others, as it begins
  const char* name() const override { return "watches"; }
  Status OnTrainBegin(FitState& fit) override {
    if (at_ == kGoesOn && fit.after_loss) what_(fit);
    if (at_ != kMeets) return Status();
    what_(fit);
    return fit.model->collective()->Barrier();
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.model->iterations() == at_ && !done_ && what_ != nullptr) {
      done_ = true;
      what_(fit);
    }
    return Status();
  }
  Status OnTrainBatchEnd(FitState&, const Logs&) override {
    ++steps_;
    return Status();
  }
  int64_t steps() const { return steps_; }

 private:
  const int64_t at_;
  const std::function<void(FitState&)> what_;
  // Several workers may share an object.
  std::atomic<bool> done_{false};
  std::atomic<int64_t> steps_{0};
};

struct ElasticFit {
  Status status;
  uint64_t digest = 0;
};

// `folder` "": no backup.
ElasticFit FitElastic(Collective* collective, const std::string& folder,
                      const std::shared_ptr<Watches>& watches,
                      const std::shared_ptr<Watches>& more = nullptr,
                      float rate = 0.01f, int64_t save_freq = 1,
                      int64_t units = 16, int64_t check_every = 100) {
  CompileOptions options = ExactSums(collective, 5);
  auto model = TinyModel(Adam(rate), /*dropout=*/0.2f, options, units);
  FitOptions fit = Quiet(kEpochs);
  fit.check_replicas_every = check_every;
  if (more != nullptr) fit.callbacks.push_back(more);
  if (!folder.empty()) {
    BackupAndRestoreOptions backup;
    backup.save_freq = save_freq;
    fit.callbacks.push_back(BackupAndRestore(folder, backup));
  }
  if (watches != nullptr) fit.callbacks.push_back(watches);
  ElasticFit run;
  run.status = model->Fit(Points(203).Shuffle(3).Batch(40), fit).status();
  run.digest = model->weights_digest();
  return run;
}

uint64_t UndisturbedDigest() {
  static const uint64_t digest = FitElastic(nullptr, "", nullptr).digest;
  return digest;
}

std::function<void(FitState&)> Interrupts() {
  return [](FitState& fit) { fit.interrupted = true; };
}

// A worker of a job alone, up to a step: its backup stays.
void TrainAlone(const std::string& folder, int64_t steps) {
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0);
  const ElasticFit run = FitElastic(
      &collective, folder, std::make_shared<Watches>(steps - 1, Interrupts()));
  EXPECT_EQ(run.status.code(), Code::kCancelled) << run.status.message();
}

bool HasBackup(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != ".lock") return true;
  }
  return false;
}

// time    event                                         expected
// before  part 0 of a parted job saves step 3, 12, 17
// step 5  its chief joins the other part                all go on from step 5
// end     both have trained                             undisturbed, no backup
TEST(BackupTest, Join_ChiefWithALaterBackup_ContinuesFromMemory) {
  for (const int64_t saved : {3, 12, 17}) {
    SCOPED_TRACE(saved);
    constexpr int64_t kFormationReport = 5;
    TempFolder chiefs(TempFolder::InMemory()), others(TempFolder::InMemory());
    TrainAlone(chiefs.path(), saved);
    ElasticJob job;
    job.Arrive(1);
    std::atomic<bool> called{false};
    std::thread comes([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0);
      const ElasticFit run = FitElastic(&collective, chiefs.path(),
                                        std::make_shared<Watches>(-1, nullptr));
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches =
          std::make_shared<Watches>(kFormationReport - 1, [&](FitState&) {
            called = true;
            while (!job.has_joiner()) std::this_thread::yield();
          });
      const ElasticFit run = FitElastic(&collective, others.path(), watches);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
      EXPECT_EQ(watches->steps(), kSteps);
    }
    comes.join();
    EXPECT_FALSE(HasBackup(chiefs.path()));
    EXPECT_FALSE(HasBackup(others.path()));
  }
}

// The backup has wrong numbers: it is of a worker that was alone.
TEST(BackupTest, Join_ChiefWithAWrongLaterBackup_ContinuesFromMemory) {
  TempFolder chiefs(TempFolder::InMemory()), others[3];
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto corrupt_weight = std::make_shared<Watches>(
        2, [](FitState& fit) { fit.model->weights()[5] += 1; });
    FitElastic(&collective, chiefs.path(), corrupt_weight,
               std::make_shared<Watches>(11, Interrupts()));
  }
  ElasticJob job;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::vector<std::thread> threads;
  std::atomic<bool> called{false};
  threads.emplace_back([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto none = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, chiefs.path(), none, none);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  });
  for (const int w : {1, 2, 3}) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(&job, w);
      const auto wrong = std::make_shared<Watches>(3, [w](FitState& fit) {
        if (w == 3) fit.model->weights()[5] += 1;
      });
      const auto calls = std::make_shared<Watches>(8, [&, w](FitState&) {
        called = true;
        while (w == 1 && !job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run =
          FitElastic(&collective, others[w - 1].path(), wrong, calls);
      if (w == 3) {
        EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
        return;
      }
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Only the backup is left. The state in memory is dropped: it is that of a
// faulty worker, and a worker that has joined since has another history.
TEST(BackupTest, Resume_FromBackupAfterFaultyWorker_DropsStateInMemory) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 2);
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false}, named{false}, again{false};
  const auto corrupt_weight = [](FitState& fit) {
    fit.model->weights()[5] += 1;
  };
  const auto train = [&](int w, const std::shared_ptr<Watches>& one,
                         const std::shared_ptr<Watches>& other) {
    ElasticCollective collective(&job, w);
    const ElasticFit run =
        FitElastic(&collective, folders[w].path(), one, other, 0.01f,
                   /*save_freq=*/1000, 16, /*check_every=*/2);
    if (run.status.code() == Code::kOutOfSync) job.Arrive(3);
    return run;
  };
  const auto none = std::make_shared<Watches>(-1, nullptr);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    const auto calls = std::make_shared<Watches>(3, [&](FitState& fit) {
      corrupt_weight(fit);
      for (const int w : {0, 2}) job.Arrive(w);
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const auto begins =
        std::make_shared<Watches>(Watches::kGoesOn, corrupt_weight);
    EXPECT_EQ(train(1, calls, begins).status.code(), Code::kOutOfSync);
    named = true;
    while (!again) std::this_thread::yield();
    EXPECT_TRUE(train(1, none, none).status.ok());
  });
  for (const int w : {0, 2, 3}) {
    threads.emplace_back([&, w] {
      while (!(w == 3 ? named : called)) std::this_thread::yield();
      const auto calls = std::make_shared<Watches>(7, [&, w](FitState&) {
        if (w != 0) return;
        job.Arrive(1);
        again = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = train(w, calls, none);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A later backup of the chief that joins does not replace the members' state,
// nor does the state of a worker that has computed wrong alone.
TEST(BackupTest, Join_ChiefWithALaterBackup_HistoryStays) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 12);
  ElasticJob job, other;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::atomic<bool> called{false}, again{false};
  const auto at = [](int64_t step, const std::function<void(FitState&)>& what) {
    return std::make_shared<Watches>(step, what);
  };
  const auto train = [&](int w, const std::shared_ptr<Watches>& one,
                         const std::shared_ptr<Watches>& another,
                         ElasticCollective* collective) {
    return FitElastic(collective, folders[w].path(), one, another, 0.01f,
                      /*save_freq=*/1, 16, /*check_every=*/4);
  };
  std::vector<std::thread> threads;
  for (const int w : {0, 1, 2}) {
    threads.emplace_back([&, w] {
      while (w == 0 && !called) std::this_thread::yield();
      if (w == 0) job.Arrive(0);
      ElasticCollective collective(&job, w);
      const auto waits = [&, w](std::atomic<bool>* tells) {
        if (w != 1) return;
        *tells = true;
        while (!job.has_joiner()) std::this_thread::yield();
      };
      const ElasticFit run =
          train(w, at(5, [&](FitState&) { waits(&called); }),
                at(13, [&](FitState&) { waits(&again); }), &collective);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  threads.emplace_back([&] {
    ElasticCollective collective(&job, 3);
    const auto leaves = at(3, [&](FitState& fit) {
      fit.model->weights()[5] += 1;
      collective.MoveTo(&other);
    });
    const auto returns = at(15, [&](FitState&) {
      while (!again) std::this_thread::yield();
      collective.MoveTo(&job);
    });
    const ElasticFit run = train(3, leaves, returns, &collective);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  });
  for (std::thread& thread : threads) thread.join();
}

// A worker that was chief for a time leaves no backup for another run.
TEST(BackupTest, End_EarlierChiefs_RemoveTheirBackups) {
  for (const bool one_folder : {false, true}) {
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    const std::string paths[] = {folders[0].path(),
                                 folders[one_folder ? 0 : 1].path()};
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::atomic<bool> alone{false};
    std::thread first([&] {
      {
        ElasticCollective collective(&job, 0);
        FitElastic(&collective, paths[0],
                   std::make_shared<Watches>(
                       4, [&](FitState&) { collective.EndInNextCall(); }));
        EXPECT_TRUE(collective.ended());
      }
      while (!alone) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0);
      EXPECT_TRUE(FitElastic(&collective, paths[0],
                             std::make_shared<Watches>(-1, nullptr))
                      .status.ok());
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        alone = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, paths[1], watches);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    first.join();
    EXPECT_FALSE(HasBackup(paths[0]));
    EXPECT_FALSE(HasBackup(paths[1]));
  }
}

// The joiner ends on the error of its own disk, though all would begin with the
// state on it.
TEST(BackupTest, Join_ChiefWithoutItsFolder_EndsAlone) {
  TempFolder folder, others;
  const std::string path = folder / "file";
  WriteWhole(path, "no directory");
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_TRUE(Contains(run.status, path));
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// The earlier chief is stalled and holds the folder. The job continues, and
// saves again when the folder is free.
TEST(BackupTest, Save_FolderLockedByOldChief_JobContinues) {
  for (const bool freed : {true, false}) {
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    const std::string path = folders[1].path();
    std::unique_ptr<CheckpointDirectory> held;
    ASSERT_TRUE(CheckpointDirectory::Open(path, {}, &held).ok());
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::thread first([&] {
      ElasticCollective collective(&job, 0);
      const auto dies = std::make_shared<Watches>(
          4, [&](FitState&) { collective.EndInNextCall(); });
      FitElastic(&collective, folders[0].path(), dies,
                 std::make_shared<Watches>(-1, nullptr));
    });
    bool saved = false;
    {
      ElasticCollective collective(&job, 1);
      const auto frees = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        EXPECT_FALSE(HasBackup(path));
        if (freed) held.reset();
        fit.interrupted = !freed;
      });
      const auto looks = std::make_shared<Watches>(16, [&](FitState&) {
        // Backups are written in the background.
        for (int i = 0; i < 6000 && !saved; ++i) {
          saved = HasBackup(path);
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
      const ElasticFit run = FitElastic(&collective, path, frees, looks);
      const std::string said = run.status.message();
      if (freed) {
        EXPECT_TRUE(run.status.ok()) << said;
        EXPECT_EQ(run.digest, UndisturbedDigest());
      } else {
        EXPECT_TRUE(Contains(said, "no backup was written"));
      }
    }
    first.join();
    EXPECT_EQ(saved, freed);
  }
}

// The holder of the lock is stalled to the end. Its backup stays, with a
// message.
TEST(BackupTest, NewChief_BackupLockedToTheEnd_WarnsThatItStays) {
  TempFolder folder(TempFolder::InMemory());
  const std::string path = folder.path();
  TrainAlone(path, 5);
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(path, {}, &held).ok());
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    TempFolder own(TempFolder::InMemory());
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, own.path(),
               std::make_shared<Watches>(
                   9, [&](FitState&) { collective.EndInNextCall(); }));
  });
  testing::internal::CaptureStderr();
  {
    ElasticCollective collective(&job, 1);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_OK(run.status);
  }
  first.join();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(
      told, "a backup remains, from which another run would continue"));
  EXPECT_TRUE(Contains(told, "in use by process"));
  EXPECT_TRUE(HasBackup(path));
}

// A worker that joins again becomes the chief, and its folder is locked.
TEST(BackupTest, NextChief_ItsFolderIsHeld_TakesPart) {
  TempFolder folder(TempFolder::InMemory()), others(TempFolder::InMemory());
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(folder.path(), {}, &held).ok());
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, folder.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps - 4);
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(3, [&](FitState&) {
      called = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// The chief is lost while it gives the others the state of its backup: they
// never train on with a mix.
TEST(BackupTest, Restore_ChiefLostInAnyCall_LeavesNoMixedState) {
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 8);
  int ended = 0;
  for (int dies = 1; dies < 60 && !HasFailure(); ++dies) {
    SCOPED_TRACE(dies);
    TempFolder folders[] = {TempFolder(TempFolder::InMemory()),
                            TempFolder(TempFolder::InMemory())};
    fs::copy(saved.path(), folders[0].path(), fs::copy_options::recursive);
    ElasticJob job;
    job.Arrive(0);
    job.Arrive(1);
    std::thread chief([&] {
      ElasticCollective collective(&job, 0, dies);
      FitElastic(&collective, folders[0].path(), nullptr);
    });
    {
      ElasticCollective collective(&job, 1);
      const ElasticFit run =
          FitElastic(&collective, folders[1].path(), nullptr);
      if (run.status.ok()) {
        EXPECT_EQ(run.digest, UndisturbedDigest());
      } else {
        ++ended;
        EXPECT_TRUE(
            Contains(run.status, "no reachable worker has a valid state"));
      }
    }
    chief.join();
  }
  EXPECT_GT(ended, 0);
}

// Worker 0 is lost, and 1 becomes the chief. The run continues from its memory.
void ExpectMemoryIsTaken(const std::string& chiefs, const std::string& others) {
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, chiefs,
               std::make_shared<Watches>(
                   4, [&](FitState&) { collective.EndInNextCall(); }));
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, others, watches);
    EXPECT_OK(run.status);
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps);
  }
  first.join();
}

// The backup has another learning rate. The workers continue from their memory.
TEST(BackupTest, NewChief_BackupWithAnotherRate_IsNotRestored) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const ElasticFit run =
        FitElastic(&collective, f1.path(),
                   std::make_shared<Watches>(11, Interrupts()), nullptr, 0.05f);
    EXPECT_EQ(run.status.code(), Code::kCancelled);
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

TEST(BackupTest, NewChief_BackupOfAnotherOptimizer_IsNotRestored) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options = ExactSums(&collective, 5);
    auto model = TinyModel(SGD(0.1f), 0.2f, options);
    FitOptions fit = Quiet(kEpochs);
    BackupAndRestoreOptions backup;
    backup.save_freq = 1;
    fit.callbacks = {BackupAndRestore(f1.path(), backup),
                     std::make_shared<Watches>(11, Interrupts())};
    EXPECT_FALSE(model->Fit(Points(203).Shuffle(3).Batch(40), fit).ok());
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

// The new chief's disk has no room, or its file cannot be read. The others have
// the state.
TEST(BackupTest, NewChief_UnusableFolder_TrainingContinuesWithoutBackups) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
    WriteWhole(f1 / (damaged ? "backup-3.safetensors" : "file"), "no backup");
    testing::internal::CaptureStderr();
    ExpectMemoryIsTaken(f0.path(), damaged ? f1.path() : f1 / "file");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(
        said, "no backups are written until it can be used: " + f1.path()));
  }
}

TEST(BackupTest, Backup_OfAnotherRun_StaysWhenTrainingEnds) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    CompileOptions options = ExactSums(&collective, 3);
    auto model = TinyModel(SGD(0.1f), 0.5f, options);
    FitOptions fit = Quiet(9);
    fit.callbacks = {BackupAndRestore(f1.path(), {}),
                     std::make_shared<Watches>(30, Interrupts())};
    EXPECT_FALSE(model->Fit(Points(99).Batch(9), fit).ok());
  }
  EXPECT_TRUE(HasBackup(f1.path()));
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    ElasticCollective collective(&job, 0);
    FitElastic(&collective, f0.path(), nullptr);
  });
  {
    ElasticCollective collective(&job, 1);
    FitElastic(&collective, f1.path(), nullptr);
  }
  first.join();
  EXPECT_TRUE(HasBackup(f1.path()));
}

// The joining chief has a later backup, and is lost in one of its calls. The
// other worker continues from its memory.
TEST(BackupTest, Join_ChiefIsLostMeanwhile_OtherContinues) {
  constexpr int64_t kNever = 100;
  TempFolder saved(TempFolder::InMemory());
  TrainAlone(saved.path(), 12);
  for (int dies = 1; dies < 90 && !HasFailure(); ++dies) {
    SCOPED_TRACE(dies);
    TempFolder folder(TempFolder::InMemory()), other(TempFolder::InMemory());
    fs::copy(saved.path(), folder.path(), fs::copy_options::recursive);
    ElasticJob job;
    job.Arrive(1);
    std::atomic<bool> called{false};
    std::thread comes([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0, dies);
      FitElastic(&collective, folder.path(), nullptr,
                 std::make_shared<Watches>(-1, nullptr), 0.01f, kNever);
    });
    {
      ElasticCollective collective(&job, 1);
      const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
        called = true;
        while (!job.has_joiner()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, other.path(), watches,
                                        nullptr, 0.01f, kNever);
      EXPECT_OK(run.status);
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    comes.join();
  }
}

// A chief is lost during a replica check, and the other worker rolls back to
// its last save. The chief joins again, and its log is of later steps.
TEST(BackupTest, Rollback_ChiefJoinsWithALaterBackup_LogHasEachRowOnce) {
  constexpr size_t kOfACheck = 4 * sizeof(int64_t);
  TempFolder folder(TempFolder::InMemory());
  const auto train = [&](Collective* collective, const std::string& log,
                         const std::string& backups,
                         std::function<void(int64_t)> begins) {
    CompileOptions options = ExactSums(collective, 5);
    auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, options);
    LambdaCallbackOptions lambda;
    lambda.on_train_batch_begin = [&](int64_t) { begins(model->iterations()); };
    FitOptions fit = Quiet(kEpochs);
    fit.callbacks = {BackupAndRestore(folder / backups, SaveEvery(1)),
                     StepLogger(folder / log), LambdaCallback(lambda)};
    const auto history = model->Fit(Points(203).Shuffle(3).Batch(40), fit);
    return history.ok() ? history->epoch : std::vector<int64_t>();
  };
  const auto epochs = train(nullptr, "right.csv", "right", [](int64_t) {});
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  std::atomic<bool> dead{false}, begun{false};
  std::thread first([&] {
    {
      ElasticCollective collective(&job, 0);
      train(&collective, "log.csv", "0", [&](int64_t step) {
        if (step == 9) collective.EndInGather(kOfACheck);
      });
      EXPECT_TRUE(collective.ended());
      dead = true;  // before the other one goes on
    }
    while (!begun) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    train(&collective, "log.csv", "0", [](int64_t) {});
  });
  {
    ElasticCollective collective(&job, 1);
    const auto mine = train(&collective, "log.csv", "1", [&](int64_t step) {
      if (!dead || begun) return;
      EXPECT_EQ(step, 9);
      begun = true;
      while (!job.has_joiner()) std::this_thread::yield();
    });
    EXPECT_EQ(mine, epochs);
  }
  first.join();
  EXPECT_EQ(ReadWhole(folder / "log.csv"), ReadWhole(folder / "right.csv"));
}

// Two workers are lost while the chief joins. The chief has a later backup than
// the others' state. The state travels in several messages.
TEST(BackupTest, Join_TwoAreLostInTheTransfer_OtherContinues) {
  constexpr int64_t kUnits = 600;
  constexpr int kMax = 40;  // broadcasts
#ifdef RINGLET_SANITIZED
  const int apart = 0;
#else
  // 200 jobs of threads that wait busily take more than an hour in an emulator.
  const int apart = std::getenv("RINGLET_EMULATED") != nullptr ? 0 : 4;
#endif
  const auto train = [](ElasticCollective* collective, const TempFolder& folder,
                        int64_t step, std::function<void(FitState&)> then) {
    return FitElastic(collective, folder.path(),
                      std::make_shared<Watches>(step, std::move(then)), nullptr,
                      0.01f, 1, kUnits);
  };
  TempFolder none;
  const uint64_t expected = train(nullptr, none, -1, nullptr).digest;
  int cut_off = 0;
  for (int first = 1; first <= kMax; ++first) {
    for (int second = first; second <= first + apart; ++second) {
      TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory()),
          f2(TempFolder::InMemory());
      {
        ElasticJob before;
        before.Arrive(0);
        ElasticCollective collective(&before, 0);
        train(&collective, f0, 11, Interrupts());
      }
      ElasticJob job;
      job.Arrive(1);
      job.Arrive(2);
      std::atomic<bool> called{false};
      std::atomic<int> dead{0};
      std::thread chief([&] {
        while (!called) std::this_thread::yield();
        job.Arrive(0);
        ElasticCollective collective(&job, 0);
        collective.EndInBroadcast(first);
        train(&collective, f0, -1, nullptr);
        dead += collective.ended();
      });
      std::thread other([&] {
        ElasticCollective collective(&job, 2);
        train(&collective, f2, 4, [&](FitState&) {
          called = true;
          collective.EndInBroadcast(second);
          while (!job.has_joiner()) std::this_thread::yield();
        });
        dead += collective.ended();
      });
      {
        ElasticCollective collective(&job, 1);
        const ElasticFit run = train(&collective, f1, 4, [&](FitState&) {
          while (!job.has_joiner()) std::this_thread::yield();
        });
        EXPECT_OK(run.status);
        EXPECT_EQ(run.digest, expected) << first << " " << second;
      }
      chief.join();
      other.join();
      cut_off += dead == 2;
    }
  }
  EXPECT_GT(cut_off, apart == 0 ? 5 : 20);
}

// The chief, which alone has the backup, is lost when all have its state, as
// another callback begins.
TEST(BackupTest, Load_ChiefIsLostAsACallbackBegins_OthersEndOrAreExact) {
  TempFolder folders[3];
  TrainAlone(folders[0].path(), 11);
  ElasticJob job;
  for (int w = 0; w < 3; ++w) job.Arrive(w);
  RunThreads(3, [&](int w) {
    ElasticCollective collective(&job, w);
    const auto meets =
        std::make_shared<Watches>(Watches::kMeets, [&](FitState& fit) {
          if (!fit.restored_from.empty()) collective.EndInNextCall();
        });
    const ElasticFit run = FitElastic(&collective, folders[w].path(), meets);
    if (w == 0) {
      EXPECT_TRUE(collective.ended());
    } else if (run.status.ok()) {
      EXPECT_EQ(run.digest, UndisturbedDigest()) << "worker " << w;
    } else {
      EXPECT_EQ(run.status.code(), Code::kCancelled) << run.status.message();
    }
  });
}

}  // namespace
}  // namespace ringlet
