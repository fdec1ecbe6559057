// CsvHeader: whether a CSV file's first record has names or is a row.

#ifndef RINGLET_IO_READERS_TABLES_CSV_HEADER_H_
#define RINGLET_IO_READERS_TABLES_CSV_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csv_records.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "training_columns.h"

namespace ringlet {

class CsvHeader {
 public:
  // The columns as they are if the first record is a row.
  struct Assigned {
    const std::vector<TableColumn>& columns;
    int64_t label, weight;  // -1 if there is none

    bool IsLabel(size_t i) const { return static_cast<int64_t>(i) == label; }
    bool IsUsed(size_t i) const {
      return columns[i].value >= 0 || IsLabel(i) ||
             static_cast<int64_t>(i) == weight;
    }
  };

  // `path` and `options` must outlive this object.
  CsvHeader(const std::string& path, const CsvOptions& options)
      : path_(path), options_(options), trained_(options.training_columns) {}

  // Prints no note on how the first record is read.
  void set_silent() { is_silent_ = true; }
  bool is_silent() const { return is_silent_; }

  // Call it first, with the first record. Returns an error if the record may be
  // a header or a row, and no option decides it.
  Status Begin(const Fields& first, int64_t line);
  bool HasNames(const Fields& first, const Assigned& assigned) const;
  // True if the first record, so far a row, has names after all: its label is a
  // text, and the field of the second record a number.
  bool SecondShowsNames(const Fields& first, const Fields& second,
                        int64_t label) const;
  void PrintIsRow() const;

 private:
  bool NamesTrainingColumns(const Fields& fields) const;
  bool NamesAColumn() const;
  bool IsText(const Assigned& assigned, size_t column) const;
  bool MayPermitMissing() const;
  void PrintMixedRecord() const;
  void PrintReading(const char* what, const char* header_value) const;

  const std::string& path_;
  const CsvOptions& options_;
  const TrainingColumns trained_;
  bool is_silent_ = false;
  int64_t line_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_HEADER_H_
