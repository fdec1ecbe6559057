// What a worker tells its user about a long wait: for whom, and how often.
//
// Internal to net/.

#ifndef RINGLET_NET_RING_WAIT_REPORT_H_
#define RINGLET_NET_RING_WAIT_REPORT_H_

#include <string>
#include <vector>

#include "../wire/heartbeat.h"

namespace ringlet {

// For whom this worker waits: the chain of those who wait for one another,
// with what each said last.
struct Waiting {
  struct Other {
    int rank = -1;
    Activity activity;
    double seconds = 0;  // since it said something else
    double silent = 0;   // since it said anything; 0 where that is not long
  };
  int rank = -1;  // this worker
  Activity activity;
  std::vector<Other> chain;  // empty: for the network alone
};
// "rank 0 has waited 5 s in operation 53 (all-reduce), step 17, for rank 2
// (10.0.0.3:7000), which has computed for 6 s, step 17, after operation 52".
// One that is silent may do something else by now: "rank 2 (10.0.0.3:7000),
// silent for 0.9 s, which said last that it computes, step 16, after operation
// 49".
// Of a longer chain the first and the last.
std::string WaitText(const Waiting& waiting, double seconds,
                     const std::vector<std::string>& addresses);
// "rank 0 has waited 7.5 s, and goes on".
std::string WaitedText(int rank, double seconds);

// When a wait is spoken of: after T, and then at twice the distance each time,
// at most a minute or T.
class Reminder {
 public:
  explicit Reminder(double timeout_seconds)
      : most_(timeout_seconds > 60 ? timeout_seconds : 60),
        distance_(timeout_seconds),
        next_(timeout_seconds) {}
  double next() const { return next_; }  // seconds since the wait began
  void Said() {
    next_ += distance_;
    distance_ = 2 * distance_ < most_ ? 2 * distance_ : most_;
  }

 private:
  const double most_;
  double distance_;
  double next_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_WAIT_REPORT_H_
