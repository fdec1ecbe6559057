// TwoByTwo: a model of two inputs and two outputs, and data for it.

#ifndef RINGLET_TESTS_SUPPORT_TWO_BY_TWO_H_
#define RINGLET_TESTS_SUPPORT_TWO_BY_TWO_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "expect_ok.h"
#include "ringlet/model.h"

namespace ringlet {

using Floats = std::vector<float>;

inline Floats Values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Floats x(static_cast<size_t>(count));
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
  return x;
}

// Data of two inputs and two targets, of different types.
struct TwoByTwoData {
  std::vector<uint8_t> images = std::vector<uint8_t>(60 * 4);
  Floats numbers = Values(60 * 2, 1);
  std::vector<int32_t> kinds = std::vector<int32_t>(60);
  Floats ages = Values(60, 2);
  Dataset zipped;
  TwoByTwoData() {
    for (size_t i = 0; i < images.size(); ++i) {
      images[i] = static_cast<uint8_t>(i * 37);
    }
    for (size_t i = 0; i < kinds.size(); ++i) {
      kinds[i] = static_cast<int32_t>(i * 7 % 3);
    }
    zipped =
        Zip({Of(DType::kUint8, {2, 2}, images.data()).Map(Scale(1 / 255.f)),
             Of(DType::kFloat32, {2}, numbers.data())},
            {Of(DType::kInt32, {}, kinds.data()),
             Of(DType::kFloat32, {1}, ages.data())});
  }
  static Dataset Of(DType type, const Shape& shape, const void* x) {
    return Dataset(MemorySource({type, shape}, x, {}, nullptr, 60));
  }
};

struct TwoByTwo {
  Functional model;
  explicit TwoByTwo(Collective* collective = nullptr,
                    std::vector<OutputLoss> losses = {}) {
    const auto image = model.Add(Input({2, 2}).Name("image"));
    const auto numbers = model.Add(Input({2}).Name("numbers"));
    const auto both =
        model.Add(Concatenate(), {model.Add(Flatten(), {image}), numbers});
    const auto hidden = model.Add(Dense(8, kTanh), {both});
    const auto kind = model.Add(Dense(3, kSoftmax).Name("kind"), {hidden});
    const auto age = model.Add(Dense(1).Name("age"), {hidden});
    model.Outputs({kind, age});
    if (losses.empty()) {
      losses = {OutputLoss("kind", SparseCategoricalCrossentropy(),
                           {Accuracy(), Accuracy().Weighted()}),
                OutputLoss("age", MeanSquaredError(),
                           {MeanAbsoluteErrorMetric()}, 0.25f)};
    }
    model.Compile(Adam(0.01f), losses, collective);
    EXPECT_OK(model.status());
  }
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_TWO_BY_TWO_H_
