#include "ring_members.h"

#include <numeric>

namespace ringlet {

RingMembers::RingMembers(int size, bool elastic)
    : elastic_(elastic),
      workers_(static_cast<size_t>(size)),
      left_(static_cast<size_t>(size)),
      aborted_(static_cast<size_t>(size)) {
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

bool RingMembers::IsStale(int worker, const FrameHeader& header,
                          bool lingering) const {
  const bool operation =
      IsOperation(header.type) || header.type == FrameType::kReady;
  const bool member = is_member(worker);
  if (elastic_ && (operation || lingering || !member)) {
    return operation && !(member && header.generation == generation_);
  }
  return header.type != FrameType::kView && formed_ != 0 &&
         header.generation != formed_ && (header.generation != 0 || operation);
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
  const size_t w = static_cast<size_t>(worker);
  if (!elastic_ || !is_member(worker) || left_[w] || aborted_[w]) return;
  any_ended_ = true;
  ended_ |= Bit(worker);
}

void RingMembers::SetConnected(int worker, bool joins) {
  aborted_[static_cast<size_t>(worker)] = false;
  ended_ &= ~Bit(worker);
  if (joins) joining_ |= Bit(worker);
}

uint64_t RingMembers::remaining_workers() const {
  if (!any_ended_ || left_behind_) return 0;
  uint64_t members = 0;
  for (const int w : workers_) members |= Bit(w);
  return (members & ~ended_) | joining_;
}

}  // namespace ringlet
