// CsvColumns: which columns of a CSV file are values, the label and the weight.
//
// The columns of the training data are found by their names if both files have
// names, and otherwise by their places. Without training data the options alone
// decide.
// The first record is either the names of the columns or a row. If it could be
// both, the second record decides.

#ifndef RINGLET_IO_READERS_TABLES_CSV_COLUMNS_H_
#define RINGLET_IO_READERS_TABLES_CSV_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "csv_header.h"
#include "csv_records.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "training_columns.h"

namespace ringlet {

class CsvColumns {
 public:
  // `path` and `options` must outlive this object.
  CsvColumns(const std::string& path, const CsvOptions& options)
      : path_(path),
        options_(options),
        trained_(options.training_columns),
        header_(path, options) {}

  // Prints no note on how the first record is read.
  void set_silent() { header_.set_silent(); }
  // Call it with the first record of the file.
  Status Begin(const Fields& first, int64_t line);
  // Call it once after Begin. `second` is null if there is no second record.
  // *is_row becomes true if the first record is a row, false if it has names.
  Status Decide(const Fields& first, const Fields* second, bool* is_row);

  bool begun() const { return !columns_.empty(); }
  size_t count() const { return columns_.size(); }
  // The columns have the names of the training data if the file has none.
  const std::vector<TableColumn>& columns() const { return columns_; }
  int64_t label() const { return label_; }    // -1 if there is none
  int64_t weight() const { return weight_; }  // -1 if there is none
  // The column's index among the values; -1 if it is not a value.
  int64_t value_index(size_t column) const { return columns_[column].value; }
  int64_t num_values() const { return num_values_; }

  // Finds a column by name or, if no column has that name, by number. Negative
  // numbers count from the end. `key` is the field of RUN.json, for errors.
  Status Find(const char* key, const std::string& column, size_t* found) const;
  // "column 2 ('age')".
  std::string Describe(size_t column) const;

 private:
  using Role = TableColumn::Role;

  bool IsLabel(size_t column) const {
    return static_cast<int64_t>(column) == label_;
  }
  bool IsWeight(size_t column) const {
    return static_cast<int64_t>(column) == weight_;
  }
  bool Has(const std::string& name) const { return by_name_.count(name) > 0; }
  bool has_weight() const {
    return !options_.weight_name.empty() || options_.weight_column;
  }
  bool takes_trained_weight() const {
    return options_.weights_as_in_training && !has_weight();
  }
  bool label_is_given() const {
    return !options_.label_name.empty() || options_.label_column;
  }
  bool needs_label() const {
    return options_.has_label && options_.values == 0;
  }
  // A label in the last column may be absent if it is not needed.
  bool label_may_be_absent() const {
    return !needs_label() &&
           (!label_is_given() ||
            (options_.label_name.empty() && options_.label_column == -1));
  }

  Status AssignColumns(const Fields* names);
  void Clear(const Fields* names);
  Status FindGiven(const char* what, const std::string& name, int64_t number,
                   int64_t* column) const;
  Status FindGivenColumns(bool label, bool weight);
  Status CheckWeight() const;
  void AddValue(size_t column, int64_t value);
  // The same, or an error if the column is the label or the weight.
  Status AddOtherValue(size_t column, int64_t value);

  // Assigns the columns by the names of the training data.
  Status AssignColumnsByName();
  Status FindTrainingColumn(int64_t index, const char* what,
                            int64_t* column) const;
  Status FindLabelByName();
  Status CheckChoice() const;
  void PrintIgnoredColumns() const;
  // Assigns the columns by their places in the training data.
  Status AssignColumnsAsInTraining();
  Status FindLayout(std::vector<TableColumn>* layout) const;
  void PrintAbsent(Role role, const char* what,
                   const std::vector<TableColumn>& layout);
  Status LayoutError(bool ambiguous) const;
  // Assigns the columns by the options.
  Status AssignColumnsByOptions();
  Status AssignListedColumns();
  Status AssignRemainingColumns();
  Status CheckHasLabel(size_t dropped);

  Status SeveralError(const std::string& name, const char* what) const;

  const std::string& path_;
  const CsvOptions& options_;
  const TrainingColumns trained_;
  CsvHeader header_;
  std::vector<TableColumn> columns_;
  bool named_ = false;  // the file has names
  std::string absent_;  // columns of the training data; empty if all are there
  std::multimap<std::string_view, size_t> by_name_;
  int64_t label_ = -1, weight_ = -1;
  int64_t num_values_ = 0;
  int64_t first_line_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_COLUMNS_H_
