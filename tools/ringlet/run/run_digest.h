// RunDigest: identifies the run of a model file.
//
// Two runs with one digest give the same model, on one machine with the same
// bytes. The digest covers all that decides the result: model, compile, fit,
// callbacks, workers, and the data. It covers no path and no time. If examples
// stay in IDX and NPY files, which no pass reads, it covers 64 of them, and
// labels of one value each.

#ifndef RINGLET_TOOLS_RINGLET_RUN_RUN_DIGEST_H_
#define RINGLET_TOOLS_RINGLET_RUN_RUN_DIGEST_H_

#include <string>

#include "../config/run_config.h"
#include "run.h"

namespace ringlet {

// The model must be built (MakeModel) and not trained, and the data open.
Status RunDigest(const RunConfig& config, const InitFlags& init,
                 const RunData& data, int replicas, std::string* digest);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_RUN_DIGEST_H_
