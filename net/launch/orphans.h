// Orphans: what a worker has left behind outside of its process group.
//
// Internal to net/. A process that calls setsid leaves its group, and its
// parent may end before it. On Linux such orphans come to the nearest ancestor
// that asks for them (PR_SET_CHILD_SUBREAPER), and are known by a session that
// is not their new parent's. Elsewhere nothing here does anything. Tests:
// WhoLeftTheGroup… and OrphansThatEndLeaveNoZombie of launcher_test.

#ifndef RINGLET_NET_LAUNCH_ORPHANS_H_
#define RINGLET_NET_LAUNCH_ORPHANS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet {

// While one lives, orphans among this process's descendants become its
// children. Those that it has already are not touched, nor those that stay in
// its session. One at a time in a process.
class Orphans {
 public:
  Orphans();
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // Kills the orphans, and theirs, until none is left, for at most some
  // seconds. `kept` are children that somebody waits for. With a mark only
  // those whose environment has this variable, "NAME=value".
  void Kill(const std::vector<pid_t>& kept, const std::string& mark);
  // Takes the exit codes of orphans that have ended.
  void Reap(const std::vector<pid_t>& kept);

 private:
  bool IsOrphan(pid_t pid, const std::vector<pid_t>& kept, bool* ended) const;

  std::vector<pid_t> before_;
  int was_subreaper_ = 0;
};

// Kills every process whose environment has a variable that begins with
// `mark`, until none is left or it was tried often enough. Async-signal-safe;
// `buffer` takes one environment.
void KillMarked(const char* mark, char* buffer, size_t bytes);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_ORPHANS_H_
