#include "column_fields.h"

#include <cstdlib>

#include "io/files/path.h"

namespace ringlet {
bool ReadColumn(const Json& json, std::string* column) {
  int64_t number = 0;
  if (json.is_string()) {
    *column = json.text();
  } else if (json.ToInt64(&number) && std::abs(number) <= kMaxColumn) {
    *column = std::to_string(number);
  } else {
    return false;
  }
  return true;
}

std::string ColumnTakes() {
  return "a column's name, or its number from " + AsJson(-kMaxColumn) + " to " +
         AsJson(kMaxColumn);
}

void ReadColumnField(const char* key, const std::string& takes,
                     FieldReader* fields, std::string* column) {
  const Json json = fields->Take(key, takes);
  if (fields->MarkOptional(key) &&
      (!ReadColumn(json, column) || column->empty())) {
    fields->MustBe(key, takes);
  }
}

void ReadColumns(const char* key, FieldReader* fields,
                 std::vector<std::string>* columns) {
  fields->List(key, 1, "a list of columns' names or numbers",
               [&](const Json& item) {
                 columns->emplace_back();
                 return ReadColumn(item, &columns->back());
               });
}

void ReadPath(const char* key, const std::string& folder, FieldReader* fields,
              std::string* path, const char* takes) {
  std::string text;
  fields->Text(key, takes, &text);
  if (!text.empty()) *path = PathIn(folder, text);
}

}  // namespace ringlet
