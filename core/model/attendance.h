// Attendance: which replicas are there in which round of local updates.
//
// Public. For runs in one process that simulate workers which come and go, and
// to compute once more what such workers have trained: bits of a round are a
// function of the run's file and of who was there. From a file:
// io/data/attendance_file.h.

#ifndef RINGLET_CORE_MODEL_ATTENDANCE_H_
#define RINGLET_CORE_MODEL_ATTENDANCE_H_

#include <cstdint>

#include "../base/status.h"

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
  // it is asked, on all ranks. Where nobody is there, and no quorum asked for,
  // the round's mean is nothing.
  virtual Presence Of(int64_t step, int replica) const = 0;
  // Asked before each round, from after `begin` steps to after `end`, of so
  // many replicas: an error, of all ranks, where it does not know who is there.
  virtual Status Check(int64_t begin, int64_t end, int replicas) const {
    (void)begin, (void)end, (void)replicas;
    return Status();
  }
  // Of all that it says, where that is a number: ranks and backups compare it.
  virtual uint64_t digest() const { return 0; }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_ATTENDANCE_H_
