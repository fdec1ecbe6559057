// Rings that form again after the loss of a rank.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "net/ring/ring_collective.h"
#include "ringlet/status.h"
#include "thread_ring.h"

namespace ringlet {
namespace {

// Rank 1 of 3 is restarted often, and the other ranks form their ring again
// each time: after each loss all name the ring.
TEST(RingCollectiveTest, Reform_AfterEachLoss_HasANewGeneration) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  constexpr int kRings = 4;
  const auto survive = [&](int rank) {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, rank), &ring));
    for (int generation = 1; generation <= kRings; ++generation) {
      if (generation > 1) {
        ASSERT_OK(ring->Reform());
      }
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
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 1), &ring));
    ExpectSums(ring.get(), 3000);
  }
  zero.join();
  two.join();
}

// The number of descriptors and threads, which a failed Reform might leave
// open.
int OpenDescriptorsAndThreads() {
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
    const int held = OpenDescriptorsAndThreads();
    std::thread first([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(MakeOptions(addresses, other), &ring));
      ExpectSums(ring.get(), 1000);
    });
    RingOptions options = MakeOptions(addresses, survivor);
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
        EXPECT_LE(OpenDescriptorsAndThreads(), held);
      }
      // The ring does not continue with one rank.
      EXPECT_EQ(ring->Barrier().code(), Code::kDeadlineExceeded);
      float value = 1;
      EXPECT_EQ(ring->AllReduce(&value, 1).code(), Code::kDeadlineExceeded);
      ring->Abort(Corruption("nobody hears this"));
    }
    std::thread second([&] {
      std::unique_ptr<Collective> again;
      ASSERT_OK(RingCollective::Open(MakeOptions(addresses, other), &again));
      ExpectSums(again.get(), 1000);
    });
    const Status formed = ring->Reform();
    EXPECT_OK(formed);
    if (formed.ok()) ExpectSums(ring.get(), 1000);
    second.join();
  }
}

// Two of three ranks leave, and come back:
//
//   time | event                               | expected
//   1    | all open the ring                   | the sum of three
//   2    | the first leaver closes it          |
//   3    | the other two call Barrier          | kPeerLost
//   4    | the survivor calls Reform           |
//   5    | the second leaver closes its ring,  |
//        | opens another, and leaves while the |
//        | ring forms, or just afterwards      |
//   6    | the leavers open the ring again     | the sum of three
//
// The leavers return at any time after their loss.
class TwoLossesScene {
 public:
  struct Times {
    // The first leaver returns when this number of others have noticed its
    // loss.
    int first_returns_after;
    // The second leaver returns when this number of others form the ring again.
    int second_returns_after;
    // The second leaver takes part in the forming ring for so long.
    double second_stays_seconds;
  };

  TwoLossesScene(int survivor, const Times& times)
      : times_(times),
        survivor_(survivor),
        first_((survivor + 1) % 3),
        second_((survivor + 2) % 3) {}

  void Run() {
    std::thread survivor([this] { RunSurvivor(); });
    std::thread first([this] { RunFirstLeaver(); });
    std::thread second([this] { RunSecondLeaver(); });
    survivor.join();
    first.join();
    second.join();
  }

 private:
  void RunSurvivor() {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(SumInRing(survivor_, &ring));
    formed_.Wait(3);
    EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
    ++noticed_, ++forming_;
    ASSERT_OK(SumInRing(survivor_, &ring));
    ended_.Wait(3);
  }
  void RunFirstLeaver() {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(SumInRing(first_, &ring));
    formed_.Wait(3);
    ring.reset();
    EXPECT_TRUE(
        Eventually([this] { return noticed_ >= times_.first_returns_after; }));
    ++forming_;
    ASSERT_OK(SumInRing(first_, &ring));
    ended_.Wait(3);
  }
  void RunSecondLeaver() {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(SumInRing(second_, &ring));
    formed_.Wait(3);
    EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
    ++noticed_;
    ring.reset();
    RingOptions options = MakeOptions(addresses_, second_);
    options.start_timeout_seconds = times_.second_stays_seconds;
    RingCollective::Open(options, &ring).IgnoreError();
    ring.reset();
    EXPECT_TRUE(
        Eventually([this] { return forming_ >= times_.second_returns_after; }));
    ASSERT_OK(SumInRing(second_, &ring));
    ended_.Wait(3);
  }

  // Opens or forms the ring as often as it takes, until a sum is complete.
  Status SumInRing(int rank, std::unique_ptr<Collective>* ring) {
    Status status = Error(Code::kPeerLost, "none yet");
    while (status.code() == Code::kPeerLost) {
      status = *ring == nullptr
                   ? RingCollective::Open(MakeOptions(addresses_, rank), ring)
                   : (*ring)->Reform();
      float value = 1;
      if (status.ok()) status = (*ring)->AllReduce(&value, 1);
      if (status.ok()) {
        EXPECT_EQ(value, 3);
      }
    }
    return status;
  }

  const std::vector<std::string> addresses_ = FreeAddresses(3);
  const Times times_;
  const int survivor_, first_, second_;  // ranks
  std::atomic<int> noticed_{0}, forming_{0};
  ThreadBarrier formed_, ended_;
};

TEST(RingCollectiveTest, Reform_SecondLossMeanwhile_IsSurvived) {
  for (unsigned seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int survivor = static_cast<int>(random() % 3);
    TwoLossesScene::Times times;
    times.first_returns_after = static_cast<int>(random() % 3);
    times.second_returns_after = static_cast<int>(random() % 3);
    times.second_stays_seconds = static_cast<double>(random() % 20000) / 1e6;
    TwoLossesScene(survivor, times).Run();
  }
}

}  // namespace
}  // namespace ringlet
