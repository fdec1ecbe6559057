// What ended the rings of a job, by the trails of its workers.
//
// Internal to io/events/.

#ifndef RINGLET_IO_EVENTS_TRAIL_INCIDENTS_H_
#define RINGLET_IO_EVENTS_TRAIL_INCIDENTS_H_

#include <string>
#include <vector>

#include "trail_file.h"

namespace ringlet {

// A line for each of the last rings that ended.
std::string IncidentLines(const std::vector<TrailContent>& trails);

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_TRAIL_INCIDENTS_H_
