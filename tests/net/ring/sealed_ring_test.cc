// Rings of workers with a key, and strangers with another key or none.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/threads.h"
#include "core/base/crc32c.h"
#include "net/ring/ring_collective.h"
#include "net/transport/sealed_stream.h"
#include "net/transport/socket_address.h"
#include "net/wire/abort.h"
#include "net/wire/handshake.h"
#include "stranger.h"

namespace {

// An attacker on the path: connections to one port of this host go to another
// port.
struct OnPath {
  std::mutex mutex;  // guards what follows
  std::map<int, int> ports;
  int led_astray = 0;
};

OnPath* TheOnPath() {
  static OnPath on_path;
  return &on_path;
}

}  // namespace

// Replaces the C library's function connect, also for libuv.
extern "C" __attribute__((visibility("default"))) int connect(
    int fd, const sockaddr* address, socklen_t bytes) {
  sockaddr_in to = {};
  if (address->sa_family == AF_INET && bytes == sizeof(to)) {
    std::memcpy(&to, address, sizeof(to));
    OnPath* const on_path = TheOnPath();
    std::lock_guard<std::mutex> lock(on_path->mutex);
    const auto other = on_path->ports.find(ntohs(to.sin_port));
    if (other != on_path->ports.end()) {
      to.sin_port = htons(static_cast<uint16_t>(other->second));
      ++on_path->led_astray;
      address = reinterpret_cast<const sockaddr*>(&to);
    }
  }
  return static_cast<int>(syscall(SYS_connect, fd, address, bytes));
}

namespace ringlet {
namespace {

std::shared_ptr<const JobKeys> Keys(std::vector<uint8_t> seeds) {
  auto keys = std::make_shared<JobKeys>();
  for (const uint8_t seed : seeds) {
    std::memset(keys->keys[keys->count++].bytes, seed, sizeof(JobKey::bytes));
  }
  return keys;
}

RingOptions MakeOptions(const std::vector<std::string>& addresses, int rank,
                        std::shared_ptr<const JobKeys> keys) {
  RingOptions options;
  options.addresses = addresses;
  options.worker = rank;
  options.keys = std::move(keys);
  options.local_sockets = false;
  options.start_timeout_seconds = 300;
  return options;
}

// Returns a digest of the sums of six vectors that depend on rank and job.
uint32_t Sums(Collective* ring, int job = 0) {
  uint32_t digest = 0;
  for (const size_t n : {0, 1, 7, 2049, 16385, 300007}) {
    std::vector<float> v(n);
    for (size_t i = 0; i < n; ++i) {
      v[i] = static_cast<float>((ring->rank() + 1) * 0.37 + job * 1.3 +
                                static_cast<double>(i % 1009) * 0.011);
    }
    EXPECT_OK(ring->AllReduce(v.data(), n));
    digest = Crc32c(v.data(), n * sizeof(float), digest);
  }
  return digest;
}

// Opens a ring with a thread for each rank, and returns the ranks' digests.
std::vector<uint32_t> SumsOf(
    const std::vector<std::string>& addresses,
    const std::vector<std::shared_ptr<const JobKeys>>& keys, int job = 0) {
  std::vector<uint32_t> digests(keys.size());
  RunThreads(static_cast<int>(keys.size()), [&](int r) {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, r, keys[r]), &ring));
    digests[r] = Sums(ring.get(), job);
  });
  return digests;
}

TEST(SealedRingTest, AllReduce_SealedRing_HasTheBitsOfAPlainRing) {
  for (const size_t size : {2, 3, 5}) {
    const std::vector<uint32_t> plain =
        SumsOf(FreeAddresses(static_cast<int>(size)), {size, nullptr});
    const std::vector<uint32_t> sealed =
        SumsOf(FreeAddresses(static_cast<int>(size)), {size, Keys({1})});
    EXPECT_EQ(plain, std::vector<uint32_t>(size, plain[0]));
    EXPECT_EQ(sealed, plain);
  }
}

TEST(SealedRingTest, Open_WhileKeysRotate_RingForms) {
  for (const auto& keys :
       {std::vector{Keys({1}), Keys({1, 2}), Keys({1, 2})},
        std::vector{Keys({2, 1}), Keys({1, 2}), Keys({2, 1})},
        std::vector{Keys({2, 1}), Keys({2}), Keys({2, 1})}}) {
    const std::vector<uint32_t> digests = SumsOf(FreeAddresses(3), keys);
    EXPECT_EQ(digests, std::vector<uint32_t>(3, digests[0]));
  }
}

