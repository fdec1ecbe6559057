// Every rank counts the bytes of all rows, so that offset_ is equal on all
// ranks and may be part of a checkpoint. Rank 0's file lags behind it by kept_.
// In an elastic job another worker may become rank 0, with another file: the
// last row gives the job's place in that file.

#include "row_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <thread>
#include <utility>

namespace ringlet {
namespace {

// How long the reader of a pipe may pause, in milliseconds: while training
// waits for it, and as the log is closed.
constexpr int kReaderPause = 1000;
constexpr int kLastPause = 2000;

}  // namespace

Status RowFile::Open(Collective* collective, bool append, bool in_memory,
                     const std::string& last) {
  const bool begins = offset_ < 0 || !in_memory;
  std::string rows;  // the state's last, if they are known
  if (!begins && last_at_ == offset_) rows = last.empty() ? last_.str() : last;
  if (offset_ < 0) offset_ = base_.offset;
  const bool at_base = begins || (offset_ == base_.offset && rows.empty());
  const bool resumed = offset_ >= 0;
  Status own;
  if (collective->rank() == 0) {
    own = OpenOwn(collective->worker(), append, in_memory, rows);
    if (!own.ok()) Close(/*may_go_on=*/true);
    if (!own.ok() && resumed && in_memory && collective->elastic()) {
      own = LoseRows(own);
    }
  }
  const int64_t file = file_ == nullptr ? 0 : file_->Identity();
  int64_t opened[] = {own.ok() ? offset_ : -1, file};  // rank 0's
  const Status shared =
      BroadcastNumbers(collective, opened, sizeof(opened[0]), 2, /*root=*/0);
  RINGLET_RETURN_IF_ERROR(own);
  RINGLET_RETURN_IF_ERROR(shared);
  if (opened[0] < 0) {
    return Error(Code::kCancelled, "%s: rank 0 cannot write it",
                 filename_.c_str());
  }
  open_ = true;
  offset_ = last_at_ = opened[0];
  last_.Set(rows);
  if (offset_ == 0) pending_ = rows;
  if (at_base) base_ = state_base_ = {offset_, opened[1]};
  if (at_base && file_ != nullptr) {
    own_base_ = offset_;
  } else if (begins) {
    own_base_ = -1;  // another worker's
  }
  return Status();
}

Status RowFile::OpenOwn(int worker, bool append, bool in_memory,
                        const std::string& last) {
  int64_t size = 0;
  if (path_.empty()) path_ = filename_;
  Status opened = OpenLocked(&size);
  if (opened.code() == Code::kAlreadyExists && path_ == filename_) {
    const size_t name = path_.size() - FileNameOf(path_).size();
    const size_t dot = std::min(path_.rfind('.'), path_.size());
    path_.insert(dot > name ? dot : path_.size(),
                 ".worker-" + std::to_string(worker));
    Notice("note: %s: another process writes %s; this one writes %s", callback_,
           filename_.c_str(), path_.c_str());
    opened = OpenLocked(&size);
    own_base_ = -1;
  }
  if (path_ != filename_) append = true;  // it may have rows of another run
  RINGLET_RETURN_IF_ERROR(opened);
  disk_ = Disk::kTakesAll;
  TakeKept(&size);
  if (size < 0) {  // a pipe
    offset_ = std::max<int64_t>(offset_, 0);
    return Status();
  }
  if (offset_ >= 0) {
    return Continue(size, IsCountedIn(size, append, in_memory), last);
  }
  if (!append) return CutTo(0, size);
  offset_ = size;
  if (RowEndsAt(size)) return Status();
  Notice("warning: %s: %s: its last row has no end; a new line begins",
         callback_, path_.c_str());
  Append("\n");
  return Status();
}

// *size is -1 for a pipe, which may have many writers. A writer that ends
// releases its lock a moment after its peers have lost it.
Status RowFile::OpenLocked(int64_t* size) {
  if (pipe_ != nullptr) {
    file_ = std::move(pipe_);
    *size = -1;
    return Status();
  }
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(2);
  RINGLET_RETURN_IF_ERROR(files_->OpenLog(path_, /*append=*/true, &file_));
  Status locked;
  if (!file_->Size(size).ok()) *size = -1;
  for (int i = 0; i < kTries && *size >= 0; ++i) {
    locked = file_->Lock(&lock_);
    if (locked.code() != Code::kAlreadyExists) return file_->Size(size);
    std::this_thread::sleep_for(kPause);
  }
  if (!locked.ok()) file_.reset();  // another process writes it
  return locked;
}

// True if offset_ is an offset in this file, and not in another disk's.
bool RowFile::IsCountedIn(int64_t size, bool append, bool in_memory) const {
  // At byte 0 of a backup no row identifies the file.
  if (!in_memory && (offset_ > 0 || !append)) return true;
  if (offset_ != base_.offset) return false;
  // Either the run emptied the file at its start, or nothing would be cut, or
  // it is the file of the lost writer.
  return (offset_ == 0 && !append) || size == offset_ ||
         (base_.file != 0 && base_.file == file_->Identity());
}

// Cuts the file behind the last row of the restored state, if it has that row.
// Unless `is_own`, offset_ may be an offset in another disk's file.
Status RowFile::Continue(int64_t size, bool is_own, const std::string& last) {
  const bool at_own_base =
      offset_ == base_.offset && last.empty() && own_base_ >= 0;
  if (at_own_base && own_base_ <= size && RowEndsAt(own_base_)) {
    return CutTo(own_base_, size);
  }
  const int64_t begin = offset_ - static_cast<int64_t>(last.size());
  const bool has =
      last.empty() ? is_own && RowEndsAt(offset_) : StandsAt(begin, last);
  if (has && offset_ <= size) return CutTo(offset_, size);
  const int64_t end = std::max<int64_t>(EndOf("\n", size), 0);
  const bool lacks_last = end == begin;
  // An earlier run may have written the same row.
  const int64_t found = last.empty() ? -1 : EndOf("\n" + last, end);
  if (found > (lacks_last ? base_.offset : -1)) return CutTo(found, size);
  const size_t begun = BytesBegun(last, end);
  if (last.empty() || (begun == 0 && !lacks_last)) {
    Notice("warning: %s: no row of %s ends at byte %" PRId64 " of %" PRId64
           ", from which this run continues; rows may be in another log, or "
           "lost, and new rows follow its last whole row",
           callback_, path_.c_str(), offset_, size);
  }
  // A file without a whole row may be no log.
  const bool is_foreign =
      end == 0 && size > 0 && !is_own && (last.empty() || path_ != filename_);
  RINGLET_RETURN_IF_ERROR(CutTo(is_foreign ? size : end, size));
  if (is_foreign) Append("\n");
  // In an empty file the header is first: see pending_.
  if (offset_ > 0 || lacks_last) Append(last.substr(begun));
  return Status();
}

// The bytes of `rows` that a lost writer has written before `end`.
size_t RowFile::BytesBegun(const std::string& rows, int64_t end) const {
  size_t bytes = rows.size();
  while (bytes > 1) {
    bytes = rows.rfind('\n', bytes - 2) + 1;
    const auto begin = end - static_cast<int64_t>(bytes);
    if (StandsAt(begin, rows.substr(0, bytes))) return bytes;
  }
  return 0;
}

// The end of the last `text` in the first `size` bytes; -1: there is none.
int64_t RowFile::EndOf(const std::string& text, int64_t size) const {
  const auto bytes = static_cast<int64_t>(text.size());
  const int64_t piece = std::max<int64_t>(256 << 10, 2 * bytes);
  for (int64_t to = size; to >= bytes;) {
    const int64_t from = std::max<int64_t>(0, to - piece);
    const size_t at = Read(from, to).rfind(text);
    if (at != std::string::npos) return from + static_cast<int64_t>(at) + bytes;
    to = from > 0 ? from + bytes - 1 : 0;
  }
  return -1;
}

Status RowFile::ReadHeader(Collective* collective, bool in_memory,
                           std::string* header) {
  constexpr int64_t kLongest = 1 << 16;
  int64_t size = 0;
  header->clear();
  if (file_ != nullptr && file_->Size(&size).ok()) {
    size += static_cast<int64_t>(kept_.size());
    *header = Read(0, std::min(size, kLongest));
    header->resize(std::min(header->find('\n'), header->size()));
  }
  const Status too_long = InvalidArgument(
      "%s: its first line is not a header: it has %d bytes or more",
      (path_.empty() ? filename_ : path_).c_str(), static_cast<int>(kLongest));
  // A new chief's own file: see Open.
  if (header->size() == kLongest && in_memory && collective->elastic()) {
    RINGLET_RETURN_IF_ERROR(LoseRows(too_long));
    open_ = true;
    header->clear();
  }
  size = static_cast<int64_t>(header->size());
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(collective, &size, sizeof(size), 1, /*root=*/0));
  if (size == kLongest) return too_long;
  header->resize(static_cast<size_t>(size));
  if (size == 0) return Status();
  RINGLET_RETURN_IF_ERROR(
      collective->Broadcast(&(*header)[0], header->size(), /*root=*/0));
  if (header->back() == '\r') header->pop_back();
  return Status();
}

