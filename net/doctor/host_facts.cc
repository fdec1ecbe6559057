#include "host_facts.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../core/base/thread.h"

namespace ringlet {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kTestBytes = 1 << 20;

std::string SmallFile(const char* path) {
  std::string text(64 << 10, '\0');
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return "";
  text.resize(std::fread(&text[0], 1, text.size(), file));
  std::fclose(file);
  return text;
}

// From /proc/meminfo, which counts in kibibytes.
uint64_t AvailableMemory() {
  const std::string text = SmallFile("/proc/meminfo");
  constexpr char kName[] = "MemAvailable:";
  const size_t at = text.find(kName);
  if (at == std::string::npos) return kUnlimited;
  return std::strtoull(text.c_str() + at + sizeof(kName) - 1, nullptr, 10) *
         1024;
}

// Returns the bytes of address space that RLIMIT_AS leaves this process.
uint64_t AddressSpaceLeft() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimited;
  }
  const uint64_t used =
      std::strtoull(SmallFile("/proc/self/statm").c_str(), nullptr, 10) *
      static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

// A file without a name, or a file that loses its name immediately.
int OpenTestFile(const std::string& folder) {
#ifdef O_TMPFILE
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -1;
#endif
  std::string name = folder + "/.ringlet-doctor-XXXXXX";
  const int named = mkstemp(&name[0]);
  if (named >= 0) unlink(name.c_str());
  return named;
}

Status WriteTest(int fd) {
  const std::vector<char> bytes(kTestBytes);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "writing 1 MB");
    done += static_cast<size_t>(n);
  }
  if (fsync(fd) != 0) return OsError(errno, "fsync");
  return Status();
}

}  // namespace

CpuFacts ObserveCpu(int64_t threads) {
  CpuFacts cpu;
  cpu.threads = threads;
  cpu.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cpu.allowed = cpu.online;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    cpu.allowed = CPU_COUNT(&allowed);
  }
  cpu.quota = CpuQuota(SmallFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  return cpu;
}

MemoryFacts ObserveMemory() {
  MemoryFacts memory;
  memory.available = AvailableMemory();
  memory.group =
      GroupMemoryLeft(SmallFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  memory.limit = AddressSpaceLeft();
  return memory;
}

int64_t PacketBytesTo(const sockaddr_storage& to) {
  const bool v6 = to.ss_family == AF_INET6;
  const int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  const socklen_t length = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const bool known =
      connect(fd, reinterpret_cast<const sockaddr*>(&to), length) == 0 &&
      getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU,
                 &bytes, &size) == 0;
  close(fd);
  return known ? bytes : 0;
}

DiskFacts ObserveDisk(const std::string& folder, const std::string& use,
                      uint64_t needed) {
  DiskFacts facts;
  facts.folder = folder;
  facts.use = use;
  facts.needed = needed;
  const int fd = OpenTestFile(folder);
  if (fd < 0) {
    facts.writable = OsError(errno, "nothing can be written");
    return facts;
  }
  struct statvfs disk;
  if (fstatvfs(fd, &disk) == 0) {
    facts.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (disk.f_files > 0) facts.free_files = disk.f_favail;
  }
  const Steady::time_point begin = Steady::now();
  facts.writable = WriteTest(fd);
  facts.sync_seconds =
      std::chrono::duration<double>(Steady::now() - begin).count();
  close(fd);
  return facts;
}

}  // namespace ringlet
