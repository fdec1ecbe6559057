// What frames do, and how a link ends.
//
// Order matters at an end: whatever a peer sent before its goodbye or abort has
// been read by then, so Advance comes first and may complete operations; only
// then is the peer gone.

#include <utility>

#include "../wire/abort.h"
#include "session.h"
#include "topology.h"

namespace ringlet {
namespace {

constexpr uint16_t kNobody = 0xffff;

}  // namespace

// Sending.

void Session::SendTo(FramedLink* link, FrameHeader header,
                     const uint8_t* payload, bool borrowed) {
  const bool greets =
      header.type == FrameType::kHello || header.type == FrameType::kWelcome;
  const uint32_t proposal =
      agreement_ == nullptr ? proposal_ : agreement_->next_count();
  header.generation = greets ? proposal : generation_;
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

bool Session::HasRoom(int rank) const {
  const FramedLink* link = peers_[workers_[rank]].link.get();
  return link != nullptr && link->up() && link->has_room() &&
         !link->turn_over();
}

// A full queue says itself when the stream has taken of it (OnTurn).
void Session::AwaitRoom(int rank) {
  const FramedLink* link = peers_[workers_[rank]].link.get();
  if (link != nullptr && link->turn_over()) transport_->AwaitTurn();
}

void Session::Send(int rank, const FrameHeader& header, const uint8_t* payload,
                   bool borrowed) {
  FramedLink* link = peers_[workers_[rank]].link.get();
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
  link->skips = false;
  if (!link->up()) return Status();
  if (header.source != link->peer || header.destination != rank_) {
    return Corruption("a frame from rank %d to rank %d came from rank %d",
                      header.source, header.destination, link->peer);
  }
  if (stale(link->peer, header)) {
    link->skips = true;
    landing->mode = Landing::kSkip;
    return Status();
  }
  if (!IsData(header.type) && header.type != FrameType::kReady) return Status();
  landing->mode = Landing::kSkip;
  if (!live()) return Status();
  const Status status =
      schedule_.OnHeader(rank_of_[link->peer], header, landing);
  if (status.code() == Code::kInvalidArgument) landing->mode = Landing::kSkip;
  return FailWhereCallsDiffer(status);
}

// The peer means well then: its link stays, to be told.
Status Session::FailWhereCallsDiffer(const Status& status) {
  if (status.code() != Code::kInvalidArgument) return status;
  Fail(status);
  return Status();
}

Status Session::OnFrame(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  // Its ring may have ended, or begun, between its header and its end: what was
  // skipped has no payload.
  if (link->up() && (link->skips || stale(link->peer, header))) {
    return Status();
  }
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
      ChainEnd end;
      RINGLET_RETURN_IF_ERROR(DecodeHeartbeat(header, payload, size_, &activity,
                                              every_pair_ ? nullptr : &end));
      detector_.Beat(link->peer, activity, now_, end);
      return Status();
    }
    case FrameType::kMet:
      return OnMet(link, header, payload);
    case FrameType::kView:
      return OnView(link, header, payload);
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
  return FailWhereCallsDiffer(
      schedule_.OnFrame(rank_of_[link->peer], header, payload));
}

void Session::OnTurn(FramedLink* link, int64_t now) {
  now_ = now;
  if (link->unfinished()) transport_->AwaitTurn();
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
  const bool visits = state_ == State::kRunning && !member(peer);
  if (visits || stands()) return LoseVisitor(peer, "");
  Note(TrailKind::kLeft, peer);
  peers_[peer].left = true;
  detector_.Gone(peer);
  link->SetPhase(LinkPhase::kLeft);
  // Without the first operation, the barrier of the start, its ring has never
  // formed. It may come back and wait for this rank, which therefore cannot
  // stay in a ring with the one that it was.
  // What waits for it may be a heartbeat: it needs that only of an operation in
  // which it takes no part any more.
  const bool needed =
      !schedule_.idle() && schedule_.started() > completed && !link->drained();
  if (state_ == State::kRunning && (completed == 0 || needed)) {
    UpdateActivity();
    return Lose({peer, Cause::kLeft, 0}, "");
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
  peers_[peer].failed = true;
  const bool visitor = state_ == State::kRunning && !member(peer);
  if (!live() || visitor ||
      !DecodeAbort(payload, bytes, size_, peer, &notice)) {
    return;
  }
  const std::string& text = notice.text;
  if (state_ == State::kStarting && notice.code == Code::kPeerLost) {
    // Its ring has ended before this one's began: both form the next.
    return LoseAndRedial(peer, "it was there and lost another", notice);
  }
  if (state_ == State::kStarting && !first_time() &&
      IsPermanent(Error(notice.code, "%s", text.c_str()))) {
    return LoseAndRedial(peer, "it was there and failed: " + text, notice);
  }
  FailAsTold(peer, notice);
}

AbortNotice Session::NoticeOf(const Status& status, int origin) const {
  const int lost = origin < 0 ? status.rank() : -1;
  const bool ended = lost >= 0 && gone(lost);
  return {status.code(), status.rank(), origin, status.message(), ended};
}

// In a large ring the news may come by many hands: the first is told.
void Session::FailAsTold(int peer, const AbortNotice& notice) {
  NoteTold(peer, notice);
  // Its own link to that one ends here before it can tell.
  if (notice.ended && notice.rank != rank_) NoteGone(notice.rank);
  told_by_other_ = true;
  constexpr char kTold[] = " (told by rank ";
  std::string said = notice.text;
  if (notice.origin < 0 && said.find(kTold) == std::string::npos) {
    said += kTold + std::to_string(RankOf(peer)) + ")";
  }
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
  if (up && cause == Cause::kExited) NoteGone(peer);
  // A member that lives is told why, or its end would look like this process's.
  const bool told = up && cause == Cause::kProtocol && member(peer) &&
                    state_ == State::kRunning &&
                    detector_.HeldUp(now_).rank < 0;
  if (!told) {
    detector_.Gone(peer);
    DropLink(&peers_[peer].link);
  }
  if (state_ == State::kStarting && !up && by_tcp && other_version) {
    Fail(InvalidArgument("rank %d (%s): %s", peer, address(peer),
                         why.message()));
  } else {
    const bool turned_away =
        !up && by_tcp && cause == Cause::kExited && options_.keys == nullptr;
    MemberDown(peer, up, cause,
               turned_away
                   ? why.Annotate("it may have a key (RINGLET_KEY_FILE), "
                                  "and this worker has none")
                   : why);
  }
  CheckTold();
  CheckLeft();
}

void Session::MemberDown(int peer, bool was_up, Cause cause,
                         const Status& why) {
  if (meets()) {
    Redial(peer,
           was_up ? "it was there and its connection ended" : why.message());
    if (!was_up) return;
    const Status lost = detector_.Lost({peer, cause, 0}, why.message());
    Fall(peer, {lost.code(), peer, -1, lost.message()});
  } else if ((state_ == State::kRunning && !member(peer)) || stands()) {
    LoseVisitor(peer, why.message());
  } else if (state_ == State::kRunning && was_up) {
    UpdateActivity();
    const FailureDetector::Suspect self = detector_.HeldUp(now_);
    if (self.rank >= 0) {
      Lose(self, "");
    } else {
      Lose({peer, cause, 0}, why.message());
    }
  }
}

}  // namespace ringlet
