// Free TCP ports of 127.0.0.1 that no other test process takes.

#ifndef RINGLET_TESTS_SUPPORT_FREE_PORTS_H_
#define RINGLET_TESTS_SUPPORT_FREE_PORTS_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ringlet {

// Reserves a port until this process ends. Returns false if another test
// process has it. Byte N of a file of this host is the lock of port N, also in
// tests/free_ports.py.
inline bool ReservePort(int port) {
  static const std::string path =
      "/tmp/ringlet_test_ports-" + std::to_string(getuid());
  static const int file =
      open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = port;
  lock.l_len = 1;
  return file < 0 || fcntl(file, F_SETLK, &lock) == 0;
}

// Ports on which no process listens. They are below the ports that the kernel
// gives to outgoing connections, so no connection takes one while its worker is
// down.
inline std::vector<int> FreePorts(int count) {
  constexpr int kFirst = 10000, kLast = 32767;
  static int next =
      kFirst + static_cast<int>(std::random_device()() % (kLast - kFirst + 1));
  std::vector<int> ports;
  for (int tries = 0; static_cast<int>(ports.size()) < count; ++tries) {
    if (tries > kLast - kFirst) {
      ADD_FAILURE() << "no free ports on 127.0.0.1";
      return std::vector<int>(static_cast<size_t>(count), 1);
    }
    const int port = next;
    next = next == kLast ? kFirst : next + 1;
    if (!ReservePort(port)) continue;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      ports.push_back(port);
    }
    close(fd);
  }
  return ports;
}

inline std::vector<std::string> FreeAddresses(int count) {
  std::vector<std::string> addresses;
  for (int port : FreePorts(count)) {
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  }
  return addresses;
}

// Waits until the address accepts connections. Returns false after 60 s.
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
