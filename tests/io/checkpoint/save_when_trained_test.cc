#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/fit/interrupts.h"
#include "io/checkpoint/model_path.h"
#include "io/files/atomic_file.h"
#include "ringlet/fit.h"
#include "saving_fit.h"

namespace ringlet {
namespace {

// Raises `signal` in step `step` (from 0) of epoch `epoch`.
std::shared_ptr<Callback> Raises(int signal, int64_t epoch, int64_t step) {
  LambdaCallbackOptions lambda;
  auto now = std::make_shared<int64_t>(0);
  lambda.on_epoch_begin = [now](int64_t e) { *now = e; };
  lambda.on_train_batch_begin = [=](int64_t s) {
    if (*now == epoch && s == step) raise(signal);
  };
  return LambdaCallback(lambda);
}

std::string InterruptedOf(const std::string& path, FileSystem* files) {
  SafetensorsReader file;
  EXPECT_OK(file.Open(files, path));
  const auto found = file.metadata().find("interrupted");
  return found == file.metadata().end() ? "" : found->second;
}

TEST(SaveWhenTrainedTest, Fit_Completed_SavesTheTrainedModel) {
  Disk files;
  SaveWhenTrainedOptions options;
  options.files = &files;
  options.metadata = {{"mine", "x"}};
  const Ended ended = Fit({SaveWhenTrained("m.safetensors", options)});
  ASSERT_OK(ended.status);
  EXPECT_EQ(Loaded("m.safetensors", &files), ended.weights);
  EXPECT_EQ(InterruptedOf("m.safetensors", &files), "");
  const std::vector<std::string> before = files.Paths();
  // A second fit replaces the file, a foreign name is refused, and an empty
  // name writes nothing.
  EXPECT_OK(Fit({SaveWhenTrained("m.safetensors", options)}).status);
  const Ended refused = Fit({SaveWhenTrained("m.keras", options)});
  EXPECT_EQ(refused.status.code(), Code::kInvalidArgument);
  EXPECT_OK(Fit({SaveWhenTrained("", options)}).status);
  EXPECT_EQ(files.Paths(), before);
}

TEST(SaveWhenTrainedTest, Fit_SignalInAnyStep_SavesTheModelOfThatStep) {
  ResetSignals();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const auto& [epoch, step, place] :
         {std::tuple(0, 0, "epoch 1, step 1 of 9"),
          {1, 4, "epoch 2, step 5 of 9"},
          {0, 8, "epoch 1, step 9 of 9"},
          {2, 8, "epoch 3, step 9 of 9"}}) {
      SCOPED_TRACE(place);
      Disk files;
      SaveWhenTrainedOptions options;
      options.files = &files;
      const Ended ended = Fit({Raises(signal, epoch, step),
                               SaveWhenTrained("m.safetensors", options)});
      EXPECT_EQ(ended.status.code(), Code::kInterrupted);
      EXPECT_EQ(ExitCode(ended.status), 128 + signal);
      const std::string message = ended.status.message();
      EXPECT_EQ(message, std::string("interrupted after ") + place +
                             ": the model so far is in "
                             "m-interrupted.safetensors");
      EXPECT_EQ(ended.printed.compare(0, 12, "interrupted:"), 0)
          << ended.printed;
      int64_t iterations = 0;
      EXPECT_EQ(Loaded("m-interrupted.safetensors", &files, &iterations),
                ended.weights);
      EXPECT_EQ(iterations, 9 * epoch + step + 1);
      EXPECT_EQ(InterruptedOf("m-interrupted.safetensors", &files), place);
      EXPECT_EQ(files.Content("m.safetensors"), nullptr);
      // The next interrupted model does not replace this one.
      const std::string first = *files.Content("m-interrupted.safetensors");
      Fit({Raises(signal, 0, 1), SaveWhenTrained("m.safetensors", options)});
      EXPECT_EQ(*files.Content("m-interrupted.safetensors"), first);
      EXPECT_NE(files.Content("m-interrupted-1.safetensors"), nullptr);
    }
  }
}

