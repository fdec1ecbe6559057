#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/checkpoint/format_path.h"
#include "io/checkpoint/inspect.h"
#include "io/files/path.h"

namespace ringlet {
namespace {

using Names = std::vector<std::string>;

// --- file names -------------------------------------------------------------

PathField Whole(const std::string& name, int64_t value) {
  return {name, true, value, 0};
}
PathField Float(const std::string& name, double value) {
  return {name, false, 0, value};
}

std::string Formatted(const std::string& text,
                      const std::vector<PathField>& fields) {
  std::string path;
  const Status status = FormatPath(text, fields, &path);
  return status.ok() ? path : status.message();
}

TEST(FormatPathTest, FormatPath_FormatSpecifications_FollowPython) {
  const std::vector<PathField> fields = {
      Whole("epoch", 3), Float("val_loss", 0.38349), Float("big", 1e16),
      Float("small", -1.5e-5), Float("one", 1)};
  EXPECT_EQ(Formatted("plain", fields), "plain");
  EXPECT_EQ(Formatted("{epoch:02d}-{val_loss:.2f}.x", fields), "03-0.38.x");
  EXPECT_EQ(Formatted("{epoch}{epoch:d}{epoch:4}{epoch:04}", fields),
            "33   30003");
  EXPECT_EQ(Formatted("{val_loss}|{big}|{small}|{one}", fields),
            "0.38349|1e+16|-1.5e-05|1.0");
  EXPECT_EQ(
      Formatted("{small:.1e}|{small:010.2f}|{big:.3g}|{epoch:.1f}", fields),
      "-1.5e-05|-000000.00|1e+16|3.0");
  EXPECT_EQ(Formatted("{{{epoch}}}", fields), "{3}");
  EXPECT_EQ(Formatted("{nan}{inf:.2f}",
                      {Float("nan", -NAN), Float("inf", -INFINITY)}),
            "nan-inf");
}

TEST(FormatPathTest, FormatPath_WrongFields_AreNamedAsInKeras) {
  const std::vector<PathField> fields = {Whole("epoch", 3), Float("loss", 1)};
  EXPECT_EQ(Formatted("{val_acc:.2f}.x", fields),
            "Failed to format this callback filepath: \"{val_acc:.2f}.x\". "
            "Reason: 'val_acc'; known are 'epoch', 'loss'");
  EXPECT_TRUE(
      Contains(Formatted("{loss:d}", fields), "Unknown format code 'd'"));
  for (const char* bad :
       {"{", "}", "{epoch", "{}", "{:d}", "{epoch:x}", "{loss:.f}", "{loss:.3}",
        "{epoch:.2d}", "{epoch:100d}", "{epoch!r}", "{a{b}}", "{epoch:02d",
        "a}b", "{epoch: 3d}", "{loss:.2ff}", "{epoch:+d}"}) {
    std::string path;
    const Status status = FormatPath(bad, fields, &path);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_TRUE(Contains(status, bad));
    EXPECT_FALSE(CheckPathFormat(bad).ok()) << bad;
  }
}

TEST(FormatPathTest, FormatPath_ManyNumbers_GivePythonsText) {
  if (!HavePython()) GTEST_SKIP() << "no python3";
  const char* specs[] = {"",     ":f",   ":.0f", ":.2f", ":.3f",  ":8.2f",
                         ":e",   ":.0e", ":.3e", ":g",   ":.0g",  ":.3g",
                         ":.8g", ":09",  ":12",  ":015", ":012e", ":.17g"};
  const double values[] = {0,       -0.0, 1,      0.1,   -2.5,    1e-4,
                           9.99e-5, 1e15, 1e16,   12345, 1e22,    0.125,
                           0.5,     1.5,  1e-300, 1e300, 2.0 / 3, 123456789};
  std::string program = "'for v in (";
  for (const double value : values) {
    program += Formatted("{v}", {Float("v", value)}) + ",";
  }
  program += "):\n";
  for (const char* spec : specs) {
    program += std::string("  print(\"{v") + spec + "}\".format(v=v))\n";
  }
  const Names lines = RunPython("-c " + program + "'");
  size_t at = 0;
  ASSERT_EQ(lines.size(), std::size(values) * std::size(specs));
  for (const double value : values) {
    for (const char* spec : specs) {
      EXPECT_EQ(Formatted(std::string("{v") + spec + "}", {Float("v", value)}),
                lines[at++])
          << spec;
    }
  }
}

// --- the callback -----------------------------------------------------------

// Gives the logs a "score" by epoch.
class Scores final : public Callback {
 public:
  explicit Scores(std::vector<double> scores) : scores_(std::move(scores)) {}
  const char* name() const override { return "scores"; }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (fit.epoch < static_cast<int64_t>(scores_.size())) {
      logs->Set("score", scores_[static_cast<size_t>(fit.epoch)]);
    }
    return Status();
  }

 private:
  const std::vector<double> scores_;
};

// Remembers the weights at the end of each epoch.
class Weights final : public Callback {
 public:
  const char* name() const override { return "weights"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    of_epoch.push_back(WeightsOf(fit.model));
    return Status();
  }
  std::vector<std::vector<float>> of_epoch;
};

// A run on a disk of its own.
struct Trial {
  SimulatedFileSystem files;
  std::shared_ptr<Weights> weights = std::make_shared<Weights>();
  std::string out, err;

  Status Fit(const std::string& filepath, ModelCheckpointOptions options,
             int64_t epochs, const std::vector<double>& scores = {}) {
    options.files = &files;
    auto model = TinyModel();
    FitOptions fit = Quiet(epochs);
    fit.validation_data = Points(24, 9).Batch(24);
    fit.callbacks = {weights, std::make_shared<Scores>(scores),
                     ModelCheckpoint(filepath, options)};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const Status status = model->Fit(Points(48).Batch(8), fit).status();
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return status;
  }

