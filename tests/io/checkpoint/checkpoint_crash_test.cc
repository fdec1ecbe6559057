// Checkpoints under power cuts, kills and failing disks, on a simulated disk.
// Each case of RINGLET_CRASH (random_cases.h) has ten power cuts.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/random_cases.h"
#include "../../support/simulated_file_system.h"
#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "io/files/file_system.h"

namespace ringlet {
namespace {

// True: the runs' files are sealed, by one key. Its file is on the real disk,
// so that reading it is no operation of the simulated one.
bool seal = false;
const std::string& KeyFile() {
  static const TempFolder folder(TempFolder::InMemory());
  static const std::string path = folder / "key";
  if (access(path.c_str(), F_OK) != 0) {
    WriteWhole(path, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
  }
  return path;
}

// One run after another on one disk. The state of number n is SomeState(n).
struct Runs {
  SimulatedFileSystem files;
  const std::shared_ptr<FileSystem> sealed =
      SealedFiles(KeyFile(), /*seal=*/true, &files);
  FileSystem* disk() {
    if (seal) return sealed.get();
    return &files;
  }
  FakeClock clock;
  std::unique_ptr<CheckpointDirectory> run;
  int max_to_keep = 2;
  double keep_hours = 0;
  int64_t durable = 0;    // the highest number reported so
  int64_t attempted = 0;  // the highest number ever begun
  std::vector<std::string> warnings;

  Status Start() {
    run.reset();
    CheckpointDirectoryOptions options;
    options.max_to_keep = max_to_keep;
    options.keep_checkpoint_every_n_hours = keep_hours;
    options.files = disk();
    options.clock = &clock;
    options.warn = [this](const std::string& w) { warnings.push_back(w); };
    return CheckpointDirectory::Open("d", options, &run);
  }
  Status Save() {
    const int64_t number = run->latest_number() + 1;
    attempted = std::max(attempted, number);
    SomeState state(number);
    clock.Advance(600);
    RINGLET_RETURN_IF_ERROR(run->Save({&state}, {}, number));
    durable = number;
    return Status();
  }
  // Checks the properties that hold whenever a run has started.
  void Check(const std::string& when) {
    const int64_t latest = run->latest_number();
    ASSERT_GE(latest, durable) << when << ": a durable checkpoint is lost";
    ASSERT_LE(latest, attempted) << when;
    if (latest > 0) {
      SomeState state(-1);
      LoadOptions options;
      options.files = disk();
      const Status loaded = LoadCheckpoint(run->latest(), {&state}, options);
      ASSERT_OK(loaded) << when;
      ASSERT_TRUE(state == SomeState(latest)) << when;
    }
    for (const std::string& path : files.Paths()) {
      ASSERT_FALSE(Contains(path, ".tmp")) << when;
      ASSERT_FALSE(Contains(path, ".bad")) << when;
    }
    durable = latest;
  }
  void StartAndCheck(const std::string& when) {
    const Status status = Start();
    ASSERT_OK(status) << when;
    Check(when);
  }
};

// Starts runs on one disk. Each saves until it is cut at a random operation,
// also during a recovery. Returns the number of cuts.
int64_t LiveThroughPowerCuts(uint64_t seed) {
  std::mt19937_64 random(seed);
  Runs runs;
  runs.max_to_keep = 1 + static_cast<int>(random() % 3);
  runs.keep_hours = random() % 4 == 0 ? 0.5 : 0;
  if (random() % 4 == 0) runs.files.set_longest_write(100);
  const int cuts = 10;
  for (int cut = 0; cut < cuts; ++cut) {
    const std::string when =
        "disk " + std::to_string(seed) + ", cut " + std::to_string(cut);
    runs.files.HaltAfter(1 + static_cast<int64_t>(random() % 90));
    if (runs.Start().ok()) {
      while (!runs.files.halted()) runs.Save().IgnoreError();
    }
    runs.run.reset();
    if (random() % 8 == 0) {
      runs.files.Kill();
    } else {
      runs.files.CutPower(random());
    }
    if (random() % 2 == 0) continue;  // cut again before anything recovered
    runs.StartAndCheck(when);
    if (testing::Test::HasFatalFailure()) return cut;
    const Status saved = runs.Save();
    EXPECT_OK(saved) << when;
  }
  runs.run.reset();
  runs.StartAndCheck("disk " + std::to_string(seed) + ", at last");
  return cuts;
}

class CheckpointCrashTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#ifndef RINGLET_SECURE
    if (GetParam()) GTEST_SKIP() << "a build without libsodium";
#endif
    seal = GetParam();
  }
};
INSTANTIATE_TEST_SUITE_P(Plain, CheckpointCrashTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Sealed, CheckpointCrashTest, testing::Values(true));

TEST_P(CheckpointCrashTest, PowerCut_AtRandom_LosesNoDurableCheckpoint) {
  int64_t states = 0;
  RandomCases cases("RINGLET_CRASH", {}, /*part=*/1, /*share=*/0.5);
  while (!HasFatalFailure() && cases.Next()) {
    SCOPED_TRACE(cases.command());
    states += LiveThroughPowerCuts(cases.number());
  }
  std::printf("%lld states after power cuts\n", static_cast<long long>(states));
}

// Cut at every operation of a start, two saves and their pruning in turn.
TEST_P(CheckpointCrashTest, PowerCut_AtEveryOperation_IsSurvived) {
  int states = 0;
  for (int64_t at = 1;; ++at) {
    bool finished = false;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Runs runs;
      ASSERT_OK(runs.Start());
      for (int i = 0; i < 2; ++i) ASSERT_OK(runs.Save());
      runs.run.reset();
      runs.files.HaltAfter(at);
      if (runs.Start().ok()) {
        runs.Save().IgnoreError();
        runs.Save().IgnoreError();
      }
      finished = !runs.files.halted();
      runs.run.reset();
      runs.files.CutPower(seed);
      runs.StartAndCheck("operation " + std::to_string(at));
      if (HasFatalFailure()) return;
      ++states;
    }
    if (finished) break;
  }
  std::printf("%d states after power cuts\n", states);
}

