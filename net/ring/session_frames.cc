// What frames do, and how a link ends.
//
// Order matters at an end: whatever a peer sent before its goodbye or abort has
// been read by then, so Advance comes first and may complete operations; only
// then is the peer gone.

#include <utility>

#include "../wire/abort.h"
#include "session.h"

namespace ringlet {
namespace {

constexpr uint16_t kNobody = 0xffff;

}  // namespace

// Sending.

void Session::SendTo(FramedLink* link, FrameHeader header,
                     const uint8_t* payload, bool borrowed) {
  const bool greets =
      header.type == FrameType::kHello || header.type == FrameType::kWelcome;
  header.generation = greets ? proposal_ : generation_;
  header.source = static_cast<uint16_t>(rank_);
  header.destination =
      link->peer < 0 ? kNobody : static_cast<uint16_t>(link->peer);
  if (header.type != FrameType::kHeartbeat) header.step = step_;
  if (borrowed) {
    link->SendBorrowed(header, payload);
  } else {
    link->Send(header, payload);
  }
}

bool Session::HasRoom(int peer) const {
  const FramedLink* link = peers_[peer].link.get();
  return link != nullptr && link->up() && link->has_room() &&
         !link->turn_over();
}

// A full queue says itself when the stream has taken of it (OnTurn).
void Session::AwaitRoom(int peer) {
  const FramedLink* link = peers_[peer].link.get();
  if (link != nullptr && link->turn_over()) transport_->AwaitTurn();
}

void Session::Send(int peer, const FrameHeader& header, const uint8_t* payload,
                   bool borrowed) {
  FramedLink* link = peers_[peer].link.get();
  if (link != nullptr && link->up()) SendTo(link, header, payload, borrowed);
}

void Session::OnSent(FramedLink*, uint64_t sequence) {
  schedule_.OnSent(sequence);
}

// Receiving.

void Session::OnHeard(FramedLink* link, int64_t now) {
  now_ = now;
  dropped_.clear();
  if (link->up()) detector_.Heard(link->peer, now);
}

Status Session::OnHeader(FramedLink* link, const FrameHeader& header,
                         Landing* landing) {
  landing->mode = Landing::kKeep;
  if (!link->up()) return Status();
  if (header.source != link->peer || header.destination != rank_) {
    return Corruption("a frame from rank %d to rank %d came from rank %d",
                      header.source, header.destination, link->peer);
  }
  if (stale(header)) {
    landing->mode = Landing::kSkip;
    return Status();
  }
  if (!IsData(header.type) && header.type != FrameType::kReady) return Status();
  landing->mode = Landing::kSkip;
  if (!live()) return Status();
  const Status status = schedule_.OnHeader(link->peer, header, landing);
  if (status.code() != Code::kInvalidArgument) return status;
  landing->mode = Landing::kSkip;  // the peer means well; the calls differ
  Fail(status);
  return Status();
}

Status Session::OnFrame(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  if (link->up() && stale(header)) return Status();
  switch (header.type) {
    case FrameType::kHello:
      return OnHello(link, header, payload);
    case FrameType::kWelcome:
      return OnWelcome(link, header, payload);
    case FrameType::kReject:
      return OnReject(link, header, payload);
    case FrameType::kWithdraw:
      return OnWithdraw(link, header, payload);
    case FrameType::kHeartbeat: {
      Activity activity;
      RINGLET_RETURN_IF_ERROR(
          DecodeHeartbeat(header, payload, size_, &activity));
      detector_.Beat(link->peer, activity, now_);
      return Status();
    }
    case FrameType::kGoodbye:
      OnGoodbye(link, header.sequence);
      return Status();
    case FrameType::kAbort:
      OnAbort(link, payload, header.payload_bytes);
      return Status();
    default:
      break;
  }
  if (!live()) return Status();
  return schedule_.OnFrame(link->peer, header, payload);
}

void Session::OnTurn(FramedLink* link, int64_t now) {
  now_ = now;
  if (link->phase() == LinkPhase::kLeft && link->drained()) {
    DropLink(&peers_[link->peer].link);
  }
  Advance();
  CheckTold();
  CheckLeft();
}

// Ends.

void Session::OnGoodbye(FramedLink* link, uint64_t completed) {
  Advance();
  if (link->closed()) return;
  const int peer = link->peer;
  if (state_ == State::kStarting) {
    return LoseAndRedial(peer, "it was there and gave up");
  }
  peers_[peer].left = true;
  detector_.Gone(peer);
  link->SetPhase(LinkPhase::kLeft);
  // Without the first operation, the barrier of the start, its ring has never
  // formed. It may come back and wait for this rank, which therefore cannot
  // stay in a ring with the one that it was.
  const bool needed = !schedule_.idle() && !link->drained();
  if (state_ == State::kRunning && (completed == 0 || needed)) {
    UpdateActivity();
    return Fail(detector_.Lost({peer, Cause::kLeft, 0}, ""));
  }
  // It reads no more, and waits for this end to be closed.
  if (state_ != State::kLeaving || link->drained()) {
    DropLink(&peers_[peer].link);
  }
}

void Session::OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes) {
  Advance();
  AbortNotice notice;
  const int peer = link->peer;
  if (!live() || !DecodeAbort(payload, bytes, size_, peer, &notice)) return;
  const std::string& text = notice.text;
  if (state_ == State::kStarting && notice.code == Code::kPeerLost) {
    // Its ring has ended before this one's began: both form the next.
    return LoseAndRedial(peer, "it was there and lost another");
  }
  if (state_ == State::kStarting && !first_time() &&
      IsPermanent(Error(notice.code, "%s", text.c_str()))) {
    return LoseAndRedial(peer, "it was there and failed: " + text);
  }
  told_by_other_ = true;
  const std::string said = notice.origin >= 0 ? text
                                              : text + " (told by rank " +
                                                    std::to_string(peer) + ")";
  Fail(notice.code == Code::kPeerLost
           ? PeerLost(notice.rank, "%s", said.c_str())
           : Error(notice.code, "%s", said.c_str()),
       notice.origin);
}

void Session::OnDown(FramedLink* link, Cause cause, const Status& why,
                     int64_t now) {
  now_ = now;
  const int peer = link->peer;
  const bool other_version =
      cause == Cause::kProtocol && why.code() == Code::kUnimplemented;
  if (peer < 0 || peers_[peer].link.get() != link) {
    if (other_version) return RefuseVersion(link, why);
    if (cause != Cause::kProtocol) return DropUnauthenticated(link);
    return Reject(link, why, /*final=*/false, /*quiet=*/true);
  }
  const bool up = link->up();
  const bool by_tcp = !link->stream().is_local();
  detector_.Gone(peer);
  DropLink(&peers_[peer].link);
  if (state_ == State::kStarting && !up && by_tcp && other_version) {
    Fail(InvalidArgument("rank %d (%s): %s", peer, address(peer),
                         why.message()));
  } else {
    MemberDown(peer, up, cause, why);
  }
  CheckTold();
  CheckLeft();
}

void Session::MemberDown(int peer, bool was_up, Cause cause,
                         const Status& why) {
  if (meets()) {
    Redial(peer,
           was_up ? "it was there and its connection ended" : why.message());
  } else if (state_ == State::kRunning && was_up) {
    UpdateActivity();
    const FailureDetector::Suspect self = detector_.HeldUp(now_);
    Fail(self.rank >= 0 ? detector_.Lost(self, "")
                        : detector_.Lost({peer, cause, 0}, why.message()));
  }
}

}  // namespace ringlet
