// Forms the ring: dialling and the handshake.
//
// A rank has links with some or all others (topology.h). It dials the lower
// ones of these, and the higher ones dial it. FormationBarrier decides when all
// ranks are connected. A link without an accepted handshake is in
// unauthenticated_, with peer -1; a dialled link has its peer from the
// beginning. A handshake has kHandshakeSeconds or, through a relay, at least
// the timeout. A rank counts as present only when its link is up.

#include <algorithm>
#include <utility>

#include "../../core/base/check.h"
#include "../collective/topology.h"
#include "session.h"

namespace ringlet {
namespace {

// In a large ring all others may connect at the same time.
constexpr size_t kMaxUnauthenticated = 16;

}  // namespace

// Dialling.

void Session::Dial(int peer) {
  Peer& p = peers_[peer];
  if (p.endpoints.empty()) {
    bool done = false;
    std::vector<Endpoint> endpoints;
    const Status found = transport_->Resolve(peer, &done, &endpoints);
    if (!done) return missing_.SetReason(peer, found.message());
    if (!found.ok()) return Redial(peer, found.message());
    p.endpoints.Found(std::move(endpoints));
  }
  Endpoint endpoint;
  while (p.link == nullptr && p.endpoints.Next(&endpoint)) {
    StreamPtr stream;
    const Status status = transport_->Connect(peer, endpoint, &stream);
    if (!status.ok()) {
      Redial(peer, endpoint.local ? "" : status.message());
      continue;
    }
    FramedLink::Owner* owner = this;
    p.link = std::make_unique<FramedLink>(std::move(stream),
                                          LinkPhase::kConnecting, owner);
    p.link->peer = peer;
    p.link->opened_at = now_;
    if (p.link->open()) OnConnected(p.link.get(), now_);
  }
}

void Session::Redial(int peer, const std::string& why) {
  // A restarted worker waits for half a timeout, and then continues alone.
  const int64_t pause = timeout() / 4;
  const std::string known = peers_[peer].endpoints.Failed(
      why, now_, agreement_ == nullptr ? INT64_MAX : pause);
  if (!why.empty()) missing_.SetReason(peer, known);
  missing_.MarkMissing(peer, now_);
  if (peers_[peer].endpoints.empty()) peers_[peer].dial_at = now_ + pause;
}

void Session::LoseAndRedial(int peer, const std::string& why) {
  const Status lost =
      detector_.LossError({peer, Cause::kExited, 0}, why.c_str());
  LoseAndRedial(peer, why, {lost.code(), peer, -1, lost.message()});
}

void Session::LoseAndRedial(int peer, const std::string& why,
                            const AbortNotice& notice) {
  detector_.RemovePeer(peer);
  DropLink(&peers_[peer].link);
  Redial(peer, why);
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
  dropped_.clear();
  if (!state_.live() && !state_.connecting() && !state_.lingering()) return;
  const size_t most = std::max(kMaxUnauthenticated, peers_.size());
  if (unauthenticated_.size() >= most) DropStranger();
  FramedLink::Owner* owner = this;
  unauthenticated_.push_back(std::make_unique<FramedLink>(
      std::move(stream), LinkPhase::kAwaitHello, owner));
  unauthenticated_.back()->opened_at = now;
}

// Drops the oldest connection that has not shown a key.
void Session::DropStranger() {
  const auto stranger =
      std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                   [](const auto& link) { return !link->open(); });
  const auto which =
      stranger != unauthenticated_.end() ? stranger : unauthenticated_.begin();
  DropUnauthenticated(which->get());
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
    return Fail(
        Error(Code::kDeadlineExceeded,
              "rank %d waited %g s for the other workers; missing are %s%s",
              rank_, options_.start_timeout_seconds,
              missing_.Missing(now_).c_str(), UnreachableText().c_str()));
  }
  for (const int r : links_) {
    const Peer& p = peers_[r];
    if (r > rank_ || !state_.starting()) break;
    if (p.link == nullptr && p.endpoints.Due(now_)) Dial(r);
  }
  ProbeOne();
  Notify(
      missing_.Due(now_, agreement_ == nullptr || !agreement_->join_pending()));
}

// Returns the end of a message about missing workers: why they may not reach
// this worker, or "".
std::string Session::UnreachableText() const {
  const Status why = transport_->WhyUnreachable();
  return why.ok() ? "" : std::string("; ") + why.message();
}

// Through a relay a handshake takes ten latencies to it, and may wait for the
// other worker.
void Session::ExpireHandshakes() {
  const int64_t least = static_cast<int64_t>(kHandshakeSeconds * 1e9);
  const int64_t limit =
      options_.relay.empty() ? least : std::max(least, timeout());
  while (!unauthenticated_.empty() &&  // the oldest first
         now_ - unauthenticated_.front()->opened_at > limit) {
    DropUnauthenticated(unauthenticated_.front().get());
  }
  for (const int r : links_) {
    Peer& p = peers_[r];
    if (p.link == nullptr || now_ - p.link->opened_at <= limit) continue;
    const LinkPhase phase = p.link->phase();
    if (phase != LinkPhase::kConnecting && phase != LinkPhase::kAwaitWelcome) {
      continue;
    }
    DropLink(&p.link);
    Redial(r, phase == LinkPhase::kAwaitWelcome
                  ? "something listens there and does not answer"
              : !options_.relay.empty()
                  ? "it is not at the relay, or has another key, list of "
                    "workers or name of the job"
              : options_.keys != nullptr
                  ? "no answer from its host, or none to this worker's key"
                  : "no answer from its host");
  }
}

// The handshake.

void Session::SendIdentity(FramedLink* link, FrameType type, uint64_t informed,
                           uint32_t features) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.sequence = ProgramVersion();
  header.total = informed;
  header.chunk = features;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

// Sends shared: later frames are in the shared memory.
void Session::SendShared(FramedLink* link) {
  FrameHeader header;
  header.type = FrameType::kShared;
  SendTo(link, header, nullptr, false);
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
  if (!std::binary_search(links_.begin(), links_.end(), peer.rank) ||
      header.destination != rank_) {
    return Corruption("rank %d, which means rank %d, has no link with rank %d",
                      peer.rank, header.destination, rank_);
  }
  Peer& p = peers_[peer.rank];
  if (!AcceptsHello(peer.rank)) {
    RefuseDuplicate(link, peer);
    return Status();
  }
  for (auto it = unauthenticated_.begin(); it != unauthenticated_.end(); ++it) {
    if (it->get() != link) continue;
    p.link = std::move(*it);
    unauthenticated_.erase(it);
    break;
  }
  RINGLET_CHECK(p.link.get() == link);
  link->peer = peer.rank;
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
  Peer& p = peers_[peer];
  duplicates_.Forget(peer, now_);
  p.link->SetPhase(LinkPhase::kUp);
  p.endpoints.Reached();
  if (members_.has(peer)) schedule_.DropUnexpected(members_.rank(peer));
  detector_.AddPeer(peer, now_);
  missing_.MarkConnected(peer);
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
  Send(peer, header, payload.data(), false);
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
