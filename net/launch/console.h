// Console: the lines of the workers and the launcher, on the launcher's stdout
// and stderr.
//
// On the loop's thread. A slow reader never blocks the loop: lines wait here.
// If too many wait, no more are read from the workers. On a terminal the
// unfinished line of worker 0 is the last one (terminal_line.h).

#ifndef RINGLET_NET_LAUNCH_CONSOLE_H_
#define RINGLET_NET_LAUNCH_CONSOLE_H_

#include <uv.h>

#include <cstddef>
#include <string>

#include "ringlet/status.h"
#include "terminal_line.h"

namespace ringlet {

// OutputQueue: text on its way to one descriptor, never waiting for its reader.
//
// The queue is not bounded here: the writer checks waiting(), and stops reading
// its own source.
class OutputQueue {
 public:
  // A pipe that poll calls writable takes as much as this without blocking
  // (PIPE_BUF).
  static constexpr size_t kAtomicWrite = 4096;

  explicit OutputQueue(int fd) : fd_(fd) {}
  void Append(const std::string& text) {
    if (!broken_) pending_ += text;
  }
  size_t waiting() const { return pending_.size() - written_; }
  // Writes what the reader takes now.
  void Flush();
  // Drops the waiting bytes, and takes no more.
  void Drop();
  // The errno of the failed write; 0 if none failed, or the reader has left.
  int os_error() const { return os_error_; }

 private:
  const int fd_;
  bool broken_ = false;  // true after a failed write: drops all output
  int os_error_ = 0;
  std::string pending_;
  size_t written_ = 0;  // the written bytes of pending_
};

class Console {
 public:
  class Owner {
   public:
    // Stop reading lines of this stream (0 stdout, 1 stderr), or begin
    // again.
    virtual void OnPause(int stream, bool paused) = 0;
    // Something may have been written.
    virtual void OnFlushed() = 0;

   protected:
    ~Owner() = default;
  };

  Console(int stdout_fd, int stderr_fd, Owner* owner);
  void Open(uv_loop_t* loop);
  void Close();  // its timer; nothing is added after it

  void AddLine(int stream, const std::string& prefix, const std::string& line);
  // Writes at the end of this turn of the loop, several lines together, and
  // continues until none waits.
  void FlushSoon();
  // Writes as much as the readers take without a wait, and drops the rest.
  void DropUnwritten();

  // True if worker 0 has a terminal; and its unfinished line there.
  bool on_terminal() const { return on_terminal_; }
  TerminalLine* unfinished_line() { return &unfinished_line_; }
  int stdout_fd() const { return stdout_fd_; }

  bool paused(int stream) const { return paused_[stream]; }
  // Returns an error if lines were lost, except because their reader has left.
  Status CheckWritten() const;
  bool empty() const {
    return outputs_[0].waiting() == 0 && outputs_[1].waiting() == 0;
  }

 private:
  OutputQueue& OutputOf(int stream) { return outputs_[output_of_[stream]]; }
  void Flush();
  void FlushAfter(uint64_t millis);

  Owner* const owner_;  // outlives this
  const int stdout_fd_;
  OutputQueue outputs_[2];
  // The output of each stream; equal if both are one place.
  int output_of_[2] = {0, 1};
  bool on_terminal_;
  TerminalLine unfinished_line_;  // the unfinished line of worker 0's stdout
  bool paused_[2] = {false, false};
  uv_timer_t timer_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_CONSOLE_H_
