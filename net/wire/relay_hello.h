// RelayHello: what a worker says to a relay, before anything else.
//
// Internal to net/. Pure. Two that name the same channel, one that listens and
// one that dials, are joined: both are sent kRelayJoined, and what either sends
// from then on is what the other receives. Nothing is said before it.
//
//   OFFSET SIZE
//    0      8    "RGRELAY1"
//    8      1    1 of the side that listens, 2 of the side that dials
//    9     16    the channel, which strangers cannot guess
//
// docs/wire_format.md, "Relay".

#ifndef RINGLET_NET_WIRE_RELAY_HELLO_H_
#define RINGLET_NET_WIRE_RELAY_HELLO_H_

#include <cstddef>
#include <cstdint>

namespace ringlet {

constexpr size_t kRelayChannelBytes = 16;
constexpr size_t kRelayHelloBytes = 9 + kRelayChannelBytes;
constexpr uint8_t kRelayJoined = 1;

struct RelayHello {
  enum Role : uint8_t { kListens = 1, kDials = 2 };
  Role role = kListens;
  uint8_t channel[kRelayChannelBytes] = {};
};

void EncodeRelayHello(const RelayHello& hello, uint8_t* out);
// False: no worker says such a thing.
bool DecodeRelayHello(const uint8_t* data, RelayHello* hello);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_RELAY_HELLO_H_
