// Watcher: decides when `ringlet train --watch` trains, on which files, and
// whether the new model replaces the last one.
//
// Pure: all effects are calls of a WatchEnvironment. A round goes through these
// steps, and a restart continues with the round that its durable state names:
//
//   1. scan the folder until enough new files are complete
//   2. save the state with the round's new examples: the round is open
//   3. train a copy of the last model on them and the replay buffer; evaluate
//      both models on the held-out examples
//   4. if the new model is not worse: replace the last one by it
//   5. save the state: the round is closed
//
// A file that cannot be read in step 3 is noted and left out, and step 3 begins
// again. Without an example to hold out the round is abandoned: step 5 follows,
// and its other examples are new again.

#ifndef RINGLET_IO_WATCH_WATCHER_H_
#define RINGLET_IO_WATCH_WATCHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/status.h"
#include "watch_state.h"
#include "watched_files.h"

namespace ringlet {

// The loss on the held-out examples, of the last model and of the new one.
struct WatchScores {
  bool has_before = false;  // false before the first trained model
  double before = 0, after = 0;
  std::string metrics;  // text for the log: "; accuracy 0.5 -> 0.7", or ""
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
  // Trains a copy of the installed model, and keeps it for Install. Removes
  // from *round the files that it leaves out: damaged files, and files that are
  // gone. kNotFound if a model was installed and is gone.
  virtual Status Train(WatchRound* round, WatchScores* scores) = 0;
  // Replaces the installed model by the model of the last Train. After an error
  // the installed model is whole, and Install can be called again.
  virtual Status Install(const WatchRound& round) = 0;
  virtual int64_t MonotonicNanos() = 0;
  virtual void Log(const std::string& line) = 0;   // the result of a round
  virtual void Note(const std::string& line) = 0;  // a problem
};

class Watcher {
 public:
  // `state` is the state in the file, or a new state with its settings.
  // `installed` is the id in the installed model's file; empty if there is
  // none. `environment` outlives the watcher.
  Watcher(const WatchOptions& options, WatchState state,
          const std::string& installed, WatchEnvironment* environment);

  // Does the next step. *wait_seconds: how long the caller waits before the
  // next call. An error ends the watch. A full disk, a missing folder or a file
  // that is gone is no error: it is noted, and the step is tried again.
  Status Step(double* wait_seconds);

  const WatchState& state() const { return state_; }
  bool is_idle() const { return phase_ == Phase::kScan; }
  // True from the end of a round's training to the end of the round.
  bool is_deciding() const {
    return phase_ == Phase::kInstall || phase_ == Phase::kClosed;
  }

 private:
  enum class Phase : uint8_t {
    kScan,     // no round is open; next: kPlanned
    kPlanned,  // the open round is not saved; next: kTrain
    kTrain,    // the open round is saved; next: kInstall or kClosed
    kInstall,  // the new model is in memory; next: kClosed
    kClosed,   // the model is decided, which is not saved; next: kScan
  };

  Status Scan(double* wait_seconds);
  // Opens a round, if the scan has enough whole examples for one.
  void Plan(const FolderScan& scan);
  Status Train();
  // Checks the files of the round after its training failed. True if some of
  // them are left out from now on.
  bool FindDamaged();
  void NoteDamaged(const WatchedFile& file, const Status& status);
  // Closes the round after the decision between both models. Logs `line`, which
  // has the decision.
  void CloseRound(const std::string& line);
  std::string ScoresLine() const;
  // Moves on after success. Notes a problem that may pass, once, and waits.
  Status Advance(const Status& status, Phase next, double* wait_seconds);

  const WatchOptions options_;
  WatchEnvironment* const environment_;
  WatchState state_;
  Phase phase_ = Phase::kScan;
  WatchRound round_;
  WatchScores scores_;
  int64_t last_round_ns_;  // the time of the last round's end, or of the start
  KnownFiles known_;
  Code problem_ = Code::kOk;    // the last one noted; kOk: it has passed
  bool noted_waiting_ = false;  // it noted a wait for an example to hold out
};

}  // namespace ringlet

#endif  // RINGLET_IO_WATCH_WATCHER_H_
