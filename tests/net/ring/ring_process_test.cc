// Rings of real processes: killed, stopped, misconfigured.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/free_ports.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

using Steady = std::chrono::steady_clock;

void Pause(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// A deadline in seconds that only a hanging worker exceeds.
constexpr double kLong = 300;

std::string WorkerPath() {
  return EnvironmentOr("RINGLET_BUILD", "build") + "/tests/ring_worker";
}

// A process that ends with its owner; its output goes to a file.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::string& output)
      : output_(output) {
    std::vector<char*> argv;
    for (const std::string& a : arguments) {
      argv.push_back(const_cast<char*>(a.c_str()));
    }
    argv.push_back(nullptr);
    const int fd = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fd, 1);
      dup2(fd, 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(fd);
  }
  ~Child() {
    if (status_ != kRunning) return;
    Signal(SIGKILL);
    Signal(SIGCONT);
    Wait(60);
  }

  void Signal(int number) { kill(pid_, number); }
  // Processor seconds of all its threads so far.
  double CpuSeconds() const {
    clockid_t clock;
    timespec used = {};
    EXPECT_EQ(clock_getcpuclockid(pid_, &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &used), 0);
    return static_cast<double>(used.tv_sec) +
           static_cast<double>(used.tv_nsec) / 1e9;
  }
  std::string Output() const { return ReadWhole(output_); }
  // The process's line with the digest, without the lines that a slow machine
  // adds.
  std::string Digest() const {
    const std::string all = Output();
    const size_t begin = std::min(all.rfind("digest "), all.size());
    return all.substr(begin, all.find('\n', begin) - begin);
  }
  // Returns the number of shared segments that the process has mapped.
  int SharedSegments() const {
    return CountOccurrences(
        ReadWhole("/proc/" + std::to_string(pid_) + "/maps"), "/memfd:ringlet");
  }

  // The exit code, 128 + a signal, or -1 after `seconds` seconds.
  int Wait(double seconds) {
    const auto end = Steady::now() + std::chrono::duration<double>(seconds);
    while (status_ == kRunning) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        status_ =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      } else if (Steady::now() > end) {
        return -1;
      } else {
        Pause(5);
      }
    }
    return status_;
  }

  bool AwaitUp() { return AwaitText("up\n"); }
  // Waits for the text. Returns false if the process ends without it.
  bool AwaitText(const std::string& text) {
    return AwaitWhileRunning(
        [&] { return CountOccurrences(Output(), text) > 0; });
  }
  // Waits until the worker has made another round.
  bool AwaitRound() {
    const int before = Rounds();
    return AwaitWhileRunning([&] { return Rounds() > before; });
  }

 private:
  // Waits for `condition`. Returns false if the process ends, or after five
  // minutes.
  bool AwaitWhileRunning(const std::function<bool()>& condition) {
    bool is_true = false;
    EXPECT_TRUE(Eventually([&] {
      const bool ended = Wait(0) != -1;
      is_true = condition();
      return is_true || ended;
    }));
    return is_true;
  }
  // The number of lines that report a round.
  int Rounds() const { return CountOccurrences(Output(), "made "); }

  static constexpr int kRunning = -2;
  const std::string output_;
  pid_t pid_ = -1;
  int status_ = kRunning;
};

class RingProcessTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments(int rank, const std::string& addresses,
                                     const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {WorkerPath(), std::to_string(rank),
                                          addresses};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static std::string Joined(int size) {
    std::string joined;
    for (const std::string& address : FreeAddresses(size)) {
      joined += (joined.empty() ? "" : ",") + address;
    }
    return joined;
  }

  void StartRing(int size, const std::vector<std::string>& more) {
    const std::string joined = Joined(size);
    addresses_ = joined;
    for (int r = 0; r < size; ++r) Spawn(r, joined, more);
  }

  void Spawn(int rank, const std::string& addresses,
             const std::vector<std::string>& more) {
    workers_.push_back(std::make_unique<Child>(
        Arguments(rank, addresses, more),
        folder_ / ("worker" + std::to_string(workers_.size()))));
  }

  void WaitUntilUp() {
    for (auto& worker : workers_) ASSERT_TRUE(worker->AwaitUp());
  }
  // Waits until all workers have made round 1.
  void WaitForARound() {
    for (auto& worker : workers_) ASSERT_TRUE(worker->AwaitText("made 1\n"));
  }

  // All but `lost` end with EX_TEMPFAIL and name it; returns the slowest's
  // seconds.
  void ExpectAllName(int lost, const std::string& cause) {
    const auto begin = Steady::now();
    const std::string name = "rank " + std::to_string(lost) + " (127.0.0.1:";
    for (size_t r = 0; r < workers_.size(); ++r) {
      if (static_cast<int>(r) == lost) continue;
      EXPECT_EQ(workers_[r]->Wait(kLong), 75) << "rank " << r;
      const std::string output = workers_[r]->Output();
      EXPECT_TRUE(Contains(output, name));
      EXPECT_TRUE(Contains(output, "was lost: " + cause));
      EXPECT_TRUE(Contains(output, "generation 1, step "));
    }
    const double seconds =
        std::chrono::duration<double>(Steady::now() - begin).count();
    RecordProperty("seconds", std::to_string(seconds));
    std::printf("all ended after %.3f s: %s", seconds,
                workers_[lost == 0 ? 1 : 0]->Output().c_str());
  }

  // Waiting is sleep: well below a twentieth of a processor, where a loop that
  // looks again and again takes all it can get.
  void ExpectIdle(const char* waiting) {
    std::vector<double> before;
    for (auto& worker : workers_) before.push_back(worker->CpuSeconds());
    const auto begin = Steady::now();
    Pause(3000);
    const double seconds =
        std::chrono::duration<double>(Steady::now() - begin).count();
    for (size_t r = 0; r < workers_.size(); ++r) {
      const double share = (workers_[r]->CpuSeconds() - before[r]) / seconds;
      std::printf("%s: worker %zu uses %.2f %% of a processor\n", waiting, r,
                  100 * share);
      EXPECT_LT(share, 0.05) << waiting;
    }
  }

  TempFolder folder_;
  std::string addresses_;
  std::vector<std::unique_ptr<Child>> workers_;
};

TEST_F(RingProcessTest, Worker_Killed_IsNamedByAll) {
  // The timeout is long, so only the end of the connections can show the loss.
  StartRing(4, {"100000", "0", "timeout=50"});
  WaitForARound();
  workers_[2]->Signal(SIGKILL);
  ExpectAllName(2, "exited");
}

TEST_F(RingProcessTest, Worker_KilledOverTcp_IsNamedByAll) {
  StartRing(4, {"100000", "0", "timeout=50", "tcp=1"});
  WaitForARound();
  workers_[0]->Signal(SIGKILL);
  ExpectAllName(0, "exited");
}

#ifdef RINGLET_SECURE
TEST_F(RingProcessTest, Worker_KilledWhereLinksAreSealed_IsNamedByAll) {
  StartRing(4, {"100000", "0", "timeout=50", "tcp=1", "key=secret"});
  WaitForARound();
  workers_[1]->Signal(SIGKILL);
  ExpectAllName(1, "exited");
}
#endif

TEST_F(RingProcessTest, Worker_Stopped_IsNamedByAll) {
  StartRing(4, {"100000", "0", "timeout=4"});
  WaitForARound();
  workers_[1]->Signal(SIGSTOP);
  ExpectAllName(1, "silent");
}

TEST_F(RingProcessTest, Worker_WakesUpAfterAStop_EndsItself) {
  StartRing(3, {"100000", "0", "timeout=4"});
  WaitForARound();
  workers_[1]->Signal(SIGSTOP);
  ExpectAllName(1, "silent");
  workers_[1]->Signal(SIGCONT);
  EXPECT_EQ(workers_[1]->Wait(kLong), 75);
  EXPECT_TRUE(Contains(workers_[1]->Output(), "rank 1 ("));
}

TEST_F(RingProcessTest, Worker_KilledWhileOthersCompute_IsNamedByAll) {
  StartRing(3, {"10", "0", "timeout=50", "pause=500"});
  WaitForARound();
  workers_[2]->Signal(SIGKILL);
  ExpectAllName(2, "exited");
}

