// TableSummary: the columns of a CSV file in an unknown dialect.
//
// `ringlet inspect` prints it, and `ringlet init` makes a RUN.json of it.

#ifndef RINGLET_TOOLS_RINGLET_DATA_TABLE_SUMMARY_H_
#define RINGLET_TOOLS_RINGLET_DATA_TABLE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "io/readers/tables/csv_records.h"
#include "ringlet/status.h"

namespace ringlet {

struct ColumnSummary {
  static constexpr size_t kMaxKept = 256;

  std::string name;  // empty if there is none
  int64_t numbers = 0, texts = 0, missing = 0;
  double least = 0, largest = 0;  // the least and the largest number
  bool whole = true;              // all numbers are whole
  bool is_row_number = true;      // the numbers count the rows, from 0 or 1
  // Different fields that are not missing, up to kMaxKept and one more.
  std::set<std::string> values, text_values;

  bool has_too_many_values() const { return values.size() > kMaxKept; }
};

struct TableSummary {
  CsvDialect dialect;
  bool has_names = false;
  int64_t rows = 0;
  std::vector<ColumnSummary> columns;
};

// Chooses the first separator with which the first records all have the same
// number of fields, at least two. Then chooses the decimal point that more
// numbers have.
Status SummarizeTable(const std::string& path, TableSummary* summary);

// A line for each column, and the command that makes a RUN.json.
std::string ToText(const std::string& path, const TableSummary& summary);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_DATA_TABLE_SUMMARY_H_
