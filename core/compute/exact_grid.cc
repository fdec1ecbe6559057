#include "exact_grid.h"

#include <algorithm>

#include "exact_loops.h"
#include "functions.h"

namespace ringlet {
namespace {

using math::internal::BitCast;
using math::internal::PowerOf2;

// The power of two is the scale minus this.
constexpr int kBias = 126;
constexpr int kHeadRoom = 8;  // bits above the last sum
constexpr int kFloor = 6;     // bits below the tensor's greatest

// n < 2^Bits(n)
int Bits(uint32_t n) { return n == 0 ? 0 : 32 - __builtin_clz(n); }

uint8_t ScaleOf(int exponent) {
  return static_cast<uint8_t>(std::min<int>(
      std::max<int>(exponent + kBias, kFinestScale), kCoarsestScale));
}

}  // namespace

float GridLimit(int replicas) {
  const auto max_integer = INT32_MAX / std::max(replicas, 1);
  auto limit = static_cast<float>(max_integer);
  if (static_cast<int64_t>(limit) > max_integer) {
    limit = BitCast<float>(BitCast<uint32_t>(limit) - 1);
  }
  return limit;
}

void GridLayout::Add(int64_t numbers) {
  if (numbers == 0) return;
  tensors_.push_back({numbers_, blocks_});
  numbers_ += numbers;
  blocks_ += (numbers + kGridBlock - 1) / kGridBlock;
}

int64_t GridLayout::FindTensor(int64_t number) const {
  const auto after = std::upper_bound(
      tensors_.begin(), tensors_.end(), number,
      [](int64_t n, const Tensor& tensor) { return n < tensor.begin; });
  return std::max<int64_t>(0, after - tensors_.begin() - 1);
}

bool ToGrid(GridMode mode, const float* x, int64_t count, uint8_t scale,
            float limit, void* integers, uint8_t* exponent) {
  const ExactLoops& loops = BestExactLoops();
  const float inverse = PowerOf2(kBias - scale);
  const int32_t greatest =
      mode == GridMode::kInPlace
          ? loops.quantize_in_place(integers, count, inverse, limit)
          : (mode == GridMode::kSet ? loops.quantize : loops.quantize_and_add)(
                x, count, inverse, limit, static_cast<int32_t*>(integers));
  const auto greatest_exponent = static_cast<uint8_t>(greatest >> 23);
  *exponent = std::max(*exponent, greatest_exponent);
  return greatest_exponent == kNotFinite ||
         BitCast<float>(greatest) * inverse <= limit;
}

uint32_t FromGrid(const void* integers, int64_t count, uint8_t scale,
                  float* x) {
  const float unit = PowerOf2(scale - kBias);
  if (integers == x) return BestExactLoops().to_floats_in_place(x, count, unit);
  return BestExactLoops().to_floats(static_cast<const int32_t*>(integers),
                                    count, unit, x);
}

uint8_t LargestExponent(const float* x, int64_t count) {
  return static_cast<uint8_t>(BestExactLoops().max_magnitude_bits(x, count) >>
                              23);
}

uint8_t ScaleThatHolds(uint8_t exponent, float limit) {
  const int limit_exponent =
      static_cast<int>(BitCast<uint32_t>(limit) >> 23) - 127;
  const int above = std::max<int>(exponent, 1) - 126;  // |x| < 2^above
  return ScaleOf(above - limit_exponent);
}

void NextScales(int64_t count, const uint32_t* greatest, uint8_t* scales) {
  constexpr int kNone = INT32_MIN / 2;
  int tensor = kNone;
  for (int64_t i = 0; i < count; ++i) {
    if (greatest[i] != 0) {
      tensor = std::max(tensor, scales[i] + Bits(greatest[i]));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    int above = tensor - kFloor;
    if (greatest[i] != 0)
      above = std::max(above, scales[i] + Bits(greatest[i]));
    scales[i] = ScaleOf(above - kBias + kHeadRoom - 31);
  }
}

}  // namespace ringlet
