// Console: what the workers and the launcher say, line by line, on the
// launcher's stdout and stderr.
//
// Internal to net/. On the loop's thread. A slow reader never blocks the loop:
// lines wait here, and where too many do, their readers are told to stop. On a
// terminal the line that worker 0 has begun stands last (terminal_line.h).

#ifndef RINGLET_NET_LAUNCH_CONSOLE_H_
#define RINGLET_NET_LAUNCH_CONSOLE_H_

#include <uv.h>

#include <string>

#include "output_queue.h"
#include "terminal_line.h"

namespace ringlet {

class Console {
 public:
  class Owner {
   public:
    // Lines of this stream (0 stdout, 1 stderr) are to be read no more, or
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
  // Writes at the end of this turn of the loop, so that lines are written
  // together, and goes on until nothing waits.
  void FlushSoon();
  // Writes what the readers take at once, and drops the rest for good.
  void GiveUp();

  // Whether worker 0 has a terminal, and what it has begun there.
  bool on_terminal() const { return on_terminal_; }
  TerminalLine* begun() { return &begun_; }
  int stdout_fd() const { return stdout_fd_; }

  bool paused(int stream) const { return paused_[stream]; }
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
  int output_of_[2] = {0, 1};  // of a stream: both one where they are one place
  bool on_terminal_;
  TerminalLine begun_;  // of worker 0's stdout
  bool paused_[2] = {false, false};
  uv_timer_t timer_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_CONSOLE_H_
