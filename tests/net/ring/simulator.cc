#include "simulator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <regex>
#include <utility>

#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "net/collective/topology.h"
#include "net/ring/withdrawal.h"
#include "net/transport/sealed_stream.h"
#include "sim_process.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;  // T
constexpr double kStartSeconds = 60;
// The longest time from the last fault until a rank that waits in an operation
// has an answer. A silence is noticed after T and a tick, a standstill after
// 1.5 T for every link of a chain. A detector that was stalled waits longer, by
// the time of its stall.
constexpr int64_t kLongestWait = 5 * kTimeout;
// The longest time from the last fault to the end of the job. It has the time
// above, a goodbye of T, the pause before a restart, handshakes of 2 s and
// back-offs of 1 s.
constexpr int64_t kLongestJob = 30 * kTimeout;
const char* const kReason = "the disk is full";

class Job;

// One rank: a process, which may end and start again, and its caller.
class Worker final : public SimProcess, public Session::Owner {
 public:
  Worker(Job* job, int rank);

  void StartProcess();
  void Withdraw();
  // Ends the process. If `silent`, its host becomes silent before, so the other
  // ranks get no message.
  void Crash(bool silent);
  void Abort();
  void Reform();
  void CheckWait(int64_t since_fault);

  bool alive() const { return alive_; }
  bool finished() const { return finished_; }
  // True if the rank has failed, has ended, or waits for a ring to form.
  bool needs_ring() const {
    return !alive_ || failed() || (session_ != nullptr && !running_);
  }
  bool failed() const { return !failure_.ok(); }
  bool delivered() const { return delivered_; }
  const Status& failure() const { return failure_; }

 private:
  // Session::Owner.
  void OnRunning() override;
  void OnCompleted(uint64_t sequence) override;
  void OnFailed(const Status& status) override;
  void OnDelivered() override;
  void OnNotice(const std::string& line) override;
  void OnEvent(const Event& event) override;

  void MakeSession(double start_seconds = kStartSeconds);
  void Later(int64_t delay, void (Worker::*what)());
  void StartNext();
  void StopPolling();
  void CheckResult(size_t op);
  void Leave();
  void Closed() override;

  Job* const job_;
  bool alive_ = false;
  uint32_t generation_ = 1;       // the next to propose
  uint32_t last_generation_ = 0;  // the generation of this process's last ring
  bool running_ = false;
  bool finished_ = false;
  bool leaving_ = false;
  bool delivered_ = false;
  bool said_why_ = false;  // an event has the reason of the end
  Status failure_;
  size_t started_ = 0;  // the number of started operations
  size_t completed_ = 0;
  // When an operation last completed, or the rank began to wait.
  int64_t progress_ = 0;
  std::vector<std::vector<float>> data_;  // one for each operation
};

class Job {
 public:
  explicit Job(const Options& options);
  Report Run();

  // A call that every rank makes, in the order of calls_. The first is the
  // barrier at the beginning.
  struct Call {
    size_t count;
    bool wait;  // a rank waits for this call before the next one
    FrameType type = FrameType::kAllReduce;
    int root = 0;
  };
  // The number of floats of an operation's vector.
  size_t Floats(size_t op) const {
    const Call& call = calls_[op];
    const size_t parts = static_cast<size_t>(options_.size);
    return call.type == FrameType::kAllGather ? call.count * parts : call.count;
  }
  double Expected(size_t op, size_t i) const {
    const Call& call = calls_[op];
    if (call.type == FrameType::kBroadcast) return Value(call.root, op, i);
    if (call.type == FrameType::kAllGather) {
      return Value(static_cast<int>(i / call.count), op, i % call.count);
    }
    const double size = options_.size;
    return 0.3 * size * (size + 1) / 2 + size * (Value(0, op, i) - 0.3);
  }
  float Value(int rank, size_t op, size_t i) const {
    return static_cast<float>((rank + 1) * 0.3 +
                              static_cast<double>(i % 13 + op % 3));
  }
  void Violated(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }
  void Trace(int rank, const std::string& what) const;
  void InjectWhileForming();
  void InjectWhileSending(size_t floats);
  // Call it when a rank has finished, failed, ended or started again.
  void Ended();

