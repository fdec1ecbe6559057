// The event logs of a job's workers: written by train, read by inspect.

#ifndef RINGLET_TOOLS_RINGLET_RUN_EVENTS_H_
#define RINGLET_TOOLS_RINGLET_RUN_EVENTS_H_

#include <memory>
#include <string>
#include <vector>

#include "ringlet/loggers.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// Opens the event log of this worker, if it has one. `flag` is --events, and
// `model` the file of --save; either may be "". A file that cannot be written
// is only a warning.
Status OpenEventLog(const std::string& flag, const std::string& model,
                    const std::string& run, const ClusterConfig& cluster,
                    std::unique_ptr<EventLog>* log);

bool IsEventLogFile(const std::string& path);
// An error if the file has the trail of an earlier version.
Status CheckNotTrail(const std::string& path);
// Prints a report of all logs; `verbose`: each event before it. Returns the
// exit code. An invalid log among several is named and left out.
int InspectEventLogs(const std::vector<std::string>& paths, bool verbose);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_EVENTS_H_
