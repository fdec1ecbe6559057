// Any process of the host may bind an abstract name. So a connection counts
// only if its other end is of the same user (SO_PEERCRED). A descriptor
// travels with the first bytes; one message has one at most, and what else
// arrives is dropped by the kernel.

#include "local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace ringlet {
namespace {

// The negative errno if there is none.
int LocalSocket(const std::string& name, sockaddr_un* address,
                socklen_t* bytes) {
  if (name.empty() || name.size() > sizeof(address->sun_path)) {
    return -EAFNOSUPPORT;
  }
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path, name.data(), name.size());
  *bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
#ifdef __linux__
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd >= 0 ? fd : -errno;
#else
  return -EAFNOSUPPORT;
#endif
}

// `use` is connect or bind.
Status Open(const std::string& name,
            int (*use)(int, const sockaddr*, socklen_t), const char* verb,
            int* out) {
  sockaddr_un address;
  socklen_t bytes = 0;
  const int fd = LocalSocket(name, &address, &bytes);
  if (fd < 0) {
    return OsError(-fd, "cannot make a local socket, so TCP is tried");
  }
  if (use(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    close(fd);
    return OsError(error, "cannot %s a local socket", verb);
  }
  *out = fd;
  return Status();
}

#ifdef SO_PEERCRED

// The number of a user that has none in this process's user namespace. In a
// namespace with a number for each user, 65534 is a real user.
constexpr uid_t kNobody = 65534;

bool AllHaveNumbers() {
  char map[64] = {};
  const int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, map, sizeof(map) - 1);
  close(fd);
  unsigned from = 1, to = 1, count = 0;
  return got > 0 && std::sscanf(map, "%u %u %u", &from, &to, &count) == 3 &&
         from == 0 && to == 0 && count == UINT32_MAX;
}

#endif

}  // namespace

bool IsOfSameUser(int fd) {
#ifdef SO_PEERCRED
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid == geteuid() && (peer.uid != kNobody || AllHaveNumbers());
#else
  (void)fd;
  return false;
#endif
}

Status ConnectLocalSocket(const std::string& name, int* fd) {
  RINGLET_RETURN_IF_ERROR(Open(name, connect, "connect to", fd));
  if (IsOfSameUser(*fd)) return Status();
  close(*fd);
  return Error(Code::kUnavailable,
               "the local socket is another user's, so TCP is tried");
}

#ifdef __linux__

int64_t WriteLocalSocket(int fd, iovec* pieces, int count, int descriptor) {
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = pieces;
  message.msg_iovlen = static_cast<size_t>(count);
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? sent : -errno;
}

// Linux copies the descriptor with MSG_PEEK. The read that follows drops its
// own.
int PeekDescriptor(int fd) {
  uint8_t byte;
  iovec piece = {&byte, 1};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // no room for a second
  if (recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) {
    return -1;
  }
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET ||
      head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(head), sizeof(int));
  return descriptor;
}

#else

int64_t WriteLocalSocket(int, iovec*, int, int) { return -EAFNOSUPPORT; }
int PeekDescriptor(int) { return -1; }

#endif

Status BindLocalSocket(const std::string& name, int* fd) {
  return Open(name, bind, "bind", fd);
}

}  // namespace ringlet
