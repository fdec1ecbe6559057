#include "core/compute/function_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/compute/functions.h"

namespace ringlet {
namespace {

std::vector<const FunctionLoops*> Widths() {
  std::vector<const FunctionLoops*> widths = {&kFunctionLoops};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) widths.push_back(&kFunctionLoopsAvx2);
  if (__builtin_cpu_supports("avx512f")) {
    widths.push_back(&kFunctionLoopsAvx512);
  }
#endif
  return widths;
}

// Numbers of every magnitude, and those that are not numbers.
std::vector<float> AnyFloats(int64_t n, std::mt19937* random) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    const auto bits = static_cast<uint32_t>((*random)());
    std::memcpy(&v, &bits, sizeof(v));
    if (bits % 2 == 0) v = std::remainder(v, 200.0f);
  }
  return x;
}

template <typename Loop, typename Function>
void ExpectSameBits(const std::vector<float>& x, const Loop& loop,
                    const Function& function) {
  std::vector<float> y = x;
  loop(static_cast<int64_t>(y.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = function(x[i]);
    EXPECT_TRUE(std::memcmp(&y[i], &expected, sizeof(expected)) == 0 ||
                (std::isnan(y[i]) && std::isnan(expected)))
        << x[i] << ": " << y[i] << ", not " << expected;
  }
}

TEST(FunctionLoopsTest, Loops_EveryVectorWidthAndLength_HaveTheFunctionsBits) {
  std::mt19937 random(3);
  for (const FunctionLoops* loops : Widths()) {
    for (int64_t n = 0; n < 200; ++n) {
      const std::vector<float> x = AnyFloats(n, &random);
      ExpectSameBits(x, loops->tanh, [](float v) { return math::Tanh(v); });
      ExpectSameBits(x, loops->sigmoid,
                     [](float v) { return math::Sigmoid(v); });
      const float center = static_cast<float>(n) - 100;
      ExpectSameBits(
          x, [&](int64_t count, float* y) { loops->exp(center, count, y); },
          [&](float v) { return math::Exp(v - center); });
    }
  }
}

}  // namespace
}  // namespace ringlet
