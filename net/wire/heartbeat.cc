#include "heartbeat.h"

namespace ringlet {
namespace {

bool IsActivity(uint8_t type, uint16_t awaited, int size) {
  return (type == static_cast<uint8_t>(FrameType::kHeartbeat) ||
          IsOperation(uint32_t{type})) &&
         (awaited == kNoWorker || awaited < size);
}

// OFFSET SIZE: 0 2 worker, 2 1 type, 3 1 0, 4 2 worker it waits for, 6 2 0,
// 8 8 step, 16 8 sequence, 24 4 reported_for_ms, 28 4 unchanged_for_ms,
// 32 4 oldest_report_ms.
void EncodeEnd(const ChainEnd& end, uint8_t* out) {
  StoreLittle(WorkerOnWire(end.worker), out);
  out[2] = static_cast<uint8_t>(end.activity.type);
  out[3] = 0;
  StoreLittle(WorkerOnWire(end.activity.waiting_on), out + 4);
  StoreLittle(uint16_t{0}, out + 6);
  StoreLittle(end.activity.step, out + 8);
  StoreLittle(end.activity.sequence, out + 16);
  StoreLittle(end.reported_for_ms, out + 24);
  StoreLittle(end.unchanged_for_ms, out + 28);
  StoreLittle(end.oldest_report_ms, out + 32);
}

bool DecodeEnd(const uint8_t* in, int size, ChainEnd* out) {
  const uint16_t worker = LoadLittle<uint16_t>(in);
  const uint16_t awaited = LoadLittle<uint16_t>(in + 4);
  if (worker >= size || !IsActivity(in[2], awaited, size) || in[3] != 0 ||
      LoadLittle<uint16_t>(in + 6) != 0) {
    return false;
  }
  out->worker = worker;
  out->activity.type = static_cast<FrameType>(in[2]);
  out->activity.waiting_on = awaited == kNoWorker ? -1 : awaited;
  out->activity.step = LoadLittle<uint64_t>(in + 8);
  out->activity.sequence = LoadLittle<uint64_t>(in + 16);
  out->reported_for_ms = LoadLittle<uint32_t>(in + 24);
  out->unchanged_for_ms = LoadLittle<uint32_t>(in + 28);
  out->oldest_report_ms = LoadLittle<uint32_t>(in + 32);
  return true;
}

}  // namespace

void EncodeHeartbeat(const Activity& activity, FrameHeader* header,
                     uint8_t* payload, const ChainEnd& end) {
  header->type = FrameType::kHeartbeat;
  header->step = activity.step;
  header->sequence = activity.sequence;
  header->payload_bytes = kHeartbeatBytes;
  payload[0] = static_cast<uint8_t>(activity.type);
  payload[1] = 0;
  StoreLittle(WorkerOnWire(activity.waiting_on), payload + 2);
  if (end.worker < 0) return;
  header->payload_bytes += kChainEndBytes;
  EncodeEnd(end, payload + kHeartbeatBytes);
}

Status DecodeHeartbeat(const FrameHeader& header, const uint8_t* payload,
                       int size, Activity* out, ChainEnd* end) {
  if (end != nullptr) end->worker = -1;
  const uint32_t bytes = header.payload_bytes;
  const bool with_end =
      end != nullptr && bytes == kHeartbeatBytes + kChainEndBytes;
  if (!with_end && bytes != kHeartbeatBytes) {
    return Corruption("a heartbeat of %lu bytes, not %zu",
                      static_cast<unsigned long>(bytes), kHeartbeatBytes);
  }
  const uint16_t awaited = LoadLittle<uint16_t>(payload + 2);
  if (payload[1] != 0 || !IsActivity(payload[0], awaited, size)) {
    return Corruption(
        "an invalid heartbeat: type %d, byte 1 is %d, waits for worker %d of "
        "%d",
        int{payload[0]}, int{payload[1]}, int{awaited}, size);
  }
  if (with_end && !DecodeEnd(payload + kHeartbeatBytes, size, end)) {
    return Corruption(
        "an invalid heartbeat: the report of the worker at the end of "
        "its chain of waits");
  }
  out->step = header.step;
  out->sequence = header.sequence;
  out->type = static_cast<FrameType>(payload[0]);
  out->waiting_on = awaited == kNoWorker ? -1 : awaited;
  return Status();
}

}  // namespace ringlet
