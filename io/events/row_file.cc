// Every rank counts the bytes of all rows, written or not, so that offset_ is
// one number of the whole job and may be part of a checkpoint. Rank 0 alone has
// a file, which lags behind by kept_: rows that a full disk did not take.

#include "row_file.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "../../core/base/message.h"

namespace ringlet {
namespace {

// Fills `buffer` from `at` as far as the file goes.
Status ReadAt(File* file, char* buffer, size_t bytes, int64_t at, size_t* got) {
  for (;;) {
    const Status status = file->ReadSome(at, buffer, bytes, got);
    if (status.os_error() != EINTR) return status;
  }
}

// Rank 0's number, on every rank.
Status Share(Collective* collective, int64_t* number) {
  return BroadcastNumbers(collective, number, sizeof(*number), 1, 0);
}

}  // namespace

void RowFile::Reset() {
  Close();
  offset_ = -1;
  last_bytes_ = 0;
}

Status RowFile::Open(Collective* collective, bool append) {
  Status own;
  if (collective->rank() == 0) own = OpenOwn(append);
  int64_t offset = own.ok() ? offset_ : -1;
  const Status shared = Share(collective, &offset);
  RINGLET_RETURN_IF_ERROR(own);
  RINGLET_RETURN_IF_ERROR(shared);
  if (offset < 0) {
    return Error(Code::kCancelled, "%s: rank 0 cannot write it",
                 filename_.c_str());
  }
  offset_ = offset;
  open_ = true;
  return Status();
}

Status RowFile::OpenOwn(bool append) {
  const bool resumed = offset_ >= 0;
  RINGLET_RETURN_IF_ERROR(
      files_->OpenLog(filename_, resumed || append, &file_));
  warned_ = dropped_ = false;
  if (resumed) {
    const Status status = FindRestored();
    if (!status.ok()) Close();
    return status;
  }
  int64_t size = 0;
  offset_ = file_->Size(&size).ok() ? size : 0;
  if (!EndsARow(offset_)) {
    Notice(
        "warning: %s: %s: its last row has no end; those that follow begin "
        "in a new line",
        callback_, filename_.c_str());
    Write("\n");
    last_bytes_ = 0;  // as on the other ranks
  }
  return Status();
}

// Back to the rows that the backup knows, as far as the file has them.
Status RowFile::FindRestored() {
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  if (size < offset_ && LastRowFollows(EndOfRows(size))) {
    offset_ -= last_bytes_;
    if (size != offset_) RINGLET_RETURN_IF_ERROR(file_->Truncate(offset_));
    Write(std::string(last_, static_cast<size_t>(last_bytes_)));
    return Status();
  }
  if (size < offset_) {
    Notice("warning: %s: %s has %" PRId64 " of the %" PRId64
           " bytes that it had when the backup was made; rows are "
           "missing",
           callback_, filename_.c_str(), size, offset_);
    offset_ = EndOfRows(size);
  } else if (!EndsARow(offset_)) {
    Notice("warning: %s: no row of %s ends at byte %" PRId64
           ", as one did when the backup was made; rows may be missing, "
           "or there twice",
           callback_, filename_.c_str(), offset_);
    offset_ = EndOfRows(offset_);
  }
  return size == offset_ ? Status() : file_->Truncate(offset_);
}

// Not where another byte is known to stand before `offset`.
bool RowFile::EndsARow(int64_t offset) const {
  char last = '\n';
  size_t got = 0;
  return offset == 0 || !ReadAt(file_.get(), &last, 1, offset - 1, &got).ok() ||
         got == 0 || last == '\n';
}

// Whether the last row is all that the file lacks behind `end`.
bool RowFile::LastRowFollows(int64_t end) const {
  return last_bytes_ > 0 && end == offset_ - last_bytes_ &&
         last_[last_bytes_ - 1] == '\n';
}

// Where the last whole row of the first `limit` bytes ends.
int64_t RowFile::EndOfRows(int64_t limit) const {
  char buffer[4096];
  int64_t at = 0, end = 0;
  for (size_t n = 0; at < limit; at += static_cast<int64_t>(n)) {
    const Status read = ReadAt(file_.get(), buffer, sizeof(buffer), at, &n);
    if (!read.ok() || n == 0) break;
    for (size_t i = 0; i < n; ++i) {
      const int64_t after = at + static_cast<int64_t>(i) + 1;
      if (buffer[i] == '\n' && after <= limit) end = after;
    }
  }
  return end;
}

Status RowFile::ReadHeader(Collective* collective, std::string* header) const {
  constexpr int64_t kFailed = -1;
  header->clear();
  Status own;
  if (collective->rank() == 0) own = ReadOwnHeader(header);
  int64_t size = own.ok() ? static_cast<int64_t>(header->size()) : kFailed;
  const Status shared = Share(collective, &size);
  RINGLET_RETURN_IF_ERROR(own);
  RINGLET_RETURN_IF_ERROR(shared);
  if (size == kFailed) {
    return Error(Code::kCancelled, "%s: rank 0 cannot read it",
                 filename_.c_str());
  }
  if (size == 0) return Status();
  header->resize(static_cast<size_t>(size));
  return collective->Broadcast(&(*header)[0], header->size(), 0);
}

Status RowFile::ReadOwnHeader(std::string* header) const {
  constexpr size_t kLongest = 1 << 20;
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  char buffer[512];
  for (int64_t at = 0;;) {
    size_t n = 0;
    RINGLET_RETURN_IF_ERROR(
        ReadAt(file_.get(), buffer, sizeof(buffer), at, &n));
    const char* end = static_cast<const char*>(std::memchr(buffer, '\n', n));
    header->append(buffer, end != nullptr ? size_t(end - buffer) : n);
    if (n == 0 || end != nullptr) break;
    if (header->size() > kLongest) {
      return InvalidArgument(
          "%s: its first line is no header: it is longer "
          "than %zu bytes",
          filename_.c_str(), kLongest);
    }
    at += static_cast<int64_t>(n);
  }
  if (!header->empty() && header->back() == '\r') header->pop_back();
  return Status();
}

// An error where some of what is kept cannot be written.
Status RowFile::Flush() {
  Status status;
  size_t done = 0;
  while (done < kept_.size() && status.ok()) {
    size_t written = 0;
    status =
        file_->WriteSome(kept_.data() + done, kept_.size() - done, &written);
    done += written;
    if (status.os_error() == EINTR) status = Status();
  }
  kept_.erase(0, done);
  return status;
}

void RowFile::Warn(const Status& why, const char* what) const {
  Notice("warning: %s: %s: writing a row: %s; %s", callback_, filename_.c_str(),
         ErrnoText(why.os_error()).c_str(), what);
}

void RowFile::Write(const std::string& rows) {
  offset_ += static_cast<int64_t>(rows.size());
  last_bytes_ = 0;
  if (rows.size() <= kLongestRow) {
    std::memcpy(last_, rows.data(), rows.size());
    last_bytes_ = static_cast<int64_t>(rows.size());
  }
  if (file_ == nullptr) return;
  // What waits goes first. Whole rows are dropped, and the newest, so that what
  // is in the file goes on as what is kept.
  bool fits = true;
  if (!kept_.empty() && !Flush().ok()) fits = kept_.size() < kMostKept;
  if (fits) kept_ += rows;
  const Status written = Flush();
  if (written.ok()) {
    warned_ = false;
  } else if (!warned_) {
    warned_ = true;
    Warn(written,
         "training goes on, and rows are kept until they can be written");
  } else if (!fits && !dropped_) {
    dropped_ = true;
    Warn(written,
         "too many rows wait; those that follow are dropped until it can be "
         "written again");
  }
}

void RowFile::Close() {
  open_ = false;
  if (file_ == nullptr) return;
  const Status written = Flush();
  if (!written.ok()) {
    Notice("warning: %s: %s: %s; its last %zu bytes are lost", callback_,
           filename_.c_str(), ErrnoText(written.os_error()).c_str(),
           kept_.size());
    kept_.clear();
  }
  file_.reset();
}

void RowFile::AppendState(std::vector<StateSpan>* spans) {
  spans->push_back({std::string("callback/") + callback_ + "/offset",
                    DType::kInt64,
                    {},
                    &offset_});
}

void RowFile::AppendLiveState(std::vector<StateSpan>* spans) {
  const std::string prefix = std::string("callback/") + callback_;
  spans->push_back({prefix + "/last_row",
                    DType::kUint8,
                    {static_cast<int64_t>(kLongestRow)},
                    last_});
  spans->push_back(
      {prefix + "/last_row_bytes", DType::kInt64, {}, &last_bytes_});
}

Status RowFile::StateLoaded() const {
  if (offset_ < -1) {
    return Corruption("callback/%s/offset is %" PRId64, callback_, offset_);
  }
  if (last_bytes_ < 0 || last_bytes_ > static_cast<int64_t>(kLongestRow)) {
    return Corruption("callback/%s/last_row_bytes is %" PRId64, callback_,
                      last_bytes_);
  }
  return Status();
}

void AppendShortest(double value, std::string* row) {
  if (std::isnan(value)) {
    *row += "nan";
    return;
  }
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  row->append(digits, end.ptr);
}

}  // namespace ringlet
