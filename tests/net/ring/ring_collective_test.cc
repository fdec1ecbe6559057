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
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/captured_output.h"
#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/threads.h"
#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "core/base/ieee_arithmetic.h"
#include "core/base/open_line.h"
#include "net/membership/failure_detector.h"
#include "net/ring/withdrawal.h"
#include "net/transport/local_socket.h"
#include "net/transport/name_lookup.h"
#include "net/transport/own_addresses.h"
#include "net/transport/socket_address.h"
#include "net/wire/handshake.h"
#include "ringlet/status.h"
#include "stranger.h"

namespace ringlet {
namespace {

using Ranks = std::function<void(Collective*)>;

RingOptions OptionsOf(const std::vector<std::string>& addresses, int rank) {
  RingOptions options;
  options.insecure = true;  // names, and addresses of this host
  options.addresses = addresses;
  options.worker = rank;
  options.start_timeout_seconds = 100;
  return options;
}

// Each rank a thread; `body` on every one.
void RunRing(int size, const Ranks& body,
             const std::function<void(RingOptions*)>& change = nullptr) {
  const std::vector<std::string> addresses = FreeAddresses(size);
  RunThreads(size, [&](int r) {
    RingOptions options = OptionsOf(addresses, r);
    if (change) change(&options);
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    body(ring.get());
  });
}

float Value(int rank, size_t i) {
  return static_cast<float>((rank + 1) * 0.37 +
                            static_cast<double>(i % 1009) * 0.011);
}

std::vector<float> Mine(int rank, size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = Value(rank, i);
  return v;
}

// Integers of all 32 bits, with sums that wrap.
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

TEST_P(WorldTest, AllReduce_OddLengths_IsTheSum) {
  RunRing(GetParam(), [](Collective* ring) {
    for (size_t n : kLengths) ExpectSums(ring, n);
  });
}

TEST_P(WorldTest, AllReduce_OddLengthsOverTcp_IsTheSum) {
  RunRing(
      GetParam(),
      [](Collective* ring) {
        for (size_t n : kLengths) ExpectSums(ring, n);
      },
      [](RingOptions* options) { options->local_sockets = false; });
}

TEST_P(WorldTest, AllReduce_OddLengthsByRing_IsTheSum) {
  RunRing(
      GetParam(),
      [](Collective* ring) {
        for (size_t n : kLengths) ExpectSums(ring, n);
      },
      [](RingOptions* options) {
        options->implementation = RingImplementation::kRing;
      });
}

TEST_P(WorldTest, AllReduce_OddLengthsByTree_IsTheSum) {
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
// Rank 0 rounds upwards, and takes denormals for zero.
TEST_P(WorldTest, AllReduce_AnyModeOfTheCallersArithmetic_IsTheSum) {
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

TEST_P(WorldTest, AllReduce_ManyInFlight_EndInOrder) {
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

TEST_P(WorldTest, Broadcast_EveryRoot_ReachesEveryRank) {
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

TEST_P(WorldTest, AllGather_AnyLength_BringsEveryPart) {
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

TEST_P(WorldTest, Barrier_AnyRankIsLate_WaitsForIt) {
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
TEST(RingCollectiveTest, Report_ProgressBarIsOpen_IsOnALineOfItsOwn) {
  std::string text;
  {
    CapturedOutput output;
    {
      OpenLine bar(stdout);
      bar.Write("1/9 ====", /*ends=*/false);
      RunRing(
          2, [](Collective*) {},
          [&](RingOptions* options) {
            if (options->worker == 1) {
              EXPECT_TRUE(output.AwaitText("worker 0 of 2 ("));
            }
          });
    }
    text = output.text();
  }
  EXPECT_TRUE(Contains(text, "1/9 ====\nworker 0 of 2 ("));
}

// After the timeout the other ranks report that they wait. They do not count
// the slow rank as lost.
TEST(RingCollectiveTest, SlowRank_LongerThanTheTimeout_IsWaitedFor) {
  std::string text;
  {
    CapturedOutput output;
    RunRing(
        3,
        [&](Collective* ring) {
          ring->SetStep(17);
          ExpectSums(ring, 50000);
          if (ring->rank() == 1) {
            EXPECT_TRUE(output.AwaitText("warning: rank 0 has waited "));
            EXPECT_TRUE(output.AwaitText("warning: rank 2 has waited "));
          }
          ExpectSums(ring, 50000);
        },
        [](RingOptions* options) { options->timeout_seconds = 2; });
    text = output.text();
  }
  for (const char* part :
       {" s in operation 5 (all-reduce of integers), step 17, for rank ",
        "rank 1 (127.0.0.1:", "which has computed for ",
        " s, step 17, after operation 4\n", " s, and continues\n"}) {
    EXPECT_TRUE(Contains(text, part));
  }
}

TEST(RingCollectiveTest, Patience_OneRankComputesTooLong_EndsForAll) {
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
        for (const char* part : {"failed: rank ", " has waited ",
                                 "operation 5 (barrier)", "rank 1 (127.0.0.1:",
                                 "which has computed for ", "has timed out"}) {
          EXPECT_TRUE(Contains(message, part));
        }
      },
      [](RingOptions* options) {
        options->timeout_seconds = 8;   // no rank is silent for so long
        options->patience_seconds = 3;  // and each begins its sums sooner
      });
  testing::internal::GetCapturedStderr();
}

// The status of every rank when rank 1 makes another call.
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
    EXPECT_TRUE(Contains(message, first));
    EXPECT_TRUE(Contains(message, second));
    EXPECT_TRUE(Contains(message, "rank 1"));
  }
}

// Sums `count` floats.
std::function<Status(Collective*)> AllReduceOf(size_t count) {
  return [count](Collective* ring) {
    std::vector<float> v(count);
    return ring->AllReduce(v.data(), count);
  };
}

class DifferentCallsTest : public testing::TestWithParam<int> {};

TEST_P(DifferentCallsTest, AllReduce_ShortSizesDiffer_NamesBoth) {
  ExpectBothNamed(RunDifferent(GetParam(), AllReduceOf(100), AllReduceOf(99)),
                  "all-reduce of 400 bytes", "all-reduce of 396 bytes");
}

TEST_P(DifferentCallsTest, AllReduce_LongSizesDiffer_NamesBoth) {
  ExpectBothNamed(
      RunDifferent(GetParam(), AllReduceOf(100000), AllReduceOf(100001)),
      "all-reduce of 400000 bytes", "all-reduce of 400004 bytes");
}

TEST_P(DifferentCallsTest, AllReduce_ShortAndLongSize_NamesBoth) {
  ExpectBothNamed(RunDifferent(GetParam(), AllReduceOf(100000), AllReduceOf(1)),
                  "all-reduce of 400000 bytes", "all-reduce of 4 bytes");
}

TEST_P(DifferentCallsTest, AllReduce_FloatsAndIntegers_NamesBoth) {
  for (const size_t n : {size_t{100}, size_t{100000}}) {
    const std::string of = " of " + std::to_string(4 * n) + " bytes";
    ExpectBothNamed(
        RunDifferent(GetParam(), AllReduceOf(n),
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

TEST_P(DifferentCallsTest, Calls_KindsDiffer_AreBothNamed) {
  ExpectBothNamed(
      RunDifferent(
          GetParam(), [](Collective* ring) { return ring->Barrier(); },
          [](Collective* ring) {
            char byte = 0;
            return ring->Broadcast(&byte, 1, 0);
          }),
      "barrier", "broadcast of 1 bytes from rank 0");
}

TEST_P(DifferentCallsTest, Broadcast_RootsDiffer_NamesBoth) {
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

// Expects that the reason of rank `failing` reaches all ranks, in any call.
void ExpectAbortReaches(int size, int failing, const Status& reason,
                        const std::function<Status(Collective*)>& others,
                        const std::function<void(Collective*)>& before,
                        const std::function<void(RingOptions*)>& change) {
  std::vector<std::string> address(static_cast<size_t>(size));  // as each has
  ThreadBarrier formed;
  RunRing(
      size,
      [&](Collective* ring) {
        formed.Wait(size);
        if (ring->rank() == failing) {
          if (before) before(ring);
          ring->Abort(reason);
        }
        const Status result =
            ring->rank() == failing ? ring->Barrier() : others(ring);
        const std::string message = result.message();
        EXPECT_EQ(result.code(), reason.code()) << message;
        EXPECT_EQ(result.rank(), reason.rank()) << message;
        const std::string name = "rank " + std::to_string(failing) + " (" +
                                 address[static_cast<size_t>(ring->rank())] +
                                 ") failed: " + reason.message();
        EXPECT_TRUE(Contains(message, name));
        EXPECT_EQ(ring->Barrier().code(), reason.code());
        float value = 1;
        EXPECT_EQ(ring->AllReduce(&value, 1).code(), reason.code());
      },
      [&](RingOptions* options) {
        options->timeout_seconds = 20;  // no test waits for it to pass
        address[static_cast<size_t>(options->worker)] =
            options->addresses[static_cast<size_t>(failing)];
        if (change) change(options);
      });
}

// `begun`: the number of sums that the ranks have started.
Status SumLong(Collective* ring, std::atomic<int>* begun) {
  std::vector<float> v(3000000);
  Status status;
  while (status.ok()) {
    Collective::Ticket ticket;
    status = ring->StartAllReduce(v.data(), v.size(), &ticket);
    ++*begun;
    if (status.ok()) status = ring->Wait(ticket);
  }
  return status;
}

class AbortTest : public testing::TestWithParam<int> {};

TEST_P(AbortTest, Abort_OthersAreInABarrier_ReachesThem) {
  ExpectAbortReaches(
      GetParam(), 1, Corruption("example 17 is damaged"),
      [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
}

TEST_P(AbortTest, Abort_OthersCompute_ReachesThem) {
  const Status full = ResourceExhausted("the disk is full");
  std::atomic<bool> aborted{false};
  ExpectAbortReaches(
      GetParam(), 0, full,
      [&](Collective* ring) {
        EXPECT_TRUE(Eventually([&] { return aborted.load(); }));
        return ring->Barrier();
      },
      [&](Collective* ring) {
        ring->Abort(full);
        aborted = true;
      },
      nullptr);
}

TEST_P(AbortTest, Abort_OthersSendMuch_ReachesThem) {
  for (const bool local : {true, false}) {
    std::atomic<int> begun{0};
    ExpectAbortReaches(
        GetParam(), 1, Error(Code::kInternal, "a bug"),
        [&](Collective* ring) { return SumLong(ring, &begun); },
        [&](Collective* ring) {
          std::vector<float> v(3000000);
          ASSERT_OK(ring->AllReduce(v.data(), v.size()));
          Collective::Ticket ticket;
          ASSERT_OK(ring->StartAllReduce(v.data(), v.size(), &ticket));
          // The other ranks have started their second sum.
          EXPECT_TRUE(
              Eventually([&] { return begun >= 2 * (ring->size() - 1); }));
          ring->Abort(Error(Code::kInternal, "a bug"));
        },
        [&](RingOptions* options) { options->local_sockets = local; });
  }
}

TEST_P(AbortTest, Abort_OfALoss_KeepsItsRank) {
  ExpectAbortReaches(
      GetParam(), 1, PeerLost(0, "rank 0 speaks in riddles"),
      [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
}

TEST_P(AbortTest, Abort_OfEveryCode_KeepsTheCode) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    if (static_cast<Code>(code) == Code::kPeerLost) continue;
    ExpectAbortReaches(
        GetParam(), 1, Error(static_cast<Code>(code), "why"),
        [](Collective* ring) { return ring->Barrier(); }, nullptr, nullptr);
  }
}

TEST_P(AbortTest, Abort_OfSeveralRanks_ReachesAll) {
  ThreadBarrier formed;
  RunRing(GetParam(), [&](Collective* ring) {
    formed.Wait(ring->size());
    if (ring->rank() != 0) ring->Abort(InvalidArgument("one of several"));
    const Status status = ring->Barrier();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "failed: one of several"));
  });
}

TEST_P(AbortTest, Abort_LongAndOddText_IsShortAndPrintable) {
  ThreadBarrier formed;
  RunRing(GetParam(), [&](Collective* ring) {
    formed.Wait(ring->size());
    const std::string odd = "\xc3\xa9\n\t" + std::string(5000, 'x');
    if (ring->rank() == 1) ring->Abort(Corruption("%s", odd.c_str()));
    const std::string message = ring->Barrier().message();
    EXPECT_LT(message.size(), ring->rank() == 1 ? 6000u : 500u);
    if (ring->rank() != 1) {
      EXPECT_TRUE(Contains(message, "failed: ????xxx"));
    }
  });
}

TEST_P(AbortTest, Reform_AfterAnAbort_SumsAgain) {
  ThreadBarrier summed;
  RunRing(GetParam(), [&](Collective* ring) {
    for (int round = 0; round < 3; ++round) {
      ExpectSums(ring, 30011);
      summed.Wait(ring->size());
      if (ring->rank() == round % ring->size()) {
        ring->Abort(Corruption("round %d", round));
      }
      EXPECT_EQ(ring->Barrier().code(), Code::kCorruption);
      ASSERT_OK(ring->Reform());
    }
    ExpectSums(ring, 30011);
    summed.Wait(ring->size());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AbortTest, testing::Values(2, 3, 5));

TEST(RingCollectiveTest, Abort_RingOfOne_FailsTheNextCall) {
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

TEST(StrangersTest, Strangers_WhileAJobRuns_DisturbNothing) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> ranks;
  std::atomic<int> formed{0};
  std::vector<int> sums(3);
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      RingOptions options = OptionsOf(addresses, r);
      std::unique_ptr<Collective> ring;
      const Status opened = RingCollective::Open(options, &ring);
      ++formed;
      ASSERT_OK(opened);
      for (float go_on = 1; go_on > 0;) {
        ExpectSums(ring.get(), 5000);
        ++sums[r];
        go_on = stop ? 0 : 1;  // rank 0 decides
        ASSERT_OK(ring->Broadcast(&go_on, sizeof(go_on), 0));
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return formed == 3; }));

  for (const std::string& address : addresses) {
    { Stranger scanner(address); }
    Stranger http(address);
    http.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    http.Send(std::string(100, ' '));
    http.Receive();
    EXPECT_TRUE(http.closed());

    Stranger random(address);
    std::string noise;
    for (int i = 0; i < 100000; ++i) noise += static_cast<char>(i * 7919 >> 3);
    random.Send(noise);
    random.Receive();
    EXPECT_TRUE(random.closed());

    // A frame that is well formed and not a hello.
    FrameHeader header;
    header.type = FrameType::kAllReduce;
    header.sequence = 1;
    Stranger rude(address);
    rude.Send(FrameOf(header, std::vector<uint8_t>(4)));
    rude.Receive();
    EXPECT_TRUE(rude.closed());

    // All that a worker of this job would say: its place is taken.
    const Identity identity = IdentityOf(addresses, 2);
    header = FrameHeader();
    header.type = FrameType::kHello;
    header.destination = static_cast<uint16_t>(&address - addresses.data());
    Stranger twin(address);
    twin.Send(FrameOf(header, EncodeIdentity(identity)));
    EXPECT_TRUE(Contains(twin.Receive(), "same index"));
    EXPECT_TRUE(twin.closed());

    // A hello cut short, and one that never comes.
    Stranger slow(address);
    slow.Send(FrameOf(header, EncodeIdentity(identity)).substr(0, 60));
    Stranger silent(address);
    silent.Receive();
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

TEST(StrangersTest, Strangers_SilentConnections_DoNotKeepAJobFromForming) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::thread zero([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
    ExpectSums(ring.get(), 1000);
  });
  // Silent connections, more than rank 0 holds half open.
  EXPECT_TRUE(AwaitListener(addresses[0]));
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

// Another program has the name, in Linux's abstract space, of rank 0's local
// socket. `answer` says what it does with connections.
class Squatter {
 public:
  enum Behavior {
    kNeverAccepts,
    kNeverAnswers,
    kCloses,
    kSaysGarbage,
    kSaysHello,
    kIsAnotherRank,
    kRefuses,
  };
  Squatter(const std::vector<std::string>& addresses, Behavior behavior)
      : addresses_(addresses), behavior_(behavior) {
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
    EXPECT_EQ(listen(fd_, behavior == kNeverAccepts ? 1 : 50), 0);
    if (behavior != kNeverAccepts) thread_ = std::thread([this] { Serve(); });
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
  // True if the first guest sent a byte before it closed, within half a minute.
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
      const std::string answer = Answer();
      if (!answer.empty()) send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (behavior_ == kCloses) {
        close(fd);
      } else {
        held_.push_back(fd);
      }
    }
  }
  std::string Answer() const {
    FrameHeader header;
    header.type = behavior_ == kRefuses     ? FrameType::kReject
                  : behavior_ == kSaysHello ? FrameType::kHello
                                            : FrameType::kWelcome;
    const Identity identity = IdentityOf(addresses_, 2);
    switch (behavior_) {
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
  const Behavior behavior_;
  int fd_;
  std::thread thread_;
  std::vector<int> held_;
  std::atomic<int> first_{-1};
  std::atomic<int> guests_{0};
};

TEST(SquatterTest, LocalSocket_TakenByASquatter_RingFormsAllTheSame) {
  for (const Squatter::Behavior behavior :
       {Squatter::kNeverAccepts, Squatter::kNeverAnswers, Squatter::kCloses,
        Squatter::kSaysGarbage, Squatter::kSaysHello, Squatter::kIsAnotherRank,
        Squatter::kRefuses}) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    Squatter squatter(addresses, behavior);
    std::thread zero([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
      ExpectSums(ring.get(), 30011);
    });
    std::unique_ptr<Collective> ring;
    RingOptions options = OptionsOf(addresses, 1);
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_TRUE(status.ok())
        << "behavior " << behavior << ": " << status.message();
    if (status.ok()) ExpectSums(ring.get(), 30011);
    zero.join();
    if (behavior != Squatter::kNeverAccepts) {
      EXPECT_GT(squatter.guests(), 0);
    }
  }
}

// A squatter of another user is told nothing, not even a hello.
TEST(SquatterTest, Squatter_OfAnotherUser_GetsNoByte) {
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
  const Identity identity = IdentityOf(addresses, 1);
  const std::string hello = FrameOf(header, EncodeIdentity(identity));
  send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);
  timeval limit = {30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char reply[64];
  const ssize_t got = recv(fd, reply, sizeof(reply), 0);
  const bool over = got == 0 || (got < 0 && errno == ECONNRESET);
  close(fd);
  return got > 0 ? std::string(reply, static_cast<size_t>(got))
         : over  ? ""
                 : "nothing for half a minute";
}

// Another user at the local socket is not accepted and gets no answer. A
// process of this user gets one, so the test would see it.
TEST(SquatterTest, Guest_OfAnotherUser_IsNotAnswered) {
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
        EXPECT_OK(status);
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
      EXPECT_OK(opened);
      if (opened.ok()) ExpectSums(ring.get(), 1000);
    }
    zero.join();
  }
}

// In a container with its own users the number 65534 stands for every user
// without a number there.
TEST(SquatterTest, LocalSocket_UserWithoutANumber_IsNotTrusted) {
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
  // In a namespace with a number for each user, 65534 is a user like others.
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

// Connects to rank 0 as another rank, up to the end of the start. Sends then
// the frames that a test names.
class ScriptedPeer {
 public:
  explicit ScriptedPeer(const std::vector<std::string>& addresses,
                        uint32_t timeout_ms = 5000, int window = 0,
                        int rank = 1)
      : socket_(addresses[0], window) {
    const Identity identity = IdentityOf(addresses, rank, timeout_ms);
    header_.type = FrameType::kHello;
    socket_.Send(FrameOf(header_, EncodeIdentity(identity)));
    header_.generation = 1;
    header_.source = static_cast<uint16_t>(rank);
    header_.type = FrameType::kBarrier;
    header_.sequence = 1;
    socket_.Send(FrameOf(header_, {}));
  }

  // Reports memory for operation 2, a broadcast from rank 0.
  void SendReady(uint64_t bytes) {
    FrameHeader header = header_;
    header.type = FrameType::kReady;
    header.sequence = 2;
    header.total = bytes;
    header.chunk = static_cast<uint32_t>(FrameType::kBroadcast);
    socket_.Send(FrameOf(header, {}));
  }
  // Reports that operation 1 is complete, and that it computes.
  void SendHeartbeat() {
    FrameHeader header = header_;
    std::vector<uint8_t> payload(kHeartbeatBytes);
    Activity activity;
    activity.sequence = 1;
    EncodeHeartbeat(activity, &header, payload.data());
    socket_.Send(FrameOf(header, payload));
  }
  // Reports that its ring has ended, since `rank` was lost.
  void SendLost(int rank) {
    FrameHeader header = header_;
    header.type = FrameType::kAbort;
    header.sequence = 0;
    const auto low = static_cast<uint8_t>(rank);
    socket_.Send(FrameOf(header, {static_cast<uint8_t>(Code::kPeerLost), 0, low,
                                  0, 0xff, 0xff}));
  }

  // Closes for writing and waits until the other side has read all and closed.
  void CloseAndAwaitEnd() {
    socket_.StopSending();
    socket_.Receive();
    EXPECT_TRUE(socket_.closed());
  }

  // Operation 2, an all-reduce of one float.
  void SendValue(float value, const std::function<void(FrameHeader*)>& change) {
    SwapToLittle(&value, sizeof(value), 1);
    std::vector<uint8_t> payload(sizeof(value));
    std::memcpy(payload.data(), &value, sizeof(value));
    FrameHeader header = header_;
    header.type = FrameType::kAllReduce;
    header.sequence = 2;
    header.total = sizeof(value);
    if (change) change(&header);
    socket_.Send(FrameOf(header, payload));
  }

 private:
  FrameHeader header_;
  Stranger socket_;
};

// Returns rank 0's result for the number 1.0. `run` is the script of rank 1.
Status SumWithScriptedPeer(const std::function<void(ScriptedPeer*)>& run,
                           float* sum) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::atomic<bool> done{false};
  std::thread scripted([&] {
    ScriptedPeer peer(addresses, 100000);
    run(&peer);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  Status status;
  {
    RingOptions options = OptionsOf(addresses, 0);
    options.timeout_seconds = 100;  // the peer sends no heartbeats
    std::unique_ptr<Collective> ring;
    status = RingCollective::Open(options, &ring);
    *sum = 1;
    if (status.ok()) status = ring->AllReduce(sum, 1);
    done = true;
  }
  scripted.join();
  return status;
}

TEST(PlayedPeerTest, Frames_OfAnotherGeneration_AreDropped) {
  float sum = 0;
  ASSERT_OK(SumWithScriptedPeer(
      [](ScriptedPeer* peer) {
        for (uint32_t other : {0u, 2u, 77u}) {
          peer->SendValue(5, [&](FrameHeader* h) { h->generation = other; });
        }
        peer->SendValue(41, nullptr);
      },
      &sum));
  EXPECT_EQ(sum, 42);
}

// Rank 1's ring forms and ends before rank 0's forms: the barrier that it has
// said is not one of the ring that both form next.
TEST(PlayedPeerTest, Frames_SentBeforeTheRingFormed_AreDropped) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::atomic<bool> done{false};
  std::thread scripted([&] {
    {
      ScriptedPeer one(addresses);
      one.SendLost(2);
      one.CloseAndAwaitEnd();
    }
    ScriptedPeer one(addresses), two(addresses, 5000, 0, 2);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  {
    std::unique_ptr<Collective> ring;
    EXPECT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
    done = true;
  }
  scripted.join();
}

TEST(PlayedPeerTest, Peer_BreaksTheProtocol_IsLost) {
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
    const Status status = SumWithScriptedPeer(
        [&](ScriptedPeer* peer) { peer->SendValue(1, breach); }, &sum);
    EXPECT_EQ(status.code(), Code::kPeerLost);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_TRUE(Contains(status, "protocol"));
  }
}

// The peer sends heartbeats, but reads nothing.
TEST(PlayedPeerTest, Peer_DoesNotRead_IsLost) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::atomic<bool> done{false};
  std::thread scripted([&] {
    ScriptedPeer peer(addresses, 3000, 4096);
    peer.SendReady(8000000);
    while (!done) {
      peer.SendHeartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  RingOptions options = OptionsOf(addresses, 0);
  options.timeout_seconds = 3;  // the peer sends 60 heartbeats in it
  {
    std::unique_ptr<Collective> ring;
    const Status opened = RingCollective::Open(options, &ring);
    EXPECT_OK(opened);
    if (opened.ok()) {
      std::vector<char> bytes(8000000);
      const Status status = ring->Broadcast(bytes.data(), bytes.size(), 0);
      EXPECT_EQ(status.code(), Code::kPeerLost);
      EXPECT_EQ(status.rank(), 1);
      const std::string message = status.message();
      EXPECT_TRUE(Contains(message, "stalled"));
      EXPECT_TRUE(Contains(message, "does not read"));
    }
  }
  done = true;
  scripted.join();
}

TEST(RingCollectiveTest, Open_PortInUse_NamesTheAddress) {
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
  EXPECT_TRUE(Contains(status, addresses[0]));
}

// Immediately, and not after the time for which workers wait for each other.
TEST(RingCollectiveTest, Open_TooFewDescriptors_ReportsHowManyItNeeds) {
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
  const std::string message = status.message();
  EXPECT_TRUE(Contains(message, "needs 17: 15 connections and 2 files"));
}

TEST(RingCollectiveTest, Open_AddressOfAnotherHost_IsRefused) {
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(
      OptionsOf({"192.0.2.1:4000", "127.0.0.1:4000"}, 0), &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, "no such address"));
}

TEST(RingCollectiveTest,
     Forming_EachListsItselfFirst_BothSayTheOtherIsRankZero) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  const auto open = [&](const std::vector<std::string>& own_first) {
    RingOptions options = OptionsOf(own_first, 0);
    options.start_timeout_seconds = 8;
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_TRUE(Contains(status, "both are worker 0"));
  };
  std::thread one([&] { open({addresses[1], addresses[0]}); });
  open(addresses);
  one.join();
}

TEST(RingCollectiveTest, Open_WrongOptions_IsRefused) {
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

TEST(RingCollectiveTest, AllReduce_OverIpv6AndByName_IsTheSum) {
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
    EXPECT_OK(status);
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

TEST(NamesTest, Lookup_NameOfSeveralAddresses_GivesAll) {
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
TEST(NamesTest, Open_NameOfSeveralAddresses_TriesEach) {
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

TEST(NamesTest, OwnAddress_LoopbackInAJobOfSeveralHosts_IsReported) {
  const KnownNamesOnly names({{"me.invalid", {"127.0.1.1"}},
                              {"good.invalid", {"127.0.1.1", "10.0.0.3"}},
                              {"twin.invalid", {"127.0.0.1"}},
                              {"far.invalid", {"192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  const Address me = {"me.invalid", 7000}, far = {"far.invalid", 7001};
  OwnAddresses own;
  const auto find = [&](const std::vector<Address>& hosts) {
    ASSERT_OK(FindOwnAddresses(hosts, 0, 20, &own));
  };
  route_finder = [](const sockaddr_storage& to, sockaddr_storage* from) {
    EXPECT_EQ(AddressText(to), "192.0.2.77:7001");
    *from = Numeric("192.0.2.5", 99);
    return true;
  };
  find({me, far});
  EXPECT_EQ(Texts(own.addresses),
            (std::vector<std::string>{"127.0.1.1:7000", "192.0.2.5:7000"}));
  for (const char* part :
       {"worker 0's own address me.invalid:7000 is 127.0.1.1:7000",
        "worker 1 (far.invalid:7001)", "listens on 192.0.2.5:7000 too",
        "/etc/hosts", "instead of 127.0.1.1,"}) {
    EXPECT_TRUE(Contains(own.warning, part));
  }
  // By number it is said, and not mended: it was asked for.
  find({{"127.0.0.1", 7000}, {"192.0.2.77", 7001}});
  EXPECT_EQ(Texts(own.addresses), std::vector<std::string>{"127.0.0.1:7000"});
  EXPECT_TRUE(Contains(own.warning, "worker 1 (192.0.2.77:7001)"));
  EXPECT_TRUE(own.complete);
  // All is well where a name has another address, or all are of one host.
  find({{"good.invalid", 7000}, far});
  EXPECT_EQ(own.addresses.size(), 2u);
  EXPECT_EQ(own.warning, "");
  find({me, {"me.invalid", 7001}, {"twin.invalid", 7002}});
  EXPECT_EQ(own.addresses.size(), 1u);
  EXPECT_EQ(own.warning, "");
  EXPECT_TRUE(own.complete);
  // A name without an answer may turn out to be of another host later.
  find({me, {"not-known.invalid", 7001}});
  EXPECT_EQ(own.warning, "");
  EXPECT_FALSE(own.complete);
  // Without a way there the cure alone.
  route_finder = [](const sockaddr_storage&, sockaddr_storage*) {
    return false;
  };
  find({me, far});
  EXPECT_EQ(own.addresses.size(), 1u);
  EXPECT_TRUE(Contains(own.warning, "/etc/hosts"));
  EXPECT_FALSE(own.complete);
}

// This host has no route to the first address of the other.
TEST(NamesTest, OwnAddress_RouteToTheSecondAddressAlone_IsFound) {
  const KnownNamesOnly names({{"me.invalid", {"127.0.1.1"}},
                              {"far.invalid", {"2001:db8::7", "192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  route_finder = [](const sockaddr_storage& to, sockaddr_storage* from) {
    *from = Numeric("192.0.2.5", 99);
    return to.ss_family == AF_INET;
  };
  OwnAddresses own;
  ASSERT_OK(FindOwnAddresses({{"me.invalid", 7000}, {"far.invalid", 7001}}, 0,
                             20, &own));
  EXPECT_EQ(Texts(own.addresses),
            (std::vector<std::string>{"127.0.1.1:7000", "192.0.2.5:7000"}));
  EXPECT_TRUE(own.complete);
}

TEST(NamesTest, Open_OwnNameIsALoopback_ListensOnTheRouteToo) {
  const KnownNamesOnly names(
      {{"me.invalid", {"127.0.1.1"}}, {"far.invalid", {"192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  route_finder = [](const sockaddr_storage&, sockaddr_storage* from) {
    *from = Numeric("127.0.0.1", 99);
    return true;
  };
  const std::vector<int> ports = FreePorts(2);
  const std::string mine = std::to_string(ports[0]);
  const std::vector<std::string> list = {
      "me.invalid:" + mine, "far.invalid:" + std::to_string(ports[1])};
  testing::internal::CaptureStderr();
  std::thread zero([&] {
    const RingOptions options = OptionsOf(list, 0);
    std::unique_ptr<Collective> ring;
    EXPECT_EQ(RingCollective::Open(options, &ring).code(),
              Code::kInvalidArgument);
  });
  EXPECT_TRUE(AwaitListener("127.0.0.1:" + mine));
  Withdrawal::Begin(OptionsOf(list, 1), InvalidArgument("that was all"))
      .reset();
  zero.join();
  EXPECT_TRUE(Contains(testing::internal::GetCapturedStderr(),
                       "warning: worker 0's own address me.invalid:"));
}

// A route to the other hosts that exists from the third question on.
std::atomic<int> route_questions{0};

TEST(NamesTest, Listening_RouteComesLater_ListensThereToo) {
  const KnownNamesOnly names(
      {{"me.invalid", {"127.0.1.1"}}, {"far.invalid", {"192.0.2.77"}}});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  route_questions = 0;
  route_finder = [](const sockaddr_storage&, sockaddr_storage* from) {
    *from = Numeric("127.0.0.1", 99);
    return ++route_questions > 2;
  };
  const std::vector<int> ports = FreePorts(2);
  const std::string mine = std::to_string(ports[0]);
  std::atomic<bool> done{false};
  std::thread zero([&] {
    RingOptions options = OptionsOf(
        {"me.invalid:" + mine, "far.invalid:" + std::to_string(ports[1])}, 0);
    options.start_timeout_seconds = 6;
    std::unique_ptr<Collective> ring;
    EXPECT_EQ(RingCollective::Open(options, &ring).code(),
              Code::kDeadlineExceeded);
    done = true;
  });
  bool listens = false;
  while (!done && !listens) listens = Listens("127.0.0.1:" + mine);
  zero.join();
  EXPECT_TRUE(listens);
  EXPECT_EQ(route_questions, 3) << "it went on to ask";
}

// The resolver's answer to any name ("": none), and the number of its answers.
std::mutex answer_mutex;
std::string the_answer;
int answers_given = 0;

int OneAnswer(const char*, const char* service, const addrinfo* hints,
              addrinfo** list) {
  const std::lock_guard<std::mutex> lock(answer_mutex);
  ++answers_given;
  if (the_answer.empty()) return EAI_AGAIN;
  return getaddrinfo(the_answer.c_str(), service, hints, list);
}

void Answer(const std::string& answer) {
  const std::lock_guard<std::mutex> lock(answer_mutex);
  the_answer = answer;
  answers_given = 0;
}

int AnswersGiven() {
  const std::lock_guard<std::mutex> lock(answer_mutex);
  return answers_given;
}

// Rank 0 forms its ring again while it cannot listen: its own name does not
// resolve, is of another host, or has a port that another process uses.
class ReformTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(OwnAddress, ReformTest,
                         testing::Values("", "192.0.2.1", "127.0.0.3"));

TEST_P(ReformTest, Reform_OwnAddressIsUnusable_WaitsForIt) {
  const KnownNamesOnly names({});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = OneAnswer;
  Answer("127.0.0.1");
  const std::vector<int> ports = FreePorts(2);
  const std::vector<std::string> addresses = {
      "me.invalid:" + std::to_string(ports[0]),
      "127.0.0.1:" + std::to_string(ports[1])};
  const auto one = [&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 1), &ring));
    ExpectSums(ring.get(), 1000);
  };
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_storage taken = Numeric("127.0.0.3", ports[0]);
  ASSERT_EQ(
      bind(other, reinterpret_cast<sockaddr*>(&taken), sizeof(sockaddr_in)), 0);
  ASSERT_EQ(listen(other, 1), 0);
  std::thread first(one);
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 0), &ring));
  ExpectSums(ring.get(), 1000);
  first.join();
  EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
  Answer(GetParam());
  std::atomic<bool> done{false};
  std::thread zero([&] {
    const Status again = ring->Reform();
    done = true;
    ASSERT_OK(again);
    ExpectSums(ring.get(), 1000);
  });
  while (!done && AnswersGiven() < 2) std::this_thread::yield();
  Answer("127.0.0.1");
  if (!done) one();
  zero.join();
  close(other);
}

TEST(NamesTest, Open_ElasticRingWithoutItsAddress_WaitsForIt) {
  const KnownNamesOnly names({});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = OneAnswer;
  Answer("192.0.2.1");
  const std::vector<int> ports = FreePorts(2);
  const std::vector<std::string> addresses = {
      "me.invalid:" + std::to_string(ports[0]),
      "127.0.0.1:" + std::to_string(ports[1])};
  const auto open = [&](int rank) {
    RingOptions options = OptionsOf(addresses, rank);
    options.min_workers = 2;
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    ExpectSums(ring.get(), 1000);
  };
  std::atomic<bool> done{false};
  std::thread zero([&] {
    open(0);
    done = true;
  });
  while (!done && AnswersGiven() < 2) std::this_thread::yield();
  Answer("127.0.0.1");
  if (!done) open(1);
  zero.join();
}

TEST(NamesTest, Reform_OwnAddressStaysUnusable_FailsAtDeadline) {
  const KnownNamesOnly names({});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = OneAnswer;
  Answer("127.0.0.1");
  const std::vector<int> ports = FreePorts(2);
  const std::vector<std::string> addresses = {
      "me.invalid:" + std::to_string(ports[0]),
      "127.0.0.1:" + std::to_string(ports[1])};
  std::thread one([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(OptionsOf(addresses, 1), &ring));
    ExpectSums(ring.get(), 1000);
  });
  RingOptions options = OptionsOf(addresses, 0);
  options.start_timeout_seconds = 2;
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(options, &ring));
  ExpectSums(ring.get(), 1000);
  one.join();
  EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
  Answer("192.0.2.1");
  const Status status = ring->Reform();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Contains(status, "no such address"));
  Answer("127.0.0.1");
}

// Rank 1 of 3 is restarted often, and the others form their ring again each
// time: after each loss all name the ring.
TEST(RingCollectiveTest, Reform_AfterEachLoss_HasANewGeneration) {
  const std::vector<std::string> addresses = FreeAddresses(3);
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
      EXPECT_TRUE(
          Contains(lost, "generation " + std::to_string(generation) + ","));
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

// The number of descriptors and threads, which a failed Reform might leave
// open.
int Held() {
  int held = 0;
  for (const char* folder : {"/proc/self/fd", "/proc/self/task"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      held += !entry.path().empty();
    }
  }
  return held;
}

TEST(RingCollectiveTest, Reform_FailedBefore_MayBeCalledAgain) {
  const char* const build = std::getenv("RINGLET_BUILD");
  const bool emulated =
      build != nullptr && std::strstr(build, "/emulated") != nullptr;
  const std::vector<std::string> addresses = FreeAddresses(2);
  for (int survivor = 0; survivor < 2; ++survivor) {
    const int other = 1 - survivor;
    const int held = Held();
    std::thread first([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(OptionsOf(addresses, other), &ring));
      ExpectSums(ring.get(), 1000);
    });
    RingOptions options = OptionsOf(addresses, survivor);
    options.start_timeout_seconds = 4;  // enough for two running workers
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    ExpectSums(ring.get(), 1000);
    EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
    first.join();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ring->Reform().code(), Code::kDeadlineExceeded);
      EXPECT_FALSE(Listens(addresses[static_cast<size_t>(survivor)]));
      // The first time libuv takes some permanently; an emulator has its own.
      if (survivor > 0 && !emulated) {
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
    EXPECT_OK(formed);
    if (formed.ok()) ExpectSums(ring.get(), 1000);
    second.join();
  }
}

// Two of three leave, the second while the others form the ring again; both
// come back.
TEST(RingCollectiveTest, Reform_SecondLossMeanwhile_IsSurvived) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const std::vector<std::string> addresses = FreeAddresses(3);
    const int survivor = static_cast<int>(random() % 3);
    const int first = (survivor + 1) % 3;
    const int second = (survivor + 2) % 3;
    // The number of other ranks that must have noticed a loss, or must be
    // forming the ring again, before a rank goes on. `stays`: the seconds that
    // the second rank stays.
    const int noticed = static_cast<int>(random() % 3);
    const int on_their_way = static_cast<int>(random() % 3);
    const double stays = static_cast<double>(random() % 20000) / 1e6;
    std::atomic<int> lost{0}, back{0};
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
    ThreadBarrier formed, ended;
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(survivor, &ring));
      formed.Wait(3);
      EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
      ++lost, ++back;
      ASSERT_OK(go_on(survivor, &ring));
      ended.Wait(3);
    });
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(first, &ring));
      formed.Wait(3);
      ring.reset();
      EXPECT_TRUE(Eventually([&] { return lost >= noticed; }));
      ++back;
      ASSERT_OK(go_on(first, &ring));
      ended.Wait(3);
    });
    threads.emplace_back([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(go_on(second, &ring));
      formed.Wait(3);
      EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
      ++lost;
      RingOptions options = OptionsOf(addresses, second);
      // The rank leaves while it forms the ring, or just afterwards.
      options.start_timeout_seconds = stays;
      ring.reset();
      RingCollective::Open(options, &ring).IgnoreError();
      ring.reset();
      EXPECT_TRUE(Eventually([&] { return back >= on_their_way; }));
      ASSERT_OK(go_on(second, &ring));
      ended.Wait(3);
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
  while (!give_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --lookups;
  return EAI_AGAIN;
}

TEST(RingCollectiveTest, Resolver_Slow_DelaysNoOtherRank) {
  const NameLookup::Resolver system = NameLookup::resolver;
  if (system == nullptr) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = SlowResolver;
  give_up = false;
  const std::string port = FreeAddresses(1)[0].substr(9);
  for (const bool own : {true, false}) {
    RingOptions options;
    options.insecure = true;
    options.addresses = {"nobody.invalid" + port, "127.0.0.1" + port};
    options.worker = own ? 0 : 1;
    options.start_timeout_seconds = 0.3;
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_TRUE(Contains(status, "nobody.invalid"));
    // The lookup still runs, and no call has waited for it.
    EXPECT_TRUE(Eventually([&] { return lookups == (own ? 1 : 2); }));
  }
  NameLookup::resolver = system;
  give_up = true;
  while (lookups > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(RingCollectiveTest, Lookup_UnknownName_IsNamed) {
  const NameLookup::Resolver system = NameLookup::resolver;
  if (system == nullptr) {  // a static program: immediately
    RingOptions options;
    options.addresses = {"127.0.0.1:7000", "nobody.invalid:7000"};
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "nobody.invalid"));
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
  EXPECT_TRUE(Contains(status, "nobody.invalid"));
}

TEST(RingCollectiveTest, Destructor_OperationsInFlight_IsAllowed) {
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

TEST(RingCollectiveTest, Calls_AfterAFailure_AllFail) {
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

TEST(RingCollectiveTest, AllReduce_SecondRun_HasTheSameBits) {
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
