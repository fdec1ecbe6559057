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

// The file of this worker's event log; empty if it has none. `flag` is
// --events, and `model` the file of --save; either may be "". In a job of
// several workers the name has the worker's number.
std::string EventLogPath(const std::string& flag, const std::string& model,
                         const ClusterConfig& cluster);

// Opens the event log `path`, if it is not "". `asked` is true if --events
// names it. Otherwise a file that cannot be written is only a warning.
Status OpenEventLog(const std::string& path, bool asked, const std::string& run,
                    const ClusterConfig& cluster,
                    std::unique_ptr<EventLog>* log);

bool IsEventLogFile(const std::string& path);
// Returns an error if the file has the trail of an earlier version.
Status CheckEventLogVersion(const std::string& path);
// Prints a report of all logs. If `verbose`, prints each event before it.
// Returns the exit code. An invalid log among several is named and left out.
int InspectEventLogs(const std::vector<std::string>& paths, bool verbose);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_EVENTS_H_