// The same, where the process is killed and the power stays on.
TEST_P(CheckpointCrashTest, Kill_AtEveryOperation_LeavesNoTemporaryFile) {
  for (int64_t at = 1;; ++at) {
    Runs runs;
    ASSERT_OK(runs.Start());
    for (int i = 0; i < 2; ++i) ASSERT_OK(runs.Save());
    runs.run.reset();
    runs.files.HaltAfter(at);
    if (runs.Start().ok()) {
      runs.Save().IgnoreError();
      runs.Save().IgnoreError();
    }
    const bool finished = !runs.files.halted();
    runs.run.reset();
    runs.files.Kill();
    runs.StartAndCheck("operation " + std::to_string(at));
    if (HasFatalFailure() || finished) break;
  }
}

// Every operation of a save fails once.
void FailEveryOperation(int error, size_t longest_write) {
  for (int64_t at = 1;; ++at) {
    Runs runs;
    runs.files.set_longest_write(longest_write);
    ASSERT_OK(runs.Start());
    for (int i = 0; i < 3; ++i) ASSERT_OK(runs.Save());
    const int64_t begin = runs.files.operations();
    runs.files.FailAfter(at, error);
    const Status status = runs.Save();
    const bool hit = runs.files.operations() - begin >= at;
    runs.files.FailNoMore();
    const std::string when =
        runs.files.last_failed() + ": " + std::string(status.message());
    if (hit) {
      // The user gets an error or a warning, and the durable files still exist.
      const bool retried = error == EINTR && status.ok();
      EXPECT_TRUE(!status.ok() || !runs.warnings.empty() || retried) << when;
    } else {
      EXPECT_OK(status) << when;
    }
    runs.Check(when);
    if (testing::Test::HasFatalFailure()) return;
    // The next save works, and so does the next start after a power cut.
    const Status next = runs.Save();
    EXPECT_OK(next) << when;
    EXPECT_EQ(runs.run->checkpoints().size(), 2u) << when;
    runs.run.reset();
    runs.files.CutPower(static_cast<uint64_t>(at));
    runs.StartAndCheck(when);
    if (testing::Test::HasFatalFailure() || !hit) return;
  }
}

