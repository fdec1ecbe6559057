// Files that are damaged after the round with them has begun.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/simulated_watch.h"

namespace ringlet {
namespace {

// Opens a round and ends the process before its training.
void OpenOneRound(const WatchOptions& options, Durable* disk) {
  SimulatedEnvironment killed(disk, 4, /*after=*/false);  // two scans, a save
  EXPECT_EQ(RunUntilIdle(options, disk, &killed).code(), Code::kCancelled);
  ASSERT_TRUE(disk->state.is_open);
}

void DamageAll(Durable* disk) {
  for (const auto& [path, file] : disk->files) disk->damaged.insert(path);
}

int CountOfRounds(const SimulatedEnvironment& environment) {
  return static_cast<int>(environment.logs.size());
}

TEST(WatcherDamageTest, OpenRound_AllFilesDamaged_IsAbandonedAndOthersTrain) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 16);
  OpenOneRound(options, &disk);
  DamageAll(&disk);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_FALSE(disk.state.is_open);
  EXPECT_EQ(disk.state.seen.size(), 0u);
  EXPECT_EQ(CountOfRounds(environment), 1);
  EXPECT_EQ(environment.notes.size(), 9u);  // 8 files, and no held-out one
  AddFiles(&disk, 100, 132);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 20));
  EXPECT_EQ(disk.state.seen.size(), 32u);
  EXPECT_NE(disk.installed, "");
}

TEST(WatcherDamageTest, OpenRound_HeldOutFilesDamaged_KeepsOthersNew) {
  WatchOptions options = SmallRounds();
  options.replay = 0;
  Durable disk;
  AddFiles(&disk, 0, 16);
  OpenOneRound(options, &disk);
  size_t held_out = 0;
  for (const auto& [path, file] : disk.files) {
    if (!options.IsHeldOut(path)) continue;
    disk.damaged.insert(path);
    ++held_out;
  }
  ASSERT_GT(held_out, 0u);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_EQ(disk.state.seen.size(), 0u);
  AddFiles(&disk, 100, 132);
  options.round_seconds = 1;
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 20));
  EXPECT_EQ(disk.state.seen.size(), 16 - held_out + 32);
}

TEST(WatcherDamageTest, Replay_FilesDamagedSinceTheirRound_AreNotCounted) {
  WatchOptions options = SmallRounds();
  options.replay = 100;
  Durable disk;
  AddFiles(&disk, 0, 16);
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  const WatchRound first = environment.last;
  ASSERT_GT(first.fresh.size(), 2u);
  disk.damaged = {first.fresh[0].path, first.fresh[1].path};
  AddFiles(&disk, 100, 108);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  const RoundCounts counts = ParseCounts(environment.logs.back());
  EXPECT_EQ(counts.fresh + counts.fresh_held_out, 8);
  EXPECT_EQ(counts.replay,
            static_cast<int>(first.fresh.size() + first.replay.size()) - 2);
}

TEST(WatcherDamageTest, OpenRound_DiskReadsNothing_Waits) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 16);
  OpenOneRound(options, &disk);
  WatchState state = disk.state;
  SimulatedEnvironment environment(&disk, kNever, /*after=*/false);
  environment.disk_fails = true;
  Watcher watcher(options, state, disk.installed, &environment);
  double wait = 0;
  for (int i = 0; i < 10; ++i) EXPECT_OK(watcher.Step(&wait));
  EXPECT_EQ(environment.notes.size(), 1u);  // the disk, and no file
  environment.disk_fails = false;
  for (int i = 0; i < 4; ++i) EXPECT_OK(watcher.Step(&wait));
  EXPECT_NE(disk.installed, "");
}

// Any part of the files is damaged at any time, with kills: no round stays
// open, each undamaged example is trained on or held out, and a process notes
// each damaged example once.
TEST(WatcherDamageTest, RandomDamage_AnyTime_EndsAllRounds) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t n) {
      return static_cast<int64_t>(random() % n);
    };
    WatchOptions options = SmallRounds();
    options.round_examples = 1 + draw(8);
    options.replay = draw(4) * 5;
    Durable disk;
    for (int run = 0; run < 10; ++run) {
      AddFiles(&disk, run * 12, run * 12 + 12);
      SimulatedEnvironment environment(&disk, 1 + draw(25), draw(2) == 0);
      RunUntilIdle(options, &disk, &environment).IgnoreError();
      const uint64_t one_in = 1 + static_cast<uint64_t>(draw(4));
      for (const auto& [path, file] : disk.files) {
        if (draw(one_in) == 0) disk.damaged.insert(path);
      }
    }
    AddFiles(&disk, 1000, 1040);  // whole ones, some to hold out
    options.round_seconds = 1;
    SimulatedEnvironment last(&disk, kNever, /*after=*/false);
    EXPECT_OK(RunUntilIdle(options, &disk, &last, 20));
    EXPECT_FALSE(disk.state.is_open) << seed;
    for (const auto& [path, file] : disk.files) {
      if (disk.damaged.count(path) > 0) continue;
      EXPECT_TRUE(disk.state.IsSeen(ExampleKey(path, file.bytes)))
          << path << " " << seed;
    }
    const std::set<std::string> notes(last.notes.begin(), last.notes.end());
    EXPECT_EQ(notes.size(), last.notes.size()) << seed;
  }
}

}  // namespace
}  // namespace ringlet