void RowFile::Append(const std::string& rows) {
  offset_ += static_cast<int64_t>(rows.size());
  last_.Set(rows);
  last_at_ = offset_;
  if (file_ == nullptr) return;
  // Whole rows are dropped, and the newest ones: kept_ continues the file.
  const bool fits = Flush(0).ok() || kept_.size() < kMostKept;
  if (fits) kept_ += rows;
  const Status written = Flush(disk_ == Disk::kTakesAll ? kReaderPause : 0);
  const Disk before = std::exchange(disk_, written.ok() ? Disk::kTakesAll
                                           : fits       ? Disk::kFull
                                                        : Disk::kOverfull);
  if (disk_ <= before) return;
  const int error = written.os_error();
  Notice("warning: %s: %s: writing a row: %s; %s", callback_, path_.c_str(),
         error == EAGAIN || error == EPIPE ? "nothing reads the pipe"
                                           : ErrnoText(error).c_str(),
         fits
             ? "training continues, and rows are kept until they can be written"
             : "too many rows wait; those that follow are dropped until it "
               "can be written again");
}

// Writes the kept rows, or returns an error. Waits so long for the reader of a
// full pipe, and kReaderPause once it has read.
Status RowFile::Flush(int milliseconds) {
  while (!kept_.empty()) {
    size_t written = 0;
    const Status status =
        file_->WriteSome(kept_.data(), kept_.size(), &written);
    kept_.erase(0, written);
    if (written > 0) milliseconds = std::max(milliseconds, kReaderPause);
    const bool goes_on =
        status.ok() || status.os_error() == EINTR ||
        (status.os_error() == EAGAIN && file_->WaitWritable(milliseconds));
    if (!goes_on) return status;
  }
  return Status();
}

