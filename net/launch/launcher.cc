// The job: a loop of libuv that starts the processes, reports their events to
// the supervisor, and carries out the actions that it returns. The job is over
// when the supervisor has no worker left and all lines are written. Then every
// handle closes and the loop ends. Signals arrive through the loop, too.
//
// How processes are ended, by which process ends:
// - A worker: the launcher kills its group (worker_process.cc). It also kills
//   processes that left the group, by their environment (orphans.h). Only then
//   may a restart begin.
// - The launcher: see guard.h.

#include "launcher.h"

#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "../../core/base/check.h"
#include "../../core/base/key_file.h"
#include "../secure/noise.h"
#include "../transport/loop.h"
#include "console.h"
#include "guard.h"
#include "local_ports.h"
#include "orphans.h"
#include "ringlet/status.h"
#include "supervisor.h"
#include "worker_process.h"

namespace ringlet {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

void SetTimer(uv_timer_t* timer, double seconds, uv_timer_cb callback) {
  const uint64_t millis = static_cast<uint64_t>(std::llround(seconds * 1000));
  RINGLET_CHECK(uv_timer_start(timer, callback, millis, 0) == 0);
}

class Job;

struct LocalWorker {
  Job* job;
  int index;
  std::string tf_config;                   // "TF_CONFIG=…"
  std::unique_ptr<WorkerProcess> process;  // null between runs
  uint64_t started_millis = 0;             // start of this run, by uv_now
  uv_timer_t timer;  // waits for its restart, or for output after its exit
};

class Job final : private Console::Owner, private WorkerProcess::Shared::Owner {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        console_(options.stdout_fd, options.stderr_fd, this),
        supervisor_(options) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  ~Job() {
    if (key_ >= 0) close(key_);
    if (shared_.done_fd >= 0) close(shared_.done_fd);
  }

  Result<int> Run();

 private:
  void OnPause(int stream, bool paused) override;
  void OnFlushed() override { CloseIfDone(); }
  void OnExit(int index, int code) override;
  void OnEnded(int index) override;

  Status Open();
  Status OpenDonePipe();
  void OnDone(const uv_buf_t& reports, ssize_t bytes);
  void MakeKey();
  void AddWorker(int index, const std::string& cluster);
  void WatchSignals();
  void WatchSignal(uv_signal_t* handle, int signal, uv_signal_cb callback);
  Status StartAll();
  Status Start(LocalWorker* worker);
  void RestartWorker(LocalWorker* worker);
  void ApplyActions(const Supervisor::Actions& actions);
  void WaitForOutput(LocalWorker* worker, double seconds);
  void OnOutputTimer(LocalWorker* worker);
  void PrintNotice(const std::string& line) {
    console_.AddLine(1, "[launcher] ", line);
  }
  void CloseIfDone();
  std::vector<pid_t> WaitedChildren() const;

