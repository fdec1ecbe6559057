// Broadcast: the elements of a smaller shape in a larger one, as in NumPy.

#ifndef RINGLET_CORE_LAYERS_BASIC_BROADCAST_H_
#define RINGLET_CORE_LAYERS_BASIC_BROADCAST_H_

#include <algorithm>
#include <cstdint>

#include "ringlet/shape.h"

namespace ringlet {

// Each axis of `from` has the size of the axis of `to`, or 1; leading axes may
// be missing.
class Broadcast {
 public:
  Broadcast(const Shape& from, const Shape& to)
      : elements_(from.elements()), rank_(std::max(0, to.rank() - 1)) {
    int64_t stride = 1;
    for (int i = to.rank() - 1; i >= 0; --i) {
      const int from_axis = i - (to.rank() - from.rank());
      const int64_t size = from_axis < 0 ? 1 : from[from_axis];
      sizes_[i] = to[i];
      strides_[i] = size == 1 ? 0 : stride;
      stride *= size;
    }
    step_ = rank_ < to.rank() ? strides_[rank_] : 0;
  }

  int64_t elements() const { return elements_; }
  // The distance between neighbours in a row. A row is the last axis of `to`.
  int64_t step() const { return step_; }
  // The index in `from` of the first element of row `row`.
  int64_t At(int64_t row) const {
    int64_t at = 0;
    for (int i = rank_ - 1; i >= 0; --i) {
      at += row % sizes_[i] * strides_[i];
      row /= sizes_[i];
    }
    return at;
  }

 private:
  int64_t elements_;
  int rank_;  // axes of the rows
  int64_t step_ = 0;
  int64_t sizes_[Shape::kMaxRank] = {}, strides_[Shape::kMaxRank] = {};
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_BASIC_BROADCAST_H_
