// The decisions of `train --watch`, in a simulated environment: a folder in
// memory, a clock that jumps, a disk that is full for a while, and kills before
// and after each effect.

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
#include "io/watch/watch_state.h"

namespace ringlet {
namespace {

// What is in the folder and on the disk: it outlives a process.
struct Durable {
  std::map<std::string, WatchedFile> files;
  std::set<std::string> torn;  // names of files that are no whole examples
  WatchState state;
  std::string installed;  // the id of the model's round
  uint64_t weights = 1;
  double loss = 10;  // of the installed model
};

// A process: it ends at its `dies_at`-th effect, before or after it.
class SimulatedEnvironment final : public WatchEnvironment {
 public:
  SimulatedEnvironment(Durable* disk, int64_t dies_at, bool after)
      : disk_(*disk), dies_at_(dies_at), after_(after) {}

  Status List(const std::function<void(const WatchedFile&)>& each) override {
    if (Dies()) return Killed();
    if (folder_is_away) return NotFound("frames: the folder is gone");
    for (const auto& [path, file] : disk_.files) each(file);
    return Status();
  }
  Status Check(const WatchedFile& file) override {
    if (disk_.files.count(file.path) == 0) return NotFound("gone");
    if (disk_.torn.count(file.path) == 0) return Status();
    return Corruption("%s: ends early", file.path.c_str());
  }
  Status Save(WatchState* state) override {
    if (Dies() && !after_) return Killed();
    if (disk_is_full) return OsError(ENOSPC, "m.watch.%d.tmp", ++tries_);
    disk_.state = *state;
    return dead_ ? Killed() : Status();
  }
  // The new weights are a function of the old ones, the round and the files.
  Status Train(const WatchRound& round, WatchScores* scores) override {
    if (Dies()) return Killed();
    uint64_t weights = disk_.weights * 31 + round.number;
    for (const auto* part : {&round.fresh, &round.replay, &round.held_out}) {
      for (const WatchedFile& file : *part) {
        weights = weights * 1000003 + ExampleKey(file.path, file.bytes);
      }
    }
    new_weights_ = weights;
    // A third of the rounds gives a worse model.
    scores->has_before = !disk_.installed.empty();
    scores->before = disk_.loss;
    new_loss_ = scores->after =
        weights % 3 == 0 ? disk_.loss * 1.5 : disk_.loss * 0.9;
    last = round;
    return Status();
  }
  Status Install(const WatchRound& round) override {
    if (Dies() && !after_) return Killed();
    if (disk_is_full) return OsError(ENOSPC, "m.%d.tmp", ++tries_);
    disk_.installed = round.id;
    disk_.weights = new_weights_;
    disk_.loss = new_loss_;
    return dead_ ? Killed() : Status();
  }
  int64_t MonotonicNanos() override { return now_ns; }
  void Log(const std::string& line) override { logs.push_back(line); }
  void Note(const std::string& line) override { notes.push_back(line); }

  int64_t effects() const { return effects_; }

  int64_t now_ns = 0;
  bool disk_is_full = false, folder_is_away = false;
  WatchRound last;
  std::vector<std::string> logs, notes;

 private:
  static Status Killed() { return Error(Code::kCancelled, "killed"); }
  bool Dies() {
    ++effects_;
    if (effects_ >= dies_at_) dead_ = true;
    return dead_;
  }

