// WorkerLines: what a worker that is not the chief prints of a fit.
//
// Internal to core/. One line where it begins to train and one where it ends,
// each flushed; the progress is the chief's to show. None of a worker alone, of
// the chief, and with Verbose::kSilent.

#ifndef RINGLET_CORE_FIT_WORKER_LINES_H_
#define RINGLET_CORE_FIT_WORKER_LINES_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "../base/collective.h"
#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/replica_range.h"
#include "callback.h"
#include "progress.h"

namespace ringlet {

class WorkerLines {
 public:
  WorkerLines(const Collective& collective, Verbose verbose, FILE* out);

  // Once, whoever is lost meanwhile; of an elastic job where this worker is not
  // the chief, or is not any more.
  // `own`: the replicas that it computes.
  void Begin(const FitState& fit, const ReplicaRange& own,
             const Dataset& dataset);
  // `epochs` have been completed; `steps` of the model.
  void End(const Status& status, int64_t epochs, int64_t steps);

 private:
  std::string Self() const;

  const Collective& collective_;
  FILE* const out_;
  const bool silent_;
  bool begun_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_WORKER_LINES_H_
