// RunRing: a ring of threads. Listens: tests whether a port accepts
// connections. ExpectSums: checks its all-reduces. ThreadBarrier: waits for all
// of its threads.

#ifndef RINGLET_TESTS_NET_RING_THREAD_RING_H_
#define RINGLET_TESTS_NET_RING_THREAD_RING_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/threads.h"
#include "core/base/crc32c.h"
#include "net/ring/ring_collective.h"

namespace ringlet {

using Ranks = std::function<void(Collective*)>;

inline RingOptions MakeOptions(const std::vector<std::string>& addresses,
                               int rank) {
  RingOptions options;
  options.insecure = true;  // names, and addresses of this host
  options.addresses = addresses;
  options.worker = rank;
  options.start_timeout_seconds = 100;
  return options;
}

// Each rank a thread; `body` on every one.
inline void RunRing(int size, const Ranks& body,
                    const std::function<void(RingOptions*)>& change = nullptr) {
  const std::vector<std::string> addresses = FreeAddresses(size);
  RunThreads(size, [&](int r) {
    RingOptions options = MakeOptions(addresses, r);
    if (change) change(&options);
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    body(ring.get());
  });
}

inline float Value(int rank, size_t i) {
  return static_cast<float>((rank + 1) * 0.37 +
                            static_cast<double>(i % 1009) * 0.011);
}

inline std::vector<float> Mine(int rank, size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = Value(rank, i);
  return v;
}

// Integers of all 32 bits, with sums that wrap.
inline int32_t WholeValue(int rank, size_t i) {
  return static_cast<int32_t>((static_cast<uint32_t>(i) + 7) * 0x9E3779B9u +
                              static_cast<uint32_t>(rank) * 0x10001u);
}

inline void ExpectIntegerSums(Collective* ring, size_t n) {
  std::vector<int32_t> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = WholeValue(ring->rank(), i);
  Collective::Ticket ticket = 0;
  ASSERT_OK(ring->StartAllReduceInts(v.data(), n, &ticket));
  ASSERT_OK(ring->Wait(ticket));
  for (size_t i = 0; i < n; ++i) {
    uint32_t sum = 0;
    for (int r = 0; r < ring->size(); ++r) {
      sum += static_cast<uint32_t>(WholeValue(r, i));
    }
    ASSERT_EQ(v[i], static_cast<int32_t>(sum)) << i << " of " << n;
  }
}

inline void ExpectSums(Collective* ring, size_t n) {
  ExpectIntegerSums(ring, n);
  std::vector<float> v = Mine(ring->rank(), n);
  ASSERT_OK(ring->AllReduce(v.data(), n));
  const size_t stride = n < 5000 ? 1 : 7;
  for (size_t i = 0; i < n; i += stride) {
    double sum = 0;
    for (int r = 0; r < ring->size(); ++r) sum += Value(r, i);
    ASSERT_NEAR(v[i], sum, 1e-5 * sum) << i << " of " << n;
  }
  // All ranks have the same bits.
  const uint32_t mine = Crc32c(v.data(), n * sizeof(float));
  std::vector<uint32_t> all(ring->size());
  ASSERT_OK(ring->AllGather(&mine, sizeof(mine), all.data()));
  ASSERT_EQ(all, std::vector<uint32_t>(ring->size(), mine));
}

// True if a socket listens at this port of this host.
inline bool Listens(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(
      static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listens =
      connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  close(fd);
  return listens;
}

// A barrier of threads, without a ring.
class ThreadBarrier {
 public:
  void Wait(int size) {
    const int round = arrived_++ / size;
    EXPECT_TRUE(Eventually([&] { return arrived_ >= (round + 1) * size; }));
  }

 private:
  std::atomic<int> arrived_{0};
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_THREAD_RING_H_
