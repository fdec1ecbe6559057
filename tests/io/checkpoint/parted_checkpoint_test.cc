// ModelCheckpoint on one disk for all, of an elastic job that comes to be in
// two parts: what the one that is ahead has saved stays.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/one_bit_layer.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/checkpoint/safetensors.h"
#include "io/checkpoint/saving_callbacks.h"

namespace ringlet {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

// In a file, whatever else is there; none: no such file.
Weights WeightsIn(const std::string& path, Metadata* metadata) {
  SafetensorsReader file;
  Weights out;
  if (!file.Open(FileSystem::Posix(), path).ok()) return out;
  *metadata = file.metadata();
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name.rfind(kWeightsPrefix, 0) != 0) continue;
    std::vector<float>& numbers = out[tensor.name];
    numbers.resize(static_cast<size_t>(tensor.shape.elements()));
    EXPECT_TRUE(file.Read(tensor, numbers.data()).ok());
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

// Gives the logs a score, in front of a ModelCheckpoint; behind one it looks at
// what it has saved.
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
    saved.push_back(WeightsIn(path_, &metadata));
    return Status();
  }

  std::vector<Weights> weights, saved;  // after each epoch
  Metadata metadata;                    // of the last one

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

// One that is alone has a score of its own, by the numbers in its weights.
class ScoresAlone final : public Callback {
 public:
  const char* name() const override { return "scores_alone"; }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (fit.model->collective()->size() == 1) {
      logs->Set("score", 0.5 + 0.1 * static_cast<double>(fit.epoch));
    }
    return Status();
  }
};

std::unique_ptr<Sequential> WithLayer(std::shared_ptr<OneBitLayer> layer,
                                      const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  for (const Layer& part : {Input({2}), Dense(16, kRelu), Custom(layer)}) {
    model->Add(part);
  }
  model->Add(Dense(3));
  model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

CompileOptions ExactOn(Collective* collective) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 4;
  return options;
}

std::unique_ptr<Sequential> TinyOf(Collective* collective) {
  return TinyModel(Adam(0.01f), /*dropout=*/0.2f, ExactOn(collective));
}

// Trains with a ModelCheckpoint to `path`. `dies`: this worker does. With a
// layer it scores alone.
std::shared_ptr<Watch> Train(Collective* collective, const std::string& path,
                             const Case& c, Watch::AtStep at_step,
                             int64_t examples = 203, bool dies = false,
                             std::shared_ptr<OneBitLayer> layer = nullptr) {
  const auto model = layer == nullptr ? TinyOf(collective)
                                      : WithLayer(layer, ExactOn(collective));
  ModelCheckpointOptions saving;
  saving.monitor = "score";
  saving.mode = MonitorMode::kMax;
  saving.save_best_only = c.best;
  saving.save_weights_only = c.weights_only;
  saving.save_freq = c.save_freq;
  const auto watch = std::make_shared<Watch>(path);
  FitOptions fit = Quiet(4);
  fit.callbacks = {std::make_shared<Watch>(std::move(at_step))};
  if (layer != nullptr)
    fit.callbacks.push_back(std::make_shared<ScoresAlone>());
  fit.callbacks.push_back(ModelCheckpoint(path, saving));
  fit.callbacks.push_back(watch);
  const Status status =
      model->Fit(Points(examples).Shuffle(3).Batch(40), fit).status();
  EXPECT_EQ(status.ok(), !dies) << status.message();
  return watch;
}

std::shared_ptr<Watch> TrainAlone(const std::string& path, const Case& c,
                                  int64_t examples) {
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0, 1 << 30);
  return Train(&collective, path, c, nullptr, examples);
}

// At step 2, once: worker 0 goes on alone, and the others when it has ended.
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

// Each of the job's workers on a thread of its own, which begin together; what
// they wrote to stderr.
std::string OnAll(ElasticJob* job, int workers,
                  const std::function<void(int, ElasticCollective*)>& live) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) job->Arrive(w);
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(job, w, 1 << 30);
      live(w, &collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return testing::internal::GetCapturedStderr();
}

