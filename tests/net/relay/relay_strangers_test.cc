// A relay with many connections at the same time, for any bytes and speeds; and
// workers of a relay that has several addresses, or moves.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/threads.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"
#include "net/transport/name_lookup.h"
#include "relay_client.h"

namespace ringlet {
namespace {

std::string TextOf(RelayHello::Role role, uint8_t channel) {
  uint8_t bytes[kRelayHelloBytes];
  EncodeRelayHello(MakeHello(role, channel), bytes);
  return {reinterpret_cast<char*>(bytes), sizeof(bytes)};
}

// Returns when the relay has joined two new clients: it has then read all
// earlier bytes.
void Settle(int port) {
  RelayClient a(port), b(port);
  a.Send(kListens, 255);
  b.Send(kDials, 255);
  EXPECT_EQ(a.Receive(1) + b.Receive(1), kJoined + kJoined);
}

// One of two greetings is cut at each byte in turn, or at all of them.
TEST(RelayTest, Greeting_CutAnywhere_IsUnderstood) {
  Served served;
  for (size_t cut = 0; cut <= kRelayHelloBytes; ++cut) {
    SCOPED_TRACE(cut);
    const std::string text = TextOf(kDials, 1);
    RelayClient a(served.port), b(served.port);
    a.Send(kListens, 1);
    Settle(served.port);
    if (cut == kRelayHelloBytes) {
      for (const char c : text) b.Send(std::string(1, c)), Settle(served.port);
    } else {
      if (cut > 0) b.Send(text.substr(0, cut));
      Settle(served.port);
      b.Send(text.substr(cut));
    }
    // The bytes right behind it are no part of the greeting.
    EXPECT_EQ(b.Receive(1), kJoined);
    b.Send("early");
    EXPECT_EQ(a.Receive(6), kJoined + "early");
  }
}

// Pairs in any order, of which some give up, some come twice, some are cut off.
TEST(RelayTest, Connections_InAnyOrder_AreJoinedInPairs) {
  RelayOptions options;
  options.connections = 1000;
  options.dial_seconds = options.hello_seconds = 60;
  Served served(options);
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<std::pair<uint8_t, bool>> comes;
    for (int i = 0; i < 100; ++i) {
      comes.emplace_back(static_cast<uint8_t>(i), false);
      comes.emplace_back(static_cast<uint8_t>(i), true);
    }
    std::shuffle(comes.begin(), comes.end(), random);
    std::map<std::pair<uint8_t, bool>, std::unique_ptr<RelayClient>> all;
    std::vector<std::unique_ptr<RelayClient>> strangers;
    for (const auto& who : comes) {
      const auto role = who.second ? kDials : kListens;
      if (random() % 4 == 0) {
        strangers.push_back(std::make_unique<RelayClient>(served.port));
        strangers.back()->Send(
            TextOf(role, who.first).substr(1 + random() % 24));
      }
      if (random() % 4 == 0) RelayClient(served.port).Send("RGRELAY1");
      const bool first = all.count({who.first, !who.second}) == 0;
      if (first && random() % 3 == 0) {
        RelayClient older(served.port);
        older.Send(role, who.first);
        Settle(served.port);
        all[who] = std::make_unique<RelayClient>(served.port);
        all[who]->Send(role, who.first);
        EXPECT_EQ(older.Receive(1), "");
      } else {
        all[who] = std::make_unique<RelayClient>(served.port);
        all[who]->Send(role, who.first);
      }
    }
    for (int i = 0; i < 100; ++i) {
      const auto channel = static_cast<uint8_t>(i);
      RelayClient& a = *all[{channel, false}];
      RelayClient& b = *all[{channel, true}];
      EXPECT_EQ(a.Receive(1), kJoined) << i;
      EXPECT_EQ(b.Receive(1), kJoined) << i;
      const std::string text = "of " + std::to_string(i);
      a.Send(text);
      EXPECT_EQ(b.Receive(text.size()), text);
    }
  }
}

// A silent connection gives way to one with a greeting.
TEST(RelayTest, Connections_Silent_GiveWayToWorkers) {
  RelayOptions options;
  options.connections = 4;
  options.hello_seconds = 600;
  options.silent_seconds = 0.2;
  Served served(options);
  RelayClient listens(served.port);
  listens.Send(kListens, 1);
  std::vector<std::unique_ptr<RelayClient>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<RelayClient>(served.port));
    silent.back()->Send("RGREL");
  }
  // (Not those that have just come.)
  for (;;) {
    RelayClient dials(served.port);
    dials.TrySend(TextOf(kDials, 1));
    if (dials.Receive(1) != kJoined) continue;
    EXPECT_EQ(listens.Receive(1), kJoined);
    break;
  }
  EXPECT_EQ(silent[0]->Receive(1), "");
  EXPECT_TRUE(silent[2]->has_nothing_to_receive());
}

