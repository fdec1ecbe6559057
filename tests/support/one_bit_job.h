// Fits of one small model by workers that are threads. A machine may compute
// wrong numbers, and a worker may be lost or cut off before a step.

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
#include "expect_ok.h"
#include "one_bit_layer.h"
#include "ringlet/fit.h"
#include "tiny_model.h"

namespace ringlet {

// The bytes of a rank in the gather of a replica check
// (ReplicaConsistency::CrossCheck): four numbers.
constexpr size_t kCheckBytes = 4 * sizeof(int64_t);

// A pass has kExamples / kBatch = 5.075 steps, so batches cross passes, and no
// pass ends with an epoch.
constexpr int64_t kExamples = 203, kBatch = 40;
constexpr int64_t kEpochs = 6, kSteps = 55;  // steps of an epoch

constexpr int64_t kNeverSave = 1 << 20;  // a save_freq beyond the last step

// A save after a passed check.
struct Saved {
  int64_t step;
  bool epoch_ended;
  uint64_t digest;  // a digest of the weights
};

// Records digests of the weights, each after a passed check.
class DigestRecorder final : public Callback {
 public:
  DigestRecorder(std::function<void(FitState&)> before_step,
                 std::function<void()> returned, int64_t save_freq)
      : before_step_(std::move(before_step)),
        returned_(std::move(returned)),
        save_freq_(save_freq) {}
  const char* name() const override { return "digest_recorder"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (before_step_ != nullptr) before_step_(fit);
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    const int64_t step = fit.model->iterations();
    if (!epoch_ended && step % save_freq_ != 0) return Status();
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    saved_.push_back({step, epoch_ended, fit.model->DigestWeights()});
    return Status();
  }
  void OnFitReturn(FitState&, const Status&) override {
    if (returned_ != nullptr) returned_();
  }
  const std::vector<Saved>& saved() const { return saved_; }

 private:
  const std::function<void(FitState&)> before_step_;
  const std::function<void()> returned_;
  const int64_t save_freq_;
  std::vector<Saved> saved_;
};

struct Trained {
  Status status;
  uint64_t digest = 0;
  double loss = 0;
  std::vector<Saved> saved;
};

// Steps of a round of local updates. With 0 every step is synchronized.
using Rounds = int64_t;

struct JobSettings {
  Rounds rounds = 0;
  bool cross_check = true;
  int64_t save_freq = 20;
  std::function<void()> returned;  // called at each OnFitReturn
  int64_t check_every = 100;
};

inline Trained Train(Collective* collective, const JobSettings& settings,
                     std::shared_ptr<OneBitLayer> layer,
                     std::function<void(FitState&)> before_step = nullptr) {
  const auto model = TinyModelWith(std::move(layer),
                                   ExactSums(collective, 8, settings.rounds));
  const auto recorder = std::make_shared<DigestRecorder>(
      std::move(before_step), settings.returned, settings.save_freq);
  FitOptions fit = Quiet(kEpochs);
  fit.steps_per_epoch = kSteps;
  fit.cross_check = settings.cross_check;
  fit.check_replicas_every = settings.check_every;
  fit.callbacks = {recorder};
  const auto history =
      model->Fit(Points(kExamples).Shuffle(3).Repeat().Batch(kBatch), fit);
  Trained run{history.status(), model->DigestWeights(), 0, recorder->saved()};
  if (history.ok() && !history->logs.empty()) {
    run.loss = *history->logs.back().Find("loss");
  }
  return run;
}

// The undisturbed run. It saves after every step.
inline const Trained& Undisturbed(const Rounds& rounds) {
  static std::map<Rounds, Trained> runs;
  Trained& run = runs[rounds];
  if (run.saved.empty()) {
    JobSettings settings;
    settings.rounds = rounds;
    settings.save_freq = 1;
    run = Train(nullptr, settings, std::make_shared<OneBitLayer>(0));
  }
  return run;
}

inline void ExpectSavedIsRight(const Trained& run, const Rounds& rounds) {
  std::map<std::pair<int64_t, bool>, uint64_t> right;
  for (const Saved& save : Undisturbed(rounds).saved) {
    right.emplace(std::pair(save.step, save.epoch_ended), save.digest);
  }
  for (const Saved& save : run.saved) {
    EXPECT_EQ(save.digest, right.at({save.step, save.epoch_ended}))
        << "saved after step " << save.step;
  }
}

// --- a job of workers that follow a script -----------------------------------

inline void Await(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

// The events of one process of a worker.
struct WorkerScript {
  WorkerScript(int w, ElasticCollective* c) : number(w), collective(c) {
    settings.save_freq = kNeverSave;
  }
  const int number;
  ElasticCollective* const collective;
  std::shared_ptr<OneBitLayer> layer = std::make_shared<OneBitLayer>(24);
  JobSettings settings;
  // Called at each OnFitReturn, with its number from 1.
  std::function<void(int times)> returned;
  std::function<void(int64_t step)> before_step;  // called before each step

  // Adds an event before the process makes this step, after all events that
  // were added earlier.
  void At(int64_t step, std::function<void()> event) {
    events_.emplace_back(step, std::move(event));
  }
  // Events of this step that are added later wait until it is made again.
  void Passes(int64_t step) { events_.emplace_back(step, nullptr); }
  // The worker computes wrong numbers from this step on.
  void BreaksAt(int64_t step) { breaks_ = step; }

  Trained Run() {
    int returns = 0;
    size_t next = 0;
    if (returned != nullptr) settings.returned = [&] { returned(++returns); };
    return Train(collective, settings, layer, [&](FitState& fit) {
      const int64_t step = fit.model->iterations();
      if (before_step != nullptr) before_step(step);
      if (step >= breaks_) layer->Break();
      while (next < events_.size() && events_[next].first == step) {
        const auto& event = events_[next++].second;
        if (event == nullptr) return;
        event();
      }
    });
  }

 private:
  std::vector<std::pair<int64_t, std::function<void()>>> events_;
  int64_t breaks_ = INT64_MAX;
};

// Calls `train` for each worker of the job, each on a thread. Returns the
// results by worker.
template <typename TrainOne>
std::vector<Trained> OnAll(ElasticJob* job, int workers,
                           const TrainOne& train) {
  std::vector<Trained> runs(static_cast<size_t>(workers));
  RunWorkers(job, workers, [&](int w) {
    ElasticCollective collective(job, w);
    runs[static_cast<size_t>(w)] = train(w, &collective);
  });
  return runs;
}

// Runs a script on each worker. `configure` adds the events of a script. All
// workers begin together.
template <typename Configure>
std::vector<Trained> RunScripts(ElasticJob* job, int workers,
                                const Configure& configure) {
  return OnAll(job, workers, [&](int w, ElasticCollective* collective) {
    WorkerScript script(w, collective);
    configure(&script);
    return script.Run();
  });
}

inline void ExpectRight(const std::vector<Trained>& runs,
                        std::initializer_list<int> workers,
                        const Rounds& rounds = {}) {
  for (const int w : workers) {
    SCOPED_TRACE("worker " + std::to_string(w));
    const Trained& run = runs[static_cast<size_t>(w)];
    EXPECT_OK(run.status);
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
