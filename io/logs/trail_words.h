// The texts for workers and times in the report of trails.

#ifndef RINGLET_IO_LOGS_TRAIL_WORDS_H_
#define RINGLET_IO_LOGS_TRAIL_WORDS_H_

#include <cstdint>
#include <string>

namespace ringlet {

// "worker 3"; "an unknown worker" below 0.
std::string WorkerName(int worker);

// "2026-11-23 15:48:22.250", of UTC.
std::string TimeText(int64_t wall);

// "2.16 s"
std::string SecondsText(int64_t nanos);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_TRAIL_WORDS_H_
