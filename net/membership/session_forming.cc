// Forms the ring: dialling and the handshake.
//
// A rank has links with some or all others (topology.h). It dials the lower
// ones of these, and the higher ones dial it. FormationBarrier decides when all
// ranks are connected. A link without an accepted handshake is in the
// PeerTable, with peer -1; a dialled link has its peer from the beginning. A
// rank counts as present only when its link is up.

#include <algorithm>
#include <utility>

#include "session.h"

namespace ringlet {
// Dialling.

void Session::LosePeer(int peer, const std::string& why,
                       const AbortNotice* notice) {
  if (views_.active()) return views_.LosePeer(peer, why, now_);
  detector_.RemovePeer(peer);
  links_.Drop(peer);
  dialer_.Redial(peer, why, now_);
  formation_.RemoveLink(peer);
  if (notice != nullptr) return CheckFormed(notice);
  const Status lost =
      detector_.LossError({peer, Cause::kExited, 0}, why.c_str());
  const AbortNotice exited = {lost.code(), peer, -1, lost.message()};
  CheckFormed(&exited);
}

void Session::OnConnected(FramedLink* link, int64_t now) {
  now_ = now;
  if (state_.withdrawing()) return SendWithdraw(link);
  link->SetPhase(LinkPhase::kAwaitWelcome);
  if (link->is_probe) return SendProbe(link);
  SendIdentity(link, FrameType::kHello, 0,
               link->CanShare() ? kFeatureShares : 0);
}

void Session::OnAccepted(StreamPtr stream, int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  if (!state_.live() && !state_.connecting() && !state_.lingering()) return;
  links_.Accept(std::move(stream), now);
}

// Time.

void Session::TickStart(const FailureDetector::Suspect& suspect) {
  if (suspect.rank >= 0 && suspect.rank != rank_) {
    LosePeer(suspect.rank, "it was connected and became silent");
  }
  ResolveRefusal();
  if (views_.active() && state_.starting()) views_.Tick(now_);
  if (!state_.starting()) return;
  if (views_.active()) {
    const Status wait = views_.CheckWait(now_);
    if (!wait.ok()) return Fail(wait);
  } else {
    missing_.SetMissedByOthers(formation_.missing(), now_);
  }
  if (!views_.active() && now_ >= start_deadline_) {
    return Fail(Error(
        Code::kDeadlineExceeded,
        "rank %d waited %g s for the other workers; missing are %s", rank_,
        options_.start_timeout_seconds, dialer_.MissingText(now_).c_str()));
  }
  for (const int r : links_.linked()) {
    if (r > rank_) break;
    if (dialer_.Due(r, now_)) dialer_.Dial(r, now_);
  }
  ProbeOne();
  Notify(missing_.Due(now_, !views_.active() || !views_.join_pending()));
}

// The handshake.

void Session::SendIdentity(FramedLink* link, FrameType type, uint64_t informed,
                           uint32_t features) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.generation = views_.proposal();
  header.sequence = ProgramVersion();
  header.total = informed;
  header.chunk = features;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  links_.Send(link, header, payload.data());
}

// Sends shared: later frames are in the shared memory.
void Session::SendShared(FramedLink* link) {
  FrameHeader header;
  header.type = FrameType::kShared;
  links_.Send(link, header);
}

