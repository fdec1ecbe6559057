#include "io/checkpoint/saving_callbacks.h"
#include "io/events/loggers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "../../support/elastic_collective.h"
#include "../../support/sanitized.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/fit/callback.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "io/checkpoint/run_description.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

const std::string& Runner() {
  static const std::string path =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tests/backup_runner";
  return path;
}

pid_t Start(const std::string& folder, const std::string& optimizer,
            const std::string& freq) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl(Runner().c_str(), "backup_runner", folder.c_str(), optimizer.c_str(),
          freq.c_str(), nullptr);
    _exit(127);
  }
  return pid;
}

int WaitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
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

// SIGKILL at random moments, until it completes: the same files, byte for
// byte.
TEST(BackupTest, KilledAtRandomMomentsItEndsAsTheUndisturbedRun) {
  std::mt19937 random(20261121);
  int kills = 0;
  for (const char* optimizer : {"sgd", "rmsprop", "adam"}) {
    for (const char* freq : {"0", "1", "7", "30"}) {
      TempFolder undisturbed(TempFolder::InMemory());
      const double begin = Seconds();
      ASSERT_EQ(WaitFor(Start(undisturbed.path(), optimizer, freq)), 0);
      const double whole = Seconds() - begin;
      for (int mine = 0; mine < 5;) {
        TempFolder killed(TempFolder::InMemory());
        for (bool completed = false; !completed;) {
          const pid_t pid = Start(killed.path(), optimizer, freq);
          // After enough kills the run is let through, as it must be where it
          // saves too seldom to get on.
          if (mine < 5) {
            std::this_thread::sleep_for(std::chrono::duration<double>(
                std::uniform_real_distribution<>(0, whole)(random)));
            kill(pid, SIGKILL);
          }
          const int status = WaitFor(pid);
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

TEST(BackupTest, SigtermSavesAtTheNextStepAndExitsResumable) {
  TempFolder undisturbed(TempFolder::InMemory());
  TempFolder stopped(TempFolder::InMemory());
  ASSERT_EQ(WaitFor(Start(undisturbed.path(), "adam", "30")), 0);
  bool resumable = false;
  int pause_ms = 2;
  for (int attempt = 0; attempt < 50; ++attempt) {
    const pid_t pid = Start(stopped.path(), "adam", "30");
    while (!fs::exists(stopped / "backup/.lock")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    kill(pid, attempt % 2 == 0 ? SIGTERM : SIGINT);
    const int status = WaitFor(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 75) {
      resumable = true;
      ASSERT_TRUE(fs::exists(stopped / "backup/checkpoint"));
      continue;
    }
    if (status == 0) break;  // it was faster than the signal
    // The signal came before the fit had begun, or when it had completed.
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    if (resumable && !fs::exists(stopped / "backup/checkpoint")) break;
    if (!resumable && pause_ms < 1000) pause_ms *= 2;  // starts slowly here
  }
  EXPECT_TRUE(resumable);
  if (!fs::exists(stopped / "final.safetensors")) {
    ASSERT_EQ(WaitFor(Start(stopped.path(), "adam", "30")), 0);
  }
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

TEST(BackupTest, TrainingResumesAtTheStepOfTheBackup) {
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

// What is said on stderr of a resume with `data`.
std::string ResumeWith(const Dataset& data, const std::string& from,
                       Status* status) {
  TempFolder folder;
  fs::copy(from, folder.path(), fs::copy_options::recursive);
  testing::internal::CaptureStderr();
  auto model = TinyModel();
  *status = model->Fit(data, WithBackup(folder.path(), 1, 0)).status();
  return testing::internal::GetCapturedStderr();
}

TEST(BackupTest, OtherDataAreToldAndRefusedWhereThePositionIsOutside) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  Status status;
  EXPECT_EQ(ResumeWith(Data(), folder.path(), &status), "");
  EXPECT_TRUE(status.ok()) << status.message();
  const std::string saved =
      "was saved with other data or batches: 40 examples, shuffled with seed "
      "1, batches of 4, 10 steps an epoch; here: ";
  for (const auto& [data, here] : {
           std::pair<Dataset, const char*>{
               Points(60).Shuffle(1).Batch(4),
               "60 examples, shuffled with seed 1, batches of 4, 15 steps"},
           {Points(40).Shuffle(1).Batch(8), "batches of 8, 5 steps"},
           {Points(40).Shuffle(2).Batch(4), "shuffled with seed 2"},
           {Points(40).Batch(4), "not shuffled"},
       }) {
    const std::string told = ResumeWith(data, folder.path(), &status);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_NE(told.find(saved), std::string::npos) << told;
    EXPECT_NE(told.find(here, told.find("here: ")), std::string::npos) << told;
  }
  // 5 steps of 4 examples into its second pass.
  ResumeWith(Points(20).Shuffle(1).Batch(4), folder.path(), &status);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("cannot be resumed"),
            std::string::npos)
      << status.message();
}

TEST(BackupTest, OtherCallbacksAreRefusedAsSuch) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  FitOptions options = WithBackup(folder.path(), 1, 0);
  options.callbacks.push_back(ReduceLROnPlateau());
  const Status refused = TinyModel()->Fit(Data(), options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(refused.message()).find("saved with other callbacks"),
            std::string::npos)
      << refused.message();
}

TEST(BackupTest, BackupBehindTheLastEpochIsRefusedAndStays) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 1, 15)).ok());
  FitOptions options = WithBackup(folder.path(), 1, 0);
  options.epochs = 1;
  const Status refused = TinyModel()->Fit(Data(), options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(refused.message())
                .find("of epoch 2, step 6, but the fit ends with epoch 1"),
            std::string::npos)
      << refused.message();
  EXPECT_TRUE(fs::exists(folder / "checkpoint"));
}

TEST(BackupTest, BackupIsRemovedOnlyWhenTrainingCompleted) {
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
  // It has nothing left to do, and does nothing.
  auto fourth = TinyModel();
  ASSERT_TRUE(fourth->Fit(Data(), kept).ok());
  EXPECT_EQ(WeightsOf(fourth.get()), WeightsOf(third.get()));
}

TEST(BackupTest, BackupOfAnotherModelIsRefusedByTheFirstDifference) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_FALSE(model->Fit(Data(), WithBackup(folder.path(), 0, 12)).ok());
  Sequential other({Input({2}), Dense(17, kRelu), Dense(3)});
  other.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  const auto history = other.Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_EQ(history.status().code(), Code::kInvalidArgument);
  const std::string message = history.status().message();
  EXPECT_NE(message.find("model/dense/kernel"), std::string::npos) << message;
  EXPECT_NE(message.find(folder.path()), std::string::npos) << message;
}

