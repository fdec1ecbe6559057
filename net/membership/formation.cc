#include "formation.h"

#include <algorithm>
#include <vector>

#include "../collective/topology.h"

namespace ringlet {

FormationBarrier::FormationBarrier(int rank, int size, uint32_t proposal)
    : proposal_(proposal),
      links_(LinksOf(rank, size)),
      proposals_(links_.size()) {
  for (int d = 1; d < size && !IsFullyConnected(size); d *= 2) {
    below_.push_back((rank - d + size) % size);
    receivers_.push_back((rank + d) % size);
  }
  reports_.resize(below_.size());
}

void FormationBarrier::AddLink(int peer, uint32_t proposal) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == peer) proposals_[i] = std::max(proposal, 1u);
  }
}

void FormationBarrier::RemoveLink(int peer) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == peer) proposals_[i] = 0;
  }
  SetReport(peer, FormationReport());
}

void FormationBarrier::SetReport(int peer, const FormationReport& report) {
  for (size_t k = 0; k < below_.size(); ++k) {
    if (below_[k] == peer) reports_[k] = report;
  }
}

FormationReport FormationBarrier::OwnReport() const {
  FormationReport out;
  out.generation = proposal_;
  for (size_t i = 0; i < links_.size(); ++i) {
    out.generation = std::max(out.generation, proposals_[i]);
    if (proposals_[i] != 0) continue;
    out.missing = links_[i];
    return out;
  }
  out.level = 1;
  for (const FormationReport& report : reports_) {
    if (report.level < out.level) {
      out.missing = report.missing;
      return out;
    }
    out.generation = std::max(out.generation, report.generation);
    ++out.level;
  }
  return out;
}

bool FormationBarrier::HasDeparted(int peer) const {
  for (size_t k = 0; k < below_.size(); ++k) {
    if (below_[k] == peer && reports_[k].level <= static_cast<int>(k))
      return true;
  }
  return false;
}

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