TEST(SealedRingTest, Open_AnotherKeyOrNone_BothSidesSaySo) {
  const struct {
    std::shared_ptr<const JobKeys> keys_0, keys_1;
    const char* zero_says;
    const char* one_says;
  } cases[] = {
      {Keys({1}), Keys({2}), "it does not have this job's key",
       "is its key (RINGLET_KEY_FILE) the same as this worker's, and its list"},
      {Keys({1}), nullptr, "it has no key, and", "it may have a key"},
      {nullptr, Keys({1}), "it has a key, and this worker has none",
       "it has no key, and"},
  };
  for (const auto& one : cases) {
    const std::vector<std::string> addresses = FreeAddresses(2);
    std::string messages[2];
    RunThreads(2, [&](int r) {
      RingOptions options =
          MakeOptions(addresses, r, r == 0 ? one.keys_0 : one.keys_1);
      // Each worker waits long enough to be refused by the other.
      options.start_timeout_seconds = r == 0 ? 6 : 5;
      std::unique_ptr<Collective> ring;
      messages[r] = RingCollective::Open(options, &ring).message();
    });
    EXPECT_TRUE(Contains(messages[0], one.zero_says));
    EXPECT_TRUE(Contains(messages[1], one.one_says));
  }
}

// Local sockets of this address, those that listen or ends of connections.
int LocalSockets(const std::string& address, bool connected) {
  std::ifstream sockets("/proc/net/unix");
  const std::string state = connected ? " 0001 03 " : " 0001 01 ";
  int count = 0;
  for (std::string line; std::getline(sockets, line);) {
    const bool is =
        (line + "/").find("@ringlet/" + address + "/") != std::string::npos;
    if (is && line.find(state) != std::string::npos) ++count;
  }
  return count;
}

// The expected hash is from hashlib.blake2b in Python: other versions of
// ringlet must compute the same name.
TEST(SealedRingTest, LocalSocketName_PlainAndWithAKey_FollowsTheFormat) {
  sockaddr_storage address;
  ASSERT_OK(NumericAddress({"127.0.0.1", 7000}, &address));
  const std::string plain = LocalSocketName(address);
  EXPECT_EQ(plain, std::string(1, '\0') + "ringlet/127.0.0.1:7000");
  EXPECT_EQ(LocalSocketName(address, &Keys({1})->keys[0]),
            plain + "/a1fce44ae7a1aa17e844f3ddd67b72c3");
}

// A plain local socket needs the same key, although the system has identified
// its user.
TEST(SealedRingTest, LocalSocket_AnyPairOfKeys_JoinsThoseOfOneKey) {
  const auto one = Keys({1}), two = Keys({2}), both = Keys({1, 2}),
             reversed = Keys({2, 1});
  const struct {
    std::shared_ptr<const JobKeys> keys[2];
    bool meet;
  } cases[] = {
      {{one, one}, true},  {{one, both}, true},     {{reversed, both}, true},
      {{both, two}, true}, {{both, one}, true},     {{nullptr, nullptr}, true},
      {{one, two}, false}, {{one, nullptr}, false}, {{nullptr, one}, false}};
  for (const auto& each : cases) {
    SCOPED_TRACE(&each - cases);
    const std::vector<std::string> addresses = FreeAddresses(2);
    std::vector<std::thread> threads;
    std::unique_ptr<Collective> rings[2];
    std::atomic<bool> ended{false};
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        RingOptions options = MakeOptions(addresses, r, each.keys[r]);
        options.local_sockets = true;
        if (!each.meet) options.start_timeout_seconds = 3;
        const Status status = RingCollective::Open(options, &rings[r]);
        ended = true;
        EXPECT_EQ(status.ok(), each.meet) << status.message();
      });
      // Without the local socket rank 1 might connect by TCP.
      while (!ended && LocalSockets(addresses[0], /*connected=*/false) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(LocalSockets(addresses[0], true) > 0, each.meet);
  }
}

// From now on a connection to `from[i]` reaches `to[i % to.size()]`.
void Lead(const std::vector<std::string>& from,
          const std::vector<std::string>& to) {
  const auto port = [](const std::string& address) {
    return std::stoi(address.substr(address.rfind(':') + 1));
  };
  OnPath* const on_path = TheOnPath();
  std::lock_guard<std::mutex> lock(on_path->mutex);
  for (size_t i = 0; i < from.size(); ++i) {
    on_path->ports[port(from[i])] = port(to[i % to.size()]);
  }
}

// Waits until `count` connections were led to other workers, and ends this.
void LeadNobodyAfter(int count) {
  OnPath* const on_path = TheOnPath();
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard<std::mutex> lock(on_path->mutex);
    return on_path->led_astray >= count;
  }));
  std::lock_guard<std::mutex> lock(on_path->mutex);
  on_path->ports.clear();
  EXPECT_GE(std::exchange(on_path->led_astray, 0), count);
}

