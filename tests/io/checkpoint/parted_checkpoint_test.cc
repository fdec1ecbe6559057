// ModelCheckpoint in an elastic job that parts, or that finds older files on
// its workers' disks: the last writer wins, and the last file has the job's
// bits.

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "core/base/state_names.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

// The weights in a file with any other content; none if there is no such file.
Weights WeightsIn(const std::string& path) {
  SafetensorsReader file;
  Weights out;
  if (!file.Open(PosixFiles(), path).ok()) return out;
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name.rfind(kWeightsPrefix, 0) != 0) continue;
    std::vector<float>& numbers = out[tensor.name];
    numbers.resize(static_cast<size_t>(tensor.shape.elements()));
    EXPECT_OK(file.Read(tensor, numbers.data()));
  }
  return out;
}

Weights WeightsNow(Model* model) {
  std::vector<StateSpan> spans;
  model->weights_state()->AppendState(&spans);
  Weights out;
  for (const StateSpan& span : spans) {
    const float* const data = static_cast<const float*>(span.data);
    out[span.name].assign(data, data + span.shape.elements());
  }
  return out;
}

// Without a path it adds a score to the logs, and comes before the
// ModelCheckpoint. With a path it reads the saved file, and comes after the
// ModelCheckpoint.
class Watch final : public Callback {
 public:
  using AtStep = std::function<void(int64_t step)>;
  explicit Watch(AtStep at_step) : at_step_(std::move(at_step)) {}
  explicit Watch(const std::string& path) : path_(path) {}
  const char* name() const override { return "watch"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (at_step_) at_step_(fit.model->iterations());
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    constexpr double kScores[] = {0.1, 0.4, 0.2, 0.3};
    if (path_.empty()) {
      logs->Set("score", kScores[fit.epoch]);
      return Status();
    }
    weights.push_back(WeightsNow(fit.model));
    saved.push_back(WeightsIn(path_));
    return Status();
  }

  std::vector<Weights> weights, saved;  // one after each epoch

 private:
  const std::string path_;
  const AtStep at_step_;
};

struct Case {
  bool best = false;
  bool weights_only = false;
  int64_t save_freq = 0;
  std::string name() const {
    return weights_only ? "m.weights.safetensors" : "m.safetensors";
  }
};

std::unique_ptr<Sequential> TinyOf(Collective* collective) {
  return TinyModel(Adam(0.01f), /*dropout=*/0.2f, ExactSums(collective, 4));
}

// Trains with a ModelCheckpoint to `path`. `fails` is true if the fit must end
// with an error.
std::shared_ptr<Watch> Train(Collective* collective, const std::string& path,
                             const Case& c, Watch::AtStep at_step,
                             int64_t examples = 203, bool fails = false) {
  const auto model = TinyOf(collective);
  ModelCheckpointOptions saving;
  saving.monitor = "score";
  saving.mode = MonitorMode::kMax;
  saving.save_best_only = c.best;
  saving.save_weights_only = c.weights_only;
  saving.save_freq = c.save_freq;
  const auto watch = std::make_shared<Watch>(path);
  FitOptions fit = Quiet(4);
  fit.callbacks = {std::make_shared<Watch>(std::move(at_step)),
                   ModelCheckpoint(path, saving), watch};
  const Status status =
      model->Fit(Points(examples).Shuffle(3).Batch(40), fit).status();
  EXPECT_EQ(status.ok(), !fails) << status.message();
  return watch;
}

std::shared_ptr<Watch> TrainAlone(const std::string& path, const Case& c,
                                  int64_t examples) {
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0);
  return Train(&collective, path, c, nullptr, examples);
}

// Cuts the job once, at step 2. Worker 0 continues alone. The other worker
// continues when worker 0 has ended.
Watch::AtStep Parts(ElasticCollective* collective, ElasticJob* other,
                    const std::atomic<bool>& ended) {
  return [=, &ended, parted = false](int64_t step) mutable {
    if (step != 2 || parted) return;
    parted = true;
    const bool ahead = collective->worker() == 0;
    if (ahead) collective->MoveTo(other);
    while (!ahead && !ended) std::this_thread::yield();
  };
}

// Runs each of the job's workers on a thread of its own; the threads begin
// together. Returns the text that they wrote to stderr.
std::string OnAll(ElasticJob* job, int workers,
                  const std::function<void(int, ElasticCollective*)>& live) {
  testing::internal::CaptureStderr();
  RunWorkers(job, workers, [&](int w) {
    ElasticCollective collective(job, w);
    live(w, &collective);
  });
  return testing::internal::GetCapturedStderr();
}

