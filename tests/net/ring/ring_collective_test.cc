#include "net/ring/ring_collective.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../support/captured_output.h"
#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "core/base/ieee_arithmetic.h"
#include "core/base/open_line.h"
#include "net/transport/name_lookup.h"
#include "ringlet/status.h"
#include "thread_ring.h"

namespace ringlet {
namespace {

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
        std::string received =
            ring->rank() == root ? sent : std::string(bytes, 0);
        ASSERT_OK(ring->Broadcast(received.data(), bytes, root));
        ASSERT_EQ(received, sent);
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

// A waiting worker reports the wait on a line of its own, also if a progress
// bar is open.
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
        // Rank 1 computes until patience_seconds have passed for both others.
        // Their frames for this barrier have arrived by then, so rank 1 may
        // complete it before it gets their abort. It cannot complete the next
        // barrier.
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
        options->patience_seconds = 3;  // every rank begins its sums sooner
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
    const std::string size_text = " of " + std::to_string(4 * n) + " bytes";
    ExpectBothNamed(
        RunDifferent(GetParam(), AllReduceOf(n),
                     [n](Collective* ring) {
                       std::vector<int32_t> v(n);
                       Collective::Ticket ticket = 0;
                       RINGLET_RETURN_IF_ERROR(
                           ring->StartAllReduceInts(v.data(), n, &ticket));
                       return ring->Wait(ticket);
                     }),
        "an all-reduce" + size_text, "an all-reduce of integers" + size_text);
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
  const Status status = RingCollective::Open(MakeOptions(addresses, 0), &ring);
  close(fd);
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_TRUE(Contains(status, addresses[0]));
}

// Immediately, and not after the time for which workers wait for each other.
TEST(RingCollectiveTest, Open_TooFewDescriptors_ReportsHowManyItNeeds) {
  const std::vector<std::string> addresses = FreeAddresses(16);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);  // the lowest descriptor that is not open
  close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(MakeOptions(addresses, 3), &ring);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  const std::string message = status.message();
  EXPECT_TRUE(Contains(message, "needs 17: 15 connections and 2 files"));
}

TEST(RingCollectiveTest, Open_AddressOfAnotherHost_IsRefused) {
  std::unique_ptr<Collective> ring;
  const Status status = RingCollective::Open(
      MakeOptions({"192.0.2.1:4000", "127.0.0.1:4000"}, 0), &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, "no such address"));
}

TEST(RingCollectiveTest,
     Forming_EachListsItselfFirst_BothSayTheOtherIsRankZero) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  const auto open = [&](const std::vector<std::string>& own_first) {
    RingOptions options = MakeOptions(own_first, 0);
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
    RingOptions options = MakeOptions(addresses, rank);
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
      ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 1), &ring));
      ExpectSums(ring.get(), 30011);
    });
    std::unique_ptr<Collective> ring;
    const Status status =
        RingCollective::Open(MakeOptions(addresses, 0), &ring);
    EXPECT_OK(status);
    if (status.ok()) ExpectSums(ring.get(), 30011);
    other.join();
  }
  NameLookup::resolver = system;
}

TEST(RingCollectiveTest, Destructor_OperationsInFlight_IsAllowed) {
  // CollectiveSchedule in flight use the memory until their ring is destroyed.
  std::vector<std::vector<float>> spans(3, std::vector<float>(500000));
  RunRing(3, [&](Collective* ring) {
    std::vector<float>& v = spans[static_cast<size_t>(ring->rank())];
    ASSERT_OK(ring->Barrier());  // none leaves while others arrive
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
