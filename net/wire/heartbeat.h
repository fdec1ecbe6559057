// Heartbeat: a worker's report on its activity, sent at least every quarter of
// the timeout.
//
// Layout: docs/wire_format.md, "Heartbeat".

#ifndef RINGLET_NET_WIRE_HEARTBEAT_H_
#define RINGLET_NET_WIRE_HEARTBEAT_H_

#include <cstddef>
#include <cstdint>

#include "frame.h"

namespace ringlet {

struct Activity {
  uint64_t step = 0;      // training step
  uint64_t sequence = 0;  // operation waited for, or the last one completed
  // The frames of the operation waited for; kHeartbeat if it computes.
  FrameType type = FrameType::kHeartbeat;
  int waiting_on = -1;  // a worker, or -1
  bool computing() const { return type == FrameType::kHeartbeat; }
  bool operator==(const Activity& other) const {
    return step == other.step && sequence == other.sequence &&
           type == other.type && waiting_on == other.waiting_on;
  }
};

// In a large ring a worker does not hear all other workers. So a heartbeat
// includes the end of the chain of workers that wait for one another, as far as
// the sender knows it.
struct ChainEnd {
  int worker = -1;  // -1 if the sender waits for no worker
  Activity activity;
  uint32_t reported_for_ms = 0;   // milliseconds for which it has reported this
  uint32_t unchanged_for_ms = 0;  // milliseconds since a change along the chain
  uint32_t oldest_report_ms = 0;  // the age of the oldest report of the chain
};

constexpr size_t kHeartbeatBytes = 4;
constexpr size_t kChainEndBytes = 36;  // added if there is an end
// `payload` has room for both.
void EncodeHeartbeat(const Activity& activity, FrameHeader* header,
                     uint8_t* payload, const ChainEnd& end = ChainEnd());
// If `end` is null, a heartbeat with a chain end is an error.
Status DecodeHeartbeat(const FrameHeader& header, const uint8_t* payload,
                       int size, Activity* out, ChainEnd* end = nullptr);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_HEARTBEAT_H_
