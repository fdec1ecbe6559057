#include "withdrawals.h"

#include <algorithm>
#include <string>

namespace ringlet {
namespace {

// A kWelcome's header has a bit for each of these workers.
constexpr int kMaxInformedWorkers = 64;

}  // namespace

// The functions of a worker that withdraws.

void Withdrawals::Begin(const Status& reason) {
  reason_ = reason;
  links_->LinkAll();
}

bool Withdrawals::Tick(int64_t now) {
  bool all = true;
  for (const int r : links_->linked()) {
    if (informed_[r]) continue;
    all = false;
    if (dialer_->IsDue(r, now)) dialer_->Dial(r, now);
  }
  return all;
}

void Withdrawals::SendReason(FramedLink* link) {
  link->SetPhase(LinkPhase::kAwaitWelcome);
  FrameHeader header;
  header.type = FrameType::kWithdraw;
  links_->Send(link, header, EncodeWithdraw({identity_, reason_}));
}

Status Withdrawals::OnHello(FramedLink* link, const FrameHeader& header,
                            const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  RINGLET_RETURN_IF_ERROR(CheckMember(identity_, peer));
  if (peer.worker >= options_.size() || peer.worker == options_.worker) {
    return Status();
  }
  link->peer = peer.worker;
  SendReason(link);
  return Status();
}

Status Withdrawals::OnWelcome(FramedLink* link, const FrameHeader& header,
                              const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  RINGLET_RETURN_IF_ERROR(CheckMember(identity_, peer));
  if (peer.worker != link->peer) {
    return Corruption("worker %d has answered on the link of worker %d",
                      peer.worker, link->peer);
  }
  informed_[peer.worker] = true;
  for (int r = 0; r < std::min(options_.size(), kMaxInformedWorkers); ++r) {
    if ((InformedWorkersOf(header) >> r & 1) != 0) informed_[r] = true;
  }
  if (links_->link(peer.worker) == link) links_->Drop(peer.worker);
  return Status();
}

// Another worker has withdrawn.

// The sender is a worker with the number of an absent one. The frame is trusted
// as a kHello with that number is.
Status Withdrawals::OnWithdraw(FramedLink* link, const FrameHeader& header,
                               const uint8_t* payload, int64_t now) {
  Withdraw withdraw;
  RINGLET_RETURN_IF_ERROR(
      DecodeWithdraw(payload, header.payload_bytes, &withdraw));
  const int peer = withdraw.identity.worker;
  const Status member = CheckMember(identity_, withdraw.identity);
  const bool awaits_welcome = link->phase() == LinkPhase::kAwaitWelcome;
  const bool known = member.ok() && peer != options_.worker &&
                     peer < options_.size() &&
                     (!awaits_welcome || peer == link->peer);
  if (awaits_welcome && !known) {
    return Corruption("worker %d has withdrawn on the link of worker %d", peer,
                      link->peer);
  }
  if (known && (state_->connecting() || state_->keeps_outside_links()) &&
      links_->IsMissing(peer)) {
    const Status why = Answer(link, peer, withdraw.reason, now);
    return awaits_welcome ? why : Status();
  }
  const Status why =
      member.ok() ? InvalidArgument("worker %d is connected here already", peer)
                  : member;
  strangers_->Reject(link, why, now, {member.ok() ? peer : -1});
  return Status();
}

// Answers a kWithdraw. If this is the first start, this worker's wait ends too.
// An error belongs to a worker that is still awaited, or that may join a
// running job.
Status Withdrawals::Answer(FramedLink* link, int peer, const Status& reason,
                           int64_t now) {
  uint64_t informed = 0;  // the workers informed by the end of the wait
  for (int r = 0; state_->forms_first_ring() &&
                  r < std::min(options_.size(), kMaxInformedWorkers);
       ++r) {
    if (r != options_.worker && !links_->IsMissing(r))
      informed |= uint64_t{1} << r;
  }
  handshakes_->SendIdentity(link, FrameType::kWelcome, informed);
  if (state_->withdrawing()) {
    informed_[peer] = true;
    return Status();
  }
  const Status why = reason.Annotate("worker %d (%s) cannot take part", peer,
                                     options_.addresses[peer].c_str());
  if (!state_->forms_first_ring() || state_->keeps_outside_links()) {
    missing_report_->SetReason(
        peer, std::string("it cannot take part: ") + reason.message());
    strangers_->ReportRefusal(link, why, now, {peer});
    return Error(Code::kUnavailable, "%s", why.message());  // a link's error
  }
  owner_->OnCannotForm(why, peer);
  return Status();
}

}  // namespace ringlet