TEST_F(RingProcessTest, Abort_ProcessEndsImmediately_ReachesTheOthers) {
  for (const char* way : {"tcp=1", "local=1"}) {
    for (const char* end : {"quit=1", "leave=1"}) {
      std::string joined;
      for (const std::string& a : FreeAddresses(4)) {
        joined += (joined.empty() ? "" : ",") + a;
      }
      workers_.clear();
      for (int r = 0; r < 4; ++r) {
        std::vector<std::string> more = {"1000000", "0", "timeout=50", way};
        if (r == 2) more.insert(more.end(), {"abort=1", end});
        Spawn(r, joined, more);
      }
      for (int r = 0; r < 4; ++r) {
        const bool quits = r == 2 && std::string(end) == "quit=1";
        EXPECT_EQ(workers_[r]->Wait(kLong), quits ? 9 : 1);
        if (quits) continue;
        const std::string output = workers_[r]->Output();
        EXPECT_TRUE(Contains(output, "rank 2 (127.0.0.1:"));
        EXPECT_TRUE(Contains(output, ") failed: record 17 is damaged"));
      }
    }
  }
}

TEST_F(RingProcessTest, Job_EndsNormally_NoWorkerFails) {
  StartRing(3, {"30011", "20", "timeout=50"});
  std::string digest;
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kLong), 0) << worker->Output();
    if (digest.empty()) digest = worker->Digest();
    EXPECT_EQ(worker->Digest(), digest);
  }
  EXPECT_NE(digest, "");
}

// The options of three workers for their transports, and how many segments each
// shares.
struct Transports {
  const char* by_rank[3];
  int segments[3];
};
// The worker cannot allocate a segment of shared memory.
constexpr char kNoMemory[] = "no memory";

TEST_F(RingProcessTest, AllReduce_AnyMixOfTransports_HasTheSameBits) {
#ifndef __linux__
  GTEST_SKIP() << "workers share memory on Linux only";
#endif
  constexpr Transports kTransports[] = {
      {{"tcp=1", "tcp=1", "tcp=1"}, {0, 0, 0}},
      {{"socket=1", "socket=1", "socket=1"}, {0, 0, 0}},
      {{"", "", ""}, {2, 2, 2}},
      {{"", "socket=1", ""}, {1, 0, 1}},
      {{"socket=1", "", ""}, {0, 1, 1}},
      {{"", "", "tcp=1"}, {1, 1, 0}},
      // Worker 1 can map another worker's segment.
      {{"", kNoMemory, ""}, {1, 1, 2}},
      {{"RINGLET_SHM=0", "", ""}, {0, 1, 1}},
  };
  const std::string seen = folder_ / "seen";  // the segments have been counted
  for (const std::string dtype : {"dtype=float32", "dtype=bfloat16"}) {
    std::string digest;
    for (const Transports& transports : kTransports) {
      workers_.clear();
      std::remove(seen.c_str());
      const std::vector<std::string> places = FreeAddresses(3);
      const std::string addresses =
          places[0] + "," + places[1] + "," + places[2];
      for (int r = 0; r < 3; ++r) {
        const std::string transport = transports.by_rank[r];
        std::string before;
        if (transport == kNoMemory) before = "ulimit -f 100; ";
        if (transport.find("RINGLET") == 0)
          before = "export " + transport + "; ";
        std::vector<std::string> arguments = Arguments(
            r, addresses, {"100003", "4", "timeout=20", "hold=" + seen, dtype});
        if (before.empty()) arguments.push_back(transport);
        arguments.insert(arguments.begin(),
                         {"/bin/sh", "-c", before + "exec \"$0\" \"$@\""});
        workers_.push_back(std::make_unique<Child>(
            arguments, folder_ / ("worker" + std::to_string(r))));
        // A worker that connects between the two listeners would use TCP.
        ASSERT_TRUE(AwaitListener(places[r]));
      }
      for (auto& worker : workers_) EXPECT_TRUE(worker->AwaitText("digest"));
      for (int r = 0; r < 3; ++r) {
        EXPECT_EQ(workers_[r]->SharedSegments(), transports.segments[r])
            << transports.by_rank[0] << ", " << transports.by_rank[1] << ", "
            << transports.by_rank[2] << ": rank " << r;
      }
      std::fclose(std::fopen(seen.c_str(), "w"));
      for (auto& worker : workers_) {
        EXPECT_EQ(worker->Wait(kLong), 0) << worker->Output();
        if (digest.empty()) digest = worker->Digest();
        EXPECT_EQ(worker->Digest(), digest);
      }
    }
    EXPECT_NE(digest, "");
  }
}

