#include "met.h"

#include "frame.h"

namespace ringlet {
namespace {

constexpr size_t kFixedBytes = 8;
constexpr uint16_t kNobody = 0xffff;

}  // namespace

std::vector<uint8_t> EncodeMet(const Met& met) {
  std::vector<uint8_t> out(kFixedBytes);
  out[0] = static_cast<uint8_t>(met.level);
  StoreLittle(met.missing < 0 ? kNobody : static_cast<uint16_t>(met.missing),
              &out[2]);
  StoreLittle(met.generation, &out[4]);
  if (!met.fell) return out;
  const std::vector<uint8_t> why = EncodeAbort(met.why);
  out.insert(out.end(), why.begin(), why.end());
  return out;
}

Status DecodeMet(const uint8_t* payload, size_t bytes, int size, int sender,
                 Met* out) {
  const uint16_t missing =
      bytes < kFixedBytes ? 0 : LoadLittle<uint16_t>(payload + 2);
  if (bytes < kFixedBytes || payload[1] != 0 ||
      (missing != kNobody && missing >= size)) {
    return Corruption("a met frame that makes no sense");
  }
  out->level = payload[0];
  out->missing = missing == kNobody ? -1 : missing;
  out->generation = LoadLittle<uint32_t>(payload + 4);
  out->fell = DecodeAbort(payload + kFixedBytes, bytes - kFixedBytes, size,
                          sender, &out->why);
  return Status();
}

}  // namespace ringlet