// Worker 0 goes on alone, to the end, and then worker 1.
void ExpectTheLaterStays(const Case& c, size_t expected) {
  TempFolder folder;
  const std::string path = folder / c.name();
  TrainAlone(path, c, 101);  // of an older run
  ElasticJob job, other;
  std::shared_ptr<Watch> parts[2];
  std::atomic<bool> ended{false};
  const auto live = [&](int w, ElasticCollective* collective) {
    parts[w] = Train(collective, path, c, Parts(collective, &other, ended));
    if (w == 0) ended = true;
  };
  const std::string said = OnAll(&job, 2, live);
  EXPECT_NE(said.find("this job, or another part of it"), std::string::npos)
      << said;
  ASSERT_EQ(parts[0]->weights.size(), 4u);
  EXPECT_EQ(parts[0]->weights, parts[1]->weights);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    SCOPED_TRACE(epoch);
    const size_t ahead = std::min(epoch, expected);  // the first is no best
    EXPECT_TRUE(parts[0]->saved[epoch] == parts[0]->weights[ahead]);
    EXPECT_TRUE(parts[1]->saved[epoch] == parts[0]->weights[expected]);
  }
  EXPECT_EQ(parts[1]->metadata["attempt"], "2");
  EXPECT_EQ(parts[1]->metadata["epoch"], std::to_string(expected));
  // Another run, of other data, replaces it at its first save.
  const auto next = TrainAlone(path, c, 61);
  EXPECT_TRUE(next->saved[0] == next->weights[0]);
  EXPECT_EQ(next->metadata["attempt"], "3");
}

TEST(PartedCheckpointTest, ThePartThatIsBehindWritesOverNothing) {
  for (const bool weights_only : {false, true}) {
    SCOPED_TRACE(weights_only);
    ExpectTheLaterStays({false, weights_only, 0}, 3);
  }
}

TEST(PartedCheckpointTest, TheBetterModelStays) {
  for (const bool weights_only : {false, true}) {
    SCOPED_TRACE(weights_only);
    ExpectTheLaterStays({true, weights_only, 0}, 1);
  }
}

TEST(PartedCheckpointTest, WithinAnEpochToo) {
  ExpectTheLaterStays({false, false, 1}, 3);
}

// Worker 0 goes on alone, to the end of a second fit, and then worker 1 with
// the first one.
TEST(PartedCheckpointTest, ThePartThatIsAFitBehindWritesOverNothing) {
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
      const auto history = model->Fit(Points(203).Shuffle(3).Batch(40), fit);
      EXPECT_TRUE(history.ok()) << history.status().message();
    }
    if (w == 0) ended = true;
  });
  ASSERT_EQ(parts[0]->weights.size(), 8u);
  EXPECT_EQ(parts[0]->weights, parts[1]->weights);
  for (size_t epoch = 0; epoch < 8; ++epoch) {
    SCOPED_TRACE(epoch);
    EXPECT_TRUE(parts[0]->saved[epoch] == parts[0]->weights[epoch]);
    EXPECT_TRUE(parts[1]->saved[epoch] == parts[0]->weights[7]);
  }
  EXPECT_EQ(parts[1]->metadata["attempt"], "1");
  EXPECT_EQ(parts[1]->metadata["fit"], "1");
  // Another run replaces it at its first save.
  const auto next = TrainAlone(path, {}, 61);
  EXPECT_TRUE(next->saved[0] == next->weights[0]);
  EXPECT_EQ(next->metadata["attempt"], "2");
}

// Of two workers the first has used its callback for a fit of its own before
// the job's: once it is lost the other saves all the same.
TEST(PartedCheckpointTest, ACallbackThatHasServedOneWorkerMoreHoldsUpNoOther) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  testing::internal::CaptureStderr();
  std::thread lost([&] {
    FitOptions fit = Quiet(4);
    const auto saves = ModelCheckpoint(path, {});
    fit.callbacks = {saves};
    const Dataset data = Points(203).Shuffle(3).Batch(40);
    EXPECT_TRUE(TinyOf(nullptr)->Fit(data, fit).ok());
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto dies = [&](int64_t step) {
      if (step == 8) collective.DieInNextCall();
    };
    fit.callbacks = {std::make_shared<Watch>(dies), saves,
                     std::make_shared<Watch>(path)};
    EXPECT_FALSE(TinyOf(&collective)->Fit(data, fit).ok());
  });
  ElasticCollective collective(&job, 1, 1 << 30);
  const auto run = Train(&collective, path, {}, nullptr);
  lost.join();
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(run->weights.size(), 4u);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_TRUE(run->saved[epoch] == run->weights[epoch]) << epoch;
  }
}