// Joined connections are served, however fast new connections come.
TEST(RelayTest, Flood_OfConnections_DelaysNoWorker) {
  RelayOptions options;
  options.connections = 16;
  Served served(options);
  RelayClient a(served.port), b(served.port);
  a.Send(kListens, 1);
  b.Send(kDials, 1);
  EXPECT_EQ(a.Receive(1) + b.Receive(1), kJoined + kJoined);
  std::atomic<bool> over{false};
  std::atomic<int> came{0};
  std::vector<std::thread> flood;
  for (int i = 0; i < 8; ++i) {
    flood.emplace_back([&] {
      while (!over) {
        RelayClient stranger(served.port);
        ++came;
      }
    });
  }
  while (came < 100) usleep(1000);
  for (int i = 0; i < 300; ++i) {
    a.Send("ping");
    ASSERT_EQ(b.Receive(4), "ping");
    b.Send("pong");
    ASSERT_EQ(a.Receive(4), "pong");
  }
  over = true;
  for (std::thread& thread : flood) thread.join();
}

// A port alone is on all of the host's addresses: of a name that has both kinds
// a worker may have a link to the IPv6 one alone.
TEST(RelayTest, Address_PortAlone_MeansBothAddressFamilies) {
  RelayOptions options;
  options.address = std::to_string(FreePorts(1)[0]);
  std::unique_ptr<Relay> relay;
  ASSERT_OK(Relay::Start(options, &relay));
  const auto connect_error = [&](const char* host) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* to = nullptr;
    EXPECT_EQ(getaddrinfo(host, options.address.c_str(), &hints, &to), 0);
    const int fd = socket(to->ai_family, SOCK_STREAM, 0);
    errno = 0;
    (void)connect(fd, to->ai_addr, to->ai_addrlen);
    const int error = errno;
    close(fd);
    freeaddrinfo(to);
    return error;
  };
  EXPECT_EQ(connect_error("127.0.0.1"), 0);
  // (A machine may have none.)
  EXPECT_NE(connect_error("::1"), ECONNREFUSED);
}

// --- workers ----------------------------------------------------------------

// The relay's name resolves to several addresses, or to another address in each
// lookup.
std::vector<std::vector<std::string>> addresses;
std::atomic<size_t> asked{0};

int RelaysName(const char* name, const char* service, const addrinfo* hints,
               addrinfo** list) {
  if (std::strcmp(name, "relay.invalid") != 0) return EAI_NONAME;
  const size_t turn = std::min(asked++, addresses.size() - 1);
  addrinfo** at = list;
  for (const std::string& each : addresses[turn]) {
    const int error = getaddrinfo(each.c_str(), service, hints, at);
    if (error != 0) return error;
    while (*at != nullptr) at = &(*at)->ai_next;
  }
  return 0;
}

class RelaysNameTest : public testing::Test {
 protected:
  RelaysNameTest() : system_(NameLookup::resolver) {
    if (system_ != nullptr) NameLookup::resolver = RelaysName;
  }
  ~RelaysNameTest() override { NameLookup::resolver = system_; }

  // `beside` makes sockets at the relay's port.
  void ExpectRing(std::vector<int> (*beside)(int port) = nullptr) {
    if (system_ == nullptr) GTEST_SKIP() << "a static program";
    asked = 0;
    Served served;
    std::vector<int> sockets;
    if (beside != nullptr) sockets = beside(served.port);
    RunThreads(3, [&](int r) {
      RingOptions options = MakeRingOptions(3, r, served.port);
      options.relay = "relay.invalid:" + std::to_string(served.port);
      std::unique_ptr<RingCollective> ring;
      ASSERT_OK(RingCollective::Open(options, &ring));
      float sum = 1;
      EXPECT_OK(ring->AllReduce(&sum, 1));
      EXPECT_EQ(sum, 3);
    });
    for (const int each : sockets) close(each);
  }

 private:
  const NameLookup::Resolver system_;
};

TEST_F(RelaysNameTest, Name_SeveralAddresses_AnyOneServes) {
  addresses = {{"127.0.0.9", "::1", "127.0.0.1"}};
  ExpectRing();
}

// A host that gives no answer: a listener with a full queue.
TEST_F(RelaysNameTest, Address_DoesNotAnswer_TheNextIsTaken) {
  addresses = {{"127.0.0.9", "127.0.0.1"}};
  ExpectRing([](int port) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.9", &at.sin_addr);
    auto* const to = reinterpret_cast<sockaddr*>(&at);
    std::vector<int> sockets;
    for (int i = 0; i < 4; ++i) {
      sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      if (i > 0) {
        connect(sockets.back(), to, sizeof(at));
      } else {
        EXPECT_EQ(bind(sockets[0], to, sizeof(at)), 0);
        EXPECT_EQ(listen(sockets[0], 0), 0);
      }
    }
    return sockets;
  });
}

