// Fits of one small model by workers that are threads, where a machine may
// compute wrong, and losses and moves come when a step is about to be made.

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
#include <tuple>
#include <utility>
#include <vector>

#include "core/fit/fit.h"
#include "elastic_collective.h"
#include "one_bit_layer.h"
#include "tiny_model.h"

namespace ringlet {

// What a rank gathers in a comparison.
constexpr size_t kOfACheck = 4 * sizeof(int64_t);

constexpr int64_t kEpochs = 6, kSteps = 55;  // of an epoch

// What is saved, by step, and minus it where an epoch has ended: the weights
// after a check that found nothing.
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

// Of local updates; 0: there are none.
struct Rounds {
  Rounds(int64_t n = 0, bool is_sparse = false, bool overlaps = false)
      : steps(n), sparse(is_sparse), overlap(overlaps) {}
  int64_t steps;
  bool sparse, overlap;
  bool operator<(const Rounds& other) const {
    return std::tie(steps, sparse, overlap) <
           std::tie(other.steps, other.sparse, other.overlap);
  }
};

struct Way {
  Rounds rounds;
  bool cross_check = true;
  int64_t save_freq = 20;
  std::function<void()> returned;  // by a loss too
  int64_t check_every = 100;
};

inline const Way kNoSaves = {0, true, 1 << 20, nullptr, 100};

inline Trained Train(Collective* collective, const Way& way,
                     std::shared_ptr<OneBitLayer> layer,
                     std::function<void(FitState&)> before_step = nullptr) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = 8;
  options.local.steps = way.rounds.steps;
  options.local.overlap = way.rounds.overlap;
  if (way.rounds.sparse) options.local.delta = LocalUpdates::Delta::kSparse;
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

// Its saves are of every step.
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

// --- a job whose workers follow a script

inline void Await(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}
inline void AwaitVisitor(ElasticJob* job) {
  while (!job->visited()) std::this_thread::yield();
}

// One life of a worker, and what happens to it.
struct Actor {
  Actor(int w, ElasticCollective* c) : number(w), collective(c) {}
  const int number;
  ElasticCollective* const collective;
  std::shared_ptr<OneBitLayer> layer = std::make_shared<OneBitLayer>(24);
  Way way = kNoSaves;
  // As its fit lets go: the first time, the second, …
  std::function<void(int times)> returned;
  std::function<void(int64_t step)> sees;  // each step
  // The first step of all that it sees once that is so.
  void SeesFrom(const std::atomic<bool>& since, std::atomic<int64_t>* least) {
    sees = [&since, least](int64_t step) {
      if (since) *least = std::min(least->load(), step);
    };
  }

  // Before it makes this step, once, and after all that was said before.
  void At(int64_t step, std::function<void()> act) {
    script_.emplace_back(step, std::move(act));
  }
  void BreaksAt(int64_t step) { breaks_ = step; }
  void DiesAt(int64_t step) {
    At(step, [this] { collective->DieInNextCall(); });
  }
  void MovesAt(int64_t step, ElasticJob* to) {
    At(step, [this, to] { collective->MoveTo(to); });
  }
  // … when that is so.
  void MovesAt(int64_t step, ElasticJob* to, const std::atomic<bool>& when) {
    At(step, [this, to, &when] {
      Await(when);
      collective->MoveTo(to);
    });
  }
  // With numbers that are wrong there alone, which no check of later finds.
  void BreaksAsItMovesAt(int64_t step, ElasticJob* to) {
    At(step, [this, to] {
      layer->Break();
      collective->MoveTo(to);
    });
  }
  void MendedItMovesAt(int64_t step, ElasticJob* to,
                       const std::atomic<bool>& when) {
    At(step, [this, to, &when] {
      Await(when);
      layer->Mend();
      collective->MoveTo(to);
    });
  }
  // Says so, and waits for one that comes to `job`.
  void ReceivesAt(int64_t step, ElasticJob* job, std::atomic<bool>* says) {
    At(step, [job, says] {
      *says = true;
      AwaitVisitor(job);
    });
  }

  // Cut off, until `job` has somebody who waits for it.
  void StandsStill(ElasticJob* job, const std::atomic<bool>& until) {
    job->Leave(number);
    Await(until);
    job->Arrive(number);
    collective->MoveTo(nullptr);
  }

  Trained Run() {
    int returns = 0;
    size_t next = 0;
    if (returned != nullptr) way.returned = [&] { returned(++returns); };
    return Train(collective, way, layer, [&](FitState& fit) {
      const int64_t step = fit.model->iterations();
      if (sees != nullptr) sees(step);
      if (step >= breaks_) layer->Break();
      if (next == script_.size() || script_[next].first != step) return;
      script_[next++].second();
    });
  }

 private:
  std::vector<std::pair<int64_t, std::function<void()>>> script_;
  int64_t breaks_ = INT64_MAX;
};

// What each of the job's workers makes of `train`, on a thread of its own.
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

// `direct` says what happens to it.
template <typename Direct>
Trained Live(ElasticJob* job, int worker, const Direct& direct) {
  ElasticCollective collective(job, worker, 1 << 30);
  Actor actor(worker, &collective);
  direct(&actor);
  return actor.Run();
}

// … to each of the job's workers, which begin together.
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
