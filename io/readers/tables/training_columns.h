// TrainingColumns: the columns of the table that a model was trained on. Pure.

#ifndef RINGLET_IO_READERS_TABLES_TRAINING_COLUMNS_H_
#define RINGLET_IO_READERS_TABLES_TRAINING_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {

// Parses a whole number; false for other texts.
bool ParseInt(const std::string& text, int64_t* value);
// Returns the column with this number, of `count`; -1 if there is none.
// Negative numbers count from the end.
int64_t ColumnNumber(const std::string& text, size_t count);

class TrainingColumns {
 public:
  using Role = TableColumn::Role;

  // `columns` must outlive this object. Empty if there is no training data.
  explicit TrainingColumns(const std::vector<TableColumn>& columns)
      : columns_(columns) {}

  bool empty() const { return columns_.empty(); }
  size_t size() const { return columns_.size(); }
  const std::vector<TableColumn>& all() const { return columns_; }
  // The names of the values, in their order; empty if they have none.
  std::vector<std::string> ValueNames() const {
    return ringlet::ValueNames(columns_);
  }
  const TableColumn& operator[](int64_t column) const {
    return columns_[static_cast<size_t>(column)];
  }
  // Finds a column by its name or, if no column has this name, by its number.
  // Returns -1 if there is none.
  int64_t Find(const std::string& key) const;
  // The first column of this role; -1 if there is none.
  int64_t IndexOfRole(Role role) const;
  int64_t Count(Role role) const;
  // True if the name, or the number if that is empty, is of a column of `role`.
  bool HasRole(Role role, const std::string& name,
               const std::optional<int>& number) const;
  // True if `take` and `drop` of the options give the values of the training.
  bool AreChosenBy(const CsvOptions& options) const;
  // Lays out the columns without the roles `absent`. A label or weights with a
  // place in the file (not -1) are moved there. False if there is none.
  bool LayOut(const std::set<Role>& absent, int64_t label, int64_t weight,
              std::vector<TableColumn>* layout) const;
  // "4 values, 1 not taken, the label is column 6".
  std::string Describe() const;

 private:
  const std::vector<TableColumn>& columns_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_TRAINING_COLUMNS_H_