void RowFile::Close(bool may_go_on) {
  open_ = false;
  pending_.clear();
  if (pipe_ != nullptr) file_ = std::move(pipe_);
  if (file_ != nullptr) {
    const bool kept = !Flush(may_go_on ? 0 : kLastPause).ok();
    int64_t size = -1;
    const bool is_pipe = file_->Size(&size).os_error() == ESPIPE;
    if (kept) kept_path_ = path_, kept_behind_ = size;
    if (is_pipe && may_go_on) pipe_ = std::move(file_);
  }
  if (!may_go_on) LoseKept();
  file_.reset();
  lock_.reset();
}

void RowFile::TakeKept(int64_t* size) {
  if (kept_path_ != path_ || kept_behind_ != *size) LoseKept();
  if (*size >= 0) *size += static_cast<int64_t>(kept_.size());
}

void RowFile::LoseKept() {
  if (kept_.empty()) return;
  Notice(
      "warning: %s: %s: its last %zu bytes are lost, since they could not "
      "be written",
      callback_, kept_path_.c_str(), kept_.size());
  kept_.clear();
}

std::string RowFile::Read(int64_t from, int64_t to) const {
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

void RowFile::AppendState(std::vector<StateSpan>* spans) {
  const std::string name = std::string("callback/") + callback_ + "/offset";
  spans->push_back({name, DType::kInt64, {}, &offset_});
}

void RowFile::AppendLiveState(std::vector<StateSpan>* spans) {
  const std::string row = std::string("callback/") + callback_ + "/last_row";
  spans->push_back(
      {row, DType::kUint8, {static_cast<int64_t>(kLongestRow)}, last_.text});
  spans->push_back({row + "_bytes", DType::kInt64, {}, &last_.bytes});
  spans->push_back({row + "_at", DType::kInt64, {}, &last_at_});
  const std::string base = std::string("callback/") + callback_ + "/base";
  spans->push_back({base, DType::kInt64, {}, &state_base_.offset});
  spans->push_back({base + "_file", DType::kInt64, {}, &state_base_.file});
}

Status RowFile::StateLoaded() {
  // A state from before Open has no base; this process may have opened it
  // since.
  if (state_base_.offset < 0) state_base_ = base_;
  base_ = state_base_;
  const auto most = static_cast<int64_t>(kLongestRow);
  const bool fits = last_.bytes >= 0 && last_.bytes <= most;
  if (offset_ >= -1 && base_.offset >= -1 && fits) return Status();
  return Corruption("callback/%s: offset %" PRId64 ", last row of %" PRId64
                    " bytes",
                    callback_, offset_, last_.bytes);
}

}  // namespace ringlet
