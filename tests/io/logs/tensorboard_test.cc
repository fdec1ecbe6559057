#include "ringlet/loggers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/full_disk.h"
#include "../../support/memory_backup.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/fit/evaluation.h"
#include "core/fit/fit_details.h"
#include "core/fit/run_state.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

using Lines = std::vector<std::string>;

std::string Line(const std::string& tag, int64_t step, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), " %" PRId64 " %.9g", step,
                static_cast<float>(value));
  return tag + text;
}

// The lines that begin with `tag`.
Lines Tagged(const Lines& lines, const std::string& tag) {
  Lines found;
  for (const std::string& line : lines) {
    if (line.rfind(tag, 0) == 0) found.push_back(line);
  }
  return found;
}

// Keeps the running loss of every batch.
class Recorder : public Callback {
 public:
  const char* name() const override { return "recorder"; }
  Status OnTrainBatchEnd(FitState&, const Logs& logs) override {
    losses.push_back(*logs.Find("loss"));
    return Status();
  }
  std::vector<double> losses;
};

class TensorBoardTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
    options_.log_dir = folder_ / "logs";
  }
  Lines Train() { return ReadEvents(folder_ / "logs/train"); }
  Lines Validation() { return ReadEvents(folder_ / "logs/validation"); }

  TempFolder folder_;
  TensorBoardOptions options_;
};

TEST_F(TensorBoardTest, Events_AfterAFit_HoldTheNumbersOfTheHistory) {
  auto model = TinyModel();
  FitOptions fit = Quiet(3);
  fit.validation_data = Points(20, 9).Batch(7);
  fit.callbacks = {TensorBoard(options_)};
  auto history = model->Fit(Points(40).Batch(8), fit);
  ASSERT_OK(history.status());
  Lines train = {"version brain.Event:2"}, validation = train;
  for (int64_t e = 0; e < 3; ++e) {
    const auto value = [&](const char* name) {
      return history->Values(name)[e];
    };
    train.push_back(Line("epoch_loss", e, value("loss")));
    train.push_back(Line("epoch_accuracy", e, value("accuracy")));
    train.push_back(Line("epoch_learning_rate", e, 0.1f));
    validation.push_back(
        Line("evaluation_loss_vs_iterations", 5 * (e + 1), value("val_loss")));
    validation.push_back(Line("evaluation_accuracy_vs_iterations", 5 * (e + 1),
                              value("val_accuracy")));
    validation.push_back(Line("epoch_loss", e, value("val_loss")));
    validation.push_back(Line("epoch_accuracy", e, value("val_accuracy")));
  }
  EXPECT_EQ(Train(), train);
  EXPECT_EQ(Validation(), validation);
}

TEST_F(TensorBoardTest, Events_NoValidationData_HaveNoValidationFolder) {
  auto model = TinyModel();
  FitOptions fit = Quiet(1);
  fit.callbacks = {TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(8).Batch(4), fit));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "logs/validation"));
}

