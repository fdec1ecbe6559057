// Strangers: programs that are not workers of the job and reach its sockets.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stddef.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "net/cluster/address.h"
#include "net/membership/failure_detector.h"
#include "net/transport/local_socket.h"
#include "net/transport/socket_address.h"
#include "net/wire/handshake.h"
#include "ringlet/status.h"
#include "stranger.h"
#include "thread_ring.h"

namespace ringlet {
namespace {

// Three ranks that sum numbers until they are stopped.
class RunningJob {
 public:
  RunningJob() {
    for (int r = 0; r < 3; ++r) {
      ranks_.emplace_back([this, r] { Run(r); });
    }
    EXPECT_TRUE(Eventually([&] { return formed_ == 3; }));
  }
  ~RunningJob() {
    if (!stop_) Stop();
  }
  const std::vector<std::string>& addresses() const { return addresses_; }
  // The number of sums that each rank has made.
  std::vector<int> Stop() {
    stop_ = true;
    for (std::thread& rank : ranks_) rank.join();
    return sums_;
  }

 private:
  void Run(int rank) {
    std::unique_ptr<Collective> ring;
    const Status opened =
        RingCollective::Open(MakeOptions(addresses_, rank), &ring);
    ++formed_;
    ASSERT_OK(opened);
    for (float go_on = 1; go_on > 0;) {
      ExpectSums(ring.get(), 5000);
      ++sums_[static_cast<size_t>(rank)];
      go_on = stop_ ? 0 : 1;  // rank 0 decides
      ASSERT_OK(ring->Broadcast(&go_on, sizeof(go_on), 0));
    }
  }

  const std::vector<std::string> addresses_ = FreeAddresses(3);
  std::atomic<bool> stop_{false};
  std::atomic<int> formed_{0};
  std::vector<int> sums_ = std::vector<int>(3);
  std::vector<std::thread> ranks_;
};

// Sends bytes that are no hello, and is disconnected.
void SendNoHello(const std::string& address, const std::string& bytes) {
  Stranger stranger(address);
  stranger.Send(bytes);
  stranger.Receive();
  EXPECT_TRUE(stranger.closed());
}

std::string NoiseOf(int bytes) {
  std::string noise;
  for (int i = 0; i < bytes; ++i) noise += static_cast<char>(i * 7919 >> 3);
  return noise;
}

// A frame that is well formed and not a hello.
std::string FrameBeforeHello() {
  FrameHeader header;
  header.type = FrameType::kAllReduce;
  header.sequence = 1;
  return MakeFrame(header, std::vector<uint8_t>(4));
}

// The greeting of worker 2 of this job.
std::string HelloOf2(const std::vector<std::string>& addresses, size_t to) {
  FrameHeader header;
  header.type = FrameType::kHello;
  header.destination = static_cast<uint16_t>(to);
  return MakeFrame(header, EncodeIdentity(MakeIdentity(addresses, 2)));
}

TEST(StrangersTest, Strangers_WhileAJobRuns_DisturbNothing) {
  RunningJob job;
  const std::vector<std::string>& addresses = job.addresses();
  for (size_t to = 0; to < addresses.size(); ++to) {
    const std::string& address = addresses[to];
    { Stranger scanner(address); }
    SendNoHello(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" +
                             std::string(100, ' '));
    SendNoHello(address, NoiseOf(100000));
    SendNoHello(address, FrameBeforeHello());

    // Refused, because that worker is connected.
    const std::string hello = HelloOf2(addresses, to);
    Stranger twin(address);
    twin.Send(hello);
    EXPECT_TRUE(Contains(twin.Receive(), "same index"));
    EXPECT_TRUE(twin.closed());

    // One connection sends a part of a hello, and one sends nothing.
    Stranger slow(address);
    slow.Send(hello.substr(0, 60));
    Stranger silent(address);
    silent.Receive();
    EXPECT_TRUE(silent.closed());
  }
  std::vector<std::unique_ptr<Stranger>> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(std::make_unique<Stranger>(addresses[i % 3]));
  }
  const std::vector<int> sums = job.Stop();
  EXPECT_GT(sums[0], 1);
  EXPECT_EQ(sums, std::vector<int>(3, sums[0]));
}

TEST(StrangersTest, Strangers_SilentConnections_DoNotKeepAJobFromForming) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::thread zero([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 0), &ring));
    ExpectSums(ring.get(), 1000);
  });
  // Silent connections, more than rank 0 holds half open.
  EXPECT_TRUE(AwaitListener(addresses[0]));
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(std::make_unique<Stranger>(addresses[0]));
  }
  RingOptions options = MakeOptions(addresses, 1);
  options.local_sockets = false;
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(options, &ring));
  ExpectSums(ring.get(), 1000);
  zero.join();
}

