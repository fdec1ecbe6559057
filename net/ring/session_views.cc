// Who of the workers takes part: an elastic ring.
//
// ViewAgreement decides; here is what it hears and says. From its proposal or
// acknowledgement on a view is known, and the schedule is of it, so that what
// members send that have heard of its beginning earlier is kept, as it is in
// any ring. Of those that are not in the view a session that runs keeps and
// seeks the links, and judges nothing else of them.

#include <algorithm>
#include <cmath>
#include <utility>

#include "session.h"

namespace ringlet {

// Life.

void Session::BeginViews() {
  if (proposal_ > kGreatestViewCount / 2) {
    return Fail(Error(Code::kUnavailable,
                      "the ring has formed %lu times, and cannot once more: "
                      "start this worker anew",
                      static_cast<unsigned long>(proposal_)));
  }
  ViewAgreement::Options options;
  options.worker = rank_;
  options.size = size_;
  options.min_workers = options_.min_workers;
  options.count = proposal_;
  options.settle_at = first_time()
                          ? start_deadline_
                          : std::min(start_deadline_, now_ + timeout() / 2);
  options.expected = expected_;
  options.quiet = timeout() / 4;
  options.timeout = timeout();
  agreement_ = std::make_unique<ViewAgreement>(options, now_);
  SetView(View());
}

// One whose process has ended falls silent without a word. So does one that
// lives, where it is not in this view yet, or has heard this worker's goodbye;
// but of a loss, which all are told of first, it says that it has failed too.
void Session::NoteGone(int peer) {
  const bool ran = state_ == State::kRunning || state_ == State::kFailed ||
                   (state_ == State::kLeaving && noted_end_);
  if (agreement_ == nullptr || !ran || completed_ == 0 || !member(peer) ||
      peers_[peer].left || peers_[peer].failed) {
    return;
  }
  some_ended_ = true;
  gone_ |= uint64_t{1} << peer;
}

uint64_t Session::remaining() const {
  if (!some_ended_ || missed_) return 0;
  uint64_t members = 0;
  for (const int w : workers_) members |= uint64_t{1} << w;
  return (members & ~gone_) | came_;
}

// Tells who comes that this worker computes, and will form the next view.
void Session::Stand() {
  for (const int r : links_) {
    if (Missing(r)) agreement_->Lost(r, now_);
  }
  agreement_->Stand(now_);
  Agree();
}

void Session::TickViews() {
  const bool runs = state_ == State::kRunning;
  // Who stood still has not read yet what came meanwhile.
  const bool held_up = detector_.HeldUp(now_).rank >= 0;
  for (const int r : links_) {
    Peer& p = peers_[r];
    if (runs && member(r) && !p.left) continue;
    if (!held_up && p.link != nullptr && p.link->up() &&
        !detector_.Hears(r, now_)) {
      if (serves()) {
        LoseVisitor(r, "");
      } else {
        LoseAndRedial(r, "it was there and fell silent");
      }
    }
    const bool due = stands() || !p.candidates.empty() || now_ >= p.dial_at;
    if (serves() && r < rank_ && p.link == nullptr && due &&
        p.candidates.Due(now_)) {
      Dial(r);
    }
  }
  agreement_->Tick(now_);
  Agree();
}

// Those who are there suffice, or those who run in a view will soon form
// another, so the wait may go on for a while.
bool Session::WaitIsOver() {
  const bool visits = agreement_->visits();
  if (!visits && now_ - visits_at_ < 4 * timeout()) return false;
  if (visits) visits_at_ = now_;
  if (now_ < start_deadline_) return false;
  if (agreement_->present() < options_.min_workers) return true;
  if (!visits) return now_ - start_deadline_ > 4 * timeout();
  const double patience = options_.patience_seconds;
  return patience > 0 &&
         static_cast<double>(now_ - start_deadline_) > patience * 1e9;
}

Status Session::TooFew() {
  double waited = options_.start_timeout_seconds;
  const double longer = static_cast<double>(now_ - start_deadline_) / 1e9;
  if (longer >= 1) waited = std::floor(waited + longer);
  return Error(Code::kDeadlineExceeded,
               "rank %d waited %g s for the other workers: %d of %d are there, "
               "itself among them, and at least %d (min_workers) that reach "
               "each other are needed; missing are %s; if they have finished "
               "the job, this worker is not needed",
               rank_, waited, agreement_->present(), size_,
               options_.min_workers, roll_.Missing(now_).c_str());
}

// Views.

void Session::SetView(const View& view) {
  view_generation_ = view.generation;
  workers_.clear();
  for (int w = 0; w < size_; ++w) {
    rank_of_[w] = view.has(w) ? static_cast<int>(workers_.size()) : -1;
    if (view.has(w)) workers_.push_back(w);
  }
  if (workers_.empty()) return;
  schedule_.Reset(rank_of_[rank_], static_cast<int>(workers_.size()));
}

// Does what the agreement asks for.
void Session::Agree() {
  std::vector<ViewAgreement::Out> out;
  out.swap(agreement_->out);
  if (!live() && !stands()) return;
  const View& view = agreement_->view();
  if (state_ == State::kStarting && view.generation != view_generation_) {
    SetView(view);
  }
  for (const ViewAgreement::Out& one : out) {
    uint8_t payload[kViewBytes];
    EncodeView(one.frame, payload);
    FrameHeader header;
    header.type = FrameType::kView;
    header.payload_bytes = static_cast<uint32_t>(ViewBytes(size_));
    FramedLink* const link = peers_[one.to].link.get();
    if (link != nullptr && link->up()) SendTo(link, header, payload, false);
  }
  if (!agreement_->running()) return;
  if (state_ == State::kStarting) RunInView();
  const int deserter = agreement_->deserter();
  if (state_ == State::kRunning && deserter >= 0) {
    return Lose({deserter, Cause::kLeft, 0}, "it takes no part in this view");
  }
  if (state_ != State::kRunning || agreement_->visited() == visited_) return;
  visited_ = !visited_;
  if (visited_) Note(TrailKind::kVisited, -1);
  owner_->OnVisited(visited_);
}

void Session::RunInView() {
  generation_ = view_generation_;
  detector_.SetGeneration(ViewCount(generation_));
  detector_.SetRanks(rank_of_);
  state_ = State::kRunning;
  transport_->TickEvery(detector_.tick_nanos());
  std::string without;
  for (int w = 0; w < size_; ++w) {
    if (member(w)) continue;
    without += without.empty() ? ", without " : ", ";
    without += address(w);
  }
  if (without.empty()) {
    Say(roll_.Complete(now_));
  } else {
    Say("the worker at " + std::string(address(rank_)) + " goes on with " +
        std::to_string(workers_.size()) + " of " + std::to_string(size_) +
        without);
  }
  NoteFormed();
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
  if (!live() && !stands()) return Status();
  const uint32_t count = ViewCount(frame.generation);
  if (!agreement_->Plausible(count)) {
    return Corruption("a view of generation %lu, far from this one's %lu",
                      static_cast<unsigned long>(count),
                      static_cast<unsigned long>(agreement_->next_count()));
  }
  agreement_->Take(link->peer, frame, now_);
  Agree();
  return Status();
}

// Those outside of it.

bool Session::Welcomes(int peer) const {
  // A member that has left may be back, and of no view.
  const bool visits = state_ == State::kRunning && agreement_ != nullptr &&
                      (!member(peer) || peers_[peer].left);
  return (state_ == State::kStarting || visits || stands()) &&
         peers_[peer].link == nullptr;
}

Status Session::CheckProposal(const FrameHeader& header) const {
  if (agreement_ == nullptr || agreement_->Plausible(header.generation)) {
    return Status();
  }
  return Corruption("a proposal of generation %lu",
                    static_cast<unsigned long>(header.generation));
}

// Or whoever was to be one.
void Session::LoseVisitor(int peer, const std::string& why) {
  came_ &= ~(uint64_t{1} << peer);
  detector_.Gone(peer);
  DropLink(&peers_[peer].link);
  Redial(peer, why);
  agreement_->Lost(peer, now_);
  Agree();
}

// Ranks.

Status Session::ForCaller(const Status& status) const {
  if (agreement_ == nullptr || status.code() != Code::kPeerLost) return status;
  const int worker = status.rank();
  return PeerLost(worker < 0 || worker >= size_ ? -1 : rank_of_[worker], "%s",
                  status.message());
}

Status Session::FromCaller(const Status& status) const {
  if (agreement_ == nullptr || status.code() != Code::kPeerLost) return status;
  const int rank = status.rank();
  const bool known = rank >= 0 && rank < static_cast<int>(workers_.size());
  return PeerLost(known ? workers_[rank] : -1, "%s", status.message());
}

}  // namespace ringlet
