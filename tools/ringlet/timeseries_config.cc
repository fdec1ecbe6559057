#include "timeseries_config.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "column_fields.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/data/value_at.h"
#include "io/files/input_file.h"
#include "io/files/path.h"
#include "io/keras/keras_json.h"
#include "io/readers/csv_records.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 30;

// The index from 0 for a number from -`count` to `count` - 1; -1: no such one.
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
  const std::vector<TableColumn> columns = rows.Columns();
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
      "number; give a name, or a number from 0",
      rows.name().c_str(), key, Printable(column).c_str(), columns.size());
}

// Appends the values of x that a column of the table gives.
Status AddTarget(const Source& rows, const TableEncoding& encoding,
                 const std::string& column, std::vector<int64_t>* values) {
  size_t at = 0;
  RINGLET_RETURN_IF_ERROR(FindColumn("target_columns", rows, column, &at));
  const int64_t place = rows.Columns()[at].value;
  if (place < 0) {
    return InvalidArgument(
        "%s: \"target_columns\" has '%s', which is no column of x",
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
        "are no targets; give \"missing\" for the other columns by their names",
        rows.name().c_str(), Printable(column).c_str());
  }
  for (int64_t i = 0; i < width; ++i) values->push_back(first + i);
  return Status();
}

Status FindTargets(const Source& rows, const std::vector<std::string>& wanted,
                   std::vector<int64_t>* values) {
  const bool is_table = !rows.Columns().empty();
  const TableEncoding encoding = rows.Encoding();
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
    of_rows.push_back(found->second);
  }
  std::vector<int64_t> of_rows;
  std::vector<std::string> names;
  std::map<std::string, int64_t> numbers;
};

// True if the record has the names of the columns that `rows` was read with.
bool HasNames(const Fields& record, const Source& rows) {
  const std::vector<TableColumn> columns = rows.Columns();
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

// Rows that are not of this part get group -1.
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
  for (int64_t& group : groups->of_rows) {
    if (listed[static_cast<size_t>(group)] != config.is_validation) group = -1;
  }
  return Status();
}

bool HasRule(const CsvOptions& table, CsvOptions::Missing kind) {
  const auto is = [&](const CsvOptions::MissingRule& rule) {
    return rule.kind == kind;
  };
  return is(table.missing) ||
         std::any_of(table.missing_by_column.begin(),
                     table.missing_by_column.end(),
                     [&](const auto& entry) { return is(entry.second); });
}

