// Every rank counts the bytes of all rows, written or not, so that offset_ is
// one number of the whole job and may be part of a checkpoint. Rank 0 alone has
// a file, which lags behind by kept_: rows that a full disk did not take. In an
// elastic job rank 0 may become another worker, with another file: offset_ is
// then a number of that one, and the last row says where the job is.

#include "row_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <thread>

#include "../../core/base/message.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "../../core/model/model.h"

namespace ringlet {
namespace {

// Rank 0's number, on every rank.
Status Share(Collective* collective, int64_t* number) {
  return BroadcastNumbers(collective, number, sizeof(*number), 1, 0);
}

}  // namespace

void RowFile::Reset(bool goes_on) {
  Close();
  offset_ = -1;
  if (!goes_on) base_ = -1, base_row_.clear();
  last_at_ = -1;
  first_.bytes = last_.bytes = 0;
  last_rows_.clear();
  last_given_ = false;
}

void RowFile::SetLast(const std::string& rows) {
  last_.Set(rows.data(), rows.size());
  last_rows_ = rows;
  last_given_ = true;
}

void RowFile::Row::Set(const char* from, size_t size) {
  bytes = 0;
  if (size > kLongestRow) return;
  std::memcpy(text, from, size);
  bytes = static_cast<int64_t>(size);
}

Status RowFile::Open(Collective* collective, bool append, bool in_memory,
                     bool named) {
  named_ = named;
  if (!in_memory) first_.bytes = 0;
  const bool knows = in_memory && has_last();
  if (!knows) last_.bytes = 0, last_given_ = false;
  if (!last_given_) last_rows_ = last_.str();
  last_given_ = false;
  const bool begins = offset_ < 0 || !in_memory;  // on all ranks or on none
  if (in_memory && offset_ < 0) offset_ = base_;
  const bool resumed = offset_ >= 0;
  Status own;
  elastic_ = collective->elastic();
  const bool counted = !in_memory || !elastic_;
  keeps_more_ = !counted;
  if (collective->rank() == 0) own = OpenOwn(append, counted);
  if (!own.ok() && resumed && in_memory && elastic_) {
    Notice("warning: %s: %s; its rows are lost while this worker is the chief",
           callback_, own.message());
    own = Status();
  }
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
  if (knows) last_at_ = offset_;
  if (!resumed) anew_ = offset == 0, owned_ = false;
  if (begins) RINGLET_RETURN_IF_ERROR(ShareBase(collective));
  counts_own_ = collective->rank() == 0 && file_ != nullptr;
  owned_ = owned_ || counts_own_;
  return Status();
}

// Where the rows of this run begin, of which a state may be taken up that has
// none yet: on all ranks.
Status RowFile::ShareBase(Collective* collective) {
  Row row;
  base_ = offset_;
  if (file_ != nullptr) {
    const std::string before = RowBefore(offset_);
    row.Set(before.data(), before.size());
  }
  RINGLET_RETURN_IF_ERROR(Share(collective, &row.bytes));
  RINGLET_RETURN_IF_ERROR(collective->Broadcast(row.text, sizeof(row.text), 0));
  base_row_ = row.str();
  return Status();
}

// `counted`: the offset is one of this file, whoever counted it.
Status RowFile::OpenOwn(bool append, bool counted) {
  const bool resumed = offset_ >= 0;
  RINGLET_RETURN_IF_ERROR(
      files_->OpenLog(filename_, resumed || append, &file_));
  const std::unique_ptr<HeldLock> lock = LockRows();
  warned_ = dropped_ = has_more_ = false;
  if (resumed) {
    if (last_rows_.empty() && offset_ == base_) TakeBaseRow();
    const bool begins = offset_ == 0 && !append;
    const bool exact =
        counted || begins ||
        (counts_own_ && (offset_ == base_ || LastRowEndsAt(offset_)));
    const Status status = exact ? FindRestored() : FindLastRow();
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
    Append("\n");
    last_.bytes = 0;  // as on the other ranks
    last_rows_.clear();
  }
  return Status();
}

// Back to the rows that the backup knows, as far as the file has them.
Status RowFile::FindRestored() {
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  if (size < offset_ && !last_rows_.empty()) return FindLastRow();
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
  return CutTo(size);
}

// What lies behind is of rows that are yet to come. In an elastic job a part of
// it that has gone further may have written them, to the same bits, and goes on
// in the end: whole rows stay until another one is to be written there.
Status RowFile::CutTo(int64_t size) {
  has_more_ = keeps_more_;
  const int64_t end = has_more_ ? std::max(offset_, EndOfRows(size)) : offset_;
  return end == size ? Status() : file_->Truncate(end);
}

// Behind the job's last row, which it may not have: then behind all that it
// has.
Status RowFile::FindLastRow() {
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  int64_t end = EndOfRows(size);
  const int64_t last = EndOfLastRow(end);
  const size_t begun = last < 0 ? LastRowsBegun(end) : 0;
  const bool follows =
      begun > 0 || end == offset_ - static_cast<int64_t>(last_rows_.size());
  if (last < 0 && !follows && end > 0 && anew_ && !owned_) {
    RINGLET_RETURN_IF_ERROR(SetAside());
    end = size = 0;
  }
  offset_ = last >= 0 ? last : end;
  RINGLET_RETURN_IF_ERROR(CutTo(size));
  if (last >= 0) return Status();
  if (!follows) {
    Notice(
        "note: %s: %s goes on here; rows before are in the file of another "
        "worker, which was the chief then, or lost",
        callback_, filename_.c_str());
  }
  const std::string rows = last_rows_;
  if (rows.empty()) return Status();
  const bool has_first = StartsWith(rows, first_.str());
  if (offset_ == 0 && !has_first) Append(first_.str());
  Append(rows.substr(begun));
  SetLast(rows);
  last_given_ = false;
  return Status();
}

// Rows of a run before this one, which was not there to begin the file anew.
Status RowFile::SetAside() {
  const std::string old = filename_ + ".old";
  file_.reset();
  RINGLET_RETURN_IF_ERROR(files_->Rename(filename_, old));
  Notice("note: %s: %s had rows of another run, and is %s now", callback_,
         filename_.c_str(), old.c_str());
  return files_->OpenLog(filename_, /*append=*/true, &file_);
}

Status RowFile::ReadHeader(Collective* collective, std::string* header) {
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
  RINGLET_RETURN_IF_ERROR(
      collective->Broadcast(&(*header)[0], header->size(), 0));
  const std::string row = *header + "\n";
  first_.Set(row.data(), row.size());
  if (header->back() == '\r') header->pop_back();
  return Status();
}

Status RowFile::ReadOwnHeader(std::string* header) const {
  constexpr size_t kLongest = 1 << 20;
  if (file_ == nullptr) return Status();
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return Status();  // a pipe
  char buffer[512];
  for (int64_t at = 0;;) {
    size_t n = 0;
    RINGLET_RETURN_IF_ERROR(ReadAt(buffer, sizeof(buffer), at, &n));
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

// In an elastic job the chiefs of two parts may have one file on a shared disk:
// to look what it has and to write there is one act. One that stands still with
// the lock holds up nobody for longer than this, and once.
std::unique_ptr<HeldLock> RowFile::LockRows() {
  constexpr int kTries = 1000;
  constexpr auto kPause = std::chrono::microseconds(200);
  std::unique_ptr<HeldLock> lock;
  if (file_ == nullptr || !elastic_) return lock;
  const auto held = [&] {
    return file_->Lock(&lock).code() == Code::kAlreadyExists;
  };
  bool waits = held();
  for (int i = 0; waits && i < kTries && !held_up_; ++i) {
    std::this_thread::sleep_for(kPause);
    waits = held();
  }
  held_up_ = waits;
  return lock;
}

void RowFile::Write(const std::string& rows) {
  const std::unique_ptr<HeldLock> lock = LockRows();
  Append(rows);
}

void RowFile::Append(const std::string& rows) {
  DropWritten();
  const size_t written_already = Written(rows);
  if (offset_ == 0) first_.Set(rows.data(), rows.find('\n') + 1);
  last_.Set(rows.data(), rows.size());
  last_rows_ = rows;
  offset_ += static_cast<int64_t>(rows.size());
  last_at_ = offset_;
  if (file_ == nullptr || written_already == rows.size()) return;
  // What waits goes first. Whole rows are dropped, and the newest, so that what
  // is in the file goes on as what is kept.
  bool fits = true;
  if (!kept_.empty() && !Flush().ok()) fits = kept_.size() < kMostKept;
  if (fits) kept_ += rows.substr(written_already);
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
  const std::unique_ptr<HeldLock> lock = LockRows();
  DropWritten();
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
  const auto append = [spans](const std::string& name, Row* row) {
    spans->push_back(
        {name, DType::kUint8, {static_cast<int64_t>(kLongestRow)}, row->text});
    spans->push_back({name + "_bytes", DType::kInt64, {}, &row->bytes});
  };
  append(prefix + "/first_row", &first_);
  append(prefix + "/last_row", &last_);
  spans->push_back({prefix + "/last_row_at", DType::kInt64, {}, &last_at_});
}

Status RowFile::StateLoaded() const {
  if (offset_ < -1) {
    return Corruption("callback/%s/offset is %" PRId64, callback_, offset_);
  }
  for (const Row* row : {&first_, &last_}) {
    if (row->bytes < 0 || row->bytes > static_cast<int64_t>(kLongestRow)) {
      return Corruption("a row of callback/%s has %" PRId64 " bytes", callback_,
                        row->bytes);
    }
  }
  return Status();
}

Status RowLogger::OpenFile(const FitState& fit, bool append) {
  return file_.Open(fit.model->collective(), append, fit.in_memory,
                    fit.HasNamed());
}

void AppendShortest(double value, std::string* row) {
  if (std::isnan(value)) {
    *row += "nan";
    return;
  }
  *row += ShortestText(value);
}

}  // namespace ringlet
