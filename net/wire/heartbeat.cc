#include "heartbeat.h"

namespace ringlet {
namespace {

constexpr uint16_t kNobody = 0xffff;

}  // namespace

void EncodeHeartbeat(const Activity& activity, FrameHeader* header,
                     uint8_t* payload) {
  header->type = FrameType::kHeartbeat;
  header->step = activity.step;
  header->sequence = activity.sequence;
  header->payload_bytes = kHeartbeatBytes;
  payload[0] = static_cast<uint8_t>(activity.type);
  payload[1] = 0;
  StoreLittle(activity.waiting_on < 0
                  ? kNobody
                  : static_cast<uint16_t>(activity.waiting_on),
              payload + 2);
}

Status DecodeHeartbeat(const FrameHeader& header, const uint8_t* payload,
                       int size, Activity* out) {
  const FrameType type = static_cast<FrameType>(payload[0]);
  const uint16_t on = LoadLittle<uint16_t>(payload + 2);
  if (header.payload_bytes != kHeartbeatBytes || payload[1] != 0 ||
      (type != FrameType::kHeartbeat && (payload[0] < 16 || payload[0] > 19)) ||
      (on != kNobody && on >= size)) {
    return Corruption("a heartbeat that makes no sense");
  }
  out->step = header.step;
  out->sequence = header.sequence;
  out->type = type;
  out->waiting_on = on == kNobody ? -1 : on;
  return Status();
}

}  // namespace ringlet
