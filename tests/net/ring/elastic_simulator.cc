#include "elastic_simulator.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/byte_order.h"
#include "net/transport/sealed_stream.h"
#include "sim_faults.h"
#include "sim_process.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;  // T
constexpr double kStartSeconds = 4;
// The longest time from the last fault until all running workers are in one
// view. New processes wait kStartSeconds, or wait to join a view. A silence or
// a stall is noticed after 1.5 T. Then there are goodbyes of T, back-offs of 1
// s, and one or two new views.
constexpr int64_t kBound = 30 * kTimeout;
constexpr int kSumsAtEnd = 5;  // the sums of the last view

class SimJob;

int SizeOf(uint64_t seed, bool large) {
  if (large) return 17 + static_cast<int>(seed * 13 % 48);
  return static_cast<int>(seed % 32 == 31 ? 7 + seed / 32 % 10 : 2 + seed % 5);
}

// A worker's part of a sum. No two sets of workers have the same sum.
uint32_t PartOf(int worker) {
  return worker < 16 ? 1u << worker
                     : static_cast<uint32_t>(worker) * 0x9e3779b1u;
}

// One worker: a process, which may end and start again, and its caller.
class SimWorker final : public SimProcess, public Session::Owner {
 public:
  SimWorker(SimJob* job, int worker);

  void StartProcess();
  void Crash(bool silent);
  bool alive() const { return alive_; }
  uint32_t view_generation() const {
    return session_ == nullptr ? 0 : session_->view_generation();
  }
  // True if the worker is in a ring since before `time`, and has not failed.
  bool InRingSince(int64_t time) const {
    return alive_ && running_ && !failed_ && !leaving_ && members_.size() > 1 &&
           runs_since_ < time;
  }
  // True if the worker is in a view with these members, and has completed the
  // sums of this view. If *generation is 0, it becomes the view's; otherwise it
  // must be the view's.
  bool InView(const std::vector<int>& members, uint32_t* generation) const;

 private:
  void OnRunning() override;
  void OnCompleted(uint64_t sequence) override;
  void OnFailed(const Status& status) override;
  void OnDelivered() override {}
  void OnJoiner(bool has_joiner) override { has_joiner_ = has_joiner; }
  void OnNotice(const std::string& line) override;
  void OnEvent(const Event& event) override;
  void Closed() override;

  void MakeSession();
  void StartNext();
  void CheckSum(size_t op);
  void Leave();
  size_t CountOf(size_t op) const;

  SimJob* const job_;
  bool alive_ = false;
  uint32_t count_ = 1;  // the count in the next proposed generation
  uint64_t remaining_mask_ = 0;
  uint32_t last_ = 0;  // the generation of this process's last view
  bool running_ = false, has_joiner_ = false, leaving_ = false;
  bool failed_ = false, restart_ = false;
  bool said_why_ = false;  // an event has the reason of the end
  int64_t runs_since_ = 0;
  std::vector<int> members_;
  uint32_t generation_ = 0;
  std::map<size_t, std::vector<int32_t>> data_;  // key: the operation
  size_t started_ = 0;
  size_t completed_ = 0;
};

class SimJob final : private Faults::Job {
 public:
  SimJob(uint64_t seed, bool trace, bool large);
  ElasticReport Run();

  void Violated(const std::string& what) {
    if (report_.violation.empty()) report_.violation = what;
  }
  void Trace(int worker, const std::string& what) override;
  // A worker begins to form a view, or has entered a view. A fault may follow
  // within `within`.
  void Forms(int64_t within);
  // A worker has entered this view.
  void Runs(int worker, uint32_t generation, const std::vector<int>& members);
  bool JustWoke(int worker) const { return faults_.JustWoke(worker); }
  void Begins(int worker) { faults_.Begins(worker); }

  const uint64_t seed_;
  const bool trace_;
  const int size_;
  Network network_;
  RingOptions ring_;
  ElasticReport report_;

 private:
  void Crash(int worker, bool silent) override;
  void Start(int worker) override;
  void Woke(int worker, int64_t since) override;
  void Watch();
  void LookAtAll();
  bool Together() const;

