// FindOwnAddresses: the addresses on which a worker listens.
//
// They are the addresses of the worker's own name. A host's own name is often a
// loopback address to itself (Debian writes "127.0.1.1 <name>" into
// /etc/hosts), where no other host reaches it. If the job has workers on other
// hosts, the address of this host's route to them is added, and a warning names
// the remedy. No other interface is opened.

#ifndef RINGLET_NET_TRANSPORT_OWN_ADDRESSES_H_
#define RINGLET_NET_TRANSPORT_OWN_ADDRESSES_H_

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

struct OwnAddresses {
  std::vector<sockaddr_storage> addresses;
  // If false, other hosts may not reach any of these addresses, and a later
  // search may find one that they can reach. There is no route yet, or the
  // names of the other hosts do not resolve.
  bool complete = false;
  std::string warning;  // "" if there is none
};

// Finds the addresses of hosts[worker], with its port. Waits for the resolver
// at most `seconds`, then kDeadlineExceeded; kUnavailable if the name has no
// address. Calls `print_line` with a line after 1 s, and then every 10 s.
Status FindOwnAddresses(const std::vector<Address>& hosts, int worker,
                        double seconds, OwnAddresses* own_addresses,
                        void (*print_line)(const std::string& line) = nullptr);

// Runs FindOwnAddresses on a thread of its own, so that the caller never waits.
// The resolver may hang: the destructor does not wait for the thread.
class OwnAddressSearch {
 public:
  // Starts the search. With a numeric own address it is done on return.
  OwnAddressSearch(const std::vector<Address>& hosts, int worker,
                   double seconds);
  bool done() const;
  // Call it only after done() is true.
  Status Answer(OwnAddresses* own_addresses) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Finds this host's address on the route to another; false if there is no
// route. Nothing is sent. Tests replace it.
using RouteFinder = bool (*)(const sockaddr_storage& to,
                             sockaddr_storage* from);
extern RouteFinder route_finder;

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_OWN_ADDRESSES_H_
