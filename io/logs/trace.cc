// The profiler is a StepObserver that passes all calls to the program's
// observer. Several may be set and removed in any order (Without). Events are
// 32 bytes in memory that is reserved after the first step, so that a traced
// step allocates nothing.

#include "ringlet/loggers.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "../files/atomic_file.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr size_t kChunk = 32768;  // bytes of the file in memory

void PutString(std::string* out, const char* text) {
  *out += '"';
  for (; *text != '\0'; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') *out += '\\';
    if (c >= 0x20) {
      *out += *text;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", c);
    *out += escape;
  }
  *out += '"';
}

// Nanoseconds as microseconds.
void PutMicros(std::string* out, int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof(text), "%" PRId64 ".%03d", nanos / 1000,
                static_cast<int>(nanos % 1000));
  *out += text;
}

}  // namespace

void Trace::Reserve(size_t events) {
  events_.reserve(std::min(events, max_events_));
}

void Trace::OnPart(const char* what, const char* phase, int64_t begin,
                   int64_t end) {
  if (events_.size() < max_events_) {
    events_.push_back({what, phase, begin, std::max(begin, end)});
  } else {
    ++dropped_;
  }
}

void Trace::Clear() {
  events_.clear();
  dropped_ = 0;
}

Status Trace::Write(const std::string& path, int rank,
                    FileSystem* files) const {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, 0));
  int64_t zero = events_.empty() ? 0 : events_[0].begin;
  for (const Event& e : events_) zero = std::min(zero, e.begin);
  const std::string process = std::to_string(rank);
  std::string out =
      "{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"dropped\": " +
      std::to_string(dropped_) + "},\n\"traceEvents\": [\n" +
      "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " + process +
      ", \"tid\": 0, \"args\": {\"name\": \"rank " + process + "\"}}";
  for (const Event& e : events_) {
    out += ",\n{\"name\": ";
    PutString(&out, e.what);
    out += ", \"cat\": ";
    PutString(&out, e.phase);
    out += ", \"ph\": \"X\", \"pid\": " + process + ", \"tid\": 0, \"ts\": ";
    PutMicros(&out, e.begin - zero);
    out += ", \"dur\": ";
    PutMicros(&out, e.end - e.begin);
    out += '}';
    if (out.size() < kChunk) continue;
    RINGLET_RETURN_IF_ERROR(file.file()->Write(out.data(), out.size()));
    out.clear();
  }
  out += "\n]}\n";
  RINGLET_RETURN_IF_ERROR(file.file()->Write(out.data(), out.size()));
  return file.Commit();
}

namespace {

// Passes what it observes to a trace, and to the observer that was set before.
class Tee final : public StepObserver {
 public:
  explicit Tee(Trace* trace) : trace_(trace) {}
  void OnPart(const char* what, const char* phase, int64_t begin,
              int64_t end) override {
    trace_->OnPart(what, phase, begin, end);
    if (other_ != nullptr) other_->OnPart(what, phase, begin, end);
  }
  StepObserver* Without(const StepObserver* gone) override {
    if (gone == this) return other_;
    if (other_ != nullptr) other_ = other_->Without(gone);
    return this;
  }
  void Watch(Model* model) {
    other_ = model->observer();
    model->set_observer(this);
  }
  // Removes this observer; observers before and after it stay.
  void Leave(Model* model) {
    StepObserver* const first = model->observer();
    if (first != nullptr) model->set_observer(first->Without(this));
    other_ = nullptr;
  }

 private:
  Trace* const trace_;
  StepObserver* other_ = nullptr;
};

class ProfilerCallback final : public Callback {
 public:
  explicit ProfilerCallback(const ProfilerOptions& options)
      : options_(options), trace_(options.max_events) {}

  const char* name() const override { return "profiler"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState&) override {
    if (options_.path.empty()) {
      return InvalidArgument("path is empty; name a file");
    }
    if (options_.first_step < 1 || options_.steps < 1) {
      return InvalidArgument("first_step and steps must be at least 1");
    }
    made_ = 0;
    first_ = step_end_ = -1;
    tracing_ = false;
    trace_.Clear();
    return Status();
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    if (!fit.chief) return Status();
    if (first_ < 0 && made_ + 1 >= options_.first_step) {
      first_ = made_;
      tracing_ = true;
      tee_.Watch(fit.model);
    }
    if (!tracing_) return Status();
    step_begin_ = options_.clock->MonotonicNanos();
    if (step_end_ >= 0) {
      trace_.OnPart("between_steps", "step", step_end_, step_begin_);
    }
    return Status();
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    const bool first = made_ == first_;
    made_ += fit.steps_taken;
    if (!tracing_) return Status();
    step_end_ = options_.clock->MonotonicNanos();
    trace_.OnPart("train_step", "step", step_begin_, step_end_);
    if (first) ReserveForAll(fit.steps_taken);
    if (made_ - first_ >= options_.steps) Finish(fit);
    return Status();
  }

  // Validation is not part of any step.
  Status OnTestBegin(FitState& fit) override {
    if (tracing_) tee_.Leave(fit.model);
    return Status();
  }
  Status OnTestEnd(FitState& fit, const Logs&) override {
    if (tracing_) tee_.Watch(fit.model);
    return Status();
  }

  void OnFitReturn(FitState& fit, const Status&) override {
    if (tracing_) Finish(fit);
  }

 private:
  // Estimates the events from the number in the first step or round, and one
  // more between two.
  void ReserveForAll(int64_t taken) {
    const size_t a_step = trace_.events() + 1;
    const auto steps = static_cast<uint64_t>((options_.steps - 1) / taken + 1);
    trace_.Reserve(steps > options_.max_events / a_step
                       ? options_.max_events
                       : a_step * static_cast<size_t>(steps));
  }

  void Finish(const FitState& fit) {
    tracing_ = false;
    tee_.Leave(fit.model);
    const Status status = trace_.Write(
        options_.path, fit.model->collective()->rank(), options_.files);
    if (!status.ok()) {
      Notice("warning: profiler: %s", status.message());
    }
  }

  const ProfilerOptions options_;
  Trace trace_;
  Tee tee_{&trace_};
  int64_t made_ = 0;    // steps
  int64_t first_ = -1;  // steps before the traced ones, -1 if not yet known
  int64_t step_begin_ = 0, step_end_ = -1;
  bool tracing_ = false;
};

}  // namespace

std::shared_ptr<Callback> Profiler(const ProfilerOptions& options) {
  return std::make_shared<ProfilerCallback>(options);
}

}  // namespace ringlet
