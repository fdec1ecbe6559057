// What the worker's trail is told of a session. Workers are named by their
// numbers in the list, whatever the ranks are.

#include <string>

#include "session.h"

namespace ringlet {

void Session::Note(TrailEvent event) {
  event.step = step_;
  event.generation =
      agreement_ == nullptr ? generation_ : ViewCount(view_generation_);
  owner_->OnEvent(event);
}

void Session::Note(TrailKind kind, int peer, const char* text) {
  TrailEvent event;
  event.kind = kind;
  event.peer = peer;
  event.text = text;
  Note(event);
}

void Session::NoteFormed() {
  std::string members;
  for (const int worker : workers_) {
    members += (members.empty() ? "" : " ") + std::to_string(worker);
  }
  TrailEvent event;
  event.kind = TrailKind::kFormed;
  event.code = static_cast<int>(workers_.size());
  event.text = members.c_str();
  Note(event);
}

// Whom this worker waits for just now, and since when.
void Session::Lose(const FailureDetector::Suspect& suspect,
                   const char* detail) {
  if (!live()) return;
  const std::string reason = FailureDetector::Reason(suspect, detail);
  TrailEvent event;
  event.kind = TrailKind::kLost;
  event.peer = suspect.rank;
  event.text = reason.c_str();
  const Activity& activity = detector_.activity();
  event.operation = activity.sequence;
  event.other = activity.waiting_on;
  event.nanos = now_ - detector_.StillSince();
  Note(event);
  noted_end_ = true;
  Fail(detector_.Lost(suspect, detail));
}

void Session::NoteTold(int teller, const AbortNotice& notice) {
  if (!live()) return;
  UpdateActivity();
  const Activity& activity = detector_.activity();
  TrailEvent event;
  event.kind = TrailKind::kTold;
  event.peer = notice.origin >= 0 ? notice.origin : notice.rank;
  event.code = teller;
  event.text = notice.text.c_str();
  event.operation = activity.sequence;
  event.other = activity.waiting_on;
  event.nanos = now_ - detector_.StillSince();
  Note(event);
  noted_end_ = true;
}

// A wait within a tick is no news: all wait for one another in every step.
void Session::NoteWaits() {
  const Activity& activity = detector_.activity();
  const int64_t still = now_ - detector_.StillSince();
  const bool waits = state_ == State::kRunning && activity.waiting_on >= 0 &&
                     still >= detector_.tick_nanos();
  TrailEvent event;
  event.kind = waits ? TrailKind::kWaits : TrailKind::kWaited;
  if (waits) {
    const Waiting chain = detector_.WaitsFor(now_);
    event.operation = activity.sequence;
    event.peer = activity.waiting_on;
    event.other = chain.chain.empty() ? -1 : chain.chain.back().rank;
    event.nanos = still;
  }
  const bool other = event.kind != waits_.kind ||
                     event.operation != waits_.operation ||
                     event.peer != waits_.peer || event.other != waits_.other;
  if (other && (waits || waits_.kind == TrailKind::kWaits)) Note(event);
  waits_ = event;
  for (const int r : links_) {
    Peer& p = peers_[r];
    const bool up = p.link != nullptr && p.link->up();
    const int64_t silence = now_ - detector_.HeardAt(r);
    const bool quiet = up && silence > timeout() / 2;
    if (quiet == p.quiet || (state_ != State::kRunning && quiet)) continue;
    p.quiet = quiet;
    if (!quiet && !up) continue;
    TrailEvent heard;
    heard.kind = quiet ? TrailKind::kQuiet : TrailKind::kHeard;
    heard.peer = r;
    heard.nanos = silence;
    Note(heard);
  }
}

}  // namespace ringlet