  bool Holds(const std::string& path, size_t epoch) {
    std::unique_ptr<Model> loaded;
    const Status status = LoadModel(path, &loaded, {}, &files);
    EXPECT_OK(status);
    return status.ok() && WeightsOf(loaded.get()) == weights->of_epoch[epoch];
  }
};

ModelCheckpointOptions BestScore() {
  ModelCheckpointOptions options;
  options.monitor = "score";
  options.mode = MonitorMode::kMax;
  options.save_best_only = true;
  options.verbose = 1;
  return options;
}

TEST(ModelCheckpointTest, Save_EveryEpoch_HasItsOwnName) {
  Trial run;
  ModelCheckpointOptions options;
  options.verbose = 1;
  ASSERT_OK(run.Fit("d/sub/{epoch:02d}-{score:.2f}.safetensors", options, 2,
                    {0.25, 0.5}));
  EXPECT_EQ(run.files.Paths(),
            (Names{"d/sub/01-0.25.safetensors", "d/sub/02-0.50.safetensors"}));
  EXPECT_EQ(run.out,
            "\nEpoch 1: saving model to d/sub/01-0.25.safetensors\n"
            "\nEpoch 1: finished saving model to d/sub/01-0.25.safetensors\n"
            "\nEpoch 2: saving model to d/sub/02-0.50.safetensors\n"
            "\nEpoch 2: finished saving model to d/sub/02-0.50.safetensors\n");
  EXPECT_TRUE(run.Holds("d/sub/01-0.25.safetensors", 0));
  EXPECT_TRUE(run.Holds("d/sub/02-0.50.safetensors", 1));
}

TEST(ModelCheckpointTest, Path_ValidationLogs_AreInTheName) {
  Trial run;
  ASSERT_TRUE(run.Fit("d/{val_accuracy:.3f}{val_loss:.0f}.safetensors",
                      ModelCheckpointOptions(), 1)
                  .ok());
  EXPECT_EQ(run.files.Paths().size(), 1u);
}

TEST(ModelCheckpointTest,
     SaveBestOnly_ScoresOfFourEpochs_SavesOnlyImprovements) {
  Trial run;
  ASSERT_OK(
      run.Fit("d/best.safetensors", BestScore(), 4, {0.5, 0.9, 0.75, 0.8}));
  EXPECT_TRUE(run.Holds("d/best.safetensors", 1));
  EXPECT_EQ(run.out,
            "\nEpoch 1: score improved from None to 0.50000, saving model to "
            "d/best.safetensors\n"
            "\nEpoch 1: finished saving model to d/best.safetensors\n"
            "\nEpoch 2: score improved from 0.50000 to 0.90000, saving model "
            "to d/best.safetensors\n"
            "\nEpoch 2: finished saving model to d/best.safetensors\n"
            "\nEpoch 3: score did not improve from 0.90000\n"
            "\nEpoch 4: score did not improve from 0.90000\n");
}

TEST(ModelCheckpointTest, Metadata_OfAModel_HasVersionAndMonitor) {
  Trial run;
  const auto metadata = [&](const std::string& path) {
    FileInfo info;
    EXPECT_OK(InspectFile(path, &info, &run.files));
    EXPECT_EQ(info.metadata["ringlet_version"], RINGLET_VERSION);
    EXPECT_TRUE(Contains(ToText(info), "ringlet_version  " RINGLET_VERSION));
    return info.metadata["monitor"] + " " + info.metadata["monitor_value"];
  };
  ASSERT_OK(run.Fit("d/best.safetensors", BestScore(), 3, {0.5, 0.9, 0.75}));
  EXPECT_EQ(metadata("d/best.safetensors"), "score 0.9");
  ModelCheckpointOptions options;
  options.monitor = "score";
  ASSERT_OK(run.Fit("d/all.safetensors", options, 2, {0.25, 0.125}));
  EXPECT_EQ(metadata("d/all.safetensors"), "score 0.125");
  options.monitor = "other";
  ASSERT_OK(run.Fit("d/none.safetensors", options, 1, {0.25}));
  EXPECT_EQ(metadata("d/none.safetensors"), " ");
}

TEST(ModelCheckpointTest, SaveBestOnly_ValueNaN_IsNotSaved) {
  Trial run;
  ASSERT_OK(
      run.Fit("d/{epoch}.safetensors", BestScore(), 4, {NAN, 0.5, NAN, 0.6}));
  EXPECT_EQ(run.files.Paths(), (Names{"d/2.safetensors", "d/4.safetensors"}));
  EXPECT_TRUE(Contains(run.out, "Epoch 1: score did not improve from None"));
  EXPECT_TRUE(Contains(run.out, "Epoch 3: score did not improve from 0.50000"));
}

TEST(ModelCheckpointTest, SaveBestOnly_InitialValueThreshold_MustBeBeaten) {
  Trial run;
  ModelCheckpointOptions options = BestScore();
  options.mode = MonitorMode::kMin;
  options.initial_value_threshold = 0.4;
  ASSERT_TRUE(
      run.Fit("d/{epoch}.safetensors", options, 3, {0.5, 0.4, 0.3}).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/3.safetensors"}));
  EXPECT_TRUE(Contains(run.out, "Epoch 1: score did not improve from 0.40000"));
}

// Keras's on_train_begin forgets neither; what a second fit is to beat is in
// the file.
TEST(ModelCheckpointTest, BestAndBatchCount_SecondFit_AreKept) {
  Trial run;
  ModelCheckpointOptions best = BestScore(), every;
  best.files = every.files = &run.files;
  every.save_freq = 4;  // epochs have 6
  auto model = TinyModel();
  FitOptions fit = Quiet(1);
  fit.callbacks = {
      run.weights, nullptr, ModelCheckpoint("d/best.safetensors", best),
      ModelCheckpoint("d/every-{epoch}-{batch}.safetensors", every)};
  std::string out;
  for (const double score : {0.5, 0.4, 0.6}) {
    fit.callbacks[1] = std::make_shared<Scores>(std::vector<double>{score});
    testing::internal::CaptureStdout();
    ASSERT_TRUE(model->Fit(Points(48).Batch(8), fit).ok());
    out = testing::internal::GetCapturedStdout();
    const size_t best_fit = score == 0.6 ? 2 : 0;
    EXPECT_TRUE(run.Holds("d/best.safetensors", best_fit)) << score;
    if (score != 0.4) continue;
    EXPECT_TRUE(Contains(out, "score did not improve from 0.50000"));
  }
  EXPECT_EQ(run.files.Paths(),
            (Names{"d/best.safetensors", "d/every-1-2.safetensors",
                   "d/every-1-4.safetensors", "d/every-1-6.safetensors"}));
}

TEST(ModelCheckpointTest, SaveBestOnly_MonitoredValueIsMissing_WarnsAndSaves) {
  Trial run;
  ASSERT_TRUE(run.Fit("d/{epoch}.safetensors", BestScore(), 2, {0.5}).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/1.safetensors", "d/2.safetensors"}));
  EXPECT_EQ(run.err,
            "warning: Can save best model only with score available.\n");
}

TEST(ModelCheckpointTest, SaveFreq_InBatches_CountsAcrossEpochs) {
  Trial run;
  ModelCheckpointOptions options;
  options.save_freq = 4;  // epochs have 6
  ASSERT_TRUE(run.Fit("d/{epoch}-{batch:02d}.safetensors", options, 2).ok());
  EXPECT_EQ(run.files.Paths(),
            (Names{"d/1-04.safetensors", "d/2-02.safetensors",
                   "d/2-06.safetensors"}));
  EXPECT_TRUE(run.Holds("d/2-06.safetensors", 1));
}

TEST(ModelCheckpointTest, Path_AnyEnding_IsWrittenAndRead) {
  for (const bool only_weights : {false, true}) {
    for (const std::string path :
         {"d/m.safetensors", "d/m", "d/m.v2", "d/m.keras", "d/M.Keras",
          "d/m.weights.h5", "d/m.ckpt", "d/{epoch}.keras", "d/m.{epoch}"}) {
      SCOPED_TRACE(path);
      Trial run;
      ModelCheckpointOptions options;
      options.save_weights_only = only_weights;
      ASSERT_OK(run.Fit(path, options, 1));
      const Names paths = run.files.Paths();
      ASSERT_EQ(paths.size(), 1u);
      const std::string ending = path.substr(path.rfind('.') + 1);
      const bool foreign = ending == "keras" || ending == "Keras" ||
                           ending == "h5" || ending == "ckpt";
      EXPECT_EQ(run.err.find("note: ModelCheckpoint writes " + path +
                             " in ringlet's format (safetensors)"),
                foreign ? 0 : std::string::npos)
          << run.err;
      EXPECT_TRUE(only_weights || run.Holds(paths[0], 0));
      auto model = TinyModel();
      LoadWeightsOptions loading;
      loading.files = &run.files;
      EXPECT_TRUE(LoadWeights(model.get(), paths[0], loading).ok());
      EXPECT_EQ(WeightsOf(model.get()), run.weights->of_epoch[0]);
    }
  }
}

TEST(ModelCheckpointTest, Fit_WrongArguments_IsRefused) {
  const auto message = [](const std::string& path,
                          const ModelCheckpointOptions& options) {
    Trial run;
    const Status status = run.Fit(path, options, 1, {0.5});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << path;
    return std::string(status.message());
  };
  ModelCheckpointOptions options;
  for (const char* path : {"run.json", "x.csv", "x.csv.gz", "x.npy", "x.NPZ"}) {
    EXPECT_TRUE(Contains(message(path, options), "the name of a file of data"));
  }
  for (const int most : {-1, 101}) {
    options.max_to_keep = most;
    EXPECT_TRUE(Contains(message("d/m", options), "max_to_keep must be"));
  }
  options.max_to_keep = 1;
  for (const char* path : {"a}}b/{epoch}", "c/{epoch}{{", "{{d/e"}) {
    EXPECT_TRUE(Contains(message(path, options), "no braces but those of"));
  }
  options.max_to_keep = 0;
  EXPECT_TRUE(
      Contains(message("d/{epoch:q}.safetensors", options), "{epoch:q}"));
  EXPECT_TRUE(Contains(message("d/{val_acc}.safetensors", options),
                       "Failed to format this callback filepath: "
                       "\"d/{val_acc}.safetensors\". Reason: 'val_acc'"));
  EXPECT_TRUE(Contains(message("d/{batch}.safetensors", options), "'batch'"));
  options.save_freq = -1;
  EXPECT_TRUE(Contains(message("d/m.safetensors", options), "save_freq"));
  options.save_freq = 0;
  options.save_best_only = true;
  options.monitor = "val_los";
  EXPECT_TRUE(Contains(message("d/m.safetensors", options), "val_los"));
}

// --- max_to_keep ---

ModelCheckpointOptions Keep(int most) {
  ModelCheckpointOptions options;
  options.max_to_keep = most;
  return options;
}

void WriteOn(SimulatedFileSystem* files, const std::string& path,
             const std::string& text) {
  std::unique_ptr<File> file;
  ASSERT_TRUE(files->MakeDirectory(FolderOf(path)).ok());
  (void)files->Remove(path);
  ASSERT_TRUE(files->Create(path, &file).ok());
  ASSERT_TRUE(file->Write(text.data(), text.size()).ok());
}

// Replaces a file after an epoch, or does what else a test wants then.
class AfterEpoch final : public Callback {
 public:
  using Do = std::function<void(int64_t epoch)>;
  explicit AfterEpoch(Do what) : do_(std::move(what)) {}
  const char* name() const override { return "after_epoch"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    do_(fit.epoch + 1);
    return Status();
  }

 private:
  const Do do_;
};

TEST(ModelCheckpointTest, MaxToKeep_MoreSaves_KeepsTheNewestOfItsOwn) {
  Trial run;
  WriteOn(&run.files, "d/0.keras", "mine");
  WriteOn(&run.files, "d/other", "mine");
  ASSERT_TRUE(run.Fit("d/{epoch}.keras", Keep(2), 5).ok());
  EXPECT_EQ(run.files.Paths(),
            (Names{"d/0.keras", "d/4.keras", "d/5.keras", "d/other"}));
  EXPECT_TRUE(run.Holds("d/4.keras", 3));
  EXPECT_TRUE(run.Holds("d/5.keras", 4));
  // Another run knows nothing of them. One name is one file.
  ASSERT_TRUE(run.Fit("d/{epoch:02d}.keras", Keep(1), 2).ok());
  ASSERT_TRUE(run.Fit("d/only", Keep(1), 3).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/0.keras", "d/02.keras", "d/4.keras",
                                      "d/5.keras", "d/only", "d/other"}));
  EXPECT_TRUE(run.Holds("d/only", run.weights->of_epoch.size() - 1));
}

TEST(ModelCheckpointTest, MaxToKeep_FileThatIsNoLongerItsOwn_Stays) {
  Trial run;
  ModelCheckpointOptions options = Keep(1);
  options.files = &run.files;
  options.save_weights_only = true;
  FitOptions fit = Quiet(4);
  fit.callbacks = {ModelCheckpoint("d/{epoch}", options),
                   std::make_shared<AfterEpoch>([&run](int64_t epoch) {
                     if (epoch == 1) WriteOn(&run.files, "d/1", "mine");
                     if (epoch == 2) (void)run.files.Remove("d/2");
                   })};
  testing::internal::CaptureStderr();
  ASSERT_TRUE(TinyModel()->Fit(Points(48).Batch(8), fit).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: d/1 is not the file that ModelCheckpoint wrote, and "
            "stays\n");
  EXPECT_EQ(run.files.Paths(), (Names{"d/1", "d/4"}));
  EXPECT_EQ(*run.files.Content("d/1"), "mine");
}

TEST(ModelCheckpointTest, MaxToKeep_SaveBestOnly_KeepsTheBest) {
  ModelCheckpointOptions options = BestScore();
  options.max_to_keep = 2;
  Trial run;
  ASSERT_TRUE(
      run.Fit("d/{epoch}", options, 6, {0.1, 0.2, 0.5, 0.3, 0.6, 0.4}).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/3", "d/5"}));
  // Without a score every epoch is saved, and the best stays beside them.
  Trial missing;
  ASSERT_TRUE(missing.Fit("d/{epoch}", options, 6, {0.1, 0.9}).ok());
  EXPECT_EQ(missing.files.Paths(), (Names{"d/2", "d/6"}));
  options.max_to_keep = 1;
  Trial one;
  ASSERT_TRUE(one.Fit("d/{epoch}", options, 4, {0.1, 0.9}).ok());
  EXPECT_EQ(one.files.Paths(), (Names{"d/2", "d/4"}));
}

TEST(ModelCheckpointTest, MaxToKeep_SaveFails_RemovesNothing) {
  Trial run;
  ModelCheckpointOptions options = Keep(1);
  options.files = &run.files;
  FitOptions fit = Quiet(4);
  fit.callbacks = {std::make_shared<AfterEpoch>([&run](int64_t epoch) {
                     run.files.set_capacity(epoch == 3 ? 0 : -1);
                   }),
                   ModelCheckpoint("d/{epoch}", options)};
  auto model = TinyModel();
  Names at_three;
  fit.callbacks.push_back(std::make_shared<AfterEpoch>([&](int64_t epoch) {
    if (epoch == 3) at_three = run.files.Paths();
  }));
  ASSERT_TRUE(model->Fit(Points(48).Batch(8), fit).ok());
  EXPECT_EQ(at_three, (Names{"d/2"}));
  EXPECT_EQ(run.files.Paths(), (Names{"d/4"}));
}

// Once a model has been saved there is one after a power cut at any moment.
TEST(ModelCheckpointTest, MaxToKeep_PowerCut_LeavesAWholeFile) {
  for (int64_t count = 1;; ++count) {
    SCOPED_TRACE(count);
    SimulatedFileSystem files;
    files.HaltAfter(count);
    bool saved = false;
    ModelCheckpointOptions options = Keep(1);
    options.files = &files;
    FitOptions fit = Quiet(3);
    fit.callbacks = {ModelCheckpoint("d/{epoch}", options),
                     std::make_shared<AfterEpoch>(
                         [&](int64_t) { saved |= !files.halted(); })};
    testing::internal::CaptureStderr();
    (void)TinyModel()->Fit(Points(48).Batch(8), fit);
    testing::internal::GetCapturedStderr();
    const bool halted = files.halted();
    files.CutPower(static_cast<uint64_t>(count));
    int whole = 0;
    for (const std::string& path : files.Paths()) {
      whole += VerifyCheckpoint(path, &files).ok();
    }
    EXPECT_GE(whole, saved ? 1 : 0);
    if (!halted) break;
  }
}

TEST(ModelCheckpointTest, MaxToKeep_ResumedRun_GoesOn) {
  TempFolder folder;
  Trial run;
  const auto fit_to = [&](int64_t epochs, int most) {
    ModelCheckpointOptions options = Keep(most);
    options.files = &run.files;
    BackupAndRestoreOptions backup;
    backup.delete_checkpoint = false;
    FitOptions fit = Quiet(epochs);
    fit.callbacks = {ModelCheckpoint("d/{epoch}", options),
                     BackupAndRestore(folder / "backup", backup)};
    return TinyModel()->Fit(Points(48).Batch(8), fit).status();
  };
  ASSERT_TRUE(fit_to(3, 2).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/2", "d/3"}));
  ASSERT_TRUE(fit_to(4, 2).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/3", "d/4"}));
  ASSERT_TRUE(fit_to(6, 1).ok());
  EXPECT_EQ(run.files.Paths(), Names{"d/6"});
  ASSERT_TRUE(fit_to(9, 3).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/7", "d/8", "d/9"}));
}

// The best value is of the resumed run, and with it the best file.
TEST(ModelCheckpointTest, MaxToKeep_ResumedWithAnother_KeepsTheBest) {
  TempFolder folder;
  Trial run;
  const auto fit_to = [&](int64_t epochs, int most) {
    ModelCheckpointOptions options = BestScore();
    options.verbose = 0;
    options.max_to_keep = most;
    options.files = &run.files;
    BackupAndRestoreOptions backup;
    backup.delete_checkpoint = false;
    FitOptions fit = Quiet(epochs);
    fit.callbacks = {std::make_shared<Scores>(std::vector<double>{2, 1}),
                     ModelCheckpoint("d/best", options),
                     BackupAndRestore(folder / "backup", backup)};
    return TinyModel()->Fit(Points(48).Batch(8), fit).status();
  };
  ASSERT_TRUE(fit_to(1, 1).ok());
  const auto best = *run.files.Content("d/best");
  ASSERT_TRUE(fit_to(2, 2).ok());
  EXPECT_EQ(*run.files.Content("d/best"), best);
}

TEST(ModelCheckpointTest, MaxToKeep_TwoCallbacksOfOnePath_AreRefused) {
  Trial run;
  ModelCheckpointOptions options = Keep(1), all;
  options.files = all.files = &run.files;
  FitOptions fit = Quiet(1);
  fit.callbacks = {ModelCheckpoint("d/{epoch}", options),
                   ModelCheckpoint("d/{epoch}", all)};
  const Status status = TinyModel()->Fit(Points(48).Batch(8), fit).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(run.files.Paths().empty());
}

// A path may have any ending, so it may be that of a file that is needed.
TEST(ModelCheckpointTest, Path_OfAFileThatIsNoModel_IsRefused) {
  const std::string idx("\0\0\x08\x01\0\0\0\x01\x05", 9);
  for (const std::string& bytes :
       {idx, std::string("a,b,kind\n1,2,x\n3,4,y\n5,6,x\n"),
        std::string("PK\x03\x04 an archive"),
        std::string("{\"model\": {}, \"compile\": {}, \"data\": {}}")}) {
    for (const std::string path : {"d/data", "d/data{epoch}"}) {
      Trial run;
      const std::string at = path == "d/data" ? path : "d/data1";
      WriteOn(&run.files, at, bytes);
      const Status status = run.Fit(path, {}, 1);
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << at;
      EXPECT_TRUE(Contains(status, "another filepath"));
      EXPECT_EQ(*run.files.Content(at), bytes);
    }
  }
}

TEST(ModelCheckpointTest, MaxToKeep_SecondFit_ReplacesAndKeepsOn) {
  Trial run;
  ModelCheckpointOptions options = Keep(2);
  options.files = &run.files;
  auto model = TinyModel();
  FitOptions fit = Quiet(3);
  fit.callbacks = {ModelCheckpoint("d/{epoch}", options)};
  ASSERT_TRUE(model->Fit(Points(48).Batch(8), fit).ok());
  ASSERT_TRUE(model->Fit(Points(48).Batch(8), fit).ok());
  EXPECT_EQ(run.files.Paths(), (Names{"d/2", "d/3"}));
}

TEST(ModelCheckpointTest, MaxToKeep_FieldsInAFolder_RemovesEmptyFolders) {
  TempFolder folder;
  ModelCheckpointOptions options;
  options.max_to_keep = 1;
  FitOptions fit = Quiet(4);
  fit.callbacks = {
      ModelCheckpoint(folder / "run/f{epoch}/g{epoch}/m.safetensors", options),
      std::make_shared<AfterEpoch>([&folder](int64_t epoch) {
        if (epoch == 2) WriteWhole(folder / "run/f2/mine", "mine");
      })};
  ASSERT_TRUE(TinyModel()->Fit(Points(48).Batch(8), fit).ok());
  Names names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder / "run")) {
    names.push_back(entry.path().lexically_relative(folder / "run"));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (Names{"f2", "f2/mine", "f4", "f4/g4", "f4/g4/m.safetensors"}));
}

TEST(ModelCheckpointTest, MaxToKeep_PathThroughParents_RemovesOldFiles) {
  TempFolder folder;
  ModelCheckpointOptions options;
  options.max_to_keep = 1;
  std::filesystem::create_directory(folder / "a");
  FitOptions fit = Quiet(3);
  fit.callbacks = {
      ModelCheckpoint(folder / "a/../b/m{epoch}.safetensors", options)};
  testing::internal::CaptureStderr();
  ASSERT_TRUE(TinyModel()->Fit(Points(48).Batch(8), fit).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  Names names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "b")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_EQ(names, (Names{"m3.safetensors"}));
}

// A backup with names that the run has not written.
TEST(ModelCheckpointTest, MaxToKeep_StateOfAnotherPattern_RemovesNothing) {
  for (const std::string other : {"e/1", "d/../e/1"}) {
    Trial run;
    ModelCheckpointOptions options = Keep(1);
    options.files = &run.files;
    FitOptions fit = Quiet(1);
    fit.callbacks = {ModelCheckpoint(
        other.substr(0, other.size() - 1) + "{epoch}", options)};
    ASSERT_TRUE(TinyModel()->Fit(Points(48).Batch(8), fit).ok());
    std::vector<StateSpan> from, to;
    fit.callbacks[0]->AppendState(&from);
    const auto callback = ModelCheckpoint("d/{epoch}", options);
    callback->AppendState(&to);
    ASSERT_EQ(from.back().name, "callback/model_checkpoint/kept");
    std::memcpy(to.back().data, from.back().data, to.back().bytes());
    ASSERT_TRUE(callback->StateLoaded().ok());
    fit = Quiet(2);
    fit.callbacks = {callback};
    testing::internal::CaptureStderr();
    ASSERT_TRUE(TinyModel()->Fit(Points(48).Batch(8), fit).ok());
    EXPECT_TRUE(
        Contains(testing::internal::GetCapturedStderr(), other + " is not"));
    EXPECT_NE(run.files.Content(other), nullptr);
    std::memset(to.back().data, 'x', to.back().bytes());
    EXPECT_EQ(callback->StateLoaded().code(), Code::kCorruption);
    // Two that are the best.
    auto* const records = static_cast<char*>(to.back().data);
    std::memset(records, 0, to.back().bytes());
    for (const int at : {0, 1024}) {
      std::strcpy(records + at, "b 0123456789abcdef d/1");
    }
    EXPECT_EQ(callback->StateLoaded().code(), Code::kCorruption);
  }
}

// The next chief has a disk of its own, with a file of the same name.
TEST(ModelCheckpointTest, MaxToKeep_AnotherChief_LeavesItsOtherFiles) {
  ElasticJob job;
  SimulatedFileSystem files[2];
  WriteOn(&files[1], "d/1", "mine");
  RunWorkers(&job, 2, [&](int w) {
    ElasticCollective collective(&job, w);
    CompileOptions elastic = ExactSums(&collective, 2);
    auto model = TinyModel(SGD(0.1f), 0, elastic);
    ModelCheckpointOptions options = Keep(1);
    options.files = &files[w];
    FitOptions fit = Quiet(4);
    fit.cross_check = false;
    fit.callbacks = {
        std::make_shared<AfterEpoch>([&collective, w](int64_t epoch) {
          if (epoch == 3 && w == 0) collective.EndInNextCall();
        }),
        ModelCheckpoint("d/{epoch}", options)};
    const Status status = model->Fit(Points(48).Batch(8), fit).status();
    EXPECT_TRUE(w == 0 || status.ok()) << status.message();
  });
  EXPECT_EQ(files[0].Paths().size(), 1u);
  EXPECT_EQ(files[1].Paths(), (Names{"d/1", "d/4"}));
}

// Counts the steps that were taken.
class Steps final : public Callback {
 public:
  const char* name() const override { return "steps"; }
  bool NamesInLogs(std::vector<std::string>* names) const override {
    names->push_back("steps");
    return true;
  }
  Status OnTrainBatchEnd(FitState&, const Logs&) override {
    ++taken;
    return Status();
  }
  Status OnEpochEnd(FitState&, Logs* logs) override {
    logs->Set("steps", taken);
    return Status();
  }
  int taken = 0;
};

TEST(ModelCheckpointTest, Path_UnknownField_IsRefusedBeforeTheFirstStep) {
  const struct {
    const char* path;
    int64_t save_freq;
    bool validates;
    int64_t validation_freq;
    std::vector<int64_t> validation_epochs;
    const char* says;  // "" where it is right
  } cases[] = {
      {"{val_los}", 0, true, 1, {}, "nearest known is 'val_loss'"},
      {"{val_accuracy}{val_loss}{loss}{epoch}", 0, true, 1, {}, ""},
      {"{acuracy:.2f}", 0, false, 1, {}, "nearest known is 'accuracy'"},
      {"{loss:d}", 0, false, 1, {}, "Unknown format code 'd'"},
      {"{val_loss}", 0, false, 1, {}, "needs validation data"},
      {"{val_loss}", 0, true, 2, {}, "leaves out some"},
      {"{val_loss}", 0, true, 1, {1}, "leaves out some"},
      {"{val_loss}", 0, true, 1, {2, 1}, ""},
      {"{batch}", 0, true, 1, {}, "'batch'"},
      {"{batch}-{loss}", 3, true, 1, {}, ""},
      {"{val_loss}", 3, true, 1, {}, "'val_loss'"},
      {"{steps}", 3, true, 1, {}, "'steps'"},
      {"{steps}-{learning_rate}", 0, true, 1, {}, ""},
      {"{step}", 0, true, 1, {}, "nearest known is 'steps'"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.path);
    SimulatedFileSystem files;
    ModelCheckpointOptions options;
    options.files = &files;
    options.save_freq = c.save_freq;
    auto model = TinyModel();
    FitOptions fit = Quiet(2);
    if (c.validates) fit.validation_data = Points(24, 9).Batch(24);
    fit.validation_freq = c.validation_freq;
    fit.validation_epochs = c.validation_epochs;
    const auto steps = std::make_shared<Steps>();
    ReduceLROnPlateauOptions plateau;
    plateau.monitor = "loss";
    fit.callbacks = {
        steps, ReduceLROnPlateau(plateau),
        ModelCheckpoint("d/" + std::string(c.path) + ".safetensors", options)};
    const Status status = model->Fit(Points(48).Batch(8), fit).status();
    const std::string says = c.says;
    EXPECT_EQ(status.ok(), says.empty()) << status.message();
    EXPECT_EQ(steps->taken, says.empty() ? 12 : 0);
    EXPECT_TRUE(Contains(status, says));
  }
}

// Another callback might add it.
TEST(ModelCheckpointTest, Path_FieldOfAnotherCallback_IsFoundWhenSaving) {
  Trial run;
  EXPECT_TRUE(
      run.Fit("d/{score}.safetensors", ModelCheckpointOptions(), 1, {0.5})
          .ok());
  EXPECT_EQ(run.files.Paths().size(), 1u);
}

TEST(ModelCheckpointTest, Path_IsADirectory_IsRefused) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "m.safetensors");
  auto model = TinyModel();
  FitOptions fit = Quiet(1);
  fit.callbacks = {ModelCheckpoint(folder / "m.safetensors")};
  const Status status = model->Fit(Points(8).Batch(8), fit).status();
  EXPECT_TRUE(Contains(status, "non-directory filepath"));
}

TEST(ModelCheckpointTest, SaveBestOnly_DiskIsFull_WarnsAndSavesTheNextBetter) {
  Trial run;
  // Epoch 2 finds no space, so 0.8 of epoch 3 is better than what is there.
  class Filler final : public Callback {
   public:
    explicit Filler(SimulatedFileSystem* files) : files_(files) {}
    const char* name() const override { return "filler"; }
    Status OnEpochEnd(FitState& fit, Logs*) override {
      files_->set_capacity(fit.epoch == 1 ? 0 : -1);
      return Status();
    }
    SimulatedFileSystem* const files_;
  };
  ModelCheckpointOptions options = BestScore();
  options.files = &run.files;
  auto model = TinyModel();
  FitOptions fit = Quiet(3);
  fit.callbacks = {run.weights, std::make_shared<Filler>(&run.files),
                   std::make_shared<Scores>(std::vector<double>{0.5, 0.9, 0.8}),
                   ModelCheckpoint("d/m.safetensors", options)};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Status status = model->Fit(Points(48).Batch(8), fit).status();
  const std::string out = testing::internal::GetCapturedStdout();
  const std::string err = testing::internal::GetCapturedStderr();
  ASSERT_OK(status);
  EXPECT_TRUE(
      Contains(err, "warning: the model was not saved; training continues"));
  EXPECT_TRUE(Contains(out, "Epoch 3: score improved from 0.50000 to 0.80000"));
  EXPECT_TRUE(run.Holds("d/m.safetensors", 2));
  EXPECT_EQ(run.files.Paths(), (Names{"d/m.safetensors"}));
}

TEST(ModelCheckpointTest, Save_AnyOperationFails_WarnsAndALaterSaveIsWhole) {
  // The start takes two operations, a save nine: one of the first two saves is
  // hit, or the start.
  // ENOENT: another program that saves to this file swept it.
  for (const int error : {EIO, EACCES, ENOENT}) {
    for (int64_t fail = 1; fail <= 20; ++fail) {
      Trial run;
      run.files.FailAfter(fail, error);
      const Status status =
          run.Fit("d/m.safetensors", ModelCheckpointOptions(), 3);
      EXPECT_TRUE(status.ok()) << run.files.last_failed() << status.message();
      // If the file system cannot list it, it is no folder in the way.
      const bool looked = run.files.last_failed() == "list d/m.safetensors";
      EXPECT_EQ(run.err.find("warning: ") == std::string::npos, looked)
          << run.files.last_failed() << run.err;
      run.files.FailNoMore();
      EXPECT_TRUE(run.Holds("d/m.safetensors", 2)) << run.files.last_failed();
      EXPECT_EQ(run.files.Paths(), (Names{"d/m.safetensors"}))
          << run.files.last_failed();
    }
  }
}

// Best so far 0.9, when it is interrupted: 0.8 is none after the resume.
TEST(ModelCheckpointTest, BestAndBatchCount_Resume_AreRestored) {
  class Interrupt final : public Callback {
   public:
    const char* name() const override { return "interrupt"; }
    Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
      if (fit.epoch == 2 && fit.step == 0) raise(SIGTERM);  // seen a step on
      return Status();
    }
  };
  const std::vector<double> scores = {0.5, 0.9, 0.7, 0.8, 0.95};
  const auto run = [&](const TempFolder& folder, bool interrupt) {
    auto model = TinyModel(Adam(0.01f));
    ModelCheckpointOptions every;
    every.save_freq = 5;  // epochs have 6
    ModelCheckpointOptions best = BestScore();
    best.verbose = 0;
    FitOptions fit = Quiet(5);
    fit.callbacks = {
        std::make_shared<Scores>(scores),
        ModelCheckpoint(folder / "best-{epoch}.safetensors", best),
        ModelCheckpoint(folder / "every-{epoch}-{batch}.safetensors", every),
        BackupAndRestore(folder / "backup")};
    if (interrupt) fit.callbacks.push_back(std::make_shared<Interrupt>());
    return model->Fit(Points(48).Batch(8), fit).status();
  };
  const auto files_of = [](const TempFolder& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.path())) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().filename()] = ReadWhole(entry.path());
    }
    return files;
  };
  TempFolder undisturbed, resumed;
  ASSERT_TRUE(run(undisturbed, false).ok());
  ASSERT_EQ(run(resumed, true).code(), Code::kCancelled);
  ASSERT_OK(run(resumed, false));
  const auto expected = files_of(undisturbed), got = files_of(resumed);
  EXPECT_EQ(expected.count("best-4.safetensors"), 0u);
  EXPECT_EQ(expected.count("best-5.safetensors"), 1u);
  ASSERT_EQ(expected.size(), 3u + 6u);
  EXPECT_TRUE(expected == got);
}

