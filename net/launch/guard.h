// Guard: ends the workers when the launcher itself dies, of SIGKILL too.
//
// Internal to net/. A forked child waits on a socket whose other end closes
// with this process, then kills. Between Start and the end of the Guard this
// process should make no other use of its children's ids than tell them here.
//
// Three means, for none reaches all (tests: tests/net/launch/launcher_test.cc):
// - groups, told as they are made: what a worker started and what runs without
//   /proc or with an environment of its own
//   (Kill9OfTheLauncherLeavesNoneWithAnotherEnvironment);
// - the mark in the environment (Linux): what left its group
//   (Kill9OfTheLauncherLeavesNoneThatLeftTheGroup);
// - PR_SET_PDEATHSIG (Linux): the worker itself, where somebody killed the
//   guard as well, as `killall -9 ringlet` does
//   (WithoutItsGuardTooWorkersEndWithTheLauncher).
// While the launcher lives it ends orphans itself: see orphans.h.

#ifndef RINGLET_NET_LAUNCH_GUARD_H_
#define RINGLET_NET_LAUNCH_GUARD_H_

#include <sys/types.h>

#include <string>

#include "../../core/base/status.h"

namespace ringlet {

class Guard {
 public:
  Guard() = default;
  ~Guard();  // ends the child, which then kills what is still set
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Processes whose environment has a variable that begins with `mark`,
  // "NAME=…", are killed too.
  Status Start(int slots, const std::string& mark);
  pid_t pid() const { return child_; }
  // Slot's group to kill; 0 for none.
  void Set(int slot, pid_t group);

 private:
  int socket_ = -1;
  pid_t child_ = 0;
};

// While one lives, a process that this thread forks tells the guard its id as
// its slot's group, and (Linux) asks the kernel for SIGKILL at the end of this
// thread. So there is no moment at which a child is nobody's.
class GuardedFork {
 public:
  GuardedFork(Guard* guard, int slot);
  ~GuardedFork();
  GuardedFork(const GuardedFork&) = delete;
  GuardedFork& operator=(const GuardedFork&) = delete;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_GUARD_H_
