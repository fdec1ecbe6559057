// Who is turned away, when a refusal ends a wait, and withdrawal.
//
// Anybody can connect and claim anything, so what a refusal may end is limited:
// only while the ring forms for the first time, and only by TCP, where an
// address vouches a little for who speaks; whoever has taken the name of a
// local socket does not keep two workers apart.

#include <algorithm>
#include <cstring>

#include "session.h"
#include "socket_address.h"

namespace ringlet {
namespace {

// A kWelcome's header has a bit for each of these ranks.
constexpr int kMostToldRanks = 64;

}  // namespace

// Says why and closes; remembered for the message about who is missing.
void Session::Reject(FramedLink* link, const Status& why, bool final,
                     bool quiet) {
  const std::string line =
      roll_.Refused(link->stream().remote(), why.message(), now_, quiet);
  FrameHeader header;
  header.type = FrameType::kReject;
  header.sequence = final ? static_cast<uint64_t>(why.code()) : 0;
  header.payload_bytes = static_cast<uint32_t>(
      std::min<size_t>(std::strlen(why.message()), kTextBytes));
  SendTo(link, header, reinterpret_cast<const uint8_t*>(why.message()), false);
  DropUnauthenticated(link);
  Say(line);
}

// This worker was refused.
Status Session::OnReject(FramedLink* link, const FrameHeader& header,
                         const uint8_t* payload) {
  const std::string text = Printable(payload, header.payload_bytes);
  const Status why =
      Error(Code::kUnavailable, "it refused this worker: %s", text.c_str());
  if (state_ != State::kStarting || link->stream().is_local()) return why;
  const int peer = link->peer;
  if (header.sequence == 0) {
    Say(roll_.RefusedBy(peer, text, now_));
    return why;
  }
  Fail(Error(CodeOf(header.sequence), "rank %d (%s) refused this worker: %s",
             peer, address(peer), text.c_str()));
  return Status();
}

// Two that wait for each other and differ wait in vain, and so does one that
// comes back to those who run without it. Here as there the last word is by
// TCP, which the other tries after a local socket.
void Session::RefuseOther(FramedLink* link, const Identity& peer,
                          const Status& why) {
  const bool of_this_job = peer.job == identity_.job;
  const bool waits = (state_ == State::kStarting || serves()) &&
                     peer.rank < size_ && Missing(peer.rank) && of_this_job &&
                     !link->stream().is_local();
  if (!waits) return Reject(link, why, /*final=*/false);
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (state_ != State::kStarting || !first_time()) return;
  if (CheckMember(identity_, peer).ok()) return Fail(why);
  // Anybody may have another list: one of this job comes from where its rank
  // is.
  refusal_ = {why, from, peer.rank};
  JudgeRefusal();
}

void Session::JudgeRefusal() {
  if (refusal_.peer < 0) return;
  bool done = false;
  std::vector<Endpoint> endpoints;  // none where the lookup fails
  transport_->Resolve(refusal_.peer, &done, &endpoints).IgnoreError();
  if (!done) return;
  refusal_.peer = -1;
  const bool member = std::any_of(
      endpoints.begin(), endpoints.end(), [&](const Endpoint& endpoint) {
        return SameHost(refusal_.from, endpoint.address);
      });
  if (member) Fail(refusal_.why);
}

// The place is taken; by one that died unnoticed just now, or by a second
// worker of that index, which is still here when the first would have been
// missed. Only where the first is still heard are there two: this worker may
// have stood still itself, or have lost the first and not formed a ring since.
void Session::RefuseRival(FramedLink* link, const Identity& peer) {
  Peer& p = peers_[peer.rank];
  if (p.rival != peer.incarnation) {
    p.rival = peer.incarnation;
    p.rival_since = now_;
  }
  const bool both_live = static_cast<double>(now_ - p.rival_since) >
                             2e9 * options_.timeout_seconds &&
                         detector_.Hears(peer.rank, now_);
  Reject(link,
         Error(Code::kAlreadyExists,
               "rank %d is already part of the running job \"%s\": two workers "
               "have the same index, or one came back",
               peer.rank, options_.job.c_str()),
         both_live);
}

// The first was not heard while this worker stood still, nor missed.
void Session::ExcuseRivals() {
  if (detector_.HeldUp(now_).rank < 0) return;
  for (Peer& p : peers_) p.rival_since = now_;
}

// Nothing else of what it says can be read.
void Session::RefuseVersion(FramedLink* link, const Status& why) {
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (state_ != State::kStarting || !first_time()) return;
  for (int r = 0; r < size_; ++r) {
    Address host;
    sockaddr_storage numeric;
    if (!Missing(r) || !ParseAddress(options_.addresses[r], &host).ok() ||
        !NumericAddress(host, &numeric).ok()) {
      continue;
    }
    if (SameHost(from, numeric)) {
      return Fail(InvalidArgument("a worker on the host of rank %d (%s): %s", r,
                                  address(r), why.message()));
    }
  }
}

// Withdrawal.

void Session::TickWithdrawal() {
  bool all = true;
  for (const int r : links_) {
    const Peer& p = peers_[r];
    if (p.told) continue;
    all = false;
    if (p.link == nullptr && p.candidates.Due(now_)) Dial(r);
  }
  if (all || now_ >= start_deadline_) owner_->OnTold();
}

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
  if (known && (meets() || serves()) && Missing(peer)) {
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
// that of a rank that is still waited for, or may come to those who run.
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
  if (!first_time() || serves()) {
    roll_.Trouble(peer,
                  std::string("it cannot take part: ") + reason.message());
    Say(roll_.Refused(link->stream().remote(), why.message(), now_));
    return Error(Code::kUnavailable, "%s", why.message());  // of the link
  }
  told_by_other_ = true;
  AbortNotice notice;
  notice.rank = peer;
  notice.text = why.message();
  NoteTold(peer, notice);
  Fail(why);
  return Status();
}

}  // namespace ringlet