// Where all weights have the same names and shapes too.
TEST(BackupTest, BackupOfAModelThatComputesOtherwiseIsRefused) {
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
    EXPECT_NE(message.find(part), std::string::npos) << message;
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
  // What may be tuned in a run.
  Sequential same({Input({2}), Dense(16, kRelu).KernelInitializer(HeNormal()),
                   Dense(3).KernelRegularizer(L2())});
  same.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits),
               {Accuracy()});
  const Status status =
      same.Fit(Data(), WithBackup(folder.path(), 0, 0)).status();
  EXPECT_TRUE(status.ok()) << status.message();
}

// The text is in files that were written before.
TEST(BackupTest, LayersAreDescribedAsEver) {
  Functional model;
  const auto x = model.Add(Input({8, 8, 1}));
  const auto a = model.Add(Conv2D(4, 3, kRelu).Padding(kSame), {x});
  const auto b = model.Add(Conv2D(4, 1, 2).Padding(kSame).UseBias(false), {x});
  const auto c = model.Add(Add(), {a, b});
  const auto d = model.Add(MaxPooling2D(2, 3).Strides(2, 1), {c});
  const auto e = model.Add(Reshape({-1, 4}), {d});
  const auto f = model.Add(Dropout(0.3f).Seed(7).Trainable(false), {e});
  model.Add(Softmax(), {model.Add(Dense(3).KernelRegularizer(L2()), {f})});
  EXPECT_EQ(DescribeLayers(model),
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

TEST(BackupTest, AllBackupsDamagedIsAnErrorNeverAStartFromZero) {
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
TEST(BackupTest, FullDiskIsAWarningAndBackupsComeBackWithSpace) {
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
  EXPECT_NE(said.find("training goes on"), std::string::npos) << said;
  EXPECT_EQ(model->iterations(), 15);

  files.Kill();
  int64_t steps = 0;
  lambda = {};
  lambda.on_train_batch_end = [&](int64_t, const Logs&) { ++steps; };
  options.callbacks = {BackupAndRestore("backup", backup),
                       LambdaCallback(lambda)};
  auto again = TinyModel();
  const auto history = again->Fit(Data(), options);
  ASSERT_TRUE(history.ok()) << history.status().message();
  EXPECT_EQ(steps, 15);
}

// Nobody is told that the state was saved where it was not.
TEST(BackupTest, InterruptedOnAFullDiskItSaysWhatThereIsToGoOnFrom) {
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
      EXPECT_NE(message.find("interrupted, and no backup was written"),
                std::string::npos)
          << message;
      EXPECT_EQ(message.find("the state was saved"), std::string::npos);
      if (full_from == 0) {
        EXPECT_EQ(status.code(), Code::kResourceExhausted) << message;
      } else {
        EXPECT_EQ(status.code(), Code::kCancelled) << message;
        EXPECT_NE(message.find("go on from backup/backup-1.safetensors"),
                  std::string::npos)
            << message;
      }
    }
  }
}

TEST(BackupTest, AnyFailingOperationOfASaveCostsAtMostThatBackup) {
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
      ASSERT_TRUE(history.ok()) << history.status().message();
      EXPECT_EQ(WeightsOf(again.get()), WeightsOf(undisturbed.get()))
          << operation << " " << error;
    }
  }
}

