// A model of an elastic job, and a search that visits all of its reachable
// states. Some workers run the shipped RecoveryState, ChooseDonor and
// CountVotes on a model network.
//
// A model's bits are one flag: whether they hold a wrong contribution. Events
// come in every order: crashes, restarts, changes of the partition, and one
// machine that computes wrong from any moment on. A crash may also cut off a
// step, a transfer or a check, which any subset of the other workers then has
// completed.

#ifndef RINGLET_TESTS_CORE_RECOVERY_RECOVERY_MODEL_H_
#define RINGLET_TESTS_CORE_RECOVERY_RECOVERY_MODEL_H_

#include <cstdint>
#include <string>

namespace ringlet {

// Mistakes that the search must find; it ends with the first state that is
// wrong.
enum class Mistake : uint8_t {
  kNone,
  kNoRollback,         // a loss keeps the state of the last boundary
  kNoFirstCheck,       // a view trains before it has compared
  kForgetsInTransfer,  // a receiver takes the donor's state as verified
  kVerifiesAlone,      // a worker alone counts as several
  kLateRollback,       // summaries are exchanged before states are rolled back
  kSameNumber,         // a restarted worker counts as the one before
};

struct Space {
  int workers = 3;
  int faulty = 0;  // the worker with the machine that may fail
  int steps = 4;
  int check_every = 2;
  int crashes = 2;
  int partitions = 1;
  int restarts = 1;
  Mistake mistake = Mistake::kNone;
};

struct Visit {
  int64_t states = 0;
  int64_t wrong = 0;         // states that break a promise
  std::string first_wrong;   // the first of these, in words
  int64_t right_ends = 0;    // ends of a group with exit code 0 and right bits
  int64_t faulty_alone = 0;  // the faulty worker ended alone: not seen by any
  int64_t stopped = 0;       // the job ended with an error
};

Visit VisitAll(const Space& space);

}  // namespace ringlet

#endif  // RINGLET_TESTS_CORE_RECOVERY_RECOVERY_MODEL_H_
