// Addresses of this host that nobody listens on.

#ifndef RINGLET_TESTS_SUPPORT_FREE_PORTS_H_
#define RINGLET_TESTS_SUPPORT_FREE_PORTS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

// Binds port 0 and lets the ports go again: the kernel hands out others for a
// while.
inline std::vector<int> FreePorts(int count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes),
              0);
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (int fd : sockets) close(fd);
  return ports;
}

inline std::vector<std::string> FreeAddresses(int count) {
  std::vector<std::string> addresses;
  for (int port : FreePorts(count)) {
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  }
  return addresses;
}

// Until somebody accepts connections there; false after 60 s.
inline bool AwaitListener(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(
      static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  for (int i = 0; i < 6000; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int error = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
    close(fd);
    if (error == 0) return true;
    usleep(10000);
  }
  return false;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_FREE_PORTS_H_
