// CsvLines: the examples of a CSV that comes line by line, for prediction.
//
// A line is a record: quotes do not cross lines. A line reuses the memory of
// the previous line.

#ifndef RINGLET_IO_READERS_TABLES_CSV_LINES_H_
#define RINGLET_IO_READERS_TABLES_CSV_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

class TableSource;

class CsvLines {
 public:
  enum class Kind : uint8_t {
    kExample,
    kNames,  // the names of the columns
    kBlank,  // nothing, or a comment
  };

  static constexpr size_t kLongest = 1 << 20;  // bytes of a line

  // `name` of the stream, for errors. The options are for_prediction, with the
  // encoding of the training data.
  CsvLines(const std::string& name, const CsvOptions& options);
  ~CsvLines();

  // Takes the next line, without its end. After a wrong line the next may
  // follow. The first line that was right gives the columns.
  Status Next(const std::string& line, Kind* kind);
  // Has one example: the last one. Null before the first.
  std::shared_ptr<Source> source() const;
  // The field of the last example that is its first value.
  std::string text() const;
  int64_t line() const { return line_; }  // from 1

 private:
  struct Columns;
  Status Begin(std::unique_ptr<Columns>* columns, bool* is_row) const;
  Status Row();

  const std::string name_;
  CsvOptions options_;  // a line "sep=;" sets the separator
  std::unique_ptr<Columns> columns_;
  std::shared_ptr<TableSource> source_;
  std::vector<std::string> texts_;
  std::vector<std::string_view> fields_;  // parts of texts_
  int64_t line_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_LINES_H_