TEST(ModelCheckpointTest, Save_SeveralWorkers_OnlyTheChiefWrites) {
  SimulatedFileSystem files[2];
  RunRanks(2, [&](Collective* collective) {
    auto model = TinyModel(SGD(0.1f), 0, collective);
    ModelCheckpointOptions options;
    options.monitor = "loss";
    options.save_best_only = true;
    options.files = &files[collective->rank()];
    FitOptions fit = Quiet(2);
    fit.callbacks = {ModelCheckpoint("d/{epoch}.safetensors", options)};
    EXPECT_TRUE(model->Fit(Points(48).Batch(8), fit).ok());
  });
  EXPECT_EQ(files[0].Paths(), (Names{"d/1.safetensors", "d/2.safetensors"}));
  EXPECT_EQ(files[1].Paths(), Names());
}

// The other worker is lost in any call of the run, also in one of the save. The
// save is then made at the end of the next step.
TEST(ModelCheckpointTest, Save_WorkerLostInAnyCall_IsStillMade) {
  for (int last_call = 1; last_call < 80; ++last_call) {
    SCOPED_TRACE(last_call);
    ElasticJob job;
    SimulatedFileSystem files[2];
    RunWorkers(&job, 2, [&](int w) {
      ElasticCollective collective(&job, w, w == 1 ? last_call : kNever);
      CompileOptions elastic = ExactSums(&collective, 2);
      auto model = TinyModel(SGD(0.1f), 0, elastic);
      ModelCheckpointOptions options;
      options.save_freq = 4;
      options.files = &files[w];
      FitOptions fit = Quiet(1);
      fit.cross_check = false;
      fit.callbacks = {ModelCheckpoint("{batch}.safetensors", options)};
      const Status status = model->Fit(Points(48).Batch(8), fit).status();
      if (w == 0) {
        EXPECT_OK(status);
      }
    });
    EXPECT_FALSE(files[0].Paths().empty());
  }
}

