// What must be known to change a Session:
//   - It is spread over six files: this one has its life, session_forming.cc
//     how workers meet, session_views.cc who of them takes part,
//     session_refusals.cc who is turned away, session_frames.cc what frames
//     do, and session_trail.cc what the worker's trail is told.
//   - Every public method and every event with a time sets now_ first; what it
//     calls reads it.
//   - A link may be dropped in the middle of one of its own events, so DropLink
//     only closes it; it is deleted at the next event.
//   - Fail may be called from anywhere that is live(): afterwards callers must
//     not expect state_ or any link to be as before.

#include "session.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "../wire/abort.h"
#include "topology.h"

namespace ringlet {
namespace {

constexpr int64_t kStartTick = 20000000;

Algorithm AlgorithmOf(RingImplementation implementation) {
  switch (implementation) {
    case RingImplementation::kRing:
      return Algorithm::kRing;
    case RingImplementation::kTree:
      return Algorithm::kTree;
    case RingImplementation::kAuto:
      break;
  }
  return Algorithm::kAuto;
}

FailureDetector::Options DetectorOptions(const RingOptions& options) {
  FailureDetector::Options out;
  out.rank = options.rank;
  out.timeout_nanos = static_cast<int64_t>(options.timeout_seconds * 1e9);
  out.addresses = options.addresses;
  out.elastic = options.min_workers > 0;
  return out;
}

}  // namespace

Session::Session(const RingOptions& options, uint32_t generation,
                 uint64_t incarnation, Transport* transport, Owner* owner,
                 int64_t now, uint64_t remaining)
    : options_(options),
      transport_(transport),
      owner_(owner),
      rank_(options.rank),
      size_(options.size()),
      proposal_(generation),
      now_(now),
      every_pair_(EveryPair(size_) || options.min_workers > 0),
      links_(LinksOf(rank_, size_, every_pair_)),
      workers_(options.addresses.size()),
      expected_(remaining),
      meeting_(rank_, size_, generation),
      roll_(options.rank, options.addresses, options.start_timeout_seconds,
            options.min_workers),
      peers_(options.addresses.size()),
      detector_(DetectorOptions(options), now),
      schedule_(rank_, size_, AlgorithmOf(options.implementation),
                options.wire_dtype, this) {
  std::iota(workers_.begin(), workers_.end(), 0);
  rank_of_ = workers_;
  identity_.job = options.job;
  identity_.rank = rank_;
  identity_.size = size_;
  identity_.incarnation = incarnation;
  identity_.cluster_hash = ClusterHash(options.addresses);
  identity_.timeout_ms =
      static_cast<uint32_t>(std::llround(options.timeout_seconds * 1000));
  identity_.implementation = static_cast<uint8_t>(options.implementation);
  identity_.dtype = static_cast<uint8_t>(options.wire_dtype);
  identity_.links = every_pair_ ? 0 : 1;
  identity_.min_workers = static_cast<uint8_t>(options.min_workers);
  identity_.bytes_per_pack = static_cast<uint64_t>(options.bytes_per_pack);
}

void Session::Begin(int64_t now) {
  now_ = now;
  start_deadline_ =
      now + static_cast<int64_t>(options_.start_timeout_seconds * 1e9);
  roll_.Begin(now);
  if (options_.min_workers > 0 && state_ == State::kStarting) BeginViews();
  const Status listening = transport_->Listen();
  if (!listening.ok() && state_ != State::kWithdrawing) return Fail(listening);
  transport_->TickEvery(kStartTick);
  Tick(now);
}

void Session::BeginWithdrawal(const Status& why, int64_t now) {
  state_ = State::kWithdrawing;
  withdrawal_ = why;
  links_.clear();  // whatever the topology: every other is to know
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) links_.push_back(r);
  }
  Begin(now);
}

void Session::Say(const std::string& line) {
  if (!line.empty()) owner_->OnNotice(line);
}

// Time.

void Session::Tick(int64_t now) {
  now_ = now;
  dropped_.clear();
  Poll(now, true);
  ExpireHandshakes();
  if (state_ == State::kWithdrawing) return TickWithdrawal();
  UpdateActivity();
  NoteWaits();
  bool beat = false;
  const FailureDetector::Suspect suspect = detector_.Tick(now, &beat);
  if (beat) Beat();
  ExcuseRivals();
  const int stuck = FindStuck();
  if (state_ == State::kStarting) {
    if (stuck >= 0) LoseAndRedial(stuck, "it was there and did not read");
    return TickStart(suspect);
  }
  Suspects(suspect, stuck);
  if ((state_ == State::kRunning && agreement_ != nullptr) || stands()) {
    TickViews();
  }
  if (state_ == State::kLeaving && now >= leave_deadline_) {
    for (const int r : links_) DropLink(&peers_[r].link);
  }
  CheckLeft();
}

