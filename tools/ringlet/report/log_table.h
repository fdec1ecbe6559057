// LogTable: the curves of a CSV that CSVLogger or StepLogger wrote.
//
// The bytes are hostile: lengths and counts are bounded, and a row that does
// not fit the header is left out and counted.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_LOG_TABLE_H_
#define RINGLET_TOOLS_RINGLET_REPORT_LOG_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "curve.h"
#include "io/readers/tables/csv_records.h"
#include "ringlet/status.h"

namespace ringlet {

struct LogTable {
  static constexpr size_t kMaxColumns = 64;
  static constexpr size_t kMaxNameBytes = 200;
  static constexpr size_t kMaxShownRows = 200;

  struct Column {
    std::string name;
    size_t field = 0;  // its place in a row
    SampledCurve curve;
  };

  std::string path;
  bool of_steps = false;     // a row is a step, otherwise an epoch
  int64_t rows = 0;          // rows that are in the curves
  int64_t skipped_rows = 0;  // rows with different fields from the header
  int64_t more_columns = 0;  // columns beyond kMaxColumns
  std::vector<Column> columns;
  // The place of each row in the log, then its fields, if there are at most
  // kMaxShownRows rows. Otherwise empty.
  std::vector<std::vector<std::string>> shown;
};

// True if the file begins as such a log does.
bool IsLogTable(const std::string& path);

// Reads a log, plain or .gz. kInvalidArgument if it does not begin with the
// first line of a log.
Status ReadLogTable(const std::string& path, LogTable* table);
// Reads a log through `reader`; both have the same separator.
Status ReadLogTable(const std::string& path, RecordReader* reader,
                    LogTable* table);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_LOG_TABLE_H_
