// A stranger must not end a job by a refusal. So these functions call
// OnCannotForm only while the first ring forms, and only for a connection over
// TCP. A program with another list of workers must also connect from the host
// of a worker, which may need a look-up first (ResolveRefusal). A probe has no
// job name, so its refusal has no effect on an older release.

#include "strangers.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "../cluster/address.h"
#include "../transport/socket_address.h"

namespace ringlet {

void Strangers::Reject(FramedLink* link, const Status& why, int64_t now,
                       const Rejection& how) {
  ReportRefusal(link, why, now, how);
  FrameHeader header;
  header.type = FrameType::kReject;
  header.sequence = how.final ? static_cast<uint64_t>(why.code()) : 0;
  header.payload_bytes = static_cast<uint32_t>(
      std::min<size_t>(std::strlen(why.message()), kTextBytes));
  links_->Send(link, header, reinterpret_cast<const uint8_t*>(why.message()));
  links_->DropUnauthenticated(link);
}

void Strangers::ReportRefusal(FramedLink* link, const Status& why, int64_t now,
                              const Rejection& how) {
  const std::string& from = link->stream().remote();
  events_->RecordRefused(how.worker, from, why.message(), now);
  notify_(missing_report_->RefusalLine(from, why.message(), now, how.quiet));
}

void Strangers::PrintRefusedBy(int peer, const std::string& text, int64_t now) {
  notify_(missing_report_->RefusedByLine(peer, text, now));
}

// Workers with different options can never form a ring, so both waits end. The
// same is true of a worker that rejoins a job with different options. Only a
// refusal over TCP counts. After a refusal over a local socket the peer tries
// TCP.
void Strangers::RefuseOther(FramedLink* link, const Identity& peer,
                            const Status& why, int64_t now) {
  const bool is_this_job = peer.job == identity_.job;
  const bool waits = (state_->starting() || state_->keeps_outside_links()) &&
                     peer.worker < options_.size() &&
                     links_->IsMissing(peer.worker) && is_this_job &&
                     !link->stream().is_local();
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, now, {is_this_job ? peer.worker : -1, /*final=*/waits});
  if (!waits || !state_->starting() || !state_->forms_first_ring()) return;
  if (CheckMember(identity_, peer).ok()) return owner_->OnCannotForm(why, -1);
  // Any program may send another list. A worker of this job connects from the
  // address of that worker's host.
  refusal_ = {why, from, peer.worker};
  ResolveRefusal();
}

void Strangers::ResolveRefusal() {
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
  if (member) owner_->OnCannotForm(refusal_.why, -1);
}

// A hello of another version cannot be parsed further, so only its address is
// compared.
void Strangers::RefuseVersion(FramedLink* link, const Status& why,
                              int64_t now) {
  const sockaddr_storage from = link->stream().remote_address();
  Reject(link, why, now, {-1, /*final=*/true});
  if (!state_->starting() || !state_->forms_first_ring()) return;
  for (int r = 0; r < options_.size(); ++r) {
    const std::string& address = options_.addresses[r];
    Address host;
    sockaddr_storage numeric;
    if (!links_->IsMissing(r) || !ParseAddress(address, &host).ok() ||
        !NumericAddress(host, &numeric).ok()) {
      continue;
    }
    if (SameHost(from, numeric)) {
      return owner_->OnCannotForm(
          InvalidArgument("a worker on the host of worker %d (%s): %s", r,
                          address.c_str(), why.message()),
          -1);
    }
  }
}

// Probes.

void Strangers::ProbeOne(int64_t now) {
  const int peer = probes_.Next(links_->linked(), now);
  if (peer < 0) return;
  if (links_->link(peer) == nullptr) {
    bool done = false;
    std::vector<Endpoint> endpoints;  // none where the lookup fails
    transport_->Resolve(peer, &done, &endpoints).IgnoreError();
    if (!done) return;
    // By TCP to each address of the peer's name: the first may be an address
    // that this host cannot reach.
    for (const Endpoint& endpoint : endpoints) {
      StreamPtr stream;
      if (!endpoint.local &&
          transport_->Connect(peer, endpoint, &stream).ok()) {
        links_->OpenProbe(peer, std::move(stream), now);
      }
    }
  }
  probes_.Done(peer);
}

// Sends no job name. So a worker of an earlier release refuses the probe as
// a worker of another job, and does not fail its own ring.
void Strangers::SendProbe(FramedLink* link, uint32_t generation) {
  Identity probe = identity_;
  probe.job.clear();
  FrameHeader header;
  header.type = FrameType::kHello;
  header.generation = generation;
  header.chunk = kFeatureProbes;
  links_->Send(link, header, EncodeIdentity(probe));
}

// Closes the connection if the lists of workers are the same. Otherwise rejects
// it.
void Strangers::AnswerProbe(FramedLink* link, const Identity& peer,
                            int64_t now) {
  const Status same = CheckMember(identity_, peer);
  if (!same.ok()) return Reject(link, same, now, {});
  links_->DropUnauthenticated(link);
}

void Strangers::ProbeRefused(FramedLink* link, const Status& why) {
  missing_report_->SetReason(link->peer, why.message());
  links_->DropUnauthenticated(link);
}

void Strangers::ProbeEnded(FramedLink* link, LossCause cause,
                           const Status& why) {
  const bool was_refused = options_.keys != nullptr &&
                           cause == LossCause::kExited &&
                           link->phase() == LinkPhase::kConnecting;
  // Another program's port, or another release.
  const bool foreign = cause == LossCause::kProtocol;
  if (was_refused || foreign) return ProbeRefused(link, why);
  links_->DropUnauthenticated(link);
}

}  // namespace ringlet
