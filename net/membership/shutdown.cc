#include "shutdown.h"

#include <vector>

namespace ringlet {

void Shutdown::SendAbort(const AbortNotice& notice, bool ran, bool notifies) {
  const std::vector<uint8_t> payload = EncodeAbort(notice);
  FrameHeader header;
  header.type = FrameType::kAbort;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  for (const int r : links_->linked()) {
    FramedLink* const link = links_->link(r);
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (ran && !members_->is_member(r)) {
      if (!state_->lingering()) links_->Drop(r);
      continue;
    }
    // A greeted peer may count this worker as a member already. Without the
    // message it would see a connection that ended for no reason.
    const bool greeted = link->phase() == LinkPhase::kAwaitWelcome;
    if (!link->up() && !(notifies && greeted)) {
      if (link->phase() != LinkPhase::kLeft) links_->Drop(r);
      continue;
    }
    if (notifies) links_->Send(link, header, payload.data());
    if (r != notice.worker || notice.origin >= 0) continue;
    detector_->RemovePeer(r);
    links_->Drop(r);
  }
}

bool Shutdown::TakeDeliveredEvent() {
  if (!delivering_ || !links_->drained()) return false;
  delivering_ = false;
  return true;
}

void Shutdown::SendGoodbye(uint64_t completed, int64_t deadline) {
  leaving_ = true;
  deadline_ = deadline;
  links_->DropUnauthenticated(INT64_MAX);
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.sequence = completed;
  for (const int r : links_->linked()) {
    FramedLink* const link = links_->link(r);
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (link->up()) {
      links_->Send(link, goodbye);
    } else if (link->phase() != LinkPhase::kLeft || link->drained()) {
      links_->Drop(r);
    }
  }
}

void Shutdown::Tick(int64_t now) {
  if (now < deadline_) return;
  for (const int r : links_->linked()) links_->Drop(r);
}

bool Shutdown::TakeLeftEvent() {
  if (!leaving_ || !links_->empty()) return false;
  leaving_ = false;
  return true;
}

}  // namespace ringlet