void Session::Beat() {
  FrameHeader header;
  uint8_t payload[kHeartbeatBytes + kChainEndBytes];
  EncodeHeartbeat(detector_.activity(), &header, payload,
                  every_pair_ ? ChainEnd() : detector_.EndOfChain(now_));
  for (const int r : links_) {
    FramedLink* link = peers_[r].link.get();
    if (link != nullptr && link->up()) SendTo(link, header, payload, false);
  }
  if (state_ != State::kStarting || every_pair_) return;
  const Met met = meeting_.Mine();
  if (met.missing != told_.missing) TellMet(met);
}

// Once the ring has formed.
void Session::Suspects(const FailureDetector::Suspect& suspect, int stuck) {
  if (stuck >= 0 && suspect.rank < 0) {
    const double seconds = peers_[stuck].stuck_ticks * options_.timeout_seconds;
    Lose({stuck, Cause::kStalled, seconds / 8},
         "it does not read what it is sent");
  }
  if (suspect.rank < 0) return;
  if (state_ == State::kRunning && workers_.size() == 1)
    return;  // nobody waits
  if (state_ == State::kRunning) {
    Lose(suspect, "");
  } else if (stands() && suspect.rank != rank_) {
    LoseVisitor(suspect.rank, "");
  } else if (suspect.rank != rank_) {
    detector_.Gone(suspect.rank);
    DropLink(&peers_[suspect.rank].link);
  }
}

// A member that takes nothing of what waits for it, for 1.5 T of this worker's
// own time: it may still beat, and so look as if it computed. -1: none.
int Session::FindStuck() {
  constexpr int kMostTicks = 12;  // of T/8
  int stuck = -1;
  for (const int r : links_) {
    Peer& p = peers_[r];
    if (state_ != State::kRunning || p.link == nullptr || !p.link->up() ||
        p.link->drained() || p.link->taken_bytes() != p.taken_bytes) {
      p.stuck_ticks = 0;
    } else {
      ++p.stuck_ticks;
    }
    p.taken_bytes = p.link == nullptr ? 0 : p.link->taken_bytes();
    const bool overflowed = p.link != nullptr && p.link->overflowed();
    if (p.stuck_ticks <= kMostTicks && !overflowed) continue;
    if (state_ == State::kRunning && !member(r)) {
      LoseVisitor(r, "");
    } else {
      stuck = r;
    }
  }
  return stuck;
}

// Operations.

void Session::Start(const Call* calls, size_t count, int64_t now) {
  now_ = now;
  if (state_ != State::kRunning) return;
  for (size_t i = 0; i < count; ++i) schedule_.Start(calls[i]);
  Advance();
}

void Session::TakeTurn(int64_t now) {
  now_ = now;
  dropped_.clear();
  for (const int r : links_) {
    if (peers_[r].link != nullptr) peers_[r].link->NewTurn();
  }
  Poll(now, true);
  Advance();
}

bool Session::Poll(int64_t now, bool wake) {
  bool moved = false;
  for (const int r : links_) {
    FramedLink* const link = peers_[r].link.get();
    moved = (link != nullptr && link->Poll(now, wake)) || moved;
  }
  return moved;
}

bool Session::all_shared() const {
  for (const int r : links_) {
    const FramedLink* link = peers_[r].link.get();
    if (member(r) && (link == nullptr || !link->shared())) return false;
  }
  return state_ == State::kRunning;
}

void Session::Advance() {
  if (!live()) return;
  const Status status = schedule_.Progress();
  if (status.code() == Code::kCorruption) {
    const int culprit = workers_[schedule_.culprit()];
    return Lose({culprit, Cause::kProtocol, 0}, status.message());
  }
  if (!status.ok()) return Fail(status);
  if (schedule_.completed() != completed_) {
    completed_ = schedule_.completed();
    owner_->OnCompleted(completed_);
  }
  if (schedule_.idle()) return;
  const int waiting_on = schedule_.waiting_on();
  const int on = waiting_on < 0 ? -1 : workers_[waiting_on];
  if (on >= 0 && peers_[on].left) {
    UpdateActivity();
    Lose({on, Cause::kLeft, 0}, "it ended before this rank");
  }
}

