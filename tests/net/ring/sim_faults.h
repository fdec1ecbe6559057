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
  kSilentHost,    // its host too: without a message to the others
  kCut,           // a connection ends
  kHalfOpen,      // what is sent one way is lost
  kParted,        // two parts do not hear each other
  kPartedOneWay,  // one does not hear the other
  kSomePairs,     // some pairs do not: hearing is not transitive
  kStall,         // a process stands still
  kAllStall,      // all of them do, as on a host that is suspended
  kPowerCut,      // all end, and their hosts
  // Only in jobs that save.
  kSlowDisk,
  kClockStep,  // the date is set, not the monotonic clock
  kWrongBit,   // a worker's arithmetic is wrong from now on
};
constexpr int kFaultKinds = static_cast<int>(Fault::kWrongBit) + 1;

// How many there were of each kind.
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
    // A new process, where there is none.
    virtual void Start(int worker) = 0;
    virtual void Trace(int worker, const std::string& what) = 0;
    // The process was stalled from that time until just now.
    virtual void Woke(int, int64_t) {}
    virtual void SlowDisk(int, int64_t) {}  // until then
    virtual void StepClock(int, int64_t) {}

   protected:
    ~Job() = default;
  };

  // `lasting`: what a fault lasts is up to four of these and a quarter.
  // `saves`: its workers have disks, and look at the date.
  Faults(Network* network, int size, int64_t lasting, Job* job,
         bool saves = false)
      : network_(*network),
        size_(size),
        lasting_(lasting),
        kinds_(static_cast<int>(saves ? Fault::kWrongBit : Fault::kSlowDisk)),
        job_(*job),
        stalls_(static_cast<size_t>(size)) {}

  void Draw();
  // Cuts two at random, in so much time or less.
  void CutWithin(int64_t within);
  // This one and the others do not hear each other, from within so much time.
  void Isolate(int worker, int64_t within);
  // True if the process was stalled for longer than `lasting`, until just now,
  // so that it has not noticed the others' silence.
  bool JustWoke(int worker) const;
  // Its process is a new one, which has not stood still.
  void Begins(int worker) { stalls_[static_cast<size_t>(worker)] = Stall(); }
  // The faults so far are over by then.
  int64_t over() const { return over_; }
  void OverBy(int64_t time) { over_ = std::max(over_, time); }
  void Count(Fault kind) { ++counts_.by_kind[static_cast<size_t>(kind)]; }
  const FaultCounts& counts() const { return counts_; }
  // One in four that end is not started again.
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
  const int kinds_;  // that are drawn: the first so many
  Job& job_;
  bool all_return_ = false;
  std::vector<Stall> stalls_;  // by worker: the last one
  int64_t over_ = 0;
  FaultCounts counts_;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_FAULTS_H_
