#include "training_status.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../report/html.h"
#include "../report/run_page.h"
#include "core/base/long_wait.h"
#include "io/logs/live_progress.h"
#include "io/logs/service_notifier.h"
#include "net/status/status_server.h"
#include "progress_files.h"

namespace ringlet {
namespace {

constexpr int64_t kWriteNanos = 1000000000;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

std::string OfTotal(int64_t done, int64_t total) {
  return std::to_string(done) +
         (total > 0 ? " of " + std::to_string(total) : "");
}

std::string SecondsSince(int64_t then) {
  return DurationText(static_cast<double>(Now() - then) * 1e-9);
}

std::vector<KeyFigure> FiguresOf(const LiveProgress& p) {
  std::vector<KeyFigure> figures = {
      {"phase", PhaseName(p.phase), ""},
      {"worker", OfTotal(p.worker, p.workers), ""},
      {"epoch", OfTotal(p.epoch, p.epochs), ""},
      {"step", OfTotal(p.step, p.steps_per_epoch), ""}};
  if (!p.wait.workers.empty()) {
    figures.push_back(
        {"waits for", AwaitedText(p.wait), SecondsSince(p.wait.since)});
  }
  if (p.steps_per_second >= 0) {
    figures.push_back({"steps per second", ShortText(p.steps_per_second), ""});
  }
  if (p.seconds_left >= 0) {
    figures.push_back({"time left", DurationText(p.seconds_left), ""});
  }
  if (p.last_step_at != 0) {
    figures.push_back(
        {"since the last step", SecondsSince(p.last_step_at), ""});
  }
  for (const auto& [name, value] : p.logs) {
    figures.push_back({name, ShortText(value), "of the epoch so far"});
  }
  return figures;
}

// The report of the worker's event log so far. Reading it again takes at most
// one two-hundredth of the server's time.
class LiveReport {
 public:
  // `path` is "" if there is no log.
  explicit LiveReport(std::string path) : path_(std::move(path)) {}

  const std::string& Html() {
    const int64_t begin = Now();
    if (path_.empty() || begin < next_) return html_;
    RunReport report;
    report.files = {path_};
    // Without a rotation there is no old file.
    ReadEventHistory(path_ + ".1", &report.events).IgnoreError();
    const Status read = ReadEventHistory(path_, &report.events);
    if (!read.ok()) report.notes = {read.message()};
    report.events.Finish();
    html_ = RunHtml(report);
    const int64_t end = Now();
    next_ = end + std::max(kReportNanos, 200 * (end - begin));
    return html_;
  }

 private:
  static constexpr int64_t kReportNanos = 2000000000;

  const std::string path_;
  std::string html_;
  int64_t next_ = 0;  // the time at which the log is read again
};

// The page loads itself again and needs no script.
std::string Page(const LiveProgress& p, const std::string& report) {
  const std::string section =
      report.empty() ? "<p class=\"dim\">A training with an event log "
                       "(--events) has its report here.</p>\n"
                     : report;
  return HtmlPage(p.run,
                  "<h1>" + EscapeHtml(p.run) + "</h1>\n" +
                      TilesHtml(FiguresOf(p)) +
                      "<p><a href=\"/metrics\">metrics</a> · <a "
                      "href=\"/status.json\">JSON</a></p>\n" +
                      section,
                  "<meta http-equiv=\"refresh\" content=\"5\"/>\n");
}

// The answers, for the server's thread. An answer is made again only after
// kAnswerNanos. So many requests cost little, and rarely take the recorder's
// lock.
class Pages {
 public:
  Pages(const ProgressRecorder* recorder, const std::string& events)
      : recorder_(recorder), report_(events) {}

  StatusServer::Answer AnswerTo(const std::string& path) {
    const int64_t now = Now();
    if (now >= next_) {
      progress_ = recorder_->Latest();
      answers_.clear();
      next_ = now + kAnswerNanos;
    }
    const auto made = answers_.find(path);
    if (made != answers_.end()) return made->second;
    StatusServer::Answer answer = Make(path, now);
    if (answer.code == 200) answers_[path] = answer;
    return answer;
  }

 private:
  static constexpr int64_t kAnswerNanos = 50000000;

  StatusServer::Answer Make(const std::string& path, int64_t now) {
    if (path == "/") {
      return {200, "text/html; charset=utf-8", Page(progress_, report_.Html())};
    }
    if (path == "/status.json") {
      return {200, "application/json", ToJson(progress_, now)};
    }
    if (path == "/metrics") {
      return {200, "text/plain; version=0.0.4; charset=utf-8",
              ToPrometheus(progress_, now)};
    }
    if (path == "/healthz") {
      const bool failed = progress_.phase == LiveProgress::Phase::kFailed;
      return {failed ? 503 : 200, "text/plain", failed ? "failed\n" : "ok\n"};
    }
    return {404, "text/plain",
            "known are /, /status.json, /metrics, /healthz\n"};
  }

  const ProgressRecorder* const recorder_;
  LiveReport report_;
  LiveProgress progress_;
  std::map<std::string, StatusServer::Answer> answers_;  // the keys are paths
  int64_t next_ = 0;  // the time at which they are made again
};

// The status file and pages of a training, and their callback.
struct TrainingStatus {
  TrainingStatus(const LiveProgress& begin, const std::string& events)
      : recorder(begin), pages(&recorder, events) {
    file.Write(ToJson(begin, Now()));
    recorder.on_change = [this] { Write(); };
    SetLongWaitListener([this](const LongWait& wait) {
      recorder.SetWait(wait);
      const std::string awaited = AwaitedText(wait);
      if (!awaited.empty()) NotifyService("STATUS=waits for " + awaited);
    });
  }
  ~TrainingStatus() { SetLongWaitListener(nullptr); }

  // Each new phase and wait is written: a reader must not take a step that
  // never ends for a validation.
  void Write() {
    std::lock_guard<std::mutex> lock(mutex);
    const LiveProgress progress = recorder.Latest();
    const int64_t now = Now();
    if (progress.phase == written.phase &&
        progress.wait.workers == written.wait.workers &&
        now - last_write < kWriteNanos) {
      return;
    }
    last_write = now;
    written = progress;
    file.Write(ToJson(progress, now));
  }

  Status Serve(const std::string& address) {
    StatusServerOptions options;
    options.address = address;
    const char* const token = std::getenv("RINGLET_STATUS_TOKEN");
    if (token != nullptr) options.token = token;
    return StatusServer::Start(
               options,
               [this](const std::string& path) { return pages.AnswerTo(path); },
               &server)
        .Annotate("--status");
  }

  ProgressRecorder recorder;
  Pages pages;       // used by the server's thread
  std::mutex mutex;  // guards what follows
  ProgressFile file;
  // The time of the newest line of the file.
  int64_t last_write = 0;
  LiveProgress written;                  // the newest line's content
  std::unique_ptr<StatusServer> server;  // ends before what it reads
};

}  // namespace

Status ShowTrainingStatus(const std::string& run, const ClusterConfig& cluster,
                          const std::string& address, const std::string& events,
                          std::shared_ptr<Callback>* callback) {
  LiveProgress begin;
  begin.run = run;
  begin.process = getpid();
  begin.worker = cluster.worker;
  begin.workers = cluster.world_size;
  begin.address = address;
  const auto status = std::make_shared<TrainingStatus>(begin, events);
  if (!address.empty()) RINGLET_RETURN_IF_ERROR(status->Serve(address));
  *callback = std::shared_ptr<Callback>(status, &status->recorder);
  return Status();
}

}  // namespace ringlet
