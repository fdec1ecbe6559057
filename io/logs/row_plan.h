// RowPlan: where a log that was opened continues. Decide reads the log, and
// writes nothing.

#ifndef RINGLET_IO_LOGS_ROW_PLAN_H_
#define RINGLET_IO_LOGS_ROW_PLAN_H_

#include <cstdint>
#include <string>

namespace ringlet {

// The bytes of a log.
class LogBytes {
 public:
  virtual int64_t Size() const = 0;
  virtual std::string Read(int64_t from, int64_t to) const = 0;
  bool RowEndsAt(int64_t at) const {
    return at == 0 || Read(at - 1, at) == "\n";
  }
  // True if `rows` begin at byte `at`, where a row ends.
  bool HasRowsAt(int64_t at, const std::string& rows) const {
    return at >= 0 && RowEndsAt(at) &&
           Read(at, at + static_cast<int64_t>(rows.size())) == rows;
  }
  // The end of the last `text` in the first `size` bytes; -1 if there is none.
  int64_t FindLastEnd(const std::string& text, int64_t size) const;

 protected:
  ~LogBytes() = default;
};

// The state of a run's log, as the run knows it. In an elastic job `offset` and
// `run_start` may be from the file of another chief, on another disk.
struct LogState {
  bool append = false;      // rows of other runs stay
  bool in_memory = false;   // the state is from memory, not from a backup
  bool is_beside = false;   // the file is beside a log that another process has
  int64_t offset = -1;      // of the restored state; -1 if there is none
  std::string last;         // the rows that end there; empty if unknown
  int64_t run_start = -1;   // the offset at which the run's rows begin
  bool began_here = false;  // run_start is known to be of this file
  // Where the run's rows begin in this file; -1 if that is not known.
  int64_t own_run_start = -1;
};

struct RowPlan {
  enum class Warning : uint8_t { kNone, kIncompleteRow, kRowsMissing };
  int64_t end = 0;           // the log is cut there
  bool is_rollback = false;  // the rows after it may be written again
  std::string rows = {};     // the first rows after it
  Warning warning = Warning::kNone;
};
// RowFile::Open states the rules.
RowPlan Decide(const LogBytes& log, const LogState& state);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_ROW_PLAN_H_
