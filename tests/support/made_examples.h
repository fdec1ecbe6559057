// Examples that are the same on every machine.

#ifndef RINGLET_TESTS_SUPPORT_MADE_EXAMPLES_H_
#define RINGLET_TESTS_SUPPORT_MADE_EXAMPLES_H_

#include <cstdint>
#include <vector>

#include "ringlet/dataset.h"

namespace ringlet {

// Numbers of [-1, 1), the same everywhere.
inline std::vector<float> SomeNumbers(size_t count) {
  std::vector<float> numbers;
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
  return numbers;
}

// Made examples, and their batches.
struct Examples {
  std::vector<float> x, y;
  Dataset Batches(const Shape& in, const Shape& out, int64_t count) {
    x = SomeNumbers(static_cast<size_t>(count * in.elements()));
    y = SomeNumbers(static_cast<size_t>(count * out.elements()));
    return Dataset(MemorySource({DType::kFloat32, in}, x.data(),
                                {DType::kFloat32, out}, y.data(), count))
        .Batch(4);
  }
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_MADE_EXAMPLES_H_
