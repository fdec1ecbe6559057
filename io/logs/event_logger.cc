// EventLogger: the events of a fit. Every rank has one; it has no state that a
// backup saves.

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "../../core/base/events.h"
#include "../../core/base/named.h"
#include "../../core/fit/fit_details.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"
#include "ringlet/model.h"
#include "step_times.h"

namespace ringlet {
namespace {

// Nanoseconds between two "steps"; the first one comes soon.
constexpr int64_t kEvery = 10000000000, kFirst = 1000000000;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

constexpr Named<RestoreSource> kSources[] = {
    {"memory", RestoreSource::kMemory}, {"backup", RestoreSource::kBackup}};

const char* SourceName(RestoreSource source) {
  return NameIn(kSources, source, "start");
}

int64_t PeakMemoryBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

JsonWriter ModelFields(const Model& model) {
  JsonWriter w;
  w.BeginObject().Key("name").String(model.name());
  w.Key("layers").Int(model.num_nodes() - model.num_inputs());
  w.Key("parameters").Int(model.num_weights());
  w.Key("trainable_parameters").Int(model.num_trained()).EndObject();
  return w;
}

class EventLoggerCallback final : public Callback {
 public:
  const char* name() const override { return "event_logger"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  // The callbacks before this one have restored their backup.
  Status OnTrainBegin(FitState& fit) override {
    if (g_events == nullptr) return Status();
    RecordRollback(fit);
    RecordFit(fit);
    SetPosition(fit);
    times_.Clear();
    every_ = kFirst;
    timed_ = false;
    return Status();
  }
  Status OnTrainBatchBegin(FitState&) override {
    if (timed_) return Status();
    // Times between epochs are not times of steps.
    EventSink* const sink = g_events;
    if (sink == nullptr) return Status();
    for (auto& part : sink->parts) part = 0;
    last_end_ = Now();
    if (times_.count() == 0) window_begin_ = last_end_;
    timed_ = true;
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (!timed_) return Status();
    const int64_t now = Now(), steps = std::max<int64_t>(fit.steps_taken, 1);
    if (times_.count() == 0) first_step_ = step_ + 1;
    times_.Add((now - last_end_) / steps, steps);
    nanos_ += now - last_end_;
    last_end_ = now;
    SetPosition(fit);
    TakeParts();
    if (now - window_begin_ >= every_) RecordSteps(now);
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    timed_ = false;
    if (g_events == nullptr) return Status();
    JsonWriter values;
    values.BeginObject();
    for (const auto& [key, value] : logs->entries()) {
      values.Key(key).Number(value);
    }
    Event event("epoch");
    event.Int("epoch", fit.epoch).Int("step", fit.model->iterations());
    event.Add("logs", values.EndObject());
    event.Add("learning_rate", JsonWriter().Float(fit.model->LearningRate()));
    RecordEvent(event.Int("peak_memory_bytes", PeakMemoryBytes()));
    return Status();
  }
  void OnFitReturn(FitState&, const Status&) override {
    RecordSteps(Now());
    timed_ = false;
  }

 private:
  void SetPosition(const FitState& fit) {
    epoch_ = fit.epoch;
    step_ = fit.model->iterations();
    EventSink* const sink = g_events;
    if (sink == nullptr) return;
    sink->epoch = epoch_;
    sink->step = step_;
  }
  void RecordRollback(const FitState& fit) const {
    const int64_t step = fit.model->iterations();
    if (!fit.details->after_loss || step >= step_) return;
    Event event("rollback");
    event.Int("from_epoch", epoch_).Int("from_step", step_);
    event.Int("to_epoch", fit.epoch).Int("to_step", step);
    RecordEvent(event.Text("source", SourceName(fit.details->source)));
  }
  static void RecordFit(const FitState& fit) {
    const Model& model = *fit.model;
    const int64_t replicas = model.num_replicas();
    const int64_t batch = fit.dataset->batch_size() / replicas;
    Event event("fit");
    event.Int("epochs", fit.epochs).Int("steps_per_epoch", fit.steps_per_epoch);
    event.Int("batch_size", batch).Int("replicas", replicas);
    event.Int("threads", model.threads()).Int("examples", fit.dataset->size());
    event.Int("planned_memory_bytes",
              static_cast<int64_t>(model.BytesNeeded(batch)));
    event.Add("model", ModelFields(model));
    event.Int("epoch", fit.epoch).Int("step", model.iterations());
    RecordEvent(event.Text("source", SourceName(fit.details->source)));
  }
  void TakeParts() {
    EventSink* const sink = g_events;
    if (sink == nullptr) return;
    for (size_t i = 0; i < EventSink::kNumParts; ++i) {
      parts_[i] += sink->parts[i].exchange(0, std::memory_order_relaxed);
    }
  }
  void RecordSteps(int64_t now) {
    if (times_.count() == 0) return;
    Event event("steps");
    event.Int("epoch", epoch_).Int("first_step", first_step_);
    event.Int("last_step", step_).Int("count", times_.count());
    event.Seconds("p50", times_.Quantile(0.5));
    event.Seconds("p90", times_.Quantile(0.9));
    event.Seconds("p99", times_.Quantile(0.99));
    event.Seconds("max", times_.max());
    int64_t rest = nanos_;
    for (const int64_t part : parts_) rest -= part;
    event.Seconds("compute", std::max<int64_t>(rest, 0));
    event.Seconds("wait", parts_[EventSink::kWait]);
    event.Seconds("transfer", parts_[EventSink::kTransfer]);
    event.Seconds("read", parts_[EventSink::kRead]);
    RecordEvent(event.Seconds("save", parts_[EventSink::kSave]));
    times_.Clear();
    nanos_ = 0;
    std::fill(std::begin(parts_), std::end(parts_), 0);
    window_begin_ = now;
    every_ = kEvery;
  }

  StepTimes times_;
  int64_t window_begin_ = 0;  // the time at which times_ began
  int64_t every_ = kFirst;
  int64_t nanos_ = 0;  // the time of the steps in times_
  int64_t parts_[EventSink::kNumParts] = {};
  int64_t first_step_ = 0;
  int64_t last_end_ = 0;  // the time at which the last step ended
  bool timed_ = false;    // last_end_ is the beginning of the next step
  int64_t epoch_ = 0, step_ = 0;
};

}  // namespace

std::shared_ptr<Callback> EventLogger() {
  return std::make_shared<EventLoggerCallback>();
}

}  // namespace ringlet
