#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "checkpoint_trial.h"
#include "io/checkpoint/format_path.h"
#include "io/checkpoint/inspect.h"

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
  ASSERT_OK(run.Fit("d/{val_accuracy:.3f}{val_loss:.0f}.safetensors",
                    ModelCheckpointOptions(), 1));
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
  ASSERT_OK(run.Fit("d/{epoch}.safetensors", options, 3, {0.5, 0.4, 0.3}));
  EXPECT_EQ(run.files.Paths(), (Names{"d/3.safetensors"}));
  EXPECT_TRUE(Contains(run.out, "Epoch 1: score did not improve from 0.40000"));
}

// Keras's on_train_begin resets neither. A second fit must improve the file's
// value.
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
    ASSERT_OK(model->Fit(Points(48).Batch(8), fit));
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
  ASSERT_OK(run.Fit("d/{epoch}.safetensors", BestScore(), 2, {0.5}));
  EXPECT_EQ(run.files.Paths(), (Names{"d/1.safetensors", "d/2.safetensors"}));
  EXPECT_EQ(run.err,
            "warning: Can save best model only with score available.\n");
}

TEST(ModelCheckpointTest, SaveFreq_InBatches_CountsAcrossEpochs) {
  Trial run;
  ModelCheckpointOptions options;
  options.save_freq = 4;  // epochs have 6
  ASSERT_OK(run.Fit("d/{epoch}-{batch:02d}.safetensors", options, 2));
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
      EXPECT_OK(LoadWeights(model.get(), paths[0], loading));
      EXPECT_EQ(WeightsOf(model.get()), run.weights->after_epoch[0]);
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
    const char* message;  // "" where it is right
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
    const std::string message = c.message;
    EXPECT_EQ(status.ok(), message.empty()) << status.message();
    EXPECT_EQ(steps->taken, message.empty() ? 12 : 0);
    EXPECT_TRUE(Contains(status, message));
  }
}

// Another callback might add the field.
TEST(ModelCheckpointTest, Path_FieldOfAnotherCallback_IsFoundWhenSaving) {
  Trial run;
  EXPECT_OK(
      run.Fit("d/{score}.safetensors", ModelCheckpointOptions(), 1, {0.5}));
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
  // The disk is full in epoch 2, so the 0.8 of epoch 3 is better than the saved
  // value.
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
      EXPECT_OK(status) << run.files.last_failed();
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
  ASSERT_OK(run(undisturbed, /*interrupt=*/false));
  ASSERT_EQ(run(resumed, /*interrupt=*/true).code(), Code::kCancelled);
  ASSERT_OK(run(resumed, /*interrupt=*/false));
  const auto expected = files_of(undisturbed), actual = files_of(resumed);
  EXPECT_EQ(expected.count("best-4.safetensors"), 0u);
  EXPECT_EQ(expected.count("best-5.safetensors"), 1u);
  ASSERT_EQ(expected.size(), 3u + 6u);
  EXPECT_TRUE(expected == actual);
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
    EXPECT_OK(model->Fit(Points(48).Batch(8), fit));
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

}  // namespace
}  // namespace ringlet
