// NonChiefOutput: the output of a worker that is not the chief.
//
// It prints one line when training begins and one when it ends, each flushed;
// the chief shows the progress. Nothing is printed by the chief, by a single
// worker, and with Verbose::kSilent.

#ifndef RINGLET_CORE_FIT_NON_CHIEF_OUTPUT_H_
#define RINGLET_CORE_FIT_NON_CHIEF_OUTPUT_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "../exchange/replica_range.h"
#include "progress.h"
#include "ringlet/collective.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

class NonChiefOutput {
 public:
  NonChiefOutput(const Collective& collective, Verbose verbose, FILE* out);

  // Prints its line once in a fit, also if workers are lost meanwhile.
  // This worker computes `own_replicas`.
  void Begin(const FitState& fit, const ReplicaRange& own_replicas,
             const Dataset& dataset);
  // `epochs` were completed; the model has made `steps` steps.
  void End(const Status& status, int64_t epochs, int64_t steps);

 private:
  std::string WorkerName() const;

  const Collective& collective_;
  FILE* const out_;
  const bool silent_;
  bool begun_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_NON_CHIEF_OUTPUT_H_