TEST_P(CheckpointCrashTest, Save_IoErrorAtAnyOperation_IsSurvived) {
  FailEveryOperation(EIO, 0);
}
TEST_P(CheckpointCrashTest, Save_DiskFullAtAnyOperation_IsSurvived) {
  FailEveryOperation(ENOSPC, 0);
}
TEST_P(CheckpointCrashTest, Save_SignalAtAnyOperation_IsSurvived) {
  FailEveryOperation(EINTR, 0);
}
TEST_P(CheckpointCrashTest, Save_ShortWritesAndErrors_AreSurvived) {
  FailEveryOperation(EIO, 100);
  FailEveryOperation(EINTR, 100);
}

// Every operation of a start fails once: the start may fail, the next does not.
TEST_P(CheckpointCrashTest, Open_ErrorAtAnyOperation_IsSurvived) {
  for (const int error : {EIO, EINTR, ENOSPC, EMFILE}) {
    for (int64_t at = 1;; ++at) {
      Runs runs;
      ASSERT_OK(runs.Start());
      for (int i = 0; i < 3; ++i) ASSERT_OK(runs.Save());
      runs.run.reset();
      runs.files.HaltAfter(9);  // leaves a temporary file
      if (runs.Start().ok()) runs.Save().IgnoreError();
      runs.run.reset();
      runs.files.Kill();
      const int64_t begin = runs.files.operations();
      runs.files.FailAfter(at, error);
      runs.Start().IgnoreError();
      const bool hit = runs.files.operations() - begin >= at;
      runs.files.FailNoMore();
      runs.StartAndCheck(runs.files.last_failed());
      if (HasFatalFailure()) return;
      EXPECT_EQ(runs.run->latest_number(), 3);
      if (!hit) break;
    }
  }
}

TEST_P(CheckpointCrashTest, Save_DiskWasFull_SucceedsOnceThereIsSpace) {
  Runs runs;
  ASSERT_OK(runs.Start());
  ASSERT_OK(runs.Save());
  runs.files.set_capacity(1500);
  const Status full = runs.Save();
  EXPECT_EQ(full.code(), Code::kResourceExhausted) << full.message();
  SomeState state;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(runs.run->Save({&state}, {}).ok());
  EXPECT_EQ(runs.run->latest_number(), 1);
  EXPECT_EQ(runs.run->checkpoints().size(), 1u);
  runs.Check("full");
  runs.files.set_capacity(100000);
  EXPECT_OK(runs.Save());
  EXPECT_EQ(runs.run->latest_number(), 2);
  runs.Check("space again");
}

// The simulator must find the defect of a writer that does not sync.
TEST(SimulatedDiskTest, CutPower_FileNotSynced_MayBeDamagedOrGone) {
  int whole = 0, damaged = 0, gone = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SimulatedFileSystem files;
    ASSERT_OK(files.MakeFolder("d"));
    const std::string text(5000, 'x');
    std::unique_ptr<File> file;
    ASSERT_OK(files.Create("d/a.tmp", &file));
    ASSERT_OK(file->Write(text.data(), text.size()));
    ASSERT_OK(files.Rename("d/a.tmp", "d/a"));
    files.CutPower(seed);
    const std::string* left = files.Content("d/a");
    ++(left == nullptr ? gone : *left == text ? whole : damaged);
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(damaged, 50);
  EXPECT_GT(gone, 50);
}

}  // namespace
}  // namespace ringlet
