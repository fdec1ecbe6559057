#include "io/logs/row_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace ringlet {
namespace {

using Warning = RowPlan::Warning;

class TextLog final : public LogBytes {
 public:
  explicit TextLog(const std::string& text) : text_(text) {}
  int64_t Size() const override { return static_cast<int64_t>(text_.size()); }
  // Line ends stand for bytes that the file does not have, as in RowWriter.
  std::string Read(int64_t from, int64_t to) const override {
    const auto bytes = static_cast<size_t>(to - from);
    std::string read =
        text_.substr(std::min(static_cast<size_t>(from), text_.size()), bytes);
    read.resize(bytes, '\n');
    return read;
  }

 private:
  const std::string text_;
};

LogState With(bool append, bool in_memory, int64_t offset,
              const std::string& last = "") {
  LogState state;
  state.append = append;
  state.in_memory = in_memory;
  state.offset = offset;
  state.last = last;
  return state;
}

LogState Begun(LogState state, int64_t run_start, bool here,
               int64_t own_run_start = -1) {
  state.run_start = run_start;
  state.began_here = here;
  state.own_run_start = own_run_start;
  return state;
}

LogState Beside(LogState state) {
  state.append = state.is_beside = true;
  return state;
}

constexpr bool kAppend = true, kEmpties = false;
constexpr bool kMemory = true, kBackup = false;

TEST(RowPlanTest, Decide_EachStateOfTheLog_CutsNoRowOfAnotherRun) {
  const std::string rows = "head\n0,1\n1,1\n";  // rows end at 5, 9 and 13
  const LogState known = With(kEmpties, kMemory, 9, "0,1\n");
  const struct {
    const char* name;
    std::string log;
    LogState state;
    int64_t end;
    bool is_rollback;
    const char* rows;
    Warning warning;
  } cases[] = {
      // Without a state.
      {"begins", rows, With(kEmpties, kMemory, -1), 0, false, "",
       Warning::kNone},
      {"appends", rows, With(kAppend, kMemory, -1), 13, false, "",
       Warning::kNone},
      {"appends to an empty log", "", With(kAppend, kBackup, -1), 0, false, "",
       Warning::kNone},
      {"appends to an incomplete row", "head\n0,", With(kAppend, kMemory, -1),
       7, false, "\n", Warning::kIncompleteRow},
      // With the offset of a backup.
      {"backup", rows, With(kEmpties, kBackup, 9), 9, true, "", Warning::kNone},
      {"backup, appends", rows, With(kAppend, kBackup, 9), 9, true, "",
       Warning::kNone},
      {"backup of byte 0", rows, With(kEmpties, kBackup, 0), 0, true, "",
       Warning::kNone},
      {"backup of byte 0, appends", rows, With(kAppend, kBackup, 0), 13, false,
       "", Warning::kRowsMissing},
      {"backup of byte 0, appends to an empty log", "",
       With(kAppend, kBackup, 0), 0, false, "", Warning::kRowsMissing},
      {"backup of byte 0, no log", "a note", With(kAppend, kBackup, 0), 6,
       false, "\n", Warning::kRowsMissing},
      {"backup, no row ends there", rows, With(kEmpties, kBackup, 7), 13, false,
       "", Warning::kRowsMissing},
      {"backup, log is shorter", "head\n0,", With(kEmpties, kBackup, 9), 5,
       false, "", Warning::kRowsMissing},
      // With the last row, from memory.
      {"last row is there", rows, known, 9, true, "", Warning::kNone},
      {"last row lacks", "head\n", known, 5, false, "0,1\n", Warning::kNone},
      {"last row is incomplete", "head\n0,", known, 5, false, "0,1\n",
       Warning::kNone},
      {"last row is elsewhere", "others\nhead\n0,1\n1,1\n", known, 16, true, "",
       Warning::kNone},
      {"last row is not there", "others\n", known, 7, false, "0,1\n",
       Warning::kRowsMissing},
      {"last rows are there in part", "others\nhead\n",
       With(kEmpties, kMemory, 9, "head\n0,1\n"), 12, false, "0,1\n",
       Warning::kNone},
      {"empty log, other disk", "", known, 0, false, "", Warning::kRowsMissing},
      {"an earlier run wrote the last row", "0,1\nhead\n",
       Begun(With(kEmpties, kMemory, 13, "0,1\n"), 4, true), 9, false, "0,1\n",
       Warning::kNone},
      // At the start of the run's rows.
      {"start in this file", rows, Begun(With(kAppend, kMemory, 5), 5, true, 5),
       5, false, "", Warning::kNone},
      {"start in the lost chief's file", rows,
       Begun(With(kAppend, kMemory, 5), 5, true), 5, true, "", Warning::kNone},
      {"start in another file", rows,
       Begun(With(kAppend, kMemory, 5), 5, false), 13, false, "",
       Warning::kRowsMissing},
      {"start at its end", rows, Begun(With(kAppend, kMemory, 13), 13, false),
       13, true, "", Warning::kNone},
      // Beside a log that another process has.
      {"beside, begins", rows, Beside(With(kEmpties, kMemory, -1)), 13, false,
       "", Warning::kNone},
      {"beside, no log", "a note", Beside(known), 6, false, "\n0,1\n",
       Warning::kRowsMissing},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const RowPlan plan = Decide(TextLog(c.log), c.state);
    EXPECT_EQ(plan.end, c.end);
    EXPECT_EQ(plan.is_rollback, c.is_rollback);
    EXPECT_EQ(plan.rows, c.rows);
    EXPECT_EQ(plan.warning, c.warning);
  }
}

TEST(RowPlanTest, FindLastEnd_TextAcrossPieces_IsFound) {
  const std::string row = "\n7,1\n";
  const size_t piece = 256 << 10;
  for (const size_t before : {size_t{0}, piece - 3, piece, piece + 1}) {
    const TextLog log(std::string(before, 'x') + row + std::string(piece, 'y'));
    EXPECT_EQ(log.FindLastEnd(row, log.Size()),
              static_cast<int64_t>(before + row.size()));
    EXPECT_EQ(log.FindLastEnd("\n8,1\n", log.Size()), -1);
  }
}

}  // namespace
}  // namespace ringlet
