// The decisions of `train --watch`, in a simulated environment.

#include "io/watch/watcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/simulated_watch.h"
#include "io/watch/watch_state.h"

namespace ringlet {
namespace {

Durable Uninterrupted(const WatchOptions& options, int count) {
  Durable disk;
  AddFiles(&disk, 0, count);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  return disk;
}

TEST(WatcherTest, Run_FolderOfExamples_EachIsNewInOneRound) {
  const Durable disk = Uninterrupted(SmallRounds(), 100);
  EXPECT_EQ(disk.state.round, 12);  // rounds of 8 examples
  EXPECT_FALSE(disk.state.is_open);
  EXPECT_EQ(disk.state.seen.size(), 96u);
  EXPECT_FALSE(disk.installed.empty());
}

TEST(WatcherTest, Run_KilledAtEveryEffect_EndsWithTheSameModel) {
  const WatchOptions options = SmallRounds();
  const Durable whole = Uninterrupted(options, 100);
  int64_t effects = 0;
  {
    Durable disk;
    AddFiles(&disk, 0, 100);
    SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
    EXPECT_OK(RunUntilIdle(options, &disk, &environment));
    effects = environment.effects();
  }
  ASSERT_GT(effects, 50);
  for (int64_t last_effect = 1; last_effect <= effects; ++last_effect) {
    for (const bool after : {false, true}) {
      Durable disk;
      AddFiles(&disk, 0, 100);
      SimulatedEnvironment first(&disk, last_effect, after);
      EXPECT_EQ(RunUntilIdle(options, &disk, &first).code(), Code::kCancelled);
      SimulatedEnvironment second(&disk, kNever, /*after=*/false);
      EXPECT_OK(RunUntilIdle(options, &disk, &second));
      EXPECT_EQ(disk.weights, whole.weights) << last_effect << after;
      EXPECT_EQ(disk.state.seen, whole.state.seen);
      EXPECT_EQ(disk.state.round, whole.state.round);
    }
  }
}

TEST(WatcherTest, Run_ManyKillsBySeed_EndsWithTheSameModel) {
  const WatchOptions options = SmallRounds();
  const Durable whole = Uninterrupted(options, 100);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    Durable disk;
    AddFiles(&disk, 0, 100);
    double least = disk.loss;
    Status status;
    do {
      SimulatedEnvironment environment(
          &disk, 1 + static_cast<int64_t>(random() % 12), random() % 2 == 0);
      environment.now_ns = static_cast<int64_t>(random() % 1000000000);
      status = RunUntilIdle(options, &disk, &environment);
      EXPECT_LE(disk.loss, least);  // no worse model was installed
      least = disk.loss;
    } while (!status.ok());
    EXPECT_EQ(disk.weights, whole.weights) << seed;
    EXPECT_EQ(disk.state.seen, whole.state.seen) << seed;
  }
}

// Files that arrive, grow, are damaged, are removed and have any time, with
// kills, a full disk and a folder that is away: each whole example that stays
// is new in just one round.
TEST(WatcherTest, Run_RandomHistories_LoseAndRepeatNoExample) {
  const WatchOptions options = SmallRounds();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t n) { return random() % n; };
    Durable disk;
    // The key is an example's, and the value is the round's id.
    std::map<uint64_t, std::string> new_in;
    std::set<std::string> growing;
    int next = 0;
    for (int process = 0; process < 40; ++process) {
      SimulatedEnvironment environment(
          &disk, draw(3) == 0 ? kNever : 1 + static_cast<int64_t>(draw(20)),
          draw(2) == 0);
      WatchState state = disk.state;
      state.settings = options.SettingsChecksum();
      Watcher watcher(options, state, disk.installed, &environment);
      Status status;
      for (int step = 0; step < 30 && status.ok(); ++step) {
        const uint64_t event = draw(12);
        const std::string name =
            (next % 2 == 0 ? "a/" : "b/") + std::to_string(next);
        const auto time = static_cast<int64_t>(random());  // any year
        if (event < 4) {
          AddFile(&disk, name, 100, time);
          ++next;
        } else if (event == 4) {
          AddFile(&disk, name, 10, time);
          disk.damaged.insert(name);
          growing.insert(name);
          ++next;
        } else if (event == 5 && !growing.empty()) {
          const std::string grown = *growing.begin();
          growing.erase(grown);
          disk.damaged.erase(grown);
          AddFile(&disk, grown, 100, time);
        }
        environment.disk_is_full = draw(8) == 0;
        environment.folder_is_away = draw(8) == 0;
        double wait = 0;
        status = watcher.Step(&wait);
        environment.now_ns += static_cast<int64_t>(wait * 1e9);
        if (!disk.state.is_open) continue;
        for (const uint64_t key : disk.state.fresh) {
          const auto added = new_in.emplace(key, disk.state.RoundId());
          EXPECT_EQ(added.first->second, disk.state.RoundId());
        }
      }
    }
    SimulatedEnvironment last(&disk, kNever, /*after=*/false);
    WatchOptions all = options;
    all.round_seconds = 1;  // the last few too
    EXPECT_OK(RunUntilIdle(all, &disk, &last, 20));
    const bool has_held_out = std::any_of(
        disk.files.begin(), disk.files.end(), [&](const auto& file) {
          return disk.damaged.count(file.first) == 0 &&
                 options.IsHeldOut(file.first);
        });
    if (!has_held_out) continue;
    for (const auto& [path, file] : disk.files) {
      EXPECT_EQ(disk.state.IsSeen(ExampleKey(path, file.bytes)),
                disk.damaged.count(path) == 0)
          << path << " " << seed;
    }
  }
}

