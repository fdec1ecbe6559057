// ViewAgreement decides and this file acts: after each event CarryOutDecisions
// sends what the agreement has put into `out`, and enters or leaves its view.
// CarryOutDecisions may end the session: it looks at the state again after each
// action, and so must its callers.

#include "views.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace ringlet {

Status Views::Begin(int64_t deadline, int64_t now) {
  if (proposal_ > kGreatestViewCount / 2) {
    return Error(Code::kUnavailable,
                 "the ring has formed %lu times, and cannot once more: "
                 "start this worker again",
                 static_cast<unsigned long>(proposal_));
  }
  deadline_ = deadline;
  ViewAgreement::Options options;
  options.worker = options_.worker;
  options.size = options_.size();
  options.min_workers = options_.min_workers;
  options.count = proposal_;
  options.partial_view_at = state_->forms_first_ring()
                                ? deadline
                                : std::min(deadline, now + timeout_ / 2);
  options.awaited_mask = awaited_mask_;
  options.quiet = timeout_ / 4;
  options.timeout = timeout_;
  dialer_->ShortenPauses();
  agreement_ = std::make_unique<ViewAgreement>(options, now);
  SetView(View());
  return Status();
}

// Events.

void Views::AddPeer(int peer, uint32_t proposal, int64_t now) {
  members_->SetConnected(peer, /*joins=*/!state_->starting());
  agreement_->AddPeer(peer, proposal, now);
  CarryOutDecisions();
}

void Views::DropPeer(int peer, const std::string& why, int64_t now) {
  members_->SetLost(peer);
  detector_->RemovePeer(peer);
  links_->Drop(peer);
  dialer_->Redial(peer, why, now);
  agreement_->RemovePeer(peer, now);
  CarryOutDecisions();
}

Status Views::OnFrame(int peer, const FrameHeader& header,
                      const uint8_t* payload, int64_t now) {
  if (!active()) {
    return Corruption("a view frame in a ring that is not elastic");
  }
  ViewFrame frame;
  RINGLET_RETURN_IF_ERROR(
      DecodeView(payload, header.payload_bytes, options_.size(), peer, &frame));
  if (!state_->live() && !state_->lingering()) return Status();
  const uint32_t count = ViewCount(frame.generation);
  if (!agreement_->IsPlausible(count)) {
    return Corruption("a view of generation %lu, far from this one's %lu",
                      static_cast<unsigned long>(count),
                      static_cast<unsigned long>(agreement_->next_count()));
  }
  agreement_->OnFrame(peer, frame, now);
  CarryOutDecisions();
  return Status();
}

void Views::Tick(int64_t now) {
  const bool runs = state_->running();
  // A stalled worker has not yet read the frames that arrived during the stall.
  const bool self_stalled = detector_->SelfStalled(now).worker >= 0;
  for (const int r : links_->linked()) {
    if (runs && members_->is_member(r) && !members_->left(r)) continue;
    if (!self_stalled && links_->up_link(r) != nullptr &&
        !detector_->Hears(r, now)) {
      DropPeer(r,
               state_->keeps_outside_links()
                   ? ""
                   : "it was connected and became silent",
               now);
    }
    if (state_->keeps_outside_links() && r < options_.worker &&
        dialer_->IsDue(r, now) &&
        (state_->lingering() || !dialer_->IsResting(r, now))) {
      dialer_->Dial(r, now);
    }
  }
  agreement_->Tick(now);
  CarryOutDecisions();
}

void Views::Linger(int64_t now) {
  for (const int r : links_->linked()) {
    if (links_->IsMissing(r)) agreement_->RemovePeer(r, now);
  }
  agreement_->Linger(now);
  CarryOutDecisions();
}

// The agreement's decisions.

// Sends the frames of the agreement, and enters or leaves its view.
void Views::CarryOutDecisions() {
  std::vector<ViewAgreement::Out> out;
  out.swap(agreement_->out);
  if (!state_->live() && !state_->lingering()) return;
  const View& view = agreement_->view();
  if (state_->starting() && view.generation != members_->generation()) {
    SetView(view);
  }
  for (const ViewAgreement::Out& one : out) {
    uint8_t payload[kViewBytes];
    EncodeView(one.frame, payload);
    FrameHeader header;
    header.type = FrameType::kView;
    header.payload_bytes = static_cast<uint32_t>(ViewBytes(options_.size()));
    links_->Send(one.to, header, payload);
  }
  if (!agreement_->running()) return;
  if (state_->starting()) Form();
  if (!state_->running()) return;
  if (agreement_->departed_member() >= 0) {
    return owner_->OnMemberAbsent(agreement_->departed_member());
  }
  if (agreement_->has_joiner() == has_joiner_) return;
  has_joiner_ = !has_joiner_;
  owner_->OnJoiner(has_joiner_);
}

void Views::SetView(const View& view) {
  members_->SetView(view);
  owner_->OnNewView();
}

void Views::Form() {
  const uint32_t generation = members_->generation();
  members_->SetFormed(generation);
  links_->SetGeneration(generation);
  detector_->SetGeneration(ViewCount(generation));
  detector_->SetRanks(members_->ranks());
  std::string without;
  for (int w = 0; w < options_.size(); ++w) {
    if (members_->is_member(w)) continue;
    without += without.empty() ? ", without " : ", ";
    without += options_.addresses[w];
  }
  owner_->OnFormed(
      without.empty()
          ? ""
          : "the worker at " + options_.addresses[options_.worker] +
                " continues with " + std::to_string(members_->count()) +
                " of " + std::to_string(options_.size()) + without);
}

// The wait.

Status Views::CheckWait(int64_t now) {
  if (agreement_->join_pending()) join_pending_at_ = now;
  if (!WaitIsOver(now)) return Status();
  double waited = options_.start_timeout_seconds;
  const double longer = static_cast<double>(now - deadline_) / 1e9;
  if (longer >= 1) waited = std::floor(waited + longer);
  return Error(Code::kDeadlineExceeded,
               "worker %d waited %g s for the other workers: %d of %d are "
               "present, with itself, but the job needs at least %d "
               "(min_workers) that reach each other; missing are %s; if they "
               "have finished the job, this worker is not needed",
               options_.worker, waited, agreement_->present(), options_.size(),
               options_.min_workers, dialer_->MissingText(now).c_str());
}

// The wait continues after its deadline if the present workers suffice, or
// while the members of a running view will soon form another.
bool Views::WaitIsOver(int64_t now) const {
  const bool join_pending = agreement_->join_pending();
  if (!join_pending && now - join_pending_at_ < 4 * timeout_) return false;
  if (now < deadline_) return false;
  if (agreement_->present() < options_.min_workers) return true;
  if (!join_pending) return now - deadline_ > 4 * timeout_;
  const double patience = options_.patience_seconds;
  return patience > 0 && static_cast<double>(now - deadline_) > patience * 1e9;
}

Status Views::CheckProposal(uint32_t generation) const {
  if (!active() || agreement_->IsPlausible(generation)) return Status();
  return Corruption("a proposal of generation %lu",
                    static_cast<unsigned long>(generation));
}

}  // namespace ringlet
