// How the workers of a ring meet: dialling, the handshake, withdrawal.
//
// A rank dials all lower ones and is dialled by all higher ones. A link without
// a handshake that was accepted is in unauthenticated_, with peer -1; a dialled
// one is its peer's from the beginning. Each has kHandshakeSeconds, and only a
// link that is up counts as the rank's being there.

#include <algorithm>
#include <utility>

#include "session.h"

namespace ringlet {
namespace {

// In a large ring all others may come at once.
constexpr size_t kMostUnauthenticated = 16;
// A kWelcome's header has a bit for each of these ranks.
constexpr int kMostToldRanks = 64;

}  // namespace

// Dialling.

void Session::Dial(int peer) {
  Peer& p = peers_[peer];
  if (p.candidates.empty()) {
    bool done = false;
    std::vector<Endpoint> endpoints;
    const Status found = transport_->Resolve(peer, &done, &endpoints);
    if (!done) return roll_.Trouble(peer, found.message());
    if (!found.ok()) return Redial(peer, found.message());
    p.candidates.Found(std::move(endpoints));
  }
  Endpoint endpoint;
  while (p.link == nullptr && p.candidates.Next(&endpoint)) {
    StreamPtr stream;
    const Status status = transport_->Connect(endpoint, &stream);
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
  const std::string known = peers_[peer].candidates.Failed(why, now_);
  if (!why.empty()) roll_.Trouble(peer, known);
  roll_.Lost(peer, now_);
}

void Session::LoseAndRedial(int peer, const std::string& why) {
  detector_.Gone(peer);
  DropLink(&peers_[peer].link);
  Redial(peer, why);
}

void Session::OnConnected(FramedLink* link, int64_t now) {
  now_ = now;
  if (state_ == State::kWithdrawing) return SendWithdraw(link);
  link->SetPhase(LinkPhase::kAwaitWelcome);
  SendIdentity(link, FrameType::kHello);
}

void Session::OnAccepted(StreamPtr stream, int64_t now) {
  now_ = now;
  dropped_.clear();
  if (!live() && !meets()) return;
  const size_t most = std::max(kMostUnauthenticated, peers_.size());
  if (unauthenticated_.size() >= most) {
    DropUnauthenticated(unauthenticated_.front().get());  // it had its chance
  }
  FramedLink::Owner* owner = this;
  unauthenticated_.push_back(std::make_unique<FramedLink>(
      std::move(stream), LinkPhase::kAwaitHello, owner));
  unauthenticated_.back()->opened_at = now;
}

// Time.

void Session::TickStart(const FailureDetector::Suspect& suspect) {
  if (suspect.rank >= 0 && suspect.rank != rank_) {
    LoseAndRedial(suspect.rank, "it was there and fell silent");
  }
  JudgeRefusal();
  if (state_ != State::kStarting) return;
  if (now_ >= start_deadline_) {
    return Fail(Error(
        Code::kDeadlineExceeded,
        "rank %d waited %g s for the other workers; missing are %s", rank_,
        options_.start_timeout_seconds, roll_.Missing(now_).c_str()));
  }
  for (int r = 0; r < rank_ && state_ == State::kStarting; ++r) {
    const Peer& p = peers_[r];
    if (p.link == nullptr && p.candidates.Due(now_)) Dial(r);
  }
  Say(roll_.Due(now_));
}

void Session::TickWithdrawal() {
  bool all = true;
  for (int r = 0; r < size_; ++r) {
    const Peer& p = peers_[r];
    if (r == rank_ || p.told) continue;
    all = false;
    if (p.link == nullptr && p.candidates.Due(now_)) Dial(r);
  }
  if (all || now_ >= start_deadline_) owner_->OnTold();
}

void Session::ExpireHandshakes() {
  const int64_t limit = static_cast<int64_t>(kHandshakeSeconds * 1e9);
  while (!unauthenticated_.empty() &&  // the oldest first
         now_ - unauthenticated_.front()->opened_at > limit) {
    DropUnauthenticated(unauthenticated_.front().get());
  }
  for (int r = 0; r < size_; ++r) {
    Peer& p = peers_[r];
    if (p.link == nullptr || now_ - p.link->opened_at <= limit) continue;
    const LinkPhase phase = p.link->phase();
    if (phase != LinkPhase::kConnecting && phase != LinkPhase::kAwaitWelcome) {
      continue;
    }
    DropLink(&p.link);
    Redial(r, phase == LinkPhase::kAwaitWelcome
                  ? "something listens there and does not answer"
                  : "no answer from its host");
  }
}

// The handshake.

void Session::SendIdentity(FramedLink* link, FrameType type, uint64_t told) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.total = told;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

Status Session::OnHello(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (state_ == State::kWithdrawing) {
    const Status member = CheckMember(identity_, peer);
    if (!member.ok() || peer.rank >= size_ || peer.rank == rank_) return member;
    link->peer = peer.rank;
    SendWithdraw(link);
    return Status();
  }
  const Status fits = CheckPeer(identity_, peer, -1);
  if (!fits.ok()) {
    RefuseOther(link, peer, fits);
    return Status();
  }
  Peer& p = peers_[peer.rank];
  if (state_ != State::kStarting || p.link != nullptr) {
    RefuseRival(link, peer);
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
  SendIdentity(link, FrameType::kWelcome);
  Join(peer.rank, header.generation);
  return Status();
}

Status Session::OnWelcome(FramedLink* link, const FrameHeader& header,
                          const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (state_ == State::kWithdrawing) {
    return HeardOfWithdrawal(link, header, peer);
  }
  RINGLET_RETURN_IF_ERROR(CheckPeer(identity_, peer, link->peer));
  Join(link->peer, header.generation);
  return Status();
}

void Session::Join(int peer, uint32_t proposal) {
  Peer& p = peers_[peer];
  p.proposal = proposal;
  p.rival = 0;  // it may have been refused before, as one that came back
  p.rival_since = now_;
  p.link->SetPhase(LinkPhase::kUp);
  p.candidates.Reached();
  schedule_.Replaced(peer);
  detector_.Joined(peer, now_);
  roll_.Came(peer);
  CheckFormed();
}

void Session::CheckFormed() {
  if (state_ != State::kStarting) return;
  for (int r = 0; r < size_; ++r) {
    if (Missing(r)) return;
  }
  // All ranks have the same proposals at hand: one for each pair of links.
  generation_ = proposal_;
  for (const Peer& p : peers_) {
    generation_ = std::max(generation_, p.proposal);
  }
  detector_.SetGeneration(generation_);
  state_ = State::kRunning;
  transport_->TickEvery(detector_.tick_nanos());
  Say(roll_.Complete(now_));
  owner_->OnRunning();
}

// Withdrawal.

void Session::SendWithdraw(FramedLink* link) {
  link->SetPhase(LinkPhase::kAwaitWelcome);
  const std::vector<uint8_t> payload = EncodeWithdraw({identity_, withdrawal_});
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

Status Session::HeardOfWithdrawal(FramedLink* link, const FrameHeader& header,
                                  const Identity& peer) {
  RINGLET_RETURN_IF_ERROR(CheckMember(identity_, peer));
  if (peer.rank != link->peer) return Corruption("another rank's answer");
  peers_[peer.rank].told = true;
  for (int r = 0; r < std::min(size_, kMostToldRanks); ++r) {
    if ((header.total >> r & 1) != 0) peers_[r].told = true;
  }
  if (peers_[peer.rank].link.get() == link) DropLink(&peers_[peer.rank].link);
  return Status();
}

// Of a worker that has the place of nobody who is there: believed as far as a
// kHello in that name would be.
Status Session::OnWithdraw(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload) {
  Withdraw withdraw;
  RINGLET_RETURN_IF_ERROR(
      DecodeWithdraw(payload, header.payload_bytes, &withdraw));
  const int peer = withdraw.identity.rank;
  const Status member = CheckMember(identity_, withdraw.identity);
  const bool asked = link->phase() == LinkPhase::kAwaitWelcome;
  const bool known = member.ok() && peer != rank_ && peer < size_ &&
                     (!asked || peer == link->peer);
  if (asked && !known) return Corruption("a withdrawal of another worker");
  if (known && meets() && Missing(peer)) {
    const Status why = Withdrawn(link, peer, withdraw.reason);
    return asked ? why : Status();
  }
  const Status why =
      member.ok() ? InvalidArgument("rank %d has a worker here already", peer)
                  : member;
  Reject(link, why, /*final=*/false);
  return Status();
}

// Answers; then this worker's wait ends too, where it is the first. An error is
// that of a rank that is still waited for.
Status Session::Withdrawn(FramedLink* link, int peer, const Status& reason) {
  uint64_t told = 0;  // by Fail
  for (int r = 0; first_time() && r < std::min(size_, kMostToldRanks); ++r) {
    if (r != rank_ && !Missing(r)) told |= uint64_t{1} << r;
  }
  SendIdentity(link, FrameType::kWelcome, told);
  if (state_ == State::kWithdrawing) {
    peers_[peer].told = true;
    return Status();
  }
  const Status why =
      reason.Annotate("rank %d (%s) cannot take part", peer, address(peer));
  if (!first_time()) {
    roll_.Trouble(peer,
                  std::string("it cannot take part: ") + reason.message());
    Say(roll_.Refused(link->stream().remote(), why.message(), now_));
    return why;
  }
  told_by_other_ = true;
  Fail(why);
  return Status();
}

}  // namespace ringlet