TEST(WatcherTest, Round_Replay_IsTheSameSampleInAnyOrder) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 104);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_EQ(environment.last.replay.size(), 10u);
  const RoundCounts counts = ParseCounts(environment.logs.back());
  EXPECT_EQ(counts.fresh + counts.fresh_held_out, 8);
  for (const auto* part : {&environment.last.fresh, &environment.last.replay}) {
    for (const WatchedFile& file : *part) {
      EXPECT_FALSE(options.IsHeldOut(file.path));
    }
  }
  for (const WatchedFile& file : environment.last.held_out) {
    EXPECT_TRUE(options.IsHeldOut(file.path));
  }
}

TEST(WatcherTest, IsHeldOut_ManyNames_AreTheGivenPart) {
  WatchOptions options = SmallRounds();
  int count = 0;
  for (int i = 0; i < 10000; ++i) {
    count += options.IsHeldOut("a/" + std::to_string(i)) ? 1 : 0;
  }
  EXPECT_NEAR(count, 2500, 150);
  options.validation_split = 0;
  EXPECT_FALSE(options.IsHeldOut("a/1"));
}

// A file that changes between two scans waits for the next one.
TEST(WatcherTest, Scan_NewFile_IsTakenInTheSecondScan) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 40);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  Watcher watcher(options, WatchState(), "", &environment);
  double wait = 0;
  for (int64_t time = 1; time < 5; ++time) {
    EXPECT_OK(watcher.Step(&wait));
    EXPECT_TRUE(watcher.is_idle());
    for (auto& [path, file] : disk.files) file.written_ns = -time;
  }
  EXPECT_OK(watcher.Step(&wait));
  EXPECT_TRUE(watcher.is_idle());
  EXPECT_OK(watcher.Step(&wait));
  EXPECT_FALSE(watcher.is_idle());
}

TEST(WatcherTest, Scan_FileThatGrows_IsTakenWhenItIsComplete) {
  WatchOptions options = SmallRounds();
  options.round_examples = 2;
  Durable disk;
  AddFiles(&disk, 0, 40);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  const size_t seen = disk.state.seen.size();
  // The files are written for a while, and are damaged for a while after that.
  AddFile(&disk, "a/x", 5);
  AddFile(&disk, "a/y", 5);
  disk.damaged = {"a/x", "a/y"};
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 10));
  EXPECT_EQ(disk.state.seen.size(), seen);
  ASSERT_EQ(environment.notes.size(),
            2u);  // a line for each, once in a process
  EXPECT_EQ(environment.notes[1],
            "note: a/y: ends early; it is left out until it changes (such "
            "files: 2)");
  disk.damaged.clear();
  AddFile(&disk, "a/x", 50);
  AddFile(&disk, "a/y", 50);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_EQ(disk.state.seen.size(), seen + 2);
}

// The file's owner writes it, and gives the permission to read it later.
TEST(WatcherTest, Scan_FileWithoutPermission_IsTakenWhenItHasIt) {
  Durable disk;
  AddFiles(&disk, 0, 32);
  disk.damaged.insert("a/1004");
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  Watcher watcher(SmallRounds(), {}, "", &environment);
  const auto seen = [&] {
    double wait = 0;
    for (int step = 0; step < 100; ++step) EXPECT_OK(watcher.Step(&wait));
    return watcher.state().seen.size();
  };
  EXPECT_EQ(seen(), 24u);  // the last round waits for an example
  disk.damaged.clear();
  EXPECT_EQ(seen(), 24u);
  disk.files["a/1004"].changed_ns = 1;
  EXPECT_EQ(seen(), 32u);
}

TEST(WatcherTest, Scan_FewExamples_BeginARoundAfterTheTime) {
  WatchOptions options = SmallRounds();
  options.round_seconds = 600;
  Durable disk;
  AddFiles(&disk, 0, 6);
  int held_out = 0;
  while (!options.IsHeldOut("a/" + std::to_string(held_out))) {
    ++held_out;
  }
  AddFile(&disk, "a/" + std::to_string(held_out));
  ASSERT_EQ(disk.files.size(), 7u);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 200));
  EXPECT_EQ(disk.state.round, 0);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 400));
  EXPECT_EQ(disk.state.round, 1);
  EXPECT_EQ(disk.state.seen.size(), 7u);
}

TEST(WatcherTest, Install_FullDisk_IsTriedAgainAndNotedOnce) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 40);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  WatchState state;
  Watcher watcher(options, state, "", &environment);
  for (int i = 0; i < 50; ++i) {
    environment.disk_is_full = i >= 4;
    double wait = 0;
    EXPECT_OK(watcher.Step(&wait));
  }
  EXPECT_EQ(environment.notes.size(), 1u);
  EXPECT_EQ(disk.installed, "");
  environment.disk_is_full = false;
  for (int i = 0; i < 10; ++i) {
    double wait = 0;
    EXPECT_OK(watcher.Step(&wait));
  }
  EXPECT_NE(disk.installed, "");
}

TEST(WatcherTest, IsNotWorse_Losses) {
  WatchScores scores;
  scores.after = 2;
  EXPECT_TRUE(IsNotWorse(scores));  // the first model
  scores.has_before = true;
  scores.before = 2;
  EXPECT_TRUE(IsNotWorse(scores));
  scores.before = 1.9;
  EXPECT_FALSE(IsNotWorse(scores));
  scores.before = NAN;
  EXPECT_TRUE(IsNotWorse(scores));
  scores.after = NAN;
  EXPECT_FALSE(IsNotWorse(scores));
  scores.has_before = false;
  EXPECT_FALSE(IsNotWorse(scores));
}

}  // namespace
}  // namespace ringlet
