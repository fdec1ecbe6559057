// ExactExchange: sums a step's gradients on the integer grid of
// core/compute/exact_grid.h. The bits do not depend on which worker computed
// which replica, nor on the order of the sums.

#ifndef RINGLET_CORE_EXCHANGE_EXACT_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_EXACT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../compute/exact_grid.h"
#include "../graph/step_timer.h"
#include "gradient_exchange.h"
#include "ringlet/collective.h"

namespace ringlet {

// The spans of the numbers of `layout`. All outlive the exchange.
struct ExactSpans {
  float* gradients = nullptr;  // followed by the step's state changes
  // The sums over a worker's replicas, as many as `gradients`. Null for a
  // worker with one replica: its sums overwrite its gradients.
  float* sums = nullptr;
  uint8_t* scales = nullptr;  // the blocks' scales; only Finish changes them
};

// `replicas` is the number in the whole job. The last `changes` numbers of
// `layout` are state changes.
std::unique_ptr<GradientExchange> MakeExactExchange(
    Collective* collective, int replicas, const GridLayout& layout,
    const ExactSpans& spans, int64_t changes, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_EXACT_EXCHANGE_H_
