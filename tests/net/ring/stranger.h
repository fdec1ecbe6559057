// Stranger: a program of any kind that connects to a worker's port, and the
// bytes that it may send.

#ifndef RINGLET_TESTS_NET_RING_STRANGER_H_
#define RINGLET_TESTS_NET_RING_STRANGER_H_

#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/base/crc32c.h"
#include "net/ring/ring_collective.h"
#include "net/wire/frame.h"
#include "net/wire/handshake.h"

namespace ringlet {

class Stranger {
 public:
  // `window` is the number of bytes that its kernel takes unread, 0 for the
  // usual number.
  explicit Stranger(const std::string& address, int window = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    if (window > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window));
    }
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(
        std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // The other side may begin to listen later, within a minute.
    int connected = -1;
    for (int tries = 0; tries < 12000 && connected != 0; ++tries) {
      connected = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to));
      if (connected == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(connected, 0);
  }
  ~Stranger() { close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void Send(const std::string& bytes) {
    send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void StopSending() { shutdown(fd_, SHUT_WR); }
  // Reads until the other side closes, at most for a minute.
  std::string Receive() {
    timeval limit = {60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    std::string all;
    char buffer[4096];
    ssize_t n;
    while ((n = recv(fd_, buffer, sizeof(buffer), 0)) > 0) {
      all.append(buffer, static_cast<size_t>(n));
    }
    closed_ = n == 0 || errno == ECONNRESET;
    return all;
  }
  bool closed() const { return closed_; }

 private:
  int fd_;
  bool closed_ = false;
};

// The identity that a worker of the job with these addresses sends.
inline Identity MakeIdentity(const std::vector<std::string>& addresses,
                             int rank, uint32_t timeout_ms = 5000) {
  Identity identity;
  identity.job = "ringlet";
  identity.worker = rank;
  identity.size = static_cast<int>(addresses.size());
  identity.cluster_hash = ClusterHash(addresses);
  identity.timeout_ms = timeout_ms;
  identity.bytes_per_pack = RingOptions().bytes_per_pack;
  return identity;
}

inline std::string MakeFrame(FrameHeader header,
                             const std::vector<uint8_t>& payload) {
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload.data(), payload.size());
  std::string bytes(kFrameHeaderBytes, '\0');
  EncodeHeader(header, reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes + std::string(payload.begin(), payload.end());
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_STRANGER_H_
