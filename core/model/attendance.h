// Attendance: which replicas are there in which round of local updates.
//
// Public. For runs in one process that simulate workers which come and go, and
// to compute once more what such workers have trained: bits of a round are a
// function of the run's file and of who was there.

#ifndef RINGLET_CORE_MODEL_ATTENDANCE_H_
#define RINGLET_CORE_MODEL_ATTENDANCE_H_

#include <cstdint>

namespace ringlet {

enum class Presence : uint8_t {
  kThere,
  kLate,  // drawn for the round as one that is there, and not in its mean
  kAway,  // another one is drawn
};

class Attendance {
 public:
  virtual ~Attendance() = default;
  // In the round that begins after `step` steps of the run; the same whenever
  // it is asked, on all ranks.
  virtual Presence Of(int64_t step, int replica) const = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_ATTENDANCE_H_
