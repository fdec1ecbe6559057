// FullMemory: a process that cannot get more memory.

#ifndef RINGLET_TESTS_SUPPORT_FULL_MEMORY_H_
#define RINGLET_TESTS_SUPPORT_FULL_MEMORY_H_

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace ringlet {

// While an object exists, this process cannot get more than about `bytes` more.
class FullMemory {
 public:
  explicit FullMemory(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto page = static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    const rlimit limit = {pages * page + bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~FullMemory() { setrlimit(RLIMIT_AS, &before_); }
  FullMemory(const FullMemory&) = delete;
  FullMemory& operator=(const FullMemory&) = delete;

 private:
  rlimit before_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_FULL_MEMORY_H_
