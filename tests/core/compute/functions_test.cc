// Errors of the functions against libm's of float64, and their bits against
// other builds and other machines.

#include "core/compute/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/base/byte_order.h"
#include "core/base/crc32c.h"
#include "core/compute/sums.h"
#include "function_variant.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

#define BUILD(name) &name,
constexpr const FunctionVariant* kBuilds[] = {FUNCTION_BUILDS(BUILD)};

constexpr double kMax = std::numeric_limits<double>::infinity();

struct FloatFunction {
  const char* name;
  double (*exact)(double x);
  double error;     // the largest for any float, in units of the last place
  uint32_t digest;  // a digest of the results for Samples(), on all machines
};

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

// By their numbers in function_variant.cc.
constexpr FloatFunction kFloats[] = {
    {"Exp", [](double x) { return std::exp(x); }, 1, 0xce995d64},
    {"Expm1", [](double x) { return std::expm1(x); }, 1.5, 0x8baf2785},
    {"Log", [](double x) { return std::log(x); }, 1, 0xffff9ac3},
    {"Log1p", [](double x) { return std::log1p(x); }, 1.5, 0x4e40a0c5},
    {"Tanh", [](double x) { return std::tanh(x); }, 1.5, 0xad850dd1},
    {"Sigmoid", SigmoidOf, 2, 0xb19ced44},
    {"Softplus",
     [](double x) {
       return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
     },
     2, 0x0793defc},
    {"NormalAt.bell", [](double x) { return std::exp(-0.5 * x * x); }, 1,
     0x694cd390},
    {"NormalAt.below",
     [](double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }, 1,
     0x1ca7e4e7},
};

// The first functions compute in float, the others in double, and round.
constexpr int kNumFloatOnly = 7;

struct DoubleFunction {
  const char* name;
  double (*libm)(double x);  // libm's, itself off by less than one digit
  uint32_t digest;
};

constexpr DoubleFunction kDoubles[] = {
    {"Exp", [](double x) { return std::exp(x); }, 0xc9ddd848},
    {"Expm1", [](double x) { return std::expm1(x); }, 0xebeb8f99},
    {"Log", [](double x) { return std::log(x); }, 0xab3abf52},
    {"Log1p", [](double x) { return std::log1p(x); }, 0x859c6016},
    {"Pow(x, 1.7)", [](double x) { return std::pow(x, 1.7); }, 0x49c88029},
    {"Pow(0.999, x)", [](double x) { return std::pow(0.999, x); }, 0x0edb2fb4},
    {"CosPi", nullptr, 0x1eafd483},
};

float FloatOf(uint32_t bits) { return math::internal::BitCast<float>(bits); }

