#include "ring_members.h"

#include <numeric>

namespace ringlet {

RingMembers::RingMembers(int size, bool elastic)
    : elastic_(elastic), workers_(static_cast<size_t>(size)) {
  std::iota(workers_.begin(), workers_.end(), 0);
  ranks_ = workers_;
}

void RingMembers::SetView(const View& view) {
  generation_ = view.generation;
  workers_.clear();
  for (size_t w = 0; w < ranks_.size(); ++w) {
    const bool member = view.has(static_cast<int>(w));
    ranks_[w] = member ? count() : -1;
    if (member) workers_.push_back(static_cast<int>(w));
  }
}

Status RingMembers::ForCaller(const Status& status) const {
  if (!elastic_ || status.code() != Code::kPeerLost) return status;
  const int worker = status.rank();
  const bool known = worker >= 0 && worker < static_cast<int>(ranks_.size());
  return PeerLost(known ? rank(worker) : -1, "%s", status.message());
}

Status RingMembers::FromCaller(const Status& status) const {
  if (!elastic_ || status.code() != Code::kPeerLost) return status;
  const bool known = status.rank() >= 0 && status.rank() < count();
  return PeerLost(known ? worker(status.rank()) : -1, "%s", status.message());
}

void RingMembers::SetEnded(int worker) {
  any_ended_ = true;
  ended_ |= Bit(worker);
}

void RingMembers::SetConnected(int worker, bool joins) {
  ended_ &= ~Bit(worker);
  if (joins) joining_ |= Bit(worker);
}

uint64_t RingMembers::remaining_workers() const {
  if (!any_ended_) return 0;
  uint64_t members = 0;
  for (const int w : workers_) members |= Bit(w);
  return (members & ~ended_) | joining_;
}

}  // namespace ringlet
