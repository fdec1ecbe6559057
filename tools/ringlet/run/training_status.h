// ShowTrainingStatus: shows where a training is, to `ringlet top` and at the
// address of --status. docs/status.md has the pages.

#ifndef RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_
#define RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_

#include <memory>
#include <string>

#include "ringlet/fit.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// *callback follows the fit and shows where it is. It has a file for `ringlet
// top` and, if `address` (of --status) is not "", a server, until it is
// destroyed. Null in a build without the feature "inspection". `run` is the
// path of RUN.json, and `events` the path of this worker's event log, or "".
Status ShowTrainingStatus(const std::string& run, const ClusterConfig& cluster,
                          const std::string& address, const std::string& events,
                          std::shared_ptr<Callback>* callback);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_TRAINING_STATUS_H_
