#include "training_simulator.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/base/fnv1a.h"
#include "net/transport/sealed_stream.h"
#include "sim_host.h"
#include "sim_training.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;  // T
constexpr double kStartSeconds = 4;
// The longest time from the last fault until all running workers have trained
// to the end. A worker that starts after the end of the other workers waits
// kStartSeconds and trains alone. A step of seven workers over slow links may
// take 4 T, and a step with a check and a backup 9 T.
constexpr int64_t kBound = 150 * kTimeout;
constexpr int kSteps = 18;  // the steps of the training

// Mostly few workers, since each is a thread.
int SizeOf(uint64_t seed) {
  const bool large = seed % 16 == 15;
  return static_cast<int>(large ? 5 + seed / 16 % 12 : 2 + seed % 3);
}

class Job final : public Faults::Job, public SimCollective::Owner {
 public:
  Job(uint64_t seed, bool trace);
  TrainingReport Run();

 private:
  void Violated(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }
  void DrawTraining();
  void DrawRounds();
  void DrawWrong();
  void Crash(int worker, bool silent) override;
  void Start(int worker) override;
  void SlowDisk(int worker, int64_t until) override {
    hosts_[worker]->disk.SlowUntil(until);
  }
  void StepClock(int worker, int64_t nanos) override {
    hosts_[worker]->clock.Step(nanos);
  }
  void Trace(int worker, const std::string& what) override;
  void OnView(int worker, const std::vector<int>& members) override;
  void Exited(int worker, const Status& status) override;
  Status Train(SimCollective* collective);
  void Begins(int worker, int64_t step);
  void Ends(int worker, int64_t step, uint64_t digest);
  void Hears(int worker);
  void CutAsTheyCompare(int64_t step);
  void HurtTransfer(int worker);
  void NotNamed(int64_t step);
  void OutOfSync(int worker, const std::string& error);
  bool Over() const;

  const uint64_t seed_;
  const bool trace_;
  const int size_;
  Network network_;
  RingOptions ring_;
  Faults faults_;
  Training training_;
  int64_t step_nanos_ = 0;  // the longest extra computing time of a step
  Wrong wrong_;
  bool calm_ = false;  // no fault but the faulty worker
  int cuts_off_ = 0;   // isolations of workers once one is faulty
  int transfers_ = 0;  // transfers that are still to be disturbed
  Fnv1a trace_hash_;
  TrainingReport report_;
  bool ending_ = false;  // the job is over: later events do not count
  std::vector<std::unique_ptr<Host>> hosts_;
};

Job::Job(uint64_t seed, bool trace)
    : seed_(seed),
      trace_(trace),
      size_(SizeOf(seed)),
      network_(size_, seed * 2 + 1),
      faults_(&network_, size_, kTimeout, this, /*saves=*/true) {
  for (int w = 0; w < size_; ++w) {
    ring_.addresses.push_back("worker" + std::to_string(w) + ":7000");
  }
  if (seed % 3 == 1 && SecureStart().ok()) {
    ring_.keys = std::make_shared<JobKeys>(JobKeys{{}, 1});
  }
  ring_.timeout_seconds = static_cast<double>(kTimeout) / 1e9;
  ring_.start_timeout_seconds = kStartSeconds;
  ring_.min_workers =
      network_.Chance(2) ? 1 : 1 + static_cast<int>(network_.Random(size_));
  if (network_.Chance(3)) network_.SetLatency(kTimeout / 100, kTimeout / 40);
  DrawTraining();
  if (size_ >= 3 && network_.Chance(3)) DrawWrong();
  if (ring_.min_workers > 1) faults_.SpareNone();
  // The wrong bit is the sign, a bit of the exponent, or a high bit of the
  // mantissa.
  const int bit = 17 + static_cast<int>(network_.Random(15));
  for (int w = 0; w < size_; ++w) {
    hosts_.push_back(std::make_unique<Host>(&network_, w, bit));
  }
}

void Job::DrawTraining() {
  if (size_ > training_.replicas) training_.replicas = 16;
  training_.optimizer = static_cast<int>(network_.Random(4));
  if (network_.Chance(2)) DrawRounds();
  training_.repeats = network_.Chance(2);
  training_.callbacks = network_.Chance(2);
  training_.in_loop = network_.Chance(2);
  // Without this time most jobs end before their faults begin.
  if (!network_.Chance(4)) step_nanos_ = kTimeout * 3 / 5;
  if (network_.Chance(2)) training_.check_every = 2 + network_.Random(6);
  const int64_t frequencies[] = {-1, 0, 1, 2, 5};
  training_.save_freq = frequencies[network_.Random(5)];
  training_.model_freq = frequencies[network_.Random(5)];
  training_.wide = network_.Chance(3);
}

void Job::DrawRounds() {
  training_.local_steps = 2 + network_.Random(3);
  training_.floats = network_.Chance(2);
  if (network_.Chance(2)) {
    training_.participation = 1 + static_cast<int>(network_.Random(4));
  }
  // UseEma and GradientAccumulationSteps do not go with local updates.
  if (training_.optimizer < 3) training_.optimizer = 0;
}

