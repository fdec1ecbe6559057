// ExactExchange: the sums of a step's gradients on the integer grid of
// core/compute/exact_grid.h, so that no bit of them depends on which worker
// computed which replica, or on the ways that they went.
//
// Internal to core/.

#ifndef RINGLET_CORE_MODEL_EXACT_EXCHANGE_H_
#define RINGLET_CORE_MODEL_EXACT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../base/collective.h"
#include "../compute/exact_grid.h"
#include "gradient_exchange.h"
#include "graph.h"
#include "step_timer.h"

namespace ringlet {

// The trained weights, and behind them the state that training changes, as
// ModelMemory has their gradients and changes: each variable is a tensor.
GridLayout GridOf(const Graph& graph);

// The places of the numbers of `layout`; all outlive the exchange.
struct ExactSpans {
  float* gradients = nullptr;  // and what a step changes state by
  // As many, for the sums of a worker's several replicas; null where it
  // computes one: then they are made over its gradients.
  float* sums = nullptr;
  uint8_t* scales = nullptr;  // of the blocks; they change in Finish alone
};

// `replicas` of the whole job.
std::unique_ptr<GradientExchange> MakeExactExchange(
    Collective* collective, int replicas, const GridLayout& layout,
    const ExactSpans& spans, int64_t changes, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_EXACT_EXCHANGE_H_
