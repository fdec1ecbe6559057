// How the workers of a ring meet: dialling and the handshake.
//
// Of those that it is to be linked with (topology.h) a rank dials all lower
// ones and is dialled by all higher ones; Meeting says when all ranks have met.
// A link without a handshake that was accepted is in unauthenticated_, with
// peer -1; a dialled one is its peer's from the beginning. Each has
// kHandshakeSeconds, or by a relay the timeout, and only a link that is up
// counts as the rank's being there.

#include <algorithm>
#include <utility>

#include "../../core/base/check.h"
#include "session.h"
#include "topology.h"

namespace ringlet {
namespace {

// In a large ring all others may come at once.
constexpr size_t kMostUnauthenticated = 16;

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
  // One that is back waits for half a timeout, and then goes on alone.
  const int64_t pause = timeout() / 4;
  const std::string known = peers_[peer].candidates.Failed(
      why, now_, agreement_ == nullptr ? INT64_MAX : pause);
  if (!why.empty()) roll_.Trouble(peer, known);
  roll_.Lost(peer, now_);
  if (peers_[peer].candidates.empty()) peers_[peer].dial_at = now_ + pause;
}

void Session::LoseAndRedial(int peer, const std::string& why) {
  const Status lost = detector_.Lost({peer, Cause::kExited, 0}, why.c_str());
  LoseAndRedial(peer, why, {lost.code(), peer, -1, lost.message()});
}

void Session::LoseAndRedial(int peer, const std::string& why,
                            const AbortNotice& notice) {
  detector_.Gone(peer);
  DropLink(&peers_[peer].link);
  Redial(peer, why);
  Fall(peer, notice);
}

void Session::OnConnected(FramedLink* link, int64_t now) {
  now_ = now;
  if (state_ == State::kWithdrawing) return SendWithdraw(link);
  link->SetPhase(LinkPhase::kAwaitWelcome);
  SendIdentity(link, FrameType::kHello, 0,
               link->CanShare() ? kFeatureShares : 0);
}

void Session::OnAccepted(StreamPtr stream, int64_t now) {
  now_ = now;
  dropped_.clear();
  if (!live() && !meets() && !stands()) return;
  const size_t most = std::max(kMostUnauthenticated, peers_.size());
  if (unauthenticated_.size() >= most) DropStranger();
  FramedLink::Owner* owner = this;
  unauthenticated_.push_back(std::make_unique<FramedLink>(
      std::move(stream), LinkPhase::kAwaitHello, owner));
  unauthenticated_.back()->opened_at = now;
}

// The oldest that has not shown a key: it had its chance.
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
    LoseAndRedial(suspect.rank, "it was there and fell silent");
  }
  JudgeRefusal();
  if (agreement_ != nullptr && state_ == State::kStarting) TickViews();
  if (state_ != State::kStarting) return;
  if (agreement_ == nullptr) roll_.Elsewhere(meeting_.Mine().missing, now_);
  if (agreement_ != nullptr && WaitIsOver()) return Fail(TooFew());
  if (agreement_ == nullptr && now_ >= start_deadline_) {
    return Fail(Error(
        Code::kDeadlineExceeded,
        "rank %d waited %g s for the other workers; missing are %s", rank_,
        options_.start_timeout_seconds, roll_.Missing(now_).c_str()));
  }
  for (const int r : links_) {
    const Peer& p = peers_[r];
    if (r > rank_ || state_ != State::kStarting) break;
    if (p.link == nullptr && p.candidates.Due(now_)) Dial(r);
  }
  Say(roll_.Due(now_, agreement_ == nullptr || !agreement_->visits()));
}

// By a relay a handshake takes ten ways to it, and may wait for the other.
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

void Session::SendIdentity(FramedLink* link, FrameType type, uint64_t told,
                           uint32_t features) {
  const std::vector<uint8_t> payload = EncodeIdentity(identity_);
  FrameHeader header;
  header.type = type;
  header.total = told;
  header.chunk = features;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  SendTo(link, header, payload.data(), false);
}

