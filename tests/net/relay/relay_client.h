// A relay, and clients that send any bytes to it.

#ifndef RINGLET_TESTS_NET_RELAY_RELAY_CLIENT_H_
#define RINGLET_TESTS_NET_RELAY_RELAY_CLIENT_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "net/relay/relay.h"
#include "net/ring/ring_collective.h"
#include "net/wire/relay_hello.h"

namespace ringlet {

inline RelayHello MakeHello(RelayHello::Role role, uint8_t channel) {
  RelayHello hello;
  hello.role = role;
  std::memset(hello.channel, channel, sizeof(hello.channel));
  return hello;
}
constexpr auto kListens = RelayHello::kListens;
constexpr auto kDials = RelayHello::kDials;

// A connection to a relay.
class RelayClient {
 public:
  explicit RelayClient(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port));
    const timeval most = {30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RelayClient() { close(fd_); }
  void Send(const std::string& text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Sends to a relay that may have closed the connection.
  void TrySend(const std::string& text) {
    if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
  }
  void Send(RelayHello::Role role, uint8_t channel) {
    uint8_t bytes[kRelayHelloBytes];
    EncodeRelayHello(MakeHello(role, channel), bytes);
    Send(std::string(reinterpret_cast<char*>(bytes), sizeof(bytes)));
  }
  void StopSending() { shutdown(fd_, SHUT_WR); }
  // Receives `bytes` bytes, or fewer if the other side ends before.
  std::string Receive(size_t bytes) {
    std::string text;
    char piece[4096];
    while (text.size() < bytes) {
      const ssize_t n =
          recv(fd_, piece, std::min(sizeof(piece), bytes - text.size()), 0);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        ADD_FAILURE() << "nothing came, and no end, in 30 s";
      }
      if (n <= 0) break;
      text.append(piece, static_cast<size_t>(n));
    }
    return text;
  }
  bool has_nothing_to_receive() {
    pollfd ready = {fd_, POLLIN, 0};
    return poll(&ready, 1, 0) == 0;
  }
  // Sends as much as the other side's buffers hold. Returns the bytes.
  size_t FillBuffers() {
    const std::string piece(65536, 'x');
    size_t all = 0;
    for (int idle = 0; idle < 50;) {
      const ssize_t n =
          send(fd_, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) all += static_cast<size_t>(n), idle = 0;
      if (n <= 0) ++idle, usleep(2000);
    }
    return all;
  }

 private:
  const int fd_;
};

inline const std::string kJoined(1, static_cast<char>(kRelayJoined));

struct Served {
  explicit Served(RelayOptions options = {}) : port(FreePorts(1)[0]) {
    options.address = "127.0.0.1:" + std::to_string(port);
    EXPECT_OK(Relay::Start(options, &relay));
  }
  const int port;
  std::unique_ptr<Relay> relay;
};

inline std::shared_ptr<const JobKeys> Keys(const std::vector<uint8_t>& seeds) {
  auto keys = std::make_shared<JobKeys>();
  for (const uint8_t seed : seeds) {
    std::memset(keys->keys[keys->count++].bytes, seed, sizeof(JobKey::bytes));
  }
  return keys;
}

// At addresses for documentation, which cannot be reached.
inline RingOptions MakeRingOptions(int size, int rank, int port) {
  RingOptions options;
  for (int r = 0; r < size; ++r) {
    options.addresses.push_back("192.0.2." + std::to_string(r + 1) + ":7000");
  }
  options.worker = rank;
  options.keys = Keys({5});
  options.relay = "127.0.0.1:" + std::to_string(port);
  options.start_timeout_seconds = 100;
  return options;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RELAY_RELAY_CLIENT_H_
