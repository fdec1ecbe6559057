// Threads, and the number of cores that this process may use: the least of the
// affinity mask and the limits of its control groups. Each thread sets the
// floating-point mode itself, since the results must not depend on the thread
// that created it.

#include "thread.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "check.h"
#include "ieee_arithmetic.h"
#include "ringlet/compute.h"
#include "ringlet/status.h"
#include "text.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RINGLET_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGLET_SANITIZED
#endif

namespace ringlet {
namespace {

// Sets the floating-point mode, which a thread otherwise has from its creator.
void* RunBody(void* body) {
  const IeeeArithmetic ieee;
  (*static_cast<std::function<void()>*>(body))();
  return nullptr;
}

// The system refuses a stack below its minimum. Twice that minimum has
// room for the program's thread-local data too, which are on the stack.
size_t StackBytes() {
#ifdef RINGLET_SANITIZED
  return size_t{8} << 20;  // its frames are many times larger
#else
  const long min_bytes = sysconf(_SC_THREAD_STACK_MIN);
  return std::max(Thread::kStackBytes,
                  min_bytes > 0 ? 2 * size_t(min_bytes) : 0);
#endif
}

std::string FirstBytesOf(const std::string& path) {
  char text[4096];
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return "";
  const size_t bytes = std::fread(text, 1, sizeof(text), file);
  std::fclose(file);
  return std::string(text, bytes);
}

// Returns the processors of a quota, such as 2 for 200000 of 100000
// microseconds. 0 without a quota, which is "max" or -1.
double QuotaFraction(const std::string& quota, const std::string& period) {
  const double period_micros = std::atof(period.c_str());
  const double quota_micros = std::atof(quota.c_str());
  return quota_micros > 0 && period_micros > 0 ? quota_micros / period_micros
                                               : 0;
}

double QuotaOf(const std::string& folder) {
  const std::string max = FirstBytesOf(folder + "/cpu.max");
  const size_t space = std::min(max.find(' '), max.size());
  if (!max.empty()) return QuotaFraction(max, max.substr(space));
  return QuotaFraction(FirstBytesOf(folder + "/cpu.cfs_quota_us"),
                       FirstBytesOf(folder + "/cpu.cfs_period_us"));
}

}  // namespace

Thread::~Thread() { Join(); }

Status Thread::Start(const char* purpose, std::function<void()> body) {
  RINGLET_CHECK(!started_);
  body_ = std::move(body);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    error = pthread_attr_setstacksize(&attributes, StackBytes());
    if (error == 0) {
      error = pthread_create(&thread_, &attributes, RunBody, &body_);
    }
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) {
    return ResourceExhausted(
        "%s; raise the limit of memory, processes or tasks",
        OsError(error, "no thread %s", purpose).message());
  }
  started_ = true;
  return Status();
}

void Thread::Join() {
  if (!started_) return;
  RINGLET_CHECK(pthread_join(thread_, nullptr) == 0);
  started_ = false;
}

// Lines are "0::/path" in version 2. In version 1 they are
// "3:cpu,cpuacct:/path", and the folder has the controller's name. A container
// may see a path that does not exist.
std::vector<std::string> GroupFolders(const std::string& memberships,
                                      const std::string& controller,
                                      const std::string& root) {
  std::vector<std::string> folders;
  std::string_view rest = memberships;
  for (std::string line; TakeLine(&rest, &line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    std::string top = root;
    if (controllers.find("," + controller + ",") != std::string::npos) {
      top += "/" + controller;
    } else if (controllers != ",,") {
      continue;
    }
    std::string path = line.substr(second + 1);
    while (!path.empty() && path.back() == '/') path.pop_back();
    for (;;) {
      folders.push_back(top + path);
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return folders;
}

double CpuQuota(const std::string& memberships, const std::string& root) {
  double lowest = 0;
  for (const std::string& folder : GroupFolders(memberships, "cpu", root)) {
    const double quota = QuotaOf(folder);
    if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
  }
  return lowest;
}

int UsableCores() {
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    cores = CPU_COUNT(&allowed);
  }
  const double quota =
      CpuQuota(FirstBytesOf("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (quota > 0 && quota < cores) cores = static_cast<int>(std::ceil(quota));
  return std::max(cores, 1);
}

}  // namespace ringlet
