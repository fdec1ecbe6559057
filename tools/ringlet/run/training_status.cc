#include "training_status.h"

#include <unistd.h>

#include <cstdlib>

#include "../report/html.h"
#include "core/base/number_text.h"
#include "io/logs/live_progress.h"
#include "net/status/status_server.h"
#include "progress_files.h"

namespace ringlet {
namespace {

constexpr int64_t kWriteNanos = 1000000000;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

std::string Row(const std::string& name, const std::string& value) {
  return "<tr><th>" + EscapeHtml(name) + "</th><td>" + EscapeHtml(value) +
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
      EscapeHtml(p.run) +
      "</title>\n<style>:root{color-scheme:light dark}"
      "body{font:16px system-ui,sans-serif;margin:2em auto;max-width:34em;"
      "padding:0 1em}th{text-align:left;font-weight:400;padding-right:2em}"
      "td{font-variant-numeric:tabular-nums}</style></head><body>\n<h1>" +
      EscapeHtml(p.run) + "</h1>\n<table>\n";
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

StatusServer::Answer AnswerTo(const std::string& path,
                              const LiveProgress& progress) {
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

// What a training shows, and the callback that follows it.
struct TrainingStatus {
  explicit TrainingStatus(const LiveProgress& begin) : recorder(begin) {
    file.Write(ToJson(begin, Now()));
    recorder.on_change = [this](const LiveProgress& progress) {
      Write(progress);
    };
  }

  // Each new phase is written: a reader must not take a step that never ends
  // for a validation.
  void Write(const LiveProgress& progress) {
    const int64_t now = Now();
    if (progress.phase == written_phase && now - last_write < kWriteNanos) {
      return;
    }
    last_write = now;
    written_phase = progress.phase;
    file.Write(ToJson(progress, now));
  }

  Status Serve(const std::string& address) {
    StatusServerOptions options;
    options.address = address;
    const char* const token = std::getenv("RINGLET_STATUS_TOKEN");
    if (token != nullptr) options.token = token;
    return StatusServer::Start(
               options,
               [this](const std::string& path) {
                 return AnswerTo(path, recorder.Latest());
               },
               &server)
        .Annotate("--status");
  }

  ProgressFile file;
  ProgressRecorder recorder;
  // Of the newest line of the file.
  int64_t last_write = 0;
  LiveProgress::Phase written_phase = LiveProgress::Phase::kStarting;
  std::unique_ptr<StatusServer> server;  // ends before what it reads
};

}  // namespace

Status ShowTrainingStatus(const std::string& run, const ClusterConfig& cluster,
                          const std::string& address,
                          std::shared_ptr<Callback>* callback) {
  LiveProgress begin;
  begin.run = run;
  begin.process = getpid();
  begin.worker = cluster.worker;
  begin.workers = cluster.world_size;
  begin.address = address;
  const auto status = std::make_shared<TrainingStatus>(begin);
  if (!address.empty()) RINGLET_RETURN_IF_ERROR(status->Serve(address));
  *callback = std::shared_ptr<Callback>(status, &status->recorder);
  return Status();
}

}  // namespace ringlet