// Two workers are killed, the second while the ring forms again without the
// first (or has just formed); both come back.
TEST_F(RingProcessTest, Reform_SecondWorkerKilledMeanwhile_IsSurvived) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const std::string joined = Joined(3);
    const std::string over = folder_ / ("over" + std::to_string(seed));
    const std::vector<std::string> more = {
        "5000",    "0",        "timeout=10",   "start=300",
        "pause=5", "reform=1", "until=" + over};
    workers_.clear();
    for (int r = 0; r < 3; ++r) Spawn(r, joined, more);
    WaitForARound();
    const auto replace = [&](int rank) {
      workers_[rank]->Wait(kLong);  // an ended worker's port is free
      workers_[rank] =
          std::make_unique<Child>(Arguments(rank, joined, more),
                                  folder_ / ("again" + std::to_string(seed) +
                                             "." + std::to_string(rank)));
    };
    const int first = static_cast<int>(random() % 3);
    const int second = static_cast<int>(random() % 3);
    const int survivor =
        (first + 1) % 3 == second ? (first + 2) % 3 : (first + 1) % 3;
    const std::string when = "made " + std::to_string(1 << random() % 4) + "\n";
    EXPECT_TRUE(workers_[first]->AwaitText(when));
    workers_[first]->Signal(SIGKILL);
    if (seed % 3 == 0) {  // both are gone at the same time
      workers_[second]->Signal(SIGKILL);
      EXPECT_TRUE(workers_[survivor]->AwaitText("again: "));
      replace(first);
      if (second != first) replace(second);
    } else {
      replace(first);
      if (seed % 3 == 1) {  // the other ranks form the ring
        EXPECT_TRUE(workers_[survivor]->AwaitText("again: "));
      } else {  // the ring is formed
        EXPECT_TRUE(workers_[first]->AwaitUp());
      }
      workers_[second]->Signal(SIGKILL);
      replace(second);
    }
    for (auto& worker : workers_) EXPECT_TRUE(worker->AwaitRound());
    WriteWhole(over, "");
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(workers_[r]->Wait(kLong), 0)
          << "seed " << seed << ", rank " << r << ": " << first << " and "
          << second << " were killed\n"
          << workers_[r]->Output();
    }
    if (HasFailure()) break;
  }
}

TEST_F(RingProcessTest, Worker_EndsEarly_ErrorNamesIt) {
  std::string joined;
  for (const std::string& a : FreeAddresses(2)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  Spawn(0, joined, {"1000", "1000", "timeout=20"});
  Spawn(1, joined, {"1000", "10", "timeout=20"});
  EXPECT_EQ(workers_[1]->Wait(kLong), 0);
  ExpectAllName(1, "left");
}

TEST_F(RingProcessTest, Start_WorkersAreMissing_NamesThem) {
  std::string joined;
  for (const std::string& a : FreeAddresses(4)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  Spawn(1, joined, {"1", "1", "start=4"});
  Spawn(2, joined, {"1", "1", "start=4"});
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kLong), 1);
    const std::string output = worker->Output();
    EXPECT_TRUE(Contains(output, "worker 0 (127.0.0.1:"));
    EXPECT_TRUE(Contains(output, "Connection refused"));
    EXPECT_TRUE(Contains(output, "worker 3 (127.0.0.1:"));
    EXPECT_TRUE(Contains(output, "has not connected"));
  }
}

TEST_F(RingProcessTest, Start_JobNamesDiffer_BothSidesNameBoth) {
  std::string joined;
  for (const std::string& a : FreeAddresses(2)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  // Each worker waits long enough to be refused by the other.
  Spawn(0, joined, {"1", "1", "start=6", "job=apples"});
  Spawn(1, joined, {"1", "1", "start=5", "job=pears"});
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kLong), 1);
    const std::string output = worker->Output();
    EXPECT_TRUE(Contains(output, "\"apples\""));
    EXPECT_TRUE(Contains(output, "\"pears\""));
  }
}

TEST_F(RingProcessTest, Start_WorkerIsLate_OthersWaitForIt) {
  std::string joined;
  for (const std::string& a : FreeAddresses(3)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  for (const int rank : {1, 2}) Spawn(rank, joined, {"1000", "10"});
  for (auto& worker : workers_) {
    EXPECT_TRUE(worker->AwaitText(" waits for worker 0 ("));
  }
  Spawn(0, joined, {"1000", "10"});
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kLong), 0) << worker->Output();
  }
}

