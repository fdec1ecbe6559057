// A relay, workers that reach each other by it alone, and strangers.

#include "net/relay/relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/relay/relay_desk.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"
#include "visitor.h"

namespace ringlet {
namespace {

TEST(RelayDeskTest, JoinsThoseOfAChannelAndOppositeRoles) {
  RelayDesk desk;
  char people[6];
  EXPECT_EQ(desk.Comes(&people[0], HelloOf(kListens, 1)).other, nullptr);
  EXPECT_EQ(desk.Comes(&people[1], HelloOf(kDials, 2)).other, nullptr);
  // The newer one waits in the older one's place.
  const RelayDesk::Met newer = desk.Comes(&people[2], HelloOf(kListens, 1));
  EXPECT_EQ(newer.other, nullptr);
  EXPECT_EQ(newer.displaced, &people[0]);
  desk.Goes(&people[0]);  // it has no place any more
  EXPECT_EQ(desk.waiting(), 2u);
  EXPECT_EQ(desk.Comes(&people[3], HelloOf(kDials, 1)).other, &people[2]);
  EXPECT_EQ(desk.waiting(), 1u);
  desk.Goes(&people[1]);
  EXPECT_EQ(desk.Comes(&people[4], HelloOf(kListens, 2)).other, nullptr);
  EXPECT_EQ(desk.Comes(&people[5], HelloOf(kDials, 2)).other, &people[4]);
  EXPECT_EQ(desk.waiting(), 0u);
}

TEST(RelayHelloTest, OnlyWhatWorkersSayIsOne) {
  uint8_t bytes[kRelayHelloBytes];
  EncodeRelayHello(HelloOf(kDials, 7), bytes);
  RelayHello hello;
  ASSERT_TRUE(DecodeRelayHello(bytes, &hello));
  EXPECT_EQ(hello.role, kDials);
  EXPECT_EQ(hello.channel[15], 7);
  for (size_t i = 0; i <= 8; ++i) {
    bytes[i] ^= 0x40;
    EXPECT_FALSE(DecodeRelayHello(bytes, &hello)) << i;
    bytes[i] ^= 0x40;
  }
}

TEST(RelayTest, MovesWhatEitherSays) {
  Served served;
  Visitor a(served.port), b(served.port), other(served.port);
  other.Say(kDials, 2);
  a.Say(kListens, 1);
  b.Say(kDials, 1);
  EXPECT_EQ(a.Hear(1), kJoined);
  EXPECT_EQ(b.Hear(1), kJoined);
  std::string text;
  for (int i = 0; i < 300000; ++i) text += static_cast<char>(i * 7 % 251);
  std::thread says([&] { a.Say(text); });
  EXPECT_EQ(b.Hear(text.size()), text);
  says.join();
  b.Say("and back");
  EXPECT_EQ(a.Hear(8), "and back");
  // What was said before an end is heard.
  a.Say("the last");
  a.EndsSaying();
  EXPECT_EQ(b.Hear(100), "the last");
  b.Say("bye");
  b.EndsSaying();
  EXPECT_EQ(a.Hear(100), "bye");
  EXPECT_TRUE(other.hears_nothing());
}

TEST(RelayTest, OneWhoDoesNotReadHoldsTheOtherUp) {
  Served served;
  Visitor a(served.port), b(served.port);
  a.Say(kListens, 1);
  b.Say(kDials, 1);
  EXPECT_EQ(a.Hear(1), kJoined);
  EXPECT_EQ(b.Hear(1), kJoined);
  const size_t poured = a.Pour();
  // The kernel's buffers, and one of the relay's.
  EXPECT_LT(poured, size_t{64} << 20);
  EXPECT_EQ(b.Hear(poured).size(), poured);
}

TEST(RelayTest, StrangersAreLetGo) {
  RelayOptions options;
  options.hello_seconds = 0.3;
  options.dial_seconds = 0.3;
  options.linger_seconds = 0.3;
  options.connections = 4;
  Served served(options);
  {
    Visitor http(served.port), early(served.port);
    http.Say("GET / HTTP/1.1\r\nHost: relay\r\n\r\n");
    EXPECT_EQ(http.Hear(1), "");
    early.Say(kListens, 1);
    early.Say("too soon");
    EXPECT_EQ(early.Hear(1), "");
    Visitor silent(served.port);
    EXPECT_EQ(silent.Hear(1), "");
  }
  Visitor dials(served.port);
  dials.Say(kDials, 3);
  EXPECT_EQ(dials.Hear(1), "");
  // One that listens may wait; its end, or that of the other, is theirs both.
  Visitor waits(served.port);
  waits.Say(kListens, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_TRUE(waits.hears_nothing());
  Visitor comes(served.port);
  comes.Say(kDials, 4);
  EXPECT_EQ(waits.Hear(1) + comes.Hear(1), kJoined + kJoined);
  comes.EndsSaying();  // and does no more
  EXPECT_EQ(waits.Hear(1), "");
  EXPECT_EQ(comes.Hear(1), "");
}

TEST(RelayTest, TakesNoMoreThanItIsTo) {
  RelayOptions options;
  options.connections = 2;
  Served served(options);
  Visitor a(served.port), b(served.port);
  a.Say(kListens, 1);
  b.Say(kListens, 2);
  usleep(100000);
  Visitor third(served.port);
  EXPECT_EQ(third.Hear(1), "");
  EXPECT_TRUE(a.hears_nothing());
}

// --- rings ------------------------------------------------------------------

void ExpectSum(Collective* ring) {
  std::vector<float> v(70001, static_cast<float>(ring->rank() + 1));
  const Status status = ring->AllReduce(v.data(), v.size());
  EXPECT_TRUE(status.ok()) << status.message();
  const int n = ring->size();
  EXPECT_EQ(v[0], static_cast<float>(n * (n + 1) / 2));
  EXPECT_EQ(v[70000], v[0]);
}

TEST(RelayRingTest, WorkersMeetByItAloneAndAnother) {
  auto served = std::make_unique<Served>();
  const int port = served->port;
  std::vector<std::unique_ptr<RingCollective>> rings(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      const Status status = RingCollective::Open(RingOf(4, r, port), &rings[r]);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int i = 0; i < 20; ++i) ExpectSum(rings[r].get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  // Its end is a loss that names it.
  std::atomic<int> lost{0};
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      std::vector<float> v(1000);
      Status status;
      while (status.ok()) status = rings[r]->AllReduce(v.data(), v.size());
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      if (std::string(status.message()).find("by the relay at 127.0.0.1") !=
          std::string::npos) {
        ++lost;
      }
    });
  }
  usleep(100000);
  served.reset();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(lost, 4);
  // Where it is back they go on.
  RelayOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  std::unique_ptr<Relay> relay;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      const Status status = rings[r]->Reform();
      ASSERT_TRUE(status.ok()) << status.message();
      ExpectSum(rings[r].get());
    });
  }
  usleep(300000);
  const Status again = Relay::Start(options, &relay);
  EXPECT_TRUE(again.ok()) << again.message();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] { rings[r].reset(); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two jobs of other keys, and of a key that is about to change, by one relay.
TEST(RelayRingTest, JobsAndKeysDoNotMix) {
  Served served;
  std::vector<std::thread> threads;
  for (int job = 0; job < 2; ++job) {
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, job, r] {
        RingOptions options = RingOf(2, r, served.port);
        if (job == 1) options.keys = r == 0 ? Keys({9, 8}) : Keys({8, 9});
        std::unique_ptr<RingCollective> ring;
        const Status status = RingCollective::Open(options, &ring);
        ASSERT_TRUE(status.ok()) << status.message();
        float sum = job == 0 ? 1.0f : 10.0f;
        EXPECT_TRUE(ring->AllReduce(&sum, 1).ok());
        EXPECT_EQ(sum, job == 0 ? 2.0f : 20.0f);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

// Two that have the same key and list, and names of their own: one that comes
// takes nobody's place.
TEST(RelayRingTest, JobsOfOneKeyAndListDoNotMix) {
  Served served;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<RingCollective>> rings(4);
  const auto open = [&](int job, int r) {
    threads.emplace_back([&, job, r] {
      RingOptions options = RingOf(2, r, served.port);
      options.job = job == 0 ? "first" : "second";
      const Status status = RingCollective::Open(options, &rings[2 * job + r]);
      ASSERT_TRUE(status.ok()) << status.message();
    });
  };
  testing::internal::CaptureStderr();
  for (const int job : {0, 1}) {
    open(job, 0);
    usleep(300000);
  }
  for (const int job : {0, 1}) open(job, 1);
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  usleep(1500000);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("another took this worker's place"), std::string::npos)
      << said;
  EXPECT_EQ(said.find("refused"), std::string::npos) << said;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      ExpectSum(rings[i].get());
      rings[i].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RelayRingTest, AWorkerThatEndsIsLostAtOnce) {
  Served served;
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<RingCollective> ring;
      const Status status =
          RingCollective::Open(RingOf(3, r, served.port), &ring);
      ASSERT_TRUE(status.ok()) << status.message();
      ExpectSum(ring.get());
      if (r == 1) return;
      std::vector<float> v(1000);
      const Status lost = ring->AllReduce(v.data(), v.size());
      EXPECT_EQ(lost.code(), Code::kPeerLost) << lost.message();
      EXPECT_EQ(lost.rank(), 1) << lost.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of an elastic job any two are linked, also of a list of more than 16.
TEST(RelayRingTest, AnyTwoOfALongListMeet) {
  Served served;
  std::vector<std::thread> threads;
  for (const int r : {0, 3}) {
    threads.emplace_back([&, r] {
      RingOptions options = RingOf(17, r, served.port);
      options.min_workers = 2;
      options.start_timeout_seconds = 3;
      std::unique_ptr<RingCollective> ring;
      const Status status = RingCollective::Open(options, &ring);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(ring->size(), 2);
      ExpectSum(ring.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// So any hears of one that cannot take part.
TEST(RelayRingTest, AnyOfALongListHearsOfAWithdrawal) {
  Served served;
  RingOptions options = RingOf(17, 3, served.port);
  options.min_workers = 1;
  options.start_timeout_seconds = 4;
  std::unique_ptr<Withdrawal> withdrawal = Withdrawal::Begin(
      RingOf(17, 0, served.port), InvalidArgument("it has no data"));
  std::unique_ptr<RingCollective> ring;
  const Status status = RingCollective::Open(options, &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_NE(std::string(status.message()).find("it has no data"),
            std::string::npos)
      << status.message();
}

TEST(RelayRingTest, WhatCannotWorkIsRefused) {
  std::unique_ptr<RingCollective> ring;
  RingOptions options = RingOf(2, 0, 7000);
  options.keys = nullptr;
  options.insecure = true;
  const Status plain = RingCollective::Open(options, &ring);
  EXPECT_EQ(plain.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(plain.message()).find("has no key"), std::string::npos);
  options = RingOf(2, 0, 7000);
  options.relay = "relay";
  EXPECT_NE(std::string(RingCollective::Open(options, &ring).message())
                .find("has no port"),
            std::string::npos);
  options = RingOf(2, 1, FreePorts(1)[0]);
  options.start_timeout_seconds = 1;
  const Status nobody = RingCollective::Open(options, &ring);
  EXPECT_EQ(nobody.code(), Code::kDeadlineExceeded);
  EXPECT_NE(std::string(nobody.message()).find("by the relay at 127.0.0.1"),
            std::string::npos)
      << nobody.message();
}

}  // namespace
}  // namespace ringlet
