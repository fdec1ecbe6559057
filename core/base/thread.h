// Thread: a thread of the library, on a stack of known size.
//
// Internal. A system that refuses a thread is a Status, not the end of the
// process, and a stack takes what the library needs rather than the system's
// 8 MB of address space (docs/porting.md has the measured use).

#ifndef RINGLET_CORE_BASE_THREAD_H_
#define RINGLET_CORE_BASE_THREAD_H_

#include <pthread.h>

#include <cstddef>
#include <functional>
#include <string>

#include "status.h"

namespace ringlet {

class Thread {
 public:
  static constexpr size_t kStackBytes = 512 << 10;

  Thread() = default;
  ~Thread();  // joins
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Runs `body` on a new thread; kResourceExhausted where there is none to be
  // had. `what` is for that message: "for reading batches". Once.
  Status Start(const char* what, std::function<void()> body);
  // Waits until the body has returned. Nothing where none was started.
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

// For UsableCores (thread_pool.h): the least quota of the groups in
// `memberships`, the text of /proc/self/cgroup, and those above them, which lie
// below `root`, /sys/fs/cgroup; in processors, 0 where there is none.
double CpuQuota(const std::string& memberships, const std::string& root);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_THREAD_H_
