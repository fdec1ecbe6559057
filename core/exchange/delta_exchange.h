// DeltaExchange: sums the replicas' changes in a round of local updates.
//
// The contribution of a replica takes the place of a step's gradients and state
// changes. Each block of 256 numbers has an integer grid. The grid's scale
// follows from the greatest magnitude that any replica has in the block, so the
// ranks gather these magnitudes first. Several integers share a 32-bit word. No
// integer carries into the next one, so the ranks can add the words in any
// order.

#ifndef RINGLET_CORE_EXCHANGE_DELTA_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_DELTA_EXCHANGE_H_

#include <cstdint>
#include <memory>

#include "../compute/exact_grid.h"
#include "../graph/step_timer.h"
#include "ringlet/collective.h"
#include "ringlet/local_updates.h"
#include "round_exchange.h"

namespace ringlet {

// All spans outlive the exchange.
struct DeltaSpans {
  // The changes of the replica that has just ended.
  float* contribution = nullptr;
  float* words = nullptr;  // has the length of `contribution`
  // The contributions of this worker's replicas, except the last replica.
  float* earlier = nullptr;
  int64_t stride = 0;  // the distance between two contributions
};

// IntegersPerWord is the number of integers in a word; not for sparse changes.
// WordsOf is the number of words of a block of `count` numbers.
int IntegersPerWord(LocalUpdates::Delta delta, int replicas);
constexpr int64_t WordsOf(int64_t count, int integers_per_word) {
  return (count + integers_per_word - 1) / integers_per_word;
}

// `replicas` is the number in the whole job. The last `changes` numbers of
// `layout` are state changes, which are sent with 32 bits.
std::unique_ptr<RoundExchange> MakeDeltaExchange(
    Collective* collective, int replicas, LocalUpdates::Delta delta,
    const GridLayout& layout, int64_t changes, const DeltaSpans& spans,
    const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_DELTA_EXCHANGE_H_
