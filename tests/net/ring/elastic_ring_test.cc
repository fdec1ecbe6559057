// Rings that go on with those who are there.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/byte_order.h"
#include "net/launch/local_ports.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"

namespace ringlet {
namespace {

std::vector<std::string> Addresses(int size) {
  std::vector<int> ports;  // that stay free while nobody listens
  EXPECT_TRUE(FindLocalPorts(size, &ports).ok());
  std::vector<std::string> out;
  for (const int port : ports) {
    out.push_back("127.0.0.1:" + std::to_string(port));
  }
  return out;
}

RingOptions OptionsOf(const std::vector<std::string>& addresses, int worker) {
  RingOptions options;
  options.addresses = addresses;
  options.rank = worker;
  options.timeout_seconds = 1;
  options.start_timeout_seconds = 300;  // whoever waits for it has failed
  options.min_workers = 1;
  return options;
}

struct Seen {
  int workers = 0;  // who takes part in this step, as a bit each
  bool visited = false, all_end = false;  // … one of them says
};

// `floats`: how many more are summed, and looked at.
Status Step(Collective* ring, size_t floats, bool all_end, Seen* seen) {
  int32_t said[] = {1 << ring->worker(), ring->visited() ? 1 : 0,
                    all_end ? 1 : 0};
  Collective::Ticket tickets[2];
  std::vector<float> v(floats, static_cast<float>(ring->rank() + 1));
  RINGLET_RETURN_IF_ERROR(ring->StartAllReduceInts(said, 3, &tickets[0]));
  RINGLET_RETURN_IF_ERROR(
      ring->StartAllReduce(v.data(), v.size(), &tickets[1]));
  RINGLET_RETURN_IF_ERROR(ring->Wait(tickets[0]));
  RINGLET_RETURN_IF_ERROR(ring->Wait(tickets[1]));
  const int size = ring->size();
  EXPECT_EQ(v.back(), static_cast<float>(size * (size + 1) / 2));
  EXPECT_EQ(__builtin_popcount(static_cast<unsigned>(said[0])), size);
  *seen = {said[0], said[1] != 0, said[2] != 0};
  return Status();
}

// What a ring of few must do as one of many.
void ExpectAllCalls(Collective* ring) {
  const int rank = ring->rank();
  const int size = ring->size();
  std::vector<int> all(static_cast<size_t>(size), -1);
  Status status = ring->AllGather(&rank, sizeof(rank), all.data());
  for (int r = 0; status.ok() && r < size; ++r) {
    EXPECT_EQ(all[static_cast<size_t>(r)], r);
    int root = rank;
    status = ring->Broadcast(&root, sizeof(root), r);
    if (status.ok()) {
      EXPECT_EQ(root, r);
    }
  }
  if (status.ok()) status = ring->Barrier();
  EXPECT_TRUE(status.ok() || status.code() == Code::kPeerLost)
      << status.message();
}

// A worker that sums, and forms the ring anew where one was lost or has come.
struct Worker {
  std::atomic<int> sees{0};  // who took part in its last step
  std::atomic<int> size{0};
  std::atomic<bool> ends{false};
  std::atomic<bool> all_end{false};  // after one and the same step
  std::string lost;                  // of its last loss; while no step follows
  std::thread thread;