// time              event                              expected in the file
// before            a run of other data saves          its model
// step 2            the job parts; worker 1 waits
// each save of 0    worker 0 trains alone to its end   its best model so far
// each save of 1    worker 1 trains alone to its end   its best model so far
// end               both have the same weights         the best of all epochs
// next run, save 1  a run of other data saves          its model
TEST(PartedCheckpointTest, OneDisk_JobParts_EachSaveReplacesAndTheEndIsOne) {
  struct {
    Case c;
    size_t best;  // the best of four epochs
  } cases[] = {{{false, false, 0}, 3},
               {{false, true, 0}, 3},
               {{true, false, 0}, 1},
               {{true, true, 0}, 1},
               {{false, false, 1}, 3}};
  for (const auto& each : cases) {
    const Case& c = each.c;
    const size_t best = each.best;
    SCOPED_TRACE(c.name() + ", best: " + std::to_string(best) +
                 ", save_freq: " + std::to_string(c.save_freq));
    TempFolder folder;
    const std::string path = folder / c.name();
    TrainAlone(path, c, 101);
    ElasticJob job, other;
    std::shared_ptr<Watch> parts[2];
    std::atomic<bool> ended{false};
    OnAll(&job, 2, [&](int w, ElasticCollective* collective) {
      parts[w] = Train(collective, path, c, Parts(collective, &other, ended));
      if (w == 0) ended = true;
    });
    ASSERT_EQ(parts[0]->weights.size(), 4u);
    EXPECT_EQ(parts[0]->weights, parts[1]->weights);
    for (const auto& part : parts) {
      for (size_t epoch = 0; epoch < 4; ++epoch) {
        EXPECT_TRUE(part->saved[epoch] == part->weights[std::min(epoch, best)])
            << epoch;
      }
    }
    const auto next = TrainAlone(path, c, 61);
    EXPECT_TRUE(next->saved[0] == next->weights[0]);
  }
}

// time    event                                       expected in the file
// step 2  the job parts; worker 1 waits
// later   worker 0 ends its second fit alone          the second fit's model
// later   worker 1 begins its second fit              its own first fit's model
// end     worker 1 has ended its second fit too       the second fit's model
TEST(PartedCheckpointTest, OneDisk_PartIsAFitBehind_TheEndIsOne) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  ElasticJob job, other;
  std::shared_ptr<Watch> parts[2];
  std::atomic<bool> ended{false};
  OnAll(&job, 2, [&](int w, ElasticCollective* collective) {
    parts[w] = std::make_shared<Watch>(path);
    const auto model = TinyOf(collective);
    FitOptions fit = Quiet(4);
    fit.callbacks = {std::make_shared<Watch>(Parts(collective, &other, ended)),
                     ModelCheckpoint(path, {}), parts[w]};
    for (int fits = 0; fits < 2; ++fits) {
      EXPECT_OK(model->Fit(Points(203).Shuffle(3).Batch(40), fit).status());
    }
    if (w == 0) ended = true;
  });
  ASSERT_EQ(parts[0]->weights.size(), 8u);
  EXPECT_EQ(parts[0]->weights, parts[1]->weights);
  for (const auto& part : parts) EXPECT_TRUE(part->saved == part->weights);
}

// time     event                                     expected
// before   a run of other data has saved on disk 1   its model on disk 1
// step 0   worker 0, the chief, is lost              no file on disk 0
// saves    worker 1 trains alone                     each epoch's on disk 1
TEST(PartedCheckpointTest, OwnDisks_ChiefIsLost_NextChiefReplacesItsOlderFile) {
  TempFolder folders[2];
  const std::string paths[] = {folders[0] / "m.safetensors",
                               folders[1] / "m.safetensors"};
  for (const int64_t examples : {203, 101}) {
    SCOPED_TRACE(examples);
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    std::thread lost([&] {
      ElasticCollective collective(&job, 0);
      const auto end_worker = [&](int64_t) { collective.EndInNextCall(); };
      Train(&collective, paths[0], {}, end_worker, examples, /*fails=*/true);
    });
    ElasticCollective collective(&job, 1);
    const auto run = Train(&collective, paths[1], {}, nullptr, examples);
    lost.join();
    EXPECT_TRUE(run->saved == run->weights);
    EXPECT_TRUE(ReadWhole(paths[0]).empty());
  }
}

// time    event                                      expected
// before  a run of other data has saved on disk 0    its model on disk 0
// step 2  worker 0 joins, and becomes the chief
// saves   both train on                              the best so far on disk 0
TEST(PartedCheckpointTest, OwnDisks_JoinerIsTheChief_ReplacesItsOlderFile) {
  for (const Case& c :
       {Case{false, false, 0}, Case{true, false, 0}, Case{true, true, 0}}) {
    SCOPED_TRACE(c.name() + (c.best ? ", best" : ""));
    TempFolder folders[2];
    const std::string paths[] = {folders[0] / c.name(), folders[1] / c.name()};
    TrainAlone(paths[0], c, 101);
    ElasticJob job;
    job.Arrive(1);
    std::shared_ptr<Watch> joiner;
    std::thread joins;
    {
      ElasticCollective collective(&job, 1);
      Train(&collective, paths[1], c, [&](int64_t step) {
        if (step != 2 || joins.joinable()) return;
        job.Arrive(0);
        joins = std::thread([&] {
          ElasticCollective first(&job, 0);
          joiner = Train(&first, paths[0], c, nullptr);
        });
        while (!job.has_joiner()) std::this_thread::yield();
      });
    }
    joins.join();
    ASSERT_EQ(joiner->weights.size(), 4u);
    for (size_t epoch = 0; epoch < 4; ++epoch) {
      const size_t best = c.best ? std::min<size_t>(epoch, 1) : epoch;
      EXPECT_TRUE(joiner->saved[epoch] == joiner->weights[best]) << epoch;
    }
  }
}

