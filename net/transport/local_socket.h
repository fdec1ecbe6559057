// Sockets of Linux's abstract AF_UNIX space, between workers of one host.
//
// LocalSocketName() (net/transport/socket_address.h) has the names. On other
// systems every call fails, and TCP is used.

#ifndef RINGLET_NET_TRANSPORT_LOCAL_SOCKET_H_
#define RINGLET_NET_TRANSPORT_LOCAL_SOCKET_H_

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "ringlet/status.h"

namespace ringlet {

// Makes a non-blocking socket, connected to `name` or bound to it. The caller
// closes it. ConnectLocalSocket refuses a socket of another user.
Status ConnectLocalSocket(const std::string& name, int* fd);
Status BindLocalSocket(const std::string& name, int* fd);

// True if the other end belongs to this process's user, as the system reports.
bool IsOfSameUser(int fd);

// As writev. The first byte carries an open descriptor, unless it is -1.
// Returns the number of bytes taken, or a negative errno; raises no signal.
int64_t WriteLocalSocket(int fd, iovec* pieces, int count, int descriptor);
// The descriptor that arrived with the next byte, which the caller closes; or
// -1.
int PeekDescriptor(int fd);

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_LOCAL_SOCKET_H_