void Job::DrawWrong() {
  wrong_.worker = static_cast<int>(network_.Random(size_));
  wrong_.from = network_.Random(kSteps);
  wrong_.processes = 1 + static_cast<int>(network_.Random(2));
  if (network_.Chance(2)) ring_.min_workers = std::max(3, ring_.min_workers);
  cuts_off_ = static_cast<int>(network_.Random(4));
  training_.check_every = 1 + network_.Random(6);
}

void Job::Trace(int worker, const std::string& what) {
  if (ending_) return;
  char when[64];
  const int n =
      std::snprintf(when, sizeof(when), "%10.3f ms  worker %d ",
                    static_cast<double>(network_.now()) / 1e6, worker);
  trace_hash_.Add(when, static_cast<size_t>(n));
  trace_hash_.Add(what.data(), what.size());
  if (trace_) std::printf("%s%s\n", when, what.c_str());
}

void Job::OnView(int worker, const std::vector<int>& members) {
  if (ending_) return;
  ++report_.views;
  hosts_[worker]->view = members;
  HurtTransfer(worker);
}

// Loses the worker, or a link, while the new view compares or sends the state.
// Other workers may be lost too, in this view and in the next.
void Job::HurtTransfer(int worker) {
  if (calm_ || transfers_ == 0 || !network_.Chance(3)) return;
  --transfers_;
  const int64_t within = network_.Chance(2) ? 2 * kMs : 60 * kMs;
  if (network_.Chance(2)) return faults_.CutWithin(within);
  network_.At(network_.now() + network_.Random(within), [this, worker] {
    const bool silent = network_.Chance(4);
    const int64_t lasts = network_.Random(kTimeout);
    faults_.Count(silent ? Fault::kSilentHost : Fault::kCrash);
    faults_.OverBy(network_.now() + lasts);
    Trace(worker, "is lost as the state travels");
    Crash(worker, silent);
    network_.At(network_.now() + lasts, [this, worker] { Start(worker); });
  });
}

void Job::Crash(int worker, bool silent) {
  Host& host = *hosts_[worker];
  if (!host.alive()) return;
  host.disk.Halt();
  host.process->Crash(silent);
  host.disk.Ended(/*power_cut=*/silent);
}

// A worker that is done is not started again.
void Job::Start(int worker) {
  Host& host = *hosts_[worker];
  if (host.alive() || host.done) return;
  if (worker == wrong_.worker) wrong_.last = wrong_.steps = 0;
  host.process = std::make_unique<SimCollective>(
      &network_, &ring_, worker, seed_,
      [this](SimCollective* collective) { return Train(collective); }, this);
}

Status Job::Train(SimCollective* collective) {
  const int worker = collective->worker();
  Host& host = *hosts_[worker];
  const auto is_running = [this, collective] {
    return !ending_ && !collective->killed();
  };
  Trainee trainee;
  trainee.collective = collective;
  trainee.disk = &host.disk;
  trainee.clock = &host.clock;
  trainee.layer = host.layer;
  trainee.begins = [=](int64_t step) {
    if (is_running()) Begins(worker, step);
    if (step_nanos_ > 0) collective->Sleep(network_.Random(step_nanos_));
  };
  trainee.ends = [=](int64_t step, uint64_t digest) {
    if (is_running()) Ends(worker, step, digest);
  };
  trainee.resumes = [=](const std::string& from) {
    if (!is_running()) return;
    ++report_.resumed;
    Trace(worker, "resumes from " + from);
  };
  trainee.hears = [=] {
    if (is_running()) Hears(worker);
  };
  host.disk.UsedBy(collective);
  const Status status = sim::Train(training_, trainee);
  host.disk.UsedBy(nullptr);
  if (is_running() && status.code() == Code::kOutOfSync) {
    OutOfSync(worker, status.message());
  }
  return status;
}

void Job::Hears(int worker) { Trace(worker, "learns which worker is faulty"); }

void Job::Begins(int worker, int64_t step) {
  if (worker != wrong_.worker || wrong_.processes == 0 || step < wrong_.from) {
    return;
  }
  if (!wrong_.broken) {
    Trace(worker, "begins to compute wrong numbers");
    faults_.Count(Fault::kWrongBit);
    faults_.OverBy(network_.now());
    hosts_[worker]->layer->Break();
    for (int n = calm_ ? 0 : cuts_off_; n > 0; --n) {
      faults_.Isolate(static_cast<int>(network_.Random(size_)), 4 * kTimeout);
    }
  }
  wrong_.broken = wrong_.was = true;
}

