#include "non_chief_output.h"

#include <algorithm>
#include <cinttypes>

#include "../data/dataset_parts.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

NonChiefOutput::NonChiefOutput(const Collective& collective, Verbose verbose,
                               FILE* out)
    : collective_(collective),
      out_(out),
      silent_(verbose == Verbose::kSilent) {}

std::string NonChiefOutput::WorkerName() const {
  const std::string address = collective_.address(collective_.rank());
  return "worker " + std::to_string(collective_.rank()) + " of " +
         std::to_string(collective_.size()) +
         (address.empty() ? "" : " at " + address);
}

void NonChiefOutput::Begin(const FitState& fit,
                           const ReplicaRange& own_replicas,
                           const Dataset& dataset) {
  if (silent_ || begun_ || fit.chief) return;
  begun_ = true;
  const int replicas = fit.model->num_replicas();
  // For a full batch: the last replicas may have fewer examples, or none.
  const int64_t part = dataset.parts().FullPart(replicas);
  const auto end = [&](int replica) {
    return std::min(part * replica, dataset.batch_size());
  };
  const std::string chief = collective_.address(0);
  PrintTo(
      out_,
      "%s: trains %" PRId64 " of %" PRId64
      " examples a step, %d replicas in %s, epochs %" PRId64 " to %" PRId64
      "; the chief%s%s shows the progress",
      WorkerName().c_str(),
      end(own_replicas.first + own_replicas.count) - end(own_replicas.first),
      dataset.batch_size(), replicas,
      fit.model->local_updates().enabled() ? "rounds of their own steps"
                                           : "step",
      fit.epoch + 1, fit.epochs, chief.empty() ? "" : " at ", chief.c_str());
}

void NonChiefOutput::End(const Status& status, int64_t epochs, int64_t steps) {
  const bool chief = collective_.rank() == 0;
  if (silent_ || !begun_ || chief) return;
  if (status.ok()) {
    PrintTo(out_, "%s: done: %" PRId64 " %s, %" PRId64 " steps in all",
            WorkerName().c_str(), epochs, epochs == 1 ? "epoch" : "epochs",
            steps);
  } else {
    PrintTo(out_, "%s: ended after %" PRId64 " steps in all: %s, exit code %d",
            WorkerName().c_str(), steps, CodeName(status.code()),
            ExitCodeOf(status));
  }
}

}  // namespace ringlet
