// NameTable: the names of values in JSON, one row for each value.

#ifndef RINGLET_IO_KERAS_NAME_TABLE_H_
#define RINGLET_IO_KERAS_NAME_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "../../core/base/named.h"
#include "ringlet/status.h"

namespace ringlet {

std::vector<std::string> Words(const char* names);

// The names of such a table, or of another table of a reader.
class NameTable {
 public:
  NameTable() = default;
  template <typename T, size_t n>
  NameTable(const Named<T> (&table)[n]) {  // NOLINT: implicit
    for (const Named<T>& entry : table) Add(Words(entry.names));
  }
  void Add(const std::vector<std::string>& names) { rows_.push_back(names); }
  // `aliases` are separated by blanks.
  void Add(const char* name, const char* aliases);
  size_t size() const { return rows_.size(); }
  const std::vector<std::string>& Row(size_t i) const { return rows_[i]; }
  std::vector<std::string> All() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "<path>: unknown <what> 'Dens'; …" (UnknownName of keras_json.h), or an error
// that Keras has the name and ringlet does not.
Status NotAmong(const std::string& path, const char* kind,
                const std::string& word, const std::vector<std::string>& known);

// Finds the row of `word`, or returns an error that names the nearest.
Status ChooseRow(const NameTable& table, const std::string& path,
                 const char* kind, const std::string& word, size_t* row);

template <typename T, size_t n>
Status Choose(const Named<T> (&table)[n], const std::string& path,
              const char* kind, const std::string& word, T* value) {
  size_t row = 0;
  const Status status = ChooseRow(table, path, kind, word, &row);
  if (status.ok()) *value = table[row].value;
  return status;
}

template <typename T, size_t n>
std::string FirstName(const Named<T> (&table)[n], T value) {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return Words(entry.names)[0];
  }
  return "";
}

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_NAME_TABLE_H_
