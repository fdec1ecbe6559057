#include "row_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace ringlet {
namespace {

// How long the reader of a pipe may pause, in milliseconds: while training
// waits for it, and as the log is closed.
constexpr int kReaderPause = 1000;
constexpr int kLastPause = 2000;

}  // namespace

Status RowWriter::Open(const std::string& path) {
  if (pipe_ != nullptr) {
    file_ = std::move(pipe_);
  } else {
    RINGLET_RETURN_IF_ERROR(files_->OpenLog(path, /*append=*/true, &file_));
  }
  const Status locked = Lock();
  if (!locked.ok()) {
    file_.reset();
    return locked;
  }
  int64_t size = 0;
  if (!file_->Size(&size).ok()) size = -1;
  if (path != path_ || size != size_at_close_) LoseKept();
  path_ = path;
  disk_ = Disk::kTakesAll;
  return Status();
}

// Tries again for 0.2 s, since a writer that has just ended may still hold the
// lock. In a file system without locks the user must see to it that there is
// one writer.
Status RowWriter::Lock() {
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(2);
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  Status locked;
  for (int i = 0; i < kTries; ++i) {
    locked = file_->Lock(&lock_);
    if (locked.code() != Code::kAlreadyExists) return Status();
    std::this_thread::sleep_for(kPause);
  }
  return locked;
}

void RowWriter::Close(bool keep_rows) {
  if (pipe_ != nullptr) file_ = std::move(pipe_);
  if (file_ != nullptr) {
    Flush(keep_rows ? 0 : kLastPause).IgnoreError();
    if (!file_->Size(&size_at_close_).ok()) size_at_close_ = -1;
    if (keep_rows && size_at_close_ < 0) pipe_ = std::move(file_);
  }
  if (!keep_rows) LoseKept();
  file_.reset();
  lock_.reset();
}

void RowWriter::LoseKept() {
  if (kept_.empty()) return;
  Notice(
      "warning: %s: %s: its last %zu bytes are lost, since they could not "
      "be written",
      callback_, path_.c_str(), kept_.size());
  kept_.clear();
}

void RowWriter::Append(const std::string& rows) {
  if (file_ == nullptr) return;
  // Whole rows are dropped, and the newest ones: kept_ continues the file.
  const bool fits = Flush(0).ok() || kept_.size() < kMaxKept;
  if (fits) kept_ += rows;
  const Status written = Flush(disk_ == Disk::kTakesAll ? kReaderPause : 0);
  const Disk before = std::exchange(disk_, written.ok() ? Disk::kTakesAll
                                           : fits       ? Disk::kFull
                                                        : Disk::kOverfull);
  if (disk_ <= before) return;
  const int error = written.os_error();
  Notice("warning: %s: %s: %s; %s", callback_, path_.c_str(),
         error == EAGAIN || error == EPIPE
             ? "writing a row: nothing reads the pipe"
             : OsError(error, "writing a row").message(),
         fits
             ? "training continues, and rows are kept until they can be written"
             : "too many rows wait; those that follow are dropped until it "
               "can be written again");
}

// Writes the kept rows, or returns an error. Waits `milliseconds` for the
// reader of a full pipe, and at least kReaderPause once some bytes were
// written.
Status RowWriter::Flush(int milliseconds) {
  while (!kept_.empty()) {
    size_t written = 0;
    const Status status =
        file_->WriteSome(kept_.data(), kept_.size(), &written);
    kept_.erase(0, written);
    if (written > 0) milliseconds = std::max(milliseconds, kReaderPause);
    const bool may_retry =
        status.ok() || status.os_error() == EINTR ||
        (status.os_error() == EAGAIN && file_->WaitWritable(milliseconds));
    if (!may_retry) return status;
  }
  return Status();
}

// A file that is append-only refuses to be truncated, even to its size.
Status RowWriter::CutTo(int64_t end) {
  const int64_t on_disk = Size() - static_cast<int64_t>(kept_.size());
  if (end < on_disk) RINGLET_RETURN_IF_ERROR(file_->Truncate(end));
  kept_.resize(static_cast<size_t>(std::max<int64_t>(end - on_disk, 0)));
  return Status();
}

int64_t RowWriter::Size() const {
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return -1;
  return size + static_cast<int64_t>(kept_.size());
}

std::string RowWriter::Read(int64_t from, int64_t to) const {
  std::string text(static_cast<size_t>(to - from), '\n');
  int64_t size = to;
  if (!kept_.empty() && !file_->Size(&size).ok()) size = to;
  const int64_t end = std::min(std::max(size, from), to);
  file_->Read(from, &text[0], static_cast<size_t>(end - from)).IgnoreError();
  if (end < to) {
    const size_t at = std::min(static_cast<size_t>(end - size), kept_.size());
    kept_.copy(&text[static_cast<size_t>(end - from)],
               static_cast<size_t>(to - end), at);
  }
  return text;
}

}  // namespace ringlet
