#include "row_plan.h"

#include <algorithm>
#include <cstddef>

namespace ringlet {
namespace {

// True if the offset was counted in this file.
bool OffsetBelongsTo(const LogBytes& log, const LogState& s) {
  // If the offset of a backup is 0, no row identifies the file.
  if (!s.in_memory && (s.offset > 0 || !s.append)) return true;
  if (s.offset != s.run_start) return false;
  // Either the run emptied the file at its start, or nothing would be cut, or
  // it is the file of the lost writer.
  return (s.offset == 0 && !s.append) || log.Size() == s.offset || s.began_here;
}

// The bytes of `rows` that a lost writer has written before `end`.
size_t BytesAlreadyWritten(const LogBytes& log, const std::string& rows,
                           int64_t end) {
  size_t bytes = rows.size();
  while (bytes > 1) {
    bytes = rows.rfind('\n', bytes - 2) + 1;
    const auto begin = end - static_cast<int64_t>(bytes);
    if (log.HasRowsAt(begin, rows.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace

int64_t LogBytes::FindLastEnd(const std::string& text, int64_t size) const {
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

RowPlan Decide(const LogBytes& log, const LogState& s) {
  const int64_t size = log.Size();
  if (s.offset < 0) {
    if (!s.append) return RowPlan();
    if (log.RowEndsAt(size)) return {size};
    return {size, false, "\n", RowPlan::Warning::kIncompleteRow};
  }
  if (s.offset == s.run_start && s.last.empty() && s.own_run_start >= 0 &&
      s.own_run_start <= size && log.RowEndsAt(s.own_run_start)) {
    return {s.own_run_start};
  }
  // After the last row of the restored state, if the file has it.
  const bool is_own = OffsetBelongsTo(log, s);
  const int64_t begin = s.offset - static_cast<int64_t>(s.last.size());
  const bool has_last = s.last.empty() ? is_own && log.RowEndsAt(s.offset)
                                       : log.HasRowsAt(begin, s.last);
  if (has_last && s.offset <= size) return {s.offset, /*is_rollback=*/true};
  const int64_t end = std::max<int64_t>(log.FindLastEnd("\n", size), 0);
  const bool lacks_last = end == begin;
  // An earlier run may have written the same row.
  const int64_t found =
      s.last.empty() ? -1 : log.FindLastEnd("\n" + s.last, end);
  if (found > (lacks_last ? s.run_start : -1)) {
    return {found, /*is_rollback=*/true};
  }
  // After its last whole row. A file without one may be no log.
  RowPlan plan{end};
  if (end == 0 && size > 0 && !is_own && (s.last.empty() || s.is_beside)) {
    plan.end = size;
    plan.rows = "\n";
  }
  const size_t written = BytesAlreadyWritten(log, s.last, end);
  // In an empty file the header is first: see RowFile::pending_.
  if (plan.end > 0 || lacks_last) plan.rows += s.last.substr(written);
  if (s.last.empty() || (written == 0 && !lacks_last)) {
    plan.warning = RowPlan::Warning::kRowsMissing;
  }
  return plan;
}

}  // namespace ringlet