// Fills the disk in the last epoch.
class FillsAtTheEnd final : public Callback {
 public:
  FillsAtTheEnd(SimulatedFileSystem* files, bool fills)
      : files_(*files), fills_(fills) {}
  const char* name() const override { return "fills_at_the_end"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    if (fills_ && fit.epoch + 1 == fit.epochs) files_.set_capacity(0);
    return Status();
  }

 private:
  SimulatedFileSystem& files_;
  const bool fills_;
};

// The backup is of the end of the run, and its last save failed.
TEST(ModelCheckpointTest, LastSaveFailed_ResumedAtTheEnd_WritesTheModel) {
  for (const bool backup_first : {false, true}) {
    SCOPED_TRACE(backup_first);
    TempFolder folder;
    Trial run;
    const auto fit_once = [&](bool fills) {
      auto model = TinyModel();
      ModelCheckpointOptions options;
      options.files = &run.files;
      FitOptions fit = Quiet(3);
      fit.validation_data = Points(24, 9).Batch(24);
      fit.callbacks = {
          run.weights, std::make_shared<FillsAtTheEnd>(&run.files, fills),
          ModelCheckpoint("d/{epoch}-{val_loss:.3f}.safetensors", options),
          BackupAndRestore(folder / "backup")};
      if (backup_first) std::swap(fit.callbacks[2], fit.callbacks[3]);
      return model->Fit(Points(48).Batch(8), fit).status();
    };
    const Status full = fit_once(true);
    EXPECT_EQ(full.code(), Code::kResourceExhausted) << full.message();
    EXPECT_EQ(run.files.Paths().size(), 2u);
    run.files.set_capacity(-1);
    EXPECT_OK(fit_once(false));
    const Names paths = run.files.Paths();
    ASSERT_EQ(paths.size(), 3u);
    EXPECT_EQ(paths[2].compare(0, 4, "d/3-"), 0) << paths[2];
    EXPECT_TRUE(run.Holds(paths[2], 2));
  }
}

