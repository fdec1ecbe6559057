// SessionTrail: the events of a session for the worker's trail.
//
// Pure. It owns what the trail has already of the present wait and silences.
// The Session calls it for each event and tick. It promises that events name
// workers by their numbers in the list, also where ranks differ.

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

  void Note(TrailKind kind, int peer = -1, const char* text = "");
  void NoteFormed(const std::vector<int>& workers);
  // The cause of the session's end: a loss that this worker has detected, or a
  // report of another one. Both have what this worker waited for.
  void NoteLost(const FailureDetector::Suspect& suspect, const char* detail,
                const FailureDetector& detector, int64_t now);
  void NoteReported(int reporter, const AbortNotice& notice,
                    const FailureDetector& detector, int64_t now);
  // True after NoteLost and NoteReported.
  bool noted_end() const { return noted_end_; }

  // For every tick. Notes what this worker waits for, if it or its end is new,
  // and each linked peer that was not heard for longer than `limit`, or is
  // heard again. `running` false: waits and silences do not count, their ends
  // do.
  void NoteTick(bool running, const PeerTable& links, int64_t limit,
                const FailureDetector& detector, int64_t now);

 private:
  void Send(TrailEvent event);
  void NoteEnd(TrailEvent event, const FailureDetector& detector, int64_t now);
  void NoteWait(bool running, const FailureDetector& detector, int64_t now);
  void NoteSilence(int peer, bool linked, bool running, int64_t limit,
                   const FailureDetector& detector, int64_t now);

  const std::function<void(const TrailEvent&)> sink_;
  uint64_t step_ = 0;
  uint32_t generation_ = 0;
  bool noted_end_ = false;
  TrailEvent wait_;          // the last tick's kWaits event, or none
  std::vector<bool> quiet_;  // by worker: its silence is noted
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_
