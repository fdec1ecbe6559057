// The trails of a job's workers: kept by train, read by inspect.

#ifndef RINGLET_TOOLS_RINGLET_RUN_TRAILS_H_
#define RINGLET_TOOLS_RINGLET_RUN_TRAILS_H_

#include <memory>
#include <string>
#include <vector>

#include "ringlet/loggers.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// Opens the trail of --trail; "": no trail.
Status OpenTrail(const std::string& folder, const ClusterConfig& cluster,
                 std::unique_ptr<Trail>* trail);

bool IsTrailFile(const std::string& path);
// Prints a report of all trails; `verbose`: each event before it. Returns the
// exit code. An invalid or damaged trail among several is named and left out.
int InspectTrails(const std::vector<std::string>& paths, bool verbose);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_TRAILS_H_
