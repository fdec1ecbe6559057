// The texts for workers and times in event logs and their report.

#ifndef RINGLET_IO_LOGS_EVENT_WORDS_H_
#define RINGLET_IO_LOGS_EVENT_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringlet {

// "worker 3"; "an unknown worker" below 0.
std::string WorkerName(int worker);

constexpr size_t kTimeBytes = sizeof("2026-11-23T15:48:22.250Z");
// Writes the UTC of `wall`, in nanoseconds since 1970, with a zero. For signal
// handlers too.
void WriteTime(int64_t wall, char (&out)[kTimeBytes]);
// The opposite, up to the year 2261; false for another text.
bool ParseTime(const std::string& text, int64_t* wall);

// "2026-11-23 15:48:22.250", of UTC.
std::string TimeText(int64_t wall);

// "2.16 s"
std::string SecondsText(int64_t nanos);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_EVENT_WORDS_H_
