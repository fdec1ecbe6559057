// Rings that continue with the present workers.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/threads.h"
#include "core/base/byte_order.h"
#include "core/base/events.h"
#include "net/ring/ring_collective.h"
#include "net/ring/withdrawal.h"

namespace ringlet {
namespace {

RingOptions MakeOptions(const std::vector<std::string>& addresses, int worker) {
  RingOptions options;
  options.addresses = addresses;
  options.worker = worker;
  options.timeout_seconds = 4;          // no running worker is silent so long
  options.start_timeout_seconds = 300;  // a test that waits so long has failed
  options.min_workers = 1;
  return options;
}

struct StepResult {
  int workers = 0;  // the members of this step, a bit each
  bool has_joiner = false, all_end = false;  // a member has reported it
};

// Sums the flags of all workers, and `floats` floats, and checks the sums.
Status Step(Collective* ring, size_t floats, bool all_end, StepResult* result) {
  int32_t flags[] = {1 << ring->worker(), ring->has_joiner() ? 1 : 0,
                     all_end ? 1 : 0};
  Collective::Ticket tickets[2];
  std::vector<float> v(floats, static_cast<float>(ring->rank() + 1));
  RINGLET_RETURN_IF_ERROR(ring->StartAllReduceInts(flags, 3, &tickets[0]));
  RINGLET_RETURN_IF_ERROR(
      ring->StartAllReduce(v.data(), v.size(), &tickets[1]));
  RINGLET_RETURN_IF_ERROR(ring->Wait(tickets[0]));
  RINGLET_RETURN_IF_ERROR(ring->Wait(tickets[1]));
  const int size = ring->size();
  EXPECT_EQ(v.back(), static_cast<float>(size * (size + 1) / 2));
  EXPECT_EQ(__builtin_popcount(static_cast<unsigned>(flags[0])), size);
  *result = {flags[0], flags[1] != 0, flags[2] != 0};
  return Status();
}

// Makes every collective call, and checks its results.
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

// A worker that sums, and forms a new view after a loss or for a joiner.
struct Worker {
  std::atomic<int> members{0};  // the members of its last step
  std::atomic<int> size{0};
  std::atomic<bool> ends{false};
  std::atomic<bool> all_end{false};  // all end after the same step
  std::string lost;                  // the message of its last loss
  std::thread thread;