// In its last validation or at its last epoch's end there is nothing left to
// be interrupted.
TEST(SaveWhenTrainedTest, Fit_SignalAtTheLastEpochsEnd_IsNotInterrupted) {
  class AtTheEnd final : public Callback {
   public:
    const char* name() const override { return "at_the_end"; }
    Status OnEpochEnd(FitState& fit, Logs*) override {
      if (fit.epoch + 1 == fit.epochs) raise(SIGTERM);
      return Status();
    }
  };
  Disk files;
  SaveWhenTrainedOptions options;
  options.files = &files;
  const Ended ended = Fit({std::make_shared<AtTheEnd>(),
                           SaveWhenTrained("m.safetensors", options)});
  EXPECT_OK(ended.status);
  EXPECT_EQ(Loaded("m.safetensors", &files), ended.weights);
  EXPECT_EQ(files.Paths(), std::vector<std::string>{"m.safetensors"});
}

// A validation may take long: it is broken off, and a resume does it again.
TEST(SaveWhenTrainedTest,
     Fit_SignalInValidation_BreaksItOffAndAResumeRepeatsIt) {
  class InValidation final : public Callback {
   public:
    const char* name() const override { return "in_validation"; }
    Status OnTestBatchEnd(FitState& fit) override {
      ++seen;
      if (fit.epoch == 1) raise(SIGTERM);
      return Status();
    }
    int seen = 0;
  };
  const auto fit = [](const std::vector<std::shared_ptr<Callback>>& callbacks,
                      History* history) {
    FitOptions options = Quiet(3);
    options.validation_data = Points(80, 9).Batch(10);
    options.callbacks = callbacks;
    auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f);
    testing::internal::CaptureStderr();
    Result<History> fitted = model->Fit(Data(), options);
    testing::internal::GetCapturedStderr();
    if (fitted.ok()) *history = fitted.value();
    return std::pair(fitted.status(), WeightsOf(model.get()));
  };
  Disk files;
  SaveWhenTrainedOptions options;
  BackupAndRestoreOptions backup = SaveEvery(4);
  options.files = backup.files = &files;
  History whole, none, rest;
  const auto signals = std::make_shared<InValidation>();
  const auto stopped =
      fit({signals, SaveWhenTrained("m.safetensors", options)}, &none).first;
  EXPECT_EQ(stopped.code(), Code::kInterrupted) << stopped.message();
  EXPECT_TRUE(Contains(stopped, "epoch 2, step 9 of 9: "));
  EXPECT_EQ(signals->seen, 9);  // 8 of the first epoch
  // With a backup the rest of the run equals an undisturbed run's.
  const std::vector<float> weights =
      fit({BackupAndRestore("other", backup)}, &whole).second;
  EXPECT_EQ(
      fit({std::make_shared<InValidation>(), BackupAndRestore("b", backup)},
          &none)
          .first.code(),
      Code::kCancelled);
  const auto resumed = fit({BackupAndRestore("b", backup)}, &rest);
  ASSERT_OK(resumed.first);
  EXPECT_EQ(resumed.second, weights);
  ASSERT_EQ(rest.epoch, (std::vector<int64_t>{1, 2}));
  for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
    EXPECT_EQ(rest.Values(name)[0], whole.Values(name)[1]) << name;
    EXPECT_EQ(rest.Values(name)[1], whole.Values(name)[2]) << name;
  }
}

TEST(SaveWhenTrainedTest, Interrupt_WithABackup_SavesNoModelBesideIt) {
  // Backups are written by a thread of their own; a simulated disk is of one.
  Disk files, backups;
  SaveWhenTrainedOptions options;
  BackupAndRestoreOptions backup;
  options.files = &files;
  backup.files = &backups;
  const std::vector<std::shared_ptr<Callback>> saves = {
      BackupAndRestore("b", backup), SaveWhenTrained("m.safetensors", options)};
  const Ended ended = Fit({Raises(SIGINT, 1, 4), saves[0], saves[1]});
  EXPECT_EQ(ended.status.code(), Code::kCancelled);
  for (const std::string& path : files.Paths()) {
    EXPECT_FALSE(Contains(path, "m"));
  }
  const Ended resumed = Fit({saves[0], saves[1]});
  EXPECT_OK(resumed.status);
  EXPECT_EQ(Loaded("m.safetensors", &files), Fit({}).weights);
}

TEST(SaveWhenTrainedTest, Signals_WhenInterruptedIsFalse_AreLeftAlone) {
  static volatile sig_atomic_t heard;
  heard = 0;
  struct sigaction own = {}, before = {};
  own.sa_handler = [](int) { heard = heard + 1; };
  ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  Disk files;
  SaveWhenTrainedOptions options;
  options.files = &files;
  options.save_if_interrupted = false;
  EXPECT_OK(Fit({Raises(SIGTERM, 1, 1), SaveWhenTrained("m", options)}).status);
  EXPECT_EQ(heard, 1);
  options.save_if_interrupted = true;
  Fit({Raises(SIGTERM, 1, 1), SaveWhenTrained("m", options)});
  EXPECT_EQ(heard, 1);
  raise(SIGTERM);  // given back
  EXPECT_EQ(heard, 2);
  sigaction(SIGTERM, &before, nullptr);
}

