#include "training_status.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "core/base/number_text.h"

namespace ringlet {
namespace {

constexpr int64_t kWriteNanos = 1000000000;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

std::string Escaped(const std::string& text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string Row(const std::string& name, const std::string& value) {
  return "<tr><th>" + Escaped(name) + "</th><td>" + Escaped(value) +
         "</td></tr>\n";
}

std::string OfTotal(int64_t done, int64_t total) {
  return std::to_string(done) +
         (total > 0 ? " of " + std::to_string(total) : "");
}

std::string Rounded(double value) { return PrintedText(value, 'g', 4); }

// One table that loads itself again; the page needs no script.
std::string Page(const LiveProgress& p) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"refresh\" content=\"5\">\n<title>" +
      Escaped(p.run) +
      "</title>\n<style>:root{color-scheme:light dark}"
      "body{font:16px system-ui,sans-serif;margin:2em auto;max-width:34em;"
      "padding:0 1em}th{text-align:left;font-weight:400;padding-right:2em}"
      "td{font-variant-numeric:tabular-nums}</style></head><body>\n<h1>" +
      Escaped(p.run) + "</h1>\n<table>\n";
  html += Row("phase", NameOf(p.phase));
  html += Row("worker",
              std::to_string(p.worker) + " of " + std::to_string(p.workers));
  html += Row("epoch", OfTotal(p.epoch, p.epochs));
  html += Row("step", OfTotal(p.step, p.steps_per_epoch));
  if (p.steps_per_second >= 0) {
    html += Row("steps per second", Rounded(p.steps_per_second));
  }
  if (p.seconds_left >= 0) {
    html += Row("seconds left", PrintedText(p.seconds_left, 'f', 0));
  }
  if (p.last_step_at != 0) {
    const auto ago = static_cast<double>(Now() - p.last_step_at) * 1e-9;
    html += Row("seconds since the last step", PrintedText(ago, 'f', 1));
  }
  for (const auto& [name, value] : p.logs) html += Row(name, Rounded(value));
  return html +
         "</table>\n<p><a href=\"/metrics\">metrics</a> · <a "
         "href=\"/status.json\">JSON</a></p>\n</body></html>\n";
}

}  // namespace

Status TrainingStatus::Start(const std::string& run,
                             const ClusterConfig& cluster,
                             const std::string& address,
                             std::unique_ptr<TrainingStatus>* out) {
  auto training = std::make_unique<TrainingStatus>();
  LiveProgress begin;
  begin.run = run;
  begin.process = getpid();
  begin.worker = cluster.worker;
  begin.workers = cluster.world_size;
  begin.address = address;
  training->file_.Write(ToJson(begin, Now()));
  training->recorder_ = std::make_shared<ProgressRecorder>(begin);
  TrainingStatus* const self = training.get();
  training->recorder_->on_change = [self](const LiveProgress& progress) {
    const int64_t now = Now();
    // Each new phase is written: a reader must not take a step that never ends
    // for a validation.
    if (progress.phase == self->written_phase_ &&
        now - self->last_write_ < kWriteNanos) {
      return;
    }
    self->last_write_ = now;
    self->written_phase_ = progress.phase;
    self->file_.Write(ToJson(progress, now));
  };
  if (!address.empty()) {
    StatusServerOptions options;
    options.address = address;
    const char* const token = std::getenv("RINGLET_STATUS_TOKEN");
    if (token != nullptr) options.token = token;
    RINGLET_RETURN_IF_ERROR(
        StatusServer::Start(
            options,
            [self](const std::string& path) { return self->AnswerTo(path); },
            &training->server_)
            .Annotate("--status"));
  }
  *out = std::move(training);
  return Status();
}

StatusServer::Answer TrainingStatus::AnswerTo(const std::string& path) const {
  const LiveProgress progress = recorder_->Latest();
  if (path == "/") return {200, "text/html; charset=utf-8", Page(progress)};
  if (path == "/status.json") {
    return {200, "application/json", ToJson(progress, Now())};
  }
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            ToPrometheus(progress, Now())};
  }
  if (path == "/healthz") {
    const bool failed = progress.phase == LiveProgress::Phase::kFailed;
    return {failed ? 503 : 200, "text/plain", failed ? "failed\n" : "ok\n"};
  }
  return {404, "text/plain", "known are /, /status.json, /metrics, /healthz\n"};
}

}  // namespace ringlet
