// ExampleWeights: the weights of a batch's examples, or of their rows.

#ifndef RINGLET_EXAMPLE_WEIGHTS_H_
#define RINGLET_EXAMPLE_WEIGHTS_H_

#include <cstdint>

namespace ringlet {

// The weights of examples in the loss and in weighted metrics. With one weight
// an example, all its rows have it. With more, each row of the output, such as
// a step of a sequence, has its own (losses.h explains rows).
struct ExampleWeights {
  const float* values = nullptr;  // null: each weight is 1
  int64_t weights_per_example = 1;

  bool of_rows() const { return values != nullptr && weights_per_example > 1; }
  // The weight of row `row`, counted over all examples of `rows` rows each.
  float At(int64_t row, int64_t rows) const {
    if (values == nullptr) return 1;
    return values[of_rows() ? row : row / rows];
  }
};

}  // namespace ringlet

#endif  // RINGLET_EXAMPLE_WEIGHTS_H_