#ifdef __linux__

// Another program has the name, in Linux's abstract space, of rank 0's local
// socket. `answer` handles its connections.
class OtherListener {
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
  OtherListener(const std::vector<std::string>& addresses, Behavior behavior)
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
  ~OtherListener() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    for (int fd : held_) close(fd);
    close(fd_);
  }
  OtherListener(const OtherListener&) = delete;
  OtherListener& operator=(const OtherListener&) = delete;
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
    const Identity identity = MakeIdentity(addresses_, 2);
    switch (behavior_) {
      case kSaysGarbage:
        return std::string(1000, 'g');
      case kRefuses:
        return MakeFrame(header, {'n', 'o'});
      case kSaysHello:
      case kIsAnotherRank:
        return MakeFrame(header, EncodeIdentity(identity));
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

TEST(OtherListenerTest, LocalSocket_HeldByAnotherListener_RingForms) {
  for (const OtherListener::Behavior behavior :
       {OtherListener::kNeverAccepts, OtherListener::kNeverAnswers,
        OtherListener::kCloses, OtherListener::kSaysGarbage,
        OtherListener::kSaysHello, OtherListener::kIsAnotherRank,
        OtherListener::kRefuses}) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    OtherListener listener(addresses, behavior);
    std::thread zero([&] {
      std::unique_ptr<Collective> ring;
      ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 0), &ring));
      ExpectSums(ring.get(), 30011);
    });
    std::unique_ptr<Collective> ring;
    RingOptions options = MakeOptions(addresses, 1);
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_OK(status) << "behavior " << behavior;
    if (status.ok()) ExpectSums(ring.get(), 30011);
    zero.join();
    if (behavior != OtherListener::kNeverAccepts) {
      EXPECT_GT(listener.guests(), 0);
    }
  }
}

// A listener of another user receives nothing, not even a hello.
TEST(OtherListenerTest, Listener_OfAnotherUser_GetsNoByte) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::vector<std::string> addresses = FreeAddresses(2);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    OtherListener listener(addresses, OtherListener::kNeverAnswers);
    (void)!write(ready[1], "x", 1);
    while (listener.guests() == 0) usleep(1000);
    _exit(listener.Heard() ? 1 : 0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  std::thread zero([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 0), &ring));
    ExpectSums(ring.get(), 1000);
  });
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 1), &ring));
  ExpectSums(ring.get(), 1000);
  zero.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Connects with rank 1's greeting. Returns the texts that it receives, and ""
// at the end of the connection.
std::string ReceiveAsRank1(const std::vector<std::string>& addresses) {
  Address host;
  sockaddr_storage numeric;
  EXPECT_OK(ParseAddress(addresses[0], &host));
  EXPECT_OK(NumericAddress(host, &numeric));
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
  const Identity identity = MakeIdentity(addresses, 1);
  const std::string hello = MakeFrame(header, EncodeIdentity(identity));
  send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);
  timeval limit = {30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char reply[64];
  const ssize_t actual = recv(fd, reply, sizeof(reply), 0);
  const bool over = actual == 0 || (actual < 0 && errno == ECONNRESET);
  close(fd);
  return actual > 0 ? std::string(reply, static_cast<size_t>(actual))
         : over     ? ""
                    : "nothing for half a minute";
}

