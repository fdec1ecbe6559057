// The effects of frames, and the end of a link.
//
// Order matters at an end. All frames that a peer sent before its goodbye or
// abort have been read by then. So Advance is called first, and may complete
// operations. Only then is the peer gone.

#include <utility>

#include "../collective/topology.h"
#include "../wire/abort.h"
#include "session.h"

namespace ringlet {
void Session::OnSent(FramedLink*, uint64_t sequence) {
  operations_.OnSent(sequence);
}

// Receiving.

void Session::OnHeard(FramedLink* link, int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  if (link->up()) detector_.RecordHeard(link->peer, now);
}

Status Session::OnHeader(FramedLink* link, const FrameHeader& header,
                         ReceiveTarget* receive_target) {
  receive_target->mode = ReceiveTarget::kBuffer;
  link->skips_frame = false;
  if (!link->up()) return Status();
  if (header.source != link->peer || header.destination != rank_) {
    return Corruption("a frame from rank %d to rank %d came from rank %d",
                      header.source, header.destination, link->peer);
  }
  if (members_.IsStale(link->peer, header, state_.lingering())) {
    link->skips_frame = true;
    receive_target->mode = ReceiveTarget::kDiscard;
    return Status();
  }
  if (!IsOperation(header.type) && header.type != FrameType::kReady)
    return Status();
  receive_target->mode = ReceiveTarget::kDiscard;
  if (!state_.live()) return Status();
  const Status status =
      operations_.OnHeader(link->peer, header, receive_target);
  if (status.code() == Code::kInvalidArgument)
    receive_target->mode = ReceiveTarget::kDiscard;
  return FailIfCallsDiffer(status);
}

// Differing calls are no protocol error. The link stays, so that the abort can
// be sent.
Status Session::FailIfCallsDiffer(const Status& status) {
  if (status.code() != Code::kInvalidArgument) return status;
  Fail(status);
  return Status();
}

Status Session::OnFrame(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  // The ring may have changed between the frame's header and its end. A skipped
  // frame has no payload.
  if (link->up() &&
      (link->skips_frame ||
       members_.IsStale(link->peer, header, state_.lingering()))) {
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
      RINGLET_RETURN_IF_ERROR(
          DecodeHeartbeat(header, payload, size_, &activity,
                          fully_connected_ ? nullptr : &end));
      detector_.OnHeartbeat(link->peer, activity, now_, end);
      return Status();
    }
    case FrameType::kFormationReport:
      return OnFormationReport(link, header, payload);
    case FrameType::kView:
      return views_.OnFrame(link->peer, header, payload, now_);
    case FrameType::kGoodbye:
      OnGoodbye(link, header.sequence);
      return Status();
    case FrameType::kAbort:
      OnAbort(link, payload, header.payload_bytes);
      return Status();
    default:
      break;
  }
  if (!state_.live()) return Status();
  return FailIfCallsDiffer(operations_.OnFrame(link->peer, header, payload));
}

void Session::OnTurn(FramedLink* link, int64_t now) {
  now_ = now;
  if (link->unfinished()) transport_->RequestTurn();
  if (link->phase() == LinkPhase::kLeft && link->drained()) {
    links_.Drop(link->peer);
  }
  Advance();
  CheckDelivered();
  CheckLeft();
}

// Ends.

void Session::OnGoodbye(FramedLink* link, uint64_t completed) {
  Advance();
  if (link->closed()) return;
  const int peer = link->peer;
  if (state_.starting()) {
    return LosePeer(peer, "it was connected and aborted");
  }
  const bool join_pending = state_.running() && !members_.has(peer);
  if (join_pending || state_.lingering()) return LosePeer(peer, "");
  trail_.Note(TrailKind::kLeft, peer);
  members_.SetLeft(peer);
  detector_.RemovePeer(peer);
  link->SetPhase(LinkPhase::kLeft);
  // completed == 0: the peer left before its ring had formed. Its process may
  // connect again and wait for this rank, so this rank's ring has ended.
  // `needed`: the peer left within an operation, and the frames that wait for
  // it may be of that operation. Otherwise they are heartbeats.
  const bool needed = operations_.NeedFrom(completed) && !link->drained();
  if (state_.running() && (completed == 0 || needed)) {
    operations_.UpdateActivity(now_);
    return Lose({peer, Cause::kLeft, 0}, "");
  }
  // The peer reads no more, and waits until this end is closed.
  if (!state_.leaving() || link->drained()) {
    links_.Drop(peer);
  }
}

