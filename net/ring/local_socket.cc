#include "local_socket.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace ringlet {
namespace {

// The negative errno where there is none.
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
            int (*use)(int, const sockaddr*, socklen_t), const char* what,
            int* out) {
  sockaddr_un address;
  socklen_t bytes = 0;
  const int fd = LocalSocket(name, &address, &bytes);
  if (fd < 0) return OsError(-fd, "cannot make a local socket");
  if (use(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    close(fd);
    return OsError(error, "cannot %s a local socket", what);
  }
  *out = fd;
  return Status();
}

}  // namespace

bool IsOfSameUser(int fd) {
#ifdef SO_PEERCRED
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
    return peer.uid == geteuid();
  }
#else
  (void)fd;
#endif
  return true;
}

Status ConnectLocalSocket(const std::string& name, int* fd) {
  RINGLET_RETURN_IF_ERROR(Open(name, connect, "connect to", fd));
  if (IsOfSameUser(*fd)) return Status();
  close(*fd);
  return Error(Code::kUnavailable, "the local socket is another user's");
}

Status BindLocalSocket(const std::string& name, int* fd) {
  return Open(name, bind, "bind", fd);
}

}  // namespace ringlet
