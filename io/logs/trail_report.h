// Reports on the trails of a job's workers, in plain words.

#ifndef RINGLET_IO_LOGS_TRAIL_REPORT_H_
#define RINGLET_IO_LOGS_TRAIL_REPORT_H_

#include <string>
#include <vector>

#include "trail_file.h"

namespace ringlet {

// Lists the losses, with the waiting workers and the workers they waited for,
// and how each worker ended. Lines are in the order of the writers' clocks.
std::string DescribeTrails(const std::vector<TrailContent>& trails);

// A line for each of the last rings that ended, with the causes.
std::string IncidentLines(const std::vector<TrailContent>& trails);

// Lists all events of one trail, a line each.
std::string ListTrail(const TrailContent& trail);

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_TRAIL_REPORT_H_
