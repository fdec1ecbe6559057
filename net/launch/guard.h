// Guard: ends the workers if the launcher itself ends, also by SIGKILL.
//
// A forked child waits on a socket until its other end closes with this
// process, and then kills the workers. Between Start and the end of the Guard
// this process should use its children's ids only to report them here.
//
// There are three methods, since none finds all processes
// (tests/net/launch/launcher_test.cc).
// - Groups, reported when they are made: the processes that a worker started,
//   also without /proc or with another environment
//   (Kill9_WorkersWithAnotherEnvironment_LeavesNone).
// - The mark in the environment (Linux): processes that left their group
//   (Kill9_ProcessesLeftTheGroup_LeavesNone).
// - PR_SET_PDEATHSIG (Linux): the worker itself, if the guard was killed too,
//   for example by `killall -9 ringlet`
//   (Kill9_GuardWasKilledToo_WorkersEnd).
// While the launcher runs it ends orphans itself: see orphans.h.

#ifndef RINGLET_NET_LAUNCH_GUARD_H_
#define RINGLET_NET_LAUNCH_GUARD_H_

#include <sys/types.h>

#include <string>

#include "ringlet/status.h"

namespace ringlet {

class Guard {
 public:
  Guard() = default;
  ~Guard();  // ends the child, which first kills the remaining groups
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Processes with a variable that begins with `mark`, "NAME=", in their
  // environment are killed too.
  Status Start(int slots, const std::string& mark);
  pid_t pid() const { return child_; }
  // Sets the group of a slot to kill; 0 if there is none.
  void Set(int slot, pid_t group);

 private:
  int socket_ = -1;
  pid_t child_ = 0;
};

// While it exists, a process that this thread forks reports its id to the
// guard, as the group of its slot. On Linux it also requests SIGKILL from the
// kernel at the end of this thread. So every child always has an owner.
class GuardedFork {
 public:
  GuardedFork(Guard* guard, int slot);
  ~GuardedFork();
  GuardedFork(const GuardedFork&) = delete;
  GuardedFork& operator=(const GuardedFork&) = delete;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_GUARD_H_
