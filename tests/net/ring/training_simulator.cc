#include "training_simulator.h"

#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "../../support/tiny_model.h"
#include "core/base/fnv1a.h"
#include "core/fit/callback.h"
#include "core/fit/training_loop.h"
#include "net/ring/sealed_stream.h"
#include "sim_collective.h"
#include "sim_faults.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;  // T
constexpr double kStartSeconds = 4;
// From the last fault until all that live have trained to the end: one that
// comes when the others are done waits kStartSeconds and trains alone, and a
// step may take 0.4 T, and one of 100 as long as 6 T.
constexpr int64_t kBound = 60 * kTimeout;
constexpr int kReplicas = 5;
constexpr int kEpochs = 3;

CompileOptions Options(Collective* collective, int64_t local_steps) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = kReplicas;
  options.local.steps = local_steps;
  return options;
}

// What the weights and the losses are after each step, of whoever computes it;
// and at each epoch's end, whose validation loss is of step -1, -2, …
using Digests = std::map<int64_t, uint64_t>;

uint64_t With(const Logs& logs, const char* loss, uint64_t digest) {
  Fnv1a of;
  const double* const value = logs.Find(loss);
  of.Add(value, value == nullptr ? 0 : sizeof(*value));
  return of.value() ^ digest;
}

class NotesDigests final : public Callback {
 public:
  using Note = std::function<void(int64_t step, uint64_t digest)>;
  explicit NotesDigests(Note note) : note_(std::move(note)) {}
  const char* name() const override { return "notes_digests"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    note_(fit.model->iterations(),
          With(logs, "loss", fit.model->weights_digest()));
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    note_(-1 - fit.epoch, With(*logs, "val_loss", 0));
    return Status();
  }

 private:
  const Note note_;
};

// Between two steps the program evaluates, and adds with the others.
Status TrainInLoop(Model* model, TrainingLoop* loop) {
  EvaluateOptions quiet;
  quiet.verbose = Verbose::kSilent;
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasEpoch()) {
    while (loop->HasStep()) {
      RINGLET_RETURN_IF_ERROR(loop->Step());
      if (loop->step() % 4 != 2) continue;
      loop->CloseData();
      RINGLET_RETURN_IF_ERROR(
          model->Evaluate(Points(20).Batch(10), quiet).status());
    }
    double one = 1;
    RINGLET_RETURN_IF_ERROR(SumOverRanks(model->collective(), &one, 1));
    RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
  }
  return loop->End();
}

Status Train(Collective* collective, int64_t local_steps, bool in_loop,
             NotesDigests::Note note) {
  const auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f,
                               Options(collective, local_steps));
  FitOptions fit = Quiet(kEpochs);
  fit.callbacks.push_back(std::make_shared<NotesDigests>(std::move(note)));
  fit.validation_data = Points(61).Batch(100);
  const Dataset data = Points(203).Shuffle(3).Batch(40);
  if (!in_loop) return model->Fit(data, fit).status();
  TrainingLoop loop(model.get(), data, fit);
  Status status;
  do {
    status = TrainInLoop(model.get(), &loop);
  } while (loop.Recovers(&status));
  return status;
}

// Of one worker that nothing disturbs.
const Digests& Undisturbed(int64_t local_steps) {
  static std::map<int64_t, Digests> runs;
  Digests& run = runs[local_steps];
  if (run.empty()) {
    const Status status =
        Train(nullptr, local_steps, /*in_loop=*/false,
              [&](int64_t step, uint64_t digest) { run[step] = digest; });
    if (!status.ok()) std::printf("undisturbed: %s\n", status.message());
  }
  return run;
}

class Job final : public Faults::Job, public SimCollective::Owner {
 public:
  Job(uint64_t seed, bool trace);
  TrainingReport Run();

 private:
  void Violated(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }
  void Crash(int worker, bool silent) override;
  void Start(int worker) override;
  void Trace(int worker, const std::string& what) override;
  void Exited(int worker, const Status& status) override;
  Status Train(SimCollective* collective);
  void Stepped(int worker, int64_t step, uint64_t digest);
  bool Over() const;

  bool alive(int worker) const {
    return workers_[worker] != nullptr && workers_[worker]->alive();
  }

  const uint64_t seed_;
  const bool trace_;
  const int size_;
  Network network_;
  RingOptions ring_;
  Faults faults_;
  int64_t local_steps_ = 0;
  bool in_loop_ = false;  // of its own, else in Fit
  Fnv1a told_;
  TrainingReport report_;
  bool ending_ = false;     // what happens now is no part of the job
  std::vector<bool> done_;  // by worker: it has trained to the end
  std::vector<int> due_;    // beginnings that are still to come
  // Their present processes, or the last ones.
  std::vector<std::unique_ptr<SimCollective>> workers_;
};