  const Options options_;
  Network network_;
  RingOptions ring_;
  std::vector<Call> calls_;
  int64_t slowest_caller_ = 0;
  int64_t slowest_ring_ = 0;  // the longest time of a ring's transfers
  bool reforms_ = false;
  bool slow_ = false;  // links and callers are slow as the ring forms
  Report report_;
  std::map<size_t, uint32_t> bits_;  // a digest of each operation's result
  int64_t last_fault_ = 0;           // the end of the last fault
  int ending_rank_ = -1;             // the rank that aborts or withdraws
  // Faults left for the moments when ranks enter a ring, and while a long
  // frame is sent.
  int while_forming_ = 0, while_sending_ = 0;

 private:
  void PlanFaults();
  void Inject();
  void Watch();
  bool Done();

  std::vector<std::unique_ptr<Worker>> workers_;
};

// Worker: the process.

Worker::Worker(Job* job, int rank)
    : SimProcess(&job->network_, rank, job->options_.seed,
                 job->options_.sealed ? job->ring_.keys : nullptr),
      job_(job) {}

void Worker::StartProcess() {
  network()->StartProcess(rank_);
  alive_ = true;
  generation_ = 1;
  last_generation_ = 0;
  job_->Trace(rank_, "starts");
  MakeSession();
  session_->Begin(Now());
  job_->Ended();
}

void Worker::Withdraw() {
  network()->StartProcess(rank_);
  alive_ = true;
  MakeSession(kWithdrawSeconds);
  session_->BeginWithdrawal(InvalidArgument("%s", kReason), Now());
}

void Worker::MakeSession(double start_seconds) {
  NewSession();
  RingOptions options = job_->ring_;
  options.worker = rank_;
  options.start_timeout_seconds = start_seconds;
  running_ = finished_ = leaving_ = delivered_ = false;
  failure_ = Status();
  started_ = completed_ = 0;
  progress_ = network()->now();
  data_.assign(job_->calls_.size(), {});
  const uint64_t incarnation =
      static_cast<uint64_t>(network()->Random(INT64_MAX));
  session_ = std::make_unique<Session>(options, generation_, incarnation, this,
                                       this, Now());
}

void Worker::Crash(bool silent) {
  if (!alive_) return;
  job_->Trace(rank_, silent ? "and its host end silently" : "crashes");
  EndProcess(silent);
  alive_ = running_ = finished_ = false;
  job_->Ended();
}

void Worker::Abort() {
  if (session_ == nullptr || !running_ || failed() || finished_) {
    Later(kTimeout / 16, &Worker::Abort);
    return;
  }
  job_->Trace(rank_, "aborts");
  job_->last_fault_ = network()->now();
  session_->Abort(Error(Code::kIo, "%s", kReason), Now());
}

void Worker::Reform() {
  if (session_ != nullptr || !alive_) return;
  ++job_->report_.reforms;
  generation_ = std::max(generation_, last_generation_) + 1;
  job_->Trace(rank_,
              "forms the ring again, proposes " + std::to_string(generation_));
  MakeSession();
  session_->Begin(Now());
}

// Calls `what` after the delay, unless this session has ended.
void Worker::Later(int64_t delay, void (Worker::*what)()) {
  InSession(delay, [this, what] { (this->*what)(); });
}

// Worker: the caller.

void Worker::OnRunning() {
  const uint32_t generation = session_->generation();
  job_->Trace(rank_, "is in ring " + std::to_string(generation));
  if (generation <= last_generation_) {
    job_->Violated("a new ring has no higher generation");
  }
  last_generation_ = generation;
  running_ = true;
  job_->report_.formed_nanos = network()->now();
  job_->InjectWhileForming();
  Later(0, &Worker::StartNext);
}

