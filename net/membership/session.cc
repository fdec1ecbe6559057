// To change a Session, know that:
//   - Every public method and every event with a time sets now_ first; what it
//     calls reads it.
//   - A link may be dropped in the middle of one of its own events. So
//     PeerTable only closes it; DeleteDropped deletes it at the next event.
//   - Any method may call Fail while state_.live(). After the call state_ and
//     every link may have changed.
//   - Order matters at an end. All frames that a peer sent before its goodbye
//     or abort have been read by then. So Advance is called first, and may
//     complete operations. Only then is the peer gone.

#include "session.h"

#include <cmath>
#include <utility>

#include "../../core/base/time_units.h"
#include "../collective/topology.h"
#include "../wire/abort.h"

namespace ringlet {
namespace {

constexpr int64_t kStartTick = 20 * kMillisecond;

// True if every pair of workers is linked.
bool LinksAll(const RingOptions& options) {
  return IsFullyConnected(options.size()) || options.min_workers > 0;
}

FailureDetector::Options DetectorOptions(const RingOptions& options) {
  FailureDetector::Options out;
  out.worker = options.worker;
  out.timeout_nanos = Nanos(options.timeout_seconds);
  out.addresses = options.addresses;
  out.elastic = options.min_workers > 0;
  return out;
}

// Returns the error that another worker has reported.
Status ReportedError(const AbortNotice& notice, const std::string& reporter) {
  constexpr char kReportedBy[] = " (reported by ";
  std::string message = notice.text;
  if (notice.origin < 0 && message.find(kReportedBy) == std::string::npos) {
    message += kReportedBy + reporter + ")";
  }
  return notice.code == Code::kPeerLost
             ? PeerLost(notice.worker, "%s", message.c_str())
             : Error(notice.code, "%s", message.c_str());
}

}  // namespace

Identity MakeIdentity(const RingOptions& options, uint64_t incarnation) {
  Identity out;
  out.job = options.job;
  out.worker = options.worker;
  out.size = options.size();
  out.incarnation = incarnation;
  out.cluster_hash = ClusterHash(options.addresses);
  out.timeout_ms =
      static_cast<uint32_t>(std::llround(options.timeout_seconds * 1000));
  out.implementation = static_cast<uint8_t>(options.implementation);
  out.dtype = static_cast<uint8_t>(options.wire_dtype);
  out.links = LinksAll(options) ? 0 : 1;
  out.min_workers = static_cast<uint8_t>(options.min_workers);
  out.bytes_per_pack = static_cast<uint64_t>(options.bytes_per_pack);
  return out;
}

Session::Session(const RingOptions& options, uint32_t generation,
                 uint64_t incarnation, Transport* transport, Owner* owner,
                 int64_t now, uint64_t remaining_mask)
    : options_(options),
      transport_(transport),
      owner_(owner),
      worker_(options.worker),
      identity_(MakeIdentity(options, incarnation)),
      notify_([owner](const std::string& line) {
        if (!line.empty()) owner->OnNotice(line);
      }),
      state_(generation == 1, options.min_workers > 0),
      now_(now),
      members_(options.size(), options.min_workers > 0),
      links_(worker_, options.size(),
             LinksOf(worker_, options.size(), LinksAll(options)), this),
      missing_report_(worker_, options.addresses, options.start_timeout_seconds,
                      options.min_workers),
      dialer_(options, transport, &links_, &missing_report_),
      detector_(DetectorOptions(options), now),
      operations_(options, &state_, &members_, transport, &links_, &detector_),
      formation_(worker_, options.size(), generation, LinksAll(options),
                 &links_),
      parts_{options_,  identity_,  notify_, &state_,
             transport, &members_,  &links_, &missing_report_,
             &dialer_,  &detector_, &events_},
      views_(parts_, generation, remaining_mask, this),
      strangers_(parts_, this),
      handshakes_(parts_, &views_, &strangers_, this),
      withdrawals_(parts_, &strangers_, &handshakes_, this),
      shutdown_(&state_, &members_, &links_, &detector_),
      events_([owner](const Event& event) { owner->OnEvent(event); },
              options.size(), Nanos(options.timeout_seconds)) {}

// The start.

void Session::Begin(int64_t now) {
  now_ = now;
  start_deadline_ = now + Nanos(options_.start_timeout_seconds);
  missing_report_.Begin(now);
  if (state_.forms_first_ring() && options_.relay.empty()) {
    strangers_.BeginProbes(now);
  }
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
  withdrawals_.Begin(why);
  Begin(now);
}

void Session::OnAccepted(StreamPtr stream, int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  if (!state_.live() && !state_.connecting() && !state_.lingering()) return;
  links_.Accept(std::move(stream), now);
}

void Session::OnConnected(FramedLink* link, int64_t now) {
  now_ = now;
  if (state_.withdrawing()) {
    withdrawals_.SendReason(link);
  } else {
    handshakes_.Greet(link);
  }
}

void Session::OnJoined(int peer, uint32_t proposal) {
  operations_.DropUnexpected(peer);
  detector_.AddPeer(peer, now_);
  if (views_.active()) return views_.AddPeer(peer, proposal, now_);
  formation_.AddLink(peer, proposal);
  CheckFormed();
}

void Session::OnCannotForm(const Status& why, int withdrawn) {
  if (withdrawn < 0) return Fail(why);
  AbortNotice notice;
  notice.worker = withdrawn;
  notice.text = why.message();
  FailAsReported(withdrawn, notice, why);
}

// Reports what has changed, and begins when all ranks are connected.
void Session::CheckFormed(const AbortNotice* lowered) {
  if (!state_.starting()) return;
  if (!formation_.Update(lowered)) return;
  const uint32_t generation = formation_.generation();
  members_.SetFormed(generation);
  links_.SetGeneration(generation);
  detector_.SetGeneration(generation);
  events_.SetView(generation);
  OnFormed("");
}

void Session::OnFormed(const std::string& line) {
  state_.Set(SessionState::kRunning);
  SetLongWait({});
  transport_->TickEvery(detector_.tick_nanos());
  notify_(line.empty() ? missing_report_.CompletionLine(now_) : line);
  events_.RecordView(members_.rank(worker_), members_.workers());
  owner_->OnRunning();
}

void Session::OnNewView() {
  events_.SetView(ViewCount(members_.generation()));
  if (members_.count() > 0) operations_.Reset();
}

void Session::OnMemberAbsent(int member) {
  FailByLoss({member, LossCause::kLeft, 0}, "it takes no part in this view");
}

void Session::OnJoiner(bool waits) {
  if (waits) events_.RecordJoin();
  owner_->OnJoiner(waits);
}

// Time.

void Session::Tick(int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  Poll(now, /*wake=*/true);
  dialer_.ExpireHandshakes(now);
  if (state_.withdrawing()) {
    const bool all = withdrawals_.Tick(now);
    if (all || now >= start_deadline_) owner_->OnDelivered();
    return;
  }
  operations_.UpdateActivity(now);
  events_.RecordTick(state_.running(), links_, detector_, now);
  if (state_.starting()) SetLongWait(missing_report_.CurrentWait());
  if (state_.running()) {
    SetLongWait(detector_.CurrentLongWait(now, !long_wait_.workers.empty()));
  }
  bool beat = false;
  const FailureDetector::Suspect suspect = detector_.Tick(now, &beat);
  if (beat) {
    FrameHeader header;
    uint8_t payload[kHeartbeatBytes + kChainEndBytes];
    detector_.MakeHeartbeat(now, &header, payload);
    links_.SendToAll(header, payload);
    if (state_.starting()) formation_.UpdateMissing();
  }
  if (detector_.SelfStalled(now).worker >= 0) handshakes_.RecordStall(now);
  int stuck = -1;
  for (const int r : links_.TickStuck(state_.running())) {
    if (state_.running() && !members_.is_member(r)) {
      DropPeer(r, "");
    } else {
      stuck = r;
    }
  }
  if (state_.starting()) {
    if (stuck >= 0) DropPeer(stuck, "it was connected and did not read");
    return TickStart(suspect);
  }
  HandleSuspect(suspect, stuck);
  if (state_.keeps_outside_links()) views_.Tick(now);
  shutdown_.Tick(now);
  if (shutdown_.TakeLeftEvent()) transport_->OnLeft();
}

// The same wait is reported once: progress would have ended it.
void Session::SetLongWait(const LongWait& wait) {
  if (wait.workers == long_wait_.workers) return;
  long_wait_ = wait;
  owner_->OnLongWait(wait);
}

void Session::TickStart(const FailureDetector::Suspect& suspect) {
  if (suspect.worker >= 0 && suspect.worker != worker_) {
    DropPeer(suspect.worker, "it was connected and became silent");
  }
  strangers_.ResolveRefusal();
  if (views_.active() && state_.starting()) views_.Tick(now_);
  if (!state_.starting()) return;
  if (views_.active()) {
    const Status wait = views_.CheckWait(now_);
    if (!wait.ok()) return Fail(wait);
  } else {
    missing_report_.SetMissedByOthers(formation_.missing(), now_);
  }
  if (!views_.active() && now_ >= start_deadline_) {
    return Fail(Error(
        Code::kDeadlineExceeded,
        "worker %d waited %g s for the other workers; missing are %s", worker_,
        options_.start_timeout_seconds, dialer_.MissingText(now_).c_str()));
  }
  for (const int r : links_.linked()) {
    if (r > worker_) break;
    if (dialer_.IsDue(r, now_)) dialer_.Dial(r, now_);
  }
  strangers_.ProbeOne(now_);
  notify_(missing_report_.DueLine(now_,
                                  !views_.active() || !views_.join_pending()));
}

// Ends the ring because of a suspect, once the ring has formed.
void Session::HandleSuspect(const FailureDetector::Suspect& suspect,
                            int stuck) {
  if (stuck >= 0 && suspect.worker < 0) {
    const double timeouts =
        links_.stuck_ticks(stuck) / double{FailureDetector::kTicksPerTimeout};
    FailByLoss(
        {stuck, LossCause::kStalled, timeouts * options_.timeout_seconds},
        "it does not read its messages");
  }
  if (suspect.worker < 0) return;
  if (state_.running() && members_.count() == 1) {
    return;  // no rank waits
  }
  if (state_.running()) {
    FailByLoss(suspect, "");
  } else if (state_.lingering() && suspect.worker != worker_) {
    DropPeer(suspect.worker, "");
  } else if (suspect.worker != worker_) {
    detector_.RemovePeer(suspect.worker);
    links_.Drop(suspect.worker);
  }
}

// Operations.

void Session::Start(const Call* calls, size_t count, int64_t now) {
  now_ = now;
  if (!state_.running()) return;
  operations_.SetTime(now);
  for (size_t i = 0; i < count; ++i) operations_.Start(calls[i]);
  Advance();
}

void Session::RunTurn(int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  links_.BeginTurn();
  Poll(now, /*wake=*/true);
  Advance();
}

bool Session::all_shared() const {
  for (const int r : links_.linked()) {
    const FramedLink* link = links_.link(r);
    if (members_.is_member(r) && (link == nullptr || !link->shared()))
      return false;
  }
  return state_.running();
}

void Session::Advance() {
  if (!state_.live()) return;
  bool completed = false;
  operations_.SetTime(now_);
  const Status status = operations_.Progress(&completed);
  if (status.code() == Code::kCorruption) {
    return FailByLoss({operations_.faulty_worker(), LossCause::kProtocol, 0},
                      status.message());
  }
  if (!status.ok()) return Fail(status);
  if (completed) {
    owner_->OnCompleted(operations_.completed());
    SetLongWait({});
  }
  const int awaited = operations_.waiting_on();
  if (awaited >= 0 && members_.left(awaited)) {
    operations_.UpdateActivity(now_);
    FailByLoss({awaited, LossCause::kLeft, 0}, "it ended before this rank");
  }
}

WaitChain Session::CurrentWait(int64_t now) {
  now_ = now;
  return operations_.CurrentWait(now);
}

void Session::SetStep(uint64_t step) {
  operations_.SetStep(step);
  links_.SetStep(step);
  events_.SetStep(step);
}

uint32_t Session::newest_generation() const {
  return views_.active() ? views_.proposal() - 1 : generation();
}

// Frames.

void Session::OnHeard(FramedLink* link, int64_t now) {
  now_ = now;
  links_.DeleteDropped();
  if (link->up()) detector_.RecordHeard(link->peer, now);
}

void Session::OnSent(FramedLink*, uint64_t sequence) {
  operations_.OnSent(sequence);
}

Status Session::OnHeader(FramedLink* link, const FrameHeader& header,
                         ReceiveTarget* receive_target) {
  receive_target->mode = ReceiveTarget::kBuffer;
  link->skips_frame = false;
  if (!link->up()) return Status();
  if (header.source != link->peer || header.destination != worker_) {
    return Corruption("a frame from worker %d to worker %d came from worker %d",
                      header.source, header.destination, link->peer);
  }
  if (members_.IsStale(link->peer, header, state_.lingering())) {
    link->skips_frame = true;
    receive_target->mode = ReceiveTarget::kDiscard;
    return Status();
  }
  if (!IsOperation(header.type) && header.type != FrameType::kReady)
    return Status();
  receive_target->mode = ReceiveTarget::kDiscard;
  if (!state_.live()) return Status();
  const Status status =
      operations_.OnHeader(link->peer, header, receive_target);
  if (status.code() != Code::kInvalidArgument) return status;
  // Differing calls are not a protocol error. The link stays, so that the abort
  // can be sent.
  receive_target->mode = ReceiveTarget::kDiscard;
  Fail(status);
  return Status();
}

Status Session::OnFrame(FramedLink* link, const FrameHeader& header,
                        const uint8_t* payload) {
  // The ring may have changed between the frame's header and its end. A skipped
  // frame has no payload.
  if (link->up() &&
      (link->skips_frame ||
       members_.IsStale(link->peer, header, state_.lingering()))) {
    return Status();
  }
  switch (header.type) {
    case FrameType::kHello:
      return state_.withdrawing()
                 ? withdrawals_.OnHello(link, header, payload)
                 : handshakes_.OnHello(link, header, payload, now_);
    case FrameType::kWelcome:
      return state_.withdrawing()
                 ? withdrawals_.OnWelcome(link, header, payload)
                 : handshakes_.OnWelcome(link, header, payload, now_);
    case FrameType::kReject:
      return handshakes_.OnReject(link, header, payload, now_);
    case FrameType::kWithdraw:
      return withdrawals_.OnWithdraw(link, header, payload, now_);
    case FrameType::kHeartbeat:
      return detector_.OnHeartbeatFrame(link->peer, header, payload, now_);
    case FrameType::kFormationReport:
      return OnFormationReport(link, header, payload);
    case FrameType::kView:
      return views_.OnFrame(link->peer, header, payload, now_);
    case FrameType::kGoodbye:
      OnGoodbye(link, header.sequence);
      return Status();
    case FrameType::kAbort:
      OnAbort(link, payload, header.payload_bytes);
      return Status();
    default:
      break;
  }
  if (!state_.live()) return Status();
  const Status status = operations_.OnFrame(link->peer, header, payload);
  if (status.code() != Code::kInvalidArgument) return status;
  Fail(status);  // the calls differ
  return Status();
}

void Session::OnTurn(FramedLink* link, int64_t now) {
  now_ = now;
  if (link->unfinished()) transport_->RequestTurn();
  if (link->phase() == LinkPhase::kLeft && link->drained()) {
    links_.Drop(link->peer);
  }
  Advance();
  if (shutdown_.TakeDeliveredEvent()) owner_->OnDelivered();
  if (shutdown_.TakeLeftEvent()) transport_->OnLeft();
}

Status Session::OnFormationReport(FramedLink* link, const FrameHeader& header,
                                  const uint8_t* payload) {
  const int peer = link->peer;
  FormationReport report;
  RINGLET_RETURN_IF_ERROR(formation_.Decode(peer, header, payload, &report));
  if (!state_.live()) return Status();
  if (!report.lowered) {
    const Status lost = detector_.LossError({peer, LossCause::kLeft, 0}, "");
    report.why = {lost.code(), peer, -1, lost.message()};
  }
  formation_.SetReport(peer, report);
  if (state_.starting()) {
    CheckFormed(&report.why);
  } else if (formation_.HasDeparted(peer)) {
    FailAsReported(peer, report.why,
                   ReportedError(report.why, members_.WorkerName(peer)));
  } else if (formation_.IsInOtherGeneration(report, generation())) {
    FailByLoss({peer, LossCause::kLeft, 0}, "it is in another ring");
  }
  return Status();
}

// Peers that leave, fail or are lost.

void Session::OnGoodbye(FramedLink* link, uint64_t completed) {
  Advance();
  if (link->closed()) return;
  const int peer = link->peer;
  if (state_.starting()) {
    return DropPeer(peer, "it was connected and aborted");
  }
  const bool join_pending = state_.running() && !members_.is_member(peer);
  if (join_pending || state_.lingering()) return DropPeer(peer, "");
  events_.RecordLeave(peer);
  members_.SetLeft(peer);
  detector_.RemovePeer(peer);
  link->SetPhase(LinkPhase::kLeft);
  // completed == 0: the peer left before its ring had formed. Its process may
  // connect again and wait for this rank, so this rank's ring has ended.
  // `needed` is true if the peer left within an operation. Then the frames that
  // wait for the peer may be of that operation. Otherwise they are heartbeats.
  const bool needed = operations_.NeedsWorkerAt(completed) && !link->drained();
  if (state_.running() && (completed == 0 || needed)) {
    operations_.UpdateActivity(now_);
    return FailByLoss({peer, LossCause::kLeft, 0}, "");
  }
  // The peer reads no more, and waits until this end is closed.
  if (!state_.leaving() || link->drained()) {
    links_.Drop(peer);
  }
}

void Session::OnAbort(FramedLink* link, const uint8_t* payload, size_t bytes) {
  Advance();
  AbortNotice notice;
  const int peer = link->peer;
  members_.SetAborted(peer);
  const bool joining = state_.running() && !members_.is_member(peer);
  if (!state_.live() || joining ||
      !DecodeAbort(payload, bytes, options_.size(), peer, &notice)) {
    return;
  }
  const std::string& text = notice.text;
  if (state_.starting() && notice.code == Code::kPeerLost) {
    // The peer's ring ended before this rank's had formed. Both form the next
    // one.
    return DropPeer(peer, "it was connected and lost another worker", &notice);
  }
  if (state_.starting() && !state_.forms_first_ring() &&
      IsPermanent(Error(notice.code, "%s", text.c_str()))) {
    return DropPeer(peer, "it was connected and failed: " + text, &notice);
  }
  FailAsReported(peer, notice,
                 ReportedError(notice, members_.WorkerName(peer)));
}

Session::DownKind Session::ClassifyDown(const FramedLink& link, LossCause cause,
                                        const Status& why) const {
  if (link.is_probe) return DownKind::kProbe;
  const bool breaks_protocol = cause == LossCause::kProtocol;
  const bool other_version =
      breaks_protocol && why.code() == Code::kUnimplemented;
  if (link.peer < 0 || links_.link(link.peer) != &link) {
    if (other_version) return DownKind::kVersionOfStranger;
    return breaks_protocol ? DownKind::kProtocolOfStranger
                           : DownKind::kEndOfStranger;
  }
  const bool by_tcp = !link.stream().is_local();
  const bool ends_wait = state_.starting() && state_.forms_first_ring() &&
                         !link.up() && by_tcp && other_version;
  return ends_wait ? DownKind::kVersionOfPeer : DownKind::kPeer;
}

void Session::OnDown(FramedLink* link, LossCause cause, const Status& why,
                     int64_t now) {
  now_ = now;
  const int peer = link->peer;
  switch (ClassifyDown(*link, cause, why)) {
    case DownKind::kProbe:
      return strangers_.ProbeEnded(link, cause, why);
    case DownKind::kVersionOfStranger:
      return strangers_.RefuseVersion(link, why, now);
    case DownKind::kProtocolOfStranger:
      return strangers_.Reject(link, why, now,
                               {-1, /*final=*/false, /*quiet=*/true});
    case DownKind::kEndOfStranger:
      return links_.DropUnauthenticated(link);
    case DownKind::kVersionOfPeer:
      detector_.RemovePeer(peer);
      links_.Drop(peer);
      Fail(InvalidArgument("worker %d (%s): %s", peer,
                           options_.addresses[peer].c_str(), why.message()));
      break;
    case DownKind::kPeer:
      OnPeerDown(*link, cause, why);
      break;
  }
  if (shutdown_.TakeDeliveredEvent()) owner_->OnDelivered();
  if (shutdown_.TakeLeftEvent()) transport_->OnLeft();
}

void Session::OnPeerDown(const FramedLink& link, LossCause cause,
                         const Status& why) {
  const int peer = link.peer;
  const bool was_up = link.up();
  // A connection that ends without a goodbye means an ended process, unless the
  // peer is not in this view yet, or has this worker's goodbye.
  const bool said_goodbye = state_.leaving() && !events_.recorded_end();
  if (was_up && cause == LossCause::kExited && operations_.completed() > 0 &&
      !said_goodbye) {
    members_.SetEnded(peer);
  }
  const bool may_have_key = !was_up && !link.stream().is_local() &&
                            cause == LossCause::kExited &&
                            options_.keys == nullptr;
  // A running member gets the reason. Without it the closed connection would
  // look like this process's end.
  const bool gets_reason = was_up && cause == LossCause::kProtocol &&
                           members_.is_member(peer) && state_.running() &&
                           detector_.SelfStalled(now_).worker < 0;
  if (!gets_reason) {
    detector_.RemovePeer(peer);
    links_.Drop(peer);
  }
  OnLinkLost(peer, was_up, cause,
             may_have_key ? why.Annotate("it may have a key (RINGLET_KEY_FILE),"
                                         " and this worker has none")
                          : why);
}

void Session::OnLinkLost(int peer, bool was_up, LossCause cause,
                         const Status& why) {
  if (state_.connecting() && !was_up) {
    dialer_.Redial(peer, why.message(), now_);
  } else if (state_.connecting()) {
    const Status lost = detector_.LossError({peer, cause, 0}, why.message());
    const AbortNotice notice = {lost.code(), peer, -1, lost.message()};
    DropPeer(peer, "it was connected and its connection ended", &notice);
  } else if ((state_.running() && !members_.is_member(peer)) ||
             state_.lingering()) {
    DropPeer(peer, why.message());
  } else if (state_.running() && was_up) {
    operations_.UpdateActivity(now_);
    const FailureDetector::Suspect self = detector_.SelfStalled(now_);
    if (self.worker >= 0) {
      FailByLoss(self, "");
    } else {
      FailByLoss({peer, cause, 0}, why.message());
    }
  }
}

void Session::DropPeer(int peer, const std::string& why,
                       const AbortNotice* notice) {
  if (views_.active()) return views_.DropPeer(peer, why, now_);
  detector_.RemovePeer(peer);
  links_.Drop(peer);
  dialer_.Redial(peer, why, now_);
  formation_.RemoveLink(peer);
  if (notice != nullptr) return CheckFormed(notice);
  const Status lost =
      detector_.LossError({peer, LossCause::kExited, 0}, why.c_str());
  const AbortNotice exited = {lost.code(), peer, -1, lost.message()};
  CheckFormed(&exited);
}

// Ends.

void Session::Abort(const Status& reason, int64_t now) {
  now_ = now;
  Fail(members_.FromCaller(reason), worker_);
  shutdown_.AwaitDelivery();
  if (shutdown_.TakeDeliveredEvent()) owner_->OnDelivered();
}

void Session::Fail(const Status& status, int origin) {
  if (!state_.live()) return;
  // While a ring forms, the other workers get only errors that a wait cannot
  // end, and the abort of another rank. Any other error concerns this rank
  // alone.
  const bool ran = state_.running();
  const bool sends_abort = ran || reported_by_other_ || IsPermanent(status);
  events_.RecordAbort(status.message());
  const bool lingers = ran && views_.active() && origin != worker_ &&
                       status.code() == Code::kPeerLost;
  state_.Set(lingers ? SessionState::kLingering : SessionState::kFailed);
  members_.SetLeftBehind(status.rank() == worker_);
  operations_.Clear();
  const int lost = origin < 0 ? status.rank() : -1;
  const bool ended = lost >= 0 && members_.ended(lost);
  shutdown_.SendAbort(
      {status.code(), status.rank(), origin, status.message(), ended}, ran,
      sends_abort);
  if (lingers) views_.Linger(now_);
  const Status known = members_.ForCaller(status);
  owner_->OnFailed(origin < 0
                       ? known
                       : known.Annotate("%s (%s) failed",
                                        members_.WorkerName(origin).c_str(),
                                        options_.addresses[origin].c_str()));
}

void Session::FailByLoss(const FailureDetector::Suspect& suspect,
                         const char* detail) {
  if (!state_.live()) return;
  events_.RecordLost(suspect, detail, detector_, now_);
  Fail(detector_.LossError(suspect, detail));
}

// In a large ring several ranks may send the report. The first one counts.
void Session::FailAsReported(int reporter, const AbortNotice& notice,
                             const Status& why) {
  operations_.UpdateActivity(now_);
  events_.RecordReported(reporter, notice, detector_, now_);
  // Fail closes this worker's own link to the lost rank before its end is seen.
  // So the end is recorded here.
  if (notice.ended && notice.worker != worker_ && operations_.completed() > 0) {
    members_.SetEnded(notice.worker);
  }
  reported_by_other_ = true;
  Fail(why, notice.origin);
}

void Session::Leave(int64_t now) {
  now_ = now;
  if (state_.leaving()) return;
  operations_.Clear();
  state_.Set(SessionState::kLeaving);
  transport_->StopListening();
  shutdown_.SendGoodbye(operations_.completed(),
                        now + Nanos(options_.timeout_seconds));
  if (shutdown_.TakeLeftEvent()) transport_->OnLeft();
}

}  // namespace ringlet
