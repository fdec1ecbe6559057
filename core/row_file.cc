#include "row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace ringlet {
namespace {

// Fills `buffer` from `at` as far as the file goes.
ssize_t ReadAt(int file, char* buffer, size_t bytes, int64_t at) {
  for (;;) {
    const ssize_t n = pread(file, buffer, bytes, static_cast<off_t>(at));
    if (n >= 0 || errno != EINTR) return n;
  }
}

// Where the last whole row ends.
int64_t EndOfRows(int file) {
  char buffer[4096];
  int64_t at = 0, end = 0;
  for (ssize_t n; (n = ReadAt(file, buffer, sizeof(buffer), at)) > 0; at += n) {
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] == '\n') end = at + i + 1;
    }
  }
  return end;
}

}  // namespace

void RowFile::Reset() {
  Close();
  offset_ = -1;
}

Status RowFile::Open(bool append) {
  const bool resumed = offset_ >= 0;
  const int begin = resumed || append ? 0 : O_TRUNC;
  file_ = open(filename_.c_str(),
               O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | begin, 0666);
  if (file_ < 0) {
    return OsError(errno, "%s: cannot be written", filename_.c_str());
  }
  warned_ = false;
  const int64_t size = lseek(file_, 0, SEEK_END);
  if (!resumed) {
    offset_ = size < 0 ? 0 : size;
    return Status();
  }
  if (size >= 0 && size < offset_) {
    std::fprintf(stderr,
                 "warning: %s: %s has %" PRId64 " of the %" PRId64
                 " bytes that it had when the backup was made; rows are "
                 "missing\n",
                 callback_, filename_.c_str(), size, offset_);
    offset_ = EndOfRows(file_);
  }
  if (size == offset_) return Status();
  const Status status = GoBack();
  if (!status.ok()) Close();
  return status;
}

Status RowFile::GoBack() {
  if (ftruncate(file_, static_cast<off_t>(offset_)) == 0) return Status();
  return OsError(errno, "%s: going back to offset %" PRId64, filename_.c_str(),
                 offset_);
}

Status RowFile::ReadHeader(std::string* header) const {
  header->clear();
  char buffer[512];
  for (int64_t at = 0;;) {
    const ssize_t n = ReadAt(file_, buffer, sizeof(buffer), at);
    if (n < 0) return OsError(errno, "%s: reading", filename_.c_str());
    const char* end =
        static_cast<const char*>(std::memchr(buffer, '\n', size_t(n)));
    header->append(buffer, end != nullptr ? size_t(end - buffer) : size_t(n));
    if (n == 0 || end != nullptr) break;
    at += n;
  }
  if (!header->empty() && header->back() == '\r') header->pop_back();
  return Status();
}

// False, with errno, where some of what is kept cannot be written.
bool RowFile::Flush() {
  while (!kept_.empty()) {
    const ssize_t n = write(file_, kept_.data(), kept_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    kept_.erase(0, static_cast<size_t>(n));
  }
  return true;
}

void RowFile::Write(const std::string& rows) {
  kept_ += rows;
  offset_ += static_cast<int64_t>(rows.size());
  if (Flush()) {
    warned_ = false;
  } else if (!warned_) {
    warned_ = true;
    std::fprintf(stderr,
                 "warning: %s: %s: writing a row: %s; training goes on, and "
                 "rows are kept until they can be written\n",
                 callback_, filename_.c_str(), std::strerror(errno));
  }
}

void RowFile::Close() {
  if (file_ < 0) return;
  if (!Flush()) {
    std::fprintf(stderr, "warning: %s: %s: %s; its last %zu bytes are lost\n",
                 callback_, filename_.c_str(), std::strerror(errno),
                 kept_.size());
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

Status RowFile::StateLoaded() const {
  if (offset_ >= -1) return Status();
  return Corruption("callback/%s/offset is %" PRId64, callback_, offset_);
}

}  // namespace ringlet