TEST_F(RingProcessTest, Wait_ForMissingWorkers_TakesNoProcessorTime) {
  std::string joined;
  for (const std::string& a : FreeAddresses(4)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  for (const int rank : {0, 1, 3}) Spawn(rank, joined, {"1", "1"});
  for (auto& worker : workers_) {
    EXPECT_TRUE(worker->AwaitText(" waits for worker "));
  }
  ExpectIdle("at the start");
}

TEST_F(RingProcessTest, Wait_ForASlowWorker_TakesNoProcessorTime) {
  // All but two compute for longer than the test lasts, and two wait for them.
  std::string joined;
  for (const std::string& a : FreeAddresses(4)) {
    joined += (joined.empty() ? "" : ",") + a;
  }
  for (int r = 0; r < 4; ++r) {
    Spawn(r, joined, {"300000", "0", r < 2 ? "pause=0" : "pause=100000"});
  }
  WaitForARound();
  for (const int r : {0, 1})
    EXPECT_TRUE(workers_[r]->AwaitText(" has waited "));
  ExpectIdle("in an all-reduce");
}

TEST_F(RingProcessTest, Wait_ForAStoppedWorker_TakesNoProcessorTime) {
  StartRing(3, {"300000", "0", "timeout=60"});
  WaitForARound();
  workers_[1]->Signal(SIGSTOP);
  ExpectIdle("for a stopped one");
}

TEST_F(RingProcessTest, Start_SecondWorkerOfOneIndex_FindsItsPortInUse) {
  StartRing(2, {"10", "0", "timeout=20", "pause=20"});
  WaitUntilUp();
  Child second(Arguments(1, addresses_, {"10", "1", "start=2"}),
               folder_ / "second");
  EXPECT_EQ(second.Wait(kLong), 1);
  EXPECT_TRUE(Contains(second.Output(), "port is in use"));
  for (auto& worker : workers_) {
    EXPECT_TRUE(worker->AwaitRound());  // undisturbed
  }
}

// --- what no wait corrects ---------------------------------------------------

// All workers end, with another exit code than after start_timeout.
TEST_F(RingProcessTest, Options_Differ_EndBothSidesAndTheThird) {
  const struct {
    const char* option;
    const char* cause;
  } kinds[] = {{"dtype=float16", "was given the wire dtype float"},
               {"timeout=7", "7000"},
               {"implementation=tree", "communication implementation"}};
  for (const auto& kind : kinds) {
    for (int odd = 0; odd < 3; ++odd) {
      SCOPED_TRACE(kind.option + (" on rank " + std::to_string(odd)));
      workers_.clear();
      const std::string joined = Joined(3);
      for (int r = 0; r < 3; ++r) {
        std::vector<std::string> more = {"1", "1", "start=300"};
        if (r == odd) more.push_back(kind.option);
        Spawn(r, joined, more);
      }
      for (auto& worker : workers_) {
        EXPECT_EQ(worker->Wait(kLong), 2) << worker->Output();
        EXPECT_TRUE(Contains(worker->Output(), kind.cause));
        EXPECT_TRUE(
            Contains(worker->Output(), "worker " + std::to_string(odd)));
      }
    }
  }
}

TEST_F(RingProcessTest, Start_OtherListOfTheSameHosts_EndsBothSides) {
  const std::vector<std::string> addresses = FreeAddresses(3);
  Spawn(0, addresses[0] + "," + addresses[1], {"1", "1", "start=300"});
  Spawn(1, addresses[0] + "," + addresses[1] + "," + addresses[2],
        {"1", "1", "start=300"});
  for (auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kLong), 2) << worker->Output();
    EXPECT_TRUE(Contains(worker->Output(),
                         "worker 1 was given other workers than worker 0"));
  }
}

