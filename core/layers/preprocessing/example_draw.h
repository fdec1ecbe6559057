// The random numbers of one example, for layers that draw few of them.

#ifndef RINGLET_CORE_LAYERS_PREPROCESSING_EXAMPLE_DRAW_H_
#define RINGLET_CORE_LAYERS_PREPROCESSING_EXAMPLE_DRAW_H_

#include <cstdint>

#include "../op.h"
#include "ringlet/compute.h"
#include "ringlet/layers.h"

namespace ringlet {

// Four numbers for each example of a step: block 4 * example of the Philox
// stream (seed, counter). Like the numbers of Dropout they depend only on the
// model's seed, the layer, the step, the replica and the example's place in its
// batch.
class ExampleDraw {
 public:
  ExampleDraw(const OpCall& call, int64_t example)
      : words_(Philox(call.seed, call.counter)
                   .At(4 * static_cast<uint64_t>(example))) {}
  // A number in [0, 1).
  double Unit(size_t number) const {
    return double{Philox::Unit(words_[number])};
  }
  double InRange(const FloatRange& range, size_t number) const {
    const double lower = double{range.lower};
    return lower + (double{range.upper} - lower) * Unit(number);
  }

 private:
  const Philox::Block words_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_PREPROCESSING_EXAMPLE_DRAW_H_
