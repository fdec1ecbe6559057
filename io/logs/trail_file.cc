#include "trail_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

constexpr size_t kHeaderBytes = 24;
constexpr size_t kHeadBytes = 64;  // bytes of a record before its text
constexpr size_t kMaxText = kTrailLongBytes - kHeadBytes;
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxWorkers = 32767;
// The wall clock is read once for so many short records. The ring has room for
// several times as many.
constexpr uint32_t kClockReads = 64;
// The time without further writes of frequent events after one has failed. A
// failed write on a full btrfs takes 3 ms.
constexpr int64_t kRetryNanos = 1000000000;
static_assert(kNumTrailShorts >= 2 * kClockReads);

uint32_t ChecksumOf(const unsigned char* record, size_t bytes) {
  return MaskCrc32c(Crc32c(record + 4, bytes - 4));
}

// Returns false if the record could not be written. A reader may see a part of
// the record and detects it by the checksum. The file is not mapped: a store to
// a page without room on the disk, or beyond a truncated end, raises SIGBUS.
bool WriteRecord(int fd, const unsigned char* record, size_t bytes,
                 size_t offset) {
  const int error = errno;  // a signal handler notes events too
  ssize_t written;
  do {
    written = pwrite(fd, record, bytes, static_cast<off_t>(offset));
  } while (written < 0 && errno == EINTR);
  errno = error;
  return written >= 0;
}

// Little-endian, in one store: StoreLittle goes byte by byte.
template <typename T>
void Put(T number, unsigned char* to) {
  SwapToLittle(&number, sizeof(number), 1);
  std::memcpy(to, &number, sizeof(number));
}

int16_t Short(int number) {
  return static_cast<int16_t>(std::clamp(number, -1, 32767));
}

bool ParseRecord(const unsigned char* in, size_t most, TrailRecord* out) {
  const size_t text = in[5];
  if (kHeadBytes + text > most ||
      LoadLittle<uint32_t>(in) != ChecksumOf(in, kHeadBytes + text)) {
    return false;
  }
  TrailEvent& event = out->event;
  event.kind = static_cast<TrailKind>(in[4]);
  event.peer = static_cast<int16_t>(LoadLittle<uint16_t>(in + 6));
  out->number = LoadLittle<uint64_t>(in + 8);
  out->wall = static_cast<int64_t>(LoadLittle<uint64_t>(in + 16));
  out->monotonic = static_cast<int64_t>(LoadLittle<uint64_t>(in + 24));
  event.step = LoadLittle<uint64_t>(in + 32);
  event.operation = LoadLittle<uint64_t>(in + 40);
  event.nanos = static_cast<int64_t>(LoadLittle<uint64_t>(in + 48));
  event.generation = LoadLittle<uint32_t>(in + 56);
  event.other = static_cast<int16_t>(LoadLittle<uint16_t>(in + 60));
  event.code = static_cast<int16_t>(LoadLittle<uint16_t>(in + 62));
  out->text.assign(reinterpret_cast<const char*>(in) + kHeadBytes, text);
  for (char& c : out->text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte > 126) c = '?';
  }
  return true;
}

bool Empty(const unsigned char* in) {
  return std::all_of(in, in + kHeadBytes, [](unsigned char b) { return !b; });
}

// Parses the records of `count` places. Returns the place behind the newest.
size_t ParseRing(const std::string& bytes, size_t begin, size_t each,
                 size_t count, TrailContent* out) {
  uint64_t newest = 0;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = begin + i * each;
    if (at + each > bytes.size()) {
      out->damaged += static_cast<int>(count - i);
      break;
    }
    const auto* in = reinterpret_cast<const unsigned char*>(bytes.data()) + at;
    TrailRecord record;
    if (Empty(in)) continue;
    if (!ParseRecord(in, each, &record)) {
      ++out->damaged;
      continue;
    }
    if (record.number >= newest) newest = record.number, next = i + 1;
    out->records.push_back(std::move(record));
  }
  return next;
}

// A board without a hardware clock gets the time after its start. So the wall
// clock of a process's newest record gives the times of all its records.
void UseNewestClock(std::vector<TrailRecord>* records) {
  bool last = true;
  int64_t behind = 0;  // the wall clock less than the monotonic one
  for (auto record = records->rbegin(); record != records->rend(); ++record) {
    if (last) behind = NanosBetween(record->wall, record->monotonic);
    record->wall = NanosBetween(behind, record->monotonic);
    last = record->event.kind == TrailKind::kBegan;
  }
}

Status ParseHeader(const std::string& bytes, TrailContent* out) {
  const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!IsTrail(bytes)) return Corruption("is not a trail of a worker");
  if (bytes.size() < kTrailStepsBegin ||
      LoadLittle<uint32_t>(in + 8) !=
          MaskCrc32c(Crc32c(in + 12, kHeaderBytes - 12))) {
    return Corruption("the header of this trail is damaged, or cut off");
  }
  const uint32_t version = LoadLittle<uint32_t>(in + 12);
  if (version != kVersion) {
    return Error(Code::kUnimplemented,
                 "is a trail of version %lu, and this ringlet reads %lu",
                 static_cast<unsigned long>(version),
                 static_cast<unsigned long>(kVersion));
  }
  const uint32_t worker = LoadLittle<uint32_t>(in + 16);
  const uint32_t workers = LoadLittle<uint32_t>(in + 20);
  if (workers == 0 || workers > kMaxWorkers || worker >= workers) {
    return Corruption("a trail of worker %lu of %lu",
                      static_cast<unsigned long>(worker),
                      static_cast<unsigned long>(workers));
  }
  out->worker = static_cast<int>(worker);
  out->workers = static_cast<int>(workers);
  return Status();
}

}  // namespace

