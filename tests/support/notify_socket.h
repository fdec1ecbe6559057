// NotifySocket: a socket for the messages of a service, as systemd has it.

#ifndef RINGLET_TESTS_SUPPORT_NOTIFY_SOCKET_H_
#define RINGLET_TESTS_SUPPORT_NOTIFY_SOCKET_H_

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace ringlet {

class NotifySocket {
 public:
  // A path, or "@" and the name of an abstract socket.
  explicit NotifySocket(const std::string& name) : name_(name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                          name.size())),
              0);
  }
  ~NotifySocket() { close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // The value of NOTIFY_SOCKET.
  const std::string& name() const { return name_; }
  // The next datagram; "" if there is none.
  std::string Take() {
    char text[256];
    const ssize_t n = recv(fd_, text, sizeof(text), MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
  }

 private:
  const std::string name_;
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM, 0);
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_NOTIFY_SOCKET_H_
