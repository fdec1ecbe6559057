#include "net/ring/ring_collective.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/free_ports.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "core/base/ieee_arithmetic.h"
#include "core/base/message.h"
#include "net/launch/local_ports.h"
#include "net/ring/failure_detector.h"
#include "net/ring/local_socket.h"
#include "net/ring/name_lookup.h"
#include "net/ring/own_addresses.h"
#include "net/ring/socket_address.h"
#include "net/wire/handshake.h"
#include "stranger.h"

namespace ringlet {
namespace {

using Ranks = std::function<void(Collective*)>;

RingOptions OptionsOf(const std::vector<std::string>& addresses, int rank) {
  RingOptions options;
  options.insecure = true;  // names, and addresses of this host
  options.addresses = addresses;
  options.rank = rank;
  options.start_timeout_seconds = 20;
  return options;
}

// Each rank a thread; `body` on every one.
void RunRing(int size, const Ranks& body,
             const std::function<void(RingOptions*)>& change = nullptr) {
  const std::vector<std::string> addresses = FreeAddresses(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      RingOptions options = OptionsOf(addresses, r);
      if (change) change(&options);
      std::unique_ptr<Collective> ring;
      const Status status = RingCollective::Open(options, &ring);
      ASSERT_TRUE(status.ok()) << status.message();
      body(ring.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#define ASSERT_OK(expression)                           \
  do {                                                  \
    const Status ok_status = (expression);              \
    ASSERT_TRUE(ok_status.ok()) << ok_status.message(); \
  } while (0)

float Value(int rank, size_t i) {
  return static_cast<float>((rank + 1) * 0.37 +
                            static_cast<double>(i % 1009) * 0.011);
}

std::vector<float> Mine(int rank, size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = Value(rank, i);
  return v;
}

// Integers of all 32 bits, whose sums wrap.
int32_t WholeValue(int rank, size_t i) {
  return static_cast<int32_t>((static_cast<uint32_t>(i) + 7) * 0x9E3779B9u +
                              static_cast<uint32_t>(rank) * 0x10001u);
}

void ExpectIntegerSums(Collective* ring, size_t n) {
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

void ExpectSums(Collective* ring, size_t n) {
  ExpectIntegerSums(ring, n);
  std::vector<float> v = Mine(ring->rank(), n);
  ASSERT_OK(ring->AllReduce(v.data(), n));
  const size_t stride = n < 5000 ? 1 : 7;
  for (size_t i = 0; i < n; i += stride) {
    double sum = 0;
    for (int r = 0; r < ring->size(); ++r) sum += Value(r, i);
    ASSERT_NEAR(v[i], sum, 1e-5 * sum) << i << " of " << n;
  }
  // The same bits everywhere.
  const uint32_t mine = Crc32c(v.data(), n * sizeof(float));
  std::vector<uint32_t> all(ring->size());
  ASSERT_OK(ring->AllGather(&mine, sizeof(mine), all.data()));
  ASSERT_EQ(all, std::vector<uint32_t>(ring->size(), mine));
}

constexpr size_t kLengths[] = {0,    1,     2,     3,      5,     7,
                               1009, 2048,  2049,  16384,  16385, 49999,
                               1000, 65537, 99991, 300007, 64};

class WorldTest : public testing::TestWithParam<int> {};

TEST_P(WorldTest, SumsOddLengths) {
  RunRing(GetParam(), [](Collective* ring) {
    for (size_t n : kLengths) ExpectSums(ring, n);
  });
}

TEST_P(WorldTest, SumsOddLengthsOverTcp) {
  RunRing(
      GetParam(),
      [](Collective* ring) {
        for (size_t n : kLengths) ExpectSums(ring, n);
      },
      [](RingOptions* options) { options->local_sockets = false; });
}

TEST_P(WorldTest, SumsByRing) {
  RunRing(
      GetParam(),
      [](Collective* ring) {
        for (size_t n : kLengths) ExpectSums(ring, n);
      },
      [](RingOptions* options) {
        options->implementation = RingImplementation::kRing;
      });
}

TEST_P(WorldTest, SumsByTree) {
  RunRing(
      GetParam(),
      [](Collective* ring) {
        for (size_t n : kLengths) ExpectSums(ring, n);
      },
      [](RingOptions* options) {
        options->implementation = RingImplementation::kTree;
      });
}

#if defined(__SSE2__)
// Of one rank: rounding upwards, denormals taken for zero.
TEST_P(WorldTest, SumsInAnyModeOfTheCallersArithmetic) {
  RunRing(GetParam(), [](Collective* ring) {
    const IeeeArithmetic restores;
    if (ring->rank() == 0) _mm_setcsr(_mm_getcsr() | 0xc040);
    for (int round = 0; round < 5; ++round) {
      for (size_t n : kLengths) ExpectSums(ring, n);
      std::vector<double> sums(100), all(100 * ring->size());
      for (size_t i = 0; i < 100; ++i)
        sums[i] = 1 / (static_cast<double>(i) + 3);
      ASSERT_OK(SumOverRanks(ring, sums.data(), sums.size()));
      ASSERT_OK(ring->AllGather(sums.data(), 800, all.data()));
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], sums[i % 100]);
    }
  });
}
#endif

TEST_P(WorldTest, ManyInFlightEndInOrder) {
  RunRing(GetParam(), [](Collective* ring) {
    constexpr int kCount = 40;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> v;
      std::vector<Collective::Ticket> tickets(kCount);
      for (int i = 0; i < kCount; ++i) {
        v.push_back(Mine(ring->rank(), i % 3 == 0 ? 30011 : 17 * i));
      }
      for (int i = 0; i < kCount; ++i) {
        ASSERT_OK(ring->StartAllReduce(v[i].data(), v[i].size(), &tickets[i]));
      }
      ASSERT_OK(ring->Wait(tickets[kCount - 1]));
      for (int i = 0; i < kCount; ++i) {
        ASSERT_OK(ring->Wait(tickets[i]));
        for (size_t j = 0; j < v[i].size(); j += 97) {
          double sum = 0;
          for (int r = 0; r < ring->size(); ++r) sum += Value(r, j);
          ASSERT_NEAR(v[i][j], sum, 1e-5 * sum);
        }
      }
    }
  });
}

TEST_P(WorldTest, BroadcastsFromEveryRoot) {
  RunRing(GetParam(), [](Collective* ring) {
    for (size_t bytes : {0u, 1u, 8192u, 8193u, 500000u}) {
      for (int root = 0; root < ring->size(); ++root) {
        const std::string sent(bytes, static_cast<char>('a' + root));
        std::string got = ring->rank() == root ? sent : std::string(bytes, 0);
        ASSERT_OK(ring->Broadcast(got.data(), bytes, root));
        ASSERT_EQ(got, sent);
      }
    }
  });
}

TEST_P(WorldTest, GathersEveryPart) {
  RunRing(GetParam(), [](Collective* ring) {
    for (size_t bytes : {0u, 1u, 3u, 8192u, 8193u, 200001u}) {
      const std::string in(bytes, static_cast<char>('a' + ring->rank()));
      std::string out(bytes * ring->size(), '?');
      ASSERT_OK(ring->AllGather(in.data(), bytes, out.data()));
      std::string expected;
      for (int r = 0; r < ring->size(); ++r) {
        expected += std::string(bytes, static_cast<char>('a' + r));
      }
      ASSERT_EQ(out, expected);
    }
  });
}

TEST_P(WorldTest, BarrierHoldsUntilTheLastComes) {
  std::atomic<int> came{0};
  RunRing(GetParam(), [&](Collective* ring) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      ASSERT_OK(ring->Barrier());
      ASSERT_GE(came.load(), round * ring->size());
      ASSERT_OK(ring->Barrier());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, WorldTest, testing::Values(1, 2, 3, 4, 5));

// A worker that waits says so on a line of its own, whatever bar is open.
TEST(RingCollectiveTest, ALineDoesNotStandOnABar) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::fflush(stdout);
  const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  {
    OpenLine bar(stdout);
    bar.Write("1/9 ====", /*ends=*/false);
    RunRing(
        2, [](Collective*) {},
        [](RingOptions* options) {
          if (options->rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1300));
          }
        });
  }
  std::fflush(stdout);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(out);
  close(err);
  char text[4096] = {};
  std::rewind(file);
  (void)!std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  EXPECT_NE(std::string(text).find("1/9 ====\nrank 0 of 2 ("),
            std::string::npos)
      << text;
}

TEST(RingCollectiveTest, AFastRankWaitsForASlowOne) {
  RunRing(
      3,
      [](Collective* ring) {
        // Longer than the timeout: slow is not dead.
        if (ring->rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        }
        ExpectSums(ring, 50000);
      },
      [](RingOptions* options) { options->timeout_seconds = 0.5; });
}

TEST(RingCollectiveTest, AWaitIsToldUntilItEnds) {
  testing::internal::CaptureStderr();
  RunRing(
      3,
      [](Collective* ring) {
        ring->SetStep(17);
        ExpectSums(ring, 50000);
        if (ring->rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        }
        ExpectSums(ring, 50000);
      },
      [](RingOptions* options) { options->timeout_seconds = 0.4; });
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* part :
       {"warning: rank 0 has waited 0.", "warning: rank 2 has waited 0.",
        " s in operation 5 (all-reduce of integers), step 17, for rank ",
        "rank 1 (127.0.0.1:", "which has computed for ",
        " s, step 17, after operation 4\n", "rank 0 has waited 1.",
        "rank 2 has waited 1.", " s, and goes on\n"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << "\n" << told;
  }
  EXPECT_EQ(told.find("rank 1 has waited"), std::string::npos) << told;
}

TEST(RingCollectiveTest, PatienceHasAnEndForAll) {
  testing::internal::CaptureStderr();
  std::atomic<int> ended{0};
  RunRing(
      3,
      [&](Collective* ring) {
        ExpectSums(ring, 50000);
        // One computes until both others have lost their patience. It has all
        // that this barrier needs of them then and may end it well before it
        // hears of that; the next one it cannot.
        while (ring->rank() == 1 && ended < 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        Status status = ring->Barrier();
        if (ring->rank() == 1 && status.ok()) status = ring->Barrier();
        ++ended;
        EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
        const std::string message = status.message();
        for (const char* part :
             {"failed: rank ", " has waited ", "operation 5 (barrier)",
              "rank 1 (127.0.0.1:", "which has computed for ", "patience"}) {
          EXPECT_NE(message.find(part), std::string::npos) << message;
        }
      },
      [](RingOptions* options) {
        options->timeout_seconds = 1;  // nobody is silent for so long
        options->patience_seconds = 1.5;
      });
  testing::internal::GetCapturedStderr();
}

// What every rank gets where rank 1 calls something else.
std::vector<Status> RunDifferent(
    int size, const std::function<Status(Collective*)>& most,
    const std::function<Status(Collective*)>& one) {
  std::vector<Status> results(size);
  RunRing(size, [&](Collective* ring) {
    Status status = ring->Barrier();
    if (status.ok()) status = ring->rank() == 1 ? one(ring) : most(ring);
    // A broadcast's root may be done before it hears of the difference.
    if (status.ok()) status = ring->Barrier();
    results[ring->rank()] = status;
  });
  return results;
}

void ExpectBothNamed(const std::vector<Status>& results,
                     const std::string& first, const std::string& second) {
  for (const Status& status : results) {
    const std::string message = status.message();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << message;
    EXPECT_NE(message.find(first), std::string::npos) << message;
    EXPECT_NE(message.find(second), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  }
}

class DifferentCallsTest : public testing::TestWithParam<int> {};

TEST_P(DifferentCallsTest, ShortSizesAreNamed) {
  std::vector<float> v(100);
  ExpectBothNamed(RunDifferent(
                      GetParam(),
                      [](Collective* ring) {
                        std::vector<float> v(100);
                        return ring->AllReduce(v.data(), 100);
                      },
                      [](Collective* ring) {
                        std::vector<float> v(99);
                        return ring->AllReduce(v.data(), 99);
                      }),
                  "all-reduce of 400 bytes", "all-reduce of 396 bytes");
}

TEST_P(DifferentCallsTest, LongSizesAreNamed) {
  ExpectBothNamed(RunDifferent(
                      GetParam(),
                      [](Collective* ring) {
                        std::vector<float> v(100000);
                        return ring->AllReduce(v.data(), 100000);
                      },
                      [](Collective* ring) {
                        std::vector<float> v(100001);
                        return ring->AllReduce(v.data(), 100001);
                      }),
                  "all-reduce of 400000 bytes", "all-reduce of 400004 bytes");
}

TEST_P(DifferentCallsTest, AShortAndALongOneAreNamed) {
  ExpectBothNamed(RunDifferent(
                      GetParam(),
                      [](Collective* ring) {
                        std::vector<float> v(100000);
                        return ring->AllReduce(v.data(), 100000);
                      },
                      [](Collective* ring) {
                        std::vector<float> v(1);
                        return ring->AllReduce(v.data(), 1);
                      }),
                  "all-reduce of 400000 bytes", "all-reduce of 4 bytes");
}

TEST_P(DifferentCallsTest, FloatsAndIntegersAreNamed) {
  for (const size_t n : {size_t{100}, size_t{100000}}) {
    const std::string of = " of " + std::to_string(4 * n) + " bytes";
    ExpectBothNamed(RunDifferent(
                        GetParam(),
                        [n](Collective* ring) {
                          std::vector<float> v(n);
                          return ring->AllReduce(v.data(), n);
                        },
                        [n](Collective* ring) {
                          std::vector<int32_t> v(n);
                          Collective::Ticket ticket = 0;
                          RINGLET_RETURN_IF_ERROR(
                              ring->StartAllReduceInts(v.data(), n, &ticket));
                          return ring->Wait(ticket);
                        }),
                    "an all-reduce" + of, "an all-reduce of integers" + of);
  }
}

TEST_P(DifferentCallsTest, KindsAreNamed) {
  ExpectBothNamed(
      RunDifferent(
          GetParam(), [](Collective* ring) { return ring->Barrier(); },
          [](Collective* ring) {
            char byte = 0;
            return ring->Broadcast(&byte, 1, 0);
          }),
      "barrier", "broadcast of 1 bytes from rank 0");
}

TEST_P(DifferentCallsTest, RootsAreNamed) {
  ExpectBothNamed(RunDifferent(
                      GetParam(),
                      [](Collective* ring) {
                        char byte = 0;
                        return ring->Broadcast(&byte, 1, 0);
                      },
                      [](Collective* ring) {
                        char byte = 0;
                        return ring->Broadcast(&byte, 1, 1);
                      }),
                  "from rank 0", "from rank 1");
}

INSTANTIATE_TEST_SUITE_P(Worlds, DifferentCallsTest,
                         testing::Values(2, 3, 4, 5));

// Threads meet here without a ring: where the others' barrier has ended too.
class MeetingPoint {
 public:
  void Meet(int size) {
    const int round = came_++ / size;
    while (came_ < (round + 1) * size) std::this_thread::yield();
  }

 private:
  std::atomic<int> came_{0};
};

// What rank `failing` of `size` says reaches all, whatever they are doing.
void ExpectAbortReaches(int size, int failing, const Status& reason,
                        const std::function<Status(Collective*)>& others,
                        const std::function<void(Collective*)>& before,
                        const std::function<void(RingOptions*)>& change) {
  std::vector<std::string> address(static_cast<size_t>(size));  // as each has
  MeetingPoint formed;
  RunRing(
      size,
      [&](Collective* ring) {
        formed.Meet(size);
        if (ring->rank() == failing) {
          if (before) before(ring);
          ring->Abort(reason);
        }
        const Status told =
            ring->rank() == failing ? ring->Barrier() : others(ring);
        const std::string message = told.message();
        EXPECT_EQ(told.code(), reason.code()) << message;
        EXPECT_EQ(told.rank(), reason.rank()) << message;
        const std::string name = "rank " + std::to_string(failing) + " (" +
                                 address[static_cast<size_t>(ring->rank())] +
                                 ") failed: " + reason.message();
        EXPECT_NE(message.find(name), std::string::npos) << message;
        EXPECT_EQ(ring->Barrier().code(), reason.code());
        float value = 1;
        EXPECT_EQ(ring->AllReduce(&value, 1).code(), reason.code());
      },
      [&](RingOptions* options) {
        options->timeout_seconds = 20;  // nobody waits for it to pass
        address[static_cast<size_t>(options->rank)] =
            options->addresses[static_cast<size_t>(failing)];
        if (change) change(options);
      });
}

Status SumLong(Collective* ring) {
  std::vector<float> v(3000000);
  Status status;
  while (status.ok()) status = ring->AllReduce(v.data(), v.size());
  return status;
}

class AbortTest : public testing::TestWithParam<int> {};

TEST_P(AbortTest, ReachesThoseInABarrier) {
  ExpectAbortReaches(
      GetParam(), 1, Corruption("example 17 is damaged"),
      [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
}

TEST_P(AbortTest, ReachesThoseThatCompute) {
  ExpectAbortReaches(
      GetParam(), 0, ResourceExhausted("the disk is full"),
      [](Collective* ring) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return ring->Barrier();
      },
      nullptr, nullptr);
}

TEST_P(AbortTest, ReachesThoseThatSendMuch) {
  for (const bool local : {true, false}) {
    ExpectAbortReaches(
        GetParam(), 1, Error(Code::kInternal, "a bug"), SumLong,
        [](Collective* ring) {
          std::vector<float> v(3000000);
          ASSERT_OK(ring->AllReduce(v.data(), v.size()));
          Collective::Ticket ticket;
          ASSERT_OK(ring->StartAllReduce(v.data(), v.size(), &ticket));
          std::this_thread::sleep_for(std::chrono::milliseconds(3));
          ring->Abort(Error(Code::kInternal, "a bug"));
        },
        [&](RingOptions* options) { options->local_sockets = local; });
  }
}

TEST_P(AbortTest, OfALossKeepsItsRank) {
  ExpectAbortReaches(
      GetParam(), 1, PeerLost(0, "rank 0 speaks in riddles"),
      [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
}

TEST_P(AbortTest, OfEveryCodeKeepsIt) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    if (static_cast<Code>(code) == Code::kPeerLost) continue;
    ExpectAbortReaches(
        GetParam(), 1, Error(static_cast<Code>(code), "why"),
        [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
  }
}

TEST_P(AbortTest, OfSeveralReachesEveryone) {
  MeetingPoint formed;
  RunRing(GetParam(), [&](Collective* ring) {
    formed.Meet(ring->size());
    if (ring->rank() != 0) ring->Abort(InvalidArgument("one of several"));
    const Status told = ring->Barrier();
    EXPECT_EQ(told.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(told.message()).find("failed: one of several"),
              std::string::npos)
        << told.message();
  });
}

TEST_P(AbortTest, OfLongAndOddTextIsShortAndPrintable) {
  MeetingPoint formed;
  RunRing(GetParam(), [&](Collective* ring) {
    formed.Meet(ring->size());
    const std::string odd = "\xc3\xa9\n\t" + std::string(5000, 'x');
    if (ring->rank() == 1) ring->Abort(Corruption("%s", odd.c_str()));
    const std::string told = ring->Barrier().message();
    EXPECT_LT(told.size(), ring->rank() == 1 ? 6000u : 500u);
    if (ring->rank() != 1) {
      EXPECT_NE(told.find("failed: ????xxx"), std::string::npos) << told;
    }
  });
}

TEST_P(AbortTest, IsFollowedByReform) {
  MeetingPoint summed;
  RunRing(GetParam(), [&](Collective* ring) {
    for (int round = 0; round < 3; ++round) {
      ExpectSums(ring, 30011);
      summed.Meet(ring->size());
      if (ring->rank() == round % ring->size()) {
        ring->Abort(Corruption("round %d", round));
      }
      EXPECT_EQ(ring->Barrier().code(), Code::kCorruption);
      ASSERT_OK(ring->Reform());
    }
    ExpectSums(ring, 30011);
    summed.Meet(ring->size());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AbortTest, testing::Values(2, 3, 5));

TEST(RingCollectiveTest, AnAbortAloneFailsWhatFollows) {
  RunRing(1, [&](Collective* ring) {
    ring->Abort(Corruption("example 17"));
    EXPECT_EQ(ring->Barrier().code(), Code::kCorruption);
  });
}

bool Listens(const std::string& address) {
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

TEST(StrangersTest, DoNotDisturbARunningJob) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> ranks;
  std::atomic<int> formed{0};
  std::vector<int> sums(3);
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      RingOptions options = OptionsOf(addresses, r);
      options.timeout_seconds = 1;
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(options, &ring));
      ++formed;
      for (float go_on = 1; go_on > 0;) {
        ExpectSums(ring.get(), 5000);
        ++sums[r];
        go_on = stop ? 0 : 1;  // rank 0 decides
        ASSERT_OK(ring->Broadcast(&go_on, sizeof(go_on), 0));
      }
    });
  }
  while (formed < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));

  for (const std::string& address : addresses) {
    { Stranger scanner(address); }
    Stranger http(address);
    http.Say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    http.Say(std::string(100, ' '));
    http.Hear();
    EXPECT_TRUE(http.closed());

    Stranger random(address);
    std::string noise;
    for (int i = 0; i < 100000; ++i) noise += static_cast<char>(i * 7919 >> 3);
    random.Say(noise);
    random.Hear();
    EXPECT_TRUE(random.closed());

    // A frame that is well formed and not a hello.
    FrameHeader header;
    header.type = FrameType::kAllReduce;
    header.sequence = 1;
    Stranger rude(address);
    rude.Say(FrameOf(header, std::vector<uint8_t>(4)));
    rude.Hear();
    EXPECT_TRUE(rude.closed());

    // All that a worker of this job would say: its place is taken.
    Identity identity;
    identity.job = "ringlet";
    identity.rank = 2;
    identity.size = 3;
    identity.cluster_hash = ClusterHash(addresses);
    identity.timeout_ms = 1000;
    identity.bytes_per_pack = RingOptions().bytes_per_pack;
    header = FrameHeader();
    header.type = FrameType::kHello;
    header.destination = static_cast<uint16_t>(&address - addresses.data());
    Stranger twin(address);
    twin.Say(FrameOf(header, EncodeIdentity(identity)));
    EXPECT_NE(twin.Hear().find("same index"), std::string::npos);
    EXPECT_TRUE(twin.closed());

    // A hello cut short, and one that never comes.
    Stranger slow(address);
    slow.Say(FrameOf(header, EncodeIdentity(identity)).substr(0, 60));
    Stranger silent(address);
    silent.Hear();
    EXPECT_TRUE(silent.closed());
  }
  std::vector<std::unique_ptr<Stranger>> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(std::make_unique<Stranger>(addresses[i % 3]));
  }
  stop = true;
  for (std::thread& rank : ranks) rank.join();
  EXPECT_GT(sums[0], 1);
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[2], sums[0]);
}

TEST(StrangersTest, DoNotKeepAJobFromForming) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::thread zero([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
    ExpectSums(ring.get(), 1000);
  });
  // Silent connections, more than rank 0 holds half open.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(std::make_unique<Stranger>(addresses[0]));
  }
  RingOptions options = OptionsOf(addresses, 1);
  options.local_sockets = false;
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(options, &ring));
  ExpectSums(ring.get(), 1000);
  zero.join();
}