void Worker::StartNext() {
  if (session_ == nullptr || failed() || leaving_) return;
  const std::vector<Job::Call>& plan = job_->calls_;
  if (completed_ == started_) progress_ = network()->now();
  bool wait = false;
  while (started_ < plan.size() && !wait) {
    const size_t op = started_++;
    wait = plan[op].wait;
    std::vector<float>& v = data_[op];
    v.assign(job_->Floats(op), -1);
    const bool gathers = plan[op].type == FrameType::kAllGather;
    const size_t own =
        gathers ? plan[op].count * static_cast<size_t>(rank_) : 0;
    for (size_t i = 0; i < plan[op].count; ++i) {
      v[own + i] = job_->Value(rank_, op, i);
    }
    // Numbers travel in little-endian order.
    SwapToLittle(v.data(), sizeof(float), v.size());
    Call call;
    call.type = plan[op].type;
    call.root = plan[op].root;
    call.data = reinterpret_cast<uint8_t*>(v.data());
    call.bytes = plan[op].count * sizeof(float);
    session_->SetStep(op);
    session_->Start(&call, 1, Now());
    if (failed()) return;
    job_->InjectWhileSending(plan[op].count);
  }
  if (!network()->Chance(3)) return;
  session_->Poll(Now(), /*wake=*/false);
  Later(network()->Random(kTimeout / 32), &Worker::StopPolling);
}

// The caller polled, and was not to be woken. Now it sleeps, and is to be
// woken.
void Worker::StopPolling() { session_->Poll(Now(), /*wake=*/true); }

void Worker::OnCompleted(uint64_t sequence) {
  progress_ = network()->now();
  while (completed_ < sequence) CheckResult(completed_++);
  if (completed_ == job_->calls_.size()) {
    job_->Trace(rank_, "has finished");
    Later(network()->Random(kTimeout / 8), &Worker::Leave);
  } else if (completed_ == started_) {
    const int64_t slow = job_->slowest_caller_;
    Later(network()->Chance(3) ? network()->Random(slow + 1) : 0,
          &Worker::StartNext);
  }
}

void Worker::CheckResult(size_t op) {
  std::vector<float>& v = data_[op];
  if (v.empty()) return;
  SwapToLittle(v.data(), sizeof(float), v.size());
  const uint32_t bits = Crc32c(v.data(), v.size() * sizeof(float));
  const uint32_t first = job_->bits_.emplace(op, bits).first->second;
  if (bits != first) {
    job_->Violated("rank " + std::to_string(rank_) + " has other bits in sum " +
                   std::to_string(op));
  }
  double last_place =
      job_->ring_.wire_dtype == WireDtype::kFloat32 ? 1e-5 : 1. / 128;
  if (job_->calls_[op].type != FrameType::kAllReduce) last_place = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double right = job_->Expected(op, i);
    if (std::fabs(v[i] - right) <= last_place * job_->options_.size * right) {
      continue;
    }
    return job_->Violated("rank " + std::to_string(rank_) + " has " +
                          std::to_string(v[i]) + " for " +
                          std::to_string(right) + " in operation " +
                          std::to_string(op + 1));
  }
}

void Worker::OnFailed(const Status& status) {
  if (!said_why_) job_->Violated("no event says why the ring ended");
  said_why_ = false;
  job_->Trace(rank_, std::string("fails: ") + status.message());
  ++job_->report_.failures;
  failure_ = status;
  const Scenario scenario = job_->options_.scenario;
  const std::string text = status.message();
  static const std::regex has_worker("(rank|worker) [0-9]");
  if (scenario == Scenario::kCalm || scenario == Scenario::kSlow) {
    job_->Violated("nothing was wrong: " + text);
  } else if (!std::regex_search(text, has_worker)) {
    job_->Violated("an error without a rank or worker: " + text);
  } else if (job_->reforms_) {
    if (status.code() != Code::kPeerLost) {
      job_->Violated("not the loss of a peer: " + text);
    }
  } else if (text.find(kReason) == std::string::npos) {
    job_->Violated("not the reason that was given: " + text);
  }
  data_.clear();  // not used after this: a sanitizer would show it
  Later(network()->Random(kTimeout / 4), &Worker::Leave);
}

