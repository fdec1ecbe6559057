// SessionEvents: the events of a session for the worker's event log.
//
// Pure. It owns the record of the present wait and silences that the log
// already has. The Session calls it for each event and tick. Events name
// workers by their numbers in the list, also where ranks differ.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_EVENTS_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_EVENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../../core/base/events.h"
#include "../wire/abort.h"
#include "failure_detector.h"
#include "peer_table.h"
#include "refusal_limits.h"

namespace ringlet {

class SessionEvents {
 public:
  // `sink` gets each event. `size` is the number of workers in the list.
  SessionEvents(std::function<void(const Event&)> sink, int size,
                int64_t timeout_nanos);

  // Later events are of this step, or of this view.
  void SetStep(uint64_t step) { step_ = step; }
  void SetView(uint32_t view) { view_ = view; }

  void RecordView(int rank, const std::vector<int>& workers);
  void RecordLeave(int peer) { Send(Event("leave").Worker("left", peer)); }
  void RecordJoin() { Send(Event("join")); }
  // Records that a connection from the address `from` was refused, if the
  // RefusalLimits permit the event. `worker` is the number that the connection
  // has given, or -1.
  void RecordRefused(int worker, const std::string& from, const char* reason,
                     int64_t now);
  // Records that `worker` refused this worker's connection, within the same
  // limits.
  void RecordRefusedBy(int worker, const char* reason, int64_t now);
  // Records that this worker gives up.
  void RecordAbort(const char* reason);
  // Records the cause of the session's end: a loss that this worker has
  // detected, or a failure that another worker has reported. Both events
  // include what this worker waited for.
  void RecordLost(const FailureDetector::Suspect& suspect, const char* detail,
                  const FailureDetector& detector, int64_t now);
  void RecordReported(int reporter, const AbortNotice& notice,
                      const FailureDetector& detector, int64_t now);
  // True after RecordLost and RecordReported.
  bool recorded_end() const { return recorded_end_; }

  // For every tick. Records a long wait, with the worker that this one waits
  // for and the last worker of its chain, and its end. Also records each linked
  // peer that was not heard for half of the timeout, or is heard again.
  // Unless `running`, waits and silences do not count, but their ends do.
  void RecordTick(bool running, const PeerTable& links,
                  const FailureDetector& detector, int64_t now);

 private:
  // A wait of which the log has an event.
  struct Wait {
    int peer = -1, last = -1;
    int64_t begin = 0;
  };

  void Send(Event event);
  void RecordEnd(Event event, const FailureDetector& detector, int64_t now);
  void RecordWait(bool running, const FailureDetector& detector, int64_t now);
  void RecordSilence(int peer, bool linked, bool running,
                     const FailureDetector& detector, int64_t now);

  const std::function<void(const Event&)> sink_;
  const int64_t timeout_;
  uint64_t step_ = 0;
  uint32_t view_ = 0;
  bool recorded_end_ = false;
  Wait wait_;                          // its peer is -1 if there is none
  int64_t waited_at_ = INT64_MIN / 2;  // the time of the last wait's event
  // True for a worker with a recorded silence.
  std::vector<bool> quiet_;
  RefusalLimits refusals_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_EVENTS_H_