// Worker 0 goes on alone, to the end of a second fit; of the two others one is
// lost as they begin that.
TEST(PartedCheckpointTest, ALossAsTheNextFitBeginsIsNoOtherAttempt) {
  TempFolder folder, backups[3];
  const std::string path = folder / "m.safetensors";
  ElasticJob job, other;
  std::shared_ptr<Watch> parts[3];
  std::atomic<bool> ended{false};
  OnAll(&job, 3, [&](int w, ElasticCollective* collective) {
    parts[w] = std::make_shared<Watch>(path);
    const auto model = TinyOf(collective);
    LambdaCallbackOptions lambda;
    int fits = 0;
    lambda.on_train_begin = [&] {
      if (w == 2 && fits == 1) collective->DieInNextCall();
    };
    FitOptions fit = Quiet(4);
    fit.callbacks = {std::make_shared<Watch>(Parts(collective, &other, ended)),
                     ModelCheckpoint(path, {}), LambdaCallback(lambda),
                     BackupAndRestore(backups[w].path()), parts[w]};
    for (; fits < 2; ++fits) {
      const auto history = model->Fit(Points(203).Shuffle(3).Batch(40), fit);
      EXPECT_EQ(history.ok(), w != 2 || fits == 0)
          << history.status().message();
    }
    if (w == 0) ended = true;
  });
  ASSERT_EQ(parts[1]->weights.size(), 8u);
  for (size_t epoch = 0; epoch < 8; ++epoch) {
    SCOPED_TRACE(epoch);
    EXPECT_TRUE(parts[1]->saved[epoch] == parts[0]->weights[7]);
  }
}

void CopyState(Saveable* from, Saveable* to) {
  std::vector<StateSpan> given, taken;
  from->AppendState(&given);
  to->AppendState(&taken);
  ASSERT_EQ(given.size(), taken.size());
  for (size_t i = 0; i < given.size(); ++i) {
    std::memcpy(taken[i].data, given[i].data, given[i].bytes());
  }
  EXPECT_TRUE(to->StateLoaded().ok());
}

