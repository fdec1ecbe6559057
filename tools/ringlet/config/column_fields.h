// The fields of a RUN.json's data that give columns of a table, or files.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_COLUMN_FIELDS_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_COLUMN_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "io/keras/field_reader.h"

namespace ringlet {

constexpr int64_t kMaxColumn = 100000;

// A column's name, or its number as text; false for other values.
bool ReadColumn(const Json& json, std::string* column);
// "a column's name, or its number from -100000 to 100000".
std::string ColumnTakes();
// Reads a field that is one of these, or null; `takes` is for the log.
void ReadColumnField(const char* key, const std::string& takes,
                     FieldReader* fields, std::string* column);
// Reads a list of columns, which may be null. A list that is given must not be
// empty.
void ReadColumns(const char* key, FieldReader* fields,
                 std::vector<std::string>* columns);

// Reads the path of a file, which is relative to `folder`.
void ReadPath(const char* key, const std::string& folder, FieldReader* fields,
              std::string* path, const char* takes = "the path of a file");

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_COLUMN_FIELDS_H_
