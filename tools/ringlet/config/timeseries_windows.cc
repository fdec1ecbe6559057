#include "timeseries_windows.h"

#include <cinttypes>
#include <string>

#include "ringlet/status.h"
#include "timeseries_targets.h"

namespace ringlet {
namespace {

// `windows` has the targets if `targets`.
Status CheckWindowsAsTrained(const TimeseriesOptions& windows,
                             const TimeseriesOptions& trained, bool targets) {
  const struct {
    const char* key;
    int64_t value, trained;
  } numbers[] = {
      {"sequence_length", windows.sequence_length, trained.sequence_length},
      {"sampling_rate", windows.sampling_rate, trained.sampling_rate},
      {"target_offset", windows.target_offset, trained.target_offset},
      {"target_length", windows.target_length, trained.target_length}};
  const char kAdvice[] =
      "give that, or leave \"sequence_length\" and the fields of it out; to "
      "train for another, let \"model\" be its layers, and give its file with "
      "--init";
  for (const auto& number : numbers) {
    if (number.value == number.trained) continue;
    return InvalidArgument("%s: is %" PRId64
                           ", but the model was trained with %" PRId64 "; %s",
                           number.key, number.value, number.trained, kAdvice);
  }
  if (!targets || windows.target_columns == trained.target_columns)
    return Status();
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

// Returns an error for labels that would not be read.
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
  TimeseriesConfig selected = config;
  if (!targets) {
    selected.target_columns.clear();
    selected.options.target_columns.clear();
  }
  TimeseriesOptions options = selected.options;
  Status chosen = CheckHasGroups(*rows.source(), selected);
  if (chosen.ok() && targets) {
    chosen = CheckHasNoLabels(*rows.source(), selected, table);
  }
  if (chosen.ok()) {
    chosen =
        ResolveTargetsAndGroups(*rows.source(), selected, csv, table, &options);
  }
  if (chosen.ok() && config.trained) {
    chosen = CheckWindowsAsTrained(options, *config.trained, targets);
  }
  return chosen.ok() ? TimeseriesDatasetFromArray(rows, options)
                     : Dataset(chosen);
}

}  // namespace ringlet
