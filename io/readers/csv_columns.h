// CsvColumns: which columns of a CSV file are values, the label and the weight.
//
// The first record is either the names of the columns or a row. If it could be
// both, the second record decides.

#ifndef RINGLET_IO_READERS_CSV_COLUMNS_H_
#define RINGLET_IO_READERS_CSV_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "csv_records.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

class CsvColumns {
 public:
  // `path` and `options` must outlive this object.
  CsvColumns(const std::string& path, const CsvOptions& options)
      : path_(path), options_(options), has_label_(options.has_label) {}

  // Call it with the first record of the file.
  Status Begin(const Fields& first, int64_t line);
  // Call it once after Begin. `second` is null if there is no second record.
  // *is_row becomes true if the first record is a row, false if it has names.
  Status Decide(const Fields& first, const Fields* second, bool* is_row);

  bool begun() const { return count_ > 0; }
  size_t count() const { return count_; }
  bool has_label() const { return has_label_; }
  bool IsLabel(size_t column) const { return Is(column, label_); }
  bool IsWeight(size_t column) const { return Is(column, weight_); }
  int64_t label() const { return label_; }    // -1: none
  int64_t weight() const { return weight_; }  // -1: none
  // The column's index among the values; -1 if it is not a value.
  int64_t value_index(size_t column) const { return value_indices_[column]; }
  int64_t num_values() const { return num_values_; }
  // Empty without names, or if two columns have the same.
  const std::vector<std::string>& value_names() const { return value_names_; }
  // See Source::LabelName.
  const std::string& label_name() const { return label_text_; }
  // See Source::LabelPlace.
  int64_t label_place() const;
  // See TableEncoding::taken.
  std::vector<int64_t> taken() const;

  // Finds a column by name or, if no column has that name, by number. Negative
  // numbers count from the end. `key`: the field of RUN.json, for errors.
  Status Find(const char* key, const std::string& column, size_t* found) const;
  // "column 2 ('age')".
  std::string Describe(size_t column) const;

 private:
  static bool Is(size_t column, int64_t other) {
    return static_cast<int64_t>(column) == other;
  }
  bool named() const { return !names_.empty(); }
  bool has_weight() const {
    return !options_.weight_name.empty() || options_.weight_column;
  }
  bool label_is_given() const {
    return !options_.label_name.empty() || options_.label_column;
  }
  // "label": -1, the last column. A file to predict may be without.
  bool label_is_last() const {
    return options_.label_name.empty() && options_.label_column == -1;
  }
  Status FindGiven(const Fields& first, const char* what,
                   const std::string& name, int64_t number,
                   int64_t* column) const;
  Status SeveralError(const std::string& name, const char* what) const;
  Status FindLabel(const Fields& first);
  Status CheckWeight() const;
  Status DecideHasLabel(bool unnamed);
  Status Place(const Fields* names);
  bool HasSameNames() const;
  bool SharesNames() const;
  int64_t PlaceOf(size_t index) const;
  Status PlaceCounted();
  Status PlaceTaken();
  Status PlaceTrainedOn();
  Status ChooseLabel(const std::vector<int64_t>& others);
  void NoteIgnored(const std::vector<int64_t>& others) const;
  Status ValueColumnError(const char* what, size_t column) const;
  bool NamesTrainingColumns(const Fields& fields) const;
  bool IsText(size_t column) const;
  void PlaceByNumbers();
  std::vector<std::string> TakenKeys() const;
  bool HasLabelAt(const std::string& place) const;
  std::string TrainedLabelName() const;
  int64_t TrainedLabel() const;
  bool MayHaveRule() const;
  Status CheckNotAmbiguous(const Fields& first) const;
  bool NamesAColumn() const;
  bool HoldsNames(const Fields& first) const;
  void NoteMixed() const;
  void Note(const char* what, const char* otherwise) const;

  const std::string& path_;
  const CsvOptions& options_;
  bool has_label_;
  size_t count_ = 0;
  int64_t label_ = -1, weight_ = -1;
  std::vector<int64_t> value_indices_;
  int64_t num_values_ = 0;
  std::vector<std::string> names_;  // of all columns; empty: none
  std::vector<std::string> value_names_;
  std::string label_text_;
  int64_t first_line_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_CSV_COLUMNS_H_
