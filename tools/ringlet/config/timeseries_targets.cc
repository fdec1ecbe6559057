// Target columns are given by the file's columns and become places among the
// values of a row: a one-hot column before them shifts them (AddTarget).
// Groups are read from the file a second time, since x lacks their column;
// both readings must take the same records.

#include "timeseries_targets.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/data/value_at.h"
#include "io/files/input_file.h"
#include "io/keras/keras_json.h"
#include "io/readers/tables/csv_records.h"

namespace ringlet {
namespace {

// The index from 0 for a number from -`count` to `count` - 1, or -1 for other
// numbers.
int64_t ColumnIndexOf(const std::string& column, size_t count) {
  const char* const end = column.data() + column.size();
  int64_t number = 0;
  const auto parsed = std::from_chars(column.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return -1;
  const auto n = static_cast<int64_t>(count);
  if (number < 0) number += n;
  return number >= 0 && number < n ? number : -1;
}

// Finds a column of the file by its name or number.
Status FindColumn(const char* key, const Source& rows,
                  const std::string& column, size_t* found) {
  const std::vector<TableColumn> columns = rows.Description().columns;
  const auto same = [&](const TableColumn& c) { return c.name == column; };
  const auto named = std::find_if(columns.begin(), columns.end(), same);
  const int64_t number = ColumnIndexOf(column, columns.size());
  const int64_t by_name = named == columns.end() ? -1 : named - columns.begin();
  *found = static_cast<size_t>(by_name < 0 ? number : by_name);
  if (by_name >= 0 && number >= 0 && number != by_name) {
    return InvalidArgument(
        "%s: \"%s\" has '%s', which is the name of one column and the number "
        "of another",
        rows.name().c_str(), key, Printable(column).c_str());
  }
  if (by_name >= 0 || number >= 0) return Status();
  return InvalidArgument(
      "%s: \"%s\" has '%s', but the file's %zu columns have no such name or "
      "number; give a name, or a number from 0, or from the end by -1",
      rows.name().c_str(), key, Printable(column).c_str(), columns.size());
}

// Appends the values of x that a column of the table gives.
Status AddTarget(const Source& rows, const TableEncoding& encoding,
                 const std::string& column, std::vector<int64_t>* values) {
  size_t at = 0;
  RINGLET_RETURN_IF_ERROR(FindColumn("target_columns", rows, column, &at));
  const int64_t place = rows.Description().columns[at].value;
  if (place < 0) {
    return InvalidArgument(
        "%s: \"target_columns\" has '%s', which is not a column of x",
        rows.name().c_str(), Printable(column).c_str());
  }
  int64_t first = place, width = 1;
  for (const auto& [other, encoded] : encoding.columns) {
    if (other < place) first += encoded.width() - 1;
    if (other != place) continue;
    width = encoded.width();
    const bool has_gaps =
        !encoded.categories.empty() && encoded.categories[0].empty();
    if (!encoded.fill && !has_gaps) continue;
    return InvalidArgument(
        "%s: \"target_columns\" has '%s', where \"missing\" fills gaps, which "
        "are not targets; give \"missing\" for the other columns by their "
        "names",
        rows.name().c_str(), Printable(column).c_str());
  }
  for (int64_t i = 0; i < width; ++i) values->push_back(first + i);
  return Status();
}

Status FindTargets(const Source& rows, const std::vector<std::string>& wanted,
                   std::vector<int64_t>* values) {
  const bool is_table = !rows.Description().columns.empty();
  const TableEncoding encoding = rows.Description().encoding;
  const int64_t count = rows.x().shape.elements();
  for (const std::string& column : wanted) {
    if (is_table) {
      RINGLET_RETURN_IF_ERROR(AddTarget(rows, encoding, column, values));
      continue;
    }
    const int64_t number = ColumnIndexOf(column, static_cast<size_t>(count));
    if (number < 0) {
      return InvalidArgument(
          "target_columns: '%s' must be a number from 0 to "
          "%" PRId64 ", the values of a row of %s",
          Printable(column).c_str(), count - 1, rows.name().c_str());
    }
    values->push_back(number);
  }
  return Status();
}

// The group of each row, and the text of each group.
struct Groups {
  void Add(const std::string& name) {
    const auto next = static_cast<int64_t>(names.size());
    const auto [found, is_new] = numbers.emplace(name, next);
    if (is_new) names.push_back(name);
    group_of_row.push_back(found->second);
  }
  std::vector<int64_t> group_of_row;
  std::vector<std::string> names;
  std::map<std::string, int64_t> numbers;
};

// True if the record has the names of the columns that `rows` was read with.
bool HasNames(const Fields& record, const Source& rows) {
  const std::vector<TableColumn> columns = rows.Description().columns;
  return !ValueNames(columns).empty() &&
         std::equal(
             columns.begin(), columns.end(), record.begin(), record.end(),
             [](const TableColumn& c, auto field) { return c.name == field; });
}

// Reads the groups from a column. The model does not keep their names, so its
// limits on names do not apply.
Status ReadGroupColumn(const std::string& csv, const std::string& column,
                       const CsvOptions& table, const Source& rows,
                       Groups* groups) {
  size_t at = 0;
  RINGLET_RETURN_IF_ERROR(FindColumn("group", rows, column, &at));
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(csv));
  RecordReader records(&file, {table.separator, table.decimal, table.comment});
  Fields fields;
  for (bool is_first = true, more = true;; is_first = false) {
    RINGLET_RETURN_IF_ERROR(records.Next(&fields, &more));
    if (!more) return Status();
    if (is_first && table.header.value_or(true) && HasNames(fields, rows)) {
      continue;
    }
    if (at >= fields.size() || fields[at].empty()) {
      return InvalidArgument("%s: line %" PRId64
                             ": has no text in column '%s'; each row needs a "
                             "group",
                             csv.c_str(), records.line(),
                             Printable(column).c_str());
    }
    groups->Add(std::string(fields[at]));
  }
}

// Returns a group's number as text. -0.0 is 0, and an int64 stays exact.
std::string GroupName(const NpyArray& array, int64_t row) {
  if (array.dtype == DType::kInt64) {
    int64_t number = 0;
    std::memcpy(&number, array.data.data() + row * int64_t{sizeof(number)},
                sizeof(number));
    return std::to_string(number);
  }
  return ShortestText(ValueAt(array.dtype, array.data.data(), row) + 0.0);
}

Status ReadGroupFile(const std::string& path, Groups* groups) {
  NpyArray array;
  RINGLET_RETURN_IF_ERROR(ReadNpy(path, &array));
  if (array.shape.rank() < 1 || array.shape.elements() != array.shape[0]) {
    return InvalidArgument(
        "%s: an array of %s; a group is one number for each row", path.c_str(),
        array.shape.ToString().c_str());
  }
  for (int64_t row = 0; row < array.shape[0]; ++row) {
    if (std::isnan(ValueAt(array.dtype, array.data.data(), row))) {
      return InvalidArgument("%s: row %" PRId64
                             " (from 0): is nan; each row needs a group",
                             path.c_str(), row);
    }
    groups->Add(GroupName(array, row));
  }
  return Status();
}

// Sets the group of each row. A row of the other part gets group -1.
Status ChooseGroups(const TimeseriesConfig& config, Groups* groups) {
  std::vector<bool> listed(groups->names.size());
  for (const std::string& name : config.validation_groups) {
    const auto found =
        std::find(groups->names.begin(), groups->names.end(), name);
    if (found == groups->names.end()) {
      return UnknownName("validation_groups", "group", name, groups->names);
    }
    listed[static_cast<size_t>(found - groups->names.begin())] = true;
  }
  if (std::find(listed.begin(), listed.end(), false) == listed.end()) {
    return InvalidArgument(
        "validation_groups: has all %zu groups, so that none is left to train",
        listed.size());
  }
  for (int64_t& group : groups->group_of_row) {
    if (listed[static_cast<size_t>(group)] != config.is_validation) group = -1;
  }
  return Status();
}

}  // namespace

Status ResolveTargetsAndGroups(const Source& rows,
                               const TimeseriesConfig& config,
                               const std::string& csv, const CsvOptions& table,
                               TimeseriesOptions* options) {
  if (HasMissingRule(table, CsvOptions::Missing::kDrop)) {
    return InvalidArgument(
        "missing: is \"drop\", but sequence_length makes windows of "
        "consecutive rows, which a row that is left out would join; give "
        "\"mean\" or a number");
  }
  RINGLET_RETURN_IF_ERROR(
      FindTargets(rows, config.target_columns, &options->target_columns));
  if (config.group.empty()) return Status();
  Groups groups;
  RINGLET_RETURN_IF_ERROR(
      (csv.empty() ? ReadGroupFile(config.group, &groups)
                   : ReadGroupColumn(csv, config.group, table, rows, &groups))
          .Annotate("group"));
  if (!config.validation_groups.empty()) {
    RINGLET_RETURN_IF_ERROR(ChooseGroups(config, &groups));
  }
  options->groups = std::move(groups.group_of_row);
  return Status();
}

std::string GroupColumn(const TimeseriesConfig& config, const Source& rows) {
  size_t at = 0;
  if (config.group.empty() ||
      !FindColumn("group", rows, config.group, &at).ok()) {
    return "";
  }
  const std::string name = rows.Description().columns[at].name;
  return name.empty() ? std::to_string(at) : name;
}

}  // namespace ringlet
