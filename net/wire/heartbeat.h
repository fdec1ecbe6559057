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

constexpr size_t kHeartbeatBytes = 4;
void EncodeHeartbeat(const Activity& activity, FrameHeader* header,
                     uint8_t* payload);
Status DecodeHeartbeat(const FrameHeader& header, const uint8_t* payload,
                       int size, Activity* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_HEARTBEAT_H_