TEST(BackupTest, SecondProcessOnOneDirectoryIsRefusedByName) {
  TempFolder folder;
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(folder.path(), {}, &held).ok());
  auto model = TinyModel();
  const auto history = model->Fit(Data(), WithBackup(folder.path(), 0, 0));
  EXPECT_FALSE(history.ok());
  EXPECT_NE(std::string(history.status().message()).find(folder.path()),
            std::string::npos);
}

TEST(BackupTest, WrongOptionsAreErrors) {
  auto model = TinyModel();
  auto empty = model->Fit(Data(), WithBackup("", 0, 0));
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(empty.status().message())
                .find("Empty `backup_dir` argument passed"),
            std::string::npos);
  EXPECT_EQ(model->Fit(Data(), WithBackup("x", -1, 0)).status().code(),
            Code::kInvalidArgument);
  const auto unwritable = model->Fit(Data(), WithBackup("/proc/backup", 0, 0));
  EXPECT_FALSE(unwritable.ok());
  EXPECT_NE(std::string(unwritable.status().message()).find("/proc/backup"),
            std::string::npos);
}

// After the fit, however many backups it had, a signal does what it did before.
TEST(BackupTest, SignalsAreGivenBackWhenTheFitHasReturned) {
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

TEST(BackupTest, TwoCallbacksOfOneKindAreBothRestored) {
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
  const Status status = fit(0, &totals);
  ASSERT_TRUE(status.ok()) << status.message();
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
    if (at_ == kGoesOn && fit.goes_on) what_(fit);
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
  // One may be several workers'.
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
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 5;
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
  ElasticCollective collective(&job, 0, 1 << 30);
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

// Of the two parts of a parted job one went further, and all that is left of it
// is the backup of its chief: it is not replaced by what is behind it.
TEST(BackupTest, AComingChiefsNewerBackupIsTakenUp) {
  for (const int64_t saved : {3, 12, 17}) {
    SCOPED_TRACE(saved);
    constexpr int64_t kMet = 5;
    TempFolder chiefs(TempFolder::InMemory()), others(TempFolder::InMemory());
    TrainAlone(chiefs.path(), saved);
    ElasticJob job;
    job.Arrive(1);
    std::atomic<bool> called{false};
    std::thread comes([&] {
      while (!called) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0, 1 << 30);
      const ElasticFit run = FitElastic(&collective, chiefs.path(),
                                        std::make_shared<Watches>(-1, nullptr));
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
    {
      ElasticCollective collective(&job, 1, 1 << 30);
      const auto watches = std::make_shared<Watches>(kMet - 1, [&](FitState&) {
        called = true;
        while (!job.visited()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, others.path(), watches);
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
      EXPECT_EQ(watches->steps(),
                saved < kMet ? kSteps : kMet + kSteps - saved);
    }
    comes.join();
    EXPECT_FALSE(HasBackup(chiefs.path()));
    EXPECT_FALSE(HasBackup(others.path()));
  }
}

// … but not where one that computes wrong was named: that part may have had its
// numbers, and nobody to compare with.
TEST(BackupTest, ABackupFromBeforeAVerdictIsNotTakenUp) {
  TempFolder chiefs(TempFolder::InMemory()), others[3];
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto spoils = std::make_shared<Watches>(
        2, [](FitState& fit) { fit.model->weights()[5] += 1; });
    FitElastic(&collective, chiefs.path(), spoils,
               std::make_shared<Watches>(11, Interrupts()));
  }
  ElasticJob job;
  for (const int w : {1, 2, 3}) job.Arrive(w);
  std::vector<std::thread> threads;
  std::atomic<bool> called{false};
  threads.emplace_back([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto none = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, chiefs.path(), none, none);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, UndisturbedDigest());
  });
  for (const int w : {1, 2, 3}) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(&job, w, 1 << 30);
      const auto wrong = std::make_shared<Watches>(3, [w](FitState& fit) {
        if (w == 3) fit.model->weights()[5] += 1;
      });
      const auto calls = std::make_shared<Watches>(8, [&, w](FitState&) {
        called = true;
        while (w == 1 && !job.visited()) std::this_thread::yield();
      });
      const ElasticFit run =
          FitElastic(&collective, others[w - 1].path(), wrong, calls);
      if (w == 3) {
        EXPECT_EQ(run.status.code(), Code::kOutOfSync) << run.status.message();
        return;
      }
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Where a backup is all that is left, what the memory had is no history: it was
// a wrong worker's, and one that has come since has another.
TEST(BackupTest, WhatABackupReplacesIsNoHistory) {
  TempFolder folders[4];
  TrainAlone(folders[0].path(), 2);
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false}, named{false}, again{false};
  const auto spoils = [](FitState& fit) { fit.model->weights()[5] += 1; };
  const auto train = [&](int w, const std::shared_ptr<Watches>& one,
                         const std::shared_ptr<Watches>& other) {
    ElasticCollective collective(&job, w, 1 << 30);
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
      spoils(fit);
      for (const int w : {0, 2}) job.Arrive(w);
      called = true;
      while (!job.visited()) std::this_thread::yield();
    });
    const auto begins = std::make_shared<Watches>(Watches::kGoesOn, spoils);
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
        while (!job.visited()) std::this_thread::yield();
      });
      const ElasticFit run = train(w, calls, none);
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// … but it stays where a coming chief's backup is only further: one that has
// computed wrong elsewhere is named by it.
TEST(BackupTest, WhatAFurtherBackupGoesOnFromIsHistory) {
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
      ElasticCollective collective(&job, w, 1 << 30);
      const auto waits = [&, w](std::atomic<bool>* tells) {
        if (w != 1) return;
        *tells = true;
        while (!job.visited()) std::this_thread::yield();
      };
      const ElasticFit run =
          train(w, at(5, [&](FitState&) { waits(&called); }),
                at(13, [&](FitState&) { waits(&again); }), &collective);
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    });
  }
  threads.emplace_back([&] {
    ElasticCollective collective(&job, 3, 1 << 30);
    const auto leaves = at(3, [&](FitState& fit) {
      fit.model->weights()[5] += 1;
      collective.MoveTo(&other);
    });
    const auto returns = at(15, [&](FitState&) {
      while (!again) std::this_thread::yield();
      collective.MoveTo(&job);
    });
    const Status status = train(3, leaves, returns, &collective).status;
    EXPECT_EQ(status.code(), Code::kOutOfSync) << status.message();
  });
  for (std::thread& thread : threads) thread.join();
}

