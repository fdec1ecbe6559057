// Loggers: what a fit writes of itself to files while it runs.
//
// Public. CSVLogger, StepLogger and ExampleLogger write rows, TensorBoard event
// files, and Profiler a trace of single steps, all on the chief. After a
// warning a fit goes on without what a full disk did not take.

#ifndef RINGLET_IO_EVENTS_LOGGERS_H_
#define RINGLET_IO_EVENTS_LOGGERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/clock.h"
#include "../../core/fit/callback.h"
#include "../../core/model/model.h"
#include "../files/file_system.h"

namespace ringlet {

// CSVLogger, StepLogger and ExampleLogger: CSV files with a row an epoch, or a
// step. Written row by row; a resumed fit goes on behind the rows of its
// backup. What a full disk does not take is kept and written later; a warning
// says so. A link to a file is refused.

// Keras's: "epoch" (from 0), then the logs by name. `append` keeps what the
// file holds.
std::shared_ptr<Callback> CSVLogger(const std::string& filename,
                                    char separator = ',', bool append = false);

// For comparing runs step by step: "epoch,step,loss,<metrics>", epochs and
// steps from 0, each value that of the step alone (over the whole global batch,
// not the epoch's running mean), as the shortest decimal that reads back the
// same. With `digests` "weights_digest" is last: Model::weights_digest after
// the step, by which runs are compared to the bit. A log that is gone on with
// keeps its columns.
std::shared_ptr<Callback> StepLogger(const std::string& filename,
                                     bool digests = false);

// Which examples each step used, for `ringlet audit` (example_audit.h):
// "epoch,step,replica,pass,used,size,examples". `examples` are numbers of the
// source in the order of the global batch, "/" before the first of the next
// pass; `used` are those of the pass before this step, `size` those of a whole
// pass. Where each worker has data of its own (AutoShard) a row for each
// replica, of which used and size are 0; else `replica` is "all".
std::shared_ptr<Callback> ExampleLogger(const std::string& filename);

// TensorBoard: writes what TensorBoard shows. Options, tags and steps are those
// of Keras 3's callbacks/tensorboard.py. In log_dir/train and
// log_dir/validation an event file for each fit:
//
//   epoch_<name>, epoch_learning_rate       step = epoch, from 0
//   epoch_steps_per_second                  on request
//   batch_<name>, batch_steps_per_second    step = batch of the fit, from 1
//   evaluation_<name>_vs_iterations         step = iterations of the optimizer
//   <layer>/<weight>/histogram              step = epoch
//
// A resumed fit adds a file, and its steps go on. What was recorded is with the
// operating system before the step or epoch is saved, so a process that is
// killed leaves no gap; what it had recorded after the last save is there
// twice.
//
// Written by the chief only. batch_<name> is of the chief's part of the data,
// all else of the whole. A folder that cannot be written ends the fit before
// its first step, unless it is for want of space; a full disk, and a file that
// cannot be written later, is reported on stderr and the fit goes on. What is
// recorded before a file could be made is lost.
//
// Of Keras's options write_graph, write_images, embeddings_freq and
// profile_batch are not here; for the last see Profiler below.
struct TensorBoardOptions {
  // Keras's update_freq "epoch" and "batch".
  static constexpr int64_t kEpoch = 0;
  static constexpr int64_t kBatch = 1;

  std::string log_dir = "logs";
  int64_t histogram_freq = 0;  // every so many epochs; 0: none
  bool write_steps_per_second = false;
  // Or every so many batches; of a round of local updates that passes such a
  // number its last batch.
  int64_t update_freq = kEpoch;
  Clock* clock = Clock::System();
  FileSystem* files = FileSystem::Posix();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options = {});

// Trace: the time of each layer and phase of a step, as trace events. It writes
// them in Chrome's trace event format, which chrome://tracing and
// ui.perfetto.dev show: one complete event ("ph": "X") each, named after the
// layer, with the phase as category, times in microseconds from the first one.
//
//   Trace trace;
//   trace.Reserve(1000);
//   model.set_observer(&trace);
//   ... steps ...
//   model.set_observer(nullptr);
//   trace.Write("step.json");
class Trace final : public StepObserver {
 public:
  // Holds up to `max_events`, of 32 bytes each on 64 bits; what comes later is
  // counted and left out.
  explicit Trace(size_t max_events = 65536) : max_events_(max_events) {}

  // Takes the memory for `events` in all, at most the largest number; up to
  // there nothing is allocated.
  void Reserve(size_t events);
  // `what` and `phase` outlive this; a model's names live as long as the model.
  void Piece(const char* what, const char* phase, int64_t begin,
             int64_t end) override;
  size_t events() const { return events_.size(); }
  int64_t dropped() const { return dropped_; }
  void Clear();

  // Replaces the file, wholly or not at all. `rank` becomes the number of the
  // process.
  Status Write(const std::string& path, int rank = 0,
               FileSystem* files = FileSystem::Posix()) const;

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
  // Steps are counted from 1 from where this fit begins, resumed or not. The
  // very first one takes memory and is slower than the others. Of local updates
  // whole rounds are traced: the first that begins with this step or later, and
  // those behind it that have so many in all.
  int64_t first_step = 2;
  int64_t steps = 10;
  size_t max_events = 65536;
  Clock* clock = Clock::System();
  FileSystem* files = FileSystem::Posix();
};
// Traces these steps of a fit on the chief, each also as a whole ("train_step")
// and with the time before it ("between_steps": data, callbacks, validation),
// and writes the file behind the last one or where the fit ends. From its
// second step on it allocates nothing. A file that cannot be written is
// reported on stderr and the fit goes on. While it traces the model's observer
// is the profiler's, which passes everything to the one that was set before.
std::shared_ptr<Callback> Profiler(const ProfilerOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_LOGGERS_H_