#ifdef __linux__

// Somebody else has the name, in Linux's abstract space, of rank 0's local
// socket. What it does with those who come is said by `answer`.
class Squatter {
 public:
  enum Way {
    kNeverAccepts,
    kNeverAnswers,
    kCloses,
    kSaysGarbage,
    kSaysHello,
    kIsAnotherRank,
    kRefuses,
  };
  Squatter(const std::vector<std::string>& addresses, Way way)
      : addresses_(addresses), way_(way) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(
        std::stoi(addresses[0].substr(addresses[0].rfind(':') + 1))));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_storage storage = {};
    std::memcpy(&storage, &at, sizeof(at));
    const std::string name = LocalSocketName(storage);
    sockaddr_un local = {};
    local.sun_family = AF_UNIX;
    std::memcpy(local.sun_path, name.data(), name.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&local),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                          name.size())),
              0);
    EXPECT_EQ(listen(fd_, way == kNeverAccepts ? 1 : 50), 0);
    if (way != kNeverAccepts) thread_ = std::thread([this] { Serve(); });
  }
  ~Squatter() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    for (int fd : held_) close(fd);
    close(fd_);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;
  int guests() const { return guests_; }
  // Whether the first said anything, until it left or half a minute was over.
  bool Heard() const {
    timeval limit = {30, 0};
    char byte;
    const int guest = first_;
    setsockopt(guest, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return recv(guest, &byte, 1, 0) > 0;
  }

 private:
  void Serve() {
    int fd;
    while ((fd = accept(fd_, nullptr, nullptr)) >= 0) {
      if (first_ < 0) first_ = fd;
      ++guests_;
      const std::string said = Answer();
      if (!said.empty()) send(fd, said.data(), said.size(), MSG_NOSIGNAL);
      if (way_ == kCloses) {
        close(fd);
      } else {
        held_.push_back(fd);
      }
    }
  }
  std::string Answer() const {
    FrameHeader header;
    header.type = way_ == kRefuses     ? FrameType::kReject
                  : way_ == kSaysHello ? FrameType::kHello
                                       : FrameType::kWelcome;
    Identity identity;
    identity.job = "ringlet";
    identity.rank = 2;
    identity.size = 2;
    identity.cluster_hash = ClusterHash(addresses_);
    identity.timeout_ms = 5000;
    identity.bytes_per_pack = RingOptions().bytes_per_pack;
    switch (way_) {
      case kSaysGarbage:
        return std::string(1000, 'g');
      case kRefuses:
        return FrameOf(header, {'n', 'o'});
      case kSaysHello:
      case kIsAnotherRank:
        return FrameOf(header, EncodeIdentity(identity));
      default:
        return "";
    }
  }

  const std::vector<std::string> addresses_;
  const Way way_;
  int fd_;
  std::thread thread_;
  std::vector<int> held_;
  std::atomic<int> first_{-1};
  std::atomic<int> guests_{0};
};

