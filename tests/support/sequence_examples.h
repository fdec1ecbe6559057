// Made sequences, and how the models of the tests of recurrent layers and masks
// are compiled.

#ifndef RINGLET_TESTS_SUPPORT_SEQUENCE_EXAMPLES_H_
#define RINGLET_TESTS_SUPPORT_SEQUENCE_EXAMPLES_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "expect_ok.h"
#include "ringlet/dataset.h"
#include "ringlet/model.h"

namespace ringlet {

// Examples of the shape (steps, features), with two targets each.
class SequenceExamples {
 public:
  SequenceExamples(int64_t steps, int64_t features, int64_t examples)
      : shape_{steps, features}, examples_(examples) {
    for (int64_t example = 0; example < examples; ++example) {
      for (int64_t i = 0; i < steps * features; ++i) {
        x_.push_back(std::sin(static_cast<float>(x_.size()) * 1.3f));
      }
      for (int i = 0; i < 2; ++i) {
        y_.push_back(x_[x_.size() - 3 - i] * x_.back());
      }
    }
  }
  Dataset All() const {
    return Dataset(MemorySource({DType::kFloat32, shape_}, x_.data(),
                                {DType::kFloat32, {2}}, y_.data(), examples_));
  }

 private:
  const Shape shape_;
  const int64_t examples_;
  std::vector<float> x_, y_;
};

// The number at step `s` of example `i`, from 1 to `numbers` - 1. Outside of
// the steps it is 0.
inline int64_t PaddedNumber(int64_t i, int64_t s, int64_t steps,
                            int64_t numbers) {
  if (s < 0 || s >= steps) return 0;
  return (i * 5 + s * s + i * s) % (numbers - 1) + 1;
}

inline void CompileWithSgd(Model* model, float rate, int threads = 1) {
  CompileOptions options;
  options.threads = threads;
  options.seed = 5;
  model->Compile(SGD(rate), MeanSquaredError(), {}, options);
  ASSERT_OK(model->status());
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SEQUENCE_EXAMPLES_H_
