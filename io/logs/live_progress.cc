#include "live_progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "../../core/base/json.h"
#include "../../core/base/named.h"
#include "../../core/base/number_text.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr int64_t kChangeNanos = 100000000;
constexpr double kUnknown = -1;

double SecondsSinceStep(const LiveProgress& progress, int64_t now) {
  if (progress.last_step_at == 0) return kUnknown;
  return static_cast<double>(now - progress.last_step_at) * 1e-9;
}

void Number(const char* key, double value, JsonWriter* json) {
  json->Key(key);
  if (std::isfinite(value)) {
    json->Number(value);
  } else {
    json->Null();
  }
}

// Unknown values are left out.
void Known(const char* key, double value, JsonWriter* json) {
  if (value >= 0) Number(key, value, json);
}

// A label's value: a backslash, a quote and a line end are escaped.
std::string Label(const std::string& text) {
  std::string label;
  for (const char c : text) {
    if (c == '\\' || c == '"') label += '\\';
    if (c == '\n') {
      label += "\\n";
    } else {
      label += c;
    }
  }
  return label;
}

std::string Value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return ShortestText(value);
}

class Metrics {
 public:
  void Begin(const char* name, const char* type, const char* help) {
    text_ += std::string("# HELP ringlet_") + name + " " + help +
             "\n# TYPE ringlet_" + name + " " + type + "\n";
  }
  void Sample(const char* name, const std::string& labels, double value) {
    text_ +=
        std::string("ringlet_") + name + labels + " " + Value(value) + "\n";
  }
  void Gauge(const char* name, const char* help, double value) {
    Begin(name, "gauge", help);
    Sample(name, "", value);
  }
  // Unknown values are left out.
  void KnownGauge(const char* name, const char* help, double value) {
    if (value >= 0) Gauge(name, help, value);
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

constexpr Named<LiveProgress::Phase> kPhases[] = {
    {"starting", LiveProgress::Phase::kStarting},
    {"training", LiveProgress::Phase::kTraining},
    {"validating", LiveProgress::Phase::kValidating},
    {"lost a worker", LiveProgress::Phase::kLost},
    {"ended", LiveProgress::Phase::kEnded},
    {"failed", LiveProgress::Phase::kFailed},
};

const char* PhaseName(LiveProgress::Phase phase) {
  return NameIn(kPhases, phase, "?");
}

std::string AwaitedText(const LongWait& wait) {
  constexpr size_t kMaxNamed = 4;
  std::string text;
  for (size_t i = 0; i < std::min(wait.workers.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(wait.workers[i]);
  }
  if (wait.workers.size() > kMaxNamed) text += " ...";
  if (text.empty()) return text;
  return (wait.workers.size() > 1 ? "workers " : "worker ") + text;
}

std::string ToJson(const LiveProgress& progress, int64_t now) {
  JsonWriter json;
  json.BeginObject();
  json.Key("version").String(RINGLET_VERSION);
  json.Key("run").String(progress.run);
  json.Key("address").String(progress.address);
  json.Key("process").Int(progress.process);
  json.Key("worker").Int(progress.worker);
  json.Key("workers").Int(progress.workers);
  json.Key("replicas").Int(progress.replicas);
  json.Key("phase").String(PhaseName(progress.phase));
  json.Key("epoch").Int(progress.epoch);
  json.Key("epochs").Int(progress.epochs);
  json.Key("step").Int(progress.step);
  json.Key("steps_per_epoch").Int(progress.steps_per_epoch);
  json.Key("iterations").Int(progress.iterations);
  Known("steps_per_second", progress.steps_per_second, &json);
  Known("epoch_seconds_left", progress.epoch_seconds_left, &json);
  Known("seconds_left", progress.seconds_left, &json);
  Known("seconds_since_step", SecondsSinceStep(progress, now), &json);
  if (!progress.wait.workers.empty()) {
    json.Key("waiting_for").String(AwaitedText(progress.wait));
    Number("waiting_seconds",
           static_cast<double>(now - progress.wait.since) * 1e-9, &json);
  }
  Number("at", static_cast<double>(now) * 1e-9, &json);
  json.Key("logs").BeginObject();
  for (const auto& [name, value] : progress.logs) {
    Number(name.c_str(), value, &json);
  }
  json.EndObject();
  json.EndObject();
  return json.text() + "\n";
}

std::string ToPrometheus(const LiveProgress& progress, int64_t now) {
  using Phase = LiveProgress::Phase;
  Metrics metrics;
  metrics.Begin("info", "gauge", "The version, the run and the worker.");
  metrics.Sample("info",
                 "{version=\"" + Label(RINGLET_VERSION) + "\",run=\"" +
                     Label(progress.run) + "\",worker=\"" +
                     std::to_string(progress.worker) + "\"}",
                 1);
  metrics.Begin("phase", "gauge", "1 for the present phase.");
  for (int i = 0; i <= static_cast<int>(Phase::kFailed); ++i) {
    const auto phase = static_cast<Phase>(i);
    metrics.Sample("phase", std::string("{phase=\"") + PhaseName(phase) + "\"}",
                   phase == progress.phase ? 1 : 0);
  }
  metrics.Gauge("workers", "Workers of the job.", progress.workers);
  metrics.Gauge("replicas", "Replicas of the job.", progress.replicas);
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    metrics.Gauge(name, help, static_cast<double>(value));
  };
  gauge("epoch", "The epoch, from 1.", progress.epoch);
  gauge("epochs", "Epochs of the run.", progress.epochs);
  gauge("step", "Steps done in the epoch.", progress.step);
  gauge("steps_per_epoch", "Steps of an epoch; 0: unknown.",
        progress.steps_per_epoch);
  metrics.Begin("iterations_total", "counter", "Steps of the model.");
  metrics.Sample("iterations_total", "",
                 static_cast<double>(progress.iterations));
  metrics.KnownGauge("steps_per_second", "Steps per second of the epoch.",
                     progress.steps_per_second);
  metrics.KnownGauge("seconds_left", "Seconds until the end of the run.",
                     progress.seconds_left);
  metrics.KnownGauge("seconds_since_step", "Seconds since the last step.",
                     SecondsSinceStep(progress, now));
  if (!progress.wait.workers.empty()) {
    metrics.Begin("waiting_seconds", "gauge",
                  "Seconds of a wait for other workers.");
    metrics.Sample("waiting_seconds",
                   "{for=\"" + AwaitedText(progress.wait) + "\"}",
                   static_cast<double>(now - progress.wait.since) * 1e-9);
  }
  if (!progress.logs.empty()) {
    metrics.Begin("log", "gauge", "Loss and metrics of the epoch so far.");
  }
  for (const auto& [name, value] : progress.logs) {
    metrics.Sample("log", "{name=\"" + Label(name) + "\"}", value);
  }
  return metrics.text();
}

// --- the callback ------------------------------------------------------------

void ProgressRecorder::Set(const FitState& fit, Phase phase, int64_t done,
                           const Logs* logs) {
  const int64_t now = clock_->MonotonicNanos();
  last_change_ = now;
  const double step_seconds = pace_.StepSeconds(done, now);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    LiveProgress& p = progress_;
    if (phase == Phase::kTraining && done > 0) p.last_step_at = now;
    p.phase = phase;
    p.workers = fit.model->collective()->size();
    p.replicas = fit.model->num_replicas();
    p.epoch = fit.epoch + 1;
    p.epochs = fit.epochs;
    p.step = done;
    p.steps_per_epoch = fit.steps_per_epoch;
    p.iterations = fit.model->iterations();
    p.steps_per_second = step_seconds > 0 ? 1 / step_seconds : kUnknown;
    p.epoch_seconds_left = pace_.SecondsLeftInEpoch(fit, done, now);
    p.seconds_left = pace_.SecondsLeftInAll(fit, done, now);
    if (logs != nullptr) {
      p.logs.assign(logs->entries().begin(), logs->entries().end());
    }
  }
  if (on_change) on_change();
}

Status ProgressRecorder::OnTrainBegin(FitState& fit) {
  pace_.BeginFit();
  pace_.BeginEpoch(fit, clock_->MonotonicNanos());
  Set(fit, Phase::kTraining, fit.step, nullptr);
  return Status();
}

Status ProgressRecorder::OnEpochBegin(FitState& fit) {
  pace_.BeginEpoch(fit, clock_->MonotonicNanos());
  return Status();
}

Status ProgressRecorder::OnTrainBatchEnd(FitState& fit, const Logs& logs) {
  const int64_t done = fit.step + 1;
  const bool is_last = done == fit.steps_per_epoch;
  if (is_last || clock_->MonotonicNanos() - last_change_ >= kChangeNanos) {
    Set(fit, Phase::kTraining, done, &logs);
  }
  return Status();
}

Status ProgressRecorder::OnTestBegin(FitState& fit) {
  Set(fit, Phase::kValidating, fit.step, nullptr);
  return Status();
}

Status ProgressRecorder::OnEpochEnd(FitState& fit, Logs* logs) {
  pace_.EndEpoch(clock_->MonotonicNanos());
  Set(fit, Phase::kTraining, fit.step, logs);
  return Status();
}

void ProgressRecorder::OnFitReturn(FitState&, const Status& status) {
  // After a loss the fit may go on: it then begins again.
  const Phase phase = status.ok()                        ? Phase::kEnded
                      : status.code() == Code::kPeerLost ? Phase::kLost
                                                         : Phase::kFailed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    progress_.phase = phase;
  }
  if (on_change) on_change();
}

void ProgressRecorder::SetWait(const LongWait& wait) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    progress_.wait = wait;
  }
  if (on_change) on_change();
}

}  // namespace ringlet
