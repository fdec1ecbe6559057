// Sockets of Linux's abstract AF_UNIX space, between workers of one host.
//
// Internal to net/. Names as LocalSocketName() (net/ring/socket_address.h)
// gives them. On other systems every call fails, and TCP is used.

#ifndef RINGLET_NET_RING_LOCAL_SOCKET_H_
#define RINGLET_NET_RING_LOCAL_SOCKET_H_

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "../../core/base/status.h"

namespace ringlet {

// A non-blocking socket, connected to `name` or bound to it; the caller closes
// it. One that belongs to another user is not connected to.
Status ConnectLocalSocket(const std::string& name, int* fd);
Status BindLocalSocket(const std::string& name, int* fd);

// Whether the other end belongs to this process's user, as the system says.
bool IsOfSameUser(int fd);

// As writev, and with the first byte an open descriptor, unless it is -1. The
// bytes taken, or the negative errno; a signal in no case.
int64_t WriteLocalSocket(int fd, iovec* pieces, int count, int descriptor);
// That came with the byte which is read next, for the caller to close; or -1.
int PeekDescriptor(int fd);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_LOCAL_SOCKET_H_
