// Views of an elastic ring.
//
// ViewAgreement decides; these are its inputs and outputs. The schedule belongs
// to a view from its proposal or acknowledgement on. So frames of members that
// started earlier are kept, as in any ring. A running session keeps links to
// workers that are not members, makes new ones, and ignores their other frames.

#include <algorithm>
#include <cmath>
#include <utility>

#include "session.h"

namespace ringlet {

// The begin, ticks and the end of a wait.

void Session::BeginViews() {
  if (proposal_ > kGreatestViewCount / 2) {
    return Fail(Error(Code::kUnavailable,
                      "the ring has formed %lu times, and cannot once more: "
                      "start this worker again",
                      static_cast<unsigned long>(proposal_)));
  }
  ViewAgreement::Options options;
  options.worker = rank_;
  options.size = size_;
  options.min_workers = options_.min_workers;
  options.count = proposal_;
  options.settle_at = state_.first_time()
                          ? start_deadline_
                          : std::min(start_deadline_, now_ + timeout() / 2);
  options.expected = expected_;
  options.quiet = timeout() / 4;
  options.timeout = timeout();
  dialer_.ShortenPauses();
  agreement_ = std::make_unique<ViewAgreement>(options, now_);
  SetView(View());
}

// A connection that ends without a goodbye means an ended process. There are
// three exceptions: the peer is not in this view yet, has this worker's
// goodbye, or has sent an abort.
void Session::RecordProcessEnd(int peer) {
  const bool ran = state_.running() || state_.failed() ||
                   (state_.leaving() && trail_.noted_end());
  if (ran && operations_.completed() > 0) members_.SetEnded(peer);
}

// Announces to joining workers that this worker computes, and will form the
// next view.
void Session::Linger() {
  for (const int r : links_.linked()) {
    if (links_.Missing(r)) agreement_->RemovePeer(r, now_);
  }
  agreement_->Linger(now_);
  ApplyAgreement();
}

void Session::TickViews() {
  const bool runs = state_.running();
  // A stalled worker has not yet read the frames that arrived during the stall.
  const bool self_stalled = detector_.SelfStalled(now_).rank >= 0;
  for (const int r : links_.linked()) {
    if (runs && members_.has(r) && !members_.left(r)) continue;
    if (!self_stalled && links_.up_link(r) != nullptr &&
        !detector_.Hears(r, now_)) {
      if (state_.keeps_outside_links()) {
        LoseCandidate(r, "");
      } else {
        LoseAndRedial(r, "it was connected and became silent");
      }
    }
    if (state_.keeps_outside_links() && r < rank_ && dialer_.Due(r, now_) &&
        (state_.lingering() || !dialer_.Rests(r, now_))) {
      dialer_.Dial(r, now_);
    }
  }
  agreement_->Tick(now_);
  ApplyAgreement();
}

// The wait continues after its deadline if the present workers suffice, or
// while the members of a running view will soon form another.
bool Session::WaitIsOver() {
  const bool join_pending = agreement_->join_pending();
  if (!join_pending && now_ - join_pending_at_ < 4 * timeout()) return false;
  if (join_pending) join_pending_at_ = now_;
  if (now_ < start_deadline_) return false;
  if (agreement_->present() < options_.min_workers) return true;
  if (!join_pending) return now_ - start_deadline_ > 4 * timeout();
  const double patience = options_.patience_seconds;
  return patience > 0 &&
         static_cast<double>(now_ - start_deadline_) > patience * 1e9;
}

Status Session::TooFewWorkersError() {
  double waited = options_.start_timeout_seconds;
  const double longer = static_cast<double>(now_ - start_deadline_) / 1e9;
  if (longer >= 1) waited = std::floor(waited + longer);
  return Error(Code::kDeadlineExceeded,
               "rank %d waited %g s for the other workers: %d of %d are "
               "present, with itself, but the job needs at least %d "
               "(min_workers) that reach each other; missing are %s; if they "
               "have finished the job, this worker is not needed",
               rank_, waited, agreement_->present(), size_,
               options_.min_workers, dialer_.MissingText(now_).c_str());
}

// Views.

void Session::SetView(const View& view) {
  members_.SetView(view);
  trail_.SetGeneration(ViewCount(view.generation));
  if (members_.count() == 0) return;
  operations_.Reset();
}

// Sends the frames of the agreement, and enters or leaves its view.
void Session::ApplyAgreement() {
  std::vector<ViewAgreement::Out> out;
  out.swap(agreement_->out);
  if (!state_.live() && !state_.lingering()) return;
  const View& view = agreement_->view();
  if (state_.starting() && view.generation != members_.generation()) {
    SetView(view);
  }
  for (const ViewAgreement::Out& one : out) {
    uint8_t payload[kViewBytes];
    EncodeView(one.frame, payload);
    FrameHeader header;
    header.type = FrameType::kView;
    header.payload_bytes = static_cast<uint32_t>(ViewBytes(size_));
    links_.Send(one.to, header, payload);
  }
  if (!agreement_->running()) return;
  if (state_.starting()) StartView();
  const int departed_member = agreement_->departed_member();
  if (state_.running() && departed_member >= 0) {
    return Lose({departed_member, Cause::kLeft, 0},
                "it takes no part in this view");
  }
  if (!state_.running() || agreement_->has_joiner() == has_joiner_) return;
  has_joiner_ = !has_joiner_;
  if (has_joiner_) trail_.Note(TrailKind::kJoinerWaits);
  owner_->OnJoiner(has_joiner_);
}

void Session::StartView() {
  members_.SetFormed(members_.generation());
  links_.SetGeneration(generation());
  detector_.SetGeneration(ViewCount(generation()));
  detector_.SetRanks(members_.ranks());
  state_.Set(SessionState::kRunning);
  transport_->TickEvery(detector_.tick_nanos());
  std::string without;
  for (int w = 0; w < size_; ++w) {
    if (members_.has(w)) continue;
    without += without.empty() ? ", without " : ", ";
    without += address(w);
  }
  if (without.empty()) {
    Notify(missing_.Complete(now_));
  } else {
    Notify("the worker at " + std::string(address(rank_)) + " continues with " +
           std::to_string(members_.count()) + " of " + std::to_string(size_) +
           without);
  }
  trail_.NoteFormed(members_.workers());
  owner_->OnRunning();
}

Status Session::OnView(FramedLink* link, const FrameHeader& header,
                       const uint8_t* payload) {
  if (agreement_ == nullptr) {
    return Corruption("a view frame in a ring that is not elastic");
  }
  ViewFrame frame;
  RINGLET_RETURN_IF_ERROR(
      DecodeView(payload, header.payload_bytes, size_, link->peer, &frame));
  if (!state_.live() && !state_.lingering()) return Status();
  const uint32_t count = ViewCount(frame.generation);
  if (!agreement_->Plausible(count)) {
    return Corruption("a view of generation %lu, far from this one's %lu",
                      static_cast<unsigned long>(count),
                      static_cast<unsigned long>(agreement_->next_count()));
  }
  agreement_->OnFrame(link->peer, frame, now_);
  ApplyAgreement();
  return Status();
}

// Workers outside of the view.

bool Session::AcceptsHello(int peer) const {
  // A member that left may have connected again, and then belongs to no view.
  const bool join_pending = state_.running() && agreement_ != nullptr &&
                            (!members_.has(peer) || members_.left(peer));
  return (state_.starting() || join_pending || state_.lingering()) &&
         links_.link(peer) == nullptr;
}

Status Session::CheckProposal(const FrameHeader& header) const {
  if (agreement_ == nullptr || agreement_->Plausible(header.generation)) {
    return Status();
  }
  return Corruption("a proposal of generation %lu",
                    static_cast<unsigned long>(header.generation));
}

// Also handles the loss of a joining worker.
void Session::LoseCandidate(int peer, const std::string& why) {
  members_.SetLost(peer);
  detector_.RemovePeer(peer);
  links_.Drop(peer);
  dialer_.Redial(peer, why, now_);
  agreement_->RemovePeer(peer, now_);
  ApplyAgreement();
}

}  // namespace ringlet
