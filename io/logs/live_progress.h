// LiveProgress: where a training is now, for readers on other threads and in
// other processes.
//
// Internal. The callback ProgressRecorder keeps it. ToJson and ToPrometheus
// write it; docs/status.md has the fields.

#ifndef RINGLET_IO_LOGS_LIVE_PROGRESS_H_
#define RINGLET_IO_LOGS_LIVE_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/long_wait.h"
#include "../files/file_system.h"
#include "pace.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

struct LiveProgress {
  enum class Phase : uint8_t {
    kStarting,  // reads data, waits for other workers
    kTraining,
    kValidating,
    kLost,    // a worker was lost, and training waits or begins again
    kEnded,   // trained
    kFailed,  // ended by an error or a signal
  };

  std::string run;      // the path of RUN.json
  std::string address;  // the address of --status, or ""
  int64_t process = 0;
  int worker = 0, workers = 1, replicas = 1;
  Phase phase = Phase::kStarting;
  // `epoch` counts from 1; it is 0 before the first.
  int64_t epoch = 0, epochs = 0;
  int64_t step = 0, steps_per_epoch = 0;  // the second is zero if unknown
  int64_t iterations = 0;                 // the steps of the model
  double steps_per_second = -1;  // negative if unknown, as the next two
  double epoch_seconds_left = -1, seconds_left = -1;
  int64_t last_step_at = 0;  // monotonic nanoseconds; zero if none
  LongWait wait;             // a wait for other workers
  std::vector<std::pair<std::string, double>> logs;  // loss and metrics
};

const char* PhaseName(LiveProgress::Phase phase);
// "worker 2", "workers 1, 2"; empty without a wait.
std::string AwaitedText(const LongWait& wait);

// One line. `now` is a time of the monotonic clock. Numbers that are not finite
// are null.
std::string ToJson(const LiveProgress& progress, int64_t now);
// In the text format of Prometheus, version 0.0.4.
std::string ToPrometheus(const LiveProgress& progress, int64_t now);

// Keeps the progress of a fit. It reads clocks and copies logs at most ten
// times a second. Latest is for any thread.
class ProgressRecorder final : public Callback {
 public:
  // `begin` has the fields that no fit changes. `clock` outlives it.
  explicit ProgressRecorder(LiveProgress begin, Clock* clock = Clock::System())
      : clock_(clock), progress_(std::move(begin)) {}

  LiveProgress Latest() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return progress_;
  }
  // Called after each change, by the thread that made it.
  std::function<void()> on_change;
  // Sets the present wait. For any thread.
  void SetWait(const LongWait& wait);

  const char* name() const override { return "progress_recorder"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBegin(FitState& fit) override;
  Status OnEpochBegin(FitState& fit) override;
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override;
  Status OnTestBegin(FitState& fit) override;
  Status OnEpochEnd(FitState& fit, Logs* logs) override;
  void OnFitReturn(FitState& fit, const Status& status) override;

 private:
  using Phase = LiveProgress::Phase;
  void Set(const FitState& fit, Phase phase, int64_t done, const Logs* logs);

  Clock* const clock_;
  Pace pace_;
  int64_t last_change_ = 0;
  mutable std::mutex mutex_;
  LiveProgress progress_;  // guarded by mutex_
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_LIVE_PROGRESS_H_