  Durable& disk_;
  const int64_t dies_at_;
  const bool after_;
  bool dead_ = false;
  int tries_ = 0;  // of temporary files
  int64_t effects_ = 0;
  uint64_t new_weights_ = 0;
  double new_loss_ = 0;
};

constexpr int64_t kNever = INT64_MAX;

WatchOptions SmallRounds() {
  WatchOptions options;
  options.seed = 7;
  options.validation_split = 0.25;
  options.round_examples = 8;
  options.replay = 10;
  return options;
}

void AddFile(Durable* disk, const std::string& path, int64_t bytes = 100,
             int64_t written_ns = 0) {
  disk->files[path] = {path, path[0] == 'a' ? 0 : 1, bytes, written_ns};
}

void AddFiles(Durable* disk, int from, int to) {
  for (int i = from; i < to; ++i) {
    AddFile(disk, (i % 2 == 0 ? "a/" : "b/") + std::to_string(1000 + i));
  }
}

// Runs a process until it has nothing to do, or dies. Returns its last status.
Status RunUntilIdle(const WatchOptions& options, Durable* disk,
                    SimulatedEnvironment* environment, int idle_scans = 3) {
  WatchState state = disk->state;
  state.settings = Watcher::SettingsOf(options);
  Watcher watcher(options, state, disk->installed, environment);
  for (int idle = 0; idle < idle_scans;) {
    double wait = 0;
    RINGLET_RETURN_IF_ERROR(watcher.Step(&wait));
    environment->now_ns += static_cast<int64_t>(wait * 1e9);
    idle = wait > 0 && watcher.is_idle() ? idle + 1 : 0;
  }
  return Status();
}

Durable Uninterrupted(const WatchOptions& options, int count) {
  Durable disk;
  AddFiles(&disk, 0, count);
  SimulatedEnvironment environment(&disk, kNever, false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  return disk;
}

TEST(WatcherTest, Run_FolderOfExamples_EachIsNewInOneRound) {
  const Durable disk = Uninterrupted(SmallRounds(), 100);
  EXPECT_EQ(disk.state.round, 12);  // of 8
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
    SimulatedEnvironment environment(&disk, kNever, false);
    EXPECT_OK(RunUntilIdle(options, &disk, &environment));
    effects = environment.effects();
  }
  ASSERT_GT(effects, 50);
  for (int64_t dies_at = 1; dies_at <= effects; ++dies_at) {
    for (const bool after : {false, true}) {
      Durable disk;
      AddFiles(&disk, 0, 100);
      SimulatedEnvironment first(&disk, dies_at, after);
      EXPECT_EQ(RunUntilIdle(options, &disk, &first).code(), Code::kCancelled);
      SimulatedEnvironment second(&disk, kNever, false);
      EXPECT_OK(RunUntilIdle(options, &disk, &second));
      EXPECT_EQ(disk.weights, whole.weights) << dies_at << after;
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

// Files that arrive, grow, are torn, are removed and have any time, with kills,
// a full disk and a folder that is away: each whole example that stays is new
// in just one round.
TEST(WatcherTest, Run_RandomHistories_LoseAndRepeatNoExample) {
  const WatchOptions options = SmallRounds();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t n) { return random() % n; };
    Durable disk;
    std::map<uint64_t, std::string> new_in;  // by key: the round's id
    std::set<std::string> growing;
    int next = 0;
    for (int life = 0; life < 40; ++life) {
      SimulatedEnvironment environment(
          &disk, draw(3) == 0 ? kNever : 1 + static_cast<int64_t>(draw(20)),
          draw(2) == 0);
      WatchState state = disk.state;
      state.settings = Watcher::SettingsOf(options);
      Watcher watcher(options, state, disk.installed, &environment);
      Status status;
      for (int step = 0; step < 30 && status.ok(); ++step) {
        const uint64_t event = draw(12);
        const std::string name =
            (next % 2 == 0 ? "a/" : "b/") + std::to_string(next);
        const auto time = static_cast<int64_t>(random());  // of any year
        if (event < 4) {
          AddFile(&disk, name, 100, time);
          ++next;
        } else if (event == 4) {
          AddFile(&disk, name, 10, time);
          disk.torn.insert(name);
          growing.insert(name);
          ++next;
        } else if (event == 5 && !growing.empty()) {
          const std::string grown = *growing.begin();
          growing.erase(grown);
          disk.torn.erase(grown);
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
    SimulatedEnvironment last(&disk, kNever, false);
    WatchOptions all = options;
    all.round_seconds = 1;  // the last few too
    EXPECT_OK(RunUntilIdle(all, &disk, &last, 20));
    const bool has_held_out = std::any_of(
        disk.files.begin(), disk.files.end(), [&](const auto& file) {
          return disk.torn.count(file.first) == 0 &&
                 Watcher::IsHeldOut(options, file.first);
        });
    if (!has_held_out) continue;
    for (const auto& [path, file] : disk.files) {
      EXPECT_EQ(disk.state.IsSeen(ExampleKey(path, file.bytes)),
                disk.torn.count(path) == 0)
          << path << " " << seed;
    }
  }
}

TEST(WatcherTest, Round_Replay_IsTheSameSampleInAnyOrder) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 104);
  SimulatedEnvironment environment(&disk, kNever, false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_EQ(environment.last.replay.size(), 10u);
  EXPECT_EQ(environment.last.fresh.size() +
                static_cast<size_t>(environment.last.fresh_held_out),
            8u);
  for (const auto* part : {&environment.last.fresh, &environment.last.replay}) {
    for (const WatchedFile& file : *part) {
      EXPECT_FALSE(Watcher::IsHeldOut(options, file.path));
    }
  }
  for (const WatchedFile& file : environment.last.held_out) {
    EXPECT_TRUE(Watcher::IsHeldOut(options, file.path));
  }
}

TEST(WatcherTest, IsHeldOut_ManyNames_AreTheGivenPart) {
  WatchOptions options = SmallRounds();
  int count = 0;
  for (int i = 0; i < 10000; ++i) {
    count += Watcher::IsHeldOut(options, "a/" + std::to_string(i)) ? 1 : 0;
  }
  EXPECT_NEAR(count, 2500, 150);
  options.validation_split = 0;
  EXPECT_FALSE(Watcher::IsHeldOut(options, "a/1"));
}

// A file that changes between two scans waits for the next one.
TEST(WatcherTest, Scan_NewFile_IsTakenInTheSecondScan) {
  const WatchOptions options = SmallRounds();
  Durable disk;
  AddFiles(&disk, 0, 40);
  SimulatedEnvironment environment(&disk, kNever, false);
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
  SimulatedEnvironment environment(&disk, kNever, false);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  const size_t seen = disk.state.seen.size();
  // It is written a while, and is torn for a while after that.
  AddFile(&disk, "a/x", 5);
  AddFile(&disk, "a/y", 5);
  disk.torn = {"a/x", "a/y"};
  EXPECT_OK(RunUntilIdle(options, &disk, &environment, 10));
  EXPECT_EQ(disk.state.seen.size(), seen);
  ASSERT_EQ(environment.notes.size(),
            2u);  // a line for each, once in a process
  EXPECT_EQ(environment.notes[1],
            "note: a/y: ends early; it is left out until it changes (such "
            "files: 2)");
  disk.torn.clear();
  AddFile(&disk, "a/x", 50);
  AddFile(&disk, "a/y", 50);
  EXPECT_OK(RunUntilIdle(options, &disk, &environment));
  EXPECT_EQ(disk.state.seen.size(), seen + 2);
}

// Its owner writes it and gives the permission to read it later.
TEST(WatcherTest, Scan_FileWithoutPermission_IsTakenWhenItHasIt) {
  Durable disk;
  AddFiles(&disk, 0, 32);
  disk.torn.insert("a/1004");
  SimulatedEnvironment environment(&disk, kNever, false);
  Watcher watcher(SmallRounds(), {}, "", &environment);
  const auto seen = [&] {
    double wait = 0;
    for (int step = 0; step < 100; ++step) EXPECT_OK(watcher.Step(&wait));
    return watcher.state().seen.size();
  };
  EXPECT_EQ(seen(), 24u);  // the last round waits for an example
  disk.torn.clear();
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
  while (!Watcher::IsHeldOut(options, "a/" + std::to_string(held_out))) {
    ++held_out;
  }
  AddFile(&disk, "a/" + std::to_string(held_out));
  ASSERT_EQ(disk.files.size(), 7u);
  SimulatedEnvironment environment(&disk, kNever, false);
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
  SimulatedEnvironment environment(&disk, kNever, false);
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