  const LaunchOptions& options_;
  Orphans orphans_;
  WorkerProcess::Shared shared_;
  uv_signal_t signals_[std::size(kSignals)];
  uv_signal_t child_signal_;
  uv_timer_t deadline_;
  uv_pipe_t done_pipe_;  // used if there is a done_fd
  Console console_;
  Supervisor supervisor_;
  std::vector<std::unique_ptr<LocalWorker>> workers_;
  bool closing_ = false;
  int key_ = -1;  // holds the job's key
};

// Makes the common beginning of the workers' TF_CONFIG variables. No other job
// has the same ports.
Status ClusterOnThisMachine(int workers, std::string* variable) {
  std::vector<int> ports;
  RINGLET_RETURN_IF_ERROR(FindLocalPorts(workers, &ports));
  std::string addresses;
  for (int port : ports) {
    if (!addresses.empty()) addresses += ", ";
    addresses += "\"127.0.0.1:" + std::to_string(port) + "\"";
  }
  *variable = "TF_CONFIG={\"cluster\": {\"worker\": [" + addresses + "]}, ";
  return Status();
}

Status Job::Open() {
  std::string cluster;
  RINGLET_RETURN_IF_ERROR(ClusterOnThisMachine(options_.workers, &cluster));
  // The guard forks before the handlers of signals are set, so it has none.
  RINGLET_RETURN_IF_ERROR(shared_.guard.Start(options_.workers, cluster));
  RINGLET_RETURN_IF_ERROR(InitLoop(&shared_.loop));
  WatchSignals();
  shared_.owner = this;
  shared_.options = &options_;
  shared_.console = &console_;
  uv_timer_init(&shared_.loop, &deadline_);
  deadline_.data = this;
  console_.Open(&shared_.loop);
  for (int i = 0; i < options_.workers; ++i) AddWorker(i, cluster);
  return Status();
}

// Opens the pipe for the workers' reports (done_report.h).
Status Job::OpenDonePipe() {
  uv_file ends[2];
  const int error = uv_pipe(ends, UV_NONBLOCK_PIPE, 0);
  if (error != 0) return OsError(-error, "cannot make a pipe");
  shared_.done_fd = ends[1];
  uv_pipe_init(&shared_.loop, &done_pipe_, 0);
  done_pipe_.data = this;
  RINGLET_CHECK(uv_pipe_open(&done_pipe_, ends[0]) == 0);
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&done_pipe_),
      [](uv_handle_t* pipe, size_t, uv_buf_t* buffer) {
        WorkerProcess::Shared& shared = static_cast<Job*>(pipe->data)->shared_;
        *buffer = uv_buf_init(shared.buffer, sizeof(shared.buffer));
      },
      [](uv_stream_t* pipe, ssize_t bytes, const uv_buf_t* buffer) {
        static_cast<Job*>(pipe->data)->OnDone(*buffer, bytes);
      });
  return Status();
}

void Job::OnDone(const uv_buf_t& reports, ssize_t bytes) {
  Supervisor::Actions actions;
  for (ssize_t i = 0; i < bytes; ++i) {
    supervisor_.OnDone(static_cast<unsigned char>(reports.base[i]), &actions);
  }
  ApplyActions(actions);
}

void Job::MakeKey() {
  std::string path;
  MakeLauncherKey(&key_, &path);
  if (key_ >= 0) {
    shared_.key = std::string(kLauncherKeyVariable) + "=" + path;
    return;
  }
  if (!SecureStart().ok()) return;  // its workers would not use one
  const char* const key_file = std::getenv("RINGLET_KEY_FILE");
  if (key_file != nullptr && *key_file != '\0') return;
  PrintNotice(
      "warning: no key could be made for this job, so other users of this "
      "machine may connect to its workers; RINGLET_KEY_FILE names another");
}

void Job::AddWorker(int index, const std::string& cluster) {
  workers_.push_back(std::make_unique<LocalWorker>());
  LocalWorker* worker = workers_.back().get();
  worker->job = this;
  worker->index = index;
  worker->tf_config = cluster + "\"task\": {\"type\": \"worker\", \"index\": " +
                      std::to_string(index) + "}}";
  uv_timer_init(&shared_.loop, &worker->timer);
  worker->timer.data = worker;
}

void Job::WatchSignal(uv_signal_t* handle, int signal, uv_signal_cb callback) {
  uv_signal_init(&shared_.loop, handle);
  handle->data = this;
  // An ignored SIGHUP (nohup) stays ignored.
  struct sigaction now;
  const bool ignored = signal == SIGHUP &&
                       sigaction(SIGHUP, nullptr, &now) == 0 &&
                       now.sa_handler == SIG_IGN;
  if (!ignored) uv_signal_start(handle, callback, signal);
}

void Job::WatchSignals() {
  // Reaps the orphans that became children of this process.
  WatchSignal(&child_signal_, SIGCHLD, [](uv_signal_t* handle, int) {
    Job* job = static_cast<Job*>(handle->data);
    job->orphans_.Reap(job->WaitedChildren());
  });
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    WatchSignal(&signals_[i], kSignals[i], [](uv_signal_t* handle, int signal) {
      Job* job = static_cast<Job*>(handle->data);
      job->ApplyActions(job->supervisor_.OnSignal(signal));
    });
  }
}

