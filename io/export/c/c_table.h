// CTable: the columns of a table as values of a model in C.
//
// In C a row is one float for each column: a number, or the index of a text
// among the column's categories; NaN, or a number of "na_values" in a column of
// numbers: the value is missing.

#ifndef RINGLET_IO_EXPORT_C_C_TABLE_H_
#define RINGLET_IO_EXPORT_C_C_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/status.h"

namespace ringlet {

class CTable {
 public:
  // True if a row of the training data is not the model's input as it is.
  static bool IsNeeded(const DataDescription& data);

  // Returns an error unless the columns make `values` values.
  Status Make(const DataDescription& data, int64_t values);

  int64_t num_columns() const { return static_cast<int64_t>(columns_.size()); }
  // The names of the columns, and the texts of columns with categories.
  // `prefix` begins the names of the functions.
  std::string Declarations(const std::string& prefix) const;
  std::string Definitions(const std::string& prefix) const;
  // `static float row[]`, and `static int encode(const float* in)`, which fills
  // it. 1 if a column has no valid number.
  std::string Encoder() const;

 private:
  std::string NamesOf(const std::string& prefix) const;
  std::string CategoriesOf(const std::string& prefix, size_t column) const;
  std::string MissingNumberTests() const;

  int64_t values_ = 0;
  std::vector<std::string> names_;
  std::vector<float> missing_numbers_;
  std::vector<TableEncoding::Column> columns_;
};

// The definition of an array of strings, from the name on.
std::string CStrings(const std::string& array,
                     const std::vector<std::string>& texts);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_TABLE_H_
