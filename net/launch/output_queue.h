// OutputQueue: text on its way to one descriptor, never waiting for its reader.
//
// The queue is not bounded here: the writer checks waiting(), and stops reading
// its own source.

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

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_OUTPUT_QUEUE_H_
