// To change this file, know that:
//   - Links keep the order of frames. A later frame of a proposer replaces its
//     proposal. A member sends the list of workers that it hears before its
//     answer to a proposal.
//   - If a link is lost, its peer's reports are dropped. So is a proposal or
//     an acknowledgement that depends on them.
//   - SendAndPropose() ends every event. It sends all changes, then proposes.

#include "view_agreement.h"

#include <algorithm>

namespace ringlet {
namespace {

int CountWorkers(uint64_t workers) { return __builtin_popcountll(workers); }
bool HasWorker(uint64_t workers, int worker) {
  return (workers >> worker & 1) != 0;
}
uint64_t MaskOf(int worker) { return uint64_t{1} << worker; }
// True if all of `subset` are in `all`.
bool IsSubset(uint64_t subset, uint64_t all) { return (subset & ~all) == 0; }

}  // namespace

ViewAgreement::ViewAgreement(const Options& options, int64_t now)
    : options_(options),
      heard_(MaskOf(options.worker)),
      next_count_(options.count),
      changed_at_(now),
      partial_view_at_(options.partial_view_at),
      awaited_mask_(options.awaited_mask) {}

// The waits of workers for one another.

// True if these are enough workers for a view.
bool ViewAgreement::HasMinWorkers(uint64_t workers) const {
  return CountWorkers(workers) >= options_.min_workers;
}

// The lowest worker that waits for a view; -1 if there is none.
int ViewAgreement::LowestHeard() const {
  for (int w = 0; w < options_.size; ++w) {
    const uint64_t theirs = w == options_.worker ? heard_ : peers_[w].hears;
    if (hears(w) && peers_[w].runs.generation == 0 && HasMinWorkers(theirs))
      return w;
  }
  return -1;
}

bool ViewAgreement::join_pending() const {
  if (running()) return false;
  return std::any_of(peers_, peers_ + options_.size, [this](const Peer& peer) {
    return peer.runs.generation != 0 && IsSubset(peer.runs.members, heard_);
  });
}

bool ViewAgreement::has_joiner() const {
  for (int w = 0; running() && w < options_.size; ++w) {
    const Peer& peer = peers_[w];
    if (hears(w) && !view_.has(w) && IsSubset(view_.members, peer.hears) &&
        IsSubset(peer.runs.members, heard_)) {
      return true;
    }
  }
  return false;
}

int ViewAgreement::present() const { return CountWorkers(heard_); }

// Returns a large group of workers that all hear each other and would
// acknowledge. Drops the worker that hears the fewest of the other workers,
// until all hear all.
uint64_t ViewAgreement::WorkersHearingEachOther() const {
  const uint64_t self = MaskOf(options_.worker);
  uint64_t group = self;
  // The workers that hear each worker.
  uint64_t heard_by[kMaxElasticWorkers] = {};
  for (int w = 0; w < options_.size; ++w) {
    const Peer& peer = peers_[w];
    if (!hears(w) || !peer.acknowledges || peer.runs.generation != 0 ||
        !HasWorker(peer.hears, options_.worker)) {
      continue;
    }
    group |= MaskOf(w);
    for (int v = 0; v < options_.size; ++v) {
      if (HasWorker(peer.hears, v)) heard_by[v] |= MaskOf(w);
    }
  }
  for (;;) {
    int worst = -1;
    int most_misses = 1;
    for (int w = 0; w < options_.size; ++w) {
      if (!HasWorker(group & ~self, w)) continue;
      const uint64_t both = peers_[w].hears & heard_by[w];
      const int misses = CountWorkers(group & ~both & ~self & ~MaskOf(w));
      if (misses < most_misses) continue;
      most_misses = misses;
      worst = w;
    }
    if (worst < 0) return group;
    group &= ~MaskOf(worst);
  }
}

bool ViewAgreement::HasAllAwaited(uint64_t members) const {
  return awaited_mask_ != 0 && IsSubset(awaited_mask_, members);
}

bool ViewAgreement::HasWaitedEnough(uint64_t members, int64_t now) const {
  bool enough = now >= partial_view_at_;
  for (int w = 0; w < options_.size; ++w) {
    enough = enough || (HasWorker(members, w) && peers_[w].waited_enough);
  }
  return enough;
}

// Sending.

void ViewAgreement::Send(int to, ViewMessage message, const View& view) {
  ViewFrame frame;
  frame.message = message;
  frame.workers = view.members;
  frame.generation = view.generation;
  out.push_back({to, frame});
}

// Sends to all other members of this view, or to all workers outside of it.
void ViewAgreement::SendMembers(ViewMessage message, bool members) {
  for (int w = 0; w < options_.size; ++w) {
    if (w != options_.worker && hears(w) && view_.has(w) == members) {
      Send(w, message, view_);
    }
  }
}

void ViewAgreement::Refuse(int to, uint32_t generation) {
  Send(to, ViewMessage::kHears, {generation, heard_});
}

ViewFrame ViewAgreement::MakeFrame(int to, int64_t now) const {
  ViewFrame frame;
  frame.workers = lingering_ ? MaskOf(options_.worker) : heard_;
  frame.waited_enough = !running() && now >= partial_view_at_;
  frame.acknowledges = !running() && to == LowestHeard() && !join_pending();
  return frame;
}

// Sends the changes of an event or of a tick, and proposes a view if it is
// time.
void ViewAgreement::SendAndPropose(int64_t now) {
  for (int w = 0; w < options_.size; ++w) {
    if (w == options_.worker || !hears(w)) continue;
    ViewFrame& sent = peers_[w].sent;
    const ViewFrame frame = MakeFrame(w, now);
    if (frame.workers == sent.workers &&
        frame.waited_enough == sent.waited_enough &&
        frame.acknowledges == sent.acknowledges) {
      continue;
    }
    sent = frame;
    out.push_back({w, frame});
  }
  if (running()) return;
  const bool leads = LowestHeard() == options_.worker && !join_pending();
  if (!leads && state_ == State::kProposed) Open();
  if (leads) Propose(now);
}

// Proposing.

void ViewAgreement::Open() {
  state_ = State::kOpen;
  view_ = View();
}

void ViewAgreement::Propose(int64_t now) {
  const uint64_t group = WorkersHearingEachOther();
  const int64_t retry_nanos = options_.timeout / 2;
  if (state_ == State::kProposed && group == view_.members &&
      now - proposed_at_ < retry_nanos) {
    return;
  }
  Open();
  if (group == refused_ && now - proposed_at_ < retry_nanos) return;
  if (group != AllWorkersMask(options_.size) &&
      !(HasAllAwaited(group) && HasMinWorkers(group))) {
    if (!HasMinWorkers(group) || !HasWaitedEnough(group, now)) {
      quiet_wait_began_ = 0;
      return;
    }
    if (quiet_wait_began_ == 0) quiet_wait_began_ = now;
    if (now - changed_at_ < options_.quiet &&
        now - quiet_wait_began_ < 8 * options_.quiet) {
      return;
    }
  }
  view_ = {ViewGeneration(next_count_++, options_.worker), group};
  state_ = State::kProposed;
  proposed_at_ = now;
  quiet_wait_began_ = 0;
  refused_ = 0;
  acknowledged_ = MaskOf(options_.worker);
  SendMembers(ViewMessage::kPropose, /*members=*/true);
  if (acknowledged_ == group) Run();
}

void ViewAgreement::Run() {
  const bool proposed = state_ == State::kProposed;
  state_ = State::kRunning;
  SendMembers(proposed ? ViewMessage::kStart : ViewMessage::kRuns,
              /*members=*/true);
  SendMembers(ViewMessage::kRuns, /*members=*/false);
}

// Events.

void ViewAgreement::AddPeer(int worker, uint32_t count, int64_t now) {
  heard_ |= MaskOf(worker);
  peers_[worker] = Peer();
  next_count_ = std::max(next_count_, count);
  changed_at_ = now;
  refused_ = 0;
  if (running()) Send(worker, ViewMessage::kRuns, view_);
  SendAndPropose(now);
}

void ViewAgreement::RemovePeer(int worker, int64_t now) {
  if (!hears(worker)) return;
  // The members of the view that the worker waits for may have ended that view
  // to admit it.
  if (!running() && peers_[worker].runs.generation != 0) {
    partial_view_at_ = std::max(partial_view_at_, now + 2 * options_.timeout);
    if (awaited_mask_ != 0) awaited_mask_ |= MaskOf(worker);
  }
  heard_ &= ~MaskOf(worker);
  peers_[worker] = Peer();
  changed_at_ = now;
  refused_ = 0;
  if (!running() && view_.has(worker)) Open();
  SendAndPropose(now);
}

void ViewAgreement::Tick(int64_t now) { SendAndPropose(now); }

void ViewAgreement::Linger(int64_t now) {
  lingering_ = true;
  view_.members = MaskOf(options_.worker);
  SendMembers(ViewMessage::kRuns, /*members=*/false);
  SendAndPropose(now);
}

void ViewAgreement::OnFrame(int from, const ViewFrame& frame, int64_t now) {
  if (!hears(from)) return;
  next_count_ = std::max(next_count_, ViewCount(frame.generation) + 1);
  const View view = {frame.generation, frame.workers};
  const bool ours = view.generation == view_.generation;
  switch (frame.message) {
    case ViewMessage::kHears:
      OnHeardList(from, frame, now);
      break;
    case ViewMessage::kPropose:
      OnProposal(from, view);
      break;
    case ViewMessage::kAck:
      if (state_ != State::kProposed || !ours || !view_.has(from)) break;
      acknowledged_ |= MaskOf(from);
      if (acknowledged_ == view_.members) Run();
      break;
    case ViewMessage::kStart:
      if (state_ == State::kAcknowledged && ours) {
        Run();
      } else if (!running()) {
        Refuse(from, view.generation);
      } else if (!ours) {
        Send(from, ViewMessage::kRuns, view_);
      }
      break;
    case ViewMessage::kRuns:
      if (peers_[from].runs.generation != view.generation) changed_at_ = now;
      peers_[from].runs = view;
      OnRunningView(from, view);
      break;
  }
  SendAndPropose(now);
}

void ViewAgreement::OnHeardList(int from, const ViewFrame& frame, int64_t now) {
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
    peer.waited_enough = frame.waited_enough;
    peer.acknowledges = frame.acknowledges;
  }
  if (!refuses || !view_.has(from)) return;
  if (running()) {
    departed_member_ = from;
  } else if (state_ == State::kProposed) {
    if (same) refused_ = view_.members;
    Open();
  }
}

void ViewAgreement::OnProposal(int from, const View& view) {
  if (running()) return Send(from, ViewMessage::kRuns, view_);
  if (from == LowestHeard() && !join_pending() && view.has(options_.worker) &&
      IsSubset(view.members, heard_) && HasMinWorkers(view.members)) {
    state_ = State::kAcknowledged;
    view_ = view;
    return Send(from, ViewMessage::kAck, view);
  }
  if (state_ == State::kAcknowledged &&
      ViewProposer(view_.generation) == from) {
    Open();  // the proposer has dropped that view
  }
  Refuse(from, view.generation);
}

void ViewAgreement::OnRunningView(int from, const View& view) {
  const bool ours = view.generation == view_.generation;
  if (running()) {
    if (!ours && view_.has(from)) departed_member_ = from;
    return;
  }
  const bool acknowledged = state_ == State::kAcknowledged;
  // The announcement of the acknowledged view is on its way from the proposer.
  if (view.has(options_.worker) && !(acknowledged && ours)) {
    Refuse(from, view.generation);
  }
  if (acknowledged && !ours && ViewProposer(view_.generation) == from) Open();
}

}  // namespace ringlet
