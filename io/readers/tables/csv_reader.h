// CsvReader: the rows of a CSV file.
//
// One pass over all records finds what depends on the whole table: its columns,
// the categories and means of its columns, and the names of the classes. After
// the pass MakeRow makes the row of any record.

#ifndef RINGLET_IO_READERS_TABLES_CSV_READER_H_
#define RINGLET_IO_READERS_TABLES_CSV_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../files/file_system.h"
#include "../files/class_names.h"
#include "csv_columns.h"
#include "csv_records.h"
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
    int64_t begin = 0;      // the offset of its record, for RecordReader
    std::string_view text;  // the field of the first value
  };

  // See CsvColumns.
  void set_silent() { columns_.set_silent(); }
  // Makes the pass, and calls `take` with each row that is not left out.
  // Categories and classes have numbers in the order of their first rows then.
  Status ReadAll(const std::function<void(const Row&)>& take);

  // Call the following after the pass.
  //
  // Makes the row of a record. *kept is false if the row is left out.
  Status MakeRow(const Fields& fields, int64_t line, Row* row, bool* kept);
  // Replaces the numbers of categories and classes in the rows of the pass by
  // the numbers that MakeRow gives.
  void Renumber(float* cells, int32_t* labels) const;
  // The table without its rows.
  Table Describe() const;
  // The file's version, from before the pass.
  const FileVersion& version() const { return version_; }
  int64_t rows() const { return rows_; }
  bool reads_label() const {
    return columns_.label() >= 0 && !options_.for_prediction;
  }
  bool has_weights() const { return columns_.weight() >= 0; }
  const CsvDialect& dialect() const { return dialect_; }
  const std::string& path() const { return path_; }

 private:
  Status ParseFirstLine(const Fields* second);
  Status ParseRow(const Fields& fields, int64_t line, int64_t begin);
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
  // The fields of the first record, until it is known whether they are names.
  std::vector<std::string> first_;
  int64_t first_line_ = 1, first_begin_ = 0;
  int64_t rows_ = 0, left_out_ = 0;
  Row row_;
  // True if labels are names. Without a value no row has been read yet.
  std::optional<bool> has_names_;
  // The number of each name in options_.classes; after the pass, of each class.
  std::map<std::string, int32_t> known_;
  bool has_numerals_ = false;  // all of options_.classes are numbers
  // True if the class of options_.classes is there.
  std::vector<bool> is_there_;
  ClassNumbers names_;
  std::vector<std::string> class_names_;
};

struct CsvPass {
  bool is_silent = false;                      // see CsvColumns
  std::function<void(std::string_view)> take;  // gets Row::text of each row
};

// CsvDataset in memory.
Dataset OpenCsv(const std::string& path, const CsvOptions& options,
                const CsvPass* pass);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_READER_H_
