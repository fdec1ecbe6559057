// libuv reaps the process and reads its pipes. OnEnded is called when three
// handles are closed, each by its close callback. The exit may be before or
// after the end of the output. A process that left the group may hold the pipes
// after the exit. The last output may be read after the exit.

#include "worker_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "../../core/base/key_file.h"
#include "../transport/loop.h"
#include "done_report.h"
#include "terminal.h"

extern char** environ;

namespace ringlet {

namespace {

constexpr int kDoneFd = 3;              // the descriptor in a worker
constexpr size_t kMaxLine = 64 * 1024;  // longer ones are cut in pieces

// Null-terminated, as exec takes them. The texts belong to the caller.
std::vector<char*> ExecArguments(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  return arguments;
}

bool HasName(const char* variable, const std::string& name) {
  return std::strncmp(variable, name.c_str(), name.size()) == 0 &&
         variable[name.size()] == '=';
}

// Returns the environment of this process, with the given non-empty variables
// replaced.
std::vector<char*> VariablesOfWorker(const std::string& tf_config,
                                     const std::string& key,
                                     const std::string& done) {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!HasName(*variable, "TF_CONFIG") &&
        !HasName(*variable, kLauncherKeyVariable) &&
        !HasName(*variable, kLauncherPipeVariable)) {
      variables.push_back(*variable);
    }
  }
  for (const std::string* variable : {&tf_config, &key, &done}) {
    if (!variable->empty())
      variables.push_back(const_cast<char*>(variable->c_str()));
  }
  variables.push_back(nullptr);
  return variables;
}

const char* HintOf(int uv_error) {
  switch (uv_error) {
    case UV_ENOENT:
      // libuv opens /dev/null in the child, and reports a failure as one of the
      // command.
      if (access("/dev/null", F_OK) != 0) {
        return " (there is no /dev/null here: mknod -m 666 /dev/null c 1 3)";
      }
      return " (give a program in PATH or its path)";
    case UV_EACCES:
      return " (make it executable)";
    default:
      return "";
  }
}

}  // namespace

// Pipes, not libuv's sockets: a script may open /dev/stderr again.
int WorkerProcess::OpenPipe(int index, uv_file* ends) {
  const Console& console = *shared_->console;
  streams_[index].drawn = index == 0 && index_ == 0 && console.on_terminal() &&
                          OpenPseudoTerminal(console.stdout_fd(), ends);
  return streams_[index].drawn ? 0 : uv_pipe(ends, UV_NONBLOCK_PIPE, 0);
}

Status WorkerProcess::OpenStreams(int* write_ends) {
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
    if (!shared_->console->paused(i)) Read(i, /*enabled=*/true);
  }
  return Status();
}

int WorkerProcess::Fork(const uv_process_options_t& options) {
  const GuardedFork guarded(&shared_->guard, index_);
  return uv_spawn(&shared_->loop, &process_, &options);
}

Status WorkerProcess::Spawn(uv_file stdin_end, const int* write_ends,
                            const std::string& variable) {
  const LaunchOptions& job = *shared_->options;
  std::vector<char*> arguments =
      ExecArguments(job.remote.empty() ? job.command : job.remote[index_]);
  const bool asks = shared_->done_fd >= 0;
  std::string done;
  if (asks) {
    done = kLauncherPipeVariable + ("=" + std::to_string(kDoneFd));
  }
  std::vector<char*> variables =
      VariablesOfWorker(variable, shared_->key, done);
  uv_stdio_container_t stdio[kDoneFd + 1];
  stdio[0].flags = stdin_end < 0 ? UV_IGNORE : UV_INHERIT_FD;
  stdio[0].data.fd = stdin_end;
  for (int i = 0; i < 2; ++i) {
    stdio[1 + i].flags = UV_INHERIT_FD;
    stdio[1 + i].data.fd = write_ends[i];
  }
  stdio[kDoneFd].flags = UV_INHERIT_FD;
  stdio[kDoneFd].data.fd = shared_->done_fd;
  uv_process_options_t options = {};
  options.file = arguments[0];
  options.args = arguments.data();
  options.env = variables.data();
  options.flags = UV_PROCESS_DETACHED;  // setsid
  options.stdio_count = asks ? kDoneFd + 1 : kDoneFd;
  options.stdio = stdio;
  options.exit_cb = [](uv_process_t* process, int64_t status, int signal) {
    static_cast<WorkerProcess*>(process->data)
        ->OnExit(signal != 0 ? 128 + signal : static_cast<int>(status));
  };
  process_.data = this;
  ++open_handles_;
  const int error = Fork(options);
  if (error == 0) {
    pid_ = process_.pid;
    shared_->guard.Set(index_, pid_);
    return Status();
  }
  CloseProcess();
  return OsError(-error, "cannot start '%s'%s", options.file, HintOf(error));
}

