#include "session_trail.h"

#include <string>
#include <utility>

namespace ringlet {

SessionTrail::SessionTrail(std::function<void(const TrailEvent&)> sink,
                           int size)
    : sink_(std::move(sink)), quiet_(static_cast<size_t>(size)) {}

void SessionTrail::Send(TrailEvent event) {
  event.step = step_;
  event.generation = generation_;
  sink_(event);
}

void SessionTrail::Record(TrailKind kind, int peer, const char* text) {
  TrailEvent event;
  event.kind = kind;
  event.peer = peer;
  event.text = text;
  Send(event);
}

void SessionTrail::RecordFormed(const std::vector<int>& workers) {
  std::string members;
  for (const int worker : workers) {
    members += (members.empty() ? "" : " ") + std::to_string(worker);
  }
  TrailEvent event;
  event.kind = TrailKind::kFormed;
  event.code = static_cast<int>(workers.size());
  event.text = members.c_str();
  Send(event);
}

void SessionTrail::RecordLost(const FailureDetector::Suspect& suspect,
                              const char* detail,
                              const FailureDetector& detector, int64_t now) {
  const std::string reason = FailureDetector::Reason(suspect, detail);
  TrailEvent event;
  event.kind = TrailKind::kLost;
  event.peer = suspect.worker;
  event.text = reason.c_str();
  RecordEnd(event, detector, now);
}

void SessionTrail::RecordReported(int reporter, const AbortNotice& notice,
                                  const FailureDetector& detector,
                                  int64_t now) {
  TrailEvent event;
  event.kind = TrailKind::kReported;
  event.peer = notice.origin >= 0 ? notice.origin : notice.worker;
  event.code = reporter;
  event.text = notice.text.c_str();
  RecordEnd(event, detector, now);
}

void SessionTrail::RecordEnd(TrailEvent event, const FailureDetector& detector,
                             int64_t now) {
  event.operation = detector.activity().sequence;
  event.other = detector.activity().waiting_on;
  event.nanos = now - detector.progress_at();
  Send(event);
  recorded_end_ = true;
}

void SessionTrail::RecordTick(bool running, const PeerTable& links,
                              int64_t limit, const FailureDetector& detector,
                              int64_t now) {
  RecordWait(running, detector, now);
  for (const int r : links.linked()) {
    RecordSilence(r, links.up_link(r) != nullptr, running, limit, detector,
                  now);
  }
}

// Waits shorter than a tick are not recorded, because all workers wait for each
// other in every step.
void SessionTrail::RecordWait(bool running, const FailureDetector& detector,
                              int64_t now) {
  const Activity& activity = detector.activity();
  const int64_t still = now - detector.progress_at();
  const bool waits =
      running && activity.waiting_on >= 0 && still >= detector.tick_nanos();
  TrailEvent event;
  event.kind = waits ? TrailKind::kWaits : TrailKind::kWaited;
  if (waits) {
    const auto chain = detector.AwaitedWorkers(now);
    event.operation = activity.sequence;
    event.peer = activity.waiting_on;
    event.other = chain.empty() ? -1 : chain.back().worker;
    event.nanos = still;
  }
  const bool other = event.kind != wait_.kind ||
                     event.operation != wait_.operation ||
                     event.peer != wait_.peer || event.other != wait_.other;
  if (other && (waits || wait_.kind == TrailKind::kWaits)) Send(event);
  wait_ = event;
}

void SessionTrail::RecordSilence(int peer, bool linked, bool running,
                                 int64_t limit, const FailureDetector& detector,
                                 int64_t now) {
  const int64_t silence = now - detector.HeardAt(peer);
  const bool quiet = linked && silence > limit;
  const auto recorded = quiet_.begin() + peer;
  if (quiet == *recorded || (!running && quiet)) return;
  *recorded = quiet;
  if (!quiet && !linked) return;
  TrailEvent event;
  event.kind = quiet ? TrailKind::kQuiet : TrailKind::kHeard;
  event.peer = peer;
  event.nanos = silence;
  Send(event);
}

}  // namespace ringlet
