#include "rendezvous_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringlet {

RendezvousTable::Place* RendezvousTable::Find(const RelayHello& hello,
                                              RelayHello::Role role) {
  for (Place& place : waiting_) {
    if (place.hello.role == role &&
        std::memcmp(place.hello.channel, hello.channel, kRelayChannelBytes) ==
            0) {
      return &place;
    }
  }
  return nullptr;
}

RendezvousTable::Match RendezvousTable::Arrive(void* connection,
                                               const RelayHello& hello) {
  Match match;
  const auto opposite = hello.role == RelayHello::kListens
                            ? RelayHello::kDials
                            : RelayHello::kListens;
  Place* const other = Find(hello, opposite);
  if (other != nullptr) {
    match.other = other->connection;
    Leave(match.other);
    return match;
  }
  Place* const before = Find(hello, hello.role);
  if (before != nullptr) {
    match.displaced = std::exchange(before->connection, connection);
  } else {
    waiting_.push_back({hello, connection});
  }
  return match;
}

void RendezvousTable::Leave(const void* connection) {
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const Place& p) { return p.connection == connection; });
  if (place != waiting_.end()) waiting_.erase(place);
}

}  // namespace ringlet