// From the next frame on.
void Session::Share(FramedLink* link) {
  FrameHeader header;
  header.type = FrameType::kShared;
  SendTo(link, header, nullptr, false);
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
  RINGLET_RETURN_IF_ERROR(CheckProposal(header));
  if (!std::binary_search(links_.begin(), links_.end(), peer.rank) ||
      header.destination != rank_) {
    return Corruption("rank %d, which means rank %d, has no link with rank %d",
                      peer.rank, header.destination, rank_);
  }
  Peer& p = peers_[peer.rank];
  if (!Welcomes(peer.rank)) {
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
  const bool shares = (header.chunk & kFeatureShares) != 0 && link->CanShare();
  SendIdentity(link, FrameType::kWelcome, 0, shares ? kFeatureShares : 0);
  if (shares) Share(link);
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
  RINGLET_RETURN_IF_ERROR(CheckProposal(header));
  const bool shares = (header.chunk & kFeatureShares) != 0;
  if (shares && !link->CanShare()) {
    return Corruption("a welcome to memory that nobody offered");
  }
  if (shares) {
    Share(link);
  } else {
    link->ShareNothing();
  }
  if (live() || stands()) {
    Join(link->peer, header.generation);
  } else {  // it was told of an error behind the hello
    link->SetPhase(LinkPhase::kUp);
  }
  return Status();
}

void Session::Join(int peer, uint32_t proposal) {
  Peer& p = peers_[peer];
  p.proposal = proposal;
  p.rival = 0;  // it may have been refused before, as one that came back
  p.rival_since = now_;
  p.link->SetPhase(LinkPhase::kUp);
  p.candidates.Reached();
  if (member(peer)) schedule_.Replaced(rank_of_[peer]);
  detector_.Joined(peer, now_);
  roll_.Came(peer);
  Note(TrailKind::kJoined, peer);
  if (agreement_ != nullptr) {
    p.failed = false;
    gone_ &= ~(uint64_t{1} << peer);
    if (state_ != State::kStarting) came_ |= uint64_t{1} << peer;
    agreement_->Joined(peer, proposal, now_);
    return Agree();
  }
  meeting_.Joined(peer, proposal);
  for (const int r : meeting_.audience()) {
    if (r == peer) TellMet(r, told_);
  }
  CheckFormed();
}

void Session::TellMet(int peer, const Met& met) {
  const std::vector<uint8_t> payload = EncodeMet(met);
  FrameHeader header;
  header.type = FrameType::kMet;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  Send(peer, header, payload.data(), false);
}

void Session::TellMet(const Met& met) {
  for (const int r : meeting_.audience()) TellMet(r, met);
  told_ = met;
  told_.fell = false;
}

void Session::Fall(int peer, const AbortNotice& why) {
  if (agreement_ != nullptr) {
    agreement_->Lost(peer, now_);
    return Agree();
  }
  meeting_.Lost(peer);
  CheckFormed(&why);
}

// Tells what has changed, and begins where all have met.
void Session::CheckFormed(const AbortNotice* fell) {
  if (state_ != State::kStarting) return;
  Met met = meeting_.Mine();
  met.fell = fell != nullptr && met.level < told_.level;
  if (met.fell) met.why = *fell;
  // Who is missing may change often, and waits for the next heartbeat.
  if (met.level != told_.level || met.generation != told_.generation) {
    TellMet(met);
  }
  if (!meeting_.complete()) return;
  generation_ = met.generation;
  detector_.SetGeneration(generation_);
  state_ = State::kRunning;
  transport_->TickEvery(detector_.tick_nanos());
  Say(roll_.Complete(now_));
  NoteFormed();
  owner_->OnRunning();
}

Status Session::OnMet(FramedLink* link, const FrameHeader& header,
                      const uint8_t* payload) {
  const int peer = link->peer;
  Met met;
  RINGLET_RETURN_IF_ERROR(
      DecodeMet(payload, header.payload_bytes, size_, peer, &met));
  if (every_pair_ || met.level > meeting_.highest()) {
    return Corruption("a met frame of level %d", met.level);
  }
  if (!live()) return Status();
  if (!met.fell) {
    const Status lost = detector_.Lost({peer, Cause::kLeft, 0}, "");
    met.why = {lost.code(), peer, -1, lost.message()};
  }
  meeting_.Said(peer, met);
  if (state_ == State::kStarting) {
    CheckFormed(&met.why);
  } else if (meeting_.Deserted(peer)) {
    FailAsTold(peer, met.why);
  } else if (met.level == meeting_.highest() && met.generation != generation_) {
    Lose({peer, Cause::kLeft, 0}, "it is in another ring");
  }
  return Status();
}

}  // namespace ringlet
