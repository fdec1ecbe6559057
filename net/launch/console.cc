#include "console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "../../core/base/check.h"
#include "../../core/base/reader_left.h"
#include "../transport/loop.h"
#include "terminal.h"

namespace ringlet {

namespace {
// When more bytes than this are written, they are erased from the buffer.
constexpr size_t kKeptBytes = 64 * 1024;
constexpr size_t kHighWater = 256 * 1024;  // unwritten: stop reading
constexpr size_t kLowWater = 64 * 1024;    // continue reading
constexpr uint64_t kRetryMillis =
    10;  // until a reader that is not ready is tried again
}  // namespace

void OutputQueue::Drop() {
  broken_ = true;
  pending_.clear();
  written_ = 0;
}

// The launcher's parent shares the descriptor, so it stays blocking. poll
// reports if it takes a small piece.
void OutputQueue::Flush() {
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
      const int error = errno;
      if (!ReaderHasLeft(fd_)) os_error_ = error;
      return Drop();
    }
  }
  if (written_ >= kKeptBytes || waiting() == 0) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

Console::Console(int stdout_fd, int stderr_fd, Owner* owner)
    : owner_(owner),
      stdout_fd_(stdout_fd),
      outputs_{OutputQueue(stdout_fd), OutputQueue(stderr_fd)},
      on_terminal_(isatty(stdout_fd) != 0) {
  if (SameTerminal(stdout_fd, stderr_fd)) output_of_[1] = 0;
}

void Console::Open(uv_loop_t* loop) {
  uv_timer_init(loop, &timer_);
  timer_.data = this;
}

void Console::Close() { uv_close(AsHandle(&timer_), nullptr); }

void Console::AddLine(int stream, const std::string& prefix,
                      const std::string& line) {
  OutputQueue& output = OutputOf(stream);
  const bool beside = on_terminal_ && output_of_[stream] == 0;
  output.Append((beside ? unfinished_line_.Erase() : "") + prefix + line +
                "\n");
  if (output.waiting() > kHighWater && !paused_[stream]) {
    paused_[stream] = true;
    owner_->OnPause(stream, /*paused=*/true);
  }
  FlushSoon();
}

void Console::FlushSoon() {
  if (!uv_is_active(AsHandle(&timer_))) FlushAfter(0);
}

void Console::FlushAfter(uint64_t millis) {
  const auto flush = [](uv_timer_t* timer) {
    static_cast<Console*>(timer->data)->Flush();
  };
  RINGLET_CHECK(uv_timer_start(&timer_, flush, millis, 0) == 0);
}

void Console::Flush() {
  // While earlier text waits for the reader, the line is not drawn. A later
  // call draws it.
  if (on_terminal_ && outputs_[0].waiting() < OutputQueue::kAtomicWrite) {
    outputs_[0].Append(
        unfinished_line_.Draw("[0] ", TerminalColumns(stdout_fd_) - 1));
  }
  for (OutputQueue& output : outputs_) output.Flush();
  for (int i = 0; i < 2; ++i) {
    if (paused_[i] && OutputOf(i).waiting() < kLowWater) {
      paused_[i] = false;
      owner_->OnPause(i, /*paused=*/false);
    }
  }
  if (!empty()) FlushAfter(kRetryMillis);
  owner_->OnFlushed();
}

Status Console::CheckWritten() const {
  for (int i = 0; i < 2; ++i) {
    const int error = outputs_[i].os_error();
    if (error == 0) continue;
    return OsError(error,
                   "%s cannot be written, and lines of the workers are lost; "
                   "the job itself continued to its end",
                   i == 0 ? "stdout" : "stderr");
  }
  return Status();
}

void Console::DropUnwritten() {
  for (OutputQueue& output : outputs_) {
    output.Flush();
    output.Drop();
  }
  Flush();
}

}  // namespace ringlet