Status Session::OnHello(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (state_.withdrawing()) {
    const Status member = CheckMember(identity_, peer);
    if (!member.ok() || peer.rank >= size_ || peer.rank == rank_) return member;
    link->peer = peer.rank;
    SendWithdraw(link);
    return Status();
  }
  if ((header.chunk & kFeatureProbes) != 0) {
    AnswerProbe(link, peer);
    return Status();
  }
  Status fits = CheckPeer(identity_, peer, -1);
  if (fits.ok()) {
    fits = CheckVersion(rank_, ProgramVersion(), peer.rank, header.sequence);
  }
  if (!fits.ok()) {
    RefuseOther(link, peer, fits);
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(views_.CheckProposal(header.generation));
  if (!std::binary_search(links_.linked().begin(), links_.linked().end(),
                          peer.rank) ||
      header.destination != rank_) {
    return Corruption("rank %d, which means rank %d, has no link with rank %d",
                      peer.rank, header.destination, rank_);
  }
  if (!AcceptsHello(peer.rank)) {
    RefuseDuplicate(link, peer);
    return Status();
  }
  links_.Adopt(peer.rank, link);
  const bool shares = (header.chunk & kFeatureShares) != 0 && link->CanShare();
  SendIdentity(link, FrameType::kWelcome, 0, shares ? kFeatureShares : 0);
  if (shares) SendShared(link);
  Join(peer.rank, header.generation);
  return Status();
}

Status Session::OnWelcome(FramedLink* link, const FrameHeader& header,
                          const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (link->is_probe) return Corruption("a welcome to a probe");
  if (state_.withdrawing()) {
    return OnWithdrawalConfirmed(link, header, peer);
  }
  RINGLET_RETURN_IF_ERROR(CheckPeer(identity_, peer, link->peer));
  RINGLET_RETURN_IF_ERROR(
      CheckVersion(rank_, ProgramVersion(), peer.rank, header.sequence));
  RINGLET_RETURN_IF_ERROR(views_.CheckProposal(header.generation));
  const bool shares = (header.chunk & kFeatureShares) != 0;
  if (shares && !link->CanShare()) {
    return Corruption("a welcome to shared memory that was not offered");
  }
  if (shares) {
    SendShared(link);
  } else {
    link->DeclineSharedMemory();
  }
  if (state_.live() || state_.lingering()) {
    Join(link->peer, header.generation);
  } else {  // an error follows the hello
    link->SetPhase(LinkPhase::kUp);
  }
  return Status();
}

void Session::Join(int peer, uint32_t proposal) {
  duplicates_.Forget(peer, now_);
  links_.link(peer)->SetPhase(LinkPhase::kUp);
  dialer_.Reached(peer);
  operations_.DropUnexpected(peer);
  detector_.AddPeer(peer, now_);
  trail_.Note(TrailKind::kJoined, peer);
  if (views_.active()) return views_.AddPeer(peer, proposal, now_);
  formation_.AddLink(peer, proposal);
  CheckFormed();
}

// Reports what has changed, and begins when all ranks are connected.
void Session::CheckFormed(const AbortNotice* lowered) {
  if (!state_.starting()) return;
  if (!formation_.Update(lowered)) return;
  const uint32_t generation = formation_.generation();
  members_.SetFormed(generation);
  links_.SetGeneration(generation);
  detector_.SetGeneration(generation);
  trail_.SetGeneration(generation);
  OnFormed("");
}

void Session::OnFormed(const std::string& line) {
  state_.Set(SessionState::kRunning);
  transport_->TickEvery(detector_.tick_nanos());
  Notify(line.empty() ? missing_.Complete(now_) : line);
  trail_.NoteFormed(members_.workers());
  owner_->OnRunning();
}

Status Session::OnFormationReport(FramedLink* link, const FrameHeader& header,
                                  const uint8_t* payload) {
  const int peer = link->peer;
  FormationReport report;
  RINGLET_RETURN_IF_ERROR(formation_.Decode(peer, header, payload, &report));
  if (!state_.live()) return Status();
  if (!report.lowered) {
    const Status lost = detector_.LossError({peer, Cause::kLeft, 0}, "");
    report.why = {lost.code(), peer, -1, lost.message()};
  }
  formation_.SetReport(peer, report);
  if (state_.starting()) {
    CheckFormed(&report.why);
  } else if (formation_.HasDeparted(peer)) {
    FailAsReported(peer, report.why);
  } else if (formation_.InOther(report, generation())) {
    Lose({peer, Cause::kLeft, 0}, "it is in another ring");
  }
  return Status();
}

// Views.

void Session::OnNewView() {
  trail_.SetGeneration(ViewCount(members_.generation()));
  if (members_.count() > 0) operations_.Reset();
}

void Session::OnMemberAbsent(int member) {
  Lose({member, Cause::kLeft, 0}, "it takes no part in this view");
}

void Session::OnJoiner(bool waits) {
  if (waits) trail_.Note(TrailKind::kJoinerWaits);
  owner_->OnJoiner(waits);
}

bool Session::AcceptsHello(int peer) const {
  // A member that left may have connected again, and then belongs to no view.
  const bool join_pending = state_.keeps_outside_links() &&
                            (!members_.has(peer) || members_.left(peer));
  return (state_.starting() || join_pending || state_.lingering()) &&
         links_.link(peer) == nullptr;
}

}  // namespace ringlet
