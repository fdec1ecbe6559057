// Heartbeat: what a worker says it is doing, at least every quarter of the
// timeout.
//
// Internal to net/. Layout: docs/wire_format.md, "Heartbeat".

#ifndef RINGLET_NET_WIRE_HEARTBEAT_H_
#define RINGLET_NET_WIRE_HEARTBEAT_H_

#include <cstddef>
#include <cstdint>

#include "frame.h"

namespace ringlet {

struct Activity {
  uint64_t step = 0;      // training step
  uint64_t sequence = 0;  // operation waited for, or the last one completed
  FrameType type = FrameType::kHeartbeat;  // of the operation waited for;
                                           // kHeartbeat: none, it computes
  int waiting_on = -1;                     // rank, or -1
  bool computing() const { return type == FrameType::kHeartbeat; }
  bool operator==(const Activity& other) const {
    return step == other.step && sequence == other.sequence &&
           type == other.type && waiting_on == other.waiting_on;
  }
};

// Of a large ring, where a rank does not hear all others: the end of the chain
// of those who wait for one another, as its sender knows it.
struct ChainEnd {
  int rank = -1;  // -1: the sender waits for nobody
  Activity activity;
  uint32_t same_ms = 0;   // for how long it has said that
  uint32_t still_ms = 0;  // since something moved along the chain, and
  uint32_t seen_ms = 0;   // since the oldest of the words that say so
};

constexpr size_t kHeartbeatBytes = 4;
constexpr size_t kChainEndBytes = 36;  // more, where there is an end
// `payload` has room for both.
void EncodeHeartbeat(const Activity& activity, FrameHeader* header,
                     uint8_t* payload, const ChainEnd& end = ChainEnd());
// Without `end` a heartbeat that has one is an error.
Status DecodeHeartbeat(const FrameHeader& header, const uint8_t* payload,
                       int size, Activity* out, ChainEnd* end = nullptr);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_HEARTBEAT_H_
