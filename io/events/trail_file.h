// The bytes of a trail: TrailRing writes them, ParseTrail reads them.
//
// Internal to io/ and tools/. Format: docs/trail.md.
//
//   0     8     "RLTRAIL1"
//   8     4     checksum of bytes 12 to 24
//   12    4     version, 1
//   16    4     the worker's number
//   20    4     how many workers the job's list has
//   4096  64 n  records of steps, waits and backups
//   32768 256 m records of rare events, with a text
//
// A record: checksum 4, kind 1, bytes of text 1, peer 2, number 8, wall clock
// 8, monotonic clock 8, step 8, operation 8, nanoseconds 8, generation 4, other
// 2, code 2; then the text. Of kBegan step, nanoseconds and code are of the
// process before: its last step, when it last noted something (the wall clock),
// and a kStepBegan or kStepEnded, whichever was its last; 0: there is none.

#ifndef RINGLET_IO_EVENTS_TRAIL_FILE_H_
#define RINGLET_IO_EVENTS_TRAIL_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/clock.h"
#include "../../core/base/status.h"
#include "../../core/base/trail.h"

namespace ringlet {

constexpr size_t kTrailBytes = 65536;
constexpr size_t kTrailShort = 64, kTrailLong = 256;      // bytes of a record
constexpr size_t kTrailSteps = 4096, kTrailRare = 32768;  // where they begin
constexpr size_t kTrailShorts = (kTrailRare - kTrailSteps) / kTrailShort;
constexpr size_t kTrailLongs = (kTrailBytes - kTrailRare) / kTrailLong;
constexpr char kTrailMagic[] = "RLTRAIL1";

struct TrailRecord {
  TrailEvent event;     // its text is below
  std::string text;     // no control bytes
  uint64_t number = 0;  // of the worker's events, also of its earlier processes
  // Nanoseconds. ParseTrail tells the first by the monotonic clock and what the
  // process knew last of the wall clock.
  int64_t wall = 0, monotonic = 0;
};

struct TrailContent {
  int worker = 0, workers = 1;
  std::vector<TrailRecord> records;  // in the order of their numbers
  int damaged = 0;                   // records, one half written among them
};

// `to` - `from`; as near to it as there is a number, for a file may hold any.
inline int64_t NanosBetween(int64_t from, int64_t to) {
  int64_t out;
  if (!__builtin_sub_overflow(to, from, &out)) return out;
  return to < from ? INT64_MIN : INT64_MAX;
}

// Whether a file that begins so is one.
bool IsTrail(const std::string& head);

// Of any bytes. A record that is damaged is left out and counted; kCorruption
// where the header is, or bytes are missing before the first record.
Status ParseTrail(const std::string& bytes, TrailContent* out);

// Writes records into `memory`, of kTrailBytes, which another process may read
// at the same time, or after this one's end.
class TrailRing final : public TrailSink {
 public:
  // Goes on behind what `memory` holds, where that is a trail of this worker;
  // else it begins anew.
  TrailRing(unsigned char* memory, int worker, int workers, Clock* clock);
  void Note(const TrailEvent& event) override;

 private:
  void GoOnBehind(const std::string& old);

  unsigned char* const memory_;
  Clock* const clock_;
  std::atomic<int64_t> ahead_{0};   // the wall clock, when it was read last
  std::atomic<uint64_t> next_{1};   // number
  std::atomic<uint32_t> short_{0};  // places that were taken
  std::atomic<uint32_t> long_{0};
  TrailEvent before_;  // what kBegan says of the process before
};

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_TRAIL_FILE_H_