// The last worker of four computes wrong, is named, and is started again while
// the first fit goes on; in that of the next model it is lost between two
// comparisons. What is of before the verdict is of the other model. `loads`:
// the next one goes on with the other's state.
void ExpectAVerdictIsOnOneModel(bool loads) {
  TempFolder folder;
  const std::string path = folder / "m.weights.safetensors";
  ModelCheckpointOptions saving;
  saving.save_weights_only = true;
  ElasticJob job;
  std::vector<std::shared_ptr<Watch>> parts(4);
  std::atomic<bool> back{false};
  std::vector<std::thread> threads;
  testing::internal::CaptureStderr();
  for (int w = 0; w < 4; ++w) job.Arrive(w);
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      for (int life = 0; life < (w == 3 ? 2 : 1); ++life) {
        if (life == 1) job.Arrive(w);
        ElasticCollective collective(&job, w, 1 << 30);
        const auto layer = std::make_shared<OneBitLayer>(24);
        int fits = 0;
        const int64_t last = loads ? 27 : 3;
        const auto at_step = [&](int64_t step) {
          if (w == 3 && life == 0 && step == 1) layer->Break();
          if (w == 3 && fits == 1 && step == last) collective.DieInNextCall();
          if (w == 3 && life == 1) back = true;
          if (w != 1 || step != 9) return;
          while (!back && !job.visited()) std::this_thread::yield();
        };
        parts[w] = std::make_shared<Watch>(path);
        FitOptions fit = Quiet(4);
        fit.callbacks = {std::make_shared<Watch>(at_step),
                         ModelCheckpoint(path, saving), parts[w]};
        std::unique_ptr<Sequential> before;
        for (; fits < 2; ++fits) {
          auto model = WithLayer(layer, ExactOn(&collective));
          if (fits == 1 && loads) {
            CopyState(before->weights_state(), model->weights_state());
            CopyState(before->optimizer_state(), model->optimizer_state());
          }
          const Dataset data = Points(fits == 0 ? 203 : 161).Shuffle(3);
          const Status status = model->Fit(data.Batch(40), fit).status();
          EXPECT_EQ(status.ok(), w != 3 || (life == 1 && fits == 0))
              << w << " " << life << " " << fits << " " << status.message();
          if (!status.ok()) break;
          before = std::move(model);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(parts[0]->weights.size(), 8u);
  for (size_t epoch = 0; epoch < 8; ++epoch) {
    EXPECT_TRUE(parts[0]->saved[epoch] == parts[0]->weights[epoch]) << epoch;
  }
}

TEST(PartedCheckpointTest, AVerdictIsOnOneModel) {
  for (const bool loads : {false, true}) {
    SCOPED_TRACE(loads);
    ExpectAVerdictIsOnOneModel(loads);
  }
}

// The last worker of four computes wrong from step `from` on, and is named by
// those without the first one, which was cut off after three steps, and saves
// alone what is the best by far.
std::vector<std::shared_ptr<Watch>> NamesOne(const std::string& path,
                                             const Case& c, int64_t from) {
  ElasticJob job, other;
  std::vector<std::shared_ptr<Watch>> parts(4);
  std::atomic<bool> ahead{false}, calls{false};
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; ++w) job.Arrive(w);
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(&job, w, 1 << 30);
      const auto layer = std::make_shared<OneBitLayer>(24);
      int gone = 0;
      const auto at_step = [&](int64_t step) {
        if (w == 3 && step == from) layer->Break();
        if (w == 0 && step == 3 && gone == 0) {
          ++gone;
          collective.MoveTo(&other);
        } else if (w == 0 && step == 20 && gone == 1) {
          ++gone;
          ahead = true;
          while (!calls) std::this_thread::yield();
          collective.MoveTo(&job);
        } else if (w == 1 && step == 9 && gone == 0) {
          ++gone;
          while (!ahead) std::this_thread::yield();
        } else if (w == 1 && step == 14 && gone == 1) {
          ++gone;
          calls = true;
          while (!job.visited()) std::this_thread::yield();
        }
      };
      parts[w] = Train(&collective, path, c, at_step, 203,
                       /*dies=*/w == 3, layer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return parts;
}

// What one has saved alone that was cut off with a wrong machine's numbers in
// its weights is of no later step of the run of those who have named that.
TEST(PartedCheckpointTest, WhatIsOfBeforeAVerdictIsReplaced) {
  TempFolder folder;
  const Case c = {/*best=*/true, /*weights_only=*/true};
  const std::string path = folder / c.name();
  const auto parts = NamesOne(path, c, /*from=*/2);
  ASSERT_EQ(parts[1]->weights.size(), 4u);
  EXPECT_EQ(parts[0]->weights.back(), parts[1]->weights.back());
  Metadata metadata;
  EXPECT_TRUE(WeightsIn(path, &metadata) == parts[1]->weights[1]);
  EXPECT_EQ(metadata["epoch"], "1");
  EXPECT_EQ(metadata["attempt"], "1");
}

// … but where the machine was right until then it is, and it stays: so does
// what that one has, and its best model is not saved again.
TEST(PartedCheckpointTest, WhatHasNoNumbersOfAWrongOneStays) {
  TempFolder folder;
  const Case c = {/*best=*/true, /*weights_only=*/true};
  const std::string path = folder / c.name();
  const auto parts = NamesOne(path, c, /*from=*/5);
  ASSERT_EQ(parts[0]->weights.size(), 4u);
  Metadata metadata;
  EXPECT_TRUE(WeightsIn(path, &metadata) == parts[0]->weights[2]);
  EXPECT_EQ(metadata["epoch"], "2");
  EXPECT_EQ(metadata["attempt"], "1");
}

// Of two workers with disks of their own the first is lost before it has saved
// anything. What an older run has left on the second's is not this one's.
TEST(PartedCheckpointTest, AnOlderFileOfOneThatBecomesTheChiefIsReplaced) {
  TempFolder folders[2];
  const std::string paths[] = {folders[0] / "m.safetensors",
                               folders[1] / "m.safetensors"};
  for (const int64_t examples : {203, 101}) {
    SCOPED_TRACE(examples);
    ElasticJob job;
    for (int w = 0; w < 2; ++w) job.Arrive(w);
    std::thread lost([&] {
      ElasticCollective collective(&job, 0, 1 << 30);
      const auto dies = [&](int64_t) { collective.DieInNextCall(); };
      Train(&collective, paths[0], {}, dies, examples, /*dies=*/true);
    });
    ElasticCollective collective(&job, 1, 1 << 30);
    const auto run = Train(&collective, paths[1], {}, nullptr, examples);
    lost.join();
    ASSERT_EQ(run->weights.size(), 4u);
    for (size_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_TRUE(run->saved[epoch] == run->weights[epoch]) << epoch;
    }
    EXPECT_TRUE(ReadWhole(paths[0]).empty());
  }
}

// Of two workers with disks of their own the first comes when the other has
// counted the runs: what an older one has left there is of no later step.
void ExpectWhoComesLateReplaces(const Case& c) {
  TempFolder folders[2];
  const std::string paths[] = {folders[0] / c.name(), folders[1] / c.name()};
  TrainAlone(paths[0], c, 101);
  ElasticJob job;
  job.Arrive(1);
  std::shared_ptr<Watch> late;
  std::thread comes;
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    Train(&collective, paths[1], c, [&](int64_t step) {
      if (step != 2 || comes.joinable()) return;
      job.Arrive(0);
      comes = std::thread([&] {
        ElasticCollective first(&job, 0, 1 << 30);
        late = Train(&first, paths[0], c, nullptr);
      });
      while (!job.visited()) std::this_thread::yield();
    });
  }
  comes.join();
  ASSERT_EQ(late->weights.size(), 4u);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    const size_t best = c.best ? std::min<size_t>(epoch, 1) : epoch;
    EXPECT_TRUE(late->saved[epoch] == late->weights[best]) << epoch;
  }
  EXPECT_EQ(late->metadata["attempt"], "2");
}