bool IsTrail(const std::string& head) { return StartsWith(head, kTrailMagic); }

Status ParseTrail(const std::string& bytes, TrailContent* out) {
  *out = TrailContent();
  RINGLET_RETURN_IF_ERROR(ParseHeader(bytes, out));
  ParseRing(bytes, kTrailStepsBegin, kTrailShortBytes, kNumTrailShorts, out);
  ParseRing(bytes, kTrailRareBegin, kTrailLongBytes, kNumTrailLongs, out);
  std::vector<TrailRecord>& records = out->records;
  std::sort(records.begin(), records.end(),
            [](const TrailRecord& a, const TrailRecord& b) {
              return a.number < b.number;
            });
  UseNewestClock(&out->records);
  return Status();
}

TrailRing::TrailRing(int fd, unsigned char* bytes, int worker, int workers,
                     Clock* clock)
    : fd_(fd), clock_(clock) {
  const std::string old_bytes(reinterpret_cast<char*>(bytes), kTrailBytes);
  TrailContent held;
  if (ParseHeader(old_bytes, &held).ok() && held.worker == worker) {
    ContinueFrom(old_bytes);
  } else {
    std::memset(bytes, 0, kTrailBytes);
  }
  unsigned char header[kHeaderBytes];
  std::copy_n(kTrailMagic, 8, header);
  StoreLittle<uint32_t>(kVersion, header + 12);
  StoreLittle<uint32_t>(static_cast<uint32_t>(worker), header + 16);
  StoreLittle<uint32_t>(static_cast<uint32_t>(workers), header + 20);
  StoreLittle<uint32_t>(MaskCrc32c(Crc32c(header + 12, kHeaderBytes - 12)),
                        header + 8);
  std::copy_n(header, kHeaderBytes, bytes);
}

// The next process's steps overwrite the steps of the process before. So the
// last step of that process is kept among the rare events.
void TrailRing::ContinueFrom(const std::string& old) {
  TrailContent held;
  const auto place = [](size_t next, size_t count) {
    return static_cast<uint32_t>(next % count);
  };
  short_ = place(ParseRing(old, kTrailStepsBegin, kTrailShortBytes,
                           kNumTrailShorts, &held),
                 kNumTrailShorts);
  long_ = place(
      ParseRing(old, kTrailRareBegin, kTrailLongBytes, kNumTrailLongs, &held),
      kNumTrailLongs);
  uint64_t newest = 0, began = 0, stepped = 0;
  for (const TrailRecord& record : held.records) {
    if (record.number >= newest) {
      newest = record.number;
      before_.nanos = record.wall;
    }
    if (record.event.kind == TrailKind::kBegan) {
      began = std::max(began, record.number);
    }
    const bool step = record.event.kind == TrailKind::kStepBegan ||
                      record.event.kind == TrailKind::kStepEnded;
    if (!step || record.number < stepped) continue;
    stepped = record.number;
    before_.step = record.event.step;
    before_.code = static_cast<int>(record.event.kind);
  }
  if (stepped < began) before_.step = 0, before_.code = 0;
  // A trail never writes the greatest possible number.
  if (newest < UINT64_MAX / 2) next_ = newest + 1;
}

void TrailRing::Record(const TrailEvent& event) {
  const TrailEvent& where = event.kind == TrailKind::kBegan ? before_ : event;
  const bool frequent = !IsRare(event);
  const int64_t now = clock_->MonotonicNanos();
  if (frequent && now < retry_at_) return;
  const size_t text =
      frequent ? 0 : std::min(std::strlen(event.text), kMaxText);
  alignas(8) unsigned char record[kTrailLongBytes];
  record[4] = static_cast<uint8_t>(event.kind);
  record[5] = static_cast<uint8_t>(text);
  Put(static_cast<uint16_t>(Short(event.peer)), record + 6);
  Put(next_.fetch_add(1, std::memory_order_relaxed), record + 8);
  const uint32_t taken =
      (frequent ? short_ : long_).fetch_add(1, std::memory_order_relaxed);
  // For most steps only one clock is read: a read costs as much as all the
  // rest.
  if (!frequent || taken % kClockReads == 0) {
    ahead_ = clock_->WallNanos() - now;
  }
  Put(static_cast<uint64_t>(now + ahead_), record + 16);
  Put(static_cast<uint64_t>(now), record + 24);
  Put(where.step, record + 32);
  Put(event.operation, record + 40);
  Put(static_cast<uint64_t>(where.nanos), record + 48);
  Put(event.generation, record + 56);
  Put(static_cast<uint16_t>(Short(event.other)), record + 60);
  Put(static_cast<uint16_t>(Short(where.code)), record + 62);
  if (!frequent) {
    std::memset(record + kHeadBytes, 0, kMaxText);
    std::memcpy(record + kHeadBytes, event.text, text);
  }
  Put(ChecksumOf(record, kHeadBytes + text), record);
  const size_t bytes = frequent ? kTrailShortBytes : kTrailLongBytes;
  const size_t place =
      frequent ? kTrailStepsBegin + taken % kNumTrailShorts * kTrailShortBytes
               : kTrailRareBegin + taken % kNumTrailLongs * kTrailLongBytes;
  if (!WriteRecord(fd_, record, bytes, place)) retry_at_ = now + kRetryNanos;
}

}  // namespace ringlet
