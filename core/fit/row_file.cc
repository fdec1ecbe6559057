#include "row_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "../base/message.h"

namespace ringlet {
namespace {

// Fills `buffer` from `at` as far as the file goes.
ssize_t ReadAt(int file, char* buffer, size_t bytes, int64_t at) {
  for (;;) {
    const ssize_t n = pread(file, buffer, bytes, static_cast<off_t>(at));
    if (n >= 0 || errno != EINTR) return n;
  }
}

// Where the last whole row of the first `limit` bytes ends.
int64_t EndOfRows(int file, int64_t limit) {
  char buffer[4096];
  int64_t at = 0, end = 0;
  for (ssize_t n; (n = ReadAt(file, buffer, sizeof(buffer), at)) > 0; at += n) {
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] == '\n' && at + i < limit) end = at + i + 1;
    }
    if (at >= limit) break;
  }
  return end;
}

// Not through a link to a file, which O_TRUNC or a resume would cut. A link to
// a terminal or a pipe, as /dev/stdout is, does no harm.
int OpenLog(const char* path, int flags) {
  const int own = open(path, flags | O_NOFOLLOW, 0666);
  if (own >= 0 || errno != ELOOP) return own;
  const int linked = open(path, flags & ~(O_CREAT | O_TRUNC), 0666);
  if (linked < 0) return linked;
  struct stat about;
  if (fstat(linked, &about) == 0 && !S_ISREG(about.st_mode)) return linked;
  close(linked);
  errno = ELOOP;
  return -1;
}

// rank 0's number, on every rank.
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
  const int begin = resumed || append ? 0 : O_TRUNC;
  file_ = OpenLog(filename_.c_str(),
                  O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | begin);
  if (file_ < 0 && errno == ELOOP) {
    return InvalidArgument(
        "%s: is a symbolic link, through which nothing is written; remove it, "
        "or name the file that it leads to",
        filename_.c_str());
  }
  if (file_ < 0) {
    return OsError(errno, "%s: cannot be written", filename_.c_str());
  }
  warned_ = dropped_ = false;
  if (resumed) {
    const Status status = FindRestored();
    if (!status.ok()) Close();
    return status;
  }
  const int64_t size = lseek(file_, 0, SEEK_END);
  offset_ = size < 0 ? 0 : size;
  return Status();
}

// Back to the rows that the backup knows, as far as the file has them.
Status RowFile::FindRestored() {
  const int64_t size = lseek(file_, 0, SEEK_END);
  if (size < 0) return Status();  // a pipe
  if (size < offset_ && LastRowFollows(EndOfRows(file_, size))) {
    offset_ -= last_bytes_;
    if (size != offset_) RINGLET_RETURN_IF_ERROR(GoBack());
    Write(std::string(last_, static_cast<size_t>(last_bytes_)));
    return Status();
  }
  if (size < offset_) {
    Notice("warning: %s: %s has %" PRId64 " of the %" PRId64
           " bytes that it had when the backup was made; rows are "
           "missing",
           callback_, filename_.c_str(), size, offset_);
    offset_ = EndOfRows(file_, size);
  } else if (char last = '\n'; offset_ > 0 &&
                               ReadAt(file_, &last, 1, offset_ - 1) == 1 &&
                               last != '\n') {
    Notice("warning: %s: no row of %s ends at byte %" PRId64
           ", as one did when the backup was made; rows may be missing, "
           "or there twice",
           callback_, filename_.c_str(), offset_);
    offset_ = EndOfRows(file_, offset_);
  }
  return size == offset_ ? Status() : GoBack();
}

// Whether the last row is all that the file lacks behind `end`.
bool RowFile::LastRowFollows(int64_t end) const {
  return last_bytes_ > 0 && end == offset_ - last_bytes_ &&
         last_[last_bytes_ - 1] == '\n';
}

Status RowFile::GoBack() {
  if (ftruncate(file_, static_cast<off_t>(offset_)) == 0) return Status();
  return OsError(errno, "%s: going back to offset %" PRId64, filename_.c_str(),
                 offset_);
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
  char buffer[512];
  for (int64_t at = 0;;) {
    const ssize_t n = ReadAt(file_, buffer, sizeof(buffer), at);
    if (n < 0) return OsError(errno, "%s: reading", filename_.c_str());
    const char* end =
        static_cast<const char*>(std::memchr(buffer, '\n', size_t(n)));
    header->append(buffer, end != nullptr ? size_t(end - buffer) : size_t(n));
    if (n == 0 || end != nullptr) break;
    if (header->size() > kLongest) {
      return InvalidArgument(
          "%s: its first line is no header: it is longer "
          "than %zu bytes",
          filename_.c_str(), kLongest);
    }
    at += n;
  }
  if (!header->empty() && header->back() == '\r') header->pop_back();
  return Status();
}

// False, with errno, where some of what is kept cannot be written.
bool RowFile::Flush() {
  size_t done = 0;
  while (done < kept_.size()) {
    const ssize_t n = write(file_, kept_.data() + done, kept_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  kept_.erase(0, done);
  return kept_.empty();
}

void RowFile::Warn(const char* what) const {
  Notice("warning: %s: %s: writing a row: %s; %s", callback_, filename_.c_str(),
         ErrnoText(errno).c_str(), what);
}

void RowFile::Write(const std::string& rows) {
  offset_ += static_cast<int64_t>(rows.size());
  last_bytes_ = 0;
  if (rows.size() <= kLongestRow) {
    std::memcpy(last_, rows.data(), rows.size());
    last_bytes_ = static_cast<int64_t>(rows.size());
  }
  if (file_ < 0) return;
  // What waits goes first. Whole rows are dropped, and the newest, so that what
  // is in the file goes on as what is kept.
  bool fits = true;
  if (!kept_.empty() && !Flush()) fits = kept_.size() < kMostKept;
  if (fits) kept_ += rows;
  if (Flush()) {
    warned_ = false;
  } else if (!warned_) {
    warned_ = true;
    Warn("training goes on, and rows are kept until they can be written");
  } else if (!fits && !dropped_) {
    dropped_ = true;
    Warn(
        "too many rows wait; those that follow are dropped until it can be "
        "written again");
  }
}

void RowFile::Close() {
  open_ = false;
  if (file_ < 0) return;
  if (!Flush()) {
    Notice("warning: %s: %s: %s; its last %zu bytes are lost", callback_,
           filename_.c_str(), ErrnoText(errno).c_str(), kept_.size());
    kept_.clear();
  }
  close(file_);
  file_ = -1;
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

}  // namespace ringlet
