#include "ringlet/shape.h"

#include "check.h"

namespace ringlet {

void Shape::Append(int64_t dim) {
  RINGLET_CHECK(rank_ >= 0 && rank_ < kMaxRank);
  dims_[rank_++] = dim;
}

}  // namespace ringlet
