// Fuzz entry: any bytes as a worker's trail. Whatever they are, there is an
// error, or lines without control bytes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "io/events/trail_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringlet;
  TrailContent trail;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const Status status = ParseTrail(bytes, &trail);
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kUnimplemented);
  if (!status.ok()) return 0;
  const std::string text =
      DescribeTrails({trail, TrailContent(), trail}) + ListTrail(trail);
  for (const char c : text) {
    RINGLET_CHECK(c == '\n' || (c >= 32 && c <= 126));
  }
  return 0;
}
