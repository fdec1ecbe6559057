// NameLookup: finds the addresses of a host's name, with a bounded wait.
//
// The system's resolver may take half a minute and cannot be stopped. So it
// runs on its own thread, which is detached if the lookup is dropped. Static
// programs have no resolver: they accept numeric addresses and localhost.

#ifndef RINGLET_NET_TRANSPORT_NAME_LOOKUP_H_
#define RINGLET_NET_TRANSPORT_NAME_LOOKUP_H_

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

class NameLookup {
 public:
  // kInvalidArgument if this build cannot look up such a host.
  static Status Check(const Address& address);

  // Begins; a numeric address is found immediately. From any thread.
  explicit NameLookup(const Address& address);

  bool done() const { return Wait(0); }
  // Waits until it is done, or for `seconds`. Returns true if it is done.
  bool Wait(double seconds) const;
  // Call it once done. *out gets the name's addresses, in the resolver's order,
  // at most kMaxAddresses. kNotFound has the reason if there is none.
  Status Answer(std::vector<sockaddr_storage>* out) const;
  static constexpr size_t kMaxAddresses = 16;

  // getaddrinfo; tests replace it while no lookup runs.
  using Resolver = int (*)(const char*, const char*, const addrinfo*,
                           addrinfo**);
  static Resolver resolver;

 private:
  struct State;
  static void Resolve(State* state);
  std::shared_ptr<State> state_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_NAME_LOOKUP_H_
