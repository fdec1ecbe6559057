#include "net/ring_collective.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "free_ports.h"

namespace ringlet {
namespace {

using Ranks = std::function<void(Collective*)>;

RingOptions OptionsOf(const std::vector<std::string>& addresses, int rank) {
  RingOptions options;
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

void ExpectSums(Collective* ring, size_t n) {
  std::vector<float> v = Mine(ring->rank(), n);
  ASSERT_OK(ring->AllReduce(v.data(), n));
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int r = 0; r < ring->size(); ++r) sum += Value(r, i);
    ASSERT_NEAR(v[i], sum, 1e-5 * sum) << i << " of " << n;
  }
  // The same bits everywhere.
  std::vector<float> all(n * ring->size());
  ASSERT_OK(ring->AllGather(v.data(), n * sizeof(float), all.data()));
  for (int r = 0; r < ring->size(); ++r) {
    ASSERT_TRUE(n == 0 ||
                std::memcmp(&all[r * n], v.data(), n * sizeof(float)) == 0);
  }
}

constexpr size_t kLengths[] = {0,    1,     2,     3,      5,     7,
                               1009, 2048,  2049,  16384,  16385, 49999,
                               1000, 65537, 99991, 300007, 64,    1000003};

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

}  // namespace
}  // namespace ringlet
