// Draw: whole numbers drawn from a seed, for the shapes of random cases.

#ifndef RINGLET_TESTS_SUPPORT_DRAW_H_
#define RINGLET_TESTS_SUPPORT_DRAW_H_

#include <cstdint>

#include "ringlet/compute.h"

namespace ringlet {

class Draw {
 public:
  explicit Draw(uint64_t seed, uint64_t stream = 5) : random_(seed, stream) {}
  int64_t From(int64_t low, int64_t high) {
    const float unit = Philox::Unit(random_.At(at_++)[0]);
    return low +
           static_cast<int64_t>(unit * static_cast<float>(high - low + 1));
  }

 private:
  Philox random_;
  uint64_t at_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_DRAW_H_
