#include "meeting.h"

#include <algorithm>

#include "topology.h"

namespace ringlet {

Meeting::Meeting(int rank, int size, uint32_t proposal)
    : proposal_(proposal),
      links_(LinksOf(rank, size)),
      proposals_(links_.size()) {
  for (int d = 1; d < size && !EveryPair(size); d *= 2) {
    below_.push_back((rank - d + size) % size);
    audience_.push_back((rank + d) % size);
  }
  said_.resize(below_.size());
}

void Meeting::Joined(int peer, uint32_t proposal) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == peer) proposals_[i] = std::max(proposal, 1u);
  }
}

void Meeting::Lost(int peer) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == peer) proposals_[i] = 0;
  }
  Said(peer, Met());
}

void Meeting::Said(int peer, const Met& met) {
  for (size_t k = 0; k < below_.size(); ++k) {
    if (below_[k] == peer) said_[k] = met;
  }
}

Met Meeting::Mine() const {
  Met out;
  out.generation = proposal_;
  for (size_t i = 0; i < links_.size(); ++i) {
    out.generation = std::max(out.generation, proposals_[i]);
    if (proposals_[i] != 0) continue;
    out.missing = links_[i];
    return out;
  }
  out.level = 1;
  for (const Met& said : said_) {
    if (said.level < out.level) {
      out.missing = said.missing;
      return out;
    }
    out.generation = std::max(out.generation, said.generation);
    ++out.level;
  }
  return out;
}

bool Meeting::Deserted(int peer) const {
  for (size_t k = 0; k < below_.size(); ++k) {
    if (below_[k] == peer && said_[k].level <= static_cast<int>(k)) return true;
  }
  return false;
}

}  // namespace ringlet