TEST(SquatterTest, DoesNotKeepTwoWorkersOfAHostApart) {
  for (const Squatter::Way way :
       {Squatter::kNeverAccepts, Squatter::kNeverAnswers, Squatter::kCloses,
        Squatter::kSaysGarbage, Squatter::kSaysHello, Squatter::kIsAnotherRank,
        Squatter::kRefuses}) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    Squatter squatter(addresses, way);
    std::thread zero([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
      ExpectSums(ring.get(), 30011);
    });
    std::unique_ptr<Collective> ring;
    RingOptions options = OptionsOf(addresses, 1);
    options.start_timeout_seconds = 8;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_TRUE(status.ok()) << "way " << way << ": " << status.message();
    if (status.ok()) ExpectSums(ring.get(), 30011);
    zero.join();
    if (way != Squatter::kNeverAccepts) {
      EXPECT_GT(squatter.guests(), 0);
    }
  }
}

// A squatter of another user is told nothing, not even a hello.
TEST(SquatterTest, OfAnotherUserHearsNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::vector<std::string> addresses = FreeAddresses(2);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    Squatter squatter(addresses, Squatter::kNeverAnswers);
    (void)!write(ready[1], "x", 1);
    while (squatter.guests() == 0) usleep(1000);
    _exit(squatter.Heard() ? 1 : 0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  std::thread zero([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
    ExpectSums(ring.get(), 1000);
  });
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 1), &ring));
  ExpectSums(ring.get(), 1000);
  zero.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Comes as rank 1, with all that rank 1 would say: what it is told, and "" once
