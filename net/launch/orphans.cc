// To change this file, know that:
//   - KillMarked runs in the guard, which was forked from a process of several
//     threads. So the functions that it calls (ForEachProcess, ReadOf,
//     IsMarked) allocate nothing and take no lock. Folders are read by the
//     system call, not by readdir. Kill and Reap may allocate.
//   - A process may end between being found and being killed. Kill signals only
//     own children without another waiter. Their ids are not used again until
//     they are waited for here. KillMarked takes the risk, at the very end.
//   - After a process is killed, its children may become orphans of this
//     process. So there are several rounds.

#include "orphans.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

namespace ringlet {

#ifdef __linux__

namespace {

// So many rounds catch a process that forks as fast as it can.
constexpr int kMaxRounds = 2000;
constexpr int kRoundMs = 1;
constexpr size_t kEnvironmentBytes = 512 << 10;

// The entry of a folder, as the system call writes it.
struct Entry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

// The process id in a folder's name; 0 if the name is not a number.
pid_t PidOf(const char* name) {
  int64_t pid = 0;
  for (; *name >= '0' && *name <= '9' && pid < (1 << 30); ++name) {
    pid = 10 * pid + (*name - '0');
  }
  return *name == '\0' ? static_cast<pid_t>(pid) : 0;
}

// Calls visit(pid) for every process. Makes system calls only, since other
// threads may hold any lock.
template <typename Visit>
void ForEachProcess(const Visit& visit) {
  const int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) char entries[4096];
  long bytes;
  while ((bytes = syscall(SYS_getdents64, folder, entries, sizeof(entries))) >
         0) {
    for (long at = 0; at < bytes;) {
      Entry entry;
      std::memcpy(&entry, entries + at, offsetof(Entry, name));
      const pid_t pid = PidOf(entries + at + offsetof(Entry, name));
      if (pid > 0) visit(pid);
      at += entry.bytes;
    }
  }
  close(folder);
}

// The bytes read of /proc/<pid>/<name>; 0 if there is nothing to read.
size_t ReadOf(pid_t pid, const char* name, char* buffer, size_t bytes) {
  char path[64] = "/proc/";
  char digits[16];
  size_t count = 0;
  for (pid_t rest = pid; rest > 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  size_t at = std::strlen(path);
  while (count > 0) path[at++] = digits[--count];
  path[at++] = '/';
  std::strcpy(path + at, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t got = 0;
  ssize_t n;
  while (got < bytes && (n = read(fd, buffer + got, bytes - got)) > 0) {
    got += static_cast<size_t>(n);
  }
  close(fd);
  return got;
}

// True if a variable of its environment begins with the mark.
bool IsMarked(pid_t pid, const char* mark, char* buffer, size_t bytes) {
  const size_t length = std::strlen(mark);
  const size_t got = ReadOf(pid, "environ", buffer, bytes);
  for (size_t at = 0; at + length <= got;) {
    if (std::memcmp(buffer + at, mark, length) == 0) return true;
    const void* end = std::memchr(buffer + at, '\0', got - at);
    if (end == nullptr) return false;
    at = static_cast<size_t>(static_cast<const char*>(end) - buffer) + 1;
  }
  return false;
}

struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  pid_t session = 0;
};

bool ReadStat(pid_t pid, ProcessStat* out) {
  char text[1024];
  const size_t bytes = ReadOf(pid, "stat", text, sizeof(text) - 1);
  text[bytes] = '\0';
  const char* name_end = std::strrchr(text, ')');  // a name may hold anything
  if (name_end == nullptr || std::strlen(name_end) < 4) return false;
  out->state = name_end[2];
  char* next = nullptr;
  out->parent = static_cast<pid_t>(std::strtol(name_end + 3, &next, 10));
  std::strtol(next, &next, 10);  // its group
  out->session = static_cast<pid_t>(std::strtol(next, &next, 10));
  return true;
}

void PauseRound() { poll(nullptr, 0, kRoundMs); }

}  // namespace

Orphans::Orphans() {
  ForEachProcess([this](pid_t pid) {
    ProcessStat stat;
    if (ReadStat(pid, &stat) && stat.parent == getpid()) before_.push_back(pid);
  });
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Orphans::~Orphans() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

bool Orphans::IsOrphan(pid_t pid, const std::vector<pid_t>& kept,
                       bool* ended) const {
  const auto has = [pid](const std::vector<pid_t>& pids) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
  };
  ProcessStat stat;
  if (!ReadStat(pid, &stat) || stat.parent != getpid() ||
      stat.session == getsid(0) || has(kept) || has(before_)) {
    return false;
  }
  *ended = stat.state == 'Z';
  return true;
}

void Orphans::Kill(const std::vector<pid_t>& kept, const std::string& mark) {
  std::vector<char> environment(mark.empty() ? 0 : kEnvironmentBytes);
  for (int round = 0; round < kMaxRounds; ++round) {
    bool found = false;
    ForEachProcess([&](pid_t pid) {
      bool ended = false;
      if (!IsOrphan(pid, kept, &ended)) return;
      if (ended) {
        waitpid(pid, nullptr, WNOHANG);
      } else if (mark.empty() || IsMarked(pid, mark.c_str(), environment.data(),
                                          environment.size())) {
        kill(pid, SIGKILL);  // this process's own child: no other's id
        found = true;
      }
    });
    if (!found) return;
    PauseRound();
  }
}

void Orphans::Reap(const std::vector<pid_t>& kept) {
  ForEachProcess([&](pid_t pid) {
    bool ended = false;
    if (IsOrphan(pid, kept, &ended) && ended) waitpid(pid, nullptr, WNOHANG);
  });
}

void KillMarked(const char* mark, char* buffer, size_t bytes) {
  for (int round = 0; round < kMaxRounds; ++round) {
    bool found = false;
    ForEachProcess([&](pid_t pid) {
      if (pid == getpid() || !IsMarked(pid, mark, buffer, bytes)) return;
      found = kill(pid, SIGKILL) == 0 || found;
    });
    if (!found) return;
    PauseRound();
  }
}

#else

Orphans::Orphans() = default;
Orphans::~Orphans() = default;
void Orphans::Kill(const std::vector<pid_t>&, const std::string&) {}
void Orphans::Reap(const std::vector<pid_t>&) {}
void KillMarked(const char*, char*, size_t) {}

#endif

}  // namespace ringlet