// The distance in units of the last place of `exact`, where that is a float.
double Error(float actual, double exact) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : kMax;
  const auto nearest = static_cast<float>(exact);
  if (actual == nearest)
    return std::signbit(actual) == std::signbit(nearest) ? 0 : kMax;
  if (std::isinf(actual) || std::isinf(exact)) {
    // 2^128 is the float behind the largest.
    actual = std::isinf(actual) ? std::copysign(FLT_MAX, actual) : actual;
    exact = std::clamp(exact, -0x1p+128, 0x1p+128);
  }
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(actual - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Numbers with any bits, and numbers of magnitudes that networks have.
std::vector<float> Samples() {
  std::vector<float> x;
  const Philox random(1, 2);
  for (uint64_t i = 0; i < 50000; ++i) {
    const Philox::Block words = random.At(i);
    x.push_back(FloatOf(words[0]));
    x.push_back(40 * Philox::Unit(words[1]) - 20);
    x.push_back(2 * Philox::Unit(words[2]) - 1);
    x.push_back(220 * Philox::Unit(words[3]) - 110);
  }
  for (const float special : {0.0f, 1.0f, FLT_MIN, FLT_MAX, FLT_TRUE_MIN,
                              std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
    x.push_back(special);
    x.push_back(-special);
  }
  return x;
}

std::vector<double> DoubleSamples() {
  std::vector<double> x;
  for (const float sample : Samples()) {
    x.push_back(double{sample} * (1 + 0x1p-30));
  }
  for (const double special : {DBL_MIN, DBL_MAX, DBL_TRUE_MIN, 0x1.8p+1023}) {
    x.push_back(special);
    x.push_back(-special);
  }
  return x;
}

// The digest is equal on machines of both byte orders. All NaNs count as one
// number, since their bits differ between machines.
template <typename T>
uint32_t ComputeDigest(std::vector<T> y) {
  for (T& value : y) {
    if (value != value) value = 12345;
  }
  SwapToLittle(y.data(), sizeof(T), y.size());
  return Crc32c(y.data(), y.size() * sizeof(T));
}

std::vector<float> Values(const FunctionVariant& build, int number,
                          const std::vector<float>& x) {
  std::vector<float> y(x.size());
  build.floats(number, x.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}

std::vector<double> Values(const FunctionVariant& build, int number,
                           const std::vector<double>& x) {
  std::vector<double> y(x.size());
  build.doubles(number, x.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}

bool CanRun(const FunctionVariant& build) {
#if defined(__x86_64__)
  const std::string name = build.name;
  if (name == "wide") return __builtin_cpu_supports("avx512f") != 0;
  if (name == "middle" || name == "contracted") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  static_cast<void>(build);
  return true;
}

bool IsWrong(const FunctionVariant& build) {
  return build.name == std::string("contracted");
}

// Every `step`th float, from `begin` to `end` of their bits.
double WorstOf(int number, uint64_t begin, uint64_t end, uint64_t step,
               float* worst_at) {
  double worst = 0;
  std::vector<float> x;
  for (uint64_t bits = begin; bits < end;) {
    x.clear();
    for (; bits < end && x.size() < 4096; bits += step) {
      x.push_back(FloatOf(static_cast<uint32_t>(bits)));
    }
    const std::vector<float> y = Values(fastest, number, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = Error(y[i], kFloats[number].exact(double{x[i]}));
      if (error <= worst) continue;
      worst = error;
      *worst_at = x[i];
    }
  }
  return worst;
}

// With RINGLET_ALL_FLOATS all of them, which takes minutes.
TEST(FunctionsTest, FloatFunctions_AnyArgument_ErrAtMostAsStated) {
  const bool all = std::getenv("RINGLET_ALL_FLOATS") != nullptr;
  for (int f = 0; f < static_cast<int>(std::size(kFloats)); ++f) {
    float at = 0;
    const double worst = WorstOf(f, 0, uint64_t{1} << 32, all ? 1 : 4999, &at);
    EXPECT_LE(worst, kFloats[f].error) << kFloats[f].name << " of " << at;
    if (all) std::printf("%s: %.3f, of %a\n", kFloats[f].name, worst, at);
  }
}

TEST(FunctionsTest, FloatFunctions_SpecialValues_FollowLibm) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, -2.0f, inf, -inf,
                        FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, -FLT_MIN, FLT_MAX,
                        -FLT_MAX, std::numeric_limits<float>::quiet_NaN()}) {
    for (int f = 0; f < static_cast<int>(std::size(kFloats)); ++f) {
      float at;
      const auto bits = uint64_t{math::internal::BitCast<uint32_t>(x)};
      EXPECT_LE(WorstOf(f, bits, bits + 1, 1, &at), kFloats[f].error)
          << kFloats[f].name << " of " << x;
    }
  }
}

TEST(FunctionsTest, DoubleFunctions_ManySamples_ErrByThreeUlpsAtMost) {
  const std::vector<double> x = DoubleSamples();
  for (int f = 0; f < static_cast<int>(std::size(kDoubles)); ++f) {
    if (kDoubles[f].libm == nullptr) continue;
    const std::vector<double> y = Values(fastest, f, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double libm = kDoubles[f].libm(x[i]);
      if (std::isnan(libm) || libm == 0 || std::isinf(libm)) {
        EXPECT_TRUE(y[i] == libm || (y[i] != y[i] && libm != libm))
            << kDoubles[f].name << " of " << x[i] << " is " << y[i];
        continue;
      }
      int exponent;
      std::frexp(libm, &exponent);
      const double digit = std::ldexp(1.0, std::max(exponent - 53, -1074));
      EXPECT_LE(std::fabs(y[i] - libm), 3 * digit)
          << kDoubles[f].name << " of " << x[i];
    }
  }
}

TEST(FunctionsTest, Pow_AllSignsAndSpecialValues_FollowsLibm) {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::nan("");
  for (const double x :
       {0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, inf, -inf, nan, 1e308, 5e-324}) {
    for (const double y :
         {0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e300, inf, -inf, nan, 5e-324}) {
      const double ours = math::Pow(x, y), libms = std::pow(x, y);
      EXPECT_TRUE(ours == libms || (ours != ours && libms != libms) ||
                  std::fabs(ours / libms - 1) < 1e-15)
          << x << "^" << y << " is " << ours << ", not " << libms;
    }
  }
}

TEST(FunctionsTest, CosPi_Quarters_IsExact) {
  EXPECT_EQ(math::CosPi(0), 1);
  EXPECT_EQ(math::CosPi(-0.5), 0);
  EXPECT_EQ(math::CosPi(1), -1);
  EXPECT_EQ(math::CosPi(1.5), 0);
  EXPECT_EQ(math::CosPi(1e300), 1);
  EXPECT_TRUE(std::isnan(math::CosPi(std::numeric_limits<double>::infinity())));
  const Philox random(3, 4);
  for (uint64_t i = 0; i < 10000; ++i) {
    const double x = random.At(i)[0] / 1073741824.0;  // x is in [0, 4)
    EXPECT_NEAR(math::CosPi(x), std::cos(3.141592653589793 * x), 2e-15) << x;
    EXPECT_EQ(math::CosPi(-x), math::CosPi(x));
  }
}

// The bits must not depend on how the compiler vectorizes the loops.
TEST(FunctionsTest, Atan2_AllQuadrants_ErrsByFourUlpsAtMost) {
  for (int i = -2000; i <= 2000; ++i) {
    const double angle = 3.14159 * i / 2000;
    for (const double radius : {1e-30, 0.37, 5e20}) {
      const double y = radius * std::sin(angle), x = radius * std::cos(angle);
      const double exact = std::atan2(y, x);
      EXPECT_NEAR(math::Atan2(y, x), exact, 4 * 0x1p-52 * std::fabs(exact))
          << y << " " << x;
    }
  }
  EXPECT_EQ(math::Atan2(0, -1), std::atan2(0.0, -1.0));
  EXPECT_EQ(math::Atan2(2, 0), std::atan2(2.0, 0.0));
  EXPECT_EQ(math::Atan2(-2, 0), std::atan2(-2.0, 0.0));
  EXPECT_EQ(math::Atan2(0, 0), 0);
}

TEST(FunctionsTest, Functions_EveryBuild_HaveTheSameBits) {
  const std::vector<float> x = Samples();
  const std::vector<double> doubles = DoubleSamples();
  for (const FunctionVariant* build : kBuilds) {
    if (IsWrong(*build) || !CanRun(*build)) continue;
    for (int f = 0; f < static_cast<int>(std::size(kFloats)); ++f) {
      EXPECT_EQ(ComputeDigest(Values(*build, f, x)), kFloats[f].digest)
          << kFloats[f].name << ", build " << build->name;
    }
    for (int f = 0; f < static_cast<int>(std::size(kDoubles)); ++f) {
      EXPECT_EQ(ComputeDigest(Values(*build, f, doubles)), kDoubles[f].digest)
          << kDoubles[f].name << ", build " << build->name;
    }
  }
}

// The digest finds a build with contraction.
TEST(FunctionsTest, Digest_BuildWithContraction_Differs) {
  const std::vector<float> x = Samples();
  for (const FunctionVariant* build : kBuilds) {
    if (!IsWrong(*build) || !CanRun(*build)) continue;
    for (int f = 0; f < kNumFloatOnly; ++f) {
      EXPECT_NE(ComputeDigest(Values(*build, f, x)), kFloats[f].digest)
          << kFloats[f].name;
    }
  }
}

TEST(FunctionsTest, Digest_ValuesOfLibm_Differs) {
  const std::vector<float> x = Samples();
  std::vector<float> exps, tanhs;
  for (const float value : x) {
    exps.push_back(std::exp(value));
    tanhs.push_back(std::tanh(value));
  }
  EXPECT_NE(ComputeDigest(exps), kFloats[0].digest);
  EXPECT_NE(ComputeDigest(tanhs), kFloats[4].digest);
}

TEST(LaneSumTest, LaneSum_AnyLength_AddsLanesThenTreeThenRest) {
  std::vector<float> x;
  const Philox random(5, 6);
  for (size_t n = 0; n <= 100; ++n) {
    float lanes[16] = {};
    double tree[16], rest = 0;
    for (size_t i = 0; i < n / 16 * 16; ++i) lanes[i % 16] += x[i];
    for (size_t i = n / 16 * 16; i < n; ++i) rest += double{x[i]};
    std::copy_n(lanes, 16, tree);
    for (int half : {8, 4, 2, 1}) {
      for (int k = 0; k < half; ++k) tree[k] += tree[k + half];
    }
    const float* const p = x.data();
    EXPECT_EQ(LaneSum<float>(static_cast<int64_t>(n),
                             [p](int64_t i) { return p[i]; }),
              tree[0] + rest);
    x.push_back(Philox::Unit(random.At(n)[0]) - 0.5f);
  }
}

}  // namespace
}  // namespace ringlet
