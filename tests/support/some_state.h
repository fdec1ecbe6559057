// A Saveable of every element type, for tests of files.

#ifndef RINGLET_TESTS_SUPPORT_SOME_STATE_H_
#define RINGLET_TESTS_SUPPORT_SOME_STATE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ringlet/shape.h"

namespace ringlet {

class SomeState final : public Saveable {
 public:
  explicit SomeState(int64_t seed = 0, int64_t rows = 3) : rows_(rows) {
    Fill(seed);
  }

  // Every element from `seed`.
  void Fill(int64_t seed) {
    kernel.resize(static_cast<size_t>(rows_ * 5));
    for (size_t i = 0; i < kernel.size(); ++i) {
      kernel[i] = static_cast<float>(seed) + 0.1f * static_cast<float>(i);
    }
    step = seed;
    mean[0] = 1.0 / static_cast<double>(seed + 3);
    mean[1] = -static_cast<double>(seed);
    for (int i = 0; i < 7; ++i) {
      bytes[i] = static_cast<uint8_t>(seed * 31 + i);
      ints[i] = static_cast<int32_t>(seed * 1000003 - i);
    }
  }

  bool operator==(const SomeState& other) const {
    return kernel == other.kernel && step == other.step &&
           std::memcmp(mean, other.mean, sizeof(mean)) == 0 &&
           std::memcmp(bytes, other.bytes, sizeof(bytes)) == 0 &&
           std::memcmp(ints, other.ints, sizeof(ints)) == 0;
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"model/dense/kernel", DType::kFloat32, {rows_, 5}, kernel.data()});
    spans->push_back({"fit/step", DType::kInt64, {}, &step});
    spans->push_back({"metric/mean", DType::kFloat64, {2}, mean});
    spans->push_back({"callback/bytes", DType::kUint8, {7}, bytes});
    spans->push_back({"callback/ints", DType::kInt32, {7}, ints});
    spans->push_back({"callback/none", DType::kFloat32, {0, 4}, nullptr});
  }
  Status StateLoaded() override {
    ++loaded;
    return answer;
  }

  std::vector<float> kernel;
  int64_t step = 0;
  double mean[2] = {};
  uint8_t bytes[7] = {};
  int32_t ints[7] = {};
  int loaded = 0;
  Status answer;

 private:
  const int64_t rows_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SOME_STATE_H_
