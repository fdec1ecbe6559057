// Event: a rare event of this process, for the event log (docs/events.md).
//
// Any thread may record an event. Without a sink it costs one comparison. io
// writes the log (EventLog of ringlet/loggers.h).

#ifndef RINGLET_CORE_BASE_EVENTS_H_
#define RINGLET_CORE_BASE_EVENTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "json.h"
#include "ringlet/collective.h"

namespace ringlet {

// The fields of one line. A field that has no more room is left out.
class Event {
 public:
  static constexpr size_t kMaxBytes = 3900;  // the most bytes of all fields
  // The most of one text; the rest is cut.
  static constexpr size_t kMaxText = 1000;

  explicit Event(const char* name);
  // Bytes that are not valid UTF-8, and zeros, become '?'.
  Event& Text(const char* key, const std::string& value);
  Event& Int(const char* key, int64_t value);
  Event& Seconds(const char* key, int64_t nanos);
  // The number of a worker in the job's list; negative if there is none.
  Event& Worker(const char* key, int worker);
  Event& Workers(const char* key, const std::vector<int>& workers);
  Event& Add(const char* key, const JsonWriter& value);

  bool is(const char* name) const { return name_ == name; }
  // "event":"save","file":"m.safetensors"
  const std::string& fields() const { return fields_; }

 private:
  const std::string name_;
  std::string fields_;
};

class EventSink {
 public:
  // The parts of a step in which a worker does not compute.
  enum Part { kRead, kWait, kTransfer, kSave, kNumParts };

  // Several threads and a signal handler may call it at the same time. It takes
  // no lock, allocates no memory and keeps errno.
  virtual void Write(const char* fields, size_t bytes) = 0;

  // Nanoseconds since the last TakeParts.
  std::atomic<int64_t> parts[kNumParts] = {};
  // The position of the fit.
  std::atomic<int64_t> epoch{0}, step{0};

 protected:
  ~EventSink() = default;
};

// The sink of the process; null if events are not recorded.
inline std::atomic<EventSink*> g_events{nullptr};

inline void RecordEvent(const Event& event) {
  EventSink* const sink = g_events;
  if (sink != nullptr)
    sink->Write(event.fields().data(), event.fields().size());
}

inline void AddTime(EventSink::Part part, int64_t nanos) {
  EventSink* const sink = g_events;
  if (sink != nullptr) {
    sink->parts[part].fetch_add(nanos, std::memory_order_relaxed);
  }
}

// Adds the time from its construction to its destruction.
class PartTimer {
 public:
  explicit PartTimer(EventSink::Part part)
      : part_(part), begin_(g_events == nullptr ? 0 : Now()) {}
  ~PartTimer() {
    if (begin_ != 0) AddTime(part_, Now() - begin_);
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  static int64_t Now() { return Clock::System()->MonotonicNanos(); }

  const EventSink::Part part_;
  const int64_t begin_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_EVENTS_H_
