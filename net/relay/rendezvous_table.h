// RendezvousTable: finds the two connections of a relay that belong together.
//
// Pure. For each channel and role at most one connection waits. A second one is
// the newer connection of the same worker.

#ifndef RINGLET_NET_RELAY_RENDEZVOUS_TABLE_H_
#define RINGLET_NET_RELAY_RENDEZVOUS_TABLE_H_

#include <vector>

#include "../wire/relay_hello.h"

namespace ringlet {

class RendezvousTable {
 public:
  // Connections, as the caller names them; null if there is none.
  struct Match {
    // The other worker's connection; it has waited until now.
    void* other = nullptr;
    // The same worker's older connection; it waits no more.
    void* displaced = nullptr;
  };
  // If there is no partner (`other`), the connection waits.
  Match Arrive(void* connection, const RelayHello& hello);
  void Leave(const void* connection);
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Place {
    RelayHello hello;
    void* connection;
  };
  Place* Find(const RelayHello& hello, RelayHello::Role role);

  std::vector<Place> waiting_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RELAY_RENDEZVOUS_TABLE_H_