// Who was the chief for a time leaves no backup to begin another run with.
TEST(BackupTest, AllWhoWereChiefRemoveTheirBackups) {
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
        ElasticCollective collective(&job, 0, 1 << 30);
        FitElastic(&collective, paths[0],
                   std::make_shared<Watches>(
                       4, [&](FitState&) { collective.DieInNextCall(); }));
        EXPECT_TRUE(collective.dead());
      }
      while (!alone) std::this_thread::yield();
      job.Arrive(0);
      ElasticCollective collective(&job, 0, 1 << 30);
      EXPECT_TRUE(FitElastic(&collective, paths[0],
                             std::make_shared<Watches>(-1, nullptr))
                      .status.ok());
    });
    {
      ElasticCollective collective(&job, 1, 1 << 30);
      const auto watches = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        alone = true;
        while (!job.visited()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, paths[1], watches);
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    first.join();
    EXPECT_FALSE(HasBackup(paths[0]));
    EXPECT_FALSE(HasBackup(paths[1]));
  }
}

// Its disk is its own affair, though all would begin with what is on it.
TEST(BackupTest, AComingChiefWithoutItsFolderEndsAlone) {
  TempFolder folder, others;
  const std::string path = folder / "file";
  WriteWhole(path, "no directory");
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_NE(std::string(run.status.message()).find(path), std::string::npos)
        << run.status.message();
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
      called = true;
      while (!job.visited()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// By the chief before, that stands still: the job goes on, and backups come
// back with the folder.
TEST(BackupTest, AFolderThatIsHeldIsWaitedForByNobody) {
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
      ElasticCollective collective(&job, 0, 1 << 30);
      const auto dies = std::make_shared<Watches>(
          4, [&](FitState&) { collective.DieInNextCall(); });
      FitElastic(&collective, folders[0].path(), dies,
                 std::make_shared<Watches>(-1, nullptr));
    });
    bool saved = false;
    {
      ElasticCollective collective(&job, 1, 1 << 30);
      const auto frees = std::make_shared<Watches>(9, [&](FitState& fit) {
        EXPECT_TRUE(fit.chief);
        EXPECT_FALSE(HasBackup(path));
        if (freed) held.reset();
        fit.interrupted = !freed;
      });
      const auto looks = std::make_shared<Watches>(16, [&](FitState&) {
        // They are written in the background.
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
        EXPECT_NE(said.find("no backup was written"), std::string::npos)
            << said;
      }
    }
    first.join();
    EXPECT_EQ(saved, freed);
  }
}

