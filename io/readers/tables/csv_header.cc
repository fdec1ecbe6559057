// Decides whether the first record is a header or a row of values. If both are
// possible, the options decide, then the names of the training data, then text
// in a column that training or the options take as numbers. A decision that may
// be wrong is printed as a note, with the option that changes it.

#include "csv_header.h"

#include <algorithm>
#include <cinttypes>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../../../core/base/text.h"
#include "table_encoder.h"

namespace ringlet {

// True if the fields have the names of all columns of the training data. Names
// such as "0", "1" could also be the numbers of a row, so they do not suffice.
bool CsvHeader::NamesTrainingColumns(const Fields& fields) const {
  const std::vector<std::string> values = trained_.ValueNames();
  bool counted = true;
  for (size_t i = 0; i < values.size(); ++i) {
    counted = counted && values[i] == std::to_string(i);
  }
  const std::set<std::string_view> names(fields.begin(), fields.end());
  const int64_t label = trained_.IndexOfRole(TableColumn::Role::kLabel);
  const std::string name = label < 0 ? "" : trained_[label].name;
  const bool has_label =
      !name.empty() && !IsNumber(name) && names.count(name) > 0;
  if (counted && !has_label) return false;
  return std::all_of(
      values.begin(), values.end(),
      [&](const std::string& value) { return names.count(value) > 0; });
}

// True if the column may have text in a row.
bool CsvHeader::IsText(const Assigned& assigned, size_t column) const {
  if (assigned.IsLabel(column)) return true;
  if (options_.encoding) {
    const auto& known = options_.encoding->columns;
    const auto found = known.find(assigned.columns[column].value);
    return found != known.end() && !found->second.categories.empty();
  }
  for (const CsvOptions::Categorical& text : options_.categorical) {
    if (ColumnNumber(text.column, assigned.columns.size()) ==
        static_cast<int64_t>(column)) {
      return true;
    }
  }
  return false;
}

// True if an option has the name of a column.
bool CsvHeader::NamesAColumn() const {
  const auto is_name = [](const std::string& column) {
    int64_t number = 0;
    return !ParseInt(column, &number);
  };
  if (!options_.label_name.empty() || !options_.weight_name.empty()) {
    return true;
  }
  if (std::any_of(options_.take.begin(), options_.take.end(), is_name) ||
      std::any_of(options_.drop.begin(), options_.drop.end(), is_name)) {
    return true;
  }
  for (const auto& text : options_.categorical) {
    if (is_name(text.column)) return true;
  }
  return false;
}

// True if the options may permit missing values.
bool CsvHeader::MayPermitMissing() const {
  return options_.missing.kind != CsvOptions::Missing::kError ||
         !options_.missing_by_column.empty() ||
         (options_.encoding && !options_.encoding->columns.empty());
}

// Names "0", "1" and so on, in a different order, look like a row.
Status CsvHeader::Begin(const Fields& first, int64_t line) {
  line_ = line;
  const std::vector<std::string> columns = trained_.ValueNames();
  if (options_.header || columns.empty() || NamesTrainingColumns(first)) {
    return Status();
  }
  const std::set<std::string_view> fields(first.begin(), first.end());
  bool in_order = first.size() >= 3;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (fields.count(columns[i]) == 0) return Status();
    in_order = in_order && i < first.size() && first[i] == columns[i];
  }
  if (in_order) return Status();
  return InvalidArgument(
      "%s: line %" PRId64
      " may have the names of the columns, or be a row; set \"header\": true "
      "or false in RUN.json (evaluate, predict: --header or --no-header)",
      path_.c_str(), line_);
}

bool CsvHeader::HasNames(const Fields& first, const Assigned& assigned) const {
  if (options_.header) return *options_.header;
  if (NamesTrainingColumns(first) || NamesAColumn()) return true;
  constexpr size_t kMinCounted = 3;  // "0,1" may as well be a row
  bool counted = first.size() >= kMinCounted, names = false, numbers = false;
  bool only_text = true;
  for (size_t i = 0; i < first.size(); ++i) {
    float truth = 0;
    const bool number = IsNumber(first[i], options_.decimal) ||
                        ParseBool(first[i], &truth) ||
                        (MayPermitMissing() && IsMissing(first[i]));
    const bool used = assigned.IsUsed(i);
    names |= used && !number && !IsText(assigned, i);
    numbers |= used && number;
    only_text = only_text && (!used || IsText(assigned, i));
    // "0,1,2,label": in a line that counts the columns only the label may be no
    // number.
    counted = counted && (first[i] == std::to_string(i) ||
                          (assigned.IsLabel(i) && !number));
  }
  if (only_text && !numbers) {
    PrintReading("has only text and is read as names, not as data", "false");
    return true;
  }
  // A row with a gap looks the same: "5.1,NA,1.4,0".
  if (names && numbers) PrintMixedRecord();
  if (counted && !names) {
    PrintReading("counts its columns and is read as names", "false");
  }
  return names || counted;
}

bool CsvHeader::SecondShowsNames(const Fields& first, const Fields& second,
                                 int64_t label) const {
  const size_t column = static_cast<size_t>(label);
  if (label >= 0 && column < second.size() &&
      !IsNumber(first[column], options_.decimal) &&
      IsNumber(second[column], options_.decimal)) {
    PrintMixedRecord();
    return true;
  }
  return false;
}

void CsvHeader::PrintIsRow() const {
  PrintReading("holds numbers and is read as data, not as names", "true");
}

void CsvHeader::PrintMixedRecord() const {
  PrintReading("holds text beside numbers and is read as names, not as data",
               "false");
}

void CsvHeader::PrintReading(const char* what, const char* header_value) const {
  if (is_silent_) return;
  Notice("note: %s: line %" PRId64
         " %s; if that is wrong, set \"header\": %s in RUN.json (evaluate, "
         "predict: --%sheader)",
         path_.c_str(), line_, what, header_value,
         header_value[0] == 'f' ? "no-" : "");
}

}  // namespace ringlet