void Session::UpdateActivity() {
  Activity activity;
  activity.step = step_;
  activity.sequence = completed_;
  if (live() && !schedule_.idle()) {
    activity.sequence = completed_ + 1;
    activity.type = schedule_.waiting_type();
    const int on = schedule_.waiting_on();
    activity.waiting_on = on < 0 ? -1 : workers_[on];
  }
  detector_.SetActivity(activity, schedule_.moved_bytes(), now_);
}

Waiting Session::WaitsFor(int64_t now) {
  now_ = now;
  UpdateActivity();
  Waiting out = detector_.WaitsFor(now);
  const auto rank = [this](int* worker) {
    if (*worker >= 0) *worker = RankOf(*worker);
  };
  rank(&out.rank);
  rank(&out.activity.waiting_on);
  for (Waiting::Other& other : out.chain) {
    rank(&other.rank);
    rank(&other.activity.waiting_on);
  }
  return out;
}

// Ends.

void Session::Abort(const Status& reason, int64_t now) {
  now_ = now;
  Fail(FromCaller(reason), rank_);
  telling_ = true;
  CheckTold();
}

void Session::CheckTold() {
  if (!telling_) return;
  for (const int r : links_) {
    const FramedLink* link = peers_[r].link.get();
    if (link != nullptr && !link->drained()) return;
  }
  telling_ = false;
  owner_->OnTold();
}

void Session::Fail(const Status& status, int origin) {
  if (!live()) return;
  // While the workers meet others may do so without this rank, but for what no
  // wait mends, and for what ended another's ring: that was theirs too.
  const bool ran = state_ == State::kRunning;
  const bool tell = ran || told_by_other_ || IsPermanent(status);
  if (!noted_end_) Note(TrailKind::kAborted, -1, status.message());
  state_ = State::kFailed;
  stands_ = ran && agreement_ != nullptr && origin != rank_ &&
            status.code() == Code::kPeerLost;
  missed_ = status.rank() == rank_;
  schedule_.Clear();
  const std::vector<uint8_t> payload = EncodeAbort(NoticeOf(status, origin));
  FrameHeader header;
  header.type = FrameType::kAbort;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  for (const int r : links_) {
    FramedLink* link = peers_[r].link.get();
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (ran && !member(r)) {
      if (!stands_) DropLink(&peers_[r].link);
      continue;
    }
    // One that it has greeted may take it for a member already, and would find
    // it gone without a word.
    const bool greeted = link->phase() == LinkPhase::kAwaitWelcome;
    if (!link->up() && !(tell && greeted)) {
      if (link->phase() != LinkPhase::kLeft) DropLink(&peers_[r].link);
      continue;
    }
    if (tell) SendTo(link, header, payload.data(), false);
    if (r != status.rank() || origin >= 0) continue;
    detector_.Gone(r);
    DropLink(&peers_[r].link);
  }
  if (stands_) Stand();
  const Status known = ForCaller(status);
  owner_->OnFailed(origin < 0
                       ? known
                       : known.Annotate("rank %d (%s) failed", RankOf(origin),
                                        address(origin)));
}

void Session::Leave(int64_t now) {
  now_ = now;
  if (state_ == State::kLeaving) return;
  schedule_.Clear();
  state_ = State::kLeaving;
  leave_deadline_ = now + timeout();
  transport_->StopListening();
  for (std::unique_ptr<FramedLink>& link : unauthenticated_) DropLink(&link);
  unauthenticated_.clear();
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.sequence = completed_;
  for (const int r : links_) {
    Peer& p = peers_[r];
    if (p.link == nullptr) continue;
    p.link->DropBorrowed();
    if (p.link->up()) {
      SendTo(p.link.get(), goodbye, nullptr, false);
    } else if (p.link->phase() != LinkPhase::kLeft || p.link->drained()) {
      DropLink(&p.link);
    }
  }
  CheckLeft();
}

void Session::CheckLeft() {
  if (state_ != State::kLeaving || left_) return;
  for (const int r : links_) {
    if (peers_[r].link != nullptr) return;
  }
  left_ = true;
  transport_->OnLeft();
}

void Session::DropLink(std::unique_ptr<FramedLink>* link) {
  if (*link == nullptr) return;
  (*link)->Close();
  dropped_.push_back(std::move(*link));
}

void Session::DropUnauthenticated(FramedLink* link) {
  for (auto it = unauthenticated_.begin(); it != unauthenticated_.end(); ++it) {
    if (it->get() != link) continue;
    DropLink(&*it);
    unauthenticated_.erase(it);
    return;
  }
}

}  // namespace ringlet
