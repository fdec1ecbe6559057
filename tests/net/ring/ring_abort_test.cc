// An Abort of one rank ends the calls of all ranks.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "net/ring/ring_collective.h"
#include "ringlet/status.h"
#include "thread_ring.h"

namespace ringlet {
namespace {

// Expects that the reason of rank `failing` reaches all ranks, in any call.
void ExpectAbortReaches(int size, int failing, const Status& reason,
                        const std::function<Status(Collective*)>& others,
                        const std::function<void(Collective*)>& before,
                        const std::function<void(RingOptions*)>& change) {
  // By worker: the failing worker's address in its list.
  std::vector<std::string> address(static_cast<size_t>(size));
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
        options->timeout_seconds = 20;  // no test waits so long
        address[static_cast<size_t>(options->worker)] =
            options->addresses[static_cast<size_t>(failing)];
        if (change) change(options);
      });
}

// *begun counts the sums that the ranks have started.
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

}  // namespace
}  // namespace ringlet