// the connection ends.
std::string ToldAsRank1(const std::vector<std::string>& addresses) {
  Address host;
  sockaddr_storage numeric;
  EXPECT_TRUE(ParseAddress(addresses[0], &host).ok());
  EXPECT_TRUE(NumericAddress(host, &numeric).ok());
  const std::string name = LocalSocketName(numeric);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  const socklen_t bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  for (int i = 0;
       connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0;
       ++i) {
    if (i == 30000) return "nobody listens";
    usleep(1000);
  }
  FrameHeader header;
  header.type = FrameType::kHello;
  Identity identity;
  identity.job = "ringlet";
  identity.rank = 1;
  identity.size = 2;
  identity.cluster_hash = ClusterHash(addresses);
  identity.timeout_ms = 5000;
  identity.bytes_per_pack = RingOptions().bytes_per_pack;
  const std::string hello = FrameOf(header, EncodeIdentity(identity));
  send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);
  timeval limit = {30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char said[64];
  const ssize_t got = recv(fd, said, sizeof(said), 0);
  const bool over = got == 0 || (got < 0 && errno == ECONNRESET);
  close(fd);
  return got > 0 ? std::string(said, static_cast<size_t>(got))
         : over  ? ""
                 : "nothing for half a minute";
}

// Who comes to the local socket and is another user is neither let in nor
// answered; one of this user is answered, so the test would see it.
TEST(SquatterTest, AGuestOfAnotherUserIsNotAnswered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  for (const bool other : {true, false}) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    const pid_t child = fork();
    if (child == 0) {
      if (other && setuid(65534) != 0) _exit(2);
      _exit(ToldAsRank1(addresses).empty() ? 0 : 1);
    }
    std::thread zero([&] {
      std::unique_ptr<Collective> ring;
      RingOptions options = OptionsOf(addresses, 0);
      options.start_timeout_seconds = other ? 60 : 5;
      const Status status = RingCollective::Open(options, &ring);
      if (other) {
        EXPECT_TRUE(status.ok()) << status.message();
      }
      if (status.ok()) ExpectSums(ring.get(), 1000);
    });
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, other ? 0 : 1 << 8);
    if (other) {  // else its place was taken, and rank 0 has lost it
      std::unique_ptr<Collective> ring;
      const Status opened =
          RingCollective::Open(OptionsOf(addresses, 1), &ring);
      EXPECT_TRUE(opened.ok()) << opened.message();
      if (opened.ok()) ExpectSums(ring.get(), 1000);
    }
    zero.join();
  }
}

