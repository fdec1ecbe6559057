#include "launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "../ring/guard.h"
#include "../ring/strays.h"
#include "local_ports.h"
#include "terminal_line.h"

extern char** environ;

namespace ringlet {

namespace {

constexpr size_t kMaxLine = 64 * 1024;     // longer ones are cut in pieces
constexpr size_t kHighWater = 256 * 1024;  // unwritten: stop reading
constexpr size_t kLowWater = 64 * 1024;    // go on reading
constexpr size_t kAtomicWrite = 4096;      // a pipe ready to write takes it
constexpr double kRetrySeconds = 0.01;     // of a reader that is not ready
constexpr int kWrongConfiguration = 2;     // an exit code
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// For any handle of libuv's.
template <typename T>
uv_handle_t* AsHandle(T* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
}

// Lines on their way to one descriptor. Never blocks, so that signals and exits
// are seen while the reader is slow.
class Output {
 public:
  void Open(int fd) { fd_ = fd; }
  void Append(const std::string& text) {
    if (!broken_) pending_ += text;
  }
  size_t waiting() const { return pending_.size() - written_; }
  void Drop() {
    broken_ = true;
    pending_.clear();
    written_ = 0;
  }
  void Flush();

 private:
  int fd_ = -1;
  bool broken_ = false;  // the reader is gone
  std::string pending_;
  size_t written_ = 0;
};

void Output::Flush() {
  while (waiting() > 0) {
    pollfd ready = {fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) break;
    const ssize_t bytes = write(fd_, pending_.data() + written_,
                                std::min(waiting(), kAtomicWrite));
    if (bytes >= 0) {
      written_ += static_cast<size_t>(bytes);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return Drop();
    }
  }
  if (written_ >= kLowWater || waiting() == 0) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

int ColumnsOf(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                              : 80;
}

// Whether what is written to both appears in one place.
bool SameTerminal(int a, int b) {
  struct stat of_a, of_b;
  return isatty(a) != 0 && isatty(b) != 0 && fstat(a, &of_a) == 0 &&
         fstat(b, &of_b) == 0 && of_a.st_rdev == of_b.st_rdev;
}

// A terminal of as many columns as `like` that passes bytes on as they are.
// ends[0] reads what is written to ends[1]. False where there is none to be
// had.
bool OpenTerminal(int like, int* ends) {
  ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0) return false;
  char name[64];
  ends[1] = -1;
  if (grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0 &&
      ptsname_r(ends[0], name, sizeof(name)) == 0) {
    ends[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  termios raw;
  if (ends[1] >= 0 && tcgetattr(ends[1], &raw) == 0) {
    cfmakeraw(&raw);
    winsize size = {};
    if (tcsetattr(ends[1], TCSANOW, &raw) == 0) {
      if (ioctl(like, TIOCGWINSZ, &size) == 0) {
        ioctl(ends[1], TIOCSWINSZ, &size);
      }
      return true;
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (ends[i] >= 0) close(ends[i]);
  }
  return false;
}

class Job;

// One run of the command, from its start until its output has ended. Dies in
// the close callback of its last handle.
class Process {
 public:
  Process(Job* job, int index) : job_(job), index_(index) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Job::OnEnded follows in any case, later.
  Status Start(const std::string& tf_config);
  // To the whole group; nothing once it has ended.
  void Signal(int signal);
  void Read(int stream, bool on);
  // Gives up on what keeps the pipes open.
  void CloseStreams();

  pid_t pid() const { return pid_; }  // 0 once it has ended
  // Once ended: 127 and 126 where it could not be started, as in a shell.
  int code() const { return code_; }

 private:
  struct Stream {
    uv_pipe_t pipe;
    Process* process;
    int index;  // 0 stdout, 1 stderr
    bool open = false;
    bool drawn = false;  // a terminal: Job::begun() has what is begun
    // Its end of that terminal, for some systems drop what is unread when the
    // last one closes.
    int held = -1;
    std::string line;  // begun
  };

  Status OpenStreams(int* write_ends);
  int OpenPipe(int index, uv_file* ends);
  Status Spawn(const int* write_ends, const std::string& tf_config);
  void OnExit(int code);
  void OnRead(Stream* stream, const char* data, size_t bytes);
  void Emit(Stream* stream, const std::string& line);
  void EmitLine(Stream* stream);
  void ReadRest(Stream* stream);
  void EndBegun(Stream* stream);
  void CloseStream(Stream* stream);
  void OnHandleClosed();

  Job* const job_;  // outlives this
  const int index_;
  uv_process_t process_;
  Stream streams_[2];
  int open_handles_ = 0;
  pid_t pid_ = 0;  // from its start until it is reaped
  int code_ = 0;
};

struct Worker {
  Job* job;
  int index;
  std::string tf_config;
  std::unique_ptr<Process> process;  // null between runs
  uv_timer_t timer;      // until its restart, or for output after its exit
  bool waiting = false;  // for its restart
  bool done = false;
  int restarts = 0;
  int code = 0;  // of the last run
};

class Job {
 public:
  explicit Job(const LaunchOptions& options) : options_(options) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Result<int> Run();

  // Whether the line that worker 0 has begun is shown.
  bool on_terminal() const { return on_terminal_; }
  int stdout_fd() const { return options_.stdout_fd; }
  TerminalLine* begun() { return &begun_; }

  // For the processes.
  uv_loop_t* loop() { return &loop_; }
  Guard* guard() { return &guard_; }
  const std::vector<std::string>& command() const { return options_.command; }
  bool paused(int stream) const { return paused_[stream]; }
  void AddLine(int stream, const std::string& prefix, const std::string& line);
  void FlushSoon();                  // at the end of this turn of the loop
  void OnExit(int index, int code);  // its output may still come
  void OnEnded(int index);           // destroys the process
  uv_buf_t buffer() { return uv_buf_init(buffer_, sizeof(buffer_)); }

 private:
  // The ways down, in their order.
  enum class Phase { kRunning, kLeaveAlone, kTerminate, kKill };

  Status Open();
  void WatchSignals();
  Status Start(Worker* worker);
  void StartAgain(Worker* worker);
  bool MayRestart(const Worker& worker) const;
  void OnFailed(const Worker& worker);
  void WaitForOutput(Worker* worker, double seconds);
  void OnOutputTimer(Worker* worker);
  void Finish(Worker* worker);
  void Enter(Phase phase, int signal);
  void EnterNext();
  void OnSignal(int signal);
  void Flush();
  void CloseIfDone();
  std::vector<pid_t> Kept() const;
  void Say(const char* format, ...) RINGLET_PRINTF(2, 3);

  const LaunchOptions& options_;
  uv_loop_t loop_;
  uv_signal_t signals_[std::size(kSignals)];
  uv_signal_t child_signal_;
  uv_timer_t phase_timer_;
  uv_timer_t flush_timer_;
  Output outputs_[2];
  int output_of_[2] = {0, 1};  // of a stream
  bool on_terminal_ = false;
  TerminalLine begun_;  // of worker 0's stdout
  bool paused_[2] = {false, false};
  std::vector<std::unique_ptr<Worker>> workers_;
  Strays strays_;
  Guard guard_;
  Phase phase_ = Phase::kRunning;
  int signals_seen_ = 0;
  bool closing_ = false;
  int failure_ = 0;  // the code of the first that failed
  Status status_;    // why the first could not be started
  char buffer_[64 * 1024];
};

// --- Process ---

// Pipes, not libuv's sockets: a script may open /dev/stderr again.
int Process::OpenPipe(int index, uv_file* ends) {
  streams_[index].drawn = index == 0 && index_ == 0 && job_->on_terminal() &&
                          OpenTerminal(job_->stdout_fd(), ends);
  return streams_[index].drawn ? 0 : uv_pipe(ends, UV_NONBLOCK_PIPE, 0);
}

Status Process::OpenStreams(int* write_ends) {
  for (int i = 0; i < 2; ++i) {
    uv_file ends[2];
    int error = OpenPipe(i, ends);
    if (error != 0) return OsError(-error, "cannot make a pipe");
    write_ends[i] = ends[1];
    if (streams_[i].drawn) {
      streams_[i].held = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
    }
    error = uv_pipe_open(&streams_[i].pipe, ends[0]);
    if (error != 0) {
      close(ends[0]);
      return OsError(-error, "cannot watch a pipe");
    }
    if (!job_->paused(i)) Read(i, true);
  }
  return Status();
}

Status Process::Spawn(const int* write_ends, const std::string& tf_config) {
  const std::vector<std::string>& command = job_->command();
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "TF_CONFIG=", 10) != 0) {
      variables.push_back(*variable);
    }
  }
  variables.push_back(const_cast<char*>(tf_config.c_str()));
  variables.push_back(nullptr);

  uv_stdio_container_t stdio[3];
  stdio[0].flags = UV_IGNORE;
  for (int i = 0; i < 2; ++i) {
    stdio[1 + i].flags = UV_INHERIT_FD;
    stdio[1 + i].data.fd = write_ends[i];
  }
  uv_process_options_t options = {};
  options.file = arguments[0];
  options.args = arguments.data();
  options.env = variables.data();
  options.flags = UV_PROCESS_DETACHED;  // setsid
  options.stdio_count = 3;
  options.stdio = stdio;
  options.exit_cb = [](uv_process_t* process, int64_t status, int signal) {
    static_cast<Process*>(process->data)
        ->OnExit(signal != 0 ? 128 + signal : static_cast<int>(status));
  };
  process_.data = this;
  ++open_handles_;
  int error;
  {
    const GuardedFork guarded(job_->guard(), index_);
    error = uv_spawn(job_->loop(), &process_, &options);
  }
  if (error == 0) {
    pid_ = process_.pid;
    job_->guard()->Set(index_, pid_);
    return Status();
  }
  job_->guard()->Set(index_, 0);
  uv_close(AsHandle(&process_), [](uv_handle_t* handle) {
    static_cast<Process*>(handle->data)->OnHandleClosed();
  });
  // libuv opens it in the child, and reports as if of the command.
  const bool no_null = access("/dev/null", F_OK) != 0;
  const char* hint =
      error == UV_ENOENT && no_null
          ? " (there is no /dev/null here: mknod -m 666 /dev/null c 1 3)"
      : error == UV_ENOENT ? " (give a program in PATH or its path)"
      : error == UV_EACCES ? " (make it executable)"
      : error == UV_EMFILE ? " (raise the limit of open files, ulimit -n)"
                           : "";
  return OsError(-error, "cannot start '%s'%s", command[0].c_str(), hint);
}

Status Process::Start(const std::string& tf_config) {
  for (int i = 0; i < 2; ++i) {
    Stream* stream = &streams_[i];
    uv_pipe_init(job_->loop(), &stream->pipe, 0);  // cannot fail
    stream->pipe.data = stream;
    stream->process = this;
    stream->index = i;
    stream->open = true;
    ++open_handles_;
  }
  int write_ends[2] = {-1, -1};
  Status status = OpenStreams(write_ends);
  if (status.ok()) status = Spawn(write_ends, tf_config);
  for (int end : write_ends) {
    if (end >= 0) close(end);
  }
  if (!status.ok()) {
    code_ = status.os_error() == ENOENT ? 127 : 126;
    CloseStreams();
  }
  return status;
}

void Process::Signal(int signal) {
  // The id is not another's while its leader has not been reaped.
  if (pid_ != 0) kill(-pid_, signal);
}

void Process::OnExit(int code) {
  code_ = code;
  kill(-pid_, SIGKILL);  // what is left of the group
  pid_ = 0;
  job_->guard()->Set(index_, 0);
  uv_close(AsHandle(&process_), [](uv_handle_t* handle) {
    static_cast<Process*>(handle->data)->OnHandleClosed();
  });
  for (Stream& stream : streams_) ReadRest(&stream);
  job_->OnExit(index_, code);
}

// What is left in a terminal whose writer has ended: bounded, for it is a
// buffer of the system's.
void Process::ReadRest(Stream* stream) {
  uv_os_fd_t fd = -1;
  if (stream->held < 0 || !stream->open ||
      uv_fileno(AsHandle(&stream->pipe), &fd) != 0) {
    return;
  }
  const uv_buf_t buffer = job_->buffer();
  for (int closed = 0; closed < 2; ++closed) {
    for (;;) {
      const ssize_t bytes = read(fd, buffer.base, buffer.len);
      if (bytes <= 0) break;
      OnRead(stream, buffer.base, static_cast<size_t>(bytes));
    }
    // Reading on brings what was on its way in the system; then the end.
    if (stream->held >= 0) close(stream->held);
    stream->held = -1;
  }
  EndBegun(stream);
}

void Process::EndBegun(Stream* stream) {
  std::vector<std::string> lines;
  job_->begun()->End(&lines);
  for (const std::string& line : lines) Emit(stream, line);
}

void Process::Read(int index, bool on) {
  Stream* stream = &streams_[index];
  if (!stream->open) return;
  uv_stream_t* pipe = reinterpret_cast<uv_stream_t*>(&stream->pipe);
  if (!on) {
    uv_read_stop(pipe);
    return;
  }
  // Fails only where it has been started already.
  uv_read_start(
      pipe,
      [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
        *buffer = static_cast<Stream*>(handle->data)->process->job_->buffer();
      },
      [](uv_stream_t* handle, ssize_t bytes, const uv_buf_t* buffer) {
        Stream* from = static_cast<Stream*>(handle->data);
        if (bytes < 0) {
          from->process->CloseStream(from);
        } else {
          from->process->OnRead(from, buffer->base, static_cast<size_t>(bytes));
        }
      });
}

void Process::OnRead(Stream* stream, const char* data, size_t bytes) {
  if (stream->drawn) {
    std::vector<std::string> lines;
    job_->begun()->Feed(data, bytes, kMaxLine, &lines);
    for (const std::string& line : lines) Emit(stream, line);
    return job_->FlushSoon();
  }
  const char* const end = data + bytes;
  while (data < end) {
    const size_t left = static_cast<size_t>(end - data);
    const void* found = std::memchr(data, '\n', left);
    const char* stop = found == nullptr ? end : static_cast<const char*>(found);
    const size_t take = std::min(static_cast<size_t>(stop - data),
                                 kMaxLine - stream->line.size());
    stream->line.append(data, take);
    data += take;
    if (data < end && *data == '\n') {
      ++data;
      EmitLine(stream);
    } else if (stream->line.size() == kMaxLine) {
      EmitLine(stream);
    }
  }
}

void Process::Emit(Stream* stream, const std::string& line) {
  job_->AddLine(stream->index, "[" + std::to_string(index_) + "] ", line);
}

void Process::EmitLine(Stream* stream) {
  Emit(stream, stream->line);
  stream->line.clear();
}

void Process::CloseStream(Stream* stream) {
  if (!stream->open) return;
  stream->open = false;
  if (stream->held >= 0) close(stream->held);
  stream->held = -1;
  if (!stream->line.empty()) EmitLine(stream);
  if (stream->drawn) EndBegun(stream);
  uv_close(AsHandle(&stream->pipe), [](uv_handle_t* handle) {
    static_cast<Stream*>(handle->data)->process->OnHandleClosed();
  });
}

void Process::CloseStreams() {
  CloseStream(&streams_[0]);
  CloseStream(&streams_[1]);
}

void Process::OnHandleClosed() {
  if (--open_handles_ == 0) job_->OnEnded(index_);  // this is gone
}

// --- Job ---

void SetTimer(uv_timer_t* timer, double seconds, uv_timer_cb callback) {
  const uint64_t millis = static_cast<uint64_t>(std::llround(seconds * 1000));
  RINGLET_CHECK(uv_timer_start(timer, callback, millis, 0) == 0);
}

std::string Cause(int code) {
  return code > 128 ? "was ended by signal " + std::to_string(code - 128)
                    : "ended with exit code " + std::to_string(code);
}

void Job::AddLine(int stream, const std::string& prefix,
                  const std::string& line) {
  Output* output = &outputs_[output_of_[stream]];
  const bool beside = on_terminal_ && output_of_[stream] == 0;
  output->Append((beside ? begun_.Erase() : "") + prefix + line + "\n");
  if (output->waiting() > kHighWater && !paused_[stream]) {
    paused_[stream] = true;
    for (const auto& worker : workers_) {
      if (worker->process != nullptr) worker->process->Read(stream, false);
    }
  }
  FlushSoon();
}

void Job::FlushSoon() {
  if (!uv_is_active(AsHandle(&flush_timer_))) {
    // At the end of this turn of the loop, so that lines are written together.
    SetTimer(&flush_timer_, 0,
             [](uv_timer_t* t) { static_cast<Job*>(t->data)->Flush(); });
  }
}

void Job::Flush() {
  // Not behind what nobody has read yet: a later drawing will do.
  if (on_terminal_ && outputs_[0].waiting() < kAtomicWrite) {
    outputs_[0].Append(begun_.Draw("[0] ", ColumnsOf(options_.stdout_fd) - 1));
  }
  for (Output& output : outputs_) output.Flush();
  for (int i = 0; i < 2; ++i) {
    if (paused_[i] && outputs_[output_of_[i]].waiting() < kLowWater) {
      paused_[i] = false;
      for (const auto& worker : workers_) {
        if (worker->process != nullptr) worker->process->Read(i, true);
      }
    }
  }
  if (outputs_[0].waiting() + outputs_[1].waiting() > 0 && !closing_) {
    SetTimer(&flush_timer_, kRetrySeconds,
             [](uv_timer_t* t) { static_cast<Job*>(t->data)->Flush(); });
  }
  CloseIfDone();
}

void Job::Say(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  AddLine(1, "[launcher] ", text);
}

Status Job::Open() {
  outputs_[0].Open(options_.stdout_fd);
  outputs_[1].Open(options_.stderr_fd);
  on_terminal_ = isatty(options_.stdout_fd) != 0;
  if (SameTerminal(options_.stdout_fd, options_.stderr_fd)) output_of_[1] = 0;
  std::vector<int> ports;
  RINGLET_RETURN_IF_ERROR(FindLocalPorts(options_.workers, &ports));
  std::string addresses;
  for (int port : ports) {
    if (!addresses.empty()) addresses += ", ";
    addresses += "\"127.0.0.1:" + std::to_string(port) + "\"";
  }
  const std::string cluster =
      "TF_CONFIG={\"cluster\": {\"worker\": [" + addresses + "]}, ";
  // Before the signals' handlers: a fork has none of them.
  RINGLET_RETURN_IF_ERROR(guard_.Start(options_.workers, cluster));
  const int error = uv_loop_init(&loop_);
  if (error != 0) return OsError(-error, "cannot make an event loop");
  for (uv_timer_t* timer : {&phase_timer_, &flush_timer_}) {
    uv_timer_init(&loop_, timer);
    timer->data = this;
  }
  WatchSignals();
  for (int i = 0; i < options_.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    Worker* worker = workers_.back().get();
    worker->tf_config =
        cluster +
        "\"task\": {\"type\": \"worker\", \"index\": " + std::to_string(i) +
        "}}";
    uv_timer_init(&loop_, &worker->timer);
    worker->timer.data = worker;
    worker->job = this;
    worker->index = i;
  }
  return Status();
}

void Job::WatchSignals() {
  // Orphans that came to this process end too.
  uv_signal_init(&loop_, &child_signal_);
  child_signal_.data = this;
  uv_signal_start(
      &child_signal_,
      [](uv_signal_t* handle, int) {
        Job* job = static_cast<Job*>(handle->data);
        job->strays_.Reap(job->Kept());
      },
      SIGCHLD);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    uv_signal_init(&loop_, &signals_[i]);
    signals_[i].data = this;
    // nohup's, which we keep.
    struct sigaction now;
    if (kSignals[i] == SIGHUP && sigaction(SIGHUP, nullptr, &now) == 0 &&
        now.sa_handler == SIG_IGN) {
      continue;
    }
    uv_signal_start(
        &signals_[i],
        [](uv_signal_t* handle, int signal) {
          static_cast<Job*>(handle->data)->OnSignal(signal);
        },
        kSignals[i]);
  }
}

// The children that somebody waits for.
std::vector<pid_t> Job::Kept() const {
  std::vector<pid_t> kept = {guard_.pid()};
  for (const auto& worker : workers_) {
    if (worker->process != nullptr) kept.push_back(worker->process->pid());
  }
  return kept;
}

Status Job::Start(Worker* worker) {
  worker->process = std::make_unique<Process>(this, worker->index);
  return worker->process->Start(worker->tf_config);
}

bool Job::MayRestart(const Worker& worker) const {
  return phase_ == Phase::kRunning && options_.restart &&
         worker.code != kWrongConfiguration &&
         worker.restarts < options_.max_restarts;
}

void Job::OnFailed(const Worker& worker) {
  if (failure_ == 0) failure_ = worker.code;
  if (phase_ != Phase::kRunning) return;
  const bool others = std::any_of(
      workers_.begin(), workers_.end(),
      [&](const auto& w) { return w.get() != &worker && !w->done; });
  Say("worker %d %s%s", worker.index, Cause(worker.code).c_str(),
      others ? "; waiting for the others to end, then stopping them" : "");
  Enter(Phase::kLeaveAlone, 0);
}

void Job::OnExit(int index, int code) {
  Worker* worker = workers_[static_cast<size_t>(index)].get();
  worker->code = code;
  strays_.Kill(Kept(), worker->tf_config);
  if (code != 0 && !MayRestart(*worker)) OnFailed(*worker);
  WaitForOutput(worker, std::max(options_.grace_seconds, 1.0));
}

// Its last lines come before the end of the pipes, which only a process that
// has left the group can still hold.
void Job::WaitForOutput(Worker* worker, double seconds) {
  SetTimer(&worker->timer, seconds, [](uv_timer_t* timer) {
    Worker* late = static_cast<Worker*>(timer->data);
    late->job->OnOutputTimer(late);
  });
}

void Job::OnOutputTimer(Worker* worker) {
  if (paused_[0] || paused_[1]) {  // it is our reader that is late
    WaitForOutput(worker, 1);
  } else if (worker->process != nullptr) {
    worker->process->CloseStreams();
  }
}

void Job::OnEnded(int index) {
  Worker* worker = workers_[static_cast<size_t>(index)].get();
  uv_timer_stop(&worker->timer);
  worker->code = worker->process->code();
  worker->process.reset();
  if (worker->code == 0) return Finish(worker);
  if (!MayRestart(*worker)) {
    OnFailed(*worker);
    return Finish(worker);
  }
  const double delay =
      std::min(std::ldexp(options_.backoff_seconds, worker->restarts),
               options_.max_backoff_seconds);
  ++worker->restarts;
  worker->waiting = true;
  Say("worker %d %s; it is started again in %g s (restart %d of %d)", index,
      Cause(worker->code).c_str(), delay, worker->restarts,
      options_.max_restarts);
  SetTimer(&worker->timer, delay, [](uv_timer_t* timer) {
    Worker* late = static_cast<Worker*>(timer->data);
    late->job->StartAgain(late);
  });
}

void Job::StartAgain(Worker* worker) {
  worker->waiting = false;
  const Status status = Start(worker);
  if (!status.ok()) Say("worker %d: %s", worker->index, status.message());
}

void Job::Finish(Worker* worker) {
  worker->done = true;
  CloseIfDone();
}

void Job::Enter(Phase phase, int signal) {
  phase_ = phase;
  for (const auto& worker : workers_) {
    if (worker->process != nullptr && signal != 0) {
      worker->process->Signal(signal);
    }
    if (worker->waiting) {
      worker->waiting = false;
      uv_timer_stop(&worker->timer);
      OnFailed(*worker);
      worker->done = true;
    }
  }
  uv_timer_stop(&phase_timer_);
  if (phase != Phase::kKill) {
    SetTimer(&phase_timer_, options_.grace_seconds, [](uv_timer_t* timer) {
      static_cast<Job*>(timer->data)->EnterNext();
    });
  } else if (signals_seen_ > 0) {
    // Whoever stops a job does not wait for its reader.
    for (Output& output : outputs_) {
      output.Flush();
      output.Drop();
    }
    return Flush();
  }
  CloseIfDone();
}

void Job::EnterNext() {
  if (phase_ == Phase::kLeaveAlone) {
    Enter(Phase::kTerminate, SIGTERM);
  } else {
    Enter(Phase::kKill, SIGKILL);
  }
}

void Job::OnSignal(int signal) {
  ++signals_seen_;
  if (signals_seen_ > 1 || phase_ == Phase::kKill) {
    Enter(Phase::kKill, SIGKILL);
  } else {
    Enter(Phase::kTerminate, signal);
  }
}

void Job::CloseIfDone() {
  if (closing_) return;
  for (const auto& worker : workers_) {
    if (!worker->done) return;
  }
  if (outputs_[0].waiting() + outputs_[1].waiting() > 0) return;
  closing_ = true;
  for (const auto& worker : workers_) {
    uv_close(AsHandle(&worker->timer), nullptr);
  }
  for (uv_signal_t& signal : signals_) uv_close(AsHandle(&signal), nullptr);
  uv_close(AsHandle(&child_signal_), nullptr);
  uv_close(AsHandle(&phase_timer_), nullptr);
  uv_close(AsHandle(&flush_timer_), nullptr);
}

Result<int> Job::Run() {
  RINGLET_RETURN_IF_ERROR(Open());
  for (const auto& worker : workers_) {
    if (!status_.ok() || phase_ != Phase::kRunning) {
      worker->done = true;  // never started
      continue;
    }
    status_ = Start(worker.get());
  }
  if (!status_.ok()) Enter(Phase::kKill, SIGKILL);
  uv_run(&loop_, UV_RUN_DEFAULT);
  RINGLET_CHECK(closing_ && uv_loop_close(&loop_) == 0);
  strays_.Kill({guard_.pid()}, "");
  if (!status_.ok()) return status_;
  return failure_;
}

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
  constexpr double kDay = 86400;
  for (double seconds : {options.backoff_seconds, options.max_backoff_seconds,
                         options.grace_seconds}) {
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
  const auto job = std::make_unique<Job>(options);
  return job->Run();
}

}  // namespace ringlet
