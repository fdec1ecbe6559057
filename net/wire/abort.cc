#include "abort.h"

#include <algorithm>
#include <cstring>

#include "frame.h"
#include "handshake.h"

namespace ringlet {
namespace {

constexpr size_t kAbortFixedBytes = 6;
constexpr uint8_t kEnded = 1;

}  // namespace

std::vector<uint8_t> EncodeAbort(const AbortNotice& notice) {
  const size_t text = std::min(notice.text.size(), kTextBytes);
  std::vector<uint8_t> payload(kAbortFixedBytes + text);
  payload[0] = static_cast<uint8_t>(notice.code);
  payload[1] = notice.ended ? kEnded : 0;
  StoreLittle(WorkerOnWire(notice.worker), &payload[2]);
  StoreLittle(WorkerOnWire(notice.origin), &payload[4]);
  std::memcpy(payload.data() + kAbortFixedBytes, notice.text.data(), text);
  return payload;
}

bool DecodeAbort(const uint8_t* payload, size_t bytes, int size, int sender,
                 AbortNotice* out) {
  if (bytes < kAbortFixedBytes) return false;
  const uint16_t worker = LoadLittle<uint16_t>(payload + 2);
  const uint16_t origin = LoadLittle<uint16_t>(payload + 4);
  out->code = CodeOf(payload[0]);
  out->ended = (payload[1] & kEnded) != 0;
  out->worker = worker < size ? worker : sender;
  out->origin = origin == kNoWorker ? -1 : origin < size ? origin : sender;
  out->text =
      PrintableAscii(payload + kAbortFixedBytes, bytes - kAbortFixedBytes);
  return true;
}

}  // namespace ringlet
