// RunDigest: which run a model file is of.
//
// Internal to tools/ringlet/. Two runs of one digest give the same model, on
// one machine the same bytes. It is of what decides the result: model, compile,
// fit, callbacks, workers, and the data themselves, those that are not in
// memory by a sample; of no path and no time.

#ifndef RINGLET_TOOLS_RINGLET_RUN_DIGEST_H_
#define RINGLET_TOOLS_RINGLET_RUN_DIGEST_H_

#include <string>

#include "run.h"
#include "run_config.h"

namespace ringlet {

// Of a model that is made (MakeModel), not trained, and of data that are open.
Status RunDigest(const RunConfig& config, const InitFlags& init,
                 const RunData& data, int replicas, std::string* digest);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_DIGEST_H_
