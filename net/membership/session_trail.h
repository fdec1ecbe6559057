// SessionTrail: the events of a session for the worker's trail.
//
// Pure. It owns what the trail has already of the present wait and silences.
// The Session calls it for each event and tick. Events name workers by their
// numbers in the list, also where ranks differ.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "../../core/base/trail.h"
#include "../wire/abort.h"
#include "failure_detector.h"
#include "peer_table.h"

namespace ringlet {

class SessionTrail {
 public:
  // `sink` gets each event. `size` is the number of workers in the list.
  SessionTrail(std::function<void(const TrailEvent&)> sink, int size);

  // Later events are of this step, or of this generation.
  void SetStep(uint64_t step) { step_ = step; }
  void SetGeneration(uint32_t generation) { generation_ = generation; }

  void Record(TrailKind kind, int peer = -1, const char* text = "");
  void RecordFormed(const std::vector<int>& workers);
  // Records the cause of the session's end: a loss that this worker has
  // detected, or a report of another one. Both events include what this worker
  // waited for.
  void RecordLost(const FailureDetector::Suspect& suspect, const char* detail,
                  const FailureDetector& detector, int64_t now);
  void RecordReported(int reporter, const AbortNotice& notice,
                      const FailureDetector& detector, int64_t now);
  // True after RecordLost and RecordReported.
  bool recorded_end() const { return recorded_end_; }

  // For every tick. Records the worker that this one waits for and the last
  // worker of its chain, if either is new, and the end of a wait. Also records
  // each linked peer that was not heard for longer than `limit`, or is heard
  // again. `running` false: waits and silences do not count, their ends do.
  void RecordTick(bool running, const PeerTable& links, int64_t limit,
                  const FailureDetector& detector, int64_t now);

 private:
  void Send(TrailEvent event);
  void RecordEnd(TrailEvent event, const FailureDetector& detector,
                 int64_t now);
  void RecordWait(bool running, const FailureDetector& detector, int64_t now);
  void RecordSilence(int peer, bool linked, bool running, int64_t limit,
                     const FailureDetector& detector, int64_t now);

  const std::function<void(const TrailEvent&)> sink_;
  uint64_t step_ = 0;
  uint32_t generation_ = 0;
  bool recorded_end_ = false;
  TrailEvent wait_;          // the last tick's kWaits event, or none
  std::vector<bool> quiet_;  // by worker: its silence is recorded
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_
