// Loggers: files that a running fit writes. EventLog: a worker's rare events.

#ifndef RINGLET_LOGGERS_H_
#define RINGLET_LOGGERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "files.h"
#include "fit.h"
#include "model.h"
#include "status.h"

namespace ringlet {

// --- loggers -----------------------------------------------------------------

// Callbacks of the chief. If the disk is full, there is a warning and the fit
// continues.
//
// CSVLogger, StepLogger and ExampleLogger write CSV rows. A resumed fit
// continues after the last row of its backup or verified point. On a full disk
// up to 1 MiB of rows are kept for later. A link to a file is refused. If
// another process has locked the log, it is "log.worker-<n>.csv", with a note.

// Keras's CSVLogger: "epoch" (from 0), then the logs by name, with "NA" in
// epochs without validation. `append` keeps the rows of the file.
std::shared_ptr<Callback> CSVLogger(const std::string& filename,
                                    char separator = ',', bool append = false);

// "epoch,step,loss,<metrics>", from 0, to compare runs. Each value is the value
// of one step over the global batch, as the shortest exact decimal. `digests`
// adds Model::DigestWeights after the step. A continued log keeps its columns.
std::shared_ptr<Callback> StepLogger(const std::string& filename,
                                     bool digests = false);

// For `ringlet audit`: "epoch,step,replica,pass,used,size,examples". `examples`
// are indices in the source, in the order of the global batch. A "/" separates
// the examples of two passes. The pass used `used` of `size` examples before
// this step. With AutoShard kFile or kOff there is a row for each replica, with
// used and size 0. Otherwise `replica` is "all".
std::shared_ptr<Callback> ExampleLogger(const std::string& filename);

// Event files in log_dir/train and log_dir/validation, as Keras 3's
// callbacks/tensorboard.py:
//
//   epoch_<name>, epoch_learning_rate       step = epoch, from 0
//   epoch_steps_per_second                  on request
//   batch_<name>, batch_steps_per_second    step = batch of the fit, from 1
//   evaluation_<name>_vs_iterations         step = iterations of the optimizer
//   <layer>/<weight>/histogram              step = epoch
//
// A resumed fit adds a file and continues the steps; events after the last save
// appear twice. batch_<name> covers the chief's examples; all other tags cover
// the examples of all workers. A folder that cannot be written ends the fit at
// its start. docs/event_files.md has details. There are no write_graph,
// write_images, embeddings_freq and profile_batch (see Profiler).
struct TensorBoardOptions {
  // Keras's update_freq "epoch" and "batch".
  static constexpr int64_t kEpoch = 0;
  static constexpr int64_t kBatch = 1;

  std::string log_dir = "logs";
  int64_t histogram_freq = 0;  // in epochs; zero means none
  bool write_steps_per_second = false;
  // kEpoch, kBatch, or a number of batches. A round of local updates that
  // passes a multiple records its last batch.
  int64_t update_freq = kEpoch;
  Clock* clock = Clock::System();
  FileSystem* files = PosixFiles();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options = {});

// The time of each layer and phase, in Chrome's trace event format for
// chrome://tracing and ui.perfetto.dev. Each event is complete ("ph": "X"),
// with the phase as category, in microseconds from the first event.
//
//   Trace trace;
//   trace.Reserve(1000);
//   model.set_observer(&trace);
//   ... steps ...
//   model.set_observer(nullptr);
//   trace.Write("step.json");
class Trace final : public StepObserver {
 public:
  // Later events, of 32 bytes each, are counted and dropped.
  explicit Trace(size_t max_events = 65536) : max_events_(max_events) {}

  // Allocates memory for `events` in all, at most max_events.
  void Reserve(size_t events);
  // `what` and `phase` must outlive the Trace. A model's names live as long as
  // the model.
  void OnPart(const char* what, const char* phase, int64_t begin,
              int64_t end) override;
  size_t events() const { return events_.size(); }
  int64_t dropped() const { return dropped_; }
  void Clear();

  // Replaces the file atomically. `rank` becomes the number of the process.
  Status Write(const std::string& path, int rank = 0,
               FileSystem* files = PosixFiles()) const;

 private:
  struct Event {
    const char* what;
    const char* phase;
    int64_t begin, end;
  };

  const size_t max_events_;
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

struct ProfilerOptions {
  std::string path = "trace.json";
  // Counts from 1 in this fit. The first step also allocates memory. With local
  // updates tracing begins with the first round from this step on.
  int64_t first_step = 2;
  int64_t steps = 10;
  size_t max_events = 65536;
  Clock* clock = Clock::System();
  FileSystem* files = PosixFiles();
};
// Traces these steps on the chief, as the model's observer, with "train_step"
// for a step and "between_steps" before it. The file is written after the last
// step or the fit; a failure is reported on stderr, and the fit continues.
std::shared_ptr<Callback> Profiler(const ProfilerOptions& options = {});

// --- the event log -----------------------------------------------------------

struct EventLogOptions {
  std::string path;
  std::string run;  // the run's file, for the log
  // This worker's number in the job's list, and the number of workers in the
  // list.
  int worker = 0, workers = 1;
  std::string address;
  // The most bytes of the file and of the previous file, <path>.1, together.
  int64_t max_bytes = 1000000;
  Clock* clock = Clock::System();
};

// A file of JSON lines, each of which is written immediately (docs/events.md).
class EventLog {
 public:
  // Appends until destruction. Create it before the objects that compute and
  // communicate, and destroy it after them.
  //   kInvalidArgument  the file, or <path>.1, is not an event log
  //   kUnavailable      another process writes the file
  //   kAlreadyExists    this process has another event log
  static Status Open(const EventLogOptions& options,
                     std::unique_ptr<EventLog>* out);
  virtual ~EventLog() = default;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Sets the result in the last event, which the destructor writes. The default
  // exit code is 0.
  virtual void SetResult(const Status& status, int exit_code) = 0;

 protected:
  EventLog() = default;
};

// Records a fit in the process's event log, if there is one. Callbacks that
// restore or save come before it.
std::shared_ptr<Callback> EventLogger();

}  // namespace ringlet

#endif  // RINGLET_LOGGERS_H_
