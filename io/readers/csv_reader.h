// CsvReader: the rows of a CSV file.
//
// A pass over all records learns what follows from the whole table: its
// columns, categories, means, and names of classes. After it any record gives
// its row again.

#ifndef RINGLET_IO_READERS_CSV_READER_H_
#define RINGLET_IO_READERS_CSV_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "class_names.h"
#include "csv_columns.h"
#include "csv_records.h"
#include "ringlet/files.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "table_encoder.h"
#include "table_source.h"

namespace ringlet {

class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options);
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  struct Row {
    std::vector<float> cells;  // see TableEncoder
    int32_t label = 0;         // a class number, or the bits of a float
    float weight = 1;
    int64_t begin = 0;  // of its record: an offset for RecordReader
  };

  // The pass. Gives each row that is not left out; its cells and label are
  // numbered as they were seen.
  Status ReadAll(const std::function<void(const Row&)>& take);

  // These are for after the pass. Row makes the row of a record;
  // *kept = false: it was left out.
  Status MakeRow(const Fields& fields, int64_t line, Row* row, bool* kept);
  // Gives the pass's rows the numbers of MakeRow.
  void Renumber(float* cells, int32_t* labels) const;
  // The table without its rows.
  Table Describe() const;
  // Of the file, before the pass.
  const FileVersion& version() const { return version_; }
  int64_t rows() const { return rows_; }
  bool reads_label() const {
    return columns_.label() >= 0 && !options_.for_prediction;
  }
  bool has_weights() const { return columns_.weight() >= 0; }
  const CsvDialect& dialect() const { return dialect_; }
  const std::string& path() const { return path_; }

 private:
  Status TakeFirst(const Fields* second);
  Status TakeRow(const Fields& fields, int64_t line, int64_t begin);
  Status Number(int64_t column, std::string_view field, int64_t line,
                float* value) const;
  Status ReadLabel(std::string_view field, int64_t line, int32_t* label);
  Status NamedLabel(std::string_view field, int64_t line, int32_t* label);
  Status Finish();

  const std::string path_;
  const CsvOptions options_;
  FileVersion version_;
  CsvDialect dialect_;
  CsvColumns columns_;
  TableEncoder encoder_;
  std::function<void(const Row&)> take_;
  // The first record's fields, until it is known if they are names.
  std::vector<std::string> first_;
  int64_t first_line_ = 1, first_begin_ = 0;
  int64_t rows_ = 0, left_out_ = 0;
  Row row_;
  std::optional<bool> has_names_;  // of labels; none: there is no row yet
  // The numbers of options_.classes; after the pass, of all classes.
  std::map<std::string, int32_t> known_;
  bool has_numerals_ = false;  // all of options_.classes are numbers
  ClassNumbers names_;
  std::vector<std::string> class_names_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_CSV_READER_H_
