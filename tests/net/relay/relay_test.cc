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

#include "../../support/captured_output.h"
#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/threads.h"
#include "net/relay/rendezvous_table.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"
#include "relay_client.h"

namespace ringlet {
namespace {

TEST(RendezvousTableTest, Arrive_SameChannelAndOppositeRole_IsJoined) {
  RendezvousTable table;
  char people[6];
  EXPECT_EQ(table.Arrive(&people[0], MakeHello(kListens, 1)).other, nullptr);
  EXPECT_EQ(table.Arrive(&people[1], MakeHello(kDials, 2)).other, nullptr);
  // The newer one waits in the older one's place.
  const RendezvousTable::Match newer =
      table.Arrive(&people[2], MakeHello(kListens, 1));
  EXPECT_EQ(newer.other, nullptr);
  EXPECT_EQ(newer.displaced, &people[0]);
  table.Leave(&people[0]);  // 2 has replaced 0, so nothing changes
  EXPECT_EQ(table.waiting(), 2u);
  EXPECT_EQ(table.Arrive(&people[3], MakeHello(kDials, 1)).other, &people[2]);
  EXPECT_EQ(table.waiting(), 1u);
  table.Leave(&people[1]);
  EXPECT_EQ(table.Arrive(&people[4], MakeHello(kListens, 2)).other, nullptr);
  EXPECT_EQ(table.Arrive(&people[5], MakeHello(kDials, 2)).other, &people[4]);
  EXPECT_EQ(table.waiting(), 0u);
}

TEST(RelayHelloTest, Decode_MagicOrRoleIsWrong_IsRejected) {
  uint8_t bytes[kRelayHelloBytes];
  EncodeRelayHello(MakeHello(kDials, 7), bytes);
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

TEST(RelayTest, Pair_EitherSideSends_OtherHearsAll) {
  Served served;
  RelayClient a(served.port), b(served.port), other(served.port);
  other.Send(kDials, 2);
  a.Send(kListens, 1);
  b.Send(kDials, 1);
  EXPECT_EQ(a.Receive(1), kJoined);
  EXPECT_EQ(b.Receive(1), kJoined);
  std::string text;
  for (int i = 0; i < 300000; ++i) text += static_cast<char>(i * 7 % 251);
  std::thread sender([&] { a.Send(text); });
  EXPECT_EQ(b.Receive(text.size()), text);
  sender.join();
  b.Send("and back");
  EXPECT_EQ(a.Receive(8), "and back");
  // Bytes that were sent before an end arrive.
  a.Send("the last");
  a.StopSending();
  EXPECT_EQ(b.Receive(100), "the last");
  b.Send("bye");
  b.StopSending();
  EXPECT_EQ(a.Receive(100), "bye");
  EXPECT_TRUE(other.has_nothing_to_receive());
}

TEST(RelayTest, Peer_DoesNotRead_HoldsTheOtherUp) {
  Served served;
  RelayClient a(served.port), b(served.port);
  a.Send(kListens, 1);
  b.Send(kDials, 1);
  EXPECT_EQ(a.Receive(1), kJoined);
  EXPECT_EQ(b.Receive(1), kJoined);
  const size_t buffered = a.FillBuffers();
  // The kernel's buffers, and one of the relay's.
  EXPECT_LT(buffered, size_t{64} << 20);
  EXPECT_EQ(b.Receive(buffered).size(), buffered);
}

TEST(RelayTest, Strangers_SilentOrWrong_AreLetGo) {
  RelayOptions options;
  options.hello_seconds = 2;
  options.dial_seconds = 2;
  options.linger_seconds = 2;
  options.connections = 4;
  Served served(options);
  RelayClient waits(served.port);
  waits.Send(kListens, 4);
  {
    RelayClient http(served.port), early(served.port);
    http.Send("GET / HTTP/1.1\r\nHost: relay\r\n\r\n");
    EXPECT_EQ(http.Receive(1), "");
    early.Send(kListens, 1);
    early.Send("too soon");
    EXPECT_EQ(early.Receive(1), "");
  }
  RelayClient silent(served.port), dials(served.port);
  dials.Send(kDials, 3);
  EXPECT_EQ(silent.Receive(1), "");
  ASSERT_FALSE(HasFailure()) << "the others would wait as long";
  EXPECT_EQ(dials.Receive(1), "");
  // A worker that listens may wait longer. When one side of a pair ends, the
  // other side is closed too.
  EXPECT_TRUE(waits.has_nothing_to_receive());
  RelayClient dialer(served.port);
  dialer.Send(kDials, 4);
  EXPECT_EQ(waits.Receive(1) + dialer.Receive(1), kJoined + kJoined);
  dialer.StopSending();  // one side of the pair has ended
  EXPECT_EQ(waits.Receive(1), "");
  EXPECT_EQ(dialer.Receive(1), "");
}

TEST(RelayTest, Connection_BeyondTheLimit_IsClosed) {
  RelayOptions options;
  options.connections = 2;
  Served served(options);
  RelayClient a(served.port), b(served.port);
  a.Send(kListens, 1);
  b.Send(kDials, 1);
  EXPECT_EQ(a.Receive(1) + b.Receive(1), kJoined + kJoined);
  RelayClient third(served.port);
  EXPECT_EQ(third.Receive(1), "");
  EXPECT_TRUE(a.has_nothing_to_receive());
}

// --- rings ------------------------------------------------------------------

void ExpectSum(Collective* ring) {
  std::vector<float> v(70001, static_cast<float>(ring->rank() + 1));
  EXPECT_OK(ring->AllReduce(v.data(), v.size()));
  const int n = ring->size();
  EXPECT_EQ(v[0], static_cast<float>(n * (n + 1) / 2));
  EXPECT_EQ(v[70000], v[0]);
}

TEST(RelayRingTest, Relay_EndsAndComesBack_IsNamedAndWorkersReform) {
  auto served = std::make_unique<Served>();
  const int port = served->port;
  std::vector<std::unique_ptr<RingCollective>> rings(4);
  RunThreads(4, [&](int r) {
    ASSERT_OK(RingCollective::Open(MakeRingOptions(4, r, port), &rings[r]));
    for (int i = 0; i < 20; ++i) ExpectSum(rings[r].get());
  });
  // The relay's end is a loss, and the message names the relay.
  std::atomic<int> lost{0}, running{0}, reforming{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      std::vector<float> v(1000);
      Status status = rings[r]->AllReduce(v.data(), v.size());
      ++running;
      while (status.ok()) status = rings[r]->AllReduce(v.data(), v.size());
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      if (std::string(status.message()).find("by the relay at 127.0.0.1") !=
          std::string::npos) {
        ++lost;
      }
    });
  }
  while (running < 4) std::this_thread::yield();
  served.reset();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(lost, 4);
  // The relay is started again, and the workers continue.
  RelayOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  std::unique_ptr<Relay> relay;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      ++reforming;
      ASSERT_OK(rings[r]->Reform());
      ExpectSum(rings[r].get());
    });
  }
  while (reforming < 4) std::this_thread::yield();
  EXPECT_OK(Relay::Start(options, &relay));
  for (std::thread& thread : threads) thread.join();
  RunThreads(4, [&](int r) { rings[r].reset(); });
}

