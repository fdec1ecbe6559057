// pending_ has whole records, and loses their bytes as they are written. So
// after a full disk the file continues at the same byte. While writes fail,
// pending_ has at most kMaxPending bytes; a further record is dropped whole.

#include "event_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cmath>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/text.h"
#include "../files/protobuf.h"

namespace ringlet {
namespace {

// --- numbers of fields ------------------------------------------------------

// Event
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
// Summary
constexpr int kValue = 1;
// Summary.Value
constexpr int kTag = 1, kSimpleValue = 2, kHisto = 5;
// HistogramProto
constexpr int kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5,
              kBucketLimit = 6, kBucket = 7;

// Follows proto3: a field of value zero is left out, and -0 is not zero.
void PutUnlessZero(std::string* out, int field, double value) {
  if (value != 0 || std::signbit(value)) PutDouble(out, field, value);
}

// --- histograms --------------------------------------------------------------

struct Histogram {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  int buckets = 0;
  double limit[EventFile::kBuckets];
  double bucket[EventFile::kBuckets];
};

// Has the buckets of tensorboard's plugins/histogram/summary_v2.py.
void CountInBuckets(const float* values, int64_t count, Histogram* h) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = values[i];
    if (!std::isfinite(v)) continue;
    h->min = h->num == 0 ? v : std::min(h->min, v);
    h->max = h->num == 0 ? v : std::max(h->max, v);
    h->num += 1;
    h->sum += v;
    h->sum_squares += v * v;
  }
  if (h->num == 0) return;
  h->buckets = h->min == h->max ? 1 : EventFile::kBuckets;
  const double width = (h->max - h->min) / h->buckets;
  for (int b = 0; b < h->buckets; ++b) {
    h->limit[b] = h->min + width * (b + 1);
    h->bucket[b] = 0;
  }
  h->limit[h->buckets - 1] = h->max;
  for (int64_t i = 0; i < count; ++i) {
    const double v = values[i];
    if (!std::isfinite(v)) continue;
    const int b = width > 0 ? static_cast<int>((v - h->min) / width) : 0;
    h->bucket[std::min(b, h->buckets - 1)] += 1;
  }
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  std::string host = name;
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

}  // namespace

EventFile::~EventFile() { Close().IgnoreError(); }

Status EventFile::Open(const std::string& folder, Clock* clock,
                       FileSystem* files) {
  RINGLET_RETURN_IF_ERROR(Close());
  clock_ = clock;
  pending_.clear();
  RINGLET_RETURN_IF_ERROR(files->MakeFolder(folder));
  RINGLET_RETURN_IF_ERROR(Create(folder, files));
  event_.clear();
  PutUnlessZero(&event_, kWallTime,
                static_cast<double>(clock_->WallNanos()) / 1e9);
  PutBytes(&event_, kFileVersion, "brain.Event:2");
  Status status = AddRecord();
  if (status.ok()) status = Flush();
  if (!status.ok()) {  // a file without its first event is not kept
    file_.reset();
    files->Remove(path_).IgnoreError();
  }
  return status;
}

// Never opens an existing file: a restarted container may have the process
// number, and a board without a battery the time, of another run.
Status EventFile::Create(const std::string& folder, FileSystem* files) {
  static std::atomic<int> next_number{0};
  const int64_t seconds = clock_->WallNanos() / 1000000000;
  const std::string stem = folder + "/events.out.tfevents." +
                           FormatText("%010" PRId64 ".", seconds) + HostName() +
                           "." + std::to_string(getpid()) + ".";
  constexpr int kTries = 1000;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    path_ = stem + std::to_string(next_number.fetch_add(1));
    status = files->Create(path_, &file_);
    if (status.code() != Code::kAlreadyExists) break;
  }
  return status;
}

Status EventFile::AddScalar(const std::string& tag, int64_t step,
                            double value) {
  what_.clear();
  PutFloat(&what_, kSimpleValue, static_cast<float>(value));
  return AddSummary(tag, step);
}

Status EventFile::AddHistogram(const std::string& tag, int64_t step,
                               const float* values, int64_t count) {
  Histogram h;
  CountInBuckets(values, count, &h);
  value_.clear();
  PutUnlessZero(&value_, kMin, h.min);
  PutUnlessZero(&value_, kMax, h.max);
  PutUnlessZero(&value_, kNum, h.num);
  PutUnlessZero(&value_, kSum, h.sum);
  PutUnlessZero(&value_, kSumSquares, h.sum_squares);
  PutDoubles(&value_, kBucketLimit, h.limit, h.buckets);
  PutDoubles(&value_, kBucket, h.bucket, h.buckets);
  what_.clear();
  PutBytes(&what_, kHisto, value_);
  return AddSummary(tag, step);
}

// Adds an event of one value: `what_`.
Status EventFile::AddSummary(const std::string& tag, int64_t step) {
  value_.clear();
  PutBytes(&value_, kTag, tag);
  value_.append(what_);
  summary_.clear();
  PutBytes(&summary_, kValue, value_);
  event_.clear();
  PutUnlessZero(&event_, kWallTime,
                static_cast<double>(clock_->WallNanos()) / 1e9);
  if (step != 0) PutInt(&event_, kStep, step);
  PutBytes(&event_, kSummary, summary_);
  return AddRecord();
}

// Appends `event_` to the pending bytes, framed as a record.
Status EventFile::AddRecord() {
  constexpr size_t kFrame = 8 + 4 + 4;
  if (pending_.size() + kFrame + event_.size() > kMaxPending) {
    RINGLET_RETURN_IF_ERROR(Flush());
  }
  std::string& out = pending_;
  const size_t start = out.size();
  AppendLittle(uint64_t{event_.size()}, &out);
  AppendLittle(MaskCrc32c(Crc32c(out.data() + start, 8)), &out);
  out.append(event_);
  AppendLittle(MaskCrc32c(Crc32c(event_.data(), event_.size())), &out);
  return Status();
}

Status EventFile::Flush() {
  if (file_ == nullptr) return InvalidArgument("the event file is not open");
  const Status status = WritePending();
  return status.Annotate("%zu bytes of events are not written yet",
                         pending_.size());
}

Status EventFile::Close() {
  if (file_ == nullptr) return Status();
  const Status written = WritePending();
  const Status closed = file_->Close();
  file_.reset();
  if (written.ok()) return closed;
  return written.Annotate("the last %zu bytes of events are lost",
                          pending_.size());
}

// Removes the written bytes from `pending_`, also after an error.
Status EventFile::WritePending() {
  size_t done = 0;
  Status status;
  while (done < pending_.size() && status.ok()) {
    size_t written = 0;
    status = file_->WriteSome(pending_.data() + done, pending_.size() - done,
                              &written);
    done += written;
    if (status.os_error() == EINTR) status = Status();
  }
  pending_.erase(0, done);
  return status;
}

}  // namespace ringlet