  ~Worker() {
    ends = true;
    if (thread.joinable()) thread.join();
  }
  void Run(const RingOptions& options) {
    std::unique_ptr<Collective> ring;
    Status status = RingCollective::Open(options, &ring);
    for (int n = 0; status.ok() && !ends;) {  // steps of this view
      StepResult result;
      EXPECT_TRUE(ring->elastic());
      EXPECT_EQ(ring->worker(), options.worker);
      EXPECT_EQ(ring->address(ring->rank()),
                options.addresses[static_cast<size_t>(options.worker)]);
      status = Step(ring.get(), n % 2 == 0 ? 10 : 70000, all_end, &result);
      if (status.ok()) {
        if (n++ == 0) ExpectAllCalls(ring.get());
        size = ring->size();
        members = result.workers;
        if (result.all_end) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      if (status.code() == Code::kPeerLost) lost = status.message();
      if (result.has_joiner || status.code() == Code::kPeerLost) {
        status = ring->Reform();
        n = 0;
      }
    }
    EXPECT_OK(status);
    members = 0;
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
    RingOptions options = MakeOptions(addresses_, worker);
    options.local_sockets = GetParam();
    return options;
  }
  // Waits until each of these workers is in a step with exactly these workers.
  bool WaitForView(std::initializer_list<int> workers) {
    int mask = 0;
    for (const int w : workers) mask |= 1 << w;
    return Eventually([&] {
      return std::all_of(workers.begin(), workers.end(),
                         [&](int w) { return workers_[w].members == mask; });
    });
  }

  const std::vector<std::string> addresses_ = FreeAddresses(3);
  Worker workers_[3];
};

TEST_P(ElasticRingTest, Ring_WorkersAreLost_ContinuesAndAdmitsThemAgain) {
  // Worker 1 is a process that is killed, so it sends no goodbye.
  const pid_t child = fork();
  if (child == 0) {
    Worker().Run(Of(1));
    _exit(1);
  }
  workers_[0].Start(Of(0));
  workers_[2].Start(Of(2));
  EXPECT_TRUE(Eventually([&] { return workers_[0].members == 7; }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(WaitForView({0, 2}));
  EXPECT_EQ(workers_[2].size, 2);
  // The worker is started again, in this process.
  workers_[1].Start(Of(1));
  ASSERT_TRUE(WaitForView({0, 1, 2}));
  // A busy machine may have lost another in between.
  EXPECT_TRUE(Contains(workers_[0].lost, "was lost"));
  // Two workers end, one after the other. The last one continues alone, and
  // both join again.
  workers_[0].End();
  ASSERT_TRUE(WaitForView({1, 2}));
  workers_[1].End();
  ASSERT_TRUE(WaitForView({2}));
  EXPECT_EQ(workers_[2].size, 1);
  workers_[0].Start(Of(0));
  workers_[1].Start(Of(1));
  ASSERT_TRUE(WaitForView({0, 1, 2}));
  for (Worker& worker : workers_) worker.ends = true;
  for (Worker& worker : workers_) worker.thread.join();
}

INSTANTIATE_TEST_SUITE_P(Sockets, ElasticRingTest, testing::Bool());

// More workers than kMaxFullyConnected.
TEST(ElasticRingOfManyTest, Ring_TwoOfTwentyLeave_ContinuesAndAdmitsOneAgain) {
  constexpr int kSize = 20;
  const std::vector<std::string> addresses = FreeAddresses(kSize);
  std::vector<Worker> workers(kSize);
  const auto start = [&](int w) {
    RingOptions options = MakeOptions(addresses, w);
    options.timeout_seconds = 8;
    workers[static_cast<size_t>(w)].Start(options);
  };
  const auto wait_for_view = [&](int members) {
    return Eventually([&] {
      for (size_t w = 0; w < kSize; ++w) {
        if ((members >> w & 1) != 0 && workers[w].members != members) {
          return false;
        }
      }
      return true;
    });
  };
  for (int w = 0; w < kSize; ++w) start(w);
  constexpr int kAll = (1 << kSize) - 1;
  ASSERT_TRUE(wait_for_view(kAll));
  workers[0].End();
  workers[17].End();
  ASSERT_TRUE(wait_for_view(kAll & ~1 & ~(1 << 17)));
  start(17);
  ASSERT_TRUE(wait_for_view(kAll & ~1));
  for (Worker& worker : workers) worker.ends = true;
}

TEST(ElasticOptionsTest, Open_TooFewOrTooManyWorkers_IsAnError) {
  RingOptions options = MakeOptions(FreeAddresses(3), 0);
  options.start_timeout_seconds = 1.5;  // more than between two dials
  options.min_workers = 2;
  std::unique_ptr<Collective> ring;
  const Status few = RingCollective::Open(options, &ring);
  const std::string text = few.message();
  EXPECT_EQ(few.code(), Code::kDeadlineExceeded);
  for (const char* part : {"1 of 3 are present", "at least 2 (min_workers)",
                           "missing are worker 1 (", "; worker 2 ("}) {
    EXPECT_TRUE(Contains(text, part));
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
  EXPECT_TRUE(Contains(many, "at most 64"));
}

TEST(ElasticOptionsTest, Open_ElasticAndOtherWorkers_AreRefused) {
  const std::vector<std::string> addresses = FreeAddresses(2);
  RunThreads(2, [&](int worker) {
    RingOptions options = MakeOptions(addresses, worker);
    options.min_workers = worker;
    options.start_timeout_seconds = 60;
    std::unique_ptr<Collective> ring;
    const Status status = RingCollective::Open(options, &ring);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, "min_workers"));
  });
}

// The other workers compute for longer than start_timeout, and have not noticed
// the loss. busy_workers_test tests this in virtual time.
TEST(BusyRingTest, ReturningWorker_OthersCompute_WaitsForThem) {
  for (const int lost : {0, 2}) {
    SCOPED_TRACE(lost);
    const std::vector<std::string> addresses = FreeAddresses(3);
    std::atomic<bool> back{false};
    std::vector<std::thread> others;
    std::unique_ptr<Collective> ring;
    for (int w = 0; w < 3; ++w) {
      if (w == lost) continue;
      others.emplace_back([&, w] {
        std::unique_ptr<Collective> own;
        ASSERT_OK(RingCollective::Open(MakeOptions(addresses, w), &own));
        ASSERT_OK(own->Barrier());
        ASSERT_TRUE(Eventually([&] { return back.load(); }));
        // A minimum: a longer sleep does not change the result.
        std::this_thread::sleep_for(std::chrono::milliseconds(3000 + 200 * w));
        EXPECT_EQ(own->Barrier().code(), Code::kPeerLost);
        EXPECT_OK(own->Reform());
        EXPECT_EQ(own->size(), 3);
        ExpectAllCalls(own.get());
      });
    }
    RingOptions options = MakeOptions(addresses, lost);
    ASSERT_OK(RingCollective::Open(options, &ring));
    ASSERT_OK(ring->Barrier());
    ring.reset();
    options.start_timeout_seconds = 1.5;  // more than between two dials
    back = true;
    const Status opened = RingCollective::Open(options, &ring);
    EXPECT_OK(opened);
    if (opened.ok()) {
      EXPECT_EQ(ring->size(), 3);
      ExpectAllCalls(ring.get());
    }
    ring.reset();
    for (std::thread& other : others) other.join();
  }
}

// The other workers have noticed the loss (loss_known), or still compute.
TEST(ElasticOptionsTest, Open_ReturnsWithAnotherOption_FailsAndNamesIt) {
  for (const bool loss_known : {true, false}) {
    for (const int joiner : {0, 2}) {
      SCOPED_TRACE(joiner);
      const std::vector<std::string> addresses = FreeAddresses(3);
      std::atomic<int> formed{0};
      std::atomic<bool> ends{false};
      std::vector<std::thread> others;
      std::unique_ptr<Collective> ring;
      for (int w = 0; w < 3; ++w) {
        if (w == joiner) continue;
        others.emplace_back([&, w] {
          std::unique_ptr<Collective> own;
          ASSERT_OK(RingCollective::Open(MakeOptions(addresses, w), &own));
          if (loss_known) {
            EXPECT_EQ(own->Barrier().code(), Code::kPeerLost);
            EXPECT_OK(own->Reform());
            EXPECT_EQ(own->size(), 2);
          }
          ++formed;
          EXPECT_TRUE(Eventually([&] { return ends.load(); }));
        });
      }
      RingOptions options = MakeOptions(addresses, joiner);
      ASSERT_OK(RingCollective::Open(options, &ring));
      ring.reset();
      EXPECT_TRUE(Eventually([&] { return formed == 2; }));
      options.bytes_per_pack *= 2;
      const Status opened = RingCollective::Open(options, &ring);
      EXPECT_EQ(opened.code(), Code::kInvalidArgument);
      EXPECT_TRUE(Contains(opened, "bytes_per_pack"));
      ring.reset();
      ends = true;
      for (std::thread& other : others) other.join();
    }
  }
}

// The running workers need no new view, and report why it is not back. It ends
// once all have the reason.
TEST(ElasticOptionsTest, Withdrawal_OthersRun_TheyReportItsReason) {
  for (const int joiner : {0, 2}) {
    SCOPED_TRACE(joiner);
    const std::vector<std::string> addresses = FreeAddresses(3);
    Worker workers[3];
    for (int w = 0; w < 3; ++w) {
      if (w == joiner) continue;
      RingOptions options = MakeOptions(addresses, w);
      options.start_timeout_seconds = 0.1;
      workers[w].Start(options);
    }
    const int others = 7 & ~(1 << joiner);
    for (const Worker& worker : workers) {
      if (&worker == &workers[joiner]) continue;
      ASSERT_TRUE(Eventually([&] { return worker.members == others; }));
    }
    testing::internal::CaptureStderr();
    // The code that a worker of another version would send, which ends a wait.
    Withdrawal::Begin(MakeOptions(addresses, joiner),
                      Error(Code::kUnimplemented, "it has no such layer"))
        .reset();
    for (Worker& worker : workers) {
      if (&worker == &workers[joiner]) continue;
      EXPECT_EQ(worker.members, others);
      worker.End();
    }
    const std::string output = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(Contains(output, "cannot take part: it has no such layer"));
    EXPECT_FALSE(Contains(output, "has a worker here already"));
  }
}

// Counts the events of workers that worker 0 has refused.
class RefusalCounter final : public EventSink {
 public:
  RefusalCounter() { g_events = this; }
  ~RefusalCounter() { g_events = nullptr; }
  void Write(const char* fields, size_t bytes) override {
    constexpr std::string_view kRefused =
        "\"event\":\"refused_by\",\"of\":\"0\"";
    if (std::string_view(fields, bytes).substr(0, kRefused.size()) == kRefused)
      ++by_worker_0;
  }

  std::atomic<int> by_worker_0{0};
};

// The withdrawal does not end the wait of workers that need this worker.
TEST(ElasticOptionsTest, Withdrawal_OthersNeedTheWorker_TheyWaitForIt) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  Worker workers[3];
  const auto options_of = [&](int worker) {
    RingOptions options = MakeOptions(addresses, worker);
    options.min_workers = 3;
    return options;
  };
  const auto wait_for_all = [&](int w) {
    ASSERT_TRUE(Eventually([&] { return workers[w].members == 7; }));
  };
  for (int w = 0; w < 3; ++w) workers[w].Start(options_of(w));
  for (int w = 0; w < 3; ++w) wait_for_all(w);
  workers[0].End();
  for (const Code code : {Code::kNotFound, Code::kUnimplemented}) {
    Withdrawal::Begin(options_of(0),
                      Error(code, "it has no %s", CodeName(code)))
        .reset();
  }
  // The other workers dial it, and it refuses them.
  RefusalCounter refusals;
  RingOptions differs = options_of(0);
  differs.bytes_per_pack *= 2;
  std::unique_ptr<Collective> ring;
  EXPECT_EQ(RingCollective::Open(differs, &ring).code(),
            Code::kInvalidArgument);
  ring.reset();
  EXPECT_TRUE(Eventually([&] { return refusals.by_worker_0 > 0; }));
  for (Worker& worker : workers) worker.members = 0;
  workers[0].Start(options_of(0));
  for (int w = 0; w < 3; ++w) wait_for_all(w);
  // With min_workers = 3 no worker can continue without the other workers.
  workers[0].all_end = true;
  for (Worker& worker : workers) worker.thread.join();
}

TEST(ElasticOptionsTest, Abort_OneWorkerAlone_FailsTheNextCall) {
  RingOptions options = MakeOptions(FreeAddresses(2), 0);
  options.start_timeout_seconds = 0.1;
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(options, &ring));
  ASSERT_EQ(ring->size(), 1);
  ring->Abort(InvalidArgument("its callback failed"));
  const Status status = ring->Barrier();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "rank 0 ("));
}

TEST(ElasticOptionsTest, Open_ListOfOne_IsARingOfOne) {
  std::unique_ptr<Collective> ring;
  ASSERT_OK(RingCollective::Open(MakeOptions(FreeAddresses(1), 0), &ring));
  EXPECT_EQ(ring->size(), 1);
  ExpectAllCalls(ring.get());
  EXPECT_OK(ring->Reform());
  EXPECT_FALSE(ring->has_joiner());
}

}  // namespace
}  // namespace ringlet