void Session::OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes) {
  Advance();
  AbortNotice notice;
  const int peer = link->peer;
  members_.SetAborted(peer);
  const bool joining = state_.running() && !members_.has(peer);
  if (!state_.live() || joining ||
      !DecodeAbort(payload, bytes, size_, peer, &notice)) {
    return;
  }
  const std::string& text = notice.text;
  if (state_.starting() && notice.code == Code::kPeerLost) {
    // The peer's ring ended before this rank's had formed. Both form the next
    // one.
    return LosePeer(peer, "it was connected and lost another", &notice);
  }
  if (state_.starting() && !state_.first_time() &&
      IsPermanent(Error(notice.code, "%s", text.c_str()))) {
    return LosePeer(peer, "it was connected and failed: " + text, &notice);
  }
  FailAsReported(peer, notice);
}

// A connection that ends without a goodbye means an ended process. There are
// three exceptions: the peer is not in this view yet, has this worker's
// goodbye, or has sent an abort.
void Session::RecordProcessEnd(int peer) {
  const bool ran = state_.running() || state_.failed() ||
                   (state_.leaving() && trail_.noted_end());
  if (ran && operations_.completed() > 0) members_.SetEnded(peer);
}

AbortNotice Session::NoticeOf(const Status& status, int origin) const {
  const int lost = origin < 0 ? status.rank() : -1;
  const bool ended = lost >= 0 && members_.ended(lost);
  return {status.code(), status.rank(), origin, status.message(), ended};
}

void Session::NoteReported(int reporter, const AbortNotice& notice) {
  if (!state_.live()) return;
  operations_.UpdateActivity(now_);
  trail_.NoteReported(reporter, notice, detector_, now_);
}

// In a large ring several ranks may send the report. The first one counts.
void Session::FailAsReported(int peer, const AbortNotice& notice) {
  NoteReported(peer, notice);
  // Fail closes this worker's own link to the lost rank before its end is seen.
  // So the end is recorded here.
  if (notice.ended && notice.rank != rank_) RecordProcessEnd(notice.rank);
  reported_by_other_ = true;
  constexpr char kReportedBy[] = " (reported by rank ";
  std::string message = notice.text;
  if (notice.origin < 0 && message.find(kReportedBy) == std::string::npos) {
    message += kReportedBy + std::to_string(members_.shown_rank(peer)) + ")";
  }
  Fail(notice.code == Code::kPeerLost
           ? PeerLost(notice.rank, "%s", message.c_str())
           : Error(notice.code, "%s", message.c_str()),
       notice.origin);
}

void Session::OnDown(FramedLink* link, Cause cause, const Status& why,
                     int64_t now) {
  now_ = now;
  const int peer = link->peer;
  if (link->is_probe) return ProbeEnded(link, cause, why);
  const bool other_version =
      cause == Cause::kProtocol && why.code() == Code::kUnimplemented;
  if (peer < 0 || links_.link(peer) != link) {
    if (other_version) return RefuseVersion(link, why);
    if (cause != Cause::kProtocol) return links_.DropUnauthenticated(link);
    return Reject(link, why, /*final=*/false, /*quiet=*/true);
  }
  const bool up = link->up();
  const bool by_tcp = !link->stream().is_local();
  if (up && cause == Cause::kExited) RecordProcessEnd(peer);
  // A running member gets the reason. Without it the closed connection would
  // look like this process's end.
  const bool gets_reason = up && cause == Cause::kProtocol &&
                           members_.has(peer) && state_.running() &&
                           detector_.SelfStalled(now_).rank < 0;
  if (!gets_reason) {
    detector_.RemovePeer(peer);
    links_.Drop(peer);
  }
  if (state_.starting() && state_.first_time() && !up && by_tcp &&
      other_version) {
    Fail(InvalidArgument("rank %d (%s): %s", peer, address(peer),
                         why.message()));
  } else {
    const bool turned_away =
        !up && by_tcp && cause == Cause::kExited && options_.keys == nullptr;
    OnMemberLinkLost(peer, up, cause,
                     turned_away
                         ? why.Annotate("it may have a key (RINGLET_KEY_FILE), "
                                        "and this worker has none")
                         : why);
  }
  CheckDelivered();
  CheckLeft();
}

void Session::OnMemberLinkLost(int peer, bool was_up, Cause cause,
                               const Status& why) {
  if (state_.connecting() && !was_up) {
    dialer_.Redial(peer, why.message(), now_);
  } else if (state_.connecting()) {
    const Status lost = detector_.LossError({peer, cause, 0}, why.message());
    const AbortNotice notice = {lost.code(), peer, -1, lost.message()};
    LosePeer(peer, "it was connected and its connection ended", &notice);
  } else if ((state_.running() && !members_.has(peer)) || state_.lingering()) {
    LosePeer(peer, why.message());
  } else if (state_.running() && was_up) {
    operations_.UpdateActivity(now_);
    const FailureDetector::Suspect self = detector_.SelfStalled(now_);
    if (self.rank >= 0) {
      Lose(self, "");
    } else {
      Lose({peer, cause, 0}, why.message());
    }
  }
}

}  // namespace ringlet