TEST(SaveWhenTrainedTest, Save_FilesOfOtherRuns_AreSpared) {
  Disk files;
  SaveWhenTrainedOptions options;
  options.files = &files;
  options.keep_others = true;
  const auto save = [&](const char* run) {
    options.metadata = {{"run", run}};
    EXPECT_OK(Fit({SaveWhenTrained("m.safetensors", options)}).status);
  };
  save("a");
  const std::string a = *files.Content("m.safetensors");
  save("b");
  save("a");
  save("b");
  EXPECT_EQ(*files.Content("m.safetensors"), a);
  EXPECT_EQ(files.Paths(),
            (std::vector<std::string>{"m-1.safetensors", "m.safetensors"}));
  for (const std::string& content : {std::string(), a.substr(0, 100)}) {
    *files.Content("m.safetensors") = content;
    EXPECT_EQ(FirstFreePath(&files, "m.safetensors", {{"run", "a"}}),
              "m-2.safetensors");
  }
}

// Any call may fail at the end: a whole model is then in some file, which the
// error names. Two runs that end at the same time see the same name free.
TEST(SaveWhenTrainedTest, Save_FileAppearsMeanwhile_IsSpared) {
  struct Crowded final : Disk {
    Status Create(const std::string& path,
                  std::unique_ptr<File>* file) override {
      const std::string name = AtomicFile::TargetOf(path);
      if (!name.empty() && ++writes == 1) {
        std::unique_ptr<File> others;
        RINGLET_RETURN_IF_ERROR(Disk::Create(name, &others));
        RINGLET_RETURN_IF_ERROR(others->Write("theirs", 6));
      }
      return Disk::Create(path, file);
    }
    int writes = 0;
  };
  for (const bool interrupted : {false, true}) {
    Crowded files;
    SaveWhenTrainedOptions options;
    options.files = &files;
    options.keep_others = true;
    options.metadata = {{"run", "1"}};
    std::vector<std::shared_ptr<Callback>> callbacks = {
        SaveWhenTrained("m.safetensors", options)};
    if (interrupted) callbacks.insert(callbacks.begin(), Raises(SIGINT, 1, 2));
    const Ended ended = Fit(callbacks);
    EXPECT_EQ(ended.status.ok(), !interrupted) << ended.status.message();
    const std::string name = interrupted ? "m-interrupted" : "m";
    ASSERT_NE(files.Content(name + ".safetensors"), nullptr);
    EXPECT_EQ(*files.Content(name + ".safetensors"), "theirs");
    EXPECT_EQ(Loaded(name + "-1.safetensors", &files), ended.weights);
    EXPECT_EQ(files.Paths().size(), 2u);
  }
}

TEST(SaveWhenTrainedTest, Save_LinkOrLongName_TakesAnotherName) {
  const TempFolder folder;
  SaveWhenTrainedOptions options;
  options.keep_others = true;
  options.metadata = {{"run", "1"}};
  options.fallback_folder = folder.path();
  ASSERT_EQ(symlink("none", (folder / "m.safetensors").c_str()), 0);
  const Ended linked =
      Fit({SaveWhenTrained(folder / "m.safetensors", options)});
  ASSERT_OK(linked.status);
  EXPECT_EQ(Loaded(folder / "m-1.safetensors", PosixFiles()), linked.weights);
  // With "-interrupted" the name is longer than a name may be.
  const std::string name = std::string(232, 'y') + ".safetensors";
  const Ended ended =
      Fit({Raises(SIGTERM, 0, 1), SaveWhenTrained(folder / name, options)});
  EXPECT_EQ(ended.status.code(), Code::kInterrupted) << ended.status.message();
  EXPECT_EQ(
      Loaded(folder / (std::string(104, 'y') + "-interrupted.safetensors"),
             PosixFiles()),
      ended.weights);
}

