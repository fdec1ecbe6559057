// SessionTrail: the events of a session for the worker's trail.
//
// Internal to net/. Pure. Events name workers by their numbers in the list,
// also where ranks differ.

#ifndef RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_
#define RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "../../core/base/trail.h"
#include "../wire/abort.h"
#include "failure_detector.h"

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

  // For every tick: the wait of a running session, if it or its end is new.
  // Shorter waits than a tick are not noted, because all workers wait for each
  // other in every step.
  void NoteWait(bool running, const FailureDetector& detector, int64_t now);
  // For every tick: a linked peer that was not heard for longer than `limit`,
  // and a peer that is heard again. Only a running session notes the first.
  void NoteSilence(int peer, bool linked, bool running, int64_t limit,
                   const FailureDetector& detector, int64_t now);

 private:
  void Send(TrailEvent event);
  void NoteEnd(TrailEvent event, const FailureDetector& detector, int64_t now);

  const std::function<void(const TrailEvent&)> sink_;
  uint64_t step_ = 0;
  uint32_t generation_ = 0;
  bool noted_end_ = false;
  TrailEvent wait_;          // the last tick's kWaits event, or none
  std::vector<bool> quiet_;  // by worker: its silence is noted
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_SESSION_TRAIL_H_
