// TrailEvent: one of this process's last events, which a TrailSink keeps for
// use after the process's end.
//
// Any thread and a signal handler may call RecordEvent. Without a sink it costs
// one comparison. io records into a file (ringlet/loggers.h). The values of
// TrailKind are part of the file's format (docs/trail.md).

#ifndef RINGLET_CORE_BASE_TRAIL_H_
#define RINGLET_CORE_BASE_TRAIL_H_

#include <atomic>
#include <cstdint>

namespace ringlet {

enum class TrailKind : uint8_t {
  // Rare events, with a text. Steps and backups do not displace them.
  kBegan = 1,        // the process: its number; text: its address
  kFormed = 2,       // a ring of `code` workers; text: their numbers
  kJoined = 3,       // a connection with the peer, while a ring forms
  kLost = 4,         // the peer or this worker was lost; text: why
  kReported = 5,     // worker `code` reported a loss or an end
  kAborted = 6,      // this worker gave up and sent the reason; text
  kLeft = 7,         // the peer sent a goodbye
  kJoinerWaits = 8,  // another worker waits to take part
  // A backup with the number `operation`. It may come with every step, so later
  // steps displace it, unless it failed.
  kSaveBegan = 9,
  kSaved = 10,   // code: 0, or a Status's; text: the error
  kSignal = 11,  // code: which
  kEnded = 12,   // code: the exit code; text: the error
  // Steps and waits.
  kStepBegan = 64,
  kStepEnded = 65,
  kWaits = 66,    // for the peer; other: the last of those that wait in turn
  kWaited = 67,   // the end of this wait
  kQuiet = 68,    // nothing was heard from the peer for `nanos`
  kHeard = 69,    // the peer was heard again
  kBlocked = 70,  // the training thread waits for the operation
  kResumed = 71,
};

// Workers are named by their numbers in the job's list; -1: none.
struct TrailEvent {
  TrailKind kind = TrailKind::kBegan;
  int peer = -1;
  // For kLost and kReported: the worker that this one was waiting for, for
  // `nanos`; -1: it computed.
  int other = -1;
  int code = 0;
  uint64_t step = 0;
  uint64_t operation = 0;
  uint32_t generation = 0;  // the ring's generation
  int64_t nanos = 0;
  const char* text = "";
};

inline bool IsRare(const TrailEvent& event) {
  if (event.kind == TrailKind::kSaved) return event.code != 0;
  return event.kind < TrailKind::kStepBegan &&
         event.kind != TrailKind::kSaveBegan;
}

// Several threads and a signal handler may call it at the same time. It takes
// no lock, allocates no memory and keeps errno.
class TrailSink {
 public:
  virtual void Record(const TrailEvent& event) = 0;

 protected:
  ~TrailSink() = default;
};

// The sink of the process; null: events are not recorded.
inline std::atomic<TrailSink*> g_trail{nullptr};

inline void RecordEvent(const TrailEvent& event) {
  TrailSink* const trail = g_trail.load(std::memory_order_acquire);
  if (trail != nullptr) trail->Record(event);
}
inline void RecordEvent(TrailKind kind, uint64_t step, uint64_t operation = 0) {
  if (g_trail.load(std::memory_order_relaxed) == nullptr) return;
  TrailEvent event;
  event.kind = kind;
  event.step = step;
  event.operation = operation;
  RecordEvent(event);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TRAIL_H_
