// DeltaExchange: the sums of what replicas changed in a round of local updates.
//
// Internal to core/. The numbers of a replica's contribution lie where a step's
// gradients and changes of state do. Each block of 256 is put on an integer
// grid of its own, whose scale follows from the greatest magnitude that any
// replica has in it: the ranks gather these before they send anything else. The
// whole numbers are added as several to a 32-bit word, none of which ever
// carries into the next, so that a sum of words on any way is the sum of all.

#ifndef RINGLET_CORE_MODEL_DELTA_EXCHANGE_H_
#define RINGLET_CORE_MODEL_DELTA_EXCHANGE_H_

#include <cstdint>
#include <memory>

#include "../base/collective.h"
#include "../compute/exact_grid.h"
#include "local_updates.h"
#include "round_exchange.h"
#include "step_timer.h"

namespace ringlet {

// All outlive the exchange.
struct DeltaSpans {
  float* contribution = nullptr;  // of the replica that is ready
  float* words = nullptr;         // as many
  float* earlier = nullptr;  // of this worker's replicas but one, as many each
  int64_t stride = 0;        // from one of these to the next
};

// Not of sparse ones: so many numbers go into a word; the words of `count`
// numbers of a block.
int LanesOf(LocalUpdates::Delta delta, int replicas);
constexpr int64_t WordsOf(int64_t count, int lanes) {
  return (count + lanes - 1) / lanes;
}

// `replicas` of the whole job; the last `changes` numbers of `layout` are of
// state, and travel with 32 bits.
std::unique_ptr<RoundExchange> MakeDeltaExchange(
    Collective* collective, int replicas, LocalUpdates::Delta delta,
    const GridLayout& layout, int64_t changes, const DeltaSpans& spans,
    const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_DELTA_EXCHANGE_H_