TEST(PartedCheckpointTest, AnOlderFileOfOneThatComesLateIsReplaced) {
  for (const bool best : {false, true}) {
    SCOPED_TRACE(best);
    ExpectWhoComesLateReplaces({best, false, 0});
    ExpectWhoComesLateReplaces({best, true, 0});
  }
}

// … also where that is of no later step as it comes, but is once the others
// have named one as they compared with it, and gone back. Each has its own
// disk.
TEST(PartedCheckpointTest, AnOlderFileIsReplacedByThoseWhoGoBack) {
  TempFolder folders[4];
  std::string paths[4];
  const Case all = {false, /*weights_only=*/true}, best = {true, true};
  for (int w = 0; w < 4; ++w) paths[w] = folders[w] / all.name();
  ElasticJob before;
  before.Arrive(0);
  std::string third;
  {
    ElasticCollective collective(&before, 0, 1 << 30);
    const auto reads = [&](int64_t step) {
      if (step == 18) third = ReadWhole(paths[0]);
    };
    Train(&collective, paths[0], all, reads);
  }
  WriteWhole(paths[0], third);
  ElasticJob job;
  for (int w = 1; w < 4; ++w) job.Arrive(w);
  std::shared_ptr<Watch> runs[4];
  std::atomic<bool> called{false};
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      while (w == 0 && !called) std::this_thread::yield();
      if (w == 0) job.Arrive(0);
      ElasticCollective collective(&job, w, 1 << 30);
      const auto layer = std::make_shared<OneBitLayer>(24);
      const auto at_step = [&](int64_t step) {
        if (w == 3 && step == 13) layer->Break();
        if (w != 1 || step != 19 || called) return;
        called = true;
        while (!job.visited()) std::this_thread::yield();
      };
      runs[w] = Train(&collective, paths[w], best, at_step, 203,
                      /*dies=*/w == 3, layer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(runs[0]->weights.size(), 4u);
  EXPECT_TRUE(runs[0]->saved[3] == runs[0]->weights[1]);
  EXPECT_EQ(runs[0]->metadata["epoch"], "1");
}

// Two come, each with an older file on its own disk: what the job counts for
// one of them is more than the other's has, which becomes the chief later.
TEST(PartedCheckpointTest, OlderFilesOfSeveralWhoComeAreReplaced) {
  TempFolder folders[3];
  std::string paths[3];
  const Case all = {false, /*weights_only=*/true}, best = {true, true};
  for (int w = 0; w < 3; ++w) paths[w] = folders[w] / all.name();
  for (const int older : {1, 1, 2}) TrainAlone(paths[older], all, 101);
  ElasticJob job;
  job.Arrive(0);
  std::shared_ptr<Watch> runs[3];
  std::vector<std::thread> threads;
  {
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto calls = [&](int64_t step) {
      if (step == 8) return collective.DieInNextCall();
      const int w = static_cast<int>(threads.size()) + 1;
      if (w > 2 || step != 2 * w) return;
      job.Arrive(w);
      threads.emplace_back([&, w] {
        ElasticCollective comes(&job, w, 1 << 30);
        runs[w] = Train(&comes, paths[w], best, nullptr);
      });
      while (!job.visited()) std::this_thread::yield();
    };
    Train(&collective, paths[0], best, calls, 203, /*dies=*/true);
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(runs[1]->weights.size(), 4u);
  EXPECT_TRUE(runs[1]->saved[3] == runs[1]->weights[1]);
  EXPECT_EQ(runs[1]->metadata["epoch"], "1");
}

// The one that comes is cut off from the only other as their files are counted,
// and goes on alone: the one disk's file is of this job.
TEST(PartedCheckpointTest, AFileOfThisJobStaysWhereNobodyIsThereToSaySo) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  ElasticJob job, other;
  job.Arrive(1);
  std::shared_ptr<Watch> late, run;
  std::atomic<bool> ended{false};
  std::thread comes;
  testing::internal::CaptureStderr();
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    run = Train(&collective, path, {}, [&](int64_t step) {
      if (collective.reforms() > 2) {
        while (!ended) std::this_thread::yield();
      }
      if (step != 8 || comes.joinable()) return;
      collective.MoveInGather((4 + 2 * 64) * sizeof(int64_t), &other);
      job.Arrive(0);
      comes = std::thread([&] {
        ElasticCollective first(&job, 0, 1 << 30);
        late = Train(&first, path, {}, nullptr);
        ended = true;
      });
      while (!job.visited()) std::this_thread::yield();
    });
  }
  comes.join();
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(run->weights.size(), 4u);
  for (size_t epoch = 1; epoch < 4; ++epoch) {
    EXPECT_TRUE(run->saved[epoch] == run->weights[3]) << epoch;
  }
  EXPECT_EQ(run->metadata["attempt"], "1");
}

