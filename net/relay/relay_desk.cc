#include "relay_desk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringlet {

RelayDesk::Place* RelayDesk::Find(const RelayHello& hello,
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

RelayDesk::Met RelayDesk::Comes(void* visitor, const RelayHello& hello) {
  Met met;
  const auto opposite = hello.role == RelayHello::kListens
                            ? RelayHello::kDials
                            : RelayHello::kListens;
  Place* const other = Find(hello, opposite);
  if (other != nullptr) {
    met.other = other->visitor;
    Goes(met.other);
    return met;
  }
  Place* const before = Find(hello, hello.role);
  if (before != nullptr) {
    met.displaced = std::exchange(before->visitor, visitor);
  } else {
    waiting_.push_back({hello, visitor});
  }
  return met;
}

void RelayDesk::Goes(const void* visitor) {
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const Place& p) { return p.visitor == visitor; });
  if (place != waiting_.end()) waiting_.erase(place);
}

}  // namespace ringlet
