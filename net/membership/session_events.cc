#include "session_events.h"

#include <algorithm>
#include <string>
#include <utility>

#include "../../core/base/time_units.h"

namespace ringlet {

SessionEvents::SessionEvents(std::function<void(const Event&)> sink, int size,
                             int64_t timeout_nanos)
    : sink_(std::move(sink)),
      timeout_(timeout_nanos),
      quiet_(static_cast<size_t>(size)) {}

void SessionEvents::Send(Event event) {
  sink_(event.Int("view", view_).Int("step", static_cast<int64_t>(step_)));
}

void SessionEvents::RecordView(int rank, const std::vector<int>& workers) {
  Send(Event("view").Int("rank", rank).Workers("members", workers));
}

void SessionEvents::RecordRefused(int worker, const std::string& from,
                                  const char* reason, int64_t now) {
  if (!refusals_.Admit(std::to_string(worker) + reason, now)) return;
  Send(Event("refused")
           .Worker("refused", worker)
           .Text("from", from)
           .Text("reason", reason));
}

void SessionEvents::RecordRefusedBy(int worker, const char* reason,
                                    int64_t now) {
  if (!refusals_.Admit("by " + std::to_string(worker) + reason, now)) return;
  Send(Event("refused_by").Worker("of", worker).Text("reason", reason));
}

void SessionEvents::RecordAbort(const char* reason) {
  if (!recorded_end_) Send(Event("abort").Text("reason", reason));
}

void SessionEvents::RecordLost(const FailureDetector::Suspect& suspect,
                               const char* detail,
                               const FailureDetector& detector, int64_t now) {
  Event event("loss");
  event.Workers("lost", {suspect.worker})
      .Text("reason", FailureDetector::Reason(suspect, detail));
  const int64_t heard = detector.HeardAt(suspect.worker);  // 0 for this worker
  if (heard > 0) event.Seconds("last_heard_seconds", now - heard);
  RecordEnd(std::move(event), detector, now);
}

void SessionEvents::RecordReported(int reporter, const AbortNotice& notice,
                                   const FailureDetector& detector,
                                   int64_t now) {
  const int lost = notice.origin >= 0 ? notice.origin : notice.worker;
  Event event("loss");
  if (lost >= 0) event.Workers("lost", {lost});
  event.Text("reason", notice.text).Worker("reported_by", reporter);
  RecordEnd(std::move(event), detector, now);
}

void SessionEvents::RecordEnd(Event event, const FailureDetector& detector,
                              int64_t now) {
  const Activity& activity = detector.activity();
  if (activity.waiting_on >= 0) {
    event.Worker("waiting_for", activity.waiting_on)
        .Seconds("waited_seconds", now - detector.progress_at())
        .Int("operation", static_cast<int64_t>(activity.sequence));
  }
  Send(std::move(event));
  recorded_end_ = true;
}

void SessionEvents::RecordTick(bool running, const PeerTable& links,
                               const FailureDetector& detector, int64_t now) {
  RecordWait(running, detector, now);
  for (const int r : links.linked()) {
    RecordSilence(r, links.up_link(r) != nullptr, running, detector, now);
  }
}

// All workers wait for each other in every step, so only long waits count, and
// soon after one only very long waits. After a late tick progress_at() is later
// without progress, but at least a tick ago.
void SessionEvents::RecordWait(bool running, const FailureDetector& detector,
                               int64_t now) {
  const Activity& activity = detector.activity();
  const int64_t begin = detector.progress_at();
  if (wait_.peer >= 0 && (!running || activity.waiting_on < 0 ||
                          now - begin < detector.tick_nanos())) {
    const int64_t end = begin > wait_.begin ? begin : now;
    Send(Event("waited")
             .Worker("for", wait_.peer)
             .Seconds("waited_seconds", end - wait_.begin));
    wait_ = Wait();
  }
  if (!running || activity.waiting_on < 0) return;
  const bool soon = now - waited_at_ < 10 * kSecond;
  const int64_t limit = soon ? 10 * kSecond : std::min(timeout_ / 2, kSecond);
  if (wait_.peer < 0 && now - begin < limit) return;
  const auto chain = detector.AwaitedWorkers(now);
  const int last = chain.empty() ? -1 : chain.back().worker;
  const bool same = wait_.peer == activity.waiting_on && wait_.last == last;
  if (same || (wait_.peer >= 0 && now - waited_at_ < kSecond)) return;
  wait_ = {activity.waiting_on, last, wait_.peer < 0 ? begin : wait_.begin};
  waited_at_ = now;
  Send(Event("wait")
           .Worker("for", wait_.peer)
           .Worker("last", last)
           .Seconds("waited_seconds", now - wait_.begin)
           .Int("operation", static_cast<int64_t>(activity.sequence)));
}

void SessionEvents::RecordSilence(int peer, bool linked, bool running,
                                  const FailureDetector& detector,
                                  int64_t now) {
  const int64_t silence = now - detector.HeardAt(peer);
  const bool quiet = linked && silence > timeout_ / 2;
  const auto recorded = quiet_.begin() + peer;
  if (quiet == *recorded || (!running && quiet)) return;
  *recorded = quiet;
  if (!quiet && !linked) return;
  Send(Event(quiet ? "silence" : "heard")
           .Worker("of", peer)
           .Seconds("silent_seconds", silence));
}

}  // namespace ringlet
