// ProbeSchedule: which missing worker is probed, and when.
//
// Pure. It owns the place in the round of probes. Strangers calls Next at each
// tick. One worker is probed at a time, each once in a round. The worker with
// the higher number dials the lower one. So two workers that each list
// themselves first would wait for each other without a message. While the first
// ring forms, a worker compares its list with the lists of the missing workers
// of higher numbers, one after another.

#ifndef RINGLET_NET_MEMBERSHIP_PROBE_SCHEDULE_H_
#define RINGLET_NET_MEMBERSHIP_PROBE_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../core/base/time_units.h"

namespace ringlet {

class ProbeSchedule {
 public:
  explicit ProbeSchedule(int worker) : worker_(worker), probed_(worker) {}

  // The first round of probes is after 3 s. Without Begin there is none.
  void Begin(int64_t now) { next_round_ = now + kFirstRound; }

  // The worker of `linked` (ascending) that is to be probed now; -1 if there is
  // none. It is the same until Done.
  int Next(const std::vector<int>& linked, int64_t now) {
    if (now < next_round_) return -1;
    const auto next = std::upper_bound(linked.begin(), linked.end(), probed_);
    if (next != linked.end()) return *next;
    probed_ = worker_;
    next_round_ = now + kBetweenRounds;
    return -1;
  }
  void Done(int peer) { probed_ = peer; }

 private:
  static constexpr int64_t kFirstRound = 3 * kSecond;
  static constexpr int64_t kBetweenRounds = 10 * kSecond;

  const int worker_;
  int probed_;  // the last probed worker of this round, or worker_
  int64_t next_round_ = INT64_MAX;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_PROBE_SCHEDULE_H_
