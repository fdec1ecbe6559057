// The messages of a worker about a long wait: their text, and how often.

#ifndef RINGLET_NET_COLLECTIVE_WAIT_REPORT_H_
#define RINGLET_NET_COLLECTIVE_WAIT_REPORT_H_

#include <string>
#include <vector>

#include "../wire/heartbeat.h"

namespace ringlet {

// The chain of ranks that wait for one another, from the rank that this worker
// waits for, with the last report of each.
struct WaitChain {
  struct Entry {
    int rank = -1;
    Activity activity;
    double seconds = 0;  // time since its last report that differs
    double silent = 0;   // time since its last report; 0 if that is recent
  };
  int rank = -1;  // this worker
  Activity activity;
  std::vector<Entry> entries;  // empty if it waits only for the network
};
// "rank 0 has waited 5 s in operation 53 (all-reduce), step 17, for rank 2
// (10.0.0.3:7000), which has computed for 6 s, step 17, after operation 52".
// A silent rank may have another activity now: "rank 2 (10.0.0.3:7000), silent
// for 0.9 s, which last reported that it computes, step 16, after operation
// 49". A longer chain is reported by its first and its last rank.
std::string WaitMessage(const WaitChain& waiting, double seconds,
                        const std::vector<std::string>& addresses);
// "rank 0 has waited 7.5 s, and continues".
std::string WaitEndMessage(int rank, double seconds);

// The times of the messages about a wait. The first is after T. Each further
// interval is twice as long, up to a minute, or up to T if that is longer.
class Reminder {
 public:
  explicit Reminder(double timeout_seconds)
      : most_(timeout_seconds > 60 ? timeout_seconds : 60),
        distance_(timeout_seconds),
        next_(timeout_seconds) {}
  double next() const { return next_; }  // seconds since the wait began
  void Advance() {
    next_ += distance_;
    distance_ = 2 * distance_ < most_ ? 2 * distance_ : most_;
  }

 private:
  const double most_;
  double distance_;
  double next_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_COLLECTIVE_WAIT_REPORT_H_
