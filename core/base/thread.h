// Thread: a thread of the library, on a stack of known size.
//
// If the system refuses a thread, Start returns a Status. A stack has the size
// that the library needs, not the system's 8 MB of address space
// (docs/porting.md has the measured use).

#ifndef RINGLET_CORE_BASE_THREAD_H_
#define RINGLET_CORE_BASE_THREAD_H_

#include <pthread.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class Thread {
 public:
  static constexpr size_t kStackBytes = 512 << 10;

  Thread() = default;
  ~Thread();  // joins
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Runs `body` on a new thread; kResourceExhausted if the system has none.
  // `purpose` is for that message: "for reading batches". Call it once.
  Status Start(const char* purpose, std::function<void()> body);
  // Waits until the body has returned. Does nothing if no thread was started.
  void Join();
  bool joinable() const { return started_; }
  bool IsCurrent() const {
    return started_ && pthread_equal(thread_, pthread_self()) != 0;
  }

 private:
  std::function<void()> body_;
  pthread_t thread_ = {};
  bool started_ = false;
};

// The folders of the control groups of this process, and of the groups above
// them, that may limit `controller` ("cpu"). `memberships` is the text of
// /proc/self/cgroup, which names the groups. `root` is /sys/fs/cgroup.
std::vector<std::string> GroupFolders(const std::string& memberships,
                                      const std::string& controller,
                                      const std::string& root);
// The smallest CPU quota of this process, in processors; 0 if there is none.
// UsableCores (ringlet/compute.h) calls it.
double CpuQuota(const std::string& memberships, const std::string& root);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_THREAD_H_
