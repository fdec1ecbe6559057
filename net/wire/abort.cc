#include "abort.h"

#include <algorithm>
#include <cstring>

#include "frame.h"
#include "handshake.h"

namespace ringlet {
namespace {

constexpr size_t kFixedBytes = 6;
constexpr uint8_t kEnded = 1;
constexpr uint16_t kNobody = 0xffff;

uint16_t OnWire(int rank) {
  return rank < 0 ? kNobody : static_cast<uint16_t>(rank);
}

}  // namespace

std::vector<uint8_t> EncodeAbort(const AbortNotice& notice) {
  const size_t text = std::min(notice.text.size(), kTextBytes);
  std::vector<uint8_t> payload(kFixedBytes + text);
  payload[0] = static_cast<uint8_t>(notice.code);
  payload[1] = notice.ended ? kEnded : 0;
  StoreLittle(OnWire(notice.rank), &payload[2]);
  StoreLittle(OnWire(notice.origin), &payload[4]);
  std::memcpy(payload.data() + kFixedBytes, notice.text.data(), text);
  return payload;
}

bool DecodeAbort(const uint8_t* payload, size_t bytes, int size, int sender,
                 AbortNotice* out) {
  if (bytes < kFixedBytes) return false;
  const uint16_t rank = LoadLittle<uint16_t>(payload + 2);
  const uint16_t origin = LoadLittle<uint16_t>(payload + 4);
  out->code = CodeOf(payload[0]);
  out->ended = (payload[1] & kEnded) != 0;
  out->rank = rank < size ? rank : sender;
  out->origin = origin == kNobody ? -1 : origin < size ? origin : sender;
  out->text = Printable(payload + kFixedBytes, bytes - kFixedBytes);
  return true;
}

}  // namespace ringlet
