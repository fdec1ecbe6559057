// Names of hosts: their look-up, and the addresses on which a worker listens.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "net/ring/withdrawal.h"
#include "net/transport/name_lookup.h"
#include "net/transport/own_addresses.h"
#include "net/transport/socket_address.h"
#include "ringlet/status.h"
#include "thread_ring.h"

namespace ringlet {
namespace {

// A resolver of a few names, each with several addresses.
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

// While an object exists, only these names resolve.
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
  EXPECT_OK(NumericAddress({host, port}, &address));
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

// Rank 0 can listen on only one address of its name. The other ranks first try
// an address without a listener, and reach it by a later one.
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
        RingOptions options = MakeOptions(addresses, rank);
        options.local_sockets = local;
        std::unique_ptr<Collective> ring;
        const Status status = RingCollective::Open(options, &ring);
        EXPECT_OK(status) << name;
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
  // A numeric address is reported and not changed, since the user chose it.
  find({{"127.0.0.1", 7000}, {"192.0.2.77", 7001}});
  EXPECT_EQ(Texts(own.addresses), std::vector<std::string>{"127.0.0.1:7000"});
  EXPECT_TRUE(Contains(own.warning, "worker 1 (192.0.2.77:7001)"));
  EXPECT_TRUE(own.complete);
  // There is no warning if a name has another address too, or if all workers
  // are on one host.
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
  // Without a route to the other host the line has only the remedy.
  route_finder = [](const sockaddr_storage&, sockaddr_storage*) {
    return false;
  };
  find({me, far});
  EXPECT_EQ(own.addresses.size(), 1u);
  EXPECT_TRUE(Contains(own.warning, "/etc/hosts"));
  EXPECT_FALSE(own.complete);
}

// This host has no route to the first address of the other host.
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
    const RingOptions options = MakeOptions(list, 0);
    std::unique_ptr<Collective> ring;
    EXPECT_EQ(RingCollective::Open(options, &ring).code(),
              Code::kInvalidArgument);
  });
  EXPECT_TRUE(AwaitListener("127.0.0.1:" + mine));
  Withdrawal::Begin(MakeOptions(list, 1), InvalidArgument("that was all"))
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
    RingOptions options = MakeOptions(
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

// A worker under a name, and one under an address.
std::vector<std::string> OwnNameAndAnAddress() {
  const std::vector<int> ports = FreePorts(2);
  return {"me.invalid:" + std::to_string(ports[0]),
          "127.0.0.1:" + std::to_string(ports[1])};
}

// Runs `zero`. When it has got an unusable address twice, the address becomes
// usable, and `one` runs beside it.
void RunWithLateAddress(const std::function<void()>& zero,
                        const std::function<void()>& one) {
  std::atomic<bool> done{false};
  std::thread waiting([&] {
    zero();
    done = true;
  });
  while (!done && AnswersGiven() < 2) std::this_thread::yield();
  Answer("127.0.0.1");
  if (!done) one();
  waiting.join();
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
  const std::vector<std::string> addresses = OwnNameAndAnAddress();
  const auto one = [&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 1), &ring));
    ExpectSums(ring.get(), 1000);
  };
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  const std::string port = addresses[0].substr(std::strlen("me.invalid:"));
  sockaddr_storage taken = Numeric("127.0.0.3", std::stoi(port));
  ASSERT_EQ(
      bind(other, reinterpret_cast<sockaddr*>(&taken), sizeof(sockaddr_in)), 0);
  ASSERT_EQ(listen(other, 1), 0);
  std::thread first(one);
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 0), &ring));
  ExpectSums(ring.get(), 1000);
  first.join();
  EXPECT_EQ(ring->Barrier().code(), Code::kPeerLost);
  Answer(GetParam());
  const auto zero = [&] {
    ASSERT_OK(ring->Reform());
    ExpectSums(ring.get(), 1000);
  };
  RunWithLateAddress(zero, one);
  close(other);
}

TEST(NamesTest, Open_ElasticRingWithoutItsAddress_WaitsForIt) {
  const KnownNamesOnly names({});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = OneAnswer;
  Answer("192.0.2.1");
  const std::vector<std::string> addresses = OwnNameAndAnAddress();
  const auto open = [&](int rank) {
    RingOptions options = MakeOptions(addresses, rank);
    options.min_workers = 2;
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    ExpectSums(ring.get(), 1000);
  };
  RunWithLateAddress([&] { open(0); }, [&] { open(1); });
}

TEST(NamesTest, Reform_OwnAddressStaysUnusable_FailsAtDeadline) {
  const KnownNamesOnly names({});
  if (!names.work()) GTEST_SKIP() << "a static program takes no names";
  NameLookup::resolver = OneAnswer;
  Answer("127.0.0.1");
  const std::vector<std::string> addresses = OwnNameAndAnAddress();
  std::thread one([&] {
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(MakeOptions(addresses, 1), &ring));
    ExpectSums(ring.get(), 1000);
  });
  RingOptions options = MakeOptions(addresses, 0);
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

// A resolver without a network: it fails when the test requests it.
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

TEST(RingCollectiveTest, Lookup_UnknownName_ErrorNamesIt) {
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

}  // namespace
}  // namespace ringlet