// Two jobs of other keys, and of a key that is about to change, by one relay.
TEST(RelayRingTest, Jobs_KeysDiffer_DoNotMix) {
  Served served;
  RunThreads(4, [&](int i) {
    const int job = i / 2, r = i % 2;
    RingOptions options = MakeRingOptions(2, r, served.port);
    if (job == 1) options.keys = r == 0 ? Keys({9, 8}) : Keys({8, 9});
    std::unique_ptr<RingCollective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    float sum = job == 0 ? 1.0f : 10.0f;
    EXPECT_OK(ring->AllReduce(&sum, 1));
    EXPECT_EQ(sum, job == 0 ? 2.0f : 20.0f);
  });
}

// Two jobs with the same key and list, and different names: a connection of one
// takes no place in the other.
TEST(RelayRingTest, Jobs_NamesAloneDiffer_DoNotMix) {
  Served served;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<RingCollective>> rings(4);
  const auto open = [&](int job, int r) {
    threads.emplace_back([&, job, r] {
      RingOptions options = MakeRingOptions(2, r, served.port);
      options.job = job == 0 ? "first" : "second";
      ASSERT_OK(RingCollective::Open(options, &rings[2 * job + r]));
    });
  };
  std::string text;
  {
    CapturedOutput output;
    for (const int job : {0, 1}) {
      open(job, 0);
      // Rank 0 of both jobs has waited at the relay for a while.
      EXPECT_TRUE(output.AwaitText("worker 0 of 2 (", job + 1));
    }
    for (const int job : {0, 1}) open(job, 1);
    for (std::thread& thread : threads) thread.join();
    text = output.text();
  }
  EXPECT_FALSE(Contains(text, "another took this worker's place"));
  EXPECT_FALSE(Contains(text, "refused"));
  RunThreads(4, [&](int i) {
    ExpectSum(rings[i].get());
    rings[i].reset();
  });
}