// The folder cannot be listed, so no free name can be found.
TEST(SaveWhenTrainedTest, Save_FolderCannotBeSearched_EndsWithAnError) {
  struct Closed final : Disk {
    Status Open(const std::string& path, std::unique_ptr<File>*) override {
      return OsError(EACCES, "%s: opening", path.c_str());
    }
    Status Create(const std::string& path, std::unique_ptr<File>*) override {
      return OsError(EACCES, "%s: creating", path.c_str());
    }
  };
  Closed files;
  SaveWhenTrainedOptions options;
  options.files = &files;
  options.keep_others = true;
  options.fallback_folder = ".";
  const Ended ended = Fit({SaveWhenTrained("m.safetensors", options)});
  EXPECT_EQ(ended.status.code(), Code::kIo) << ended.status.message();
}

TEST(SaveWhenTrainedTest, Save_AnyOperationFails_ModelIsSavedThereOrElsewhere) {
  const std::vector<float> trained = Fit({}).weights;
  int failures = 0;
  for (int64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    Disk files;
    ASSERT_OK(files.MakeFolder("d"));
    ASSERT_OK(files.MakeFolder("e"));
    SaveWhenTrainedOptions options;
    options.files = &files;
    options.fallback_folder = "e";
    const int64_t before = files.operations();
    files.FailAfter(at, at % 2 == 0 ? ENOSPC : EIO);
    const Ended ended = Fit({SaveWhenTrained("d/m.safetensors", options)});
    if (files.operations() - before < at) break;
    if (ended.status.ok()) {
      EXPECT_EQ(Loaded("d/m.safetensors", &files), trained);
      continue;
    }
    ++failures;
    EXPECT_EQ(ExitCode(ended.status), 1);
    EXPECT_TRUE(
        Contains(ended.status, "the model is in e/m.safetensors instead: "));
    EXPECT_EQ(Loaded("e/m.safetensors", &files), trained);
  }
  EXPECT_GE(failures, 5);
  Disk full;
  full.set_capacity(0);
  SaveWhenTrainedOptions options;
  options.files = &full;
  options.fallback_folder = ".";
  const Ended lost = Fit({SaveWhenTrained("m.safetensors", options)});
  EXPECT_TRUE(Contains(lost.status, "the model is lost"));
  const Ended stopped =
      Fit({Raises(SIGINT, 1, 2), SaveWhenTrained("m.safetensors", options)});
  EXPECT_EQ(stopped.status.code(), Code::kResourceExhausted);
  EXPECT_TRUE(
      Contains(stopped.status, "interrupted after epoch 2, step 3 of 9: "));
}

TEST(SaveWhenTrainedTest, SkipIfSaved_WholeModelCheckpoint_SavesNoSecondModel) {
  for (const bool weights_only : {false, true}) {
    Disk files;
    ModelCheckpointOptions checkpoint;
    SaveWhenTrainedOptions options;
    options.files = checkpoint.files = &files;
    options.skip_if_saved = true;
    checkpoint.save_weights_only = weights_only;
    const auto saves = ModelCheckpoint(
        weights_only ? "c.weights.safetensors" : "c.safetensors", checkpoint);
    EXPECT_EQ(saves->SavesModelAs(), weights_only ? "" : "c.safetensors");
    EXPECT_OK(Fit({saves, SaveWhenTrained("m.safetensors", options)}).status);
    EXPECT_EQ(files.Content("m.safetensors") != nullptr, weights_only);
  }
}

TEST(InterruptsTest, Signal_Second_HasItsDefaultEffect) {
  for (const int first : {SIGINT, SIGTERM, SIGHUP}) {
    for (const int second : {SIGINT, SIGTERM, SIGHUP}) {
      const pid_t child = fork();
      if (child == 0) {
        ResetSignals();
        const Interrupts one(/*prints=*/false), two(/*prints=*/false);
        raise(first);
        raise(second);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(WTERMSIG(status), second);
    }
  }
}

// Ctrl-C ends both of `train 2>&1 | tee log`.
TEST(InterruptsTest, Signal_ReaderOfStderrIsGone_ProcessContinues) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    FitState fit;
    {
      const Interrupts interrupts(/*prints=*/true);
      raise(SIGINT);
      Interrupts::CopySignal(&fit);
    }
    _exit(fit.interrupted && signal(SIGPIPE, SIG_DFL) == SIG_DFL ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(InterruptsTest, Signal_IgnoredBefore_StaysIgnored) {
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    const Interrupts interrupts(/*prints=*/true);
    raise(SIGHUP);
    raise(SIGHUP);
    FitState fit;
    Interrupts::CopySignal(&fit);
    EXPECT_FALSE(fit.interrupted);
  }
  EXPECT_EQ(signal(SIGHUP, before), SIG_IGN);
}

}  // namespace
}  // namespace ringlet
