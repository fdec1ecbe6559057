// SparseExchange: local updates' changes as the messages of sparse_delta.h.
//
// Internal to core/. The ranks gather the messages of all replicas, and each
// adds them in the order of the replicas: the same bits whoever computed which.
// State travels as DeltaExchange has it, with 32 bits.

#ifndef RINGLET_CORE_MODEL_SPARSE_EXCHANGE_H_
#define RINGLET_CORE_MODEL_SPARSE_EXCHANGE_H_

#include <cstdint>
#include <memory>

#include "../base/collective.h"
#include "graph.h"
#include "replica_shares.h"
#include "round_exchange.h"
#include "step_timer.h"

namespace ringlet {

// All outlive the exchange.
struct SparseSpans {
  float* contribution = nullptr;  // as DeltaSpans
  float* earlier = nullptr;       // as DeltaSpans
  int64_t stride = 0;             // as DeltaSpans
  float* errors = nullptr;  // replica after replica: of each trained number
};

std::unique_ptr<RoundExchange> MakeSparseExchange(
    Collective* collective, const ReplicaShares& shares, int replicas,
    const Graph& graph, const SparseSpans& spans, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_SPARSE_EXCHANGE_H_