// The children that libuv or the guard waits for.
std::vector<pid_t> Job::WaitedChildren() const {
  std::vector<pid_t> kept = {shared_.guard.pid()};
  for (const auto& worker : workers_) {
    if (worker->process != nullptr) kept.push_back(worker->process->pid());
  }
  return kept;
}

void Job::OnPause(int stream, bool paused) {
  for (const auto& worker : workers_) {
    if (worker->process != nullptr) worker->process->Read(stream, !paused);
  }
}

Status Job::Start(LocalWorker* worker) {
  worker->process = std::make_unique<WorkerProcess>(&shared_, worker->index);
  uv_update_time(&shared_.loop);
  worker->started_millis = uv_now(&shared_.loop);
  return worker->process->Start(worker->tf_config);
}

Status Job::StartAll() {
  const Status ready = options_.end_together ? OpenDonePipe() : Status();
  if (!ready.ok()) {
    ApplyActions(supervisor_.OnCannotStart(-1));
    return ready;
  }
  MakeKey();
  for (const auto& worker : workers_) {
    const Status started = Start(worker.get());
    if (started.ok()) continue;
    ApplyActions(supervisor_.OnCannotStart(worker->index));
    return started;
  }
  return Status();
}

void Job::RestartWorker(LocalWorker* worker) {
  supervisor_.OnRestart(worker->index);
  const Status status = Start(worker);
  if (!status.ok()) {
    PrintNotice("worker " + std::to_string(worker->index) + ": " +
                status.message());
  }
}

void Job::OnExit(int index, int code) {
  LocalWorker* worker = workers_[static_cast<size_t>(index)].get();
  orphans_.Kill(WaitedChildren(), worker->tf_config);
  const uint64_t ran = uv_now(&shared_.loop) - worker->started_millis;
  ApplyActions(
      supervisor_.OnExit(index, code, static_cast<double>(ran) / 1000));
  WaitForOutput(worker, std::max(options_.grace_seconds, 1.0));
}

// Waits for the end of the worker's pipes, after its last lines. Only a process
// that left the group can hold them longer.
void Job::WaitForOutput(LocalWorker* worker, double seconds) {
  SetTimer(&worker->timer, seconds, [](uv_timer_t* timer) {
    LocalWorker* late = static_cast<LocalWorker*>(timer->data);
    late->job->OnOutputTimer(late);
  });
}

void Job::OnOutputTimer(LocalWorker* worker) {
  if (console_.paused(0) || console_.paused(1)) {  // a slow reader
    WaitForOutput(worker, 1);
  } else if (worker->process != nullptr) {
    worker->process->CloseStreams();
  }
}

void Job::OnEnded(int index) {
  LocalWorker* worker = workers_[static_cast<size_t>(index)].get();
  uv_timer_stop(&worker->timer);
  const int code = worker->process->code();
  worker->process.reset();
  const Supervisor::Actions actions = supervisor_.OnEnded(index, code);
  if (actions.restart_after >= 0) {
    SetTimer(&worker->timer, actions.restart_after, [](uv_timer_t* timer) {
      LocalWorker* late = static_cast<LocalWorker*>(timer->data);
      late->job->RestartWorker(late);
    });
  }
  ApplyActions(actions);
}

// Carries out all actions except restart_after.
void Job::ApplyActions(const Supervisor::Actions& actions) {
  for (const std::string& notice : actions.notices) PrintNotice(notice);
  for (const auto& worker : workers_) {
    const std::vector<int>& spared = actions.spared;
    if (worker->process != nullptr && actions.signal != 0 &&
        std::count(spared.begin(), spared.end(), worker->index) == 0) {
      worker->process->Signal(actions.signal);
    }
  }
  for (const int index : actions.cancelled) {
    uv_timer_stop(&workers_[static_cast<size_t>(index)]->timer);
  }
  if (actions.new_deadline) uv_timer_stop(&deadline_);
  if (actions.deadline >= 0) {
    SetTimer(&deadline_, actions.deadline, [](uv_timer_t* timer) {
      Job* job = static_cast<Job*>(timer->data);
      job->ApplyActions(job->supervisor_.OnDeadline());
    });
  }
  if (actions.drop_output) console_.DropUnwritten();
  CloseIfDone();
}

