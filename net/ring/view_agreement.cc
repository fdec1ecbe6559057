// What must be known to change this:
//   - Links keep the order of frames. What a proposer says after a proposal
//     replaces it, and a member's word on whom it hears is there before what it
//     says of a proposal.
//   - A link that is lost takes with it what its other end said, and what hung
//     on it: a proposal, an acknowledgement.
//   - After() ends every event: it tells what has changed, then proposes.

#include "view_agreement.h"

#include <algorithm>

namespace ringlet {
namespace {

int Count(uint64_t workers) { return __builtin_popcountll(workers); }
bool Has(uint64_t workers, int worker) { return (workers >> worker & 1) != 0; }
uint64_t Only(int worker) { return uint64_t{1} << worker; }
// Whether all of `some` are in `all`.
bool Within(uint64_t some, uint64_t all) { return (some & ~all) == 0; }

}  // namespace

ViewAgreement::ViewAgreement(const Options& options, int64_t now)
    : options_(options),
      heard_(Only(options.worker)),
      next_count_(options.count),
      changed_at_(now),
      settle_at_(options.settle_at),
      expected_(options.expected) {}

// Who waits for whom.

// Who hears fewer can form no view.
bool ViewAgreement::Viable(uint64_t hears) const {
  return Count(hears) >= options_.min_workers;
}

// Of those that wait for a view; -1: none.
int ViewAgreement::Lowest() const {
  for (int w = 0; w < options_.size; ++w) {
    const uint64_t theirs = w == options_.worker ? heard_ : peers_[w].hears;
    if (hears(w) && peers_[w].runs.generation == 0 && Viable(theirs)) return w;
  }
  return -1;
}

bool ViewAgreement::visits() const {
  if (running()) return false;
  return std::any_of(peers_, peers_ + options_.size, [this](const Peer& peer) {
    return peer.runs.generation != 0 && Within(peer.runs.members, heard_);
  });
}

bool ViewAgreement::visited() const {
  for (int w = 0; running() && w < options_.size; ++w) {
    const Peer& peer = peers_[w];
    if (hears(w) && !view_.has(w) && Within(view_.members, peer.hears) &&
        Within(peer.runs.members, heard_)) {
      return true;
    }
  }
  return false;
}

int ViewAgreement::present() const { return Count(heard_); }

// As many as hear each other of those that would follow: without whoever does
// not hear the most of the others, again and again.
uint64_t ViewAgreement::Circle() const {
  const uint64_t self = Only(options_.worker);
  uint64_t circle = self;
  uint64_t heard_by[kMostElastic] = {};  // who hears each of them
  for (int w = 0; w < options_.size; ++w) {
    const Peer& peer = peers_[w];
    if (!hears(w) || !peer.follows || peer.runs.generation != 0 ||
        !Has(peer.hears, options_.worker)) {
      continue;
    }
    circle |= Only(w);
    for (int v = 0; v < options_.size; ++v) {
      if (Has(peer.hears, v)) heard_by[v] |= Only(w);
    }
  }
  for (;;) {
    int worst = -1;
    int most = 1;
    for (int w = 0; w < options_.size; ++w) {
      if (!Has(circle & ~self, w)) continue;
      const uint64_t both = peers_[w].hears & heard_by[w];
      const int misses = Count(circle & ~both & ~self & ~Only(w));
      if (misses < most) continue;
      most = misses;
      worst = w;
    }
    if (worst < 0) return circle;
    circle &= ~Only(worst);
  }
}

bool ViewAgreement::AllExpected(uint64_t members) const {
  return expected_ != 0 && Within(expected_, members);
}

bool ViewAgreement::Settled(uint64_t members, int64_t now) const {
  bool settled = now >= settle_at_;
  for (int w = 0; w < options_.size; ++w) {
    settled = settled || (Has(members, w) && peers_[w].settled);
  }
  return settled;
}

// Sending.

void ViewAgreement::Send(int to, ViewWord word, const View& view) {
  ViewFrame frame;
  frame.word = word;
  frame.workers = view.members;
  frame.generation = view.generation;
  out.push_back({to, frame});
}

// To all members, or all others, of this view.
void ViewAgreement::SendMembers(ViewWord word, bool members) {
  for (int w = 0; w < options_.size; ++w) {
    if (w != options_.worker && hears(w) && view_.has(w) == members) {
      Send(w, word, view_);
    }
  }
}

void ViewAgreement::Refuse(int to, uint32_t generation) {
  Send(to, ViewWord::kHears, {generation, heard_});
}

ViewFrame ViewAgreement::Word(int to, int64_t now) const {
  ViewFrame frame;
  frame.workers = stands_ ? Only(options_.worker) : heard_;
  frame.settled = !running() && now >= settle_at_;
  frame.follows = !running() && to == Lowest() && !visits();
  return frame;
}

// What follows from an event, or from time.
void ViewAgreement::After(int64_t now) {
  for (int w = 0; w < options_.size; ++w) {
    if (w == options_.worker || !hears(w)) continue;
    ViewFrame& told = peers_[w].told;
    const ViewFrame word = Word(w, now);
    if (word.workers == told.workers && word.settled == told.settled &&
        word.follows == told.follows) {
      continue;
    }
    told = word;
    out.push_back({w, word});
  }
  if (running()) return;
  const bool leads = Lowest() == options_.worker && !visits();
  if (!leads && state_ == State::kProposed) Open();
  if (leads) Propose(now);
}

// Proposing.

void ViewAgreement::Open() {
  state_ = State::kOpen;
  view_ = View();
}

void ViewAgreement::Propose(int64_t now) {
  const uint64_t circle = Circle();
  const int64_t again = options_.timeout / 2;
  if (state_ == State::kProposed && circle == view_.members &&
      now - proposed_at_ < again) {
    return;
  }
  Open();
  if (circle == refused_ && now - proposed_at_ < again) return;
  if (circle != AllOf(options_.size) &&
      !(AllExpected(circle) && Viable(circle))) {
    if (!Viable(circle) || !Settled(circle, now)) {
      due_at_ = 0;
      return;
    }
    if (due_at_ == 0) due_at_ = now;
    if (now - changed_at_ < options_.quiet &&
        now - due_at_ < 8 * options_.quiet) {
      return;
    }
  }
  view_ = {ViewGeneration(next_count_++, options_.worker), circle};
  state_ = State::kProposed;
  proposed_at_ = now;
  due_at_ = 0;
  refused_ = 0;
  acknowledged_ = Only(options_.worker);
  SendMembers(ViewWord::kPropose, true);
  if (acknowledged_ == circle) Run();
}

void ViewAgreement::Run() {
  const bool proposed = state_ == State::kProposed;
  state_ = State::kRunning;
  SendMembers(proposed ? ViewWord::kStart : ViewWord::kRuns, true);
  SendMembers(ViewWord::kRuns, false);
}

// Events.

void ViewAgreement::Joined(int worker, uint32_t count, int64_t now) {
  heard_ |= Only(worker);
  peers_[worker] = Peer();
  next_count_ = std::max(next_count_, count);
  changed_at_ = now;
  refused_ = 0;
  if (running()) Send(worker, ViewWord::kRuns, view_);
  After(now);
}

void ViewAgreement::Lost(int worker, int64_t now) {
  if (!hears(worker)) return;
  // Whom it visited may have gone to form a view with it, and not be back yet.
  if (!running() && peers_[worker].runs.generation != 0) {
    settle_at_ = std::max(settle_at_, now + 2 * options_.timeout);
    if (expected_ != 0) expected_ |= Only(worker);
  }
  heard_ &= ~Only(worker);
  peers_[worker] = Peer();
  changed_at_ = now;
  refused_ = 0;
  if (!running() && view_.has(worker)) Open();
  After(now);
}

void ViewAgreement::Tick(int64_t now) { After(now); }

void ViewAgreement::Stand(int64_t now) {
  stands_ = true;
  view_.members = Only(options_.worker);
  SendMembers(ViewWord::kRuns, /*members=*/false);
  After(now);
}

void ViewAgreement::Take(int from, const ViewFrame& frame, int64_t now) {
  if (!hears(from)) return;
  next_count_ = std::max(next_count_, ViewCount(frame.generation) + 1);
  const View view = {frame.generation, frame.workers};
  const bool ours = view.generation == view_.generation;
  switch (frame.word) {
    case ViewWord::kHears:
      TakeHears(from, frame, now);
      break;
    case ViewWord::kPropose:
      TakeProposal(from, view);
      break;
    case ViewWord::kAck:
      if (state_ != State::kProposed || !ours || !view_.has(from)) break;
      acknowledged_ |= Only(from);
      if (acknowledged_ == view_.members) Run();
      break;
    case ViewWord::kStart:
      if (state_ == State::kAcknowledged && ours) {
        Run();
      } else if (!running()) {
        Refuse(from, view.generation);
      } else if (!ours) {
        Send(from, ViewWord::kRuns, view_);
      }
      break;
    case ViewWord::kRuns:
      if (peers_[from].runs.generation != view.generation) changed_at_ = now;
      peers_[from].runs = view;
      TakeRuns(from, view);
      break;
  }
  After(now);
}

void ViewAgreement::TakeHears(int from, const ViewFrame& frame, int64_t now) {
  Peer& peer = peers_[from];
  const bool refuses =
      frame.generation != 0 && frame.generation == view_.generation;
  const bool same = peer.hears == frame.workers;
  if (!same) {
    changed_at_ = now;
    refused_ = 0;
  }
  peer.hears = frame.workers;
  if (frame.generation == 0) {
    peer.settled = frame.settled;
    peer.follows = frame.follows;
  }
  if (!refuses || !view_.has(from)) return;
  if (running()) {
    deserter_ = from;
  } else if (state_ == State::kProposed) {
    if (same) refused_ = view_.members;
    Open();
  }
}

void ViewAgreement::TakeProposal(int from, const View& view) {
  if (running()) return Send(from, ViewWord::kRuns, view_);
  if (from == Lowest() && !visits() && view.has(options_.worker) &&
      Within(view.members, heard_) && Viable(view.members)) {
    state_ = State::kAcknowledged;
    view_ = view;
    return Send(from, ViewWord::kAck, view);
  }
  if (state_ == State::kAcknowledged &&
      ViewProposer(view_.generation) == from) {
    Open();  // it has given that one up
  }
  Refuse(from, view.generation);
}

void ViewAgreement::TakeRuns(int from, const View& view) {
  const bool ours = view.generation == view_.generation;
  if (running()) {
    if (!ours && view_.has(from)) deserter_ = from;
    return;
  }
  const bool acknowledged = state_ == State::kAcknowledged;
  // Of the one that it has acknowledged the proposer's word is on its way.
  if (view.has(options_.worker) && !(acknowledged && ours)) {
    Refuse(from, view.generation);
  }
  if (acknowledged && !ours && ViewProposer(view_.generation) == from) Open();
}

}  // namespace ringlet
