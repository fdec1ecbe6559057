// RelayHello: the first message of a worker to a relay.
//
// Pure. The relay joins two connections with the same channel: one worker
// listens and one dials. It sends kRelayJoined to both, as its first byte. From
// then on each side receives the bytes of the other.
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
// Returns false if the bytes are not a worker's hello.
bool DecodeRelayHello(const uint8_t* data, RelayHello* hello);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_RELAY_HELLO_H_