// A worker's path is its own, and so is whether it names the epoch.
TEST(PartedCheckpointTest, Join_PathOfAnotherKind_EndsNoWorker) {
  testing::internal::CaptureStderr();
  for (const bool fixed : {false, true}) {
    SCOPED_TRACE(fixed);
    TempFolder folder;
    const std::string names[] = {folder / "m.safetensors",
                                 folder / "m{epoch}.safetensors"};
    ElasticJob job;
    job.Arrive(0);
    std::thread comes;
    {
      ElasticCollective collective(&job, 0);
      const auto calls = [&](int64_t step) {
        if (step != 2 || comes.joinable()) return;
        job.Arrive(1);
        comes = std::thread([&] {
          ElasticCollective other(&job, 1);
          Train(&other, names[fixed ? 1 : 0], {}, nullptr);
        });
        while (!job.has_joiner()) std::this_thread::yield();
      };
      Train(&collective, names[fixed ? 0 : 1], {}, calls);
    }
    comes.join();
  }
  testing::internal::GetCapturedStderr();
}

// The next chief's disk has a file in the place of the folder. The other
// workers continue to train.
TEST(PartedCheckpointTest, ChiefIsLost_NextChiefsPathIsUnusable_TrainsOn) {
  TempFolder folders[2];
  const std::string paths[] = {folders[0] / "run/m.safetensors",
                               folders[1] / "run/m.safetensors"};
  WriteWhole(folders[1] / "run", "a file");
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  testing::internal::CaptureStderr();
  std::thread lost([&] {
    ElasticCollective collective(&job, 0);
    const auto end_worker = [&](int64_t) { collective.EndInNextCall(); };
    Train(&collective, paths[0], {}, end_worker, 203, /*fails=*/true);
  });
  {
    ElasticCollective collective(&job, 1);
    const auto watch = Train(&collective, paths[1], {}, nullptr, 203,
                             /*fails=*/true);  // fails at the end of the fit
    EXPECT_EQ(watch->weights.size(), 4u);
  }
  lost.join();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "training continues: " + folders[1].path()));
}

// An elastic job, one that is not elastic, and one that finds no model there.
TEST(PartedCheckpointTest, Restart_OverAnyOlderFile_FirstSaveReplacesIt) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  TrainAlone(path, {}, 101);
  const auto run = Train(nullptr, path, {}, nullptr);
  EXPECT_TRUE(run->saved[0] == run->weights[0]);
  std::ofstream(path) << "no model";
  const auto next = TrainAlone(path, {}, 101);
  EXPECT_TRUE(next->saved[0] == next->weights[0]);
}

// Another part of the job may replace the file of ModelCheckpoint after the
// end.
TEST(PartedCheckpointTest, End_ElasticJob_SaveWhenTrainedHasAFileOfItsOwn) {
  for (const bool elastic : {false, true}) {
    SCOPED_TRACE(elastic);
    TempFolder folder;
    ElasticJob job;
    job.Arrive(0);
    ElasticCollective collective(&job, 0);
    const auto model = TinyOf(elastic ? &collective : nullptr);
    SaveWhenTrainedOptions saving;
    saving.skip_if_saved = true;
    FitOptions fit = Quiet(1);
    fit.callbacks = {ModelCheckpoint(folder / "c.safetensors", {}),
                     SaveWhenTrained(folder / "m.safetensors", saving)};
    ASSERT_OK(model->Fit(Points(101).Batch(40), fit));
    EXPECT_EQ(!ReadWhole(folder / "m.safetensors").empty(), elastic);
  }
}

// Earlier versions wrote these keys, by which the parts of a job found each
// other.
TEST(PartedCheckpointTest, File_KeysOfEarlierVersions_IsReadAndReplaced) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  const auto trained = TinyOf(nullptr);
  SaveModelOptions saving;
  saving.metadata = {
      {"attempt", "7"},        {"fit", "2"},
      {"epoch", "3"},          {"step", "40"},
      {"uncompared", "0:0:9"}, {"named", "3:1:12 5:2:4294967295"}};
  ASSERT_OK(SaveModel(trained.get(), path, saving));
  std::unique_ptr<Model> loaded;
  ASSERT_OK(LoadModel(path, &loaded));
  EXPECT_TRUE(WeightsNow(loaded.get()) == WeightsNow(trained.get()));
  const auto run = TrainAlone(path, {}, 101);
  EXPECT_TRUE(run->saved == run->weights);
  SafetensorsReader file;
  ASSERT_OK(file.Open(PosixFiles(), path));
  for (const auto& [key, value] : saving.metadata) {
    EXPECT_EQ(file.metadata().count(key), 0u) << key;
  }
}

}  // namespace
}  // namespace ringlet
