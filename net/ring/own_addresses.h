// Where a worker listens: on the addresses that its own name has.
//
// Internal to net/. A host's own name is often a loopback address to itself
// (Debian writes "127.0.1.1 <name>" into /etc/hosts), where no other host
// reaches it. Where the job has workers on other hosts, the address by which
// this host goes to them is added, and a warning names the cure: no other
// interface is opened.

#ifndef RINGLET_NET_RING_OWN_ADDRESSES_H_
#define RINGLET_NET_RING_OWN_ADDRESSES_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../cluster/cluster.h"

namespace ringlet {

// Of hosts[rank], with its port. Waits for the resolver at most `seconds`, then
// kDeadlineExceeded; kUnavailable where the name has none. `warning` is ""
// where all is well. `say` is told after 1 s and then every 10 s that it waits.
Status FindOwnAddresses(const std::vector<Address>& hosts, int rank,
                        double seconds, std::vector<sockaddr_storage>* own,
                        std::string* warning,
                        void (*say)(const std::string& line) = nullptr);

// This host's address on the way to another: false where there is no way.
// Nothing is sent. Tests put another in its place.
using RouteFinder = bool (*)(const sockaddr_storage& to,
                             sockaddr_storage* from);
extern RouteFinder route_finder;

}  // namespace ringlet

#endif  // RINGLET_NET_RING_OWN_ADDRESSES_H_