Status ResolveTargetsAndGroups(const Source& rows,
                               const TimeseriesConfig& config,
                               const std::string& csv, const CsvOptions& table,
                               TimeseriesOptions* options) {
  if (HasRule(table, CsvOptions::Missing::kDrop)) {
    return InvalidArgument(
        "missing: is \"drop\", but sequence_length makes windows of "
        "consecutive rows, which a row that is left out would join; say "
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
  options->groups = std::move(groups.of_rows);
  return Status();
}

// Groups are compared as text; a number is that of an array.
void ReadGroupNames(FieldReader* fields, std::vector<std::string>* names) {
  const char kKey[] = "validation_groups";
  const char kTakes[] = "a list of groups' names or numbers";
  if (!fields->Has(kKey)) return;
  const Json json = fields->Take(kKey, kTakes);
  if (!json) return;
  for (Json m = json.first(); m && json.is_array(); m = m.next()) {
    // Beyond 2^53 a number of JSON may be another one; a text is exact.
    if (m.is_string()) {
      names->push_back(m.text());
    } else if (m.is_number() && std::fabs(m.number()) <= 9007199254740992.0) {
      names->push_back(ShortestText(m.number() + 0.0));
    } else {
      return fields->MustBe(kKey, kTakes);
    }
  }
  if (names->empty()) fields->MustBe(kKey, kTakes);
}

}  // namespace

void ReadTimeseries(bool of_csv, const std::string& folder, FieldReader* fields,
                    TimeseriesConfig* config) {
  TimeseriesOptions* const o = &config->options;
  const auto read = [&](const char* key, int64_t least, int64_t* value) {
    if (fields->Has(key)) fields->Int(key, least, kMaxRows, value);
  };
  read("sequence_length", 1, &o->sequence_length);
  read("sequence_stride", 1, &o->sequence_stride);
  read("sampling_rate", 1, &o->sampling_rate);
  read("start_index", 0, &o->start_index);
  read("end_index", 1, &o->end_index);
  read("target_offset", 0, &o->target_offset);
  read("target_length", 1, &o->target_length);
  ReadColumns("target_columns", fields, &config->target_columns);
  const char kTakes[] =
      "a file's path (NPY), or for a CSV a column's name or number";
  const Json group = fields->Take("group", kTakes);
  if (fields->Has("group") &&
      (!ReadColumn(group, &config->group) || config->group.empty() ||
       (!of_csv && !group.is_string()))) {
    fields->MustBe("group", kTakes);
  }
  if (!of_csv && !config->group.empty()) {
    config->group = PathIn(folder, config->group);
  }
  ReadGroupNames(fields, &config->validation_groups);
  if (!config->validation_groups.empty() && config->group.empty()) {
    fields->Refuse("validation_groups", "needs \"group\", which names them");
  }
  if (!config->empty()) return;
  fields->RefuseGiven(
      {"sequence_stride", "sampling_rate", "start_index", "end_index",
       "target_offset", "target_length", "target_columns", "group"},
      "needs \"sequence_length\", the rows of a window");
}

Status CheckWindows(const TimeseriesConfig& train,
                    const TimeseriesConfig& validation) {
  const TimeseriesOptions& a = train.options;
  const TimeseriesOptions& b = validation.options;
  const struct {
    const char* key;
    bool is_same;
  } fields[] = {
      {"sequence_length", a.sequence_length == b.sequence_length},
      {"sampling_rate", a.sampling_rate == b.sampling_rate},
      {"target_offset", a.target_offset == b.target_offset},
      {"target_length", a.target_length == b.target_length},
      {"target_columns", train.target_columns == validation.target_columns}};
  for (const auto& field : fields) {
    if (field.is_same) continue;
    return InvalidArgument(
        "data.validation.%s: is not that of data.train; "
        "give the same, also if it is absent there",
        field.key);
  }
  return Status();
}

Status CheckMeans(const TimeseriesConfig& train, const CsvOptions& table) {
  const char* const key = !train.validation_groups.empty() ? "validation_groups"
                          : train.options.start_index > 0  ? "start_index"
                          : train.options.end_index >= 0   ? "end_index"
                                                           : nullptr;
  if (key == nullptr || !HasRule(table, CsvOptions::Missing::kMean)) {
    return Status();
  }
  return InvalidArgument(
      "data.train.missing: \"mean\" is that of all rows, but %s leaves rows "
      "out of the training; give a number",
      key);
}

void SetLabelAndGroupColumns(const TimeseriesConfig& config,
                             CsvOptions* table) {
  if (!config.target_columns.empty()) table->has_label = false;
  if (!config.group.empty() && table->take.empty()) {
    table->drop.push_back(config.group);
  }
}

std::string GroupColumn(const TimeseriesConfig& config, const Source& rows) {
  size_t at = 0;
  if (config.group.empty() ||
      !FindColumn("group", rows, config.group, &at).ok()) {
    return "";
  }
  const std::string name = rows.Columns()[at].name;
  return name.empty() ? std::to_string(at) : name;
}

void MatchWindows(const DataDescription& trained_on, bool of_csv,
                  TimeseriesConfig* config) {
  config->trained = trained_on.windows;
  config->trained_in_groups = !trained_on.group.empty();
  if (!config->empty() || !trained_on.windows) return;
  config->is_given = false;
  config->options = *trained_on.windows;
  // Without columns it is the name of a file.
  if (of_csv && !trained_on.columns.empty()) config->group = trained_on.group;
}

namespace {

// `own` has the targets if `targets`.
Status CheckAsTrained(const TimeseriesOptions& own,
                      const TimeseriesOptions& trained, bool targets) {
  const struct {
    const char* key;
    int64_t own, trained;
  } numbers[] = {
      {"sequence_length", own.sequence_length, trained.sequence_length},
      {"sampling_rate", own.sampling_rate, trained.sampling_rate},
      {"target_offset", own.target_offset, trained.target_offset},
      {"target_length", own.target_length, trained.target_length}};
  const char kAdvice[] =
      "give that, or leave \"sequence_length\" and the fields of it out; to "
      "train for another, let \"model\" be its layers, and give its file with "
      "--init";
  for (const auto& number : numbers) {
    if (number.own == number.trained) continue;
    return InvalidArgument("%s: is %" PRId64
                           ", but the model was trained with %" PRId64 "; %s",
                           number.key, number.own, number.trained, kAdvice);
  }
  if (!targets || own.target_columns == trained.target_columns) return Status();
  return InvalidArgument(
      "target_columns: gives other values than the model was trained with; %s",
      kAdvice);
}

Status CheckHasGroups(const Source& rows, const TimeseriesConfig& config) {
  if (!config.trained_in_groups || !config.group.empty()) return Status();
  return InvalidArgument(
      "%s: the model was trained on windows within groups of rows, but these "
      "rows have no group, and windows would join rows of two; give \"group\" "
      "in RUN.json (evaluate and predict: --data RUN.json), for a single group "
      "the same number for each row",
      rows.name().c_str());
}

// An error for labels that would not be read.
Status CheckHasNoLabels(const Source& rows, const TimeseriesConfig& config,
                        const CsvOptions& table) {
  const bool has_label = !table.label_name.empty() || table.label_column;
  const bool has_y = rows.y().shape.elements() > 0;
  if (!config.trained_on_columns() || (!has_label && !has_y)) return Status();
  const char* const key = has_label ? "label" : "y";
  return InvalidArgument(
      "%s: the model was trained on \"target_columns\": its targets are "
      "values of the rows, and no others are read; leave --%s out, or \"%s\" "
      "in RUN.json",
      rows.name().c_str(), key, key);
}

// True if examples are windows already. A window of one row has its axis.
bool AreWindows(const Shape& example, int64_t sequence_length,
                const Shape& input) {
  if (sequence_length > 1) return example.elements() == input.elements();
  return example.rank() > 1 && example[0] == 1 && example == input;
}

}  // namespace

Dataset OpenWindows(const Dataset& rows, const TimeseriesConfig& config,
                    const std::string& csv, const CsvOptions& table,
                    const Shape& input, bool targets) {
  if (config.empty() || rows.source() == nullptr) return rows;
  if (!config.is_given && AreWindows(rows.source()->x().shape,
                                     config.options.sequence_length, input)) {
    return rows;
  }
  TimeseriesConfig own = config;
  if (!targets) {
    own.target_columns.clear();
    own.options.target_columns.clear();
  }
  TimeseriesOptions options = own.options;
  Status chosen = CheckHasGroups(*rows.source(), own);
  if (chosen.ok() && targets) {
    chosen = CheckHasNoLabels(*rows.source(), own, table);
  }
  if (chosen.ok()) {
    chosen = ResolveTargetsAndGroups(*rows.source(), own, csv, table, &options);
  }
  if (chosen.ok() && config.trained) {
    chosen = CheckAsTrained(options, *config.trained, targets);
  }
  return chosen.ok() ? TimeseriesDatasetFromArray(rows, options)
                     : Dataset(chosen);
}

}  // namespace ringlet
