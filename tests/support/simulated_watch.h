// A simulated environment of a Watcher: a folder in memory, a clock that jumps,
// a disk that is full for a while, and kills before and after each effect.

#ifndef RINGLET_TESTS_SUPPORT_SIMULATED_WATCH_H_
#define RINGLET_TESTS_SUPPORT_SIMULATED_WATCH_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "expect_ok.h"
#include "io/watch/watch_state.h"
#include "io/watch/watcher.h"

namespace ringlet {

// The contents of the folder and of the disk, which outlive a process.
struct Durable {
  std::map<std::string, WatchedFile> files;
  std::set<std::string> damaged;  // names of files that are no whole examples
  WatchState state;
  std::string installed;  // the id of the model's round
  uint64_t weights = 1;
  double loss = 10;  // the loss of the installed model
};

// A process: it ends at its `last_effect`-th effect, before or after it.
class SimulatedEnvironment final : public WatchEnvironment {
 public:
  SimulatedEnvironment(Durable* disk, int64_t last_effect, bool after)
      : disk_(*disk), last_effect_(last_effect), after_(after) {}

  Status List(const std::function<void(const WatchedFile&)>& each) override {
    if (EndsHere()) return Killed();
    if (folder_is_away) return NotFound("frames: the folder is gone");
    for (const auto& [path, file] : disk_.files) each(file);
    return Status();
  }
  Status Check(const WatchedFile& file) override {
    if (disk_.files.count(file.path) == 0) return NotFound("gone");
    if (disk_fails)
      return Error(Code::kIo, "%s: read error", file.path.c_str());
    if (disk_.damaged.count(file.path) == 0) return Status();
    return Corruption("%s: ends early", file.path.c_str());
  }
  Status Save(WatchState* state) override {
    if (EndsHere() && !after_) return Killed();
    if (disk_is_full) return OsError(ENOSPC, "m.watch.%d.tmp", ++tries_);
    disk_.state = *state;
    return has_ended_ ? Killed() : Status();
  }
  // The new weights are a function of the old ones, the round and the files.
  Status Train(WatchRound* round, WatchScores* scores) override {
    if (EndsHere()) return Killed();
    RINGLET_RETURN_IF_ERROR(Open({&round->fresh, &round->replay}));
    RINGLET_RETURN_IF_ERROR(Open({&round->held_out}));
    uint64_t weights = disk_.weights * 31 + round->number;
    for (auto* part : {&round->fresh, &round->replay, &round->held_out}) {
      part->erase(std::remove_if(part->begin(), part->end(),
                                 [&](const WatchedFile& file) {
                                   return !Check(file).ok();
                                 }),
                  part->end());
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
    last = *round;
    return Status();
  }
  Status Install(const WatchRound& round) override {
    if (EndsHere() && !after_) return Killed();
    if (disk_is_full) return OsError(ENOSPC, "m.%d.tmp", ++tries_);
    disk_.installed = round.id;
    disk_.weights = new_weights_;
    disk_.loss = new_loss_;
    return has_ended_ ? Killed() : Status();
  }
  int64_t MonotonicNanos() override { return now_ns; }
  void Log(const std::string& line) override { logs.push_back(line); }
  void Note(const std::string& line) override { notes.push_back(line); }

  int64_t effects() const { return effects_; }

  int64_t now_ns = 0;
  bool disk_is_full = false, disk_fails = false, folder_is_away = false;
  WatchRound last;
  std::vector<std::string> logs, notes;

 private:
  // As a dataset that leaves out damaged files: one must be whole.
  Status Open(const std::vector<const std::vector<WatchedFile>*>& parts) {
    Status first;
    for (const auto* part : parts) {
      for (const WatchedFile& file : *part) {
        const Status status = Check(file);
        if (status.ok()) return status;
        if (first.ok()) first = status;
      }
    }
    return first;
  }
  static Status Killed() { return Error(Code::kCancelled, "killed"); }
  bool EndsHere() {
    ++effects_;
    if (effects_ >= last_effect_) has_ended_ = true;
    return has_ended_;
  }

  Durable& disk_;
  const int64_t last_effect_;
  const bool after_;
  bool has_ended_ = false;
  int tries_ = 0;  // the number of tried temporary files
  int64_t effects_ = 0;
  uint64_t new_weights_ = 0;
  double new_loss_ = 0;
};

// The numbers in the line that reports a round.
struct RoundCounts {
  int fresh = 0, replay = 0, held_out = 0, fresh_held_out = 0;
};
inline RoundCounts ParseCounts(const std::string& line) {
  RoundCounts counts;
  EXPECT_EQ(std::sscanf(line.c_str(),
                        "round %*d: %d new, %d replayed, %d held out (%d new)",
                        &counts.fresh, &counts.replay, &counts.held_out,
                        &counts.fresh_held_out),
            4)
      << line;
  return counts;
}

constexpr int64_t kNever = INT64_MAX;

inline WatchOptions SmallRounds() {
  WatchOptions options;
  options.seed = 7;
  options.validation_split = 0.25;
  options.round_examples = 8;
  options.replay = 10;
  return options;
}

inline void AddFile(Durable* disk, const std::string& path, int64_t bytes = 100,
                    int64_t written_ns = 0) {
  disk->files[path] = {path, path[0] == 'a' ? 0 : 1, bytes, written_ns};
}

inline void AddFiles(Durable* disk, int from, int to) {
  for (int i = from; i < to; ++i) {
    AddFile(disk, (i % 2 == 0 ? "a/" : "b/") + std::to_string(1000 + i));
  }
}

// Runs a process until it has nothing to do, or ends. Returns its last status.
inline Status RunUntilIdle(const WatchOptions& options, Durable* disk,
                           SimulatedEnvironment* environment,
                           int idle_scans = 3) {
  WatchState state = disk->state;
  state.settings = options.SettingsChecksum();
  Watcher watcher(options, state, disk->installed, environment);
  for (int idle = 0; idle < idle_scans;) {
    double wait = 0;
    RINGLET_RETURN_IF_ERROR(watcher.Step(&wait));
    environment->now_ns += static_cast<int64_t>(wait * 1e9);
    idle = wait > 0 && watcher.is_idle() ? idle + 1 : 0;
  }
  return Status();
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SIMULATED_WATCH_H_
