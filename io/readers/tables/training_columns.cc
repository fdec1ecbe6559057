#include "training_columns.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ringlet {

bool ParseInt(const std::string& text, int64_t* value) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

int64_t ColumnNumber(const std::string& text, size_t count) {
  const int64_t n = static_cast<int64_t>(count);
  int64_t number = 0;
  if (!ParseInt(text, &number) || number < -n || number >= n) return -1;
  return number < 0 ? number + n : number;
}

int64_t TrainingColumns::Find(const std::string& key) const {
  const auto same = [&](const TableColumn& c) { return c.name == key; };
  const auto found = std::find_if(columns_.begin(), columns_.end(), same);
  if (key.empty() || found == columns_.end()) {
    return ColumnNumber(key, columns_.size());
  }
  return found - columns_.begin();
}

int64_t TrainingColumns::Count(Role role) const {
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  return std::count_if(columns_.begin(), columns_.end(), same);
}

int64_t TrainingColumns::IndexOfRole(Role role) const {
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  const auto found = std::find_if(columns_.begin(), columns_.end(), same);
  return found == columns_.end() ? -1 : found - columns_.begin();
}

bool TrainingColumns::HasRole(Role role, const std::string& name,
                              const std::optional<int>& number) const {
  const int64_t column =
      Find(name.empty() ? std::to_string(number.value_or(-1)) : name);
  return column >= 0 && columns_[static_cast<size_t>(column)].role == role;
}

bool TrainingColumns::AreChosenBy(const CsvOptions& options) const {
  const auto matches = [&](const std::string& key, Role role, int64_t value) {
    const int64_t column = Find(key);
    return column >= 0 && columns_[static_cast<size_t>(column)].role == role &&
           columns_[static_cast<size_t>(column)].value == value;
  };
  for (size_t i = 0; i < options.take.size(); ++i) {
    const int64_t value = static_cast<int64_t>(i);
    if (!matches(options.take[i], Role::kValue, value)) return false;
  }
  for (const std::string& key : options.drop) {
    if (!matches(key, Role::kDropped, -1)) return false;
  }
  const auto counted = [&](const std::vector<std::string>& keys, Role role) {
    return keys.empty() || Count(role) == static_cast<int64_t>(keys.size());
  };
  return counted(options.take, Role::kValue) &&
         counted(options.drop, Role::kDropped);
}

bool TrainingColumns::LayOut(const std::set<Role>& absent, int64_t label,
                             int64_t weight,
                             std::vector<TableColumn>* layout) const {
  layout->clear();
  for (const TableColumn& column : columns_) {
    const bool is_replaced = (column.role == Role::kLabel && label >= 0) ||
                             (column.role == Role::kWeight && weight >= 0);
    if (!is_replaced && absent.count(column.role) == 0)
      layout->push_back(column);
  }
  const std::pair<int64_t, Role> given[] = {{label, Role::kLabel},
                                            {weight, Role::kWeight}};
  for (const auto& [place, role] :
       {std::min(given[0], given[1]), std::max(given[0], given[1])}) {
    if (place < 0) continue;
    if (place > static_cast<int64_t>(layout->size())) return false;
    layout->insert(layout->begin() + place, TableColumn{"", role, -1});
  }
  return true;
}

std::string TrainingColumns::Describe() const {
  const int64_t dropped = Count(Role::kDropped);
  std::string text = std::to_string(Count(Role::kValue)) + " values";
  if (dropped > 0) text += ", " + std::to_string(dropped) + " not taken";
  for (const auto& [role, what] :
       {std::pair(Role::kLabel, ", the label is column "),
        std::pair(Role::kWeight, ", the weights are column ")}) {
    const int64_t column = IndexOfRole(role);
    if (column >= 0) text += what + std::to_string(column + 1);
  }
  return text;
}

}  // namespace ringlet