TEST(RelayRingTest, Worker_Ends_IsLostImmediately) {
  Served served;
  RunThreads(3, [&](int r) {
    std::unique_ptr<RingCollective> ring;
    ASSERT_OK(RingCollective::Open(MakeRingOptions(3, r, served.port), &ring));
    ExpectSum(ring.get());
    if (r == 1) return;
    std::vector<float> v(1000);
    const Status lost = ring->AllReduce(v.data(), v.size());
    EXPECT_EQ(lost.code(), Code::kPeerLost) << lost.message();
    EXPECT_EQ(lost.rank(), 1) << lost.message();
  });
}

// An elastic job is fully connected, also with a list of more than 16 workers.
TEST(RelayRingTest, Workers_TwoOfALongList_FormARing) {
  Served served;
  RunThreads(2, [&](int i) {
    const int r = i == 0 ? 0 : 3;
    RingOptions options = MakeRingOptions(17, r, served.port);
    options.min_workers = 2;
    options.start_timeout_seconds = 6;  // how long it waits for the others
    std::unique_ptr<RingCollective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    EXPECT_EQ(ring->size(), 2);
    ExpectSum(ring.get());
  });
}

// In a long list any worker hears that another cannot take part.
TEST(RelayRingTest, Withdrawal_LongList_IsHeardByAnyWorker) {
  Served served;
  RingOptions options = MakeRingOptions(17, 3, served.port);
  options.min_workers = 1;
  std::unique_ptr<Withdrawal> withdrawal = Withdrawal::Begin(
      MakeRingOptions(17, 0, served.port), InvalidArgument("it has no data"));
  std::unique_ptr<RingCollective> ring;
  const Status status = RingCollective::Open(options, &ring);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_TRUE(Contains(status, "it has no data"));
}

TEST(RelayRingTest, Open_NoKeyPortOrRelay_IsAnError) {
  std::unique_ptr<RingCollective> ring;
  RingOptions options = MakeRingOptions(2, 0, 7000);
  options.keys = nullptr;
  options.insecure = true;
  const Status plain = RingCollective::Open(options, &ring);
  EXPECT_EQ(plain.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(plain, "has no key"));
  options = MakeRingOptions(2, 0, 7000);
  options.relay = "relay";
  EXPECT_TRUE(Contains(RingCollective::Open(options, &ring), "has no port"));
  options = MakeRingOptions(2, 1, FreePorts(1)[0]);
  options.start_timeout_seconds = 3;
  const Status nobody = RingCollective::Open(options, &ring);
  EXPECT_EQ(nobody.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Contains(nobody, "by the relay at 127.0.0.1"));
}

}  // namespace
}  // namespace ringlet