  Faults faults_;
  int while_forming_ = 0;  // faults left for the moments when views form
  std::vector<std::unique_ptr<SimWorker>> workers_;
  // The views of each generation, from their proposers. Two processes of one
  // worker may propose two views of one generation.
  std::map<uint32_t, std::set<std::vector<int>>> views_;
  // The workers that have agreed, by generation.
  std::map<uint32_t, std::set<int>> agreed_;
};

// The worker.

SimWorker::SimWorker(SimJob* job, int worker)
    : SimProcess(&job->network_, worker, job->seed_, job->ring_.keys),
      job_(job) {}

void SimWorker::StartProcess() {
  network()->StartProcess(rank_);
  job_->Begins(rank_);
  alive_ = true;
  count_ = 1;
  remaining_mask_ = 0;
  last_ = 0;
  job_->Trace(rank_, "starts");
  MakeSession();
}

void SimWorker::MakeSession() {
  NewSession();
  RingOptions options = job_->ring_;
  options.worker = rank_;
  running_ = has_joiner_ = leaving_ = failed_ = restart_ = false;
  started_ = completed_ = 0;
  data_.clear();
  session_ = std::make_unique<Session>(
      options, count_, static_cast<uint64_t>(network()->Random(INT64_MAX)),
      this, this, Now(), std::exchange(remaining_mask_, 0));
  session_->Begin(Now());
  job_->Forms(kTimeout);
}

void SimWorker::Crash(bool silent) {
  if (!alive_) return;
  job_->Trace(rank_, silent ? "and its host end silently" : "crashes");
  EndProcess(silent);
  alive_ = running_ = false;
}

bool SimWorker::InView(const std::vector<int>& members,
                       uint32_t* generation) const {
  if (!running_ || failed_ || leaving_ || members_ != members ||
      completed_ < kSumsAtEnd) {
    return false;
  }
  if (*generation == 0) *generation = generation_;
  return generation_ == *generation;
}

void SimWorker::OnNotice(const std::string& line) { job_->Trace(rank_, line); }
void SimWorker::OnEvent(const Event& event) {
  said_why_ |= event.is("loss") || event.is("abort");
}

void SimWorker::OnRunning() {
  generation_ = session_->generation();
  members_ = session_->workers();
  ++job_->report_.views;
  std::string names;
  for (const int w : members_) names += " " + std::to_string(w);
  job_->Trace(rank_, "is in view " + std::to_string(ViewCount(generation_)) +
                         " of" + names);
  job_->Runs(rank_, generation_, members_);
  job_->Forms(2 * kMs);
  if (ViewCount(generation_) <= ViewCount(last_))
    job_->Violated("a new view has no higher generation");
  last_ = generation_;
  running_ = true;
  runs_since_ = network()->now();
  InSession(0, [this] { StartNext(); });
}

// The length of an operation's vector, which is the same on every member.
size_t SimWorker::CountOf(size_t op) const {
  const size_t counts[] = {1, 5, 700, 2049, 6000, 40001};
  return op == 0 ? 0 : counts[(generation_ * 31 + op * op * 7) % 6];
}

void SimWorker::StartNext() {
  if (session_ == nullptr || failed_ || leaving_) return;
  if (has_joiner_ && completed_ > 0 && network()->Chance(3)) {
    job_->Trace(rank_, "leaves the view for a joiner");
    return Leave();
  }
  const size_t op = started_++;
  std::vector<int32_t>& v = data_[op];
  v.resize(CountOf(op));
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<int32_t>(PartOf(rank_) + (i % 5 << 16));
  }
  SwapToLittle(v.data(), sizeof(int32_t), v.size());
  Call call;
  call.type = op == 0 ? FrameType::kBarrier : FrameType::kAllReduceInts;
  call.data = reinterpret_cast<uint8_t*>(v.data());
  call.bytes = v.size() * sizeof(int32_t);
  session_->SetStep(op);
  session_->Start(&call, 1, Now());
}

void SimWorker::OnCompleted(uint64_t sequence) {
  while (completed_ < sequence) CheckSum(completed_++);
  if (completed_ != started_) return;
  const bool slow = network()->Chance(4);
  InSession(network()->Random(slow ? kTimeout / 2 : kTimeout / 20),
            [this] { StartNext(); });
}

