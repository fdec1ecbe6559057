// Guard: kills process groups when this process dies, however it dies, and on
// Linux what has left them.
//
// Internal to net/. A forked child waits on a socket whose other end closes
// with this process. Between Start and the end of the Guard this process should
// make no other use of its children's ids than tell them here.

#ifndef RINGLET_NET_RING_GUARD_H_
#define RINGLET_NET_RING_GUARD_H_

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

#endif  // RINGLET_NET_RING_GUARD_H_
