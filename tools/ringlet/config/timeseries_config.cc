#include "timeseries_config.h"

#include <algorithm>
#include <cmath>

#include "column_fields.h"
#include "core/base/number_text.h"
#include "io/files/path.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 30;

// Groups are compared as text, also the numbers of an array.
void ReadGroupNames(FieldReader* fields, std::vector<std::string>* names) {
  const char kTakes[] = "a list of groups' names or numbers";
  fields->List("validation_groups", 1, kTakes, [&](const Json& item) {
    // Beyond 2^53 a number of JSON may be rounded; a text is exact.
    const bool exact =
        item.is_number() && std::fabs(item.number()) <= 9007199254740992.0;
    if (item.is_string()) names->push_back(item.text());
    if (exact) names->push_back(ShortestText(item.number() + 0.0));
    return item.is_string() || exact;
  });
}

}  // namespace

bool HasMissingRule(const CsvOptions& table, CsvOptions::Missing kind) {
  const auto has_kind = [&](const CsvOptions::MissingRule& rule) {
    return rule.kind == kind;
  };
  return has_kind(table.missing) ||
         std::any_of(table.missing_by_column.begin(),
                     table.missing_by_column.end(),
                     [&](const auto& entry) { return has_kind(entry.second); });
}

void ReadTimeseries(bool of_csv, bool of_sound, const std::string& folder,
                    FieldReader* fields, TimeseriesConfig* config) {
  TimeseriesOptions* const o = &config->options;
  const auto read = [&](const char* key, int64_t min_value, int64_t* value) {
    if (fields->MarkOptional(key)) fields->Int(key, min_value, kMaxRows, value);
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
  if (fields->MarkOptional("group") &&
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
  const char kNeeds[] = "needs \"sequence_length\", the rows of a window";
  if (!of_sound) fields->RefuseGiven({"sampling_rate"}, kNeeds);
  fields->RefuseGiven(
      {"sequence_stride", "start_index", "end_index", "target_offset",
       "target_length", "target_columns", "group"},
      kNeeds);
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
        "data.validation.%s: differs from data.train's; "
        "give both the same value, or leave both out",
        field.key);
  }
  return Status();
}

Status CheckMeans(const TimeseriesConfig& train, const CsvOptions& table) {
  const char* const key = !train.validation_groups.empty() ? "validation_groups"
                          : train.options.start_index > 0  ? "start_index"
                          : train.options.end_index >= 0   ? "end_index"
                                                           : nullptr;
  if (key == nullptr || !HasMissingRule(table, CsvOptions::Missing::kMean)) {
    return Status();
  }
  return InvalidArgument(
      "data.train.missing: \"mean\" uses all rows, but %s leaves rows "
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

void MatchWindows(const DataDescription& trained_on, bool of_csv,
                  TimeseriesConfig* config) {
  config->trained = trained_on.windows;
  config->trained_in_groups = !trained_on.group.empty();
  if (!config->empty() || !trained_on.windows) return;
  config->is_given = false;
  config->options = *trained_on.windows;
  // Without columns the groups come from a file, and this is its name.
  if (of_csv && !trained_on.columns.empty()) config->group = trained_on.group;
}

}  // namespace ringlet
