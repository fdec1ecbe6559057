#include "formation_report.h"

#include "frame.h"

namespace ringlet {
namespace {

constexpr size_t kFormationReportFixedBytes = 8;

}  // namespace

std::vector<uint8_t> EncodeFormationReport(const FormationReport& report) {
  std::vector<uint8_t> out(kFormationReportFixedBytes);
  out[0] = static_cast<uint8_t>(report.level);
  StoreLittle(WorkerOnWire(report.missing), &out[2]);
  StoreLittle(report.generation, &out[4]);
  if (!report.lowered) return out;
  const std::vector<uint8_t> why = EncodeAbort(report.why);
  out.insert(out.end(), why.begin(), why.end());
  return out;
}

Status DecodeFormationReport(const uint8_t* payload, size_t bytes, int size,
                             int sender, FormationReport* out) {
  if (bytes < kFormationReportFixedBytes) {
    return Corruption("a formation report of %zu bytes, less than %zu", bytes,
                      kFormationReportFixedBytes);
  }
  const uint16_t missing = LoadLittle<uint16_t>(payload + 2);
  if (payload[1] != 0 || (missing != kNoWorker && missing >= size)) {
    return Corruption(
        "an invalid formation report: byte 1 is %d, and worker %d of %d is "
        "missing",
        int{payload[1]}, int{missing}, size);
  }
  out->level = payload[0];
  out->missing = missing == kNoWorker ? -1 : missing;
  out->generation = LoadLittle<uint32_t>(payload + 4);
  out->lowered =
      DecodeAbort(payload + kFormationReportFixedBytes,
                  bytes - kFormationReportFixedBytes, size, sender, &out->why);
  return Status();
}

}  // namespace ringlet
