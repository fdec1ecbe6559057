// Addresses of workers (net/cluster/cluster.h) as the system takes them.
//
// Internal to net/.

#ifndef RINGLET_NET_RING_SOCKET_ADDRESS_H_
#define RINGLET_NET_RING_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "../../core/base/job_key.h"
#include "../../core/base/status.h"
#include "../cluster/cluster.h"

namespace ringlet {

// Of a numeric host, or of localhost, which is 127.0.0.1 on every machine (RFC
// 6761: not looked up; a resolver may say ::1, or know none). kNotFound where
// it is another name.
Status NumericAddress(const Address& address, sockaddr_storage* out);
// Puts a port into a resolved address.
void SetPort(int port, sockaddr_storage* address);

// "1.2.3.4:5" or "[::1]:5".
std::string AddressText(const sockaddr_storage& address);

// 127.0.0.0/8 or ::1.
bool IsLoopbackAddress(const sockaddr_storage& address);
// What a name stands for others decide, "localhost" aside.
bool IsLoopback(const Address& host);
// The same without the port: of one host.
bool SameHost(const sockaddr_storage& a, const sockaddr_storage& b);
bool SameAddress(const sockaddr_storage& a, const sockaddr_storage& b);
// Whether the address is one of this host's own interfaces.
bool IsLocalAddress(const sockaddr_storage& address);

// The name, in Linux's abstract space, of the socket by which workers on one
// host reach the one listening on `address`: "\0ringlet/<address>", and with a
// key "\0ringlet/<address>/<tag>", which only those who have it find. Abstract
// names belong to the network namespace, leave no file behind, and go with
// their owner. "" on systems without them: TCP is used there.
std::string LocalSocketName(const sockaddr_storage& address,
                            const JobKey* key = nullptr);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SOCKET_ADDRESS_H_
