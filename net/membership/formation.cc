#include "formation.h"

#include <vector>

namespace ringlet {

Formation::Formation(int rank, int size, uint32_t proposal,
                     bool fully_connected, PeerTable* links)
    : size_(size),
      fully_connected_(fully_connected),
      links_(links),
      barrier_(rank, size, proposal) {}

void Formation::AddLink(int peer, uint32_t proposal) {
  barrier_.AddLink(peer, proposal);
  for (const int r : barrier_.receivers()) {
    if (r == peer) SendTo(r, sent_);
  }
}

Status Formation::Decode(int peer, const FrameHeader& header,
                         const uint8_t* payload, FormationReport* out) const {
  RINGLET_RETURN_IF_ERROR(
      DecodeFormationReport(payload, header.payload_bytes, size_, peer, out));
  if (fully_connected_ || out->level > barrier_.highest()) {
    return Corruption("a formation report of level %d; the highest here is %d",
                      out->level, fully_connected_ ? 0 : barrier_.highest());
  }
  return Status();
}

bool Formation::Update(const AbortNotice* lowered) {
  FormationReport report = barrier_.OwnReport();
  report.lowered = lowered != nullptr && report.level < sent_.level;
  if (report.lowered) report.why = *lowered;
  if (report.level != sent_.level || report.generation != sent_.generation) {
    SendToAll(report);
  }
  return barrier_.complete();
}

void Formation::UpdateMissing() {
  if (fully_connected_) return;
  const FormationReport report = barrier_.OwnReport();
  if (report.missing != sent_.missing) SendToAll(report);
}

void Formation::SendTo(int peer, const FormationReport& report) {
  const std::vector<uint8_t> payload = EncodeFormationReport(report);
  FrameHeader header;
  header.type = FrameType::kFormationReport;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  links_->Send(peer, header, payload.data());
}

void Formation::SendToAll(const FormationReport& report) {
  for (const int r : barrier_.receivers()) SendTo(r, report);
  sent_ = report;
  sent_.lowered = false;
}

}  // namespace ringlet
