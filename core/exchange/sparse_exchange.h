// SparseExchange: exchanges changes as the messages of sparse_delta.h.
//
// The ranks gather the messages of all replicas, and each adds them in the
// order of the replicas. So the bits do not depend on which rank computed which
// replica. State is sent with 32 bits, as in DeltaExchange.

#ifndef RINGLET_CORE_EXCHANGE_SPARSE_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_SPARSE_EXCHANGE_H_

#include <cstdint>
#include <memory>

#include "../graph/graph.h"
#include "../graph/step_timer.h"
#include "replica_assignment.h"
#include "ringlet/collective.h"
#include "round_exchange.h"

namespace ringlet {

// All spans outlive the exchange.
struct SparseSpans {
  float* contribution = nullptr;  // see DeltaSpans
  float* earlier = nullptr;       // see DeltaSpans
  int64_t stride = 0;             // see DeltaSpans
  // An error for each trained number, replica by replica.
  float* errors = nullptr;
};

std::unique_ptr<RoundExchange> MakeSparseExchange(
    Collective* collective, const ReplicaAssignment& assignment, int replicas,
    const Graph& graph, const SparseSpans& spans, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_SPARSE_EXCHANGE_H_