void Job::CloseIfDone() {
  if (closing_ || !supervisor_.done() || !console_.empty()) return;
  closing_ = true;
  for (const auto& worker : workers_) {
    uv_close(AsHandle(&worker->timer), nullptr);
  }
  for (uv_signal_t& signal : signals_) uv_close(AsHandle(&signal), nullptr);
  uv_close(AsHandle(&child_signal_), nullptr);
  uv_close(AsHandle(&deadline_), nullptr);
  if (shared_.done_fd >= 0) uv_close(AsHandle(&done_pipe_), nullptr);
  console_.Close();
}

Result<int> Job::Run() {
  RINGLET_RETURN_IF_ERROR(Open());
  const Status started = StartAll();
  uv_run(&shared_.loop, UV_RUN_DEFAULT);
  RINGLET_CHECK(closing_ && uv_loop_close(&shared_.loop) == 0);
  orphans_.Kill({shared_.guard.pid()}, "");
  if (!started.ok()) return started;
  const Status written = console_.CheckWritten();
  if (supervisor_.exit_code() == 0) RINGLET_RETURN_IF_ERROR(written);
  if (!written.ok()) Notice("error: %s", written.message());
  return supervisor_.exit_code();
}

// While it exists, a write without a reader, or beyond `ulimit -f`, fails
// without a signal. The signal would end this process, and its guard would kill
// the workers. libuv sets the default handling again in each worker.
class IgnoredWriteSignals {
 public:
  IgnoredWriteSignals() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    for (size_t i = 0; i < std::size(kWriteSignals); ++i) {
      sigaction(kWriteSignals[i], &ignore, &before_[i]);
    }
  }
  ~IgnoredWriteSignals() {
    for (size_t i = 0; i < std::size(kWriteSignals); ++i) {
      sigaction(kWriteSignals[i], &before_[i], nullptr);
    }
  }
  IgnoredWriteSignals(const IgnoredWriteSignals&) = delete;
  IgnoredWriteSignals& operator=(const IgnoredWriteSignals&) = delete;

 private:
  static constexpr int kWriteSignals[] = {SIGPIPE, SIGXFSZ};
  struct sigaction before_[std::size(kWriteSignals)];
};

Status CheckOptions(const LaunchOptions& options) {
  if (options.command.empty() || options.command[0].empty()) {
    return InvalidArgument("no command to launch: give a program");
  }
  if (options.workers < 1 || options.workers > kMaxLocalWorkers) {
    return InvalidArgument("%d workers: give a number from 1 to %d",
                           options.workers, kMaxLocalWorkers);
  }
  if (options.max_restarts < 0) {
    return InvalidArgument("max_restarts is %d: give 0 or more",
                           options.max_restarts);
  }
  if (!(options.healthy_seconds >= 0)) {
    return InvalidArgument("healthy_seconds is %g: give 0 or more",
                           options.healthy_seconds);
  }
  if (options.min_workers < 0 || options.min_workers > options.workers) {
    return InvalidArgument("min_workers is %d: give a number from 0 to %d",
                           options.min_workers, options.workers);
  }
  constexpr double kDay = 86400;
  for (double seconds : {options.backoff_seconds, options.max_backoff_seconds,
                         options.grace_seconds, options.others_grace_seconds}) {
    if (!(seconds >= 0 && seconds <= kDay)) {
      return InvalidArgument(
          "%g s of back-off or grace: give a time from 0 to %g s", seconds,
          kDay);
    }
  }
  return Status();
}

}  // namespace

Result<int> Launch(const LaunchOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckOptions(options));
  const IgnoredWriteSignals ignored;
  const auto job = std::make_unique<Job>(options);
  return job->Run();
}

}  // namespace ringlet
