// Where rows stand in a RowFile's file; see row_file.cc.

#include <algorithm>
#include <cerrno>

#include "row_file.h"

namespace ringlet {

// Fills `buffer` from `at` as far as the file goes.
Status RowFile::ReadAt(char* buffer, size_t bytes, int64_t at,
                       size_t* got) const {
  for (;;) {
    const Status status = file_->ReadSome(at, buffer, bytes, got);
    if (status.os_error() != EINTR) return status;
  }
}

// Not where another byte is known to stand before `offset`.
bool RowFile::EndsARow(int64_t offset) const {
  char last = '\n';
  size_t got = 0;
  return offset == 0 || !ReadAt(&last, 1, offset - 1, &got).ok() || got == 0 ||
         last == '\n';
}

// Where the job's last row ends in the file, whose rows end at `end`; -1: it is
// not there. What follows it is yet to come.
int64_t RowFile::EndOfLastRow(int64_t end) const {
  const auto bytes = static_cast<int64_t>(last_rows_.size());
  const int64_t piece = std::max<int64_t>(256 << 10, 2 * bytes);
  if (bytes == 0) return -1;
  for (int64_t to = end; to > 0;) {
    const int64_t from = std::max<int64_t>(0, to - piece);
    const int64_t found = FindRow(from, to);
    if (found >= 0) return found + bytes;
    if (from == 0) break;
    to = from + bytes;  // one that begins before `from`
  }
  return -1;
}

// The last place of the last row, whole, between these bytes of the file; -1.
int64_t RowFile::FindRow(int64_t from, int64_t to) const {
  const int64_t begin = std::max<int64_t>(0, from - 1);
  std::string piece(static_cast<size_t>(to - begin), '\0');
  for (size_t done = 0, n = 0; done < piece.size(); done += n) {
    const Status read = ReadAt(&piece[done], piece.size() - done,
                               begin + static_cast<int64_t>(done), &n);
    if (!read.ok() || n == 0) return -1;
  }
  const std::string& row = last_rows_;
  for (size_t at = piece.rfind(row); at != std::string::npos;
       at = at == 0 ? std::string::npos : piece.rfind(row, at - 1)) {
    const bool whole = at == 0 ? begin == 0 : piece[at - 1] == '\n';
    if (whole) return begin + static_cast<int64_t>(at);
  }
  return -1;
}

// Where the last whole row of the first `limit` bytes ends.
int64_t RowFile::EndOfRows(int64_t limit) const {
  char buffer[4096];
  int64_t at = 0, end = 0;
  for (size_t n = 0; at < limit; at += static_cast<int64_t>(n)) {
    const Status read = ReadAt(buffer, sizeof(buffer), at, &n);
    if (!read.ok() || n == 0) break;
    for (size_t i = 0; i < n; ++i) {
      const int64_t after = at + static_cast<int64_t>(i) + 1;
      if (buffer[i] == '\n' && after <= limit) end = after;
    }
  }
  return end;
}

bool RowFile::LastRowEndsAt(int64_t offset) const {
  const auto size = static_cast<int64_t>(last_rows_.size());
  return size > 0 && StandsAt(offset - size, last_rows_);
}

// From the begin of a row on.
bool RowFile::StandsAt(int64_t offset, const std::string& rows) const {
  return offset >= 0 && EndsARow(offset) && HasAt(offset, rows);
}

bool RowFile::HasAt(int64_t offset, const std::string& rows) const {
  std::string there(rows.size(), '\0');
  for (size_t done = 0, n = 0; done < there.size(); done += n) {
    const Status read = ReadAt(&there[done], there.size() - done,
                               offset + static_cast<int64_t>(done), &n);
    if (!read.ok() || n == 0) return false;
  }
  return there == rows;
}

// Who was lost and does not know it yet may end a step that the others have
// ended without it: of the same bits, as another chief has written them. So
// many bytes of them are there; fewer than all where the disk is full.
size_t RowFile::Written(const std::string& rows) {
  int64_t size = 0;
  if (file_ == nullptr || !counts_own_ || !kept_.empty() ||
      !file_->Size(&size).ok() || size <= offset_) {
    return 0;
  }
  const auto more = static_cast<size_t>(size - offset_);
  if (StandsAt(offset_, rows.substr(0, more))) {
    return std::min(more, rows.size());
  }
  if (has_more_ || named_) file_->Truncate(offset_).IgnoreError();
  has_more_ = false;
  return 0;
}

// Of the rows that a full disk did not take another chief may have written some
// meanwhile, the first perhaps from where it was torn.
void RowFile::DropWritten() {
  int64_t size = 0;
  if (kept_.empty() || dropped_ || file_ == nullptr || !elastic_ ||
      !counts_own_ || !file_->Size(&size).ok()) {
    return;
  }
  const int64_t at = offset_ - static_cast<int64_t>(kept_.size());
  if (at < 0 || size <= at) return;
  const std::string there = kept_.substr(0, static_cast<size_t>(size - at));
  if (HasAt(at, there)) kept_.erase(0, there.size());
}

// The row that ends there; "" where it is longer than a state has.
std::string RowFile::RowBefore(int64_t offset) const {
  const auto most = static_cast<int64_t>(kLongestRow) + 1;
  const int64_t from = std::max<int64_t>(0, offset - most);
  std::string piece(static_cast<size_t>(offset - from), '\0');
  for (size_t done = 0, n = 0; done < piece.size(); done += n) {
    const Status read = ReadAt(&piece[done], piece.size() - done,
                               from + static_cast<int64_t>(done), &n);
    if (!read.ok() || n == 0) return "";
  }
  if (piece.size() < 2) return "";
  const size_t end = piece.rfind('\n', piece.size() - 2);
  if (end != std::string::npos) return piece.substr(end + 1);
  return from == 0 ? piece : "";
}

// Where the file has it: one of another disk may not.
void RowFile::TakeBaseRow() {
  int64_t size = 0;
  if (!file_->Size(&size).ok()) return;  // a pipe
  last_rows_ = base_row_;
  if (EndOfLastRow(EndOfRows(size)) < 0) last_rows_.clear();
}

// So many bytes of the last rows stand where the file's rows end: the chief
// before was lost while it wrote them.
size_t RowFile::LastRowsBegun(int64_t end) const {
  size_t bytes = last_rows_.size();
  while (bytes > 1) {
    const size_t before = last_rows_.rfind('\n', bytes - 2);
    if (before == std::string::npos) return 0;
    bytes = before + 1;
    const int64_t begin = end - static_cast<int64_t>(bytes);
    if (StandsAt(begin, last_rows_.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace ringlet