TEST_F(RelaysNameTest, Relay_MovesToAnotherAddress_IsFound) {
  addresses.assign(8, {"127.0.0.9"});
  addresses.push_back({"127.0.0.1"});
  ExpectRing();
}

// A link to the relay that delays every byte.
class SlowLink {
 public:
  SlowLink(int to, std::chrono::milliseconds takes)
      : port(FreePorts(1)[0]), to_(to), takes_(takes) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(listen(fd_, 64), 0);
    serves_ = std::thread([this] { Serve(); });
  }
  ~SlowLink() {
    over_ = true;
    shutdown(fd_, SHUT_RDWR);
    serves_.join();
    for (std::thread& thread : threads_) thread.join();
    for (const int each : fds_) close(each);
    close(fd_);
  }
  const int port;

 private:
  using Clock = std::chrono::steady_clock;

  void Serve() {
    for (;;) {
      const int from = accept(fd_, nullptr, nullptr);
      if (from < 0) return;
      const int to = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in at = {};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      at.sin_port = htons(static_cast<uint16_t>(to_));
      EXPECT_EQ(connect(to, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
      fds_.insert(fds_.end(), {from, to});
      threads_.emplace_back([=] { Carry(from, to); });
      threads_.emplace_back([=] { Carry(to, from); });
    }
  }
  void Carry(int from, int to) {
    std::deque<std::pair<Clock::time_point, std::string>> under_way;
    for (bool ended = false; !over_ && !(ended && under_way.empty());) {
      pollfd ready = {ended ? -1 : from, POLLIN, 0};
      char piece[4096];
      if (poll(&ready, 1, 5) > 0) {
        const ssize_t n = recv(from, piece, sizeof(piece), 0);
        ended = n <= 0;
        if (n > 0) {
          under_way.emplace_back(Clock::now() + takes_, std::string(piece, n));
        }
      }
      while (!under_way.empty() && under_way[0].first <= Clock::now()) {
        const std::string& text = under_way[0].second;
        (void)!send(to, text.data(), text.size(), MSG_NOSIGNAL);
        under_way.pop_front();
      }
    }
    shutdown(to, SHUT_WR);
    if (over_) shutdown(from, SHUT_RD);
  }

  const int to_;
  const std::chrono::milliseconds takes_;
  const int fd_ = socket(AF_INET, SOCK_STREAM, 0);
  std::atomic<bool> over_{false};
  std::thread serves_;
  // The sockets of all connections, closed at the end.
  std::vector<int> fds_;
  std::vector<std::thread> threads_;  // two for each connection
};

// A quarter of a second to the relay, as by a satellite: ten such ways until
// two have met.
TEST(RelayRingTest, Workers_SlowLinksToTheRelay_FormARing) {
  Served served;
  SlowLink link(served.port, std::chrono::milliseconds(250));
  RunThreads(2, [&](int r) {
    const RingOptions options = MakeRingOptions(2, r, link.port);
    std::unique_ptr<RingCollective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    float sum = 1;
    EXPECT_OK(ring->AllReduce(&sum, 1));
    EXPECT_EQ(sum, 2);
  });
}

// The number of this process's connections to the port that have keep-alive
// probes. *all: the number of all of them.
int KeptAlive(int port, int* all) {
  int kept = 0;
  *all = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in to = {};
    socklen_t bytes = sizeof(to);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&to), &bytes) != 0 ||
        to.sin_family != AF_INET || to.sin_port != htons(port)) {
      continue;
    }
    int on = 0;
    bytes = sizeof(on);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &bytes), 0);
    ++*all;
    kept += on != 0 ? 1 : 0;
  }
  return kept;
}

// A waiting worker sends nothing. Without keep-alive it would not notice that
// the relay's host is gone, and wait without an end.
TEST(RelayRingTest, Wait_RelayIsGone_IsNoticed) {
  Served served;
  std::thread waits([&] {
    std::unique_ptr<RingCollective> ring;
    EXPECT_FALSE(
        RingCollective::Open(MakeRingOptions(3, 0, served.port), &ring).ok());
  });
  int all = 0, kept = 0;
  for (int i = 0; i < 10000 && kept < 2; ++i) {
    usleep(10000);
    kept = KeptAlive(served.port, &all);
  }
  EXPECT_EQ(all, 2);
  EXPECT_EQ(kept, all);
  Withdrawal::Begin(MakeRingOptions(3, 1, served.port),
                    InvalidArgument("that was all"))
      .reset();
  waits.join();
}

TEST(RelayRingTest, Descriptors_TooFew_AreReportedImmediately) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 48;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  RingOptions options = MakeRingOptions(60, 0, 7000);
  options.min_workers = 1;
  options.start_timeout_seconds = 5;
  std::unique_ptr<RingCollective> ring;
  const Status status = RingCollective::Open(options, &ring);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  EXPECT_TRUE(Contains(status, "ulimit -n"));
}

}  // namespace
}  // namespace ringlet
