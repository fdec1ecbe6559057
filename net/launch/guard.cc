// To change this file, know that:
// - The guard is a fork without an exec. So between fork and _exit it makes
//   async-signal-safe calls only, on memory made before the fork.
// - It has a session of its own, blocks every signal and keeps one descriptor,
//   the socket. It runs exactly as long as the launcher holds the other end.
// - The child itself reports its group, between its fork and its exec
//   (AfterFork). So the guard has the group before the worker can run.
// - Once a group is empty and its leader was waited for, the kernel may use its
//   id again. So a slot is set to 0 as soon as the worker's end is known
//   (WorkerProcess::OnExit).

#include "guard.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "orphans.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

namespace ringlet {

namespace {

struct Message {
  int slot;
  pid_t group;
};

// From here to _exit only async-signal-safe calls: other threads of the parent
// may have held any lock at the fork.
void CloseAllBut(int kept, int limit) {
#ifdef SYS_close_range
  if ((kept == 0 || syscall(SYS_close_range, 0u, kept - 1, 0u) == 0) &&
      syscall(SYS_close_range, kept + 1, ~0u, 0u) == 0) {
    return;
  }
#endif
  for (int fd = 0; fd < limit; ++fd) {
    if (fd != kept) close(fd);
  }
}

// The data of the guard, made before the fork.
struct Watched {
  std::vector<pid_t> groups;
  std::string mark;
  std::vector<char> buffer;  // memory for KillMarked
};

[[noreturn]] void Watch(int socket, int limit, Watched* watched) {
  pid_t* const groups = watched->groups.data();
  const int slots = static_cast<int>(watched->groups.size());
  setsid();
  CloseAllBut(socket, limit);
  for (;;) {
    Message message;
    const ssize_t bytes = recv(socket, &message, sizeof(message), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != static_cast<ssize_t>(sizeof(message))) break;
    if (message.slot >= 0 && message.slot < slots) {
      groups[message.slot] = message.group;
    }
  }
  for (int i = 0; i < slots; ++i) {
    if (groups[i] > 1) kill(-groups[i], SIGKILL);
  }
  KillMarked(watched->mark.c_str(), watched->buffer.data(),
             watched->buffer.size());
  _exit(0);
}

int DescriptorLimit() {
  constexpr rlim_t kMaxDescriptors = 65536;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur > kMaxDescriptors) {
    return static_cast<int>(kMaxDescriptors);
  }
  return static_cast<int>(limit.rlim_cur);
}

}  // namespace

Status Guard::Start(int slots, const std::string& mark) {
  constexpr size_t kEnvironmentBytes = 512 << 10;
  Watched watched = {std::vector<pid_t>(static_cast<size_t>(slots), 0), mark,
                     std::vector<char>(kEnvironmentBytes)};
  const int limit = DescriptorLimit();
  int ends[2];
  // SEQPACKET keeps messages apart, and reports when the other end is closed.
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return OsError(errno, "cannot make the guard's socket");
  }
  // Only SIGKILL can end the guard early.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  child_ = fork();
  if (child_ == 0) Watch(ends[1], limit, &watched);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  close(ends[1]);
  if (child_ < 0) {
    close(ends[0]);
    child_ = 0;
    return OsError(error, "cannot start the guard process");
  }
  socket_ = ends[0];
  return Status();
}

void Guard::Set(int slot, pid_t group) {
  const Message message = {slot, group};
  // A guard that was killed is not a reason to stop the job.
  while (send(socket_, &message, sizeof(message), MSG_NOSIGNAL) < 0 &&
         errno == EINTR) {
  }
}

Guard::~Guard() {
  if (child_ == 0) return;
  close(socket_);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

namespace {

struct Fork {
  Guard* guard;
  int slot;
  pid_t parent;
};
thread_local Fork forking = {nullptr, 0, 0};

// libuv starts processes by fork(), and has no hook between fork and exec.
void AfterFork() {
  if (forking.guard == nullptr) return;
  forking.guard->Set(forking.slot, getpid());
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != forking.parent) _exit(1);  // it was gone before
}

}  // namespace

GuardedFork::GuardedFork(Guard* guard, int slot) {
  static const int registered = pthread_atfork(nullptr, nullptr, AfterFork);
  static_cast<void>(registered);
  forking = {guard, slot, getpid()};
}

GuardedFork::~GuardedFork() { forking.guard = nullptr; }

}  // namespace ringlet
