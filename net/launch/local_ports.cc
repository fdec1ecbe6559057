#include "local_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>

namespace ringlet {

namespace {

constexpr int kFirst = 10000;
constexpr int kLast = 32767;  // Linux gives out 32768 and above by default

// Returns a bound socket; -1 with errno.
int BindSocket(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

Status FindLocalPorts(int count, std::vector<int>* ports) {
  std::random_device random;  // so that two launchers look in two places
  int port = kFirst + static_cast<int>(random() % (kLast - kFirst + 1));
  std::vector<int> held;
  ports->clear();
  Status status;
  for (int tries = 0; static_cast<int>(held.size()) < count; ++tries) {
    const int fd = BindSocket(port);
    if (fd >= 0) {
      held.push_back(fd);
      ports->push_back(port);
    } else if ((errno != EADDRINUSE && errno != EACCES) || tries > 5000) {
      status = OsError(errno,
                       "cannot find %d free ports on 127.0.0.1 (start fewer "
                       "workers, or end programs that use ports)",
                       count);
      break;
    }
    port = port == kLast ? kFirst : port + 1;
  }
  for (int fd : held) close(fd);
  return status;
}

}  // namespace ringlet
