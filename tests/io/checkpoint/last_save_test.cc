// ModelCheckpoint: after a failed last save.

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "checkpoint_trial.h"

namespace ringlet {
namespace {

using Names = std::vector<std::string>;

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
    const Status full = fit_once(/*fills=*/true);
    EXPECT_EQ(full.code(), Code::kResourceExhausted) << full.message();
    EXPECT_EQ(run.files.Paths().size(), 2u);
    run.files.set_capacity(-1);
    EXPECT_OK(fit_once(/*fills=*/false));
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
    EXPECT_FALSE(fit_once(/*fills=*/true).ok());
    files.set_capacity(-1);
    EXPECT_OK(fit_once(/*fills=*/false));
    EXPECT_EQ(files.Paths(), (Names{"0.25.safetensors", "0.5.safetensors"}));
  }
}

// The end of a fit gives the model other weights, and the second try writes the
// weights of the save that failed.
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
  EXPECT_FALSE(fit_once(/*fills=*/true).ok());
  run.files.set_capacity(-1);
  EXPECT_OK(fit_once(/*fills=*/false));
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
  EXPECT_FALSE(fit_once(/*fills=*/true).ok());
  files.set_capacity(-1);
  const Status resumed = fit_once(/*fills=*/false);
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