Status WorkerProcess::Start(const std::string& variable) {
  for (int i = 0; i < 2; ++i) {
    Stream* stream = &streams_[i];
    uv_pipe_init(&shared_->loop, &stream->pipe, 0);  // cannot fail
    stream->pipe.data = stream;
    stream->process = this;
    stream->index = i;
    stream->open = true;
    ++open_handles_;
  }
  int write_ends[2] = {-1, -1};
  uv_file input[2] = {-1, -1};
  Status status = OpenStreams(write_ends);
  if (status.ok() && !shared_->options->remote.empty()) {
    const int error = uv_pipe(input, 0, 0);
    if (error != 0) status = OsError(-error, "cannot make a pipe");
  }
  input_ = input[1];
  if (status.ok()) status = Spawn(input[0], write_ends, variable);
  for (int end : {write_ends[0], write_ends[1], input[0]}) {
    if (end >= 0) close(end);
  }
  if (!status.ok()) {
    code_ = status.os_error() == ENOENT ? 127 : 126;
    CloseStreams();
  }
  return status;
}

void WorkerProcess::CloseInput() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

void WorkerProcess::Signal(int signal) {
  if (input_ >= 0 && signal != SIGKILL) return CloseInput();
  // The kernel does not use the id again before its leader is reaped.
  if (pid_ != 0) kill(-pid_, signal);
}

void WorkerProcess::OnExit(int code) {
  code_ = code;
  kill(-pid_, SIGKILL);  // what is left of the group
  pid_ = 0;
  CloseProcess();
  for (Stream& stream : streams_) ReadRest(&stream);
  shared_->owner->OnExit(index_, code);
}

void WorkerProcess::CloseProcess() {
  CloseInput();
  shared_->guard.Set(index_, 0);
  uv_close(AsHandle(&process_), [](uv_handle_t* handle) {
    static_cast<WorkerProcess*>(handle->data)->OnHandleClosed();
  });
}

// Reads the rest in a terminal after its writer has ended. It is bounded by the
// system's buffer.
void WorkerProcess::ReadRest(Stream* stream) {
  uv_os_fd_t fd = -1;
  if (stream->held < 0 || !stream->open ||
      uv_fileno(AsHandle(&stream->pipe), &fd) != 0) {
    return;
  }
  for (int closed = 0; closed < 2; ++closed) {
    for (;;) {
      const ssize_t bytes = read(fd, buffer().base, buffer().len);
      if (bytes <= 0) break;
      OnRead(stream, buffer().base, static_cast<size_t>(bytes));
    }
    // Later reads return the bytes in the system's buffer, then the end.
    if (stream->held >= 0) close(stream->held);
    stream->held = -1;
  }
  EndLine(stream);
}

void WorkerProcess::Read(int index, bool enabled) {
  Stream* stream = &streams_[index];
  if (!stream->open) return;
  uv_stream_t* pipe = reinterpret_cast<uv_stream_t*>(&stream->pipe);
  if (!enabled) {
    uv_read_stop(pipe);
    return;
  }
  // Fails only if it has been started already.
  uv_read_start(
      pipe,
      [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
        *buffer = static_cast<Stream*>(handle->data)->process->buffer();
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

void WorkerProcess::OnRead(Stream* stream, const char* data, size_t bytes) {
  std::vector<std::string> lines;
  if (stream->drawn) {
    shared_->console->unfinished_line()->Feed(data, bytes, kMaxLine, &lines);
    shared_->console->FlushSoon();
  } else {
    stream->lines.Feed(data, bytes, kMaxLine, &lines);
  }
  Emit(*stream, lines);
}

void WorkerProcess::EndLine(Stream* stream) {
  std::vector<std::string> lines;
  if (stream->drawn) {
    shared_->console->unfinished_line()->End(&lines);
  } else {
    stream->lines.End(&lines);
  }
  Emit(*stream, lines);
}

void WorkerProcess::Emit(const Stream& stream,
                         const std::vector<std::string>& lines) {
  const std::string prefix = "[" + std::to_string(index_) + "] ";
  for (const std::string& line : lines) {
    shared_->console->AddLine(stream.index, prefix, line);
  }
}

void WorkerProcess::CloseStream(Stream* stream) {
  if (!stream->open) return;
  stream->open = false;
  if (stream->held >= 0) close(stream->held);
  stream->held = -1;
  EndLine(stream);
  uv_close(AsHandle(&stream->pipe), [](uv_handle_t* handle) {
    static_cast<Stream*>(handle->data)->process->OnHandleClosed();
  });
}

void WorkerProcess::CloseStreams() {
  CloseStream(&streams_[0]);
  CloseStream(&streams_[1]);
}

void WorkerProcess::OnHandleClosed() {
  if (--open_handles_ == 0) shared_->owner->OnEnded(index_);  // this is gone
}

}  // namespace ringlet
