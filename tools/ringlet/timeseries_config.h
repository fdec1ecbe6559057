// TimeseriesConfig: the fields of a RUN.json's data that make windows of rows.

#ifndef RINGLET_TOOLS_RINGLET_TIMESERIES_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_TIMESERIES_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

struct TimeseriesConfig {
  TimeseriesOptions options;  // sequence_length 0: examples are rows
  // Columns of x by their names or numbers; empty: the targets are y.
  std::vector<std::string> target_columns;
  std::string group;  // a file, or a CSV's column; "": no groups
  // The groups of the validation data.
  std::vector<std::string> validation_groups;
  // True: the rows of these groups; false, for training: all others.
  bool is_validation = false;
  // The windows of the model's training, if its file has them.
  std::optional<TimeseriesOptions> trained;
  bool trained_in_groups = false;
  bool is_given = true;  // false: the windows are those of the training

  bool empty() const { return options.sequence_length == 0; }
  // True if the model was trained on targets that are values of x.
  bool trained_on_columns() const {
    return trained && !trained->target_columns.empty();
  }
};

// Reads the fields. `of_csv`: a group is a column, not a file in `folder`.
void ReadTimeseries(bool of_csv, const std::string& folder, FieldReader* fields,
                    TimeseriesConfig* config);

// Errors: data.validation has other windows than data.train; the mean of
// missing values is also of rows that data.train does not use.
Status CheckWindows(const TimeseriesConfig& train,
                    const TimeseriesConfig& validation);
Status CheckMeans(const TimeseriesConfig& train, const CsvOptions& table);

// The name, or else the number, of the groups' column of a table; "": none.
std::string GroupColumn(const TimeseriesConfig& config, const Source& rows);

// Windows that are not given become those of the training, with its column of
// groups if `of_csv`.
void MatchWindows(const DataDescription& trained_on, bool of_csv,
                  TimeseriesConfig* config);

// Changes *table for windows: no label if targets are columns of x, and the
// column of the groups is not in x unless "columns" are given.
void SetLabelAndGroupColumns(const TimeseriesConfig& config, CsvOptions* table);

// The windows of `rows`. `csv` is the path of their table; "": they are arrays.
// Without `targets` the windows need no targets. If the windows are not given,
// examples of the shape of the model's `input` are windows already. An error if
// the windows are not those of the training, or labels would not be read.
Dataset OpenWindows(const Dataset& rows, const TimeseriesConfig& config,
                    const std::string& csv, const CsvOptions& table,
                    const Shape& input, bool targets);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_TIMESERIES_CONFIG_H_