  ~Worker() {
    ends = true;
    if (thread.joinable()) thread.join();
  }
  void Run(const RingOptions& options) {
    std::unique_ptr<Collective> ring;
    Status status = RingCollective::Open(options, &ring);
    for (int n = 0; status.ok() && !ends;) {  // steps of this view
      Seen seen;
      EXPECT_TRUE(ring->elastic());
      EXPECT_EQ(ring->worker(), options.rank);
      EXPECT_EQ(ring->address(ring->rank()),
                options.addresses[static_cast<size_t>(options.rank)]);
      status = Step(ring.get(), n % 2 == 0 ? 10 : 70000, all_end, &seen);
      if (status.ok()) {
        if (n++ == 0) ExpectAllCalls(ring.get());
        size = ring->size();
        sees = seen.workers;
        if (seen.all_end) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      if (status.code() == Code::kPeerLost) lost = status.message();
      if (seen.visited || status.code() == Code::kPeerLost) {
        status = ring->Reform();
        n = 0;
      }
    }
    EXPECT_TRUE(status.ok()) << status.message();
    sees = 0;
  }
  void Start(const RingOptions& options) {
    ends = false;
    thread = std::thread([this, options] { Run(options); });
  }
  void End() {
    ends = true;
    thread.join();
  }
};

class ElasticRingTest : public testing::TestWithParam<bool> {
 protected:
  RingOptions Of(int worker) const {
    RingOptions options = OptionsOf(addresses_, worker);
    options.local_sockets = GetParam();
    return options;
  }
  // Until each of these is in a step with all of these, and nobody else.
  bool Meet(int workers) {
    for (int i = 0; i < 12000; ++i) {
      bool all = true;
      for (int w = 0; w < 3; ++w) {
        all = all && ((workers >> w & 1) == 0 || workers_[w].sees == workers);
      }
      if (all) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const std::vector<std::string> addresses_ = Addresses(3);
  Worker workers_[3];
};

TEST_P(ElasticRingTest, GoesOnWithoutTheLostAndTakesThemBack) {
  // Its process is killed, so nobody says goodbye for it.
  const pid_t child = fork();
  if (child == 0) {
    Worker().Run(Of(1));
    _exit(1);
  }
  workers_[0].Start(Of(0));
  workers_[2].Start(Of(2));
  for (int i = 0; i < 12000 && workers_[0].sees != 7; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(workers_[0].sees, 7);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(Meet(5));
  EXPECT_EQ(workers_[2].size, 2);
  // It comes back, in another process or in this one.
  workers_[1].Start(Of(1));
  ASSERT_TRUE(Meet(7));
  // A busy machine may have lost another in between.
  EXPECT_NE(workers_[0].lost.find("was lost"), std::string::npos)
      << workers_[0].lost;
  // One by one they go, the last goes on alone, and takes all back.
  workers_[0].End();
  ASSERT_TRUE(Meet(6));
  workers_[1].End();
  ASSERT_TRUE(Meet(4));
  EXPECT_EQ(workers_[2].size, 1);
  workers_[0].Start(Of(0));
  workers_[1].Start(Of(1));
  ASSERT_TRUE(Meet(7));
  for (Worker& worker : workers_) worker.ends = true;
  for (Worker& worker : workers_) worker.thread.join();
}

INSTANTIATE_TEST_SUITE_P(Sockets, ElasticRingTest, testing::Bool());

// More than of which a ring that is not elastic links every pair.
TEST(ElasticRingOfManyTest, GoesOnWithoutSomeAndTakesThemBack) {
  constexpr int kSize = 20;
  const std::vector<std::string> addresses = Addresses(kSize);
  std::vector<Worker> workers(kSize);
  const auto start = [&](int w) {
    RingOptions options = OptionsOf(addresses, w);
    options.timeout_seconds = 2;
    workers[static_cast<size_t>(w)].Start(options);
  };
  const auto meet = [&](int members) {
    for (int i = 0; i < 12000; ++i) {
      bool all = true;
      for (int w = 0; w < kSize; ++w) {
        all = all && ((members >> w & 1) == 0 ||
                      workers[static_cast<size_t>(w)].sees == members);
      }
      if (all) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  for (int w = 0; w < kSize; ++w) start(w);
  constexpr int kAll = (1 << kSize) - 1;
  ASSERT_TRUE(meet(kAll));
  workers[0].End();
  workers[17].End();
  ASSERT_TRUE(meet(kAll & ~1 & ~(1 << 17)));
  start(17);
  ASSERT_TRUE(meet(kAll & ~1));
  for (Worker& worker : workers) worker.ends = true;
}

TEST(ElasticOptionsTest, TooFewAreToldFromTooMany) {
  RingOptions options = OptionsOf(Addresses(3), 0);
  options.start_timeout_seconds = 1.5;  // more than between two dials
  options.min_workers = 2;
  std::unique_ptr<Collective> ring;
  const Status few = RingCollective::Open(options, &ring);
  const std::string text = few.message();
  EXPECT_EQ(few.code(), Code::kDeadlineExceeded);
  for (const char* part : {"1 of 3 are there", "at least 2 (min_workers)",
                           "missing are rank 1 (", "; rank 2 ("}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  options.min_workers = 4;
  EXPECT_EQ(RingCollective::Open(options, &ring).code(),
            Code::kInvalidArgument);
  options.min_workers = -1;
  EXPECT_EQ(RingCollective::Open(options, &ring).code(),
            Code::kInvalidArgument);
  options.min_workers = 1;
  for (int i = 1; i < 63; ++i) {
    options.addresses.push_back("127.0.0.1:" + std::to_string(i));
  }
  const Status many = RingCollective::Open(options, &ring);
  EXPECT_EQ(many.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(many.message()).find("at most 64"), std::string::npos);
}

TEST(ElasticOptionsTest, ElasticWorkersAndOthersDoNotMeet) {
  const std::vector<std::string> addresses = Addresses(2);
  std::vector<std::thread> threads;
  for (const int worker : {0, 1}) {
    threads.emplace_back([&, worker] {
      RingOptions options = OptionsOf(addresses, worker);
      options.min_workers = worker;
      options.start_timeout_seconds = 60;
      std::unique_ptr<Collective> ring;
      const Status status = RingCollective::Open(options, &ring);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(status.message()).find("min_workers"),
                std::string::npos)
          << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Its node knows: it takes nobody in any more.
// The others compute for longer than it would wait for them, and do not know
// that it is lost.
TEST(BusyRingTest, OneThatIsBackWaitsForThoseThatCompute) {
  for (const int lost : {0, 2}) {
    SCOPED_TRACE(lost);
    const std::vector<std::string> addresses = Addresses(3);
    std::atomic<bool> back{false};
    std::vector<std::thread> others;
    std::unique_ptr<Collective> ring;
    for (int w = 0; w < 3; ++w) {
      if (w == lost) continue;
      others.emplace_back([&, w] {
        std::unique_ptr<Collective> own;
        ASSERT_TRUE(RingCollective::Open(OptionsOf(addresses, w), &own).ok());
        ASSERT_TRUE(own->Barrier().ok());
        while (!back) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(3000 + 200 * w));
        EXPECT_EQ(own->Barrier().code(), Code::kPeerLost);
        const Status reformed = own->Reform();
        EXPECT_TRUE(reformed.ok()) << reformed.message();
        EXPECT_EQ(own->size(), 3);
        ExpectAllCalls(own.get());
      });
    }
    RingOptions options = OptionsOf(addresses, lost);
    ASSERT_TRUE(RingCollective::Open(options, &ring).ok());
    ASSERT_TRUE(ring->Barrier().ok());
    ring.reset();
    options.start_timeout_seconds = 1.5;  // more than between two dials
    back = true;
    const Status opened = RingCollective::Open(options, &ring);
    EXPECT_TRUE(opened.ok()) << opened.message();
    if (opened.ok()) {
      EXPECT_EQ(ring->size(), 3);
      ExpectAllCalls(ring.get());
    }
    ring.reset();
    for (std::thread& other : others) other.join();
  }
}

// The others run, or compute still where they have lost it.
TEST(ElasticOptionsTest, OneThatComesBackWithOthersEndsWithTheField) {
  for (const bool known : {true, false}) {
    for (const int comes : {0, 2}) {
      SCOPED_TRACE(comes);
      const std::vector<std::string> addresses = Addresses(3);
      std::atomic<int> formed{0};
      std::atomic<bool> ends{false};
      std::vector<std::thread> others;
      std::unique_ptr<Collective> ring;
      for (int w = 0; w < 3; ++w) {
        if (w == comes) continue;
        others.emplace_back([&, w] {
          std::unique_ptr<Collective> own;
          ASSERT_TRUE(RingCollective::Open(OptionsOf(addresses, w), &own).ok());
          if (known) {
            EXPECT_EQ(own->Barrier().code(), Code::kPeerLost);
            EXPECT_TRUE(own->Reform().ok());
            EXPECT_EQ(own->size(), 2);
          }
          ++formed;
          while (!ends) std::this_thread::yield();
        });
      }
      RingOptions options = OptionsOf(addresses, comes);
      ASSERT_TRUE(RingCollective::Open(options, &ring).ok());
      ring.reset();
      while (formed < 2) std::this_thread::yield();
      options.bytes_per_pack *= 2;
      options.start_timeout_seconds = 4;
      const Status opened = RingCollective::Open(options, &ring);
      EXPECT_EQ(opened.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(opened.message()).find("bytes_per_pack"),
                std::string::npos)
          << opened.message();
      ring.reset();
      ends = true;
      for (std::thread& other : others) other.join();
    }
  }
}

// Those who run need not meet anew, and their user is told why it is not back;
// it ends once all have heard it.
TEST(ElasticOptionsTest, OneThatCannotComeBackSaysSo) {
  for (const int comes : {0, 2}) {
    SCOPED_TRACE(comes);
    const std::vector<std::string> addresses = Addresses(3);
    Worker workers[3];
    for (int w = 0; w < 3; ++w) {
      if (w == comes) continue;
      RingOptions options = OptionsOf(addresses, w);
      options.start_timeout_seconds = 0.1;
      workers[w].Start(options);
    }
    const int others = 7 & ~(1 << comes);
    for (const Worker& worker : workers) {
      if (&worker == &workers[comes]) continue;
      while (worker.sees != others) std::this_thread::yield();
    }
    testing::internal::CaptureStderr();
    // As what a peer says that speaks otherwise, which ends a wait.
    Withdrawal::Begin(OptionsOf(addresses, comes),
                      Error(Code::kUnimplemented, "it has no such layer"))
        .reset();
    for (Worker& worker : workers) {
      if (&worker == &workers[comes]) continue;
      EXPECT_EQ(worker.sees, others);
      worker.End();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("cannot take part: it has no such layer"),
              std::string::npos)
        << said;
    EXPECT_EQ(said.find("has a worker here already"), std::string::npos)
        << said;
  }
}

// Nor does it end the wait of those who need it.
TEST(ElasticOptionsTest, OneThatCannotComeBackIsWaitedFor) {
  const std::vector<std::string> addresses = Addresses(3);
  Worker workers[3];
  const auto of = [&](int worker) {
    RingOptions options = OptionsOf(addresses, worker);
    options.min_workers = 3;
    return options;
  };
  const auto meet = [&](int w) {
    while (workers[w].sees != 7) std::this_thread::yield();
  };
  for (int w = 0; w < 3; ++w) workers[w].Start(of(w));
  for (int w = 0; w < 3; ++w) meet(w);
  workers[0].End();
  for (const Code code : {Code::kNotFound, Code::kUnimplemented}) {
    Withdrawal::Begin(of(0), Error(code, "it has no %s", CodeName(code)))
        .reset();
  }
  for (Worker& worker : workers) worker.sees = 0;
  workers[0].Start(of(0));
  for (int w = 0; w < 3; ++w) meet(w);
  // Of which none can go on without the others.
  workers[0].all_end = true;
  for (Worker& worker : workers) worker.thread.join();
}

TEST(ElasticOptionsTest, OneAloneMayAbort) {
  RingOptions options = OptionsOf(Addresses(2), 0);
  options.start_timeout_seconds = 0.1;
  std::unique_ptr<Collective> ring;
  ASSERT_TRUE(RingCollective::Open(options, &ring).ok());
  ASSERT_EQ(ring->size(), 1);
  ring->Abort(InvalidArgument("its callback failed"));
  const Status status = ring->Barrier();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("rank 0 ("), std::string::npos)
      << status.message();
}

TEST(ElasticOptionsTest, AListOfOneIsARingOfOne) {
  std::unique_ptr<Collective> ring;
  ASSERT_TRUE(RingCollective::Open(OptionsOf(Addresses(1), 0), &ring).ok());
  EXPECT_EQ(ring->size(), 1);
  ExpectAllCalls(ring.get());
  EXPECT_TRUE(ring->Reform().ok());
  EXPECT_FALSE(ring->visited());
}

}  // namespace
}  // namespace ringlet
