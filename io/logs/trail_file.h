// The bytes of a trail: TrailRing writes them, ParseTrail reads them.
//
// Format: docs/trail.md.
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
// 2, code 2; then the text. In a kBegan record, step, nanoseconds and code
// describe the worker's earlier process: its last step, the wall clock of its
// last event, and the later of its last kStepBegan and kStepEnded (0: none).

#ifndef RINGLET_IO_LOGS_TRAIL_FILE_H_
#define RINGLET_IO_LOGS_TRAIL_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/trail.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr size_t kTrailBytes = 65536;
constexpr size_t kTrailShortBytes = 64,
                 kTrailLongBytes = 256;  // bytes of a record
constexpr size_t kTrailStepsBegin = 4096,
                 kTrailRareBegin = 32768;  // where they begin
constexpr size_t kNumTrailShorts =
    (kTrailRareBegin - kTrailStepsBegin) / kTrailShortBytes;
constexpr size_t kNumTrailLongs =
    (kTrailBytes - kTrailRareBegin) / kTrailLongBytes;
constexpr char kTrailMagic[] = "RLTRAIL1";

struct TrailRecord {
  TrailEvent event;     // its text is below
  std::string text;     // no control bytes
  uint64_t number = 0;  // counts the worker's events, also of earlier processes
  // Nanoseconds. ParseTrail computes `wall` from the monotonic clock and the
  // process's last reading of the wall clock.
  int64_t wall = 0, monotonic = 0;
};

struct TrailContent {
  int worker = 0, workers = 1;
  std::vector<TrailRecord> records;  // in the order of their numbers
  int damaged = 0;                   // records, one half written among them
};

// `to` - `from`, limited to int64_t: a file may hold any numbers.
inline int64_t NanosBetween(int64_t from, int64_t to) {
  int64_t out;
  if (!__builtin_sub_overflow(to, from, &out)) return out;
  return to < from ? INT64_MIN : INT64_MAX;
}

// True if a file that begins with `head` is a trail.
bool IsTrail(const std::string& head);

// Parses any bytes. A damaged record is dropped and counted. kCorruption if the
// header is damaged, or bytes are missing before the first record.
Status ParseTrail(const std::string& bytes, TrailContent* out);

// Writes records into a file. Another process may read the file at the same
// time, or after this process has ended.
class TrailRing final : public TrailSink {
 public:
  // `bytes` are the kTrailBytes of the file `fd`. On return they are the
  // content that the caller must write before the first record. A trail of this
  // worker is continued; anything else is replaced by an empty trail.
  TrailRing(int fd, unsigned char* bytes, int worker, int workers,
            Clock* clock);
  // Makes one write. If it fails, as on a full disk, the event is lost, and so
  // are the frequent events of the next second.
  void Record(const TrailEvent& event) override;

 private:
  void ContinueFrom(const std::string& old);

  const int fd_;
  Clock* const clock_;
  // After a failed write frequent events are dropped until this time.
  std::atomic<int64_t> retry_at_{INT64_MIN};
  std::atomic<int64_t> ahead_{0};   // the wall clock, when it was read last
  std::atomic<uint64_t> next_{1};   // number
  std::atomic<uint32_t> short_{0};  // places that were taken
  std::atomic<uint32_t> long_{0};
  TrailEvent before_;  // the last process, for kBegan
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_TRAIL_FILE_H_
