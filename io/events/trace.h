// Trace: the time of each layer and phase, as trace events.
//
// Public. A Trace records a trace event for each layer and phase of a step and
// writes them in Chrome's trace event format, which chrome://tracing and
// ui.perfetto.dev show: one complete event ("ph": "X") each, named after the
// layer, with the phase as category, times in microseconds from the first one.
//
//   Trace trace;
//   trace.Reserve(1000);
//   model.set_observer(&trace);
//   ... steps ...
//   model.set_observer(nullptr);
//   trace.Write("step.json");

#ifndef RINGLET_IO_EVENTS_TRACE_H_
#define RINGLET_IO_EVENTS_TRACE_H_

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
  // very first one takes memory and is slower than the others.
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

#endif  // RINGLET_IO_EVENTS_TRACE_H_
