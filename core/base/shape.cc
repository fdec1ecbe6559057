#include "ringlet/shape.h"

#include "check.h"

namespace ringlet {

void Shape::Append(int64_t dim) {
  RINGLET_CHECK(rank_ >= 0 && rank_ < kMaxRank);
  dims_[rank_++] = dim;
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int i = 0; i < rank_; ++i) {
    if (dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

std::string Shape::ToString() const {
  std::string s = "(";
  for (int i = 0; i < rank_; ++i) {
    s += std::to_string(dims_[i]);
    if (i + 1 < rank_) s += ", ";
  }
  return s + (rank_ == 1 ? ",)" : ")");
}

}  // namespace ringlet