// It stands still to the end: nobody removes its backup, and that is told.
TEST(BackupTest, ABackupThatIsHeldToTheEndIsTold) {
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
    ElasticCollective collective(&job, 0, 1 << 30);
    FitElastic(&collective, own.path(),
               std::make_shared<Watches>(
                   9, [&](FitState&) { collective.DieInNextCall(); }));
  });
  testing::internal::CaptureStderr();
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    const ElasticFit run =
        FitElastic(&collective, path, std::make_shared<Watches>(-1, nullptr));
    EXPECT_TRUE(run.status.ok()) << run.status.message();
  }
  first.join();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("a backup stays, from which another run would go on"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("in use by process"), std::string::npos) << told;
  EXPECT_TRUE(HasBackup(path));
}

// So too where it is a worker that comes back that becomes the chief.
TEST(BackupTest, AComingChiefWhoseFolderIsHeldTakesPart) {
  TempFolder folder(TempFolder::InMemory()), others(TempFolder::InMemory());
  std::unique_ptr<CheckpointDirectory> held;
  ASSERT_TRUE(CheckpointDirectory::Open(folder.path(), {}, &held).ok());
  ElasticJob job;
  job.Arrive(1);
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, folder.path(), watches);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps - 4);
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    const auto watches = std::make_shared<Watches>(3, [&](FitState&) {
      called = true;
      while (!job.visited()) std::this_thread::yield();
    });
    const ElasticFit run = FitElastic(&collective, others.path(), watches);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, UndisturbedDigest());
  }
  comes.join();
}