void SimWorker::CheckSum(size_t op) {
  std::vector<int32_t> v = std::move(data_[op]);
  data_.erase(op);
  SwapToLittle(v.data(), sizeof(int32_t), v.size());
  ++job_->report_.sums;
  if (static_cast<int>(members_.size()) < job_->size_) {
    ++job_->report_.partial;
  }
  uint32_t sum = 0;
  for (const int w : members_) sum += PartOf(w);
  const uint32_t many = static_cast<uint32_t>(members_.size());
  for (size_t i = 0; i < v.size(); ++i) {
    const uint32_t right = sum + many * (static_cast<uint32_t>(i % 5) << 16);
    if (static_cast<uint32_t>(v[i]) == right) continue;
    return job_->Violated("worker " + std::to_string(rank_) + " has " +
                          std::to_string(v[i]) + " for " +
                          std::to_string(right));
  }
}

void SimWorker::OnFailed(const Status& status) {
  if (!said_why_) job_->Violated("no event says why the ring ended");
  said_why_ = false;
  const std::string text = status.message();
  job_->Trace(rank_, "fails: " + text);
  if (running_ && job_->JustWoke(rank_) &&
      text.find("silent for") != std::string::npos &&
      text.find("reported by") == std::string::npos &&
      text.find(job_->ring_.addresses[rank_]) == std::string::npos) {
    job_->Violated(
        "a worker that was stalled reports another worker as silent: " + text);
  }
  failed_ = true;
  data_.clear();  // not used after this: a sanitizer would show it
  restart_ = !running_ && status.code() == Code::kDeadlineExceeded;
  if (!restart_ && status.code() != Code::kPeerLost) {
    job_->Violated("not the loss of a peer: " + text);
  }
  if (running_ && !restart_) {
    const int rank = status.rank();
    if (rank < 0 || rank >= static_cast<int>(members_.size())) {
      job_->Violated("the lost rank is " + std::to_string(rank) + ": " + text);
    } else if (text.find(job_->ring_.addresses[members_[rank]]) ==
               std::string::npos) {
      job_->Violated("not the address of rank " + std::to_string(rank) + ": " +
                     text);
    }
  }
  InSession(network()->Random(kTimeout / 4), [this] { Leave(); });
}

void SimWorker::Leave() {
  if (leaving_) return;
  leaving_ = true;
  session_->Leave(Now());
}

void SimWorker::Closed() {
  count_ = std::max(count_, session_->newest_generation()) + 1;
  remaining_mask_ = session_->remaining_workers();
  EndSession();
  running_ = false;
  if (restart_) {  // the launcher starts the worker again
    Crash(/*silent=*/false);
    return network()->At(network()->now() + network()->Random(kTimeout / 4),
                         [this] {
                           if (!alive_) StartProcess();
                         });
  }
  InSession(network()->Random(kTimeout / 16), [this] {
    job_->Trace(rank_, "forms another view");
    MakeSession();
  });
}

// The job.

SimJob::SimJob(uint64_t seed, bool trace, bool large)
    : seed_(seed),
      trace_(trace),
      size_(SizeOf(seed, large)),
      network_(size_, seed * 2 + 1),
      faults_(&network_, size_, kTimeout, this) {
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
  if (network_.Chance(2)) {
    while_forming_ = static_cast<int>(network_.Random(24));
  }
  if (network_.Chance(3)) network_.SetLatency(kTimeout / 100, kTimeout / 40);
}

void SimJob::Trace(int worker, const std::string& what) {
  if (!trace_) return;
  std::printf("%10.3f ms  worker %d %s\n",
              static_cast<double>(network_.now()) / 1e6, worker, what.c_str());
}

void SimJob::Forms(int64_t within) {
  if (while_forming_ == 0 || !network_.Chance(2)) return;
  --while_forming_;
  if (network_.Chance(2)) return faults_.CutWithin(within);
  const int worker = static_cast<int>(network_.Random(size_));
  const int64_t lasts = network_.Random(3 * kTimeout);
  const bool silent = network_.Chance(3);
  faults_.OverBy(network_.now() + within + lasts);
  faults_.Count(silent ? Fault::kSilentHost : Fault::kCrash);
  network_.At(network_.now() + network_.Random(within), [=] {
    Crash(worker, silent);
    network_.At(network_.now() + lasts, [=] { Start(worker); });
  });
}