void Worker::OnDelivered() { delivered_ = true; }
void Worker::OnNotice(const std::string& line) { job_->Trace(rank_, line); }
void Worker::OnEvent(const Event& event) {
  said_why_ |= event.is("loss") || event.is("abort");
}

void Worker::Leave() {
  if (leaving_) return;
  leaving_ = true;
  session_->Leave(Now());
}

void Worker::Closed() {
  const bool good = failure_.ok();
  EndSession();
  running_ = false;
  finished_ = good && completed_ == job_->calls_.size();
  job_->Trace(rank_, "has left");
  job_->Ended();
}

void Worker::CheckWait(int64_t since_fault) {
  if (session_ == nullptr || leaving_ || failed() || !running_ ||
      started_ == completed_) {
    return;
  }
  const int64_t waits = network()->now() - progress_;
  if (job_->options_.trace && waits > kTimeout) {
    const double seconds = static_cast<double>(waits) / 1e9;
    job_->Trace(rank_, WaitMessage(session_->CurrentWait(Now()), seconds,
                                   job_->ring_.addresses));
  }
  if (std::min(waits, since_fault) >
      kLongestWait + job_->slowest_caller_ + job_->slowest_ring_) {
    job_->Violated("rank " + std::to_string(rank_) + " has waited " +
                   std::to_string(waits / kMs) + " ms in operation " +
                   std::to_string(completed_ + 1));
  }
}

// Job.

Job::Job(const Options& options)
    : options_(options), network_(options.size, options.seed * 2 + 1) {
  for (int r = 0; r < options.size; ++r) {
    ring_.addresses.push_back("worker" + std::to_string(r) + ":7000");
  }
  if (options.sealed) ring_.keys = std::make_shared<JobKeys>(JobKeys{{}, 1});
  ring_.timeout_seconds = static_cast<double>(kTimeout) / 1e9;
  const WireDtype dtypes[] = {WireDtype::kFloat32, WireDtype::kFloat32,
                              WireDtype::kBfloat16, WireDtype::kFloat16};
  // Sums of many ranks are beyond a float16.
  ring_.wire_dtype = dtypes[options.at_once ? 0 : network_.Random(4)];
  if (options.seed / 32 % 8 == 2) {
    ring_.implementation = RingImplementation::kRing;
  }
  if (options.seed / 32 % 4 == 3) {
    ring_.implementation = RingImplementation::kTree;
    ring_.wire_dtype = WireDtype::kFloat32;
  }
  const size_t counts[] = {0, 1, 5, 700, 2048, 2049, 6000, 40001};
  const int64_t calls = options.at_once ? 3 : 8 + network_.Random(16);
  calls_.push_back({0, true, FrameType::kBarrier});
  for (int64_t i = 0; i < calls; ++i) {
    calls_.push_back({counts[network_.Random(network_.Chance(8) ? 8 : 7)],
                      network_.Chance(2)});
    if (!options.all_calls) continue;
    Call& call = calls_.back();
    call.type = static_cast<FrameType>(16 + network_.Random(4));
    if (call.type == FrameType::kAllReduce) continue;
    call.wait = true;
    if (call.type == FrameType::kBarrier) call.count = 0;
    if (call.type == FrameType::kAllGather && call.count > 10) {
      call.count = counts[network_.Random(4)] + 1;
    }
    if (call.type == FrameType::kBroadcast) {
      call.root = static_cast<int>(network_.Random(options.size));
    }
  }
  calls_.back().wait = true;
  reforms_ = options.scenario == Scenario::kFaults ||
             options.scenario == Scenario::kForming;
  slowest_caller_ = kTimeout / 4;
  if (options.scenario == Scenario::kSlow) {
    network_.SetLatency(kTimeout / 100, kTimeout / 40);
    slowest_ring_ = 2 * options.size * kTimeout * 7 / 200;
  }
  slow_ = options.scenario == Scenario::kForming && network_.Chance(2);
  if (slow_) {
    network_.SetLatency(kTimeout / 100, kTimeout / 40);
    slowest_ring_ = 2 * options.size * kTimeout * 7 / 200;
    slowest_caller_ = 3 * kTimeout;
  }
}

