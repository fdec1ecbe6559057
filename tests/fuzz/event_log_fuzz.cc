// Fuzz entry: any bytes as a worker's event log, beside a right one. Whatever
// they are, the report has lines without control bytes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "io/logs/event_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringlet;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const EventLogContent log = ParseEventLog(bytes);
  std::string text =
      DescribeEventLogs({log, ParseEventLog(""), ParseEventLog(bytes)});
  for (const EventRecord& record : log.records) text += record.line;
  for (const char c : text) {
    RINGLET_CHECK(c == '\n' || (c >= 32 && c <= 126));
  }
  return 0;
}
