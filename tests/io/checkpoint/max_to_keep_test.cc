// ModelCheckpoint: max_to_keep.

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "checkpoint_trial.h"
#include "io/files/path.h"

namespace ringlet {
namespace {

using Names = std::vector<std::string>;

ModelCheckpointOptions Keep(int most) {
  ModelCheckpointOptions options;
  options.max_to_keep = most;
  return options;
}

void WriteOn(SimulatedFileSystem* files, const std::string& path,
             const std::string& text) {
  std::unique_ptr<File> file;
  ASSERT_OK(files->MakeFolder(FolderOf(path)));
  (void)files->Remove(path);
  ASSERT_OK(files->Create(path, &file));
  ASSERT_OK(file->Write(text.data(), text.size()));
}

// Calls a test's function after an epoch, for example to replace a file.
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
  ASSERT_OK(run.Fit("d/{epoch}.keras", Keep(2), 5));
  EXPECT_EQ(run.files.Paths(),
            (Names{"d/0.keras", "d/4.keras", "d/5.keras", "d/other"}));
  EXPECT_TRUE(run.Holds("d/4.keras", 3));
  EXPECT_TRUE(run.Holds("d/5.keras", 4));
  // Another run does not have the list of these files. One name is one file.
  ASSERT_OK(run.Fit("d/{epoch:02d}.keras", Keep(1), 2));
  ASSERT_OK(run.Fit("d/only", Keep(1), 3));
  EXPECT_EQ(run.files.Paths(), (Names{"d/0.keras", "d/02.keras", "d/4.keras",
                                      "d/5.keras", "d/only", "d/other"}));
  EXPECT_TRUE(run.Holds("d/only", run.weights->after_epoch.size() - 1));
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
  ASSERT_OK(TinyModel()->Fit(Points(48).Batch(8), fit));
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
  ASSERT_OK(run.Fit("d/{epoch}", options, 6, {0.1, 0.2, 0.5, 0.3, 0.6, 0.4}));
  EXPECT_EQ(run.files.Paths(), (Names{"d/3", "d/5"}));
  // Without a score every epoch is saved, and the best stays beside them.
  Trial missing;
  ASSERT_OK(missing.Fit("d/{epoch}", options, 6, {0.1, 0.9}));
  EXPECT_EQ(missing.files.Paths(), (Names{"d/2", "d/6"}));
  options.max_to_keep = 1;
  Trial one;
  ASSERT_OK(one.Fit("d/{epoch}", options, 4, {0.1, 0.9}));
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
  ASSERT_OK(model->Fit(Points(48).Batch(8), fit));
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
  ASSERT_OK(fit_to(3, 2));
  EXPECT_EQ(run.files.Paths(), (Names{"d/2", "d/3"}));
  ASSERT_OK(fit_to(4, 2));
  EXPECT_EQ(run.files.Paths(), (Names{"d/3", "d/4"}));
  ASSERT_OK(fit_to(6, 1));
  EXPECT_EQ(run.files.Paths(), Names{"d/6"});
  ASSERT_OK(fit_to(9, 3));
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
  ASSERT_OK(fit_to(1, 1));
  const auto best = *run.files.Content("d/best");
  ASSERT_OK(fit_to(2, 2));
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

// A path may have any ending, so it may be the path of a file that is needed.
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
  ASSERT_OK(model->Fit(Points(48).Batch(8), fit));
  ASSERT_OK(model->Fit(Points(48).Batch(8), fit));
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
  ASSERT_OK(TinyModel()->Fit(Points(48).Batch(8), fit));
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
  ASSERT_OK(TinyModel()->Fit(Points(48).Batch(8), fit));
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
    ASSERT_OK(TinyModel()->Fit(Points(48).Batch(8), fit));
    std::vector<StateSpan> from, to;
    fit.callbacks[0]->AppendState(&from);
    const auto callback = ModelCheckpoint("d/{epoch}", options);
    callback->AppendState(&to);
    ASSERT_EQ(from.back().name, "callback/model_checkpoint/kept");
    std::memcpy(to.back().data, from.back().data, to.back().bytes());
    ASSERT_OK(callback->StateLoaded());
    fit = Quiet(2);
    fit.callbacks = {callback};
    testing::internal::CaptureStderr();
    ASSERT_OK(TinyModel()->Fit(Points(48).Batch(8), fit));
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

}  // namespace
}  // namespace ringlet