// Gives the logs more values than the state has room for.
class MoreScores final : public Callback {
 public:
  const char* name() const override { return "more_scores"; }
  Status OnEpochEnd(FitState&, Logs* logs) override {
    for (int i = 0; i < 16; ++i) logs->Set("more_" + std::to_string(i), i);
    return Status();
  }
};

// The name of the file has a value that another callback gave to the logs.
TEST(ModelCheckpointTest, LastSaveFailed_NamesOfOtherCallbacks_AreKnown) {
  for (const bool too_many : {false, true}) {
    SCOPED_TRACE(too_many);
    TempFolder folder;
    SimulatedFileSystem files;
    const auto fit_once = [&](bool fills) {
      std::vector<std::shared_ptr<Callback>> callbacks;
      if (too_many) callbacks.push_back(std::make_shared<MoreScores>());
      callbacks.push_back(
          std::make_shared<Scores>(std::vector<double>{0.5, 0.25}));
      callbacks.push_back(std::make_shared<FillsAtTheEnd>(&files, fills));
      ModelCheckpointOptions options;
      options.files = &files;
      callbacks.push_back(ModelCheckpoint("{score}.safetensors", options));
      callbacks.push_back(BackupAndRestore(folder / "backup"));
      FitOptions fit = Quiet(2);
      fit.callbacks = callbacks;
      return TinyModel()->Fit(Points(48).Batch(8), fit).status();
    };
    EXPECT_FALSE(fit_once(true).ok());
    files.set_capacity(-1);
    EXPECT_OK(fit_once(false));
    EXPECT_EQ(files.Paths(), (Names{"0.25.safetensors", "0.5.safetensors"}));
  }
}

