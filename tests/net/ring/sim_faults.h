// Faults of a simulated job, drawn from its network's generator. Processes end
// and restart, or are stalled. Hosts become silent, connections are cut, and
// partitions divide the job. Disks are slow, and clocks are set.

#ifndef RINGLET_TESTS_NET_RING_SIM_FAULTS_H_
#define RINGLET_TESTS_NET_RING_SIM_FAULTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim_network.h"

namespace ringlet {
namespace sim {

enum class Fault : uint8_t {
  kCrash,         // a process is killed
  kSilentHost,    // the process and its host end, without a message
  kCut,           // a connection ends
  kHalfOpen,      // one direction of a connection loses its bytes
  kParted,        // two parts of the job do not hear each other
  kPartedOneWay,  // one part does not hear the other part
  kSomePairs,     // some pairs of workers do not hear each other
  kStall,         // a process is stalled
  kAllStall,      // all processes are stalled, as by a suspended host
  kPowerCut,      // all processes and their hosts end
  // Only in jobs that save.
  kSlowDisk,
  kClockStep,  // the date is set, not the monotonic clock
  kWrongBit,   // a worker's arithmetic is wrong from now on
};
constexpr int kFaultKinds = static_cast<int>(Fault::kWrongBit) + 1;

// The number of faults of each kind.
struct FaultCounts {
  std::array<int64_t, kFaultKinds> by_kind = {};
  int64_t all() const;
  void Add(const FaultCounts& other);
  std::string Text() const;  // "3 crashes, 1 cut, …"
};

class Faults {
 public:
  // The owner of the processes.
  class Job {
   public:
    virtual void Crash(int worker, bool silent) = 0;
    // Starts a process of the worker, if it has none.
    virtual void Start(int worker) = 0;
    virtual void Trace(int worker, const std::string& what) = 0;
    // Called when the worker's process runs again, with the time at which it
    // was stalled.
    virtual void Woke(int, int64_t) {}
    virtual void SlowDisk(int, int64_t) {}  // slow until this time
    virtual void StepClock(int, int64_t) {}

   protected:
    ~Job() = default;
  };

  // A fault of Draw lasts for up to four and a quarter times `lasting`. `saves`
  // is true if the workers have disks and read the date.
  Faults(Network* network, int size, int64_t lasting, Job* job,
         bool saves = false)
      : network_(*network),
        size_(size),
        lasting_(lasting),
        kinds_(static_cast<int>(saves ? Fault::kWrongBit : Fault::kSlowDisk)),
        job_(*job),
        stalls_(static_cast<size_t>(size)) {}

  void Draw();
  // Cuts the link between two random workers, at a moment within `within`.
  void CutWithin(int64_t within);
  // From a moment within `within` on, this worker and the other workers do not
  // hear each other.
  void Isolate(int worker, int64_t within);
  // True if the process has just ended a stall of more than 1.5 times
  // `lasting`. It must not take this time for a silence of the other workers.
  bool JustWoke(int worker) const;
  // The worker has a new process, which was not stalled yet.
  void Begins(int worker) { stalls_[static_cast<size_t>(worker)] = Stall(); }
  // The time at which all faults so far are over.
  int64_t over() const { return over_; }
  void OverBy(int64_t time) { over_ = std::max(over_, time); }
  void Count(Fault kind) { ++counts_.by_kind[static_cast<size_t>(kind)]; }
  const FaultCounts& counts() const { return counts_; }
  // Without this call, one in four processes that end is not started again.
  void SpareNone() { all_return_ = true; }

 private:
  struct Stall {
    int64_t from = 0, until = 0;
  };
  void End(int worker, bool silent, int64_t lasts);
  void Part(Fault kind, int64_t lasts);
  void StandStill(int worker, int64_t lasts);

  Network& network_;
  const int size_;
  const int64_t lasting_;
  const int kinds_;  // Draw chooses from the first `kinds_` kinds
  Job& job_;
  bool all_return_ = false;
  std::vector<Stall> stalls_;  // the last stall of each worker
  int64_t over_ = 0;
  FaultCounts counts_;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_FAULTS_H_
