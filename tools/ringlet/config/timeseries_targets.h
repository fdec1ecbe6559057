// The targets and groups of windows: columns and files become values of rows.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_TARGETS_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_TARGETS_H_

#include <string>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "timeseries_config.h"

namespace ringlet {

// Sets target_columns and groups of *options. `csv` is the path of the table of
// `rows`, or "" if they are arrays.
Status ResolveTargetsAndGroups(const Source& rows,
                               const TimeseriesConfig& config,
                               const std::string& csv, const CsvOptions& table,
                               TimeseriesOptions* options);

// Returns the name of the column with the groups of a table or, if the column
// has no name, its number. Empty without groups.
std::string GroupColumn(const TimeseriesConfig& config, const Source& rows);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_TARGETS_H_