// The end of a fit gives the model other weights, and the second try writes
// those of the save that failed.
TEST(ModelCheckpointTest, LastSaveFailed_AveragesAtTheEnd_WritesTheModel) {
  TempFolder folder;
  Trial run;
  Optimizer averaged = SGD(0.1f);
  averaged.use_ema = true;
  const auto fit_once = [&](bool fills) {
    auto model = TinyModel(averaged);
    ModelCheckpointOptions options;
    options.files = &run.files;
    FitOptions fit = Quiet(2);
    fit.callbacks = {run.weights,
                     std::make_shared<FillsAtTheEnd>(&run.files, fills),
                     BackupAndRestore(folder / "backup"),
                     ModelCheckpoint("d/{epoch}.safetensors", options)};
    return model->Fit(Points(48).Batch(8), fit).status();
  };
  EXPECT_FALSE(fit_once(true).ok());
  run.files.set_capacity(-1);
  EXPECT_OK(fit_once(false));
  EXPECT_TRUE(run.Holds("d/2.safetensors", 1));
}

// Fills the disk as the step begins.
class FillsAtStep final : public Callback {
 public:
  FillsAtStep(SimulatedFileSystem* files, int64_t step)
      : files_(*files), step_(step) {}
  const char* name() const override { return "fills_at_step"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.model->iterations() == step_) files_.set_capacity(0);
    return Status();
  }

 private:
  SimulatedFileSystem& files_;
  const int64_t step_;
};