Job::Job(uint64_t seed, bool trace)
    : seed_(seed),
      trace_(trace),
      size_(2 + static_cast<int>(seed % 3)),
      network_(size_, seed * 2 + 1),
      faults_(&network_, size_, kTimeout, this),
      done_(size_),
      due_(size_) {
  for (int w = 0; w < size_; ++w) {
    ring_.addresses.push_back("worker" + std::to_string(w) + ":7000");
  }
  if (seed % 3 == 1 && SecureStart()) {
    ring_.keys = std::make_shared<JobKeys>(JobKeys{{}, 1});
  }
  ring_.timeout_seconds = static_cast<double>(kTimeout) / 1e9;
  ring_.start_timeout_seconds = kStartSeconds;
  ring_.min_workers =
      network_.Chance(2) ? 1 : 1 + static_cast<int>(network_.Random(size_));
  if (ring_.min_workers > 1) faults_.SpareNone();
  if (network_.Chance(3)) network_.SetLatency(kTimeout / 100, kTimeout / 40);
  if (network_.Chance(3)) local_steps_ = 2 + network_.Random(3);
  in_loop_ = network_.Chance(2);
  workers_.resize(static_cast<size_t>(size_));
}

void Job::Trace(int worker, const std::string& what) {
  if (ending_) return;
  char when[64];
  const int n =
      std::snprintf(when, sizeof(when), "%10.3f ms  worker %d ",
                    static_cast<double>(network_.now()) / 1e6, worker);
  told_.Add(when, static_cast<size_t>(n));
  told_.Add(what.data(), what.size());
  if (what.find("is in view") == 0) ++report_.views;
  if (trace_) std::printf("%s%s\n", when, what.c_str());
}

void Job::Crash(int worker, bool silent) {
  if (workers_[worker] != nullptr) workers_[worker]->Crash(silent);
}

// A job that is done is not started again.
void Job::Start(int worker) {
  if (alive(worker) || done_[worker]) return;
  workers_[worker] = std::make_unique<SimCollective>(
      &network_, &ring_, worker, seed_,
      [this](SimCollective* collective) { return Train(collective); }, this);
}

Status Job::Train(SimCollective* collective) {
  const int worker = collective->worker();
  return sim::Train(collective, local_steps_, in_loop_,
                    [this, worker](int64_t step, uint64_t digest) {
                      Stepped(worker, step, digest);
                    });
}

void Job::Stepped(int worker, int64_t step, uint64_t digest) {
  if (ending_) return;
  report_.steps += step > 0 ? 1 : 0;
  Trace(worker, "has step " + std::to_string(step));
  const Digests& right = Undisturbed(local_steps_);
  const auto at = right.find(step);
  if (at == right.end() || at->second != digest) {
    Violated("worker " + std::to_string(worker) +
             " has other weights or losses after " + std::to_string(step) +
             " steps");
  }
}

void Job::Exited(int worker, const Status& status) {
  Trace(worker, status.ok() ? "is done" : status.message());
  if (status.ok()) {
    done_[worker] = true;
    ++report_.finished;
    return;
  }
  // Too few were there, or nobody with a whole state: its launcher starts it
  // again, unless the work is done.
  if (ExitCodeOf(status) != 75 && status.code() != Code::kDeadlineExceeded) {
    Violated("worker " + std::to_string(worker) +
             " ends with: " + status.message());
  }
  if (report_.finished > 0) {
    done_[worker] = true;
    return;
  }
  ++due_[worker];
  network_.At(network_.now() + network_.Random(kTimeout / 4), [this, worker] {
    --due_[worker];
    Start(worker);
  });
}

// Nobody trains, and nobody will.
bool Job::Over() const {
  for (int w = 0; w < size_; ++w) {
    if (alive(w) || due_[w] > 0) return false;
  }
  return network_.now() > faults_.over();
}

TrainingReport Job::Run() {
  report_.workers = size_;
  for (int w = 0; w < size_; ++w) {
    const bool late = network_.Chance(6);
    network_.At(network_.Random(late ? 8 * kTimeout : kTimeout),
                [this, w] { Start(w); });
  }
  faults_.OverBy(8 * kTimeout);
  for (int64_t n = network_.Random(8); n > 0; --n) {
    network_.At(network_.Random(10 * kTimeout), [this] { faults_.Draw(); });
  }
  while (report_.violation.empty() && !Over() && network_.Step()) {
    ++report_.events;
    if (network_.now() - faults_.over() > kBound) {
      Violated("those that live have not trained to the end");
    }
  }
  report_.virtual_nanos = network_.now();
  report_.faults = faults_.count();
  report_.trace = told_.value();
  ending_ = true;
  workers_.clear();  // their streams go before the network
  return report_;
}

}  // namespace

TrainingReport SimulateTraining(uint64_t seed, bool trace) {
  return Job(seed, trace).Run();
}

}  // namespace sim
}  // namespace ringlet
