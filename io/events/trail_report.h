// What the trails of a job's workers tell together, in plain words.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_EVENTS_TRAIL_REPORT_H_
#define RINGLET_IO_EVENTS_TRAIL_REPORT_H_

#include <string>
#include <vector>

#include "trail_file.h"

namespace ringlet {

// The losses, each with who waited for whom, and how each worker ended. Lines
// in the order of the clocks of those that wrote them.
std::string DescribeTrails(const std::vector<TrailContent>& trails);

// All that one of them holds, a line an event.
std::string ListTrail(const TrailContent& trail);

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_TRAIL_REPORT_H_
