#include "column_fields.h"

#include <cstdlib>

namespace ringlet {
namespace {

constexpr char kColumns[] = "a list of columns' names or numbers";

}  // namespace

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

void ReadColumns(const char* key, FieldReader* fields,
                 std::vector<std::string>* columns) {
  if (!fields->Has(key)) return;
  const Json json = fields->Take(key, kColumns);
  if (!json) return;
  for (Json m = json.first(); m && json.is_array(); m = m.next()) {
    columns->emplace_back();
    if (!ReadColumn(m, &columns->back())) return fields->MustBe(key, kColumns);
  }
  if (columns->empty()) fields->MustBe(key, kColumns);
}

}  // namespace ringlet