// A worker of another list on a host that is none of this one's ranks': it
// ends, and the others wait on.
TEST_F(RingProcessTest, Start_OtherListOfAnotherHost_EndsOnlyTheStranger) {
  const std::vector<int> ports = FreePorts(4);
  const auto at = [&](const char* host, int i) {
    return std::string(host) + ":" + std::to_string(ports[i]);
  };
  const std::string zero = at("127.0.0.1", 0);
  const std::string joined = zero + "," + at("127.0.0.9", 1);
  Spawn(0, joined, {"1000", "5", "start=300", "tcp=1"});
  // Dials rank 0 from 127.0.0.1, where rank 1 of the list is not.
  Spawn(1, zero + "," + at("127.0.0.1", 2), {"1", "1", "start=300", "tcp=1"});
  EXPECT_EQ(workers_[1]->Wait(kLong), 2) << workers_[1]->Output();
  EXPECT_TRUE(Contains(workers_[1]->Output(), "refused this worker"));
  for (const char* text : {"refused a connection from 127.0.0.1:",
                           " waits for worker 1 (127.0.0.9:"}) {
    EXPECT_TRUE(workers_[0]->AwaitText(text)) << workers_[0]->Output();
  }
  Spawn(1, joined, {"1000", "5", "start=300", "tcp=1"});
  EXPECT_EQ(workers_[0]->Wait(kLong), 0) << workers_[0]->Output();
  EXPECT_EQ(workers_[2]->Wait(kLong), 0) << workers_[2]->Output();
}

TEST_F(RingProcessTest, Wait_MissingOrRefused_NamesTheRankAndTheReason) {
  const std::string joined = Joined(3);
  Spawn(0, joined, {"1", "1", "start=300", "job=apples"});
  Spawn(1, joined, {"1", "1", "start=300", "job=pears"});
  EXPECT_TRUE(workers_[0]->AwaitText("refused a connection from "))
      << workers_[0]->Output();
  EXPECT_TRUE(workers_[1]->AwaitText("refused this worker, worker 1 of 3 ("))
      << workers_[1]->Output();
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(workers_[r]->AwaitText(" waits for worker "))
        << workers_[r]->Output();
    EXPECT_TRUE(Contains(workers_[r]->Output(), "worker 2 (127.0.0.1:"));
    // A worker of another job ends no worker.
    EXPECT_EQ(workers_[r]->Wait(0), -1);
  }
  // Dozens of attempts print one line.
  const std::string output = workers_[0]->Output();
  EXPECT_EQ(output.find("refused a connection"),
            output.rfind("refused a connection"))
      << output;
}

TEST_F(RingProcessTest, Wait_ForALostWorker_IsReported) {
  const std::string joined = Joined(2);
  const std::vector<std::string> more = {"1000",     "0",        "timeout=5",
                                         "start=60", "reform=1", "pause=5"};
  for (int r = 0; r < 2; ++r) Spawn(r, joined, more);
  WaitUntilUp();
  workers_[1]->Signal(SIGKILL);
  EXPECT_TRUE(workers_[0]->AwaitText(" waits for worker 1 ("))
      << workers_[0]->Output();
  EXPECT_TRUE(workers_[0]->AwaitText("), missing for "))
      << workers_[0]->Output();
}

// --- ringlet train -----------------------------------------------------------

class TrainTest : public RingProcessTest {
 protected:
  // Worker `rank` of the job, with a RUN.json and more flags.
  void Train(int rank, const std::vector<std::string>& more) {
    std::string list;
    for (const std::string& address : addresses_of_) {
      list += (list.empty() ? "\"" : ", \"") + address + "\"";
    }
    std::vector<std::string> arguments = {
        "/usr/bin/env",
        "TF_CONFIG={\"cluster\": {\"worker\": [" + list +
            "]}, \"task\": {\"type\": \"worker\", \"index\": " +
            std::to_string(rank) + "}}",
        EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet",
        "train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    workers_.push_back(std::make_unique<Child>(
        arguments, folder_ / ("worker" + std::to_string(workers_.size()))));
  }
  std::string Run() const {
    return EnvironmentOr("RINGLET_SOURCE", ".") + "/samples/mnist_workers.json";
  }
  // Writes the RUN.json of Run() with a name for the job, and returns its path.
  std::string NamedRun() const {
    const std::string source =
        std::filesystem::absolute(EnvironmentOr("RINGLET_SOURCE", "."));
    std::string text = ReadWhole(Run());
    for (size_t at; (at = text.find("\"../")) != std::string::npos;) {
      text.replace(at, 3, "\"" + source + "/");
    }
    const std::string strategy = "\"strategy\": {";
    const size_t at = text.find(strategy);
    if (at != std::string::npos) {
      text.insert(at + strategy.size(), "\"job\": \"digits\", ");
    }
    WriteWhole(folder_ / "named.json", text);
    return folder_ / "named.json";
  }
  const std::vector<std::string> few_ = {
      "--epochs", "1", "--steps-per-epoch", "2", "--batch-size", "4"};
  std::vector<std::string> With(const std::string& run,
                                std::vector<std::string> more) const {
    more.insert(more.begin(), run);
    more.insert(more.end(), few_.begin(), few_.end());
    return more;
  }

  const std::vector<std::string> addresses_of_ = FreeAddresses(3);
};

