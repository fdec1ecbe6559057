// Watcher: decides when `ringlet train --watch` trains, on which files, and
// whether the new model replaces the last one.
//
// Pure: all effects are calls of a WatchEnvironment. A round goes through these
// steps, and a restart continues with the one that its durable state names:
//
//   1. scan the folder until enough new files are complete
//   2. save the state with the round's new examples: the round is open
//   3. train a copy of the last model on them and the replay buffer; evaluate
//      both models on the held-out examples
//   4. if the new model is not worse: replace the last one by it
//   5. save the state: the round is closed
//
// All choices are functions of the seed and the names of the files, so a round
// that is repeated gives the same bits. No choice depends on the time of day.

#ifndef RINGLET_IO_WATCH_WATCHER_H_
#define RINGLET_IO_WATCH_WATCHER_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ringlet/status.h"
#include "watch_state.h"

namespace ringlet {

struct WatchOptions {
  uint64_t seed = 0;
  double validation_split = 0;  // the part of the examples that is held out
  int64_t round_examples = 32;  // as many new examples begin a round
  // After this time a round begins with fewer new examples. 0: never.
  double round_seconds = 0;
  // The most examples of earlier rounds that a round trains on. It evaluates at
  // most as many, but up to kLeastHeldOut in any case.
  int64_t replay = 1000;
  static constexpr int64_t kLeastHeldOut = 100;
  double scan_seconds = 2;  // between two scans, at least
};

struct WatchedFile {
  std::string path;  // below the folder; begins with the folder of its class
  int32_t label = 0;
  int64_t bytes = 0;
  // Compared with themselves only: the clock may be wrong.
  int64_t written_ns = 0;
  int64_t changed_ns = 0;  // of its permissions too
};

struct WatchRound {
  int64_t number = 0;
  std::string id;  // WatchState::RoundId
  // Sorted by path.
  std::vector<WatchedFile> fresh, replay, held_out;
  int64_t fresh_held_out = 0;  // of the new examples, those in `held_out`
};

// The loss on the held-out examples, of the last model and of the new one.
struct WatchScores {
  bool has_before = false;  // false: there is no trained model yet
  double before = 0, after = 0;
  std::string metrics;  // for the log: "; accuracy 0.5 -> 0.7", or ""
};

// True if the new model replaces the last one.
bool IsNotWorse(const WatchScores& scores);

// The effects of a Watcher.
class WatchEnvironment {
 public:
  virtual ~WatchEnvironment() = default;
  // Calls `each` for every file of the folder, in any order. Files may appear,
  // grow and disappear meanwhile.
  virtual Status List(const std::function<void(const WatchedFile&)>& each) = 0;
  // OK if the file is a whole example. kNotFound if it is gone.
  virtual Status Check(const WatchedFile& file) = 0;
  // Returns with the state durable.
  virtual Status Save(WatchState* state) = 0;
  // Trains a copy of the installed model, and keeps it for Install. Leaves out
  // files that are gone.
  virtual Status Train(const WatchRound& round, WatchScores* scores) = 0;
  // Replaces the installed model by the one of the last Train. After an error
  // the installed model is whole, and Install can be called again.
  virtual Status Install(const WatchRound& round) = 0;
  virtual int64_t MonotonicNanos() = 0;
  virtual void Log(const std::string& line) = 0;   // the result of a round
  virtual void Note(const std::string& line) = 0;  // a problem
};

class Watcher {
 public:
  // `state` is that of the file, or a new one with its settings. `installed` is
  // the id in the installed model's file; "": none. `environment` outlives the
  // watcher.
  Watcher(const WatchOptions& options, WatchState state,
          const std::string& installed, WatchEnvironment* environment);

  // The checksum of the options for WatchState::settings.
  static uint64_t SettingsOf(const WatchOptions& options);
  static bool IsHeldOut(const WatchOptions& options, const std::string& path);

  // Does the next step. *wait_seconds: how long the caller waits before the
  // next call. An error ends the watch: a full disk, a missing folder or a file
  // that is gone are none; they are noted, and the step is tried again.
  Status Step(double* wait_seconds);

  const WatchState& state() const { return state_; }
  bool is_idle() const { return phase_ == Phase::kScan; }
  // True from the end of a round's training to the end of the round.
  bool is_deciding() const {
    return phase_ == Phase::kInstall || phase_ == Phase::kClose ||
           phase_ == Phase::kClosed;
  }

 private:
  enum class Phase : uint8_t {
    kScan,     // no round is open; next: kPlanned
    kPlanned,  // the open round is not saved; next: kTrain
    kTrain,    // the open round is saved; next: kInstall or kClose
    kInstall,  // the new model is in memory; next: kClose
    kClose,    // the model is decided; next: kClosed
    kClosed,   // the closed round is not saved; next: kScan
  };
  // A new file that may begin a round. `order` is random by seed and name, so
  // that a round of a large folder has all classes.
  struct Candidate {
    uint64_t order, stamp;
    WatchedFile file;
    bool operator<(const Candidate& other) const;
  };
  struct Scanned {
    std::vector<Candidate> candidates;      // the first in their order
    std::vector<Candidate> first_held_out;  // at most one
    int64_t complete = 0;                   // new files that do not change
    bool has_held_out = false;              // among the examples seen
    std::vector<uint64_t> stamps;           // of the new files, ascending
    std::vector<bool> is_there;             // for WatchState::seen
  };

  Status Scan(double* wait_seconds);
  Status ListNew(Scanned* scanned);
  void AddNew(const WatchedFile& file, Scanned* scanned) const;
  // True if enough new examples wait, or have waited long enough.
  bool IsDue(const Scanned& scanned) const;
  // Opens a round, if enough of the candidates are whole examples.
  void Plan(Scanned* scanned);
  // Removes the candidates that are no whole examples, and notes them.
  void KeepWhole(std::vector<Candidate>* candidates);
  void DropRemoved(const std::vector<bool>& is_there);
  Status MakeRound();
  Status Train();
  // Moves on after success. Notes a problem that may pass, once, and waits.
  Status Advance(const Status& status, Phase next, double* wait_seconds);
  void LogRound(bool replaced);

  const WatchOptions options_;
  WatchEnvironment* const environment_;
  WatchState state_;
  Phase phase_ = Phase::kScan;
  WatchRound round_;
  WatchScores scores_;
  bool has_scores_ = false;  // the open round was trained by this process
  int64_t last_round_ns_;    // when the last round ended, or the start
  // Checksums of name, length and time of the new files of the last scan,
  // ascending. A file that has the same in two scans is complete.
  std::vector<uint64_t> stamps_;
  std::set<uint64_t> damaged_;  // stamps of complete files that are no examples
  Code problem_ = Code::kOk;    // the last one noted; kOk: it has passed
  bool noted_waiting_ = false;  // for an example to hold out
};

}  // namespace ringlet

#endif  // RINGLET_IO_WATCH_WATCHER_H_
