// Addresses of workers (ringlet/strategy.h) as socket addresses.

#ifndef RINGLET_NET_TRANSPORT_SOCKET_ADDRESS_H_
#define RINGLET_NET_TRANSPORT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "../../core/base/job_key.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// Converts a numeric host, or localhost. localhost is 127.0.0.1 on every
// machine (RFC 6761), since a resolver may return ::1, or nothing. kNotFound
// for any other name.
Status NumericAddress(const Address& address, sockaddr_storage* out);
// Sets *out to all addresses of this host, by one socket for IPv6 and IPv4.
void AllAddresses(int port, sockaddr_storage* out);
// Sets the port of a resolved address.
void SetPort(int port, sockaddr_storage* address);

// "1.2.3.4:5" or "[::1]:5".
std::string AddressText(const sockaddr_storage& address);

// 127.0.0.0/8 or ::1.
bool IsLoopbackAddress(const sockaddr_storage& address);
// True for a loopback address and for "localhost". Other names may resolve to
// any address.
bool IsLoopback(const Address& host);
// SameHost ignores the port.
bool SameHost(const sockaddr_storage& a, const sockaddr_storage& b);
bool SameAddress(const sockaddr_storage& a, const sockaddr_storage& b);
// True if the address belongs to one of this host's interfaces.
bool IsLocalAddress(const sockaddr_storage& address);

// The name, in Linux's abstract namespace, of the socket by which workers of
// one host reach the worker that listens on `address`: "\0ringlet/<address>".
// With a key it is "\0ringlet/<address>/<tag>", which cannot be found without
// the key. Abstract names belong to the network namespace, leave no file
// behind, and end with their owner. "" on other systems, which use TCP.
std::string LocalSocketName(const sockaddr_storage& address,
                            const JobKey* key = nullptr);

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SOCKET_ADDRESS_H_
