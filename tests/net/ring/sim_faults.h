// Faults of a simulated job, drawn from its network's generator: processes that
// end and start again, hosts that go silent, connections that are cut, parts
// that do not hear each other, processes that stand still.

#ifndef RINGLET_TESTS_NET_RING_SIM_FAULTS_H_
#define RINGLET_TESTS_NET_RING_SIM_FAULTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim_network.h"

namespace ringlet {
namespace sim {

class Faults {
 public:
  // Whose processes they are.
  class Job {
   public:
    virtual void Crash(int worker, bool silent) = 0;
    // A new process, where there is none.
    virtual void Start(int worker) = 0;
    virtual void Trace(int worker, const std::string& what) = 0;

   protected:
    ~Job() = default;
  };

  // `lasting`: what a fault lasts is up to four of these and a quarter.
  Faults(Network* network, int size, int64_t lasting, Job* job)
      : network_(*network),
        size_(size),
        lasting_(lasting),
        job_(*job),
        stalls_(static_cast<size_t>(size)) {}

  void Draw();
  // Cuts two at random, in so much time or less.
  void CutWithin(int64_t within);
  // It stood still for longer than `lasting`, until just now: of the others'
  // silence meanwhile it knows nothing.
  bool JustWoke(int worker) const;
  // The faults so far are over by then.
  int64_t over() const { return over_; }
  void OverBy(int64_t time) { over_ = std::max(over_, time); }
  int count() const { return count_; }
  // One in four that end is not started again.
  void SpareNone() { all_return_ = true; }

 private:
  void Partition(int64_t lasts);

  Network& network_;
  const int size_;
  const int64_t lasting_;
  Job& job_;
  bool all_return_ = false;
  struct Stall {
    int64_t from = 0, until = 0;
  };
  std::vector<Stall> stalls_;  // by worker: the last one
  int64_t over_ = 0;
  int count_ = 0;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_FAULTS_H_