// The backup is of the end, some steps behind the failed save.
TEST(ModelCheckpointTest, LastSaveFailed_WeightsChangedSince_IsAnError) {
  TempFolder folder;
  SimulatedFileSystem files;
  const auto fit_once = [&](bool fills) {
    auto model = TinyModel();
    ModelCheckpointOptions options;
    options.files = &files;
    options.save_freq = 5;
    FitOptions fit = Quiet(2);
    fit.callbacks = {std::make_shared<FillsAtStep>(&files, fills ? 6 : -1),
                     ModelCheckpoint("d/{epoch}.safetensors", options),
                     BackupAndRestore(folder / "backup")};
    return model->Fit(Points(48).Batch(8), fit).status();
  };
  EXPECT_FALSE(fit_once(true).ok());
  files.set_capacity(-1);
  const Status resumed = fit_once(false);
  EXPECT_EQ(resumed.code(), Code::kIo);
  EXPECT_TRUE(
      Contains(resumed,
               "ModelCheckpoint could not write its last file, in epoch "
               "2, before this process continued the run"));
}

// Ends this worker's process as the fit ends.
class IsLostAtTheEnd final : public Callback {
 public:
  // Null: it is not lost.
  explicit IsLostAtTheEnd(ElasticCollective* own) : own_(own) {}
  const char* name() const override { return "is_lost_at_the_end"; }
  Status OnTrainEnd(FitState&, const Logs&) override {
    if (own_ != nullptr) own_->EndInNextCall();
    return Status();
  }

