// A disk that is full for a while.

#ifndef RINGLET_TESTS_SUPPORT_FULL_DISK_H_
#define RINGLET_TESTS_SUPPORT_FULL_DISK_H_

#include <signal.h>
#include <sys/resource.h>

namespace ringlet {

// While an object exists, no file of this process can grow beyond `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_;
  void (*handler_)(int);
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_FULL_DISK_H_
