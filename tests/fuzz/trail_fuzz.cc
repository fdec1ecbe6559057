// Fuzz entry: any bytes as a worker's trail, then the same with the right
// checksums, so that what is behind them is reached. Whatever they are, there
// is an error, or lines without control bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/byte_order.h"
#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "io/logs/trail_report.h"

namespace ringlet {
namespace {

void ParseAndDescribe(const std::string& bytes) {
  TrailContent trail;
  const Status status = ParseTrail(bytes, &trail);
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kUnimplemented);
  if (!status.ok()) return;
  const std::string text =
      DescribeTrails({trail, TrailContent(), trail}) + ListTrail(trail);
  for (const char c : text) {
    RINGLET_CHECK(c == '\n' || (c >= 32 && c <= 126));
  }
}

void StoreRightChecksum(std::string* bytes, size_t checksum, size_t begin,
                        size_t end) {
  auto* const at = reinterpret_cast<unsigned char*>(&(*bytes)[0]);
  StoreLittle<uint32_t>(MaskCrc32c(Crc32c(at + begin, end - begin)),
                        at + checksum);
}

void StoreRightChecksums(std::string* bytes, size_t begin, size_t end,
                         size_t record_bytes) {
  end = std::min(end, bytes->size());
  for (size_t at = begin; at + record_bytes <= end; at += record_bytes) {
    const size_t text = static_cast<unsigned char>((*bytes)[at + 5]);
    if ((*bytes)[at + 4] == 0 || 64 + text > record_bytes) continue;
    StoreRightChecksum(bytes, at, at + 4, at + 64 + text);
  }
}

}  // namespace
}  // namespace ringlet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringlet;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  ParseAndDescribe(bytes);
  if (size < kTrailStepsBegin) return 0;
  StoreRightChecksum(&bytes, 8, 12, 24);
  StoreRightChecksums(&bytes, kTrailStepsBegin, kTrailRareBegin,
                      kTrailShortBytes);
  StoreRightChecksums(&bytes, kTrailRareBegin, kTrailBytes, kTrailLongBytes);
  ParseAndDescribe(bytes);
  return 0;
}
