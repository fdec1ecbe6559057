// Refused peers, when a refusal ends a wait, and withdrawal.
//
// Any program can connect and send false claims, so a refusal has limited
// effect. It counts only while the ring forms for the first time, and only over
// TCP, where the address is some evidence of the sender. So a program that has
// taken the name of a local socket cannot separate two workers.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "../transport/socket_address.h"
#include "session.h"

namespace ringlet {
namespace {

// A kWelcome's header has a bit for each of these ranks.
constexpr int kMaxInformedRanks = 64;

}  // namespace

// Sends the reason and closes. The reason goes into the message about missing
// ranks.
void Session::Reject(FramedLink* link, const Status& why, bool final,
                     bool quiet) {
  const std::string line =
      missing_.Refused(link->stream().remote(), why.message(), now_, quiet);
  FrameHeader header;
  header.type = FrameType::kReject;
  header.sequence = final ? static_cast<uint64_t>(why.code()) : 0;
  header.payload_bytes = static_cast<uint32_t>(
      std::min<size_t>(std::strlen(why.message()), kTextBytes));
  links_.Send(link, header, reinterpret_cast<const uint8_t*>(why.message()));
  links_.DropUnauthenticated(link);
  Notify(line);
}

// This worker was refused.
Status Session::OnReject(FramedLink* link, const FrameHeader& header,
                         const uint8_t* payload) {
  const std::string text = Printable(payload, header.payload_bytes);
  const Status why =
      Error(Code::kUnavailable, "it refused this worker: %s", text.c_str());
  if (link->is_probe) {
    missing_.SetReason(link->peer, why.message());
    links_.DropUnauthenticated(link);
    return Status();
  }
  if (!state_.starting() || link->stream().is_local()) return why;
  const int peer = link->peer;
  // Later this worker holds a trained state, and waits for another in the
  // peer's place.
  if (header.sequence == 0 || !state_.first_time()) {
    Notify(missing_.RefusedBy(peer, text, now_));
    return why;
  }
  Fail(Error(CodeOf(header.sequence), "rank %d (%s) refused this worker: %s",
             peer, address(peer), text.c_str()));
  return Status();
}

// Workers with different options can never form a ring, so both waits end. The
// same is true of a worker that rejoins a job with other options. Only a
// refusal over TCP counts. After a refusal over a local socket the peer tries
// TCP.
void Session::RefuseOther(FramedLink* link, const Identity& peer,
                          const Status& why) {
  const bool of_this_job = peer.job == identity_.job;
  const bool waits = (state_.starting() || state_.keeps_outside_links()) &&
                     peer.rank < size_ && links_.Missing(peer.rank) &&
                     of_this_job && !link->stream().is_local();
  if (!waits) return Reject(link, why, /*final=*/false);
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (!state_.starting() || !state_.first_time()) return;
  if (CheckMember(identity_, peer).ok()) return Fail(why);
  // Any program may have another list: a worker of this job connects from its
  // rank's address.
  refusal_ = {why, from, peer.rank};
  ResolveRefusal();
}

void Session::ResolveRefusal() {
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

// Probes (probe_schedule.h).

void Session::ProbeOne() {
  const int peer = probes_.Next(links_.linked(), now_);
  if (peer < 0) return;
  if (links_.link(peer) == nullptr) {
    bool done = false;
    std::vector<Endpoint> endpoints;  // none where the lookup fails
    transport_->Resolve(peer, &done, &endpoints).IgnoreError();
    if (!done) return;
    Probe(peer, endpoints);
  }
  probes_.Done(peer);
}

// Connects by TCP to each address of the peer's name: the first may be one that
// this host cannot reach.
void Session::Probe(int peer, const std::vector<Endpoint>& endpoints) {
  for (const Endpoint& endpoint : endpoints) {
    StreamPtr stream;
    if (endpoint.local || !transport_->Connect(peer, endpoint, &stream).ok()) {
      continue;
    }
    links_.OpenProbe(peer, std::move(stream), now_);
  }
}

// Sends no job name. So a worker of an earlier release refuses the probe as
// another job's, and does not fail its own ring.
void Session::SendProbe(FramedLink* link) {
  Identity probe = identity_;
  probe.job.clear();
  const std::vector<uint8_t> payload = EncodeIdentity(probe);
  FrameHeader header;
  header.type = FrameType::kHello;
  header.generation = views_.proposal();
  header.chunk = kFeatureProbes;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  links_.Send(link, header, payload.data());
}

// Closes the connection if the lists are the same, else rejects it.
void Session::AnswerProbe(FramedLink* link, const Identity& peer) {
  const Status same = CheckMember(identity_, peer);
  if (!same.ok()) return Reject(link, same, /*final=*/false);
  links_.DropUnauthenticated(link);
}

void Session::ProbeEnded(FramedLink* link, Cause cause, const Status& why) {
  const bool turned_away = options_.keys != nullptr &&
                           cause == Cause::kExited &&
                           link->phase() == LinkPhase::kConnecting;
  // Another program's port, or another release.
  const bool foreign = cause == Cause::kProtocol;
  if (turned_away || foreign) missing_.SetReason(link->peer, why.message());
  links_.DropUnauthenticated(link);
}

// This index has a connected worker. Its process may have ended unnoticed, or
// two workers have the same index. There are two only if the first is still
// heard. Otherwise this worker may have been stalled, or have lost the first
// and not formed a ring since.
void Session::RefuseDuplicate(FramedLink* link, const Identity& peer) {
  const int64_t since =
      duplicates_.RecordRequest(peer.rank, peer.incarnation, now_);
  const bool both_live =
      since > 2 * timeout() && detector_.Hears(peer.rank, now_);
  Reject(link,
         Error(Code::kAlreadyExists,
               "rank %d is already part of the running job \"%s\": two workers "
               "have the same index, or one was started again",
               peer.rank, options_.job.c_str()),
         both_live);
}

// Other fields of another version cannot be parsed.
void Session::RefuseVersion(FramedLink* link, const Status& why) {
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, /*final=*/true);
  if (!state_.starting() || !state_.first_time()) return;
  for (int r = 0; r < size_; ++r) {
    Address host;
    sockaddr_storage numeric;
    if (!links_.Missing(r) ||
        !ParseAddress(options_.addresses[r], &host).ok() ||
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
  for (const int r : links_.linked()) {
    if (informed_[r]) continue;
    all = false;
    if (dialer_.Due(r, now_)) dialer_.Dial(r, now_);
  }
  if (all || now_ >= start_deadline_) owner_->OnDelivered();
}

void Session::SendWithdraw(FramedLink* link) {
  link->SetPhase(LinkPhase::kAwaitWelcome);
  const std::vector<uint8_t> payload = EncodeWithdraw({identity_, withdrawal_});
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  links_.Send(link, header, payload.data());
}

Status Session::OnWithdrawalConfirmed(FramedLink* link,
                                      const FrameHeader& header,
                                      const Identity& peer) {
  RINGLET_RETURN_IF_ERROR(CheckMember(identity_, peer));
  if (peer.rank != link->peer) return Corruption("another rank's answer");
  informed_[peer.rank] = true;
  for (int r = 0; r < std::min(size_, kMaxInformedRanks); ++r) {
    if ((header.total >> r & 1) != 0) informed_[r] = true;
  }
  if (links_.link(peer.rank) == link) links_.Drop(peer.rank);
  return Status();
}

// The sender is a worker with the index of an absent one. The frame is trusted
// as a kHello with that index is.
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
  if (known && (state_.connecting() || state_.keeps_outside_links()) &&
      links_.Missing(peer)) {
    const Status why = AnswerWithdraw(link, peer, withdraw.reason);
    return asked ? why : Status();
  }
  const Status why =
      member.ok() ? InvalidArgument("rank %d has a worker here already", peer)
                  : member;
  Reject(link, why, /*final=*/false);
  return Status();
}

// Answers. If this is the first start, this worker's wait ends too. An error
// belongs to a rank that is still awaited, or that may join a running job.
Status Session::AnswerWithdraw(FramedLink* link, int peer,
                               const Status& reason) {
  uint64_t informed = 0;  // by Fail
  for (int r = 0; state_.first_time() && r < std::min(size_, kMaxInformedRanks);
       ++r) {
    if (r != rank_ && !links_.Missing(r)) informed |= uint64_t{1} << r;
  }
  SendIdentity(link, FrameType::kWelcome, informed);
  if (state_.withdrawing()) {
    informed_[peer] = true;
    return Status();
  }
  const Status why =
      reason.Annotate("rank %d (%s) cannot take part", peer, address(peer));
  if (!state_.first_time() || state_.keeps_outside_links()) {
    missing_.SetReason(peer,
                       std::string("it cannot take part: ") + reason.message());
    Notify(missing_.Refused(link->stream().remote(), why.message(), now_));
    return Error(Code::kUnavailable, "%s", why.message());  // of the link
  }
  reported_by_other_ = true;
  AbortNotice notice;
  notice.rank = peer;
  notice.text = why.message();
  NoteReported(peer, notice);
  Fail(why);
  return Status();
}

}  // namespace ringlet
