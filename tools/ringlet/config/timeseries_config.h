// TimeseriesConfig: the fields of a RUN.json's data that make windows of rows.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

struct TimeseriesConfig {
  TimeseriesOptions options;  // with sequence_length 0, examples are rows
  // Columns of x by their names or numbers. If it is empty, the targets are y.
  std::vector<std::string> target_columns;
  std::string group;  // a file, or a CSV's column, "" without groups
  // The groups of the validation data.
  std::vector<std::string> validation_groups;
  // If true, takes the rows of validation_groups. If false, for training, takes
  // all other rows.
  bool is_validation = false;
  // The windows of the model's training, if its file has them.
  std::optional<TimeseriesOptions> trained;
  bool trained_in_groups = false;
  bool is_given = true;  // if false, windows are as in training

  bool empty() const { return options.sequence_length == 0; }
  // True if the model was trained on targets that are values of x.
  bool trained_on_columns() const {
    return trained && !trained->target_columns.empty();
  }
};

// Reads the fields. With `of_csv` a group is a column, not a file in `folder`.
// With `of_sound` there is a sampling_rate too.
void ReadTimeseries(bool of_csv, bool of_sound, const std::string& folder,
                    FieldReader* fields, TimeseriesConfig* config);

// Returns an error if data.validation has different windows from data.train.
// Also an error if missing values become a mean that includes rows which
// data.train does not use.
Status CheckWindows(const TimeseriesConfig& train,
                    const TimeseriesConfig& validation);
Status CheckMeans(const TimeseriesConfig& train, const CsvOptions& table);

// Windows that are not given become the training's windows, with its column of
// groups if `of_csv`.
void MatchWindows(const DataDescription& trained_on, bool of_csv,
                  TimeseriesConfig* config);

// True if the table has a rule of this kind, for all columns or for one.
bool HasMissingRule(const CsvOptions& table, CsvOptions::Missing kind);

// Changes *table for windows: no label if targets are columns of x, and the
// column of the groups is not in x unless "columns" are given.
void SetLabelAndGroupColumns(const TimeseriesConfig& config, CsvOptions* table);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_CONFIG_H_
