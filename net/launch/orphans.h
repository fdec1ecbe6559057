// Orphans: processes that a worker left behind outside of its process group.
//
// A process that calls setsid leaves its group, and its parent may end before
// it. On Linux such orphans become children of the nearest ancestor that is a
// subreaper (PR_SET_CHILD_SUBREAPER). Their session is not the session of their
// new parent. On other systems these calls do nothing. Tests:
// Process_LeftTheGroup_* and Orphans_EndDuringTheJob_LeaveNoZombie of
// launcher_test.

#ifndef RINGLET_NET_LAUNCH_ORPHANS_H_
#define RINGLET_NET_LAUNCH_ORPHANS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet {

// While an Orphans exists, orphans among this process's descendants become this
// process's children. Children from before are not touched, nor are processes
// that stay in its session. A process has at most one at a time.
class Orphans {
 public:
  Orphans();
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // Kills the orphans and their children until none is left, for at most some
  // seconds. `kept` are children with a waiter. With a mark only children with
  // this variable, "NAME=value", in their environment.
  void Kill(const std::vector<pid_t>& kept, const std::string& mark);
  // Takes the exit codes of orphans that have ended.
  void Reap(const std::vector<pid_t>& kept);

 private:
  bool IsOrphan(pid_t pid, const std::vector<pid_t>& kept, bool* ended) const;

  std::vector<pid_t> before_;
  int was_subreaper_ = 0;
};

// Kills every process with a variable that begins with `mark` in its
// environment, until none is left, or after many rounds. Async-signal-safe;
// `buffer` takes one environment.
void KillMarked(const char* mark, char* buffer, size_t bytes);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_ORPHANS_H_