void Job::Trace(int rank, const std::string& what) const {
  if (!options_.trace) return;
  std::printf("%10.3f ms  rank %d %s\n",
              static_cast<double>(network_.now()) / 1e6, rank, what.c_str());
}

// If a rank needs a ring, no rank has finished: all form the ring again.
void Job::Ended() {
  const bool needed =
      std::any_of(workers_.begin(), workers_.end(),
                  [](const auto& w) { return w->needs_ring(); });
  if (!reforms_ || !needed) return;
  for (const auto& worker : workers_) {
    Worker* const w = worker.get();
    network_.At(network_.now() + network_.Random(kTimeout / 2),
                [w] { w->Reform(); });
  }
}

bool Job::Done() {
  if (!reforms_ && options_.scenario != Scenario::kCalm &&
      options_.scenario != Scenario::kSlow) {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
      return w->failed() || w->delivered() || w->finished();
    });
  }
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& w) { return w->finished(); });
}

void Job::PlanFaults() {
  const Scenario scenario = options_.scenario;
  const bool forming = scenario == Scenario::kForming;
  const int64_t faults = scenario == Scenario::kFaults ? 1 + network_.Random(3)
                         : forming                     ? network_.Random(20)
                         : scenario == Scenario::kSlow ? 5
                                                       : 0;
  for (int64_t i = 0; i < faults; ++i) {
    network_.At(network_.Random(forming ? kTimeout : 3 * kTimeout),
                [this] { Inject(); });
  }
  if (forming) while_forming_ = 1 + static_cast<int>(network_.Random(6));
  if (scenario == Scenario::kFaults) while_sending_ = 2;
}

// Injects a fault while other ranks are not in the ring yet, or have just
// learned of it.
void Job::InjectWhileForming() {
  if (while_forming_ == 0 || !network_.Chance(3)) return;
  --while_forming_;
  network_.At(network_.now() + network_.Random(slow_ ? 60 * kMs : 2 * kMs),
              [this] { Inject(); });
}

// Injects a fault while a frame has arrived in part.
void Job::InjectWhileSending(size_t floats) {
  if (while_sending_ == 0 || floats < 700 || !network_.Chance(8)) return;
  --while_sending_;
  network_.At(network_.now() + network_.Random(4 * kMs), [this] { Inject(); });
}

void Job::Inject() {
  const int a = static_cast<int>(network_.Random(options_.size));
  const std::vector<int> links = LinksOf(a, options_.size);
  const int b = links[network_.Random(static_cast<int64_t>(links.size()))];
  Worker* const w = workers_[a].get();
  int64_t lasts = kTimeout / 4 + network_.Random(3 * kTimeout);
  ++report_.faults;
  if (options_.scenario == Scenario::kSlow) {
    Trace(a, "is stalled for a moment");
    return network_.Stall(a, network_.Random(kTimeout / 5));
  }
  int64_t kind = network_.Random(6);
  if (options_.scenario == Scenario::kForming && !network_.Chance(8)) kind = 2;
  if (kind <= 1) {
    w->Crash(kind == 1);
    network_.At(network_.now() + lasts, [w] {
      if (!w->alive()) w->StartProcess();
    });
  } else if (kind <= 3) {
    const bool found = network_.Cut(a, b, kind == 3);
    Trace(a, (kind == 3 ? "half cut from rank " : "cut from rank ") +
                 std::to_string(b) + (found ? "" : ", not linked"));
    lasts = 0;
  } else if (kind == 4) {
    Trace(a, "is isolated for " + std::to_string(lasts / kMs) + " ms");
    for (int r = 0; r < options_.size; ++r) {
      network_.Block(a, r, network_.now() + lasts);
      network_.Block(r, a, network_.now() + lasts);
    }
  } else {
    Trace(a, "is stalled for " + std::to_string(lasts / kMs) + " ms");
    network_.Stall(a, lasts);
  }
  last_fault_ = std::max(last_fault_, network_.now() + lasts);
}

