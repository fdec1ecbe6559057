// A worker restarts while the other workers compute a step that is longer than
// start_timeout. Simulated, in virtual time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim_collective.h"
#include "sim_network.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int64_t kTimeout = 1000 * kMs;         // T
constexpr int64_t kStartTimeout = 4 * kTimeout;  // far less than what is long
constexpr int kWorkers = 3;
constexpr int64_t kSteps = 12, kLongStep = 5;

// Workers that compute steps together, one of them a long one. They have the
// information on each other's steps that Recovery would have.
class Job final : public SimCollective::Owner {
 public:
  Job(uint64_t seed, bool trace)
      : seed_(seed), trace_(trace), network(kWorkers, seed * 2 + 1) {
    for (int w = 0; w < kWorkers; ++w) {
      ring_.addresses.push_back("worker" + std::to_string(w) + ":7000");
    }
    ring_.timeout_seconds = static_cast<double>(kTimeout) / 1e9;
    ring_.start_timeout_seconds = static_cast<double>(kStartTimeout) / 1e9;
    ring_.min_workers = 1;
    for (int w = 0; w < kWorkers; ++w) Start(w);
  }
  ~Job() { ending_ = true; }

  void Start(int worker) {
    workers_[worker] = std::make_unique<SimCollective>(
        &network, &ring_, worker, seed_,
        [this](SimCollective* collective) { return RunWorker(collective); },
        this);
  }
  void Crash(int worker) { workers_[worker]->Crash(/*silent=*/false); }
  bool alive(int worker) const { return workers_[worker]->alive(); }

  // Runs until all workers have ended. Returns false if that takes too long.
  bool Run(int64_t limit) {
    const auto is_alive = [](const auto& worker) { return worker->alive(); };
    while (std::any_of(workers_, workers_ + kWorkers, is_alive)) {
      if (network.now() > limit || !network.Step()) return false;
    }
    return true;
  }

 private:
  void Trace(int worker, const std::string& what) override {
    if (!trace_ || ending_) return;
    std::printf("%10.3f ms  worker %d %s\n",
                static_cast<double>(network.now()) / 1e6, worker, what.c_str());
  }
  void Exited(int worker, const Status& status) override {
    Trace(worker, status.ok() ? "is done" : status.message());
    if (status.ok()) done.insert(worker);
  }

  Status RunWorker(SimCollective* collective) {
    int64_t step = 0;
    for (;;) {
      Status status = AgreeOnFurthest(collective, &step);
      while (status.ok() && step < kSteps) status = Step(collective, &step);
      if (status.ok()) status = collective->Barrier();
      if (status.code() != Code::kPeerLost) return status;
      RINGLET_RETURN_IF_ERROR(collective->Reform());
    }
  }

  static Status AgreeOnFurthest(SimCollective* collective, int64_t* step) {
    std::vector<int64_t> all(static_cast<size_t>(collective->size()));
    RINGLET_RETURN_IF_ERROR(
        collective->AllGather(step, sizeof(*step), all.data()));
    *step = *std::max_element(all.begin(), all.end());
    return Status();
  }

  Status Step(SimCollective* collective, int64_t* step) {
    const int worker = collective->worker();
    const bool is_long = *step == kLongStep && computed_.insert(worker).second;
    if (is_long) begun.insert(worker);
    collective->Sleep(is_long ? long_nanos[worker] : 20 * kMs);
    int32_t flags[] = {1 << worker, collective->has_joiner() ? 1 : 0};
    Collective::Ticket ticket = 0;
    RINGLET_RETURN_IF_ERROR(collective->StartAllReduceInts(flags, 2, &ticket));
    RINGLET_RETURN_IF_ERROR(collective->Wait(ticket));
    ++*step;
    made.insert({*step, flags[0]});
    Trace(worker, "made step " + std::to_string(*step));
    return flags[1] == 0 ? Status() : PeerLost(-1, "a joiner");
  }

  const uint64_t seed_;
  const bool trace_;
  RingOptions ring_;
  bool ending_ = false;
  std::set<int> computed_;  // the long step, at least once

 public:
  Network network;
  int64_t long_nanos[kWorkers] = {};
  // The workers that have begun the long step.
  std::set<int> begun;
  // Steps, each with a mask of its members.
  std::set<std::pair<int64_t, int>> made;
  std::set<int> done;

 private:
  std::unique_ptr<SimCollective> workers_[kWorkers];
};

bool Traces() { return std::getenv("RINGLET_SIM_TRACE") != nullptr; }

// All begin the long step. Then one of them crashes, and is started again soon.
void LoseOneInTheLongStep(Job* job, int lost) {
  while (job->begun.size() < kWorkers && job->network.Step()) {
  }
  const int64_t now = job->network.now();
  const int64_t crash_at = now + job->network.Random(2 * kTimeout);
  job->network.At(crash_at, [=] { job->Crash(lost); });
  job->network.At(crash_at + kTimeout / 10 + job->network.Random(kTimeout),
                  [=] { job->Start(lost); });
  while (job->network.now() < crash_at && job->network.Step()) {
  }
}

// No worker makes a step that the other workers do not make too.
TEST(BusyWorkersTest, ReturningWorker_OthersCompute_WaitsForThem) {
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Job job(seed, Traces());
    const int lost = static_cast<int>(seed % kWorkers);
    if (seed % 4 == 0) job.network.SetLatency(kTimeout / 100, kTimeout / 40);
    for (int64_t& nanos : job.long_nanos) {
      nanos = 2 * kStartTimeout + job.network.Random(5 * kStartTimeout);
    }
    LoseOneInTheLongStep(&job, lost);
    EXPECT_TRUE(job.Run(60 * kTimeout));
    EXPECT_EQ(job.done.size(), 3u);
    EXPECT_EQ(job.made.size(), static_cast<size_t>(kSteps));
    for (const auto& [step, members] : job.made) EXPECT_EQ(members, 7) << step;
  }
}

// A computing worker ends, and is not started again: the wait for it is short.
TEST(BusyWorkersTest, ReturningWorker_AComputingWorkerEnds_ContinuesWithoutIt) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Job job(seed, Traces());
    const int lost = static_cast<int>(seed % kWorkers);
    const int crashed = static_cast<int>((seed + 1) % kWorkers);
    for (int64_t& nanos : job.long_nanos) nanos = 2 * kStartTimeout;
    LoseOneInTheLongStep(&job, lost);
    job.network.At(job.network.now() + job.network.Random(5 * kTimeout),
                   [&] { job.Crash(crashed); });
    EXPECT_TRUE(job.Run(60 * kTimeout));
    EXPECT_EQ(job.done.size(), 2u);
    EXPECT_EQ(job.made.rbegin()->second, 7 & ~(1 << crashed));
    for (const auto& [step, members] : job.made) {
      EXPECT_NE(members, 1 << lost) << "alone, step " << step;
    }
  }
}

}  // namespace
}  // namespace sim
}  // namespace ringlet
