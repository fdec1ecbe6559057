// Trail: what this process did last, for whoever looks after its death.
//
// Internal. Whoever has something to note calls NoteEvent, on any thread and in
// a signal's handler; it costs a comparison where nobody keeps a trail. io
// keeps one in a file (io/events/trail.h). The values of TrailKind are part of
// the file's format (docs/trail.md).

#ifndef RINGLET_CORE_BASE_TRAIL_H_
#define RINGLET_CORE_BASE_TRAIL_H_

#include <atomic>
#include <cstdint>

namespace ringlet {

enum class TrailKind : uint8_t {
  // Rare, with a text; no number of steps or backups displaces them.
  kBegan = 1,    // the process: its number; text: its address
  kFormed = 2,   // a ring of `code` workers; text: their numbers
  kJoined = 3,   // a connection with the peer, while a ring forms
  kLost = 4,     // the peer, or this worker itself, by what it sees; text: why
  kTold = 5,     // of a loss or an end, by worker `code`
  kAborted = 6,  // it gave up of its own accord, and told the others; text
  kLeft = 7,     // the peer said goodbye
  kVisited = 8,  // another worker waits to take part
  // A backup, whose number is `operation`: as often as steps, unless it failed.
  kSaveBegan = 9,
  kSaved = 10,   // code: 0, or a Status's; text: the error
  kSignal = 11,  // code: which
  kEnded = 12,   // code: the exit code; text: the error
  // Of steps and waits.
  kStepBegan = 64,
  kStepEnded = 65,
  kWaits = 66,    // for the peer; other: the last of those that wait in turn
  kWaited = 67,   // that is over
  kQuiet = 68,    // nothing was heard of the peer for `nanos`
  kHeard = 69,    // of the peer again
  kBlocked = 70,  // the training thread waits for the operation
  kResumed = 71,
};

// Workers are named by their numbers in the job's list; -1: none.
struct TrailEvent {
  TrailKind kind = TrailKind::kBegan;
  int peer = -1;
  // Of kLost and kTold: whom this worker waited for just then, for `nanos`;
  // none: it computed.
  int other = -1;
  int code = 0;
  uint64_t step = 0;
  uint64_t operation = 0;
  uint32_t generation = 0;  // of the ring
  int64_t nanos = 0;
  const char* text = "";
};

inline bool IsRare(const TrailEvent& event) {
  if (event.kind == TrailKind::kSaved) return event.code != 0;
  return event.kind < TrailKind::kStepBegan &&
         event.kind != TrailKind::kSaveBegan;
}

// May be called at any time by several threads at once, and by a signal's
// handler: no lock, no memory, no system call.
class TrailSink {
 public:
  virtual void Note(const TrailEvent& event) = 0;

 protected:
  ~TrailSink() = default;
};

// The process's; null: nobody keeps one.
inline std::atomic<TrailSink*> g_trail{nullptr};

inline void NoteEvent(const TrailEvent& event) {
  TrailSink* const trail = g_trail.load(std::memory_order_acquire);
  if (trail != nullptr) trail->Note(event);
}
inline void NoteEvent(TrailKind kind, uint64_t step, uint64_t operation = 0) {
  if (g_trail.load(std::memory_order_relaxed) == nullptr) return;
  TrailEvent event;
  event.kind = kind;
  event.step = step;
  event.operation = operation;
  NoteEvent(event);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TRAIL_H_
