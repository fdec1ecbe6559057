// SimDisk: the disk of a simulated host. Its operations take virtual time of
// the calling process.

#ifndef RINGLET_TESTS_NET_RING_SIM_DISK_H_
#define RINGLET_TESTS_NET_RING_SIM_DISK_H_

#include <algorithm>
#include <cstdint>

#include "../../support/simulated_file_system.h"
#include "ringlet/collective.h"
#include "sim_collective.h"

namespace ringlet {
namespace sim {

class SimDisk final : public SimulatedFileSystem {
 public:
  explicit SimDisk(Network* network) : network_(*network) {}

  // Sets the process that makes the operations that follow.
  void UsedBy(SimCollective* process) { process_ = process; }
  void SlowUntil(int64_t time) { slow_until_ = std::max(slow_until_, time); }
  // Call it before the process ends. A write that is under way is half done,
  // and later operations do nothing.
  void Halt() { HaltAfter(0); }
  // Call it after the process has ended. With `power_cut` all bytes that were
  // not synced are lost, otherwise none.
  void Ended(bool power_cut) {
    if (power_cut) {
      CutPower(static_cast<uint64_t>(network_.Random(INT64_MAX)));
    } else {
      Kill();
    }
  }

 private:
  void Delay() override {
    if (process_ == nullptr || process_->killed()) return;
    if (network_.now() < slow_until_) {
      process_->Sleep(network_.Random(250 * kMs));
    } else if (network_.Chance(4)) {
      process_->Sleep(network_.Random(2 * kMs));
    }
  }

  Network& network_;
  SimCollective* process_ = nullptr;
  int64_t slow_until_ = 0;
};

// The clocks of a host: the date may be set.
class SimClock final : public Clock {
 public:
  SimClock(const Network* network, int worker)
      : network_(*network), worker_(worker) {}
  int64_t MonotonicNanos() override { return network_.ClockOf(worker_); }
  int64_t WallNanos() override { return MonotonicNanos() + ahead_; }
  void Step(int64_t nanos) { ahead_ += nanos; }

 private:
  const Network& network_;
  const int worker_;
  int64_t ahead_ = 1700000000000000000;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_DISK_H_