// The chief is lost while it gives the others the state of its backup: they
// never train on with a mix.
TEST(BackupTest, AChiefLostWhileItRestoresLeavesNoMix) {
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
      ElasticCollective collective(&job, 1, 1 << 30);
      const ElasticFit run =
          FitElastic(&collective, folders[1].path(), nullptr);
      if (run.status.ok()) {
        EXPECT_EQ(run.digest, UndisturbedDigest());
      } else {
        ++ended;
        EXPECT_NE(std::string(run.status.message())
                      .find("nobody holds the state of the run"),
                  std::string::npos)
            << run.status.message();
      }
    }
    chief.join();
  }
  EXPECT_GT(ended, 0);
}

// Worker 0 is lost, and 1 becomes the chief: the run goes on from its memory.
void ExpectMemoryIsTaken(const std::string& chiefs, const std::string& others) {
  ElasticJob job;
  job.Arrive(0);
  job.Arrive(1);
  std::thread first([&] {
    ElasticCollective collective(&job, 0, 1 << 30);
    FitElastic(&collective, chiefs,
               std::make_shared<Watches>(
                   4, [&](FitState&) { collective.DieInNextCall(); }));
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    const auto watches = std::make_shared<Watches>(-1, nullptr);
    const ElasticFit run = FitElastic(&collective, others, watches);
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, UndisturbedDigest());
    EXPECT_EQ(watches->steps(), kSteps);
  }
  first.join();
}

// Of another learning rate: the memory of the workers is the run.
TEST(BackupTest, AnOldBackupOfOneThatBecomesTheChiefIsNotTaken) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    const ElasticFit run =
        FitElastic(&collective, f1.path(),
                   std::make_shared<Watches>(11, Interrupts()), nullptr, 0.05f);
    EXPECT_EQ(run.status.code(), Code::kCancelled);
  }
  ExpectMemoryIsTaken(f0.path(), f1.path());
}

TEST(BackupTest, NorOneThatDoesNotEvenFit) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    CompileOptions options(&collective);
    options.reduction = Reduction::kExact;
    options.replicas = 5;
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

// Its disk has no room for it, or what is there cannot be read: the others have
// the state.
TEST(BackupTest, AFolderThatCannotBeUsedEndsNoRunThatGoesOn) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
    WriteWhole(f1 / (damaged ? "backup-3.safetensors" : "file"), "no backup");
    testing::internal::CaptureStderr();
    ExpectMemoryIsTaken(f0.path(), damaged ? f1.path() : f1 / "file");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("no backups are written until that can be used: " +
                        f1.path()),
              std::string::npos)
        << said;
  }
}

TEST(BackupTest, AnotherRunsBackupStays) {
  TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory());
  {
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    CompileOptions options(&collective);
    options.reduction = Reduction::kExact;
    options.replicas = 3;
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
    ElasticCollective collective(&job, 0, 1 << 30);
    FitElastic(&collective, f0.path(), nullptr);
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    FitElastic(&collective, f1.path(), nullptr);
  }
  first.join();
  EXPECT_TRUE(HasBackup(f1.path()));
}

// A coming chief is lost while it gives another its backup, which is further
// than that one is, who has none yet: it goes on from its memory.
TEST(BackupTest, AComingChiefLostWhileItRestoresEndsNobodyElse) {
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
      ElasticCollective collective(&job, 1, 1 << 30);
      const auto watches = std::make_shared<Watches>(4, [&](FitState&) {
        called = true;
        while (!job.visited()) std::this_thread::yield();
      });
      const ElasticFit run = FitElastic(&collective, other.path(), watches,
                                        nullptr, 0.01f, kNever);
      EXPECT_TRUE(run.status.ok()) << run.status.message();
      EXPECT_EQ(run.digest, UndisturbedDigest());
    }
    comes.join();
  }
}

