#include "dialer.h"

#include <algorithm>
#include <utility>

#include "../../core/base/time_units.h"

namespace ringlet {

Dialer::Dialer(const RingOptions& options, Transport* transport,
               PeerTable* links, MissingPeerReport* missing)
    : transport_(transport),
      links_(links),
      missing_report_(missing),
      by_relay_(!options.relay.empty()),
      has_keys_(options.keys != nullptr),
      timeout_(Nanos(options.timeout_seconds)),
      peers_(options.addresses.size()) {}

void Dialer::Dial(int peer, int64_t now) {
  EndpointList& known = peers_[peer].endpoints;
  if (known.empty()) {
    bool done = false;
    std::vector<Endpoint> endpoints;
    const Status found = transport_->Resolve(peer, &done, &endpoints);
    if (!done) return missing_report_->SetReason(peer, found.message());
    if (!found.ok()) return Redial(peer, found.message(), now);
    known.SetEndpoints(std::move(endpoints));
  }
  Endpoint endpoint;
  while (links_->link(peer) == nullptr && known.Next(&endpoint)) {
    StreamPtr stream;
    const Status status = transport_->Connect(peer, endpoint, &stream);
    if (status.ok()) {
      links_->Open(peer, std::move(stream), now);
    } else {
      Redial(peer, endpoint.local ? "" : status.message(), now);
    }
  }
}

void Dialer::Redial(int peer, const std::string& why, int64_t now) {
  Peer& p = peers_[peer];
  const std::string known = p.endpoints.RecordFailure(why, now, longest_pause_);
  if (!why.empty()) missing_report_->SetReason(peer, known);
  missing_report_->MarkMissing(peer, now);
  if (p.endpoints.empty()) p.rests_until = now + timeout_ / 4;
}

void Dialer::RecordSuccess(int peer) {
  peers_[peer].endpoints.RecordSuccess();
  missing_report_->MarkConnected(peer);
}

void Dialer::ExpireHandshakes(int64_t now) {
  const int64_t min_limit = Nanos(kHandshakeSeconds);
  const int64_t limit = by_relay_ ? std::max(min_limit, timeout_) : min_limit;
  links_->DropUnauthenticated(now - limit);
  for (const int r : links_->linked()) {
    const FramedLink* const link = links_->link(r);
    if (link == nullptr || now - link->opened_at <= limit) continue;
    const LinkPhase phase = link->phase();
    if (phase != LinkPhase::kConnecting && phase != LinkPhase::kAwaitWelcome) {
      continue;
    }
    links_->Drop(r);
    Redial(r, NoAnswerText(phase), now);
  }
}

const char* Dialer::NoAnswerText(LinkPhase phase) const {
  if (phase == LinkPhase::kAwaitWelcome) {
    return "something listens there and does not answer";
  }
  if (by_relay_) {
    return "it is not at the relay, or has another key, list of workers or "
           "name of the job";
  }
  return has_keys_ ? "no answer from its host, or none to this worker's key"
                   : "no answer from its host";
}

std::string Dialer::MissingText(int64_t now) const {
  const Status why = transport_->WhyUnreachable();
  return missing_report_->MissingText(now) +
         (why.ok() ? "" : std::string("; ") + why.message());
}

}  // namespace ringlet