// In a container with users of its own the number of nobody stands for all whom
// it has no number for, whoever they are.
TEST(SquatterTest, NobodyMayBeAnybody) {
  if (geteuid() != 0) GTEST_SKIP() << "no users of its own";
  int pair[2];
  ASSERT_EQ(seteuid(12345), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  ASSERT_EQ(seteuid(0), 0);
  const pid_t child = fork();
  if (child == 0) {
    const char map[] = "65534 0 1\n";
    if (unshare(CLONE_NEWUSER) != 0) _exit(2);
    const int fd = open("/proc/self/uid_map", O_WRONLY);
    const bool mapped = write(fd, map, sizeof(map) - 1) > 0;
    if (!mapped || geteuid() != 65534) _exit(2);
    _exit(IsOfSameUser(pair[0]) ? 1 : 0);
  }
  close(pair[0]);
  close(pair[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (status == 2 << 8) GTEST_SKIP() << "no users of its own";
  EXPECT_EQ(status, 0);
  // Where all users have numbers it is one like others.
  const pid_t nobody = fork();
  if (nobody == 0) {
    if (setuid(65534) != 0) _exit(2);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) _exit(2);
    _exit(IsOfSameUser(pair[0]) ? 0 : 1);
  }
  ASSERT_EQ(waitpid(nobody, &status, 0), nobody);
  EXPECT_EQ(status, 0);
}

#endif  // __linux__

// A rank played by hand for rank 0, up to the end of the start.
class PlayedPeer {
 public:
  explicit PlayedPeer(const std::vector<std::string>& addresses,
                      uint32_t timeout_ms = 5000, int window = 0, int rank = 1)
      : socket_(addresses[0], window) {
    Identity identity;
    identity.job = "ringlet";
    identity.rank = rank;
    identity.size = static_cast<int>(addresses.size());
    identity.cluster_hash = ClusterHash(addresses);
    identity.timeout_ms = timeout_ms;
    identity.bytes_per_pack = RingOptions().bytes_per_pack;
    header_.type = FrameType::kHello;
    socket_.Say(FrameOf(header_, EncodeIdentity(identity)));
    header_.generation = 1;
    header_.source = static_cast<uint16_t>(rank);
    header_.type = FrameType::kBarrier;
    header_.sequence = 1;
    socket_.Say(FrameOf(header_, {}));
  }

  // That it has a place for operation 2, a broadcast from rank 0.
  void SayReady(uint64_t bytes) {
    FrameHeader header = header_;
    header.type = FrameType::kReady;
    header.sequence = 2;
    header.total = bytes;
    header.chunk = static_cast<uint32_t>(FrameType::kBroadcast);
    socket_.Say(FrameOf(header, {}));
  }
  // That it has done operation 1 and computes.
  void Beat() {
    FrameHeader header = header_;
    std::vector<uint8_t> payload(kHeartbeatBytes);
    Activity activity;
    activity.sequence = 1;
    EncodeHeartbeat(activity, &header, payload.data());
    socket_.Say(FrameOf(header, payload));
  }
  // That its ring has ended, since this rank was lost.
  void SayLost(int rank) {
    FrameHeader header = header_;
    header.type = FrameType::kAbort;
    header.sequence = 0;
    const auto low = static_cast<uint8_t>(rank);
    socket_.Say(FrameOf(header, {static_cast<uint8_t>(Code::kPeerLost), 0, low,
                                 0, 0xff, 0xff}));
  }

  // Operation 2, an all-reduce of one float.
  void SayValue(float value, const std::function<void(FrameHeader*)>& change) {
    SwapToLittle(&value, sizeof(value), 1);
    std::vector<uint8_t> payload(sizeof(value));
    std::memcpy(payload.data(), &value, sizeof(value));
    FrameHeader header = header_;
    header.type = FrameType::kAllReduce;
    header.sequence = 2;
    header.total = sizeof(value);
    if (change) change(&header);
    socket_.Say(FrameOf(header, payload));
  }

 private:
  FrameHeader header_;
  Stranger socket_;
};

// What rank 0 gets for 1.0 where rank 1 says what `say` has it say.
Status SumWithPlayedPeer(const std::function<void(PlayedPeer*)>& say,
                         float* sum) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::atomic<bool> done{false};
  std::thread played([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    PlayedPeer peer(addresses);
    say(&peer);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  Status status;
  {
    std::unique_ptr<Collective> ring;
    status = RingCollective::Open(OptionsOf(addresses, 0), &ring);
    *sum = 1;
    if (status.ok()) status = ring->AllReduce(sum, 1);
    done = true;
  }
  played.join();
  return status;
}

TEST(PlayedPeerTest, FramesOfAnotherGenerationAreDropped) {
  float sum = 0;
  ASSERT_OK(SumWithPlayedPeer(
      [](PlayedPeer* peer) {
        for (uint32_t other : {0u, 2u, 77u}) {
          peer->SayValue(5, [&](FrameHeader* h) { h->generation = other; });
        }
        peer->SayValue(41, nullptr);
      },
      &sum));
  EXPECT_EQ(sum, 42);
}

// Rank 1's ring forms and ends before rank 0's forms: the barrier that it has
// said is not one of the ring that both form next.
TEST(PlayedPeerTest, WhatAPeerSaidBeforeTheRingFormedIsForgotten) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::atomic<bool> done{false};
  std::thread played([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    {
      PlayedPeer one(addresses);
      one.SayLost(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    PlayedPeer one(addresses), two(addresses, 5000, 0, 2);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  {
    RingOptions options = OptionsOf(addresses, 0);
    options.start_timeout_seconds = 2;
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_TRUE(status.ok()) << status.message();
    done = true;
  }
  played.join();
}

TEST(PlayedPeerTest, APeerThatBreaksTheProtocolIsLost) {
  const std::function<void(FrameHeader*)> breaches[] = {
      [](FrameHeader* h) { h->source = 0; },
      [](FrameHeader* h) { h->destination = 1; },
      [](FrameHeader* h) { h->sequence = 1; },
      [](FrameHeader* h) { h->sequence = 20; },
      [](FrameHeader* h) { h->chunk = 1; },
      [](FrameHeader* h) { h->type = FrameType::kWelcome; },
  };
  for (const auto& breach : breaches) {
    float sum = 0;
    const Status status = SumWithPlayedPeer(
        [&](PlayedPeer* peer) { peer->SayValue(1, breach); }, &sum);
    EXPECT_EQ(status.code(), Code::kPeerLost);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_NE(std::string(status.message()).find("protocol"), std::string::npos)
        << status.message();
  }
}

// It says that it is well and computes; nothing that is sent to it goes on.
TEST(PlayedPeerTest, APeerThatDoesNotReadIsLost) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::atomic<bool> done{false};
  std::thread played([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    PlayedPeer peer(addresses, 500, 4096);
    peer.SayReady(8000000);
    while (!done) {
      peer.Beat();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  RingOptions options = OptionsOf(addresses, 0);
  options.timeout_seconds = 0.5;
  options.patience_seconds = 20;  // where nobody else ends it
  {
    std::unique_ptr<Collective> ring;
    const Status opened = RingCollective::Open(options, &ring);
    EXPECT_TRUE(opened.ok()) << opened.message();
    if (opened.ok()) {
      std::vector<char> bytes(8000000);
      const Status status = ring->Broadcast(bytes.data(), bytes.size(), 0);
      EXPECT_EQ(status.code(), Code::kPeerLost);
      EXPECT_EQ(status.rank(), 1);
      const std::string message = status.message();
      EXPECT_NE(message.find("stalled"), std::string::npos) << message;
      EXPECT_NE(message.find("does not read"), std::string::npos) << message;
    }
  }
  done = true;
  played.join();
}

TEST(RingCollectiveTest, APortInUseIsAStatus) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(
      std::stoi(addresses[0].substr(addresses[0].rfind(':') + 1))));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(OptionsOf(addresses, 0), &ring);
  close(fd);
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_NE(std::string(status.message()).find(addresses[0]),
            std::string::npos);
}

// At once, and not after the time for which workers wait for each other.
TEST(RingCollectiveTest, TooFewDescriptorsAreAStatus) {
  const std::vector<std::string> addresses = FreeAddresses(16);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);  // what is open, and some of the ring's own
  close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(OptionsOf(addresses, 3), &ring);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  const std::string said = status.message();
  EXPECT_NE(said.find("needs 17: 15 connections and 2 files"),
            std::string::npos)
      << said;
}

TEST(RingCollectiveTest, AnAddressOfAnotherHostIsAStatus) {
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(
      OptionsOf({"192.0.2.1:4000", "127.0.0.1:4000"}, 0), &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_NE(std::string(status.message()).find("no such address"),
            std::string::npos);
}

TEST(RingCollectiveTest, SenselessOptionsAreRefused) {
  std::unique_ptr<Collective> ring;
  const auto refused = [&](const std::vector<std::string>& addresses, int rank,
                           const std::function<void(RingOptions*)>& change) {
    RingOptions options = OptionsOf(addresses, rank);
    change(&options);
    return RingCollective::Open(options, &ring).code() ==
           Code::kInvalidArgument;
  };
  const auto as_is = [](RingOptions*) {};
  const std::string a = "127.0.0.1:4001";
  const std::string b = "127.0.0.1:4002";
  EXPECT_TRUE(refused({}, 0, as_is));
  EXPECT_TRUE(refused({a, b}, 2, as_is));
  EXPECT_TRUE(refused({a, b}, -1, as_is));
  EXPECT_TRUE(refused({a, a}, 0, as_is));
  for (const char* bad : {"", "host", "host:", ":1", "host:0", "host:65536",
                          "host:1x", "::1:80", "host:123456", "[]:1"}) {
    EXPECT_TRUE(refused({a, bad}, 0, as_is)) << bad;
  }
  EXPECT_TRUE(
      refused({a, b}, 0, [](RingOptions* o) { o->timeout_seconds = 0; }));
  EXPECT_TRUE(refused(
      {a, b}, 0, [](RingOptions* o) { o->timeout_seconds = std::nan(""); }));
  EXPECT_TRUE(
      refused({a, b}, 0, [](RingOptions* o) { o->patience_seconds = -1; }));
  EXPECT_TRUE(refused({a, b}, 0,
                      [](RingOptions* o) { o->job = std::string(257, 'x'); }));
}

int NameOfThisHost(const char* name, const char* service, const addrinfo* hints,
                   addrinfo** list) {
  if (std::strcmp(name, "here.invalid") != 0) return EAI_NONAME;
  return getaddrinfo("127.0.0.1", service, hints, list);
}

TEST(RingCollectiveTest, WorksOverIpv6AndByName) {
  const NameLookup::Resolver system = NameLookup::resolver;
  std::vector<std::string> hosts = {"[::1]", "localhost"};
  if (system != nullptr) {  // not in a static program
    hosts.push_back("here.invalid");
    NameLookup::resolver = NameOfThisHost;
  }
  for (const std::string& host : hosts) {
    const std::vector<int> ports = FreePorts(2);
    const std::vector<std::string> addresses = {
        host + (":" + std::to_string(ports[0])),
        host + (":" + std::to_string(ports[1]))};
    std::thread other([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 1), &ring));
      ExpectSums(ring.get(), 30011);
    });
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(OptionsOf(addresses, 0), &ring);
    EXPECT_TRUE(status.ok()) << status.message();
    if (status.ok()) ExpectSums(ring.get(), 30011);
    other.join();
  }
  NameLookup::resolver = system;
}

// A resolver that knows a few names, each with several addresses.
std::map<std::string, std::vector<std::string>> known_names;

int KnownNames(const char* name, const char* service, const addrinfo* hints,
               addrinfo** list) {
  const auto found = known_names.find(name);
  if (found == known_names.end()) return EAI_NONAME;
  addrinfo** end = list;
  for (const std::string& address : found->second) {
    const int error = getaddrinfo(address.c_str(), service, hints, end);
    if (error != 0) return error;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}

// These names alone, while one of these lives.
class KnownNamesOnly {
 public:
  explicit KnownNamesOnly(
      const std::map<std::string, std::vector<std::string>>& names)
      : system_(NameLookup::resolver), route_(route_finder) {
    known_names = names;
    if (system_ != nullptr) NameLookup::resolver = KnownNames;
  }
  ~KnownNamesOnly() {
    NameLookup::resolver = system_;
    route_finder = route_;
  }
  bool work() const { return system_ != nullptr; }  // not in a static program

 private:
  const NameLookup::Resolver system_;
  const RouteFinder route_;
};

std::vector<std::string> Texts(const std::vector<sockaddr_storage>& addresses) {
  std::vector<std::string> texts;
  for (const sockaddr_storage& a : addresses) texts.push_back(AddressText(a));
  return texts;
}

sockaddr_storage Numeric(const std::string& host, int port) {
  sockaddr_storage address;
  EXPECT_TRUE(NumericAddress({host, port}, &address).ok());
  return address;
}

TEST(NamesTest, ANameHasAllItsAddresses) {
  const KnownNamesOnly names(
      {{"a.invalid", {"::1", "127.0.0.1", "10.0.0.7", "::1"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  const NameLookup lookup({"a.invalid", 7000});
  ASSERT_TRUE(lookup.Wait(60));
  std::vector<sockaddr_storage> addresses;
  ASSERT_OK(lookup.Answer(&addresses));
  EXPECT_EQ(Texts(addresses),
            (std::vector<std::string>{"[::1]:7000", "127.0.0.1:7000",
                                      "10.0.0.7:7000"}));
}

// Rank 0's name has addresses of which it can listen on one: the others find
// one that is dead first, and a live one in the end.
TEST(NamesTest, EveryAddressOfANameIsTried) {
  const KnownNamesOnly names(
      {{"first.invalid", {"192.0.2.254", "127.0.0.1"}},
       {"last.invalid", {"127.0.0.1", "192.0.2.254"}},
       {"six.invalid", {"2001:db8::1", "::1", "127.0.0.1"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  for (const char* name : {"first.invalid", "last.invalid", "six.invalid"}) {
    for (const bool local : {true, false}) {
      const std::vector<int> ports = FreePorts(2);
      const std::vector<std::string> addresses = {
          name + (":" + std::to_string(ports[0])),
          "127.0.0.1:" + std::to_string(ports[1])};
      const auto open = [&](int rank) {
        RingOptions options = OptionsOf(addresses, rank);
        options.local_sockets = local;
        std::unique_ptr<Collective> ring;
        const Status status = RingCollective::Open(options, &ring);
        EXPECT_TRUE(status.ok()) << name << ": " << status.message();
        if (status.ok()) ExpectSums(ring.get(), 1000);
      };
      std::thread zero([&] { open(0); });
      open(1);
      zero.join();
    }
  }
}

TEST(NamesTest, ALoopbackAddressOfAJobOnSeveralHostsIsTold) {
  const KnownNamesOnly names({{"me.invalid", {"127.0.1.1"}},
                              {"good.invalid", {"127.0.1.1", "10.0.0.3"}},
                              {"twin.invalid", {"127.0.0.1"}},
                              {"far.invalid", {"192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  const Address me = {"me.invalid", 7000}, far = {"far.invalid", 7001};
  std::vector<sockaddr_storage> own;
  std::string warning;
  const auto find = [&](const std::vector<Address>& hosts) {
    ASSERT_OK(FindOwnAddresses(hosts, 0, 20, &own, &warning));
  };
  route_finder = [](const sockaddr_storage& to, sockaddr_storage* from) {
    EXPECT_EQ(AddressText(to), "192.0.2.77:7001");
    *from = Numeric("192.0.2.5", 99);
    return true;
  };
  find({me, far});
  EXPECT_EQ(Texts(own),
            (std::vector<std::string>{"127.0.1.1:7000", "192.0.2.5:7000"}));
  for (const char* part :
       {"rank 0's own address me.invalid:7000 is 127.0.1.1:7000",
        "rank 1 (far.invalid:7001)", "listens on 192.0.2.5:7000 too",
        "/etc/hosts", "instead of 127.0.1.1,"}) {
    EXPECT_NE(warning.find(part), std::string::npos) << warning;
  }
  // By number it is said, and not mended: it was asked for.
  find({{"127.0.0.1", 7000}, {"192.0.2.77", 7001}});
  EXPECT_EQ(Texts(own), std::vector<std::string>{"127.0.0.1:7000"});
  EXPECT_NE(warning.find("rank 1 (192.0.2.77:7001)"), std::string::npos);
  // All is well where a name has another address, or all are of one host.
  find({{"good.invalid", 7000}, far});
  EXPECT_EQ(own.size(), 2u);
  EXPECT_EQ(warning, "");
  find({me, {"me.invalid", 7001}, {"twin.invalid", 7002}});
  EXPECT_EQ(own.size(), 1u);
  EXPECT_EQ(warning, "");
  find({me, {"not-known.invalid", 7001}});
  EXPECT_EQ(warning, "");
  // Without a way there the cure alone.
  route_finder = [](const sockaddr_storage&, sockaddr_storage*) {
    return false;
  };
  find({me, far});
  EXPECT_EQ(own.size(), 1u);
  EXPECT_NE(warning.find("/etc/hosts"), std::string::npos) << warning;
}

TEST(NamesTest, AWorkerListensOnTheWayToTheOthersToo) {
  const KnownNamesOnly names(
      {{"me.invalid", {"127.0.1.1"}}, {"far.invalid", {"192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  route_finder = [](const sockaddr_storage&, sockaddr_storage* from) {
    *from = Numeric("127.0.0.1", 99);
    return true;
  };
  const std::vector<int> ports = FreePorts(2);
  const std::string mine = std::to_string(ports[0]);
  testing::internal::CaptureStderr();
  std::thread zero([&] {
    RingOptions options = OptionsOf(
        {"me.invalid:" + mine, "far.invalid:" + std::to_string(ports[1])}, 0);
    options.start_timeout_seconds = 3;
    std::unique_ptr<Collective> ring;
    EXPECT_EQ(RingCollective::Open(options, &ring).code(),
              Code::kDeadlineExceeded);
  });
  bool listens = false;
  for (int i = 0; i < 250 && !listens; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    listens = Listens("127.0.0.1:" + mine);
  }
  zero.join();
  EXPECT_TRUE(listens);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "warning: rank 0's own address me.invalid:"),
            std::string::npos);
}

// Rank 1 of 3 as often as it is started anew, the others forming their ring
// again each time: whoever is lost, all say of which ring.
TEST(RingCollectiveTest, EveryRingThatIsFormedAnewHasANewGeneration) {
  std::vector<int> ports;  // that stay free while nobody listens
  ASSERT_OK(FindLocalPorts(3, &ports));
  std::vector<std::string> addresses;
  for (int port : ports) {
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  }
  constexpr int kRings = 4;
  const auto survive = [&](int rank) {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, rank), &ring));
    for (int generation = 1; generation <= kRings; ++generation) {
      if (generation > 1) ASSERT_OK(ring->Reform());
      ExpectSums(ring.get(), 3000);
      float value = 1;
      const Status lost = ring->AllReduce(&value, 1);
      EXPECT_EQ(lost.code(), Code::kPeerLost);
      EXPECT_NE(std::string(lost.message())
                    .find("generation " + std::to_string(generation) + ","),
                std::string::npos)
          << lost.message();
    }
  };
  std::thread zero([&] { survive(0); });
  std::thread two([&] { survive(2); });
  for (int i = 0; i < kRings; ++i) {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 1), &ring));
    ExpectSums(ring.get(), 3000);
  }
  zero.join();
  two.join();
}

// What a Reform that failed would leave behind: descriptors and threads.
int Held() {
  int held = 0;
  for (const char* folder : {"/proc/self/fd", "/proc/self/task"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      held += !entry.path().empty();
    }
  }
  return held;
}

TEST(RingCollectiveTest, AReformThatFailedMayBeCalledAgain) {
  const char* const build = std::getenv("RINGLET_BUILD");
  const bool emulated =
      build != nullptr && std::strstr(build, "/emulated") != nullptr;
  std::vector<int> ports;
  ASSERT_OK(FindLocalPorts(2, &ports));
  std::vector<std::string> addresses;
  for (int port : ports) {
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  }
  for (int lives = 0; lives < 2; ++lives) {
    const int other = 1 - lives;
    const int held = Held();
    std::thread first([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, other), &ring));
      ExpectSums(ring.get(), 1000);
    });
    RingOptions options = OptionsOf(addresses, lives);
    options.start_timeout_seconds = 2;
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    ExpectSums(ring.get(), 1000);
    EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
    first.join();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ring->Reform().code(), Code::kDeadlineExceeded);
      EXPECT_FALSE(Listens(addresses[static_cast<size_t>(lives)]));
      // The first time libuv takes some for good; an emulator has its own.
      if (lives > 0 && !emulated) {
        EXPECT_LE(Held(), held);
      }
      // It is not a ring of one.
      EXPECT_EQ(ring->Barrier().code(), Code::kDeadlineExceeded);
      float value = 1;
      EXPECT_EQ(ring->AllReduce(&value, 1).code(), Code::kDeadlineExceeded);
      ring->Abort(Corruption("nobody hears this"));
    }
    std::thread second([&] {
      std::unique_ptr<Collective> again;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, other), &again));
      ExpectSums(again.get(), 1000);
    });
    const Status formed = ring->Reform();
    EXPECT_TRUE(formed.ok()) << formed.message();
    if (formed.ok()) ExpectSums(ring.get(), 1000);
    second.join();
  }
}

// Two of three leave, the second while the others form the ring again; both
// come back.
TEST(RingCollectiveTest, ASecondLossWhileTheRingReformsIsSurvived) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> ports;
    ASSERT_OK(FindLocalPorts(3, &ports));
    std::vector<std::string> addresses;
    for (int port : ports) {
      addresses.push_back("127.0.0.1:" + std::to_string(port));
    }
    const int lives = static_cast<int>(random() % 3);
    const int first = (lives + 1) % 3;
    const int second = (lives + 2) % 3;
    const int delays[] = {static_cast<int>(random() % 20000),
                          static_cast<int>(random() % 20000),
                          static_cast<int>(random() % 40000)};
    const auto pause = [](int micros) {
      std::this_thread::sleep_for(std::chrono::microseconds(micros));
    };
    // Opens or forms again, as often as it takes, until a sum is there.
    const auto go_on = [&](int rank, std::unique_ptr<Collective>* ring) {
      Status status = Error(Code::kPeerLost, "none yet");
      while (status.code() == Code::kPeerLost) {
        status = *ring == nullptr
                     ? RingCollective::Open(OptionsOf(addresses, rank), ring)
                     : (*ring)->Reform();
        float value = 1;
        if (status.ok()) status = (*ring)->AllReduce(&value, 1);
        if (status.ok()) {
          EXPECT_EQ(value, 3);
        }
      }
      return status;
    };
    std::vector<std::thread> threads;
    MeetingPoint formed, ended;
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(lives, &ring));
      formed.Meet(3);
      EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
      ASSERT_OK(go_on(lives, &ring));
      ended.Meet(3);
    });
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(first, &ring));
      formed.Meet(3);
      ring.reset();
      pause(delays[0]);
      ASSERT_OK(go_on(first, &ring));
      ended.Meet(3);
    });
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(second, &ring));
      formed.Meet(3);
      EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
      std::thread reforms([&] {
        RingOptions options = OptionsOf(addresses, second);
        // Gone in the middle of it, or just after.
        options.start_timeout_seconds = delays[1] / 1e6;
        ring.reset();
        RingCollective::Open(options, &ring).IgnoreError();
        ring.reset();
      });
      reforms.join();
      pause(delays[2]);
      ASSERT_OK(go_on(second, &ring));
      ended.Meet(3);
    });
    for (std::thread& thread : threads) thread.join();
    if (HasFailure()) break;
  }
}

