#include "timeseries_config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <utility>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/data/value_at.h"
#include "io/keras/keras_json.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 30;
constexpr char kColumns[] = "a list of columns' names or numbers";

// The columns of x as text, in order; and the first value of each.
struct Columns {
  explicit Columns(const Source& rows) : names(ValueNames(rows.Columns())) {
    const TableEncoding encoding = rows.Encoding();
    const int64_t values = rows.x().shape.elements();
    for (int64_t value = 0, place = 0; value < values; ++place) {
      firsts.push_back(value);
      const auto found = encoding.columns.find(place);
      const int64_t width =
          found == encoding.columns.end() ? 1 : found->second.width();
      widths.push_back(width);
      value += width;
    }
  }
  // The index of a column by its name or number; -1: there is none.
  int64_t Find(const std::string& column) const {
    const auto named = std::find(names.begin(), names.end(), column);
    if (named != names.end()) return named - names.begin();
    const int64_t count = static_cast<int64_t>(firsts.size());
    const char* const end = column.data() + column.size();
    int64_t number = 0;
    const auto parsed = std::from_chars(column.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) return -1;
    if (number < 0) number += count;
    return number >= 0 && number < count ? number : -1;
  }
  std::vector<std::string> names;
  std::vector<int64_t> firsts, widths;
};

Status FindTargets(const Source& rows, const std::vector<std::string>& wanted,
                   std::vector<int64_t>* values) {
  const Columns columns(rows);
  for (const std::string& column : wanted) {
    const int64_t found = columns.Find(column);
    if (found < 0) {
      return InvalidArgument(
          "target_columns: '%s' is no column of x in %s, which has %zu; give "
          "a name or a number from 0",
          Printable(column).c_str(), rows.name().c_str(),
          columns.firsts.size());
    }
    const size_t at = static_cast<size_t>(found);
    for (int64_t i = 0; i < columns.widths[at]; ++i) {
      values->push_back(columns.firsts[at] + i);
    }
  }
  return Status();
}

// The group of each row, and the text of each group.
struct Groups {
  std::vector<int64_t> of_rows;
  std::vector<std::string> names;
};

// The column is read as categories, alone.
Status ReadGroupColumn(const std::string& csv, const std::string& column,
                       const CsvOptions& table, Groups* groups) {
  CsvOptions options;
  options.separator = table.separator;
  options.decimal = table.decimal;
  options.comment = table.comment;
  options.header = table.header;
  options.has_label = false;
  options.take = {column};
  options.categorical.push_back({column, /*one_hot=*/false,
                                 /*has_unknown_category=*/false});
  const Dataset read = CsvDataset(csv, options);
  RINGLET_RETURN_IF_ERROR(read.Batch(1).status());
  Source* const source = read.source().get();
  const TableEncoding encoding = source->Encoding();
  const auto found = encoding.columns.find(0);
  if (found != encoding.columns.end()) groups->names = found->second.categories;
  for (int64_t row = 0; row < source->size(); ++row) {
    float number = 0;
    RINGLET_RETURN_IF_ERROR(source->Read(&row, 1, &number, nullptr));
    groups->of_rows.push_back(static_cast<int64_t>(number));
  }
  return Status();
}

Status ReadGroupFile(const std::string& path, Groups* groups) {
  NpyArray array;
  RINGLET_RETURN_IF_ERROR(ReadNpy(path, &array));
  if (array.shape.rank() < 1 || array.shape.elements() != array.shape[0]) {
    return InvalidArgument(
        "%s: an array of %s; a group is one number for each row", path.c_str(),
        array.shape.ToString().c_str());
  }
  std::map<std::string, int64_t> numbers;
  for (int64_t row = 0; row < array.shape[0]; ++row) {
    const std::string name =
        ShortestText(ValueAt(array.dtype, array.data.data(), row));
    const auto next = static_cast<int64_t>(groups->names.size());
    const auto [found, is_new] = numbers.emplace(name, next);
    if (is_new) groups->names.push_back(name);
    groups->of_rows.push_back(found->second);
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
  for (int64_t& group : groups->of_rows) {
    if (listed[static_cast<size_t>(group)] != config.only_groups) group = -1;
  }
  return Status();
}

bool DropsRows(const CsvOptions& table) {
  const auto drops = [](const CsvOptions::MissingRule& rule) {
    return rule.kind == CsvOptions::Missing::kDrop;
  };
  return drops(table.missing) ||
         std::any_of(table.missing_by_column.begin(),
                     table.missing_by_column.end(),
                     [&](const auto& entry) { return drops(entry.second); });
}

Status Choose(const Source& rows, const TimeseriesConfig& config,
              const std::string& csv, const CsvOptions& table,
              TimeseriesOptions* options) {
  if (DropsRows(table)) {
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
                   : ReadGroupColumn(csv, config.group, table, &groups))
          .Annotate("group"));
  if (!config.validation_groups.empty()) {
    RINGLET_RETURN_IF_ERROR(ChooseGroups(config, &groups));
  }
  options->groups = std::move(groups.of_rows);
  return Status();
}

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
  ReadColumns("validation_groups", fields, &config->validation_groups);
  if (!config->validation_groups.empty() && config->group.empty()) {
    fields->Refuse("validation_groups", "needs \"group\", which names them");
  }
  if (!config->empty()) return;
  const TimeseriesOptions standard;
  const std::pair<const char*, bool> given[] = {
      {"sequence_stride", o->sequence_stride != standard.sequence_stride},
      {"sampling_rate", o->sampling_rate != standard.sampling_rate},
      {"start_index", o->start_index != standard.start_index},
      {"end_index", o->end_index != standard.end_index},
      {"target_offset", o->target_offset != standard.target_offset},
      {"target_length", o->target_length != standard.target_length},
      {"target_columns", !config->target_columns.empty()},
      {"group", !config->group.empty()}};
  for (const auto& [key, is_given] : given) {
    if (!is_given) continue;
    fields->Refuse(key, "needs \"sequence_length\", the rows of a window");
  }
}

void PlaceColumns(const TimeseriesConfig& config, CsvOptions* table) {
  if (!config.target_columns.empty()) table->has_label = false;
  if (!config.group.empty() && table->take.empty()) {
    table->drop.push_back(config.group);
  }
}

Dataset OpenWindows(const Dataset& rows, const TimeseriesConfig& config,
                    const std::string& csv, const CsvOptions& table,
                    bool targets) {
  if (config.empty() || rows.source() == nullptr) return rows;
  TimeseriesConfig own = config;
  if (!targets) own.target_columns.clear();
  TimeseriesOptions options = own.options;
  const Status chosen = Choose(*rows.source(), own, csv, table, &options);
  return chosen.ok() ? TimeseriesDatasetFromArray(rows, options)
                     : Dataset(chosen);
}

}  // namespace ringlet
