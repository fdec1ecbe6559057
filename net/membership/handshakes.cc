// A worker has links with some or all other workers (topology.h). It dials the
// linked workers with lower numbers. The linked workers with higher numbers
// dial it. A link without an accepted handshake has peer -1; a dialled link has
// its peer from the beginning. A worker counts as present only when its link is
// up.

#include "handshakes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "../../core/base/time_units.h"

namespace ringlet {

// Sending.

void Handshakes::Greet(FramedLink* link) {
  link->SetPhase(LinkPhase::kAwaitWelcome);
  if (link->is_probe) return strangers_->SendProbe(link, views_->proposal());
  SendIdentity(link, FrameType::kHello, 0,
               link->MapSharedMemory() ? kFeatureShares : 0);
}

void Handshakes::SendIdentity(FramedLink* link, FrameType type,
                              uint64_t informed, uint32_t features) {
  FrameHeader header;
  header.type = type;
  header.generation = views_->proposal();
  header.sequence = ProgramVersion();
  header.total = informed;
  header.chunk = features;
  links_->Send(link, header, EncodeIdentity(identity_));
}

// Sends shared: later frames are in the shared memory.
void Handshakes::SendShared(FramedLink* link) {
  FrameHeader header;
  header.type = FrameType::kShared;
  links_->Send(link, header);
}

// Receiving.

Status Handshakes::OnHello(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload, int64_t now) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if ((FeaturesOf(header) & kFeatureProbes) != 0) {
    strangers_->AnswerProbe(link, peer, now);
    return Status();
  }
  Status fits = CheckPeer(identity_, peer, -1);
  if (fits.ok()) {
    fits = CheckVersion(options_.worker, ProgramVersion(), peer.worker,
                        ProgramVersionOf(header));
  }
  if (!fits.ok()) {
    strangers_->RefuseOther(link, peer, fits, now);
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(views_->CheckProposal(header.generation));
  const std::vector<int>& linked = links_->linked();
  if (!std::binary_search(linked.begin(), linked.end(), peer.worker) ||
      header.destination != options_.worker) {
    return Corruption(
        "worker %d, which means worker %d, has no link with worker %d",
        peer.worker, header.destination, options_.worker);
  }
  if (!Accepts(peer.worker)) {
    RefuseDuplicate(link, peer, now);
    return Status();
  }
  links_->Adopt(peer.worker, link);
  const bool shares =
      (FeaturesOf(header) & kFeatureShares) != 0 && link->MapSharedMemory();
  SendIdentity(link, FrameType::kWelcome, 0, shares ? kFeatureShares : 0);
  if (shares) SendShared(link);
  Join(link, header.generation, now);
  return Status();
}

Status Handshakes::OnWelcome(FramedLink* link, const FrameHeader& header,
                             const uint8_t* payload, int64_t now) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  if (link->is_probe) return Corruption("a welcome to a probe");
  RINGLET_RETURN_IF_ERROR(CheckPeer(identity_, peer, link->peer));
  RINGLET_RETURN_IF_ERROR(CheckVersion(options_.worker, ProgramVersion(),
                                       peer.worker, ProgramVersionOf(header)));
  RINGLET_RETURN_IF_ERROR(views_->CheckProposal(header.generation));
  const bool shares = (FeaturesOf(header) & kFeatureShares) != 0;
  if (shares && !link->MapSharedMemory()) {
    return Corruption("a welcome to shared memory that was not offered");
  }
  if (shares) {
    SendShared(link);
  } else {
    link->DeclineSharedMemory();
  }
  if (state_->live() || state_->lingering()) {
    Join(link, header.generation, now);
  } else {  // an error follows the hello
    link->SetPhase(LinkPhase::kUp);
  }
  return Status();
}

void Handshakes::Join(FramedLink* link, uint32_t proposal, int64_t now) {
  duplicates_.Remove(link->peer, now);
  link->SetPhase(LinkPhase::kUp);
  dialer_->RecordSuccess(link->peer);
  owner_->OnJoined(link->peer, proposal);
}

// Handles a kReject: this worker was refused.
Status Handshakes::OnReject(FramedLink* link, const FrameHeader& header,
                            const uint8_t* payload, int64_t now) {
  const std::string text = PrintableAscii(payload, header.payload_bytes);
  const Status why =
      Error(Code::kUnavailable, "it refused this worker: %s", text.c_str());
  if (link->is_probe) {
    strangers_->ProbeRefused(link, why);
    return Status();
  }
  if (link->stream().is_local()) return why;
  const int peer = link->peer;
  events_->RecordRefusedBy(peer, text.c_str(), now);
  if (!state_->starting()) return why;
  // Later this worker holds a trained state, and waits for another in the
  // peer's place.
  if (RefusalCodeOf(header) == 0 || !state_->forms_first_ring()) {
    strangers_->PrintRefusedBy(peer, text, now);
    return why;
  }
  owner_->OnCannotForm(Error(CodeOf(RefusalCodeOf(header)),
                             "worker %d (%s) refused this worker: %s", peer,
                             options_.addresses[peer].c_str(), text.c_str()),
                       -1);
  return Status();
}

// Workers that are connected already.

bool Handshakes::Accepts(int peer) const {
  // A member that left may have connected again, and then belongs to no view.
  const bool joins = state_->keeps_outside_links() &&
                     (!members_->is_member(peer) || members_->left(peer));
  return (state_->starting() || joins || state_->lingering()) &&
         links_->link(peer) == nullptr;
}

// A process with the peer's number is connected already. It may have ended
// unnoticed, or two processes have the same number. Both run only if the first
// one is still heard. If it is not, this worker may have been stalled, or may
// have lost the first link without forming a ring since then.
void Handshakes::RefuseDuplicate(FramedLink* link, const Identity& peer,
                                 int64_t now) {
  const int64_t since =
      duplicates_.RecordRequest(peer.worker, peer.incarnation, now);
  const int64_t timeout = Nanos(options_.timeout_seconds);
  const bool both_live =
      since > 2 * timeout && detector_->Hears(peer.worker, now);
  strangers_->Reject(
      link,
      Error(Code::kAlreadyExists,
            "worker %d is already part of the running job \"%s\": two workers "
            "have the same index, or one was started again",
            peer.worker, options_.job.c_str()),
      now, {peer.worker, /*final=*/both_live});
}

}  // namespace ringlet