TEST_F(TensorBoardTest, UpdateFreq_OfThreeBatches_RecordsEveryThird) {
  options_.update_freq = 3;
  auto recorder = std::make_shared<Recorder>();
  auto model = TinyModel();
  FitOptions fit = Quiet(2);
  fit.callbacks = {recorder, TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  ASSERT_EQ(recorder->losses.size(), 10u);
  EXPECT_EQ(Tagged(Train(), "batch_loss"),
            (Lines{Line("batch_loss", 3, recorder->losses[2]),
                   Line("batch_loss", 6, recorder->losses[5]),
                   Line("batch_loss", 9, recorder->losses[8])}));
  EXPECT_EQ(Tagged(Train(), "batch_accuracy").size(), 3u);
}

// Epochs of rounds of 3 and 2 steps; each round takes a second.
TEST_F(TensorBoardTest, UpdateFreq_RoundsOfLocalUpdates_CountTheirSteps) {
  FakeClock clock;
  auto recorder = std::make_shared<Recorder>();
  LambdaCallbackOptions tick;
  tick.on_train_batch_end = [&](int64_t, const Logs&) { clock.Advance(1); };
  options_.clock = &clock;
  options_.write_steps_per_second = true;
  options_.update_freq = 4;
  CompileOptions rounds;
  rounds.local.steps = 3;
  auto model = TinyModel(SGD(0.1f), 0, rounds);
  FitOptions fit = Quiet(2);
  fit.callbacks = {recorder, LambdaCallback(tick), TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  ASSERT_EQ(recorder->losses.size(), 4u);
  EXPECT_EQ(Tagged(Train(), "batch_loss"),
            (Lines{Line("batch_loss", 5, recorder->losses[1]),
                   Line("batch_loss", 8, recorder->losses[2])}));
  EXPECT_EQ(
      Tagged(Train(), "batch_steps_per_second"),
      (Lines{"batch_steps_per_second 5 2", "batch_steps_per_second 8 3"}));
}

TEST_F(TensorBoardTest, HistogramFreq_OfTwoEpochs_RecordsEveryWeight) {
  options_.histogram_freq = 2;
  auto model = TinyModel();
  FitOptions fit = Quiet(4);
  fit.callbacks = {TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  const Lines train = Train();
  for (const Variable& v : model->variables()) {
    const Lines found = Tagged(train, v.path + "/histogram ");
    ASSERT_EQ(found.size(), 2u) << v.path;
    EXPECT_EQ(found[0].rfind(v.path + "/histogram 0 ", 0), 0u) << found[0];
    EXPECT_EQ(found[1].rfind(v.path + "/histogram 2 ", 0), 0u) << found[1];
  }
}

TEST_F(TensorBoardTest, LearningRate_Schedule_IsTakenAtTheEndOfTheEpoch) {
  auto model = TinyModel();
  FitOptions fit = Quiet(2);
  fit.callbacks = {LearningRateScheduler(
                       [](int64_t epoch, float) { return 1.0f / (epoch + 2); }),
                   TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(8).Batch(4), fit));
  EXPECT_EQ(Tagged(Train(), "epoch_learning_rate"),
            (Lines{Line("epoch_learning_rate", 0, 1.0f / 2),
                   Line("epoch_learning_rate", 1, 1.0f / 3)}));
}

TEST_F(TensorBoardTest, StepsPerSecond_GivenClock_AreMeasuredByIt) {
  class Tick : public Callback {
   public:
    explicit Tick(FakeClock* clock) : clock_(clock) {}
    const char* name() const override { return "tick"; }
    Status OnTrainBatchEnd(FitState&, const Logs&) override {
      clock_->Advance(0.25);
      return Status();
    }

   private:
    FakeClock* clock_;
  };
  FakeClock clock;
  options_.clock = &clock;
  options_.write_steps_per_second = true;
  options_.update_freq = TensorBoardOptions::kBatch;
  auto model = TinyModel();
  FitOptions fit = Quiet(2);
  fit.callbacks = {std::make_shared<Tick>(&clock), TensorBoard(options_)};
  ASSERT_OK(model->Fit(Points(8).Batch(4), fit));
  EXPECT_EQ(
      Tagged(Train(), "epoch_steps_per_second"),
      (Lines{"epoch_steps_per_second 0 4", "epoch_steps_per_second 1 4"}));
  EXPECT_EQ(
      Tagged(Train(), "batch_steps_per_second"),
      (Lines{"batch_steps_per_second 1 4", "batch_steps_per_second 2 4",
             "batch_steps_per_second 3 4", "batch_steps_per_second 4 4"}));
}

// The run is killed at any step after any save. The two files together have the
// events of an undisturbed run. Events of repeated steps have the same values.
TEST_F(TensorBoardTest, Resume_AfterAnySave_AddsAFileAndStepsContinue) {
  FitOptions fit = Quiet(3);
  fit.validation_data = Points(20, 9).Batch(7);
  options_.update_freq = TensorBoardOptions::kBatch;
  options_.histogram_freq = 1;
  options_.log_dir = folder_ / "whole";
  fit.callbacks = {TensorBoard(options_)};
  const Dataset data = Points(40).Shuffle(3).Batch(8);
  ASSERT_OK(TinyModel()->Fit(data, fit));
  for (int64_t save_at : {2, 5, 7}) {
    const std::string folder = folder_ / ("resumed" + std::to_string(save_at));
    FakeClock clock;  // the two files of one second, even
    options_.clock = &clock;
    options_.log_dir = folder;
    auto backup = std::make_shared<MemoryBackup>();
    backup->save_after_step = save_at;
    backup->fail_after_step = save_at + 2;
    fit.callbacks = {backup, TensorBoard(options_)};
    ASSERT_FALSE(TinyModel()->Fit(data, fit).ok());
    backup->save_after_step.reset();
    backup->fail_after_step.reset();
    fit.callbacks = {backup, TensorBoard(options_)};
    ASSERT_OK(TinyModel()->Fit(data, fit).status());
    for (const char* part : {"/train", "/validation"}) {
      Lines whole = ReadEvents((folder_ / "whole") + part);
      Lines both = ReadEvents(folder + part);
      std::sort(whole.begin(), whole.end());
      std::sort(both.begin(), both.end());
      both.erase(std::unique(both.begin(), both.end()), both.end());
      EXPECT_EQ(both, whole) << save_at << part;
    }
    const auto begin = std::filesystem::directory_iterator(folder + "/train");
    EXPECT_EQ(std::distance(begin, {}), 2);
  }
}

// The same through a real backup, and a process that is killed.
TEST_F(TensorBoardTest, Resume_ProcessWasKilled_LeavesNoGap) {
  class Killer : public Callback {
   public:
    const char* name() const override { return "killer"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (fit.model->iterations() == 8) raise(SIGKILL);
      return Status();
    }
  };
  const Dataset data = Points(40).Shuffle(3).Batch(8);
  FitOptions fit = Quiet(3);
  options_.update_freq = TensorBoardOptions::kBatch;
  options_.log_dir = folder_ / "whole";
  fit.callbacks = {TensorBoard(options_)};
  ASSERT_OK(TinyModel()->Fit(data, fit));
  options_.log_dir = folder_ / "logs";
  const auto backup = [this] {
    BackupAndRestoreOptions every_third = SaveEvery(3);
    every_third.background = false;
    return BackupAndRestore(folder_ / "backup", every_third);
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    fit.callbacks = {backup(), TensorBoard(options_),
                     std::make_shared<Killer>()};
    TinyModel()->Fit(data, fit).status().IgnoreError();
    _exit(0);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << how;
  fit.callbacks = {backup(), TensorBoard(options_)};
  ASSERT_OK(TinyModel()->Fit(data, fit).status());
  Lines whole = ReadEvents(folder_ / "whole/train"), both = Train();
  EXPECT_EQ(Tagged(both, "version").size(), 2u);
  // 1 to 8, then 7 to 15.
  EXPECT_EQ(Tagged(both, "batch_loss").size(), 8u + 9u);
  std::sort(whole.begin(), whole.end());
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  EXPECT_EQ(both, whole);
}

TEST_F(TensorBoardTest, StateLoaded_StepBelowZero_IsRefused) {
  auto callback = TensorBoard(options_);
  std::vector<StateSpan> spans;
  callback->AppendState(&spans);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name, "callback/tensorboard/train_batch");
  *static_cast<int64_t*>(spans[0].data) = -1;
  EXPECT_EQ(callback->StateLoaded().code(), Code::kCorruption);
}

TEST_F(TensorBoardTest, Events_RankIsNotTheChief_AreNotWritten) {
  auto model = TinyModel();
  FitState fit;
  fit.model = model.get();
  fit.chief = false;
  options_.update_freq = TensorBoardOptions::kBatch;
  auto callback = TensorBoard(options_);
  Logs logs;
  logs.Set("loss", 1);
  EXPECT_OK(callback->OnSetup(fit));
  EXPECT_OK(callback->OnTrainBegin(fit));
  EXPECT_OK(callback->OnEpochBegin(fit));
  EXPECT_OK(callback->OnTrainBatchBegin(fit));
  EXPECT_OK(callback->OnTrainBatchEnd(fit, logs));
  EXPECT_OK(callback->OnTestEnd(fit, logs));
  EXPECT_OK(callback->OnEpochEnd(fit, &logs));
  callback->OnFitReturn(fit, Status());
  EXPECT_FALSE(std::filesystem::exists(options_.log_dir));
}

// The earlier chief was lost behind the batch. The other workers have counted
// it, and continue.
TEST_F(TensorBoardTest, LastBatch_NextChief_RecordsIt) {
  for (const int64_t every : {1, 2, 3}) {
    SCOPED_TRACE(every);
    options_.log_dir = folder_ / std::to_string(every);
    options_.update_freq = every;
    auto model = TinyModel();
    const std::vector<std::shared_ptr<Callback>> callbacks = {
        TensorBoard(options_)};
    Callback& callback = *callbacks[0];
    FitState fit;
    fit.model = model.get();
    fit.callbacks = &callbacks;
    fit.chief = false;
    fit.metrics.assign(model->num_metric_states(), {/*total=*/2, /*count=*/4});
    ASSERT_OK(callback.OnSetup(fit));
    ASSERT_OK(callback.OnTrainBegin(fit));
    Logs logs;
    SetEpochMetrics(*model, fit.metrics, &logs);
    for (fit.step = 0; fit.step < 2; ++fit.step) {
      ASSERT_OK(callback.OnTrainBatchEnd(fit, logs));
    }
    fit.details->after_loss = fit.chief = true;
    fit.details->source = RestoreSource::kMemory;
    RunState state(&fit, /*live=*/true);
    StepSnapshot snapshot;
    snapshot.Plan(&state);
    snapshot.Take();
    snapshot.CopyLargeSpans();
    for (int time = 0; time < 2; ++time) {  // the message comes once
      callback.OnFitReturn(fit, Status());
      ASSERT_OK(callback.OnSetup(fit));
      ASSERT_OK(snapshot.Restore(&state));
      ASSERT_OK(callback.OnTrainBegin(fit));
    }
    callback.OnFitReturn(fit, Status());
    const Lines lines = ReadEvents(options_.log_dir + "/train");
    Lines due;
    if (every < 3) due = {Line("batch_loss", 2, 0.5)};
    EXPECT_EQ(Tagged(lines, "batch_loss"), due);
  }
}

TEST_F(TensorBoardTest, Fit_FolderCannotBeWritten_EndsBeforeTheFirstStep) {
  WriteWhole(options_.log_dir, "a file");
  auto model = TinyModel();
  FitOptions fit = Quiet(1);
  fit.callbacks = {TensorBoard(options_)};
  auto history = model->Fit(Points(8).Batch(4), fit);
  ASSERT_FALSE(history.ok());
  EXPECT_TRUE(Contains(history.status(), options_.log_dir));
  EXPECT_EQ(model->iterations(), 0);
}

// The folder belongs to another worker, which has become the chief.
TEST_F(TensorBoardTest, Fit_FolderOfANewChiefCannotBeWritten_Continues) {
  WriteWhole(options_.log_dir, "a file");
  auto model = TinyModel();
  FitState fit;
  fit.model = model.get();
  fit.details->after_loss = true;
  auto callback = TensorBoard(options_);
  testing::internal::CaptureStderr();
  EXPECT_OK(callback->OnSetup(fit));
  EXPECT_OK(callback->OnTrainBegin(fit));
  callback->OnFitReturn(fit, Status());
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
  EXPECT_TRUE(Contains(printed, options_.log_dir));
}

TEST_F(TensorBoardTest, Fit_FailureInMidRun_WarnsAndContinues) {
  ASSERT_TRUE(std::filesystem::create_directory(options_.log_dir));
  WriteWhole(folder_ / "logs/validation", "in the way");
  auto model = TinyModel();
  FitOptions fit = Quiet(2);
  fit.validation_data = Points(20, 9).Batch(7);
  fit.callbacks = {TensorBoard(options_)};
  testing::internal::CaptureStderr();
  auto history = model->Fit(Points(8).Batch(4), fit);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_OK(history.status());
  EXPECT_TRUE(Contains(printed, "logs/validation"));
  EXPECT_EQ(Tagged(Train(), "epoch_loss").size(), 2u);
}

TEST_F(TensorBoardTest, Fit_DiskIsFull_WarnsOnceAndOfTheLossAtTheEnd) {
  options_.update_freq = TensorBoardOptions::kBatch;
  FitOptions fit = Quiet(2);
  fit.callbacks = {TensorBoard(options_)};
  testing::internal::CaptureStderr();
  {
    const FullDisk full(8000);
    ASSERT_OK(TinyModel()->Fit(Points(400).Batch(4), fit));
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2) << printed;
  EXPECT_TRUE(Contains(printed, "not written yet"));
  EXPECT_TRUE(Contains(printed, "are lost"));
}

TEST_F(TensorBoardTest, Fit_DiskIsFullAtTheStart_WarnsAndTriesAgain) {
  SimulatedFileSystem disk;
  disk.set_capacity(0);
  options_.log_dir = "logs";
  options_.histogram_freq = 1;
  options_.update_freq = TensorBoardOptions::kBatch;
  options_.files = &disk;
  auto model = TinyModel();
  FitOptions fit = Quiet(4);
  fit.validation_data = Points(20, 9).Batch(7);
  LambdaCallbackOptions space;
  space.on_epoch_begin = [&](int64_t epoch) {
    if (epoch == 2) disk.set_capacity(-1);
  };
  fit.callbacks = {LambdaCallback(space), TensorBoard(options_)};
  testing::internal::CaptureStderr();
  auto history = model->Fit(Points(8).Batch(4), fit);
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_OK(history.status());
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2) << printed;
  EXPECT_TRUE(Contains(printed, "logs/train"));
  EXPECT_TRUE(Contains(printed, "logs/validation"));
  // A file each, of the two epochs that had space.
  ASSERT_EQ(disk.Paths().size(), 2u);
  for (const std::string& path : disk.Paths()) {
    const std::string& events = *disk.Content(path);
    const size_t first = events.find("epoch_loss");
    const size_t second = events.find("epoch_loss", first + 1);
    EXPECT_NE(second, std::string::npos) << path;
    EXPECT_EQ(events.find("epoch_loss", second + 1), std::string::npos) << path;
  }
}

TEST_F(TensorBoardTest, Fit_WrongOptions_IsRefused) {
  options_.update_freq = -1;
  FitOptions fit = Quiet(1);
  fit.callbacks = {TensorBoard(options_)};
  auto history = TinyModel()->Fit(Points(8).Batch(4), fit);
  EXPECT_EQ(history.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringlet
