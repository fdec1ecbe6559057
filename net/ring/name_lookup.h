// NameLookup: a host's name becomes its addresses, without anybody waiting
// longer than he wants.
//
// Internal to net/. The system's resolver may take half a minute and cannot be
// stopped, so it runs on a thread of its own, which is left to itself where the
// lookup is let go. Static programs have no resolver: they take numeric
// addresses, and localhost, which nobody looks up.

#ifndef RINGLET_NET_RING_NAME_LOOKUP_H_
#define RINGLET_NET_RING_NAME_LOOKUP_H_

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "../../core/base/status.h"
#include "../cluster/cluster.h"

namespace ringlet {

class NameLookup {
 public:
  // kInvalidArgument where this build cannot look such a host up.
  static Status Check(const Address& address);

  // Begins; a numeric address is there at once. From any thread.
  explicit NameLookup(const Address& address);

  bool done() const { return Wait(0); }
  // Until it is done, or for `seconds`; says which.
  bool Wait(double seconds) const;
  // Once done: all that the name has, in the resolver's order, at most
  // kMaxAddresses. kNotFound says why there is none.
  Status Answer(std::vector<sockaddr_storage>* out) const;
  static constexpr size_t kMaxAddresses = 16;

  // getaddrinfo; tests put another in its place while no lookup is under way.
  using Resolver = int (*)(const char*, const char*, const addrinfo*,
                           addrinfo**);
  static Resolver resolver;

 private:
  struct State;
  static void Resolve(State* state);
  std::shared_ptr<State> state_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_NAME_LOOKUP_H_