// Worker 2 of three is lost in its call number `dies` since worker 0 came,
// which may cut off what that is given, or the count.
void ExpectALossChangesNothing(int dies) {
  TempFolder folders[3];
  std::string paths[3];
  for (int w = 0; w < 3; ++w) paths[w] = folders[w] / "m.safetensors";
  TrainAlone(paths[0], {}, 101);
  ElasticJob job;
  job.Arrive(1);
  job.Arrive(2);
  std::shared_ptr<Watch> late;
  std::atomic<bool> called{false};
  std::thread comes([&] {
    while (!called) std::this_thread::yield();
    job.Arrive(0);
    ElasticCollective collective(&job, 0, 1 << 30);
    late = Train(&collective, paths[0], {}, nullptr);
  });
  std::thread lost([&] {
    ElasticCollective collective(&job, 2, 1 << 30);
    const auto dies_later = [&](int64_t step) {
      if (step != 2 || called) return;
      collective.DieAfterReform(dies);
      called = true;
      while (!job.visited()) std::this_thread::yield();
    };
    Train(&collective, paths[2], {}, dies_later, 203, /*dies=*/true);
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    Train(&collective, paths[1], {}, nullptr);
  }
  lost.join();
  comes.join();
  ASSERT_EQ(late->weights.size(), 4u);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_TRUE(late->saved[epoch] == late->weights[epoch]) << epoch;
  }
}