// A rank cannot take part, for any reason, immediately or after the other ranks
// have waited: all end, with its rank and its reason.
TEST_F(TrainTest, Train_OneRankCannotTakePart_EndsAllWithItsReason) {
  WriteWhole(folder_ / "broken.json", "{\"model\": 3");
  WriteWhole(folder_ / "model.json", "{\"model\": {\"class_name\": \"No\"}}");
  std::string no_data = ReadWhole(Run());
  for (size_t at; (at = no_data.find("../data/")) != std::string::npos;) {
    no_data.replace(at, 8, "/nowhere/");
  }
  WriteWhole(folder_ / "data.json", no_data);
  const std::string named = NamedRun();
  const struct {
    std::string run;
    std::vector<std::string> more;
    const char* cause;
    // The RUN.json of the other workers; empty if it is `run`.
    std::string others;
  } kinds[] = {{"/none.json", {}, "/none.json", ""},
               {folder_ / "broken.json", {}, "broken.json", ""},
               {folder_ / "model.json", {}, "model.json", ""},
               {folder_ / "data.json", {}, "/nowhere/", ""},
               {Run(), {"--threads", "0"}, "its flags are wrong", ""},
               {Run(), {"--init", "/none.npz"}, "/none.npz", ""},
               // This process cannot read the job's name.
               {Run(), {"--threads", "0"}, "its flags are wrong", named},
               {"/none.json", {}, "/none.json", named}};
  int n = 0;
  for (const auto& kind : kinds) {
    const int faulty = n++ % 3;
    const std::string run = kind.others.empty() ? Run() : kind.others;
    SCOPED_TRACE(kind.cause + (" on rank " + std::to_string(faulty)));
    workers_.clear();
    const int others[] = {(faulty + 1) % 3, (faulty + 2) % 3};
    for (const int r : others) Train(r, With(run, {}));
    for (const int r : others) EXPECT_TRUE(AwaitListener(addresses_of_[r]));
    for (auto& worker : workers_) {
      if (n <= 3) break;  // the faulty worker starts at the same time
      EXPECT_TRUE(worker->AwaitText(" waits for worker ")) << worker->Output();
    }
    Train(faulty, With(kind.run, kind.more));
    for (size_t i = 0; i < 3; ++i) {
      const int code = workers_[i]->Wait(kLong);
      const std::string output = workers_[i]->Output();
      EXPECT_TRUE(code == 1 || code == 2) << code << output;
      if (i == 2) continue;  // the faulty worker
      EXPECT_TRUE(Contains(output, "worker " + std::to_string(faulty) + " (" +
                                       addresses_of_[faulty] +
                                       ") cannot take part: "));
      EXPECT_TRUE(Contains(output, kind.cause));
    }
  }
}

// (session_test shows that no withdrawing worker waits for another.)
TEST_F(TrainTest, Withdrawal_OfEveryWorker_AllEnd) {
  for (int r = 0; r < 3; ++r) Train(r, {"/none.json"});
  for (auto& worker : workers_) EXPECT_GT(worker->Wait(kLong), 0);
}

// Another start of a worker of a running job, with a RUN.json that is broken:
// the job is not disturbed. A job with a formed ring is not disturbed either.
TEST_F(TrainTest, Withdrawal_InTheNameOfAMember_EndsNoWorker) {
  for (int r = 0; r < 2; ++r) Train(r, With(Run(), {}));
  // Rank 2 is missing; ranks 0 and 1 are connected.
  EXPECT_TRUE(workers_[0]->AwaitText(" waits for worker 2 ("));
  Train(1, {"/none.json"});
  EXPECT_GT(workers_[2]->Wait(kLong), 0);
  EXPECT_EQ(workers_[0]->Wait(0), -1) << workers_[0]->Output();
  EXPECT_EQ(workers_[1]->Wait(0), -1) << workers_[1]->Output();
  Train(2, With(Run(), {}));
  for (const int i : {0, 1, 3}) {
    EXPECT_EQ(workers_[i]->Wait(kLong), 0) << workers_[i]->Output();
  }
}

}  // namespace
}  // namespace ringlet
