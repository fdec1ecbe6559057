// OutputQueue: text on its way to one descriptor, never waiting for its reader.
//
// Internal to net/. The queue is not bounded here: who appends looks at
// waiting() and stops reading what it would append.

#ifndef RINGLET_NET_LAUNCH_OUTPUT_QUEUE_H_
#define RINGLET_NET_LAUNCH_OUTPUT_QUEUE_H_

#include <cstddef>
#include <string>

namespace ringlet {

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
  // Forgets what waits, and takes no more.
  void Drop();

 private:
  const int fd_;
  bool broken_ = false;  // the reader is gone
  std::string pending_;
  size_t written_ = 0;  // of pending_
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_OUTPUT_QUEUE_H_