TEST(PartedCheckpointTest, AnOlderFileIsReplacedWhoeverIsLostMeanwhile) {
  testing::internal::CaptureStderr();
  for (int dies = 1; dies <= 30; ++dies) {
    SCOPED_TRACE(dies);
    ExpectALossChangesNothing(dies);
  }
  testing::internal::GetCapturedStderr();
}

// A worker's path is its own, and so is whether it names the epoch.
TEST(PartedCheckpointTest, WhoComesWithANameOfAnotherKindEndsNobody) {
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
      ElasticCollective collective(&job, 0, 1 << 30);
      const auto calls = [&](int64_t step) {
        if (step != 2 || comes.joinable()) return;
        job.Arrive(1);
        comes = std::thread([&] {
          ElasticCollective other(&job, 1, 1 << 30);
          Train(&other, names[fixed ? 1 : 0], {}, nullptr);
        });
        while (!job.visited()) std::this_thread::yield();
      };
      Train(&collective, names[fixed ? 0 : 1], {}, calls);
    }
    comes.join();
  }
  testing::internal::GetCapturedStderr();
}

// Its disk has a file where the folder is to be: the others' training goes on.
TEST(PartedCheckpointTest, APathThatCannotBeUsedEndsNoRunThatGoesOn) {
  TempFolder folders[2];
  const std::string paths[] = {folders[0] / "run/m.safetensors",
                               folders[1] / "run/m.safetensors"};
  WriteWhole(folders[1] / "run", "a file");
  ElasticJob job;
  for (int w = 0; w < 2; ++w) job.Arrive(w);
  testing::internal::CaptureStderr();
  std::thread lost([&] {
    ElasticCollective collective(&job, 0, 1 << 30);
    const auto dies = [&](int64_t) { collective.DieInNextCall(); };
    Train(&collective, paths[0], {}, dies, 203, /*dies=*/true);
  });
  {
    ElasticCollective collective(&job, 1, 1 << 30);
    EXPECT_EQ(Train(&collective, paths[1], {}, nullptr)->weights.size(), 4u);
  }
  lost.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("training goes on: " + folders[1].path()),
            std::string::npos)
      << said;
}

// No key is in the file of a job that nobody leaves, and none is looked for.
TEST(PartedCheckpointTest, OtherJobsReplaceEveryFile) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  TrainAlone(path, {}, 101);
  const auto run = Train(nullptr, path, {}, nullptr);
  EXPECT_TRUE(run->saved[0] == run->weights[0]);
  EXPECT_EQ(run->metadata.count("attempt"), 0u);
  std::ofstream(path) << "no model";
  const auto next = TrainAlone(path, {}, 101);
  EXPECT_TRUE(next->saved[0] == next->weights[0]);
  EXPECT_EQ(next->metadata["attempt"], "1");
}

// Nor where the callback has served an elastic job before.
TEST(PartedCheckpointTest, ACallbackOfAnElasticJobReplacesEveryFileLater) {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0, 1 << 30);
  const auto saves = ModelCheckpoint(path, {});
  for (const int64_t epochs : {2, 1}) {
    CompileOptions options;
    if (epochs == 2) options = CompileOptions(&collective);
    options.reduction = Reduction::kExact;
    options.replicas = 4;
    const auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, options);
    FitOptions fit = Quiet(epochs);
    fit.callbacks = {saves};
    const auto history = model->Fit(Points(101).Batch(40), fit);
    EXPECT_TRUE(history.ok()) << history.status().message();
    Metadata metadata;
    EXPECT_TRUE(WeightsIn(path, &metadata) == WeightsNow(model.get()));
    EXPECT_EQ(metadata.count("attempt"), epochs == 2 ? 1u : 0u);
  }
}

}  // namespace
}  // namespace ringlet
