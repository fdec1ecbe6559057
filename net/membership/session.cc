// To change a Session, know that:
//   - It has five files. This one has the start, the ticks, the operations and
//     the ends. session_forming.cc forms the ring, session_views.cc has the
//     views, session_refusals.cc refused peers, session_frames.cc the effects
//     of frames.
//   - Every public method and every event with a time sets now_ first; what it
//     calls reads it.
//   - A link may be dropped in the middle of one of its own events, so
//   PeerTable
//     only closes it; DeleteDropped deletes it at the next event.
//   - Any method may call Fail while state_.live(). After the call state_ and
//   every
//     link may have changed.

#include "session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../collective/topology.h"
#include "../wire/abort.h"

namespace ringlet {
namespace {

constexpr int64_t kStartTick = 20000000;

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
      state_(generation == 1, options.min_workers > 0),
      now_(now),
      fully_connected_(IsFullyConnected(size_) || options.min_workers > 0),
      members_(size_, options.min_workers > 0),
      links_(rank_, size_, LinksOf(rank_, size_, fully_connected_), this),
      missing_(options.rank, options.addresses, options.start_timeout_seconds,
               options.min_workers),
      dialer_(options, transport, &links_, &missing_),
      informed_(options.addresses.size()),
      probes_(options.rank),
      duplicates_(size_),
      detector_(DetectorOptions(options), now),
      operations_(options, &state_, &members_, transport, &links_, &detector_),
      formation_(rank_, size_, generation, fully_connected_, &links_),
      views_(options_, generation, remaining, &state_, &members_, &links_,
             &dialer_, &detector_, this),
      trail_([owner](const TrailEvent& event) { owner->OnEvent(event); },
             size_) {
  identity_.job = options.job;
  identity_.rank = rank_;
  identity_.size = size_;
  identity_.incarnation = incarnation;
  identity_.cluster_hash = ClusterHash(options.addresses);
  identity_.timeout_ms =
      static_cast<uint32_t>(std::llround(options.timeout_seconds * 1000));
  identity_.implementation = static_cast<uint8_t>(options.implementation);
  identity_.dtype = static_cast<uint8_t>(options.wire_dtype);
  identity_.links = fully_connected_ ? 0 : 1;
  identity_.min_workers = static_cast<uint8_t>(options.min_workers);
  identity_.bytes_per_pack = static_cast<uint64_t>(options.bytes_per_pack);
}

void Session::Begin(int64_t now) {
  now_ = now;
  start_deadline_ =
      now + static_cast<int64_t>(options_.start_timeout_seconds * 1e9);
  missing_.Begin(now);
  if (state_.first_time() && options_.relay.empty()) probes_.Begin(now);
  if (options_.min_workers > 0 && state_.starting()) {
    const Status begun = views_.Begin(start_deadline_, now);
    if (!begun.ok()) Fail(begun);
  }
  const Status listening = transport_->Listen();
  if (!listening.ok() && !state_.withdrawing()) return Fail(listening);
  transport_->TickEvery(kStartTick);
  Tick(now);
}

void Session::BeginWithdrawal(const Status& why, int64_t now) {
  state_.Set(SessionState::kWithdrawing);
  withdrawal_ = why;
  links_.LinkAll();  // every other rank gets the reason
  Begin(now);
}

void Session::Notify(const std::string& line) {
  if (!line.empty()) owner_->OnNotice(line);
}

// Time.

void Session::Tick(int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  Poll(now, true);
  dialer_.ExpireHandshakes(now);
  if (state_.withdrawing()) return TickWithdrawal();
  operations_.UpdateActivity(now_);
  NoteTick();
  bool beat = false;
  const FailureDetector::Suspect suspect = detector_.Tick(now, &beat);
  if (beat) SendHeartbeats();
  if (detector_.SelfStalled(now).rank >= 0) duplicates_.ResetTimes(now);
  const int stuck = FindStuck();
  if (state_.starting()) {
    if (stuck >= 0) LosePeer(stuck, "it was connected and did not read");
    return TickStart(suspect);
  }
  HandleSuspect(suspect, stuck);
  if (state_.keeps_outside_links()) views_.Tick(now);
  if (state_.leaving() && now >= leave_deadline_) {
    for (const int r : links_.linked()) links_.Drop(r);
  }
  CheckLeft();
}

void Session::NoteTick() {
  const bool runs = state_.running();
  trail_.NoteWait(runs, detector_, now_);
  for (const int r : links_.linked()) {
    const FramedLink* const link = links_.link(r);
    trail_.NoteSilence(r, link != nullptr && link->up(), runs, timeout() / 2,
                       detector_, now_);
  }
}

void Session::SendHeartbeats() {
  FrameHeader header;
  uint8_t payload[kHeartbeatBytes + kChainEndBytes];
  EncodeHeartbeat(detector_.activity(), &header, payload,
                  fully_connected_ ? ChainEnd() : detector_.EndOfChain(now_));
  links_.SendToAll(header, payload);
  if (state_.starting()) formation_.UpdateMissing();
}

// Once the ring has formed.
void Session::HandleSuspect(const FailureDetector::Suspect& suspect,
                            int stuck) {
  if (stuck >= 0 && suspect.rank < 0) {
    const double seconds = links_.stuck_ticks(stuck) * options_.timeout_seconds;
    Lose({stuck, Cause::kStalled, seconds / 8},
         "it does not read its messages");
  }
  if (suspect.rank < 0) return;
  if (state_.running() && members_.count() == 1) {
    return;  // no rank waits
  }
  if (state_.running()) {
    Lose(suspect, "");
  } else if (state_.lingering() && suspect.rank != rank_) {
    LosePeer(suspect.rank, "");
  } else if (suspect.rank != rank_) {
    detector_.RemovePeer(suspect.rank);
    links_.Drop(suspect.rank);
  }
}

// Finds a member that does not read; -1: none.
int Session::FindStuck() {
  int stuck = -1;
  for (const int r : links_.linked()) {
    if (!links_.IsStuck(r, state_.running())) continue;
    if (state_.running() && !members_.has(r)) {
      LosePeer(r, "");
    } else {
      stuck = r;
    }
  }
  return stuck;
}

// Operations.

void Session::Start(const Call* calls, size_t count, int64_t now) {
  now_ = now;
  if (!state_.running()) return;
  for (size_t i = 0; i < count; ++i) operations_.Start(calls[i]);
  Advance();
}

void Session::TakeTurn(int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  links_.NewTurn();
  Poll(now, true);
  Advance();
}

bool Session::all_shared() const {
  for (const int r : links_.linked()) {
    const FramedLink* link = links_.link(r);
    if (members_.has(r) && (link == nullptr || !link->shared())) return false;
  }
  return state_.running();
}

void Session::Advance() {
  if (!state_.live()) return;
  bool completed = false;
  const Status status = operations_.Progress(&completed);
  if (status.code() == Code::kCorruption) {
    return Lose({operations_.faulty_worker(), Cause::kProtocol, 0},
                status.message());
  }
  if (!status.ok()) return Fail(status);
  if (completed) owner_->OnCompleted(operations_.completed());
  const int on = operations_.waiting_on();
  if (on >= 0 && members_.left(on)) {
    operations_.UpdateActivity(now_);
    Lose({on, Cause::kLeft, 0}, "it ended before this rank");
  }
}

WaitChain Session::CurrentWait(int64_t now) {
  now_ = now;
  return operations_.CurrentWait(now);
}

// Ends.

void Session::Abort(const Status& reason, int64_t now) {
  now_ = now;
  Fail(members_.FromCaller(reason), rank_);
  delivering_ = true;
  CheckDelivered();
}

void Session::CheckDelivered() {
  if (!delivering_ || !links_.drained()) return;
  delivering_ = false;
  owner_->OnDelivered();
}

void Session::Fail(const Status& status, int origin) {
  if (!state_.live()) return;
  // While a ring forms, the others get only errors that a wait cannot end, and
  // the abort of another rank. Any other error concerns this rank alone.
  const bool ran = state_.running();
  const bool sends_abort = ran || reported_by_other_ || IsPermanent(status);
  if (!trail_.noted_end())
    trail_.Note(TrailKind::kAborted, -1, status.message());
  const bool lingers = ran && views_.active() && origin != rank_ &&
                       status.code() == Code::kPeerLost;
  state_.Set(lingers ? SessionState::kLingering : SessionState::kFailed);
  members_.SetLeftBehind(status.rank() == rank_);
  operations_.Clear();
  const std::vector<uint8_t> payload = EncodeAbort(NoticeOf(status, origin));
  FrameHeader header;
  header.type = FrameType::kAbort;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  for (const int r : links_.linked()) {
    FramedLink* link = links_.link(r);
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (ran && !members_.has(r)) {
      if (!lingers) links_.Drop(r);
      continue;
    }
    // A greeted peer may count this worker as a member already. Without the
    // message it would see a connection that ended for no reason.
    const bool greeted = link->phase() == LinkPhase::kAwaitWelcome;
    if (!link->up() && !(sends_abort && greeted)) {
      if (link->phase() != LinkPhase::kLeft) links_.Drop(r);
      continue;
    }
    if (sends_abort) links_.Send(link, header, payload.data());
    if (r != status.rank() || origin >= 0) continue;
    detector_.RemovePeer(r);
    links_.Drop(r);
  }
  if (lingers) views_.Linger(now_);
  const Status known = members_.ForCaller(status);
  owner_->OnFailed(origin < 0 ? known
                              : known.Annotate("rank %d (%s) failed",
                                               members_.shown_rank(origin),
                                               address(origin)));
}

// Ends the ring: the suspect is lost.
void Session::Lose(const FailureDetector::Suspect& suspect,
                   const char* detail) {
  if (!state_.live()) return;
  trail_.NoteLost(suspect, detail, detector_, now_);
  Fail(detector_.LossError(suspect, detail));
}

void Session::Leave(int64_t now) {
  now_ = now;
  if (state_.leaving()) return;
  operations_.Clear();
  state_.Set(SessionState::kLeaving);
  leave_deadline_ = now + timeout();
  transport_->StopListening();
  links_.DropUnauthenticated(INT64_MAX);
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.sequence = operations_.completed();
  for (const int r : links_.linked()) {
    FramedLink* const link = links_.link(r);
    if (link == nullptr) continue;
    link->DropBorrowed();
    if (link->up()) {
      links_.Send(link, goodbye);
    } else if (link->phase() != LinkPhase::kLeft || link->drained()) {
      links_.Drop(r);
    }
  }
  CheckLeft();
}

void Session::CheckLeft() {
  if (!state_.leaving() || left_ || !links_.empty()) return;
  left_ = true;
  transport_->OnLeft();
}

}  // namespace ringlet