// A chief is lost while they compare, and the other goes back to the begin;
// when it comes back its backup has them pass over what was trained before
// that: it is in the history and in the log on the disk that they share.
TEST(BackupTest, WhatABackupPassesOverIsHistory) {
  constexpr size_t kOfACheck = 4 * sizeof(int64_t);
  TempFolder folder(TempFolder::InMemory());
  const auto train = [&](Collective* collective, const std::string& log,
                         const std::string& backups,
                         std::function<void(int64_t)> begins) {
    CompileOptions options(collective);
    options.reduction = Reduction::kExact;
    options.replicas = 5;
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
      ElasticCollective collective(&job, 0, 1 << 30);
      train(&collective, "log.csv", "0", [&](int64_t step) {
        if (step == 9) collective.DieInGather(kOfACheck);
      });
      EXPECT_TRUE(collective.dead());
      dead = true;  // before the other one goes on
    }
    while (!begun) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    train(&collective, "log.csv", "0", [](int64_t) {});
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    const auto mine = train(&collective, "log.csv", "1", [&](int64_t step) {
      if (!dead || begun) return;
      EXPECT_EQ(step, 0);
      begun = true;
      while (!job.visited()) std::this_thread::yield();
    });
    EXPECT_EQ(mine, epochs);
  }
  first.join();
  EXPECT_EQ(ReadWhole(folder / "log.csv"), ReadWhole(folder / "right.csv"));
}

// Two are lost while a coming chief takes the others' state, or they that of
// its backup, which is further. It travels in several messages.
TEST(BackupTest, ALoadThatIsCutOffLeavesNoMix) {
  constexpr int64_t kUnits = 600;
  constexpr int kMost = 40;  // broadcasts
#ifdef RINGLET_SANITIZED
  constexpr int kApart = 0;
#else
  constexpr int kApart = 4;
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
  for (int first = 1; first <= kMost; ++first) {
    for (int second = first; second <= first + kApart; ++second) {
      TempFolder f0(TempFolder::InMemory()), f1(TempFolder::InMemory()),
          f2(TempFolder::InMemory());
      {
        ElasticJob before;
        before.Arrive(0);
        ElasticCollective collective(&before, 0, 1 << 30);
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
        ElasticCollective collective(&job, 0, 1 << 30);
        collective.DieInBroadcast(first);
        train(&collective, f0, -1, nullptr);
        dead += collective.dead();
      });
      std::thread other([&] {
        ElasticCollective collective(&job, 2, 1 << 30);
        train(&collective, f2, 4, [&](FitState&) {
          called = true;
          collective.DieInBroadcast(second);
          while (!job.visited()) std::this_thread::yield();
        });
        dead += collective.dead();
      });
      {
        ElasticCollective collective(&job, 1, 1 << 30);
        const ElasticFit run = train(&collective, f1, 4, [&](FitState&) {
          while (!job.visited()) std::this_thread::yield();
        });
        EXPECT_TRUE(run.status.ok()) << run.status.message();
        EXPECT_EQ(run.digest, expected) << first << " " << second;
      }
      chief.join();
      other.join();
      cut_off += dead == 2;
    }
  }
  EXPECT_GT(cut_off, kApart == 0 ? 10 : 50);
}

// The chief, which alone has the backup, is lost when all have its state, as
// another callback begins: at the start, or where it came to a job that runs.
TEST(BackupTest, ALoadThatACallbackIsCutOffBehindIsNoState) {
  for (const bool runs : {false, true}) {
    SCOPED_TRACE(runs);
    TempFolder folders[3];
    TrainAlone(folders[0].path(), 11);
    ElasticJob job;
    for (int w = runs ? 1 : 0; w < 3; ++w) job.Arrive(w);
    std::atomic<bool> called{!runs};
    std::vector<std::thread> threads;
    for (int w = 0; w < 3; ++w) {
      threads.emplace_back([&, w] {
        while (w == 0 && !called) std::this_thread::yield();
        if (w == 0 && runs) job.Arrive(0);
        ElasticCollective collective(&job, w, 1 << 30);
        const auto waits = std::make_shared<Watches>(4, [&](FitState&) {
          if (!runs) return;
          called = true;
          while (!job.visited()) std::this_thread::yield();
        });
        const auto meets =
            std::make_shared<Watches>(Watches::kMeets, [&](FitState& fit) {
              if (!fit.restored_from.empty()) collective.DieInNextCall();
            });
        const ElasticFit run =
            FitElastic(&collective, folders[w].path(), meets, waits);
        if (w == 0) {
          EXPECT_TRUE(collective.dead());
        } else if (run.status.ok()) {
          EXPECT_EQ(run.digest, UndisturbedDigest()) << "worker " << w;
        } else {
          EXPECT_EQ(run.status.code(), Code::kCancelled)
              << run.status.message();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace ringlet
