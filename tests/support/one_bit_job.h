// Fits of one small model by workers that are threads. A machine may compute
// wrong, and a worker may be lost or cut off before a step.

#ifndef RINGLET_TESTS_SUPPORT_ONE_BIT_JOB_H_
#define RINGLET_TESTS_SUPPORT_ONE_BIT_JOB_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "elastic_collective.h"
#include "one_bit_layer.h"
#include "ringlet/fit.h"
#include "tiny_model.h"

namespace ringlet {

// The bytes of a rank in a replica check's gather.
constexpr size_t kCheckBytes = 4 * sizeof(int64_t);

constexpr int64_t kEpochs = 6, kSteps = 55;  // steps of an epoch

// Saves digests of the weights after a passed check: by step, or by minus the
// step at an epoch's end.
class Saves final : public Callback {
 public:
  Saves(std::function<void(FitState&)> before_step,
        std::function<void()> returned, int64_t save_freq)
      : before_step_(std::move(before_step)),
        returned_(std::move(returned)),
        save_freq_(save_freq) {}
  const char* name() const override { return "saves"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (before_step_ != nullptr) before_step_(fit);
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    const int64_t step = fit.model->iterations();
    if (!epoch_ended && step % save_freq_ != 0) return Status();
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    saved_.emplace_back(epoch_ended ? -step : step,
                        fit.model->weights_digest());
    return Status();
  }
  void OnFitReturn(FitState&, const Status&) override {
    if (returned_ != nullptr) returned_();
  }
  const std::vector<std::pair<int64_t, uint64_t>>& saved() const {
    return saved_;
  }

 private:
  const std::function<void(FitState&)> before_step_;
  const std::function<void()> returned_;
  const int64_t save_freq_;
  std::vector<std::pair<int64_t, uint64_t>> saved_;
};

struct Trained {
  Status status;
  uint64_t digest = 0;
  double loss = 0;
  std::vector<std::pair<int64_t, uint64_t>> saved;
};

// Steps of a round of local updates; 0: every step is synchronized.
using Rounds = int64_t;

struct Way {
  Rounds rounds = 0;
  bool cross_check = true;
  int64_t save_freq = 20;
  std::function<void()> returned;  // at each OnFitReturn
  int64_t check_every = 100;
};

inline const Way kNoSaves = {0, true, 1 << 20, nullptr, 100};

inline Trained Train(Collective* collective, const Way& way,
                     std::shared_ptr<OneBitLayer> layer,
                     std::function<void(FitState&)> before_step = nullptr) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 8;
  options.local.steps = way.rounds;
  Sequential model({Input({2}), Dense(16, kRelu), Dropout(0.2f),
                    BatchNormalization(0.9f), Custom(std::move(layer)),
                    Dense(3)});
  model.Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, options);
  const auto saves = std::make_shared<Saves>(std::move(before_step),
                                             way.returned, way.save_freq);
  FitOptions fit = Quiet(kEpochs);
  fit.steps_per_epoch = kSteps;
  fit.cross_check = way.cross_check;
  fit.check_replicas_every = way.check_every;
  fit.callbacks = {saves};
  const auto history =
      model.Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit);
  Trained run{history.status(), model.weights_digest(), 0, saves->saved()};
  if (history.ok() && !history->logs.empty()) {
    run.loss = *history->logs.back().Find("loss");
  }
  return run;
}

// The undisturbed run. It saves at every step.
inline const Trained& Undisturbed(const Rounds& rounds) {
  static std::map<Rounds, Trained> runs;
  Trained& run = runs[rounds];
  if (run.saved.empty()) {
    Way way;
    way.rounds = rounds;
    way.save_freq = 1;
    run = Train(nullptr, way, std::make_shared<OneBitLayer>(0));
  }
  return run;
}

inline void ExpectSavedIsRight(const Trained& run, const Rounds& rounds) {
  const auto& saved = Undisturbed(rounds).saved;
  const std::map<int64_t, uint64_t> right(saved.begin(), saved.end());
  for (const auto& [step, digest] : run.saved) {
    EXPECT_EQ(digest, right.at(step)) << "saved after step " << step;
  }
}

// --- a job of workers that follow a script

inline void Await(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

// A process of a worker, and what happens to it.
struct Actor {
  Actor(int w, ElasticCollective* c) : number(w), collective(c) {}
  const int number;
  ElasticCollective* const collective;
  std::shared_ptr<OneBitLayer> layer = std::make_shared<OneBitLayer>(24);
  Way way = kNoSaves;
  // At each OnFitReturn, with its number from 1.
  std::function<void(int times)> returned;
  std::function<void(int64_t step)> sees;  // each step

  // Before the process makes this step, after all acts that were added earlier.
  void At(int64_t step, std::function<void()> act) {
    script_.emplace_back(step, std::move(act));
  }
  // Acts of this step that are added later wait until it is made again.
  void Passes(int64_t step) { script_.emplace_back(step, nullptr); }
  // The worker computes wrong from this step on.
  void BreaksAt(int64_t step) { breaks_ = step; }

  Trained Run() {
    int returns = 0;
    size_t next = 0;
    if (returned != nullptr) way.returned = [&] { returned(++returns); };
    return Train(collective, way, layer, [&](FitState& fit) {
      const int64_t step = fit.model->iterations();
      if (sees != nullptr) sees(step);
      if (step >= breaks_) layer->Break();
      while (next < script_.size() && script_[next].first == step) {
        const auto& act = script_[next++].second;
        if (act == nullptr) return;
        act();
      }
    });
  }

 private:
  std::vector<std::pair<int64_t, std::function<void()>>> script_;
  int64_t breaks_ = INT64_MAX;
};

// The result of `train` for each worker of the job, each on a thread.
template <typename TrainOne>
std::vector<Trained> OnAll(ElasticJob* job, int workers,
                           const TrainOne& train) {
  std::vector<Trained> runs(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) job->Arrive(w);
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      ElasticCollective collective(job, w, 1 << 30);
      runs[static_cast<size_t>(w)] = train(w, &collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

// `direct` adds what happens to each worker. All begin together.
template <typename Direct>
std::vector<Trained> Play(ElasticJob* job, int workers, const Direct& direct) {
  return OnAll(job, workers, [&](int w, ElasticCollective* collective) {
    Actor actor(w, collective);
    direct(&actor);
    return actor.Run();
  });
}

inline void ExpectRight(const std::vector<Trained>& runs,
                        std::initializer_list<int> workers,
                        const Rounds& rounds = {}) {
  for (const int w : workers) {
    SCOPED_TRACE("worker " + std::to_string(w));
    const Trained& run = runs[static_cast<size_t>(w)];
    EXPECT_TRUE(run.status.ok()) << run.status.message();
    EXPECT_EQ(run.digest, Undisturbed(rounds).digest);
    EXPECT_EQ(run.loss, Undisturbed(rounds).loss);
  }
}

inline void ExpectEnd(const std::vector<Trained>& runs, int worker, Code code) {
  const Status& status = runs[static_cast<size_t>(worker)].status;
  EXPECT_EQ(status.code(), code) << worker << ": " << status.message();
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_ONE_BIT_JOB_H_
