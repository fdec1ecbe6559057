// EventHistory: the events of a job, from the event logs of its workers
// (docs/events.md).
//
// The lines are hostile: their length, nesting and all counts are bounded, and
// a line that is not a JSON object is left out and counted. A field of another
// kind than the documented one counts as missing.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_EVENT_HISTORY_H_
#define RINGLET_TOOLS_RINGLET_REPORT_EVENT_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "curve.h"
#include "ringlet/status.h"

namespace ringlet {

// The seconds of steps, by what a worker did.
struct StepParts {
  double compute = 0, wait = 0, transfer = 0, read = 0, save = 0;
  double sum() const { return compute + wait + transfer + read + save; }
};

// The events of one worker. Fields that a log lacks are 0 or empty.
struct WorkerHistory {
  std::string worker, address, run;
  int64_t steps = 0;  // the steps in `times`
  StepParts times;
  SampledCurve p50, p90, p99, max;  // seconds of a step, by the time
  double slowest = 0;
  std::map<std::string, SampledCurve> logs;      // epochs of the newest run
  int64_t last_epoch = -1, epochs_recorded = 0;  // the epochs in `logs`
  // The time of the last line of an epoch.
  double last_epoch_time = 0;
  // The start of the newest run that it has begun; 0 if there is none.
  double run_began = 0;
  // The plan, the model and the options of the last `fit`.
  double planned_bytes = 0;
  std::string model;
  double parameters = 0, trainable = 0, layers = 0;
  double epochs = 0, steps_per_epoch = 0, batch_size = 0, threads = 0,
         examples = 0;
  double peak_bytes = 0;  // the peak of the process
  // 1 + the place of its present view among EventHistory::views; 0 if there is
  // none.
  size_t view = 0;
  int64_t saves = 0, failed_saves = 0, checks = 0;
  double save_seconds = 0, largest_save = 0;
  // The status and the exit code of the end; "" and 0 if the log has no end.
  std::string status;
  double exit_code = 0;
  double last_time = 0;
  // The place of the newest of its events, by what happened.
  std::map<std::string, size_t> recorded;
};

// A view, or another assignment of its replicas.
struct ViewChange {
  double time = 0;
  int64_t number = 0;
  std::vector<std::string> members;
  // The number of each member. Empty if the numbers are not known.
  std::map<std::string, int64_t> replicas;
};

// A line of the page's list of events.
struct ListedEvent {
  enum class Kind {
    kStart,
    kView,
    kLoss,
    kLeave,
    kJoin,
    kRefused,
    kRollback,
    kSilence,
    kSave,
    kCheck,  // a check that failed
    kWarning,
    kSignal,
    kEnd,
  };
  double time = 0;
  Kind kind = Kind::kWarning;
  std::string worker;  // the worker that recorded it first
  std::string text;
  int64_t recorded_by = 1;  // workers
  size_t view = 0;          // see WorkerHistory::view; only for a kView
};

// How long a worker has waited for another worker.
struct Waiting {
  int64_t count = 0;
  double seconds = 0, longest = 0;
};

class EventHistory {
 public:
  static constexpr size_t kMaxWorkers = 1024, kMaxListed = 2000,
                          kMaxViews = 4096, kMaxPairs = 4096, kMaxLogs = 64,
                          kMaxMembers = 1024;

  // Takes a line without its end. Lines of one file come in their order.
  void TakeLine(const std::string& line);
  // Sorts by time; call it after the last line.
  void Finish();

  bool empty() const { return workers_.empty(); }
  // Returns the workers by their numbers.
  const std::vector<const WorkerHistory*>& workers() const { return ordered_; }
  const std::vector<ViewChange>& views() const { return views_; }
  const std::vector<ListedEvent>& listed() const { return listed_; }
  // The key is (the worker that waits, the worker that it waits for).
  const std::map<std::pair<std::string, std::string>, Waiting>& waits() const {
    return waits_;
  }
  // The epochs of the newest run, each of a worker that has recorded it. A
  // curve that is reduced belongs to one worker.
  std::map<std::string, SampledCurve> EpochCurves() const;
  double begin() const { return begin_; }  // seconds since 1970
  double end() const { return end_; }
  int64_t skipped_lines() const { return skipped_lines_; }
  int64_t left_out() const { return left_out_; }  // beyond a bound

 private:
  struct Line {
    Json json;
    double time = 0;
    WorkerHistory* worker = nullptr;
  };
  WorkerHistory* FindWorker(const std::string& name);
  void TakeStart(const Line& line);
  void TakeCheck(const Line& line);
  void TakeFit(const Line& line);
  void TakeView(const Line& line);
  void TakeReplicas(const Line& line);
  void TakeLoss(const Line& line);
  void TakeSave(const Line& line);
  void TakeSteps(const Line& line);
  void TakeEpoch(const Line& line);
  void TakeWait(const Line& line);
  void TakeEnd(const Line& line);
  void TakeOther(const std::string& event, const Line& line);
  ListedEvent* FindListed(const Line& line, const std::string& key);
  ListedEvent* Add(ListedEvent::Kind kind, const Line& line,
                   const std::string& text, const std::string& key = "");

  std::map<std::string, WorkerHistory> workers_;
  std::vector<const WorkerHistory*> ordered_;
  std::vector<ViewChange> views_;
  // Places of events, by what happened.
  std::map<std::string, std::vector<size_t>> seen_;
  std::vector<ListedEvent> listed_;
  std::map<std::pair<std::string, std::string>, Waiting> waits_;
  double begin_ = 0, end_ = 0;
  int64_t lines_ = 0, skipped_lines_ = 0, left_out_ = 0;
};

// Reads a file's lines, plain or .gz, into *history.
Status ReadEventHistory(const std::string& path, EventHistory* history);
// True if the file begins as an event log does; *time becomes its first time,
// in seconds since 1970.
bool ReadFirstEventTime(const std::string& path, double* time);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_EVENT_HISTORY_H_
