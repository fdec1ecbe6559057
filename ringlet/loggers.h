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

// Callbacks that write files on the chief while a fit runs. If the disk is
// full, there is a warning and the fit continues.
//
// CSVLogger, StepLogger and ExampleLogger write a row of a CSV file after each
// epoch or step. A resumed fit continues after the last row of its backup or
// verified point. On a full disk up to 1 MiB of rows are kept and written
// later. A link to a file is refused. If another process has locked the log,
// this one writes "log.worker-<n>.csv" beside it, and a note reports it.

// Keras's CSVLogger: "epoch" (from 0), then the logs by name, with "NA" in
// epochs without validation. With `append` a new fit keeps the rows of the
// file.
std::shared_ptr<Callback> CSVLogger(const std::string& filename,
                                    char separator = ',', bool append = false);

// Compares runs step by step: "epoch,step,loss,<metrics>", counted from 0. Each
// value belongs to the step alone, over the whole global batch, as the shortest
// decimal that reads back exactly. With `digests` the last column is
// Model::DigestWeights after the step. A continued log keeps its columns.
std::shared_ptr<Callback> StepLogger(const std::string& filename,
                                     bool digests = false);

// Records the examples of each step, for `ringlet audit`:
// "epoch,step,replica,pass,used,size,examples". `examples` are their numbers in
// the source, in the order of the global batch, with "/" before the first of
// the next pass. `used` is how many examples the pass used before this step, of
// `size`. With AutoShard kFile or kOff there is a row for each replica, with
// used and size 0; else `replica` is "all".
std::shared_ptr<Callback> ExampleLogger(const std::string& filename);

// TensorBoard: event files in log_dir/train and log_dir/validation. Options,
// tags and steps are those of Keras 3's callbacks/tensorboard.py:
//
//   epoch_<name>, epoch_learning_rate       step = epoch, from 0
//   epoch_steps_per_second                  on request
//   batch_<name>, batch_steps_per_second    step = batch of the fit, from 1
//   evaluation_<name>_vs_iterations         step = iterations of the optimizer
//   <layer>/<weight>/histogram              step = epoch
//
// A resumed fit adds a file and continues the steps; events after the last save
// appear twice. batch_<name> covers the chief's part of the data, all other
// tags the whole. A folder that cannot be written ends the fit before its first
// step. docs/event_files.md has the details. Keras's write_graph, write_images,
// embeddings_freq and profile_batch (see Profiler) are missing.
struct TensorBoardOptions {
  // Keras's update_freq "epoch" and "batch".
  static constexpr int64_t kEpoch = 0;
  static constexpr int64_t kBatch = 1;

  std::string log_dir = "logs";
  int64_t histogram_freq = 0;  // epochs between histograms; 0: no histograms
  bool write_steps_per_second = false;
  // kEpoch, kBatch, or N > 1: an event every N batches. A round of local
  // updates that passes a multiple of N records its last batch.
  int64_t update_freq = kEpoch;
  Clock* clock = Clock::System();
  FileSystem* files = PosixFiles();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options = {});

// Trace: the time of each layer and phase of a step, in Chrome's trace event
// format, which chrome://tracing and ui.perfetto.dev show. Each event is
// complete ("ph": "X"), with the layer's name, and the phase as category. Times
// are microseconds from the first event.
//
//   Trace trace;
//   trace.Reserve(1000);
//   model.set_observer(&trace);
//   ... steps ...
//   model.set_observer(nullptr);
//   trace.Write("step.json");
class Trace final : public StepObserver {
 public:
  // Later events, of 32 bytes each on 64-bit systems, are counted and dropped.
  explicit Trace(size_t max_events = 65536) : max_events_(max_events) {}

  // Allocates memory for `events` in all, at most max_events.
  void Reserve(size_t events);
  // `what` and `phase` outlive this; a model's names live as long as the model.
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
  // Counted from 1 at the start of this fit. The first step allocates memory
  // and is slower. With local updates the first round from this step on.
  int64_t first_step = 2;
  int64_t steps = 10;
  size_t max_events = 65536;
  Clock* clock = Clock::System();
  FileSystem* files = PosixFiles();
};
// Traces these steps of a fit on the chief, as the model's observer, with
// events for whole steps ("train_step") and the time before each
// ("between_steps"). The file is written after the last step or at the end of
// the fit; a failure is reported on stderr, and the fit continues.
std::shared_ptr<Callback> Profiler(const ProfilerOptions& options = {});

// --- the event log -----------------------------------------------------------

struct EventLogOptions {
  std::string path;
  std::string run;  // the run's file, for the log
  // This worker's number in the job's list, the number of workers in the list,
  // and this worker's address.
  int worker = 0, workers = 1;
  std::string address;
  // Bytes of the file and the previous one, <path>.1, together.
  int64_t max_bytes = 1000000;
  Clock* clock = Clock::System();
};

// A file of JSON lines with this process's rare events, each a line that is
// written immediately. docs/events.md has the format. A process has one log.
class EventLog {
 public:
  // Appends to the file until the EventLog is destroyed. Create it before the
  // objects that compute and communicate, and destroy it after them.
  //   kInvalidArgument  the file, or <path>.1, is not an event log
  //   kUnavailable      another process writes the file
  //   kAlreadyExists    this process has another event log
  static Status Open(const EventLogOptions& options,
                     std::unique_ptr<EventLog>* out);
  virtual ~EventLog() = default;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Sets the result of the process for the last event, which the destructor
  // records. Without this call the exit code is 0.
  virtual void SetResult(const Status& status, int exit_code) = 0;

 protected:
  EventLog() = default;
};

// Records a fit in the process's event log: its position, step times and logs.
// It does nothing without a log. Callbacks that restore or save come before it.
std::shared_ptr<Callback> EventLogger();

}  // namespace ringlet

#endif  // RINGLET_LOGGERS_H_
