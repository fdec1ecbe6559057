// The lines of an event log: how they are written, and read again.
//
// Pure. Format: docs/events.md.

#ifndef RINGLET_IO_LOGS_EVENT_LINES_H_
#define RINGLET_IO_LOGS_EVENT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/json.h"

namespace ringlet {

constexpr size_t kMaxEventLine = 4096;  // the bytes of a line with its newline

// Writes a line and its newline to `out`, which has room for kMaxEventLine
// bytes, and returns its length. `fields` are the fields of an Event. `nanos`
// is the time since the log was opened. Signal handlers may call it.
size_t MakeEventLine(int64_t wall, int64_t nanos, int worker,
                     const char* fields, size_t bytes, char* out);

constexpr size_t kEventLogHeadBytes = 9;
// True if a file that begins with `head` is an event log.
bool IsEventLog(const std::string& head);
// True if a file that begins with `head` is a binary event log of an earlier
// version.
bool IsOldEventLog(const std::string& head);

// False if `line` is not an event of a log. *fields becomes its object, and
// *wall its time in nanoseconds since 1970.
bool ParseEventLine(const std::string& line, Json* fields, int64_t* wall);

// A line as the report needs it. Numbers are -1, and texts empty, if the line
// has none.
struct EventRecord {
  std::string event;
  int64_t wall = 0, monotonic = 0;  // nanoseconds
  int64_t step = -1;                // or last_step
  int64_t view = -1, operation = -1;
  int64_t nanos = 0;  // how long it lasted
  int peer = -1;      // the lost or refused worker, or the awaited one
  int other = -1;     // the last of a chain, or what it waited for
  int reporter = -1;  // the worker that reported a loss
  int code = 0;       // an exit code or a signal
  bool continued = false;
  std::string text;  // reason, address or error: no control bytes
  std::string line;  // the same

  bool is(const char* name) const { return event == name; }
  // A rotated file begins with a "start" that is continued.
  bool begins_process() const { return is("start") && !continued; }
  // "view" is also the event of another assignment, without a number.
  bool begins_view() const { return is("view") && view >= 0; }
  bool ends_view() const { return is("loss") || is("abort"); }
};

struct EventLogContent {
  int worker = 0, workers = 1;
  std::vector<EventRecord> records;  // the records, in the file's order
  int damaged = 0;                   // lines that are skipped
};

// `to` - `from`, limited to int64_t: a file may hold any numbers.
inline int64_t NanosBetween(int64_t from, int64_t to) {
  int64_t out;
  if (!__builtin_sub_overflow(to, from, &out)) return out;
  return to < from ? INT64_MIN : INT64_MAX;
}

// Parses any bytes. Lines that are not events are skipped and counted. The
// times of a process are computed from its last reading of the wall clock.
EventLogContent ParseEventLog(const std::string& bytes);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_EVENT_LINES_H_