 private:
  ElasticCollective* const own_;
};

// A job of two workers, each with a disk of its own. The chief's is full from
// the last epoch on, and then the chief is lost.
TEST(ModelCheckpointTest, LastSaveFailed_AnotherChief_WritesTheModel) {
  for (const bool second_is_full : {false, true}) {
    SCOPED_TRACE(second_is_full);
    ElasticJob job;
    SimulatedFileSystem files[2];
    Status ends[2];
    RunWorkers(&job, 2, [&](int w) {
      ElasticCollective collective(&job, w);
      CompileOptions elastic = ExactSums(&collective, 2);
      auto model = TinyModel(SGD(0.1f), 0, elastic);
      ModelCheckpointOptions options;
      options.files = &files[w];
      FitOptions fit = Quiet(2);
      fit.cross_check = false;
      fit.callbacks = {
          std::make_shared<IsLostAtTheEnd>(w == 0 ? &collective : nullptr),
          std::make_shared<FillsAtTheEnd>(&files[w], w == 0 || second_is_full),
          ModelCheckpoint("{epoch}.safetensors", options)};
      ends[w] = model->Fit(Points(48).Batch(8), fit).status();
    });
    EXPECT_EQ(files[0].Paths(), (Names{"1.safetensors"}));
    EXPECT_EQ(ends[1].code(),
              second_is_full ? Code::kResourceExhausted : Code::kOk)
        << ends[1].message();
    EXPECT_EQ(files[1].Paths(),
              second_is_full ? Names() : Names{"2.safetensors"});
  }
}

}  // namespace
}  // namespace ringlet