// A resolver without a network: it gives up when it is told to.
std::atomic<bool> give_up{false};
std::atomic<int> lookups{0};

int SlowResolver(const char*, const char*, const addrinfo*, addrinfo**) {
  ++lookups;
  for (int i = 0; i < 60000 && !give_up; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  --lookups;
  return EAI_AGAIN;
}

TEST(RingCollectiveTest, ASlowResolverHoldsNobodyUp) {
  const NameLookup::Resolver system = NameLookup::resolver;
  if (system == nullptr) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = SlowResolver;
  give_up = false;
  const std::string port = FreeAddresses(1)[0].substr(9);
  for (const bool own : {true, false}) {
    RingOptions options;
    options.insecure = true;
    options.addresses = {"nobody.invalid" + port, "127.0.0.1" + port};
    options.rank = own ? 0 : 1;
    options.start_timeout_seconds = 0.3;
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_NE(std::string(status.message()).find("nobody.invalid"),
              std::string::npos)
        << status.message();
    EXPECT_EQ(lookups, own ? 1 : 2);  // still at it, and nobody waited
  }
  NameLookup::resolver = system;
  give_up = true;
  while (lookups > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(RingCollectiveTest, ANameThatIsNotThereIsNamed) {
  const NameLookup::Resolver system = NameLookup::resolver;
  if (system == nullptr) {  // a static program: at once
    RingOptions options;
    options.addresses = {"127.0.0.1:7000", "nobody.invalid:7000"};
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("nobody.invalid"),
              std::string::npos);
    return;
  }
  NameLookup::resolver = [](const char*, const char*, const addrinfo*,
                            addrinfo**) { return EAI_NONAME; };
  const NameLookup lookup({"nobody.invalid", 7000});
  ASSERT_TRUE(lookup.Wait(60));
  NameLookup::resolver = system;
  std::vector<sockaddr_storage> addresses;
  const Status status = lookup.Answer(&addresses);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("nobody.invalid"),
            std::string::npos);
}

TEST(RingCollectiveTest, MayBeDestroyedWithOperationsInFlight) {
  // CollectiveSchedule in flight use the memory until their ring is destroyed.
  std::vector<std::vector<float>> spans(3, std::vector<float>(500000));
  RunRing(3, [&](Collective* ring) {
    std::vector<float>& v = spans[static_cast<size_t>(ring->rank())];
    ASSERT_OK(ring->Barrier());  // or one leaves while others still arrive
    Collective::Ticket ticket;
    for (int i = 0; i < 6; ++i) {
      ring->StartAllReduce(v.data(), v.size(), &ticket).IgnoreError();
    }
    if (ring->rank() == 1) ring->Wait(ticket).IgnoreError();
  });
}

TEST(RingCollectiveTest, AfterAFailureEveryCallFails) {
  RunRing(2, [](Collective* ring) {
    std::vector<float> v(100);
    const size_t count = ring->rank() == 0 ? 100 : 50;
    Collective::Ticket mine = 0;
    ASSERT_OK(ring->StartAllReduce(v.data(), count, &mine));
    EXPECT_EQ(ring->Wait(mine).code(), Code::kInvalidArgument);
    EXPECT_EQ(ring->Barrier().code(), Code::kInvalidArgument);
    Collective::Ticket ticket = 0;
    EXPECT_FALSE(ring->StartAllReduce(v.data(), count, &ticket).ok());
    EXPECT_EQ(ring->Wait(mine).code(), Code::kInvalidArgument);
  });
}

TEST(RingCollectiveTest, TheSameBitsFromRunToRun) {
  std::vector<float> results[2];
  for (std::vector<float>& result : results) {
    RunRing(4, [&](Collective* ring) {
      std::vector<float> v = Mine(ring->rank(), 100003);
      for (float& x : v) x = x * x * 1e-3f + 1 / (x + 0.1f);
      ASSERT_OK(ring->AllReduce(v.data(), v.size()));
      if (ring->rank() == 2) result = v;
    });
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace ringlet