// Jobs with one key and one name. Each gets connections of the other's workers,
// until the attacker has left the path.
TEST(SealedRingTest, Redirect_ToAnotherJob_StaysInItsOwn) {
  for (const size_t size : {2, 3, 4}) {
    SCOPED_TRACE(size);
    std::vector<std::string> all = FreeAddresses(3 + static_cast<int>(size));
    const std::vector<std::string> one(all.begin(), all.begin() + 3);
    const std::vector<std::string> two(all.begin() + 3, all.end());
    const std::vector<uint32_t> calm_one = SumsOf(one, {3, Keys({1})}, 1);
    const std::vector<uint32_t> calm_two = SumsOf(two, {size, Keys({1})}, 2);
    Lead(one, two);
    Lead(two, one);
    std::vector<uint32_t> sums_one, sums_two;
    std::thread first([&] { sums_one = SumsOf(one, {3, Keys({1})}, 1); });
    std::thread second([&] { sums_two = SumsOf(two, {size, Keys({1})}, 2); });
    LeadNobodyAfter(25);
    first.join();
    second.join();
    EXPECT_EQ(sums_one, calm_one);
    EXPECT_EQ(sums_two, calm_two);
  }
}

TEST(SealedRingTest, Redirect_ToAnotherRank_FindsTheRightOneLater) {
  for (const int shift : {1, 2}) {
    const std::vector<std::string> addresses = FreeAddresses(3);
    const std::vector<uint32_t> calm = SumsOf(addresses, {3, Keys({1})});
    std::vector<std::string> others = addresses;
    std::rotate(others.begin(), others.begin() + shift, others.end());
    Lead(addresses, others);
    std::vector<uint32_t> digests;
    std::thread job([&] { digests = SumsOf(addresses, {3, Keys({1})}); });
    LeadNobodyAfter(12);
    job.join();
    EXPECT_EQ(digests, calm);
  }
}

std::vector<std::string> Forgeries(const std::vector<std::string>& addresses) {
  const Identity identity = MakeIdentity(addresses, 2);
  const auto frame = [](FrameType type, const std::vector<uint8_t>& payload) {
    FrameHeader header;
    header.type = type;
    header.generation = 1;
    header.sequence = 1;
    header.source = 2;
    return MakeFrame(header, payload);
  };
  Withdraw withdraw;
  withdraw.identity = identity;
  withdraw.reason = InvalidArgument("forged");
  const std::string hello = frame(FrameType::kHello, EncodeIdentity(identity));
  std::string sealed = "RGLS\1";
  sealed.resize(60, '\7');
  return {
      hello,
      hello + frame(FrameType::kAbort,
                    EncodeAbort({Code::kCorruption, -1, 2, "forged"})),
      hello + frame(FrameType::kGoodbye, {}),
      hello + frame(FrameType::kAllReduce, std::vector<uint8_t>(4096, 1)),
      frame(FrameType::kWithdraw, EncodeWithdraw(withdraw)),
      sealed,
      sealed + hello,
      "GET / HTTP/1.1\r\n\r\n",
  };
}

// All that ended or changed a job of workers without a key.
void Disturb(const std::vector<std::string>& addresses, int times) {
  const std::vector<std::string> forgeries = Forgeries(addresses);
  for (int i = 0; i < times; ++i) {
    for (size_t k = 0; k < forgeries.size(); ++k) {
      Stranger stranger(addresses[k % 2]);
      stranger.Send(forgeries[k]);
      if (i > 0) continue;
      EXPECT_EQ(stranger.Receive(), "") << k;
      EXPECT_TRUE(stranger.closed()) << k;
    }
  }
}

TEST(SealedRingTest, Stranger_WhileTheRingForms_ChangesNothing) {
  const std::vector<uint32_t> calm = SumsOf(FreeAddresses(3), {3, nullptr});
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::vector<uint32_t> digests(3);
  const auto run = [&](int r) {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(
        RingCollective::Open(MakeOptions(addresses, r, Keys({1})), &ring));
    digests[r] = Sums(ring.get());
  };
  std::thread zero(run, 0), one(run, 1);
  Disturb(addresses, 20);
  run(2);
  zero.join();
  one.join();
  EXPECT_EQ(digests, calm);
}

TEST(SealedRingTest, Stranger_WhileTheRingRuns_ChangesNothing) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  std::vector<uint32_t> first(3), last(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<Collective> ring;
      const Status status =
          RingCollective::Open(MakeOptions(addresses, r, Keys({1})), &ring);
      if (status.ok()) first[r] = Sums(ring.get());
      ++running;
      ASSERT_OK(status);
      for (float go_on = 1; go_on > 0;) {
        last[r] = Sums(ring.get());
        go_on = stop ? 0 : 1;  // rank 0 decides
        ASSERT_OK(ring->Broadcast(&go_on, sizeof(go_on), 0));
      }
    });
  }
  while (running < 3) std::this_thread::yield();
  Disturb(addresses, 5);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(last, std::vector<uint32_t>(3, first[0]));
}

}  // namespace
}  // namespace ringlet