void Job::Ends(int worker, int64_t step, uint64_t digest) {
  report_.steps += step > 0 ? 1 : 0;
  Trace(worker, step == 0 ? "has trained" : "has step " + std::to_string(step));
  if (worker == wrong_.worker && wrong_.broken) NotNamed(step);
  const Digests& right = Undisturbed(training_);
  const auto at = right.find(step);
  Host& host = *hosts_[worker];
  if (at != right.end() && at->second == digest) {
    return;
  }
  // Steps may be wrong until they are verified. A job that ends is right,
  // unless the faulty worker has trained alone: no check has compared its
  // state, and other workers may have got it from its backup.
  const bool alone = worker == wrong_.worker && host.view.size() == 1;
  wrong_.alone |= alone && wrong_.was;
  if (step != 0 ? wrong_.was : wrong_.alone) return;
  Violated("worker " + std::to_string(worker) +
           " has other weights or losses after " + std::to_string(step) +
           " steps");
}

void Job::CutAsTheyCompare(int64_t step) {
  const int64_t taken = std::max(int64_t{1}, training_.local_steps);
  if (calm_ || step % training_.check_every >= taken) return;
  faults_.CutWithin(network_.Chance(2) ? 2 * kMs : 60 * kMs);
}

// Call it after each step of the faulty worker: no check has found it yet.
void Job::NotNamed(int64_t step) {
  if (step <= 0) return;
  CutAsTheyCompare(step);
  wrong_.steps = step > wrong_.last ? wrong_.steps + step - wrong_.last : 0;
  if (wrong_.last == 0) wrong_.steps = 0;
  wrong_.last = step;
  if (hosts_[wrong_.worker]->view.size() == 1) wrong_.steps = 0;
  if (wrong_.steps > training_.check_every + training_.local_steps) {
    Violated("worker " + std::to_string(wrong_.worker) +
             " computes wrong numbers, and no check finds it");
  }
}

void Job::OutOfSync(int worker, const std::string& error) {
  const bool all_stop = error.find("no more than half") != std::string::npos;
  if (all_stop && worker != wrong_.worker && wrong_.was &&
      hosts_[worker]->HasInView(wrong_.worker)) {
    return;
  }
  if (worker != wrong_.worker || !wrong_.broken ||
      (!all_stop &&
       error.find("this machine is at fault") == std::string::npos)) {
    return Violated("worker " + std::to_string(worker) +
                    " is reported as faulty: " + error);
  }
  // The cuts may come before the other workers have learned it.
  for (int n = calm_ ? 0 : 2; n > 0; --n) faults_.CutWithin(kMs / 10);
  ++report_.named;
  faults_.OverBy(network_.now());
  if (--wrong_.processes > 0) return;
  Trace(worker, "has another machine");
  wrong_.broken = false;
  hosts_[worker]->layer->Mend();
}

void Job::Exited(int worker, const Status& status) {
  Host& host = *hosts_[worker];
  Trace(worker, status.ok() ? "is done" : status.message());
  if (status.ok()) {
    host.done = true;
    ++report_.finished;
    return;
  }
  // The worker ended since too few workers were left, no worker had a valid
  // state, or it was the faulty rank. Its launcher starts it again, unless the
  // job is done.
  if (ExitCodeOf(status) != 75 && status.code() != Code::kDeadlineExceeded &&
      status.code() != Code::kOutOfSync) {
    Violated("worker " + std::to_string(worker) +
             " ends with: " + status.message());
  }
  if (report_.finished > 0) {
    host.done = true;
    return;
  }
  ++host.due;
  network_.At(network_.now() + network_.Random(kTimeout / 4), [this, worker] {
    --hosts_[worker]->due;
    Start(worker);
  });
}

// True if no worker trains, and none will start.
bool Job::Over() const {
  return network_.now() > faults_.over() &&
         std::none_of(hosts_.begin(), hosts_.end(), [](const auto& host) {
           return host->alive() || host->due > 0;
         });
}

TrainingReport Job::Run() {
  report_.workers = size_;
  for (int w = 0; w < size_; ++w) {
    const bool late = network_.Chance(6);
    network_.At(network_.Random(late ? 8 * kTimeout : kTimeout),
                [this, w] { Start(w); });
  }
  faults_.OverBy(8 * kTimeout);
  calm_ = wrong_.worker >= 0 && network_.Chance(2);
  transfers_ = static_cast<int>(network_.Random(8));
  for (int64_t n = calm_ ? 0 : network_.Random(8); n > 0; --n) {
    network_.At(network_.Random(10 * kTimeout), [this] { faults_.Draw(); });
  }
  while (report_.violation.empty() && !Over() && network_.Step()) {
    ++report_.events;
    if (network_.now() - faults_.over() > kBound) {
      Violated("the running workers have not trained to the end");
    }
  }
  report_.virtual_nanos = network_.now();
  report_.faults = faults_.counts();
  report_.trace = trace_hash_.value();
  report_.alone = wrong_.alone ? 1 : 0;
  ending_ = true;
  hosts_.clear();  // closes their streams before the network ends
  return report_;
}

}  // namespace

TrainingReport SimulateTraining(uint64_t seed, bool trace) {
  return Job(seed, trace).Run();
}

}  // namespace sim
}  // namespace ringlet