void SimJob::Runs(int worker, uint32_t generation,
                  const std::vector<int>& members) {
  std::set<std::vector<int>>& known = views_[generation];
  agreed_[generation].insert(worker);
  if (ViewProposer(generation) == worker) known.insert(members);
  if (known.count(members) == 0) {
    Violated("a view of other members than its proposer's");
  }
  for (const int w : members) {
    if (agreed_[generation].count(w) == 0) {
      Violated("a view of worker " + std::to_string(w) +
               ", which has not agreed");
    }
  }
  if (std::find(members.begin(), members.end(), worker) == members.end()) {
    Violated("a view without this worker");
  }
  if (static_cast<int>(members.size()) < ring_.min_workers) {
    Violated("a view of too few");
  }
}

void SimJob::Crash(int worker, bool silent) { workers_[worker]->Crash(silent); }

void SimJob::Start(int worker) {
  if (!workers_[worker]->alive()) workers_[worker]->StartProcess();
}

// A worker that was stalled for more than 1.5 T must not be in its earlier
// ring: the other workers have, or may have, continued without it.
void SimJob::Woke(int worker, int64_t since) {
  if (network_.now() - since > kTimeout + kTimeout / 2 &&
      workers_[worker]->InRingSince(since)) {
    Violated("worker " + std::to_string(worker) +
             " was stalled, and is still in its earlier ring");
  }
}

bool SimJob::Together() const {
  std::vector<int> live;
  for (int w = 0; w < size_; ++w) {
    if (workers_[w]->alive()) live.push_back(w);
  }
  if (live.empty() || static_cast<int>(live.size()) < ring_.min_workers) {
    // Too few workers for a view: the job ends a while after the last fault.
    return network_.now() - faults_.over() > 10 * kTimeout;
  }
  uint32_t generation = 0;
  return std::all_of(live.begin(), live.end(), [&](int w) {
    return workers_[w]->InView(live, &generation);
  });
}

void SimJob::Watch() {
  if (network_.now() - faults_.over() > kBound) {
    Violated("the running workers are not in one view");
  }
  network_.At(network_.now() + kTimeout / 8, [this] { Watch(); });
}

void SimJob::LookAtAll() {
  for (int w = 0; w < size_; ++w) {
    // For each other worker one connection may be in use, one may be closing,
    // and one may be half open.
    if (network_.streams(w) > 3 * size_) {
      Violated("worker " + std::to_string(w) + " has " +
               std::to_string(network_.streams(w)) + " open connections");
    }
    const uint32_t generation = workers_[w]->view_generation();
    if (generation != 0) agreed_[generation].insert(w);
  }
}

ElasticReport SimJob::Run() {
  report_.size = size_;
  for (int w = 0; w < size_; ++w) {
    workers_.push_back(std::make_unique<SimWorker>(this, w));
    SimWorker* const worker = workers_.back().get();
    const bool late = network_.Chance(6);
    network_.At(network_.Random(late ? 8 * kTimeout : kTimeout), [worker] {
      if (!worker->alive()) worker->StartProcess();
    });
  }
  faults_.OverBy(8 * kTimeout);
  for (int64_t n = network_.Random(8); n > 0; --n) {
    network_.At(network_.Random(10 * kTimeout), [this] { faults_.Draw(); });
  }
  Watch();
  while (report_.violation.empty() && network_.Step()) {
    ++report_.events;
    LookAtAll();
    if (network_.now() > std::max(faults_.over(), 10 * kTimeout) &&
        report_.events % 64 == 0 && Together()) {
      break;
    }
  }
  report_.virtual_nanos = network_.now();
  report_.faults = faults_.counts();
  report_.trace_digest = network_.trace_digest();
  workers_.clear();  // closes their streams before the network ends
  return report_;
}

}  // namespace

ElasticReport SimulateElastic(uint64_t seed, bool trace, bool large) {
  return SimJob(seed, trace, large).Run();
}

}  // namespace sim
}  // namespace ringlet
