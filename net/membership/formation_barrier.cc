#include "formation_barrier.h"

#include <algorithm>

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

}  // namespace ringlet
