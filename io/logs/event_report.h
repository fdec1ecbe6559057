// Reports on the event logs of a job's workers, in plain words. Pure.

#ifndef RINGLET_IO_LOGS_EVENT_REPORT_H_
#define RINGLET_IO_LOGS_EVENT_REPORT_H_

#include <string>
#include <vector>

#include "event_lines.h"

namespace ringlet {

// Lists the losses, with the waiting workers and the workers they waited for,
// and how each worker ended. Lines are in the order of the writers' clocks.
std::string DescribeEventLogs(const std::vector<EventLogContent>& logs);

// A line for each of the last views that ended, with the causes.
std::string IncidentLines(const std::vector<EventLogContent>& logs);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_EVENT_REPORT_H_
