#include "output_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "../../core/base/reader_left.h"

namespace ringlet {

namespace {
// When more bytes than this are written, they are erased from the buffer.
constexpr size_t kKeptBytes = 64 * 1024;
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

}  // namespace ringlet
