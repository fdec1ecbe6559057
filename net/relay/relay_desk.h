// RelayDesk: who of those that have come to a relay belong together.
//
// Internal to net/. Pure. Of each channel and role one waits at most: who comes
// in the same place has the newer connection of the same worker.

#ifndef RINGLET_NET_RELAY_RELAY_DESK_H_
#define RINGLET_NET_RELAY_RELAY_DESK_H_

#include <vector>

#include "../wire/relay_hello.h"

namespace ringlet {

class RelayDesk {
 public:
  // Visitors, as the caller names them; null: nobody.
  struct Met {
    void* other = nullptr;      // that waited, and does no longer
    void* displaced = nullptr;  // in whose place the visitor waits now
  };
  // Without `other` the visitor waits.
  Met Comes(void* visitor, const RelayHello& hello);
  void Goes(const void* visitor);
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Place {
    RelayHello hello;
    void* visitor;
  };
  Place* Find(const RelayHello& hello, RelayHello::Role role);

  std::vector<Place> waiting_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RELAY_RELAY_DESK_H_
