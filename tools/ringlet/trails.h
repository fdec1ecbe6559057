// The trails of a job's workers: kept by train, read by inspect.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_TRAILS_H_
#define RINGLET_TOOLS_RINGLET_TRAILS_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "io/events/trail.h"
#include "net/cluster/cluster.h"

namespace ringlet {

// Of --trail; "": none is kept.
Status OpenTrail(const std::string& folder, const ClusterConfig& cluster,
                 std::unique_ptr<Trail>* trail);

bool IsTrailFile(const std::string& path);
// Prints what they tell together; `verbose`: each event before. The exit code:
// where one of several is no trail, or damaged, it is named and left out.
int InspectTrails(const std::vector<std::string>& paths, bool verbose);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_TRAILS_H_
