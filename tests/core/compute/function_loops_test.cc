#include "core/compute/function_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/compute/functions.h"

namespace ringlet {
namespace {

enum class Width { kAny, kAvx2, kAvx512 };

// Null if this CPU, or its architecture, lacks the instructions.
const FunctionLoops* LoopsOf(Width width) {
  if (width == Width::kAny) return &kFunctionLoops;
#if defined(__x86_64__)
  if (width == Width::kAvx2 && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma")) {
    return &kFunctionLoopsAvx2;
  }
  if (width == Width::kAvx512 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return &kFunctionLoopsAvx512;
  }
#endif
  return nullptr;
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

class FunctionLoopsTest : public ::testing::TestWithParam<Width> {};

TEST_P(FunctionLoopsTest, Loops_EveryLength_HaveTheFunctionsBits) {
  const FunctionLoops* const loops = LoopsOf(GetParam());
  if (loops == nullptr) GTEST_SKIP() << "this CPU lacks the instructions";
  std::mt19937 random(3);
  for (int64_t n = 0; n < 200; ++n) {
    const std::vector<float> x = AnyFloats(n, &random);
    ExpectSameBits(x, loops->tanh, [](float v) { return math::Tanh(v); });
    ExpectSameBits(x, loops->sigmoid, [](float v) { return math::Sigmoid(v); });
    const float center = static_cast<float>(n) - 100;
    ExpectSameBits(
        x, [&](int64_t count, float* y) { loops->exp(center, count, y); },
        [&](float v) { return math::Exp(v - center); });
  }
}

std::string NameOf(const ::testing::TestParamInfo<Width>& width) {
  switch (width.param) {
    case Width::kAny:
      return "AnyCpu";
    case Width::kAvx2:
      return "Avx2";
    case Width::kAvx512:
      return "Avx512";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Widths, FunctionLoopsTest,
                         ::testing::Values(Width::kAny, Width::kAvx2,
                                           Width::kAvx512),
                         NameOf);

}  // namespace
}  // namespace ringlet
