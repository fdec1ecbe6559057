// ReaderHasLeft: tests if a descriptor has lost its reader.

#ifndef RINGLET_CORE_BASE_READER_LEFT_H_
#define RINGLET_CORE_BASE_READER_LEFT_H_

#include <poll.h>

namespace ringlet {

// True if the other end of a pipe, a socket or a terminal is closed, so that a
// write to `fd` fails. Always false for a file, also on a full disk.
inline bool ReaderHasLeft(int fd) {
  pollfd end = {fd, POLLOUT, 0};
  return poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_READER_LEFT_H_