// Another user at the local socket is not accepted and gets no answer. A
// process of this user gets one, so the test would see it.
TEST(OtherListenerTest, Guest_OfAnotherUser_IsNotAnswered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  for (const bool other : {true, false}) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    const pid_t child = fork();
    if (child == 0) {
      if (other && setuid(65534) != 0) _exit(2);
      _exit(ReceiveAsRank1(addresses).empty() ? 0 : 1);
    }
    std::thread zero([&] {
      std::unique_ptr<Collective> ring;
      RingOptions options = MakeOptions(addresses, 0);
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
    if (other) {  // otherwise rank 0 took the child for rank 1, and lost it
      std::unique_ptr<Collective> ring;
      const Status opened =
          RingCollective::Open(MakeOptions(addresses, 1), &ring);
      EXPECT_OK(opened);
      if (opened.ok()) ExpectSums(ring.get(), 1000);
    }
    zero.join();
  }
}

// In a container with its own users every user without a number there has the
// number 65534.
TEST(OtherListenerTest, LocalSocket_UserWithoutANumber_IsNotTrusted) {
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
    const Identity identity = MakeIdentity(addresses, rank, timeout_ms);
    header_.type = FrameType::kHello;
    socket_.Send(MakeFrame(header_, EncodeIdentity(identity)));
    header_.generation = 1;
    header_.source = static_cast<uint16_t>(rank);
    header_.type = FrameType::kBarrier;
    header_.sequence = 1;
    socket_.Send(MakeFrame(header_, {}));
  }

  // Reports memory for operation 2, a broadcast from rank 0.
  void SendReady(uint64_t bytes) {
    FrameHeader header = header_;
    header.type = FrameType::kReady;
    header.sequence = 2;
    header.total = bytes;
    header.chunk = static_cast<uint32_t>(FrameType::kBroadcast);
    socket_.Send(MakeFrame(header, {}));
  }
  // Reports that operation 1 is complete, and that it computes.
  void SendHeartbeat() {
    FrameHeader header = header_;
    std::vector<uint8_t> payload(kHeartbeatBytes);
    Activity activity;
    activity.sequence = 1;
    EncodeHeartbeat(activity, &header, payload.data());
    socket_.Send(MakeFrame(header, payload));
  }
  // Reports that its ring has ended, since `rank` was lost.
  void SendLost(int rank) {
    FrameHeader header = header_;
    header.type = FrameType::kAbort;
    header.sequence = 0;
    const auto low = static_cast<uint8_t>(rank);
    socket_.Send(MakeFrame(header, {static_cast<uint8_t>(Code::kPeerLost), 0,
                                    low, 0, 0xff, 0xff}));
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
    socket_.Send(MakeFrame(header, payload));
  }

 private:
  FrameHeader header_;
  Stranger socket_;
};

// Returns rank 0's result for the number 1.0. `run` is the script of rank 1 in
// the open ring.
Status SumWithScriptedPeer(const std::function<void(ScriptedPeer*)>& run,
                           float* sum) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  std::atomic<bool> opened{false}, done{false};
  std::thread scripted([&] {
    ScriptedPeer peer(addresses, 100000);
    while (!opened) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run(&peer);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  Status status;
  {
    RingOptions options = MakeOptions(addresses, 0);
    options.timeout_seconds = 100;  // the peer sends no heartbeats
    std::unique_ptr<Collective> ring;
    status = RingCollective::Open(options, &ring);
    opened = true;
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

// Rank 1's ring forms and ends before rank 0's forms: its frames for a barrier
// do not belong to the ring that both form next.
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
    EXPECT_OK(RingCollective::Open(MakeOptions(addresses, 0), &ring));
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
  RingOptions options = MakeOptions(addresses, 0);
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

}  // namespace
}  // namespace ringlet