void Job::Watch() {
  const int64_t since = network_.now() - last_fault_;
  for (const auto& worker : workers_) worker->CheckWait(since);
  int64_t most =
      kLongestJob + static_cast<int64_t>(calls_.size()) *
                        (slowest_caller_ + slowest_ring_ + kTimeout / 2);
  if (since > most) Violated("the job is not done");
  network_.At(network_.now() + kTimeout / 4, [this] { Watch(); });
}

Report Job::Run() {
  for (int r = 0; r < options_.size; ++r) {
    workers_.push_back(std::make_unique<Worker>(this, r));
  }
  const bool one_ends_it = options_.scenario == Scenario::kAbort ||
                           options_.scenario == Scenario::kWithdraw;
  if (one_ends_it)
    ending_rank_ = static_cast<int>(network_.Random(options_.size));
  for (int r = 0; r < options_.size; ++r) {
    Worker* const w = workers_[r].get();
    const bool withdraws =
        r == ending_rank_ && options_.scenario == Scenario::kWithdraw;
    const bool aborts =
        r == ending_rank_ && options_.scenario == Scenario::kAbort;
    network_.At(network_.Random(options_.at_once ? 5 * kMs : kTimeout), [=] {
      if (withdraws) return w->Withdraw();
      w->StartProcess();
      if (aborts) w->Abort();
    });
  }
  PlanFaults();
  Watch();
  while (report_.violation.empty() && !Done() && network_.Step()) {
    ++report_.events;
  }
  if (report_.violation.empty() && !Done())
    Violated("nothing happens any more");
  report_.virtual_nanos = network_.now();
  report_.trace_digest = network_.trace_digest();
  workers_.clear();  // closes their streams before the network ends
  return report_;
}

}  // namespace

const char* ScenarioName(Scenario scenario) {
  switch (scenario) {
    case Scenario::kCalm:
      return "calm";
    case Scenario::kSlow:
      return "slow";
    case Scenario::kFaults:
      return "faults";
    case Scenario::kForming:
      return "forming";
    case Scenario::kAbort:
      return "abort";
    case Scenario::kWithdraw:
      return "withdraw";
  }
  return "unknown";
}

Options OptionsOfSeed(uint64_t seed) {
  Options options;
  options.seed = seed;
  const Scenario scenarios[] = {Scenario::kCalm,   Scenario::kSlow,
                                Scenario::kFaults, Scenario::kForming,
                                Scenario::kFaults, Scenario::kAbort,
                                Scenario::kFaults, Scenario::kWithdraw};
  options.scenario = scenarios[seed % 8];
  const int sizes[] = {2, 3, 4, 5, 3, 4, 9, 16};
  options.size = sizes[seed / 8 % 8];
  options.all_calls = seed / 64 % 2 == 1;
  options.sealed = seed % 3 == 1 && SecureStart().ok();
  return options;
}

Options LargeOptionsOfSeed(uint64_t seed) {
  Options options = OptionsOfSeed(seed);
  const int sizes[] = {17, 18, 24, 33, 64, 100};
  options.size = sizes[(seed + seed / 8) % 6];
  options.all_calls = true;
  return options;
}

Report Simulate(const Options& options) { return Job(options).Run(); }

}  // namespace sim
}  // namespace ringlet
