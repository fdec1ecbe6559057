// TableSource: the examples of a table in memory, or of a part of one, as
// TableEncoder makes them.
//
// It has one cell for each column of a row. The values of categories are made
// when an example is read, so they take no memory.

#ifndef RINGLET_IO_READERS_TABLES_TABLE_SOURCE_H_
#define RINGLET_IO_READERS_TABLES_TABLE_SOURCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../files/file_system.h"
#include "../../files/path.h"
#include "../arrays/array_source.h"
#include "ringlet/dataset.h"

namespace ringlet {

// The parts of a TableSource.
struct Table {
  std::string path;
  int64_t rows = 0, columns = 0;
  std::vector<unsigned char> cells;  // floats, row by row
  ExampleArray y;
  TableEncoding encoding;
  std::vector<std::string> class_names;
  std::vector<TableColumn> header;  // the columns of the file
};

class TableSource : public Source {
 public:
  explicit TableSource(Table table);

  int64_t size() const override { return table_.rows; }
  ExampleSpec x() const override { return {DType::kFloat32, {width_}}; }
  ExampleSpec y() const override { return table_.y.spec; }
  std::string name() const override { return FileNameOf(table_.path); }
  DataDescription Description() const override;
  bool XRange(double* least, double* largest) const override;
  Status Read(const int64_t* index, int count, void* x, void* y) override;
  // The floats of all rows, to give a row other values.
  float* cells() { return reinterpret_cast<float*>(table_.cells.data()); }

 protected:
  void Clear();
  void AppendRow(const std::vector<float>& cells, int32_t label);

 private:
  Table table_;
  // The number of categories of each one-hot column; zero if the cell is the
  // value. Empty if all are zero.
  std::vector<size_t> one_hot_;
  int64_t width_ = 0;  // the floats of an example
};

inline TableSource::TableSource(Table table) : table_(std::move(table)) {
  width_ = table_.columns;
  for (const auto& [place, column] : table_.encoding.columns) {
    if (column.categories.empty() || !column.one_hot) continue;
    one_hot_.resize(static_cast<size_t>(table_.columns));
    one_hot_[static_cast<size_t>(place)] = static_cast<size_t>(column.width());
    width_ += column.width() - 1;
  }
}

inline DataDescription TableSource::Description() const {
  DataDescription table;
  table.columns = table_.header;
  table.classes = table_.class_names;
  table.encoding = table_.encoding;
  return table;
}

inline void TableSource::Clear() {
  table_.cells.clear();
  table_.y.data.clear();
}

inline void TableSource::AppendRow(const std::vector<float>& cells,
                                   int32_t label) {
  const auto append = [](const void* from, size_t bytes,
                         std::vector<unsigned char>* to) {
    const auto* const begin = static_cast<const unsigned char*>(from);
    to->insert(to->end(), begin, begin + bytes);
  };
  append(cells.data(), cells.size() * sizeof(float), &table_.cells);
  append(&label, table_.y.spec.bytes(), &table_.y.data);
}

inline bool TableSource::XRange(double* least, double* largest) const {
  if (one_hot_.empty()) return FindRange<float>(table_.cells, least, largest);
  *least = 0;
  *largest = 1;
  const auto* const cells = reinterpret_cast<const float*>(table_.cells.data());
  const size_t count = table_.cells.size() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    if (one_hot_[i % one_hot_.size()] > 0) continue;
    if (std::isnan(cells[i])) return false;
    *least = std::min(*least, double{cells[i]});
    *largest = std::max(*largest, double{cells[i]});
  }
  return true;
}

inline Status TableSource::Read(const int64_t* index, int count, void* x,
                                void* y) {
  if (y != nullptr) RINGLET_RETURN_IF_ERROR(table_.y.Copy(index, count, y));
  if (x == nullptr) return Status();
  const size_t columns = static_cast<size_t>(table_.columns);
  const auto* const cells = reinterpret_cast<const float*>(table_.cells.data());
  auto* out = static_cast<unsigned char*>(x);  // may not be aligned
  for (int i = 0; i < count; ++i) {
    const float* const row = cells + columns * static_cast<size_t>(index[i]);
    if (one_hot_.empty()) {
      std::memcpy(out, row, columns * sizeof(float));
      out += columns * sizeof(float);
      continue;
    }
    for (size_t c = 0; c < columns; ++c) {
      const size_t width = std::max<size_t>(one_hot_[c], 1);
      const float value = one_hot_[c] > 0 ? 1 : row[c];
      const size_t at = one_hot_[c] > 0 ? static_cast<size_t>(row[c]) : 0;
      std::memset(out, 0, width * sizeof(float));
      std::memcpy(out + at * sizeof(float), &value, sizeof(float));
      out += width * sizeof(float);
    }
  }
  return Status();
}

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_TABLE_SOURCE_H_
