// OpenWindows: the windows of a RUN.json's rows, as the model was trained.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_WINDOWS_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_WINDOWS_H_

#include <string>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "timeseries_config.h"

namespace ringlet {

// Opens the windows of `rows`. `csv` is the path of their table, or "" if they
// are arrays. Without `targets` the windows need no targets. If the windows are
// not given, examples of the shape of the model's `input` are windows already.
// An error if the windows differ from the windows of the training, or labels
// would not be read.
Dataset OpenWindows(const Dataset& rows, const TimeseriesConfig& config,
                    const std::string& csv, const CsvOptions& table,
                    const Shape& input, bool targets);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_TIMESERIES_WINDOWS_H_
