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

void Session::LoseAndRedial(int peer, const std::string& why) {
  const Status lost =
      detector_.LossError({peer, Cause::kExited, 0}, why.c_str());
  LoseAndRedial(peer, why, {lost.code(), peer, -1, lost.message()});
}

void Session::LoseAndRedial(int peer, const std::string& why,
                            const AbortNotice& notice) {
  detector_.RemovePeer(peer);
  links_.Drop(peer);
  dialer_.Redial(peer, why, now_);
  HandlePeerLost(peer, notice);
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
    LoseAndRedial(suspect.rank, "it was connected and became silent");
  }
  ResolveRefusal();
  if (agreement_ != nullptr && state_.starting()) TickViews();
  if (!state_.starting()) return;
  if (agreement_ == nullptr)
    missing_.SetMissedByOthers(barrier_.OwnReport().missing, now_);
  if (agreement_ != nullptr && WaitIsOver()) return Fail(TooFewWorkersError());
  if (agreement_ == nullptr && now_ >= start_deadline_) {
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
  Notify(
      missing_.Due(now_, agreement_ == nullptr || !agreement_->join_pending()));
}

// The handshake.

void Session::SendIdentity(FramedLink* link, FrameType type, uint64_t informed,
                           uint32_t features) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.generation = proposal();
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
  RINGLET_RETURN_IF_ERROR(CheckProposal(header));
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
  RINGLET_RETURN_IF_ERROR(CheckProposal(header));
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
  if (agreement_ != nullptr) {
    members_.SetConnected(peer, /*joins=*/!state_.starting());
    agreement_->AddPeer(peer, proposal, now_);
    return ApplyAgreement();
  }
  barrier_.AddLink(peer, proposal);
  for (const int r : barrier_.receivers()) {
    if (r == peer) SendFormationReport(r, sent_report_);
  }
  CheckFormed();
}

void Session::SendFormationReport(int peer, const FormationReport& report) {
  const std::vector<uint8_t> payload = EncodeFormationReport(report);
  FrameHeader header;
  header.type = FrameType::kFormationReport;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  links_.Send(peer, header, payload.data());
}

void Session::SendFormationReport(const FormationReport& report) {
  for (const int r : barrier_.receivers()) SendFormationReport(r, report);
  sent_report_ = report;
  sent_report_.lowered = false;
}

void Session::HandlePeerLost(int peer, const AbortNotice& why) {
  if (agreement_ != nullptr) {
    agreement_->RemovePeer(peer, now_);
    return ApplyAgreement();
  }
  barrier_.RemoveLink(peer);
  CheckFormed(&why);
}

// Reports what has changed, and begins when all ranks are connected.
void Session::CheckFormed(const AbortNotice* lowered) {
  if (!state_.starting()) return;
  FormationReport report = barrier_.OwnReport();
  report.lowered = lowered != nullptr && report.level < sent_report_.level;
  if (report.lowered) report.why = *lowered;
  // The missing rank may change often, and is sent with the next heartbeat.
  if (report.level != sent_report_.level ||
      report.generation != sent_report_.generation) {
    SendFormationReport(report);
  }
  if (!barrier_.complete()) return;
  members_.SetFormed(report.generation);
  links_.SetGeneration(report.generation);
  detector_.SetGeneration(report.generation);
  trail_.SetGeneration(report.generation);
  state_.Set(SessionState::kRunning);
  transport_->TickEvery(detector_.tick_nanos());
  Notify(missing_.Complete(now_));
  trail_.NoteFormed(members_.workers());
  owner_->OnRunning();
}

Status Session::OnFormationReport(FramedLink* link, const FrameHeader& header,
                                  const uint8_t* payload) {
  const int peer = link->peer;
  FormationReport report;
  RINGLET_RETURN_IF_ERROR(DecodeFormationReport(payload, header.payload_bytes,
                                                size_, peer, &report));
  if (fully_connected_ || report.level > barrier_.highest()) {
    return Corruption("a formation report of level %d", report.level);
  }
  if (!state_.live()) return Status();
  if (!report.lowered) {
    const Status lost = detector_.LossError({peer, Cause::kLeft, 0}, "");
    report.why = {lost.code(), peer, -1, lost.message()};
  }
  barrier_.SetReport(peer, report);
  if (state_.starting()) {
    CheckFormed(&report.why);
  } else if (barrier_.HasDeparted(peer)) {
    FailAsReported(peer, report.why);
  } else if (report.level == barrier_.highest() &&
             report.generation != generation()) {
    Lose({peer, Cause::kLeft, 0}, "it is in another ring");
  }
  return Status();
}

}  // namespace ringlet
