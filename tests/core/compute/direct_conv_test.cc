#include "core/compute/direct_conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/op_runner.h"
#include "core/compute/exact_loops.h"
#include "core/compute/function_loops.h"
#include "core/compute/gemm.h"
#include "core/compute/paired_conv.h"
#include "core/compute/planes_conv.h"
#include "core/compute/pool_loops.h"
#include "core/compute/row_loops.h"

namespace ringlet {
namespace {

struct Build {
  const DirectConv* conv;
  bool fused;  // multiply-adds round once
};

#if defined(__x86_64__)
// Runs planes_conv.h and paired_conv.h as one of the builds. If positions are
// no neighbours, each row of windows is a copy with all even floats and then
// all odd ones.
void ForwardOfFew(const ConvForward& product) {
  const auto planes = BestPlanesForward(product.filters);
  if (planes == nullptr) return kDirectConvAvx2.forward(product);
  if (product.in.x_step == 1) return planes(product);
  for (int64_t r = 0; r < product.in.rows; ++r) {
    ConvForward c = product;
    c.in.rows = 1;
    c.y += r * c.y_row;
    const float* const x = c.in.x + r * c.in.x_row;
    const int64_t half = (c.in.positions * 2 + 29) / 2 + 1;
    Floats copy(static_cast<size_t>(2 * half));
    for (int64_t i = 0; i < (c.in.positions - 1) * 2 + 29; ++i) {
      copy[i % 2 * half + i / 2] = x[i];
    }
    std::vector<int64_t> offsets;
    for (int64_t k = 0; k < c.in.taps; ++k) {
      const int64_t at = c.in.offsets[k];
      offsets.push_back(at % 2 * half + at / 2);
    }
    c.in.x = copy.data();
    c.in.x_step = 1;
    c.in.offsets = offsets.data();
    planes(c);
  }
}

void GradientOfFew(const ConvGradient& product) {
  const PairedGradient pairs = BestPairedGradient(product.filters);
  return pairs != nullptr ? pairs(product) : kDirectConvAvx2.gradient(product);
}

const DirectConv kOfFew = {8, ForwardOfFew, GradientOfFew,
                           kDirectConvAvx2.depthwise,
                           kDirectConvAvx2.depthwise_gradient};
#endif

// The builds that this machine can run.
std::vector<Build> Builds() {
#if defined(__x86_64__)
  std::vector<Build> builds = {{&kDirectConv, false}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    builds.push_back({&kDirectConvAvx2, true});
  }
  if (__builtin_cpu_supports("avx512f")) {
    builds.push_back({&kDirectConvAvx512, true});
    builds.push_back({&kOfFew, true});
  }
  return builds;
#elif defined(__aarch64__) || defined(__FP_FAST_FMAF)
  return {{&kDirectConv, true}};
#else
  return {{&kDirectConv, false}};
#endif
}

float AddTimes(float sum, float x, float w, bool fused) {
  if (fused) return std::fma(x, w, sum);
  const float product = x * w;
  return sum + product;
}

// Sums term(n, sum) for n in [0, count) in blocks. The blocks begin as in a
// chain that begins `before` terms earlier.
template <typename Term>
float Chain(int64_t count, const Term& term, int64_t before = 0) {
  float total = 0;
  for (int64_t n = 0; n < count;) {
    float sum = 0;
    const bool first = n == 0;
    do {
      sum = term(n, sum);
    } while (++n < count && (before + n) % kConvBlock != 0);
    total = first ? sum : total + sum;
  }
  return total;
}

struct Case {
  int64_t rows, positions, step, taps, filters;

  int64_t row() const { return positions * step + 3; }
  float X(const Floats& image, const std::vector<int64_t>& offsets,
          int64_t position, int64_t k) const {
    return image[static_cast<size_t>(position / positions * row() +
                                     position % positions * step + offsets[k])];
  }
};

// Offsets of taps: some anywhere in an image, some of these twice, then runs of
// five neighbours. For some counts all are one run.
std::vector<int64_t> Offsets(int64_t taps) {
  std::vector<int64_t> offsets;
  for (int64_t k = 0; k < taps; ++k) {
    const int64_t in_runs = k - taps / 3;
    offsets.push_back(taps % 4 == 3 ? k % 29
                      : in_runs < 0 ? k * 7 % 29
                                    : in_runs % 5 + in_runs / 5 * 6 % 24);
  }
  return offsets;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int64_t positions = 1; positions <= 19; ++positions) {
    for (int64_t filters : {1, 6, 7, 8, 16, 17, 32, 41, 64}) {
      const int64_t at = positions + filters;
      cases.push_back(
          {1 + at % 3, positions, 1 + at % 2, 1 + (at * 5) % 27, filters});
    }
  }
  // Several blocks of taps, and of positions.
  cases.push_back({3, 10, 1, 128, 20});
  cases.push_back({2, 9, 2, 129, 7});
  cases.push_back({2, 46, 1, 300, 5});
  cases.push_back({30, 10, 1, 25, 6});
  cases.push_back({1, 8, 1, 300, 33});
  cases.push_back({30, 10, 1, 11, 33});
  cases.push_back({1, 257, 2, 9, 16});
  return cases;
}

std::string Text(const Build& build, const Case& c) {
  return std::to_string(build.conv->lanes) + " lanes, " +
         std::to_string(c.positions) + " positions, " + std::to_string(c.taps) +
         " taps, " + std::to_string(c.filters) + " filters";
}

constexpr float kUntouched = 77;

// Outputs are side by side, or have a gap behind each.
struct ForwardOptions {
  bool bias, relu, gaps;
  int64_t first_tap;
};

void ExpectForward(const Build& build, const Case& c,
                   const ForwardOptions& options) {
  const int64_t padded = PaddedFilters(c.filters);
  const auto offsets = Offsets(c.taps);
  const Floats image =
      RandomFloats(static_cast<size_t>(c.rows * c.row() + 29), 1);
  const Floats w = RandomFloats(static_cast<size_t>(c.taps * padded), 2);
  const Floats plus = RandomFloats(static_cast<size_t>(padded), 3);
  const int64_t step = c.filters + (options.gaps ? 1 : 0);
  const int64_t row = c.positions * step + 2;
  Floats y(static_cast<size_t>(c.rows * row), kUntouched);
  const Floats before = y;
  build.conv->forward({{image.data(), c.row(), c.step, c.rows, c.positions,
                        offsets.data(), c.taps, options.first_tap},
                       w.data(),
                       padded,
                       c.filters,
                       options.bias ? plus.data() : nullptr,
                       options.relu,
                       y.data(),
                       row,
                       step});
  for (int64_t p = 0; p < c.rows * c.positions; ++p) {
    for (int64_t f = 0; f < c.filters; ++f) {
      float z = Chain(
          c.taps,
          [&](int64_t k, float sum) {
            return AddTimes(sum, c.X(image, offsets, p, k), w[k * padded + f],
                            build.fused);
          },
          options.first_tap);
      if (options.bias) z += plus[f];
      if (options.relu && z <= 0) z = 0;
      float& found = y[p / c.positions * row + p % c.positions * step + f];
      ASSERT_EQ(found, z);
      found = kUntouched;
    }
  }
  ASSERT_EQ(y, before);
}

TEST(DirectConvTest, Forward_AnyShape_IsTheChainOverTaps) {
  for (const Build& build : Builds()) {
    for (const Case& c : Cases()) {
      for (int i = 0; i < 8; ++i) {
        SCOPED_TRACE(Text(build, c));
        const int64_t first_tap = i % 3 * 101;
        ExpectForward(build, c,
                      {(i & 1) != 0, (i & 2) != 0, (i & 4) != 0, first_tap});
        if (HasFatalFailure()) return;
      }
    }
  }
}

void ExpectGradient(const Build& build, const Case& c, bool adds) {
  const auto offsets = Offsets(c.taps);
  const Floats image =
      RandomFloats(static_cast<size_t>(c.rows * c.row() + 29), 1);
  const Floats dy =
      RandomFloats(static_cast<size_t>(c.rows * c.positions * c.filters), 2);
  const int64_t stride = c.filters + 1;
  Floats dw = RandomFloats(static_cast<size_t>(c.taps * stride), 3);
  const Floats before = dw;
  Floats sums(static_cast<size_t>(c.filters) + 1, 0.5f);
  build.conv->gradient({{image.data(), c.row(), c.step, c.rows, c.positions,
                         offsets.data(), c.taps, 0},
                        dy.data(),
                        c.filters,
                        c.filters,
                        dw.data(),
                        stride,
                        adds,
                        adds ? sums.data() : nullptr});
  // The sum of each filter adds the positions one after another, in any block.
  for (int64_t f = 0; f <= c.filters; ++f) {
    float sum = 0.5f;
    for (int64_t p = 0; p < c.rows * c.positions && adds; ++p) {
      if (f < c.filters) sum += dy[p * c.filters + f];
    }
    ASSERT_EQ(sums[f], sum);
  }
  for (int64_t k = 0; k < c.taps; ++k) {
    for (int64_t f = 0; f < c.filters; ++f) {
      float sum = adds ? before[k * stride + f] : 0;
      // Block after block is added to what is there.
      for (int64_t begin = 0; begin < c.rows * c.positions;
           begin += kConvBlock) {
        const int64_t count =
            std::min(kConvBlock, c.rows * c.positions - begin);
        const float block = Chain(count, [&](int64_t n, float s) {
          return AddTimes(s, c.X(image, offsets, begin + n, k),
                          dy[(begin + n) * c.filters + f], build.fused);
        });
        sum = begin == 0 && !adds ? block : sum + block;
      }
      ASSERT_EQ(dw[k * stride + f], sum);
    }
    ASSERT_EQ(dw[k * stride + c.filters], before[k * stride + c.filters]);
  }
}

TEST(DirectConvTest, Gradient_AnyShape_IsTheChainOverPositions) {
  for (const Build& build : Builds()) {
    for (const Case& c : Cases()) {
      SCOPED_TRACE(Text(build, c));
      ExpectGradient(build, c, /*adds=*/false);
      ExpectGradient(build, c, /*adds=*/true);
      if (HasFatalFailure()) return;
    }
  }
}

// Each filter has its own channel, so filter f gives the chain of that filter
// alone, f floats further on.
TEST(DirectConvTest, Depthwise_AnyShape_EqualsEachFilterAlone) {
  for (const Build& build : Builds()) {
    for (int64_t positions = 1; positions <= 19; ++positions) {
      for (const int64_t filters : {1, 6, 16, 17, 40}) {
        const int64_t padded = PaddedFilters(filters),
                      taps = 1 + positions % 13;
        const auto offsets = Offsets(taps);
        const int64_t step = padded, row = positions * step + 29;
        const Floats image =
            RandomFloats(static_cast<size_t>(2 * row + 29 + padded), 1);
        const Floats w = RandomFloats(static_cast<size_t>(taps * padded), 2);
        const Floats dy =
            RandomFloats(static_cast<size_t>(2 * positions * padded), 3);
        Floats y(static_cast<size_t>(2 * positions * filters), kUntouched);
        Floats dw(static_cast<size_t>(taps * filters), 1.0f);
        const ConvWindows in = {image.data(),   row,  step, 2, positions,
                                offsets.data(), taps, 0};
        build.conv->depthwise({in, w.data(), padded, filters, nullptr, false,
                               y.data(), positions * filters, filters});
        build.conv->depthwise_gradient({in, dy.data(), padded, filters,
                                        dw.data(), filters, true, nullptr});
        const auto x = [&](int64_t p, int64_t k, int64_t f) {
          return image[static_cast<size_t>(
              p / positions * row + p % positions * step + offsets[k] + f)];
        };
        for (int64_t f = 0; f < filters; ++f) {
          for (int64_t p = 0; p < 2 * positions; ++p) {
            ASSERT_EQ(y[p * filters + f], Chain(taps, [&](int64_t k, float s) {
                        return AddTimes(s, x(p, k, f), w[k * padded + f],
                                        build.fused);
                      }));
          }
          for (int64_t k = 0; k < taps; ++k) {
            ASSERT_EQ(dw[k * filters + f],
                      1 + Chain(2 * positions, [&](int64_t p, float s) {
                        return AddTimes(s, x(p, k, f), dy[p * padded + f],
                                        build.fused);
                      }));
          }
        }
      }
    }
  }
}

TEST(DirectConvTest, Relu_NanOrMinusZero_KeepsNanAndGivesZero) {
  for (const Build& build : Builds()) {
    const float image[2] = {1, std::numeric_limits<float>::quiet_NaN()};
    const int64_t offset = 0;
    const Floats w(16, -0.0f), bias(16, -0.0f);
    Floats y(32);
    ConvForward product = {};
    product.in.x = image;
    product.in.x_row = product.in.positions = 2;
    product.in.rows = product.in.x_step = product.in.taps = 1;
    product.in.offsets = &offset;
    product.w = w.data();
    product.w_stride = product.filters = product.y_step = 16;
    product.bias = bias.data();
    product.relu = true;
    product.y = y.data();
    product.y_row = 32;
    build.conv->forward(product);
    for (size_t f = 0; f < 16; ++f) {
      EXPECT_EQ(y[f], 0);
      EXPECT_FALSE(std::signbit(y[f]));
      EXPECT_TRUE(std::isnan(y[16 + f]));
    }
  }
}

#if defined(__x86_64__)
TEST(DirectConvTest, BestLoops_EachKernelSet_BelongToTheSet) {
  const std::string before = ChosenKernelSetName();
  const struct {
    const char* kernels;
    int64_t few, many;
  } sets[] = {
      {"sse2", 4, 4}, {"generic", 8, 8}, {"haswell", 8, 8}, {"skx", 8, 16}};
  for (const auto& set : sets) {
    if (!ChooseKernelSet(set.kernels).ok()) continue;
    if (Builds().size() == 1) continue;  // whatever its name, of 4
    EXPECT_EQ(BestDirectConv(8).lanes, set.few) << set.kernels;
    EXPECT_EQ(BestDirectConv(9).lanes, set.many) << set.kernels;
    const RowLoops* const rows = set.many == 16  ? &kRowLoopsAvx512
                                 : set.many == 8 ? &kRowLoopsAvx2
                                                 : &kRowLoops;
    EXPECT_EQ(&BestRowLoops(), rows) << set.kernels;
    const PoolLoops* const few_pools =
        set.few == 8 ? &kPoolLoopsAvx2 : &kPoolLoops;
    const PoolLoops* const pools =
        set.many == 16 ? &kPoolLoopsAvx512 : few_pools;
    EXPECT_EQ(&BestPoolLoops(8), few_pools) << set.kernels;
    EXPECT_EQ(&BestPoolLoops(9), pools) << set.kernels;
    EXPECT_EQ(&BestExactLoops(), set.few == 8 ? &kExactLoopsAvx2 : &kExactLoops)
        << set.kernels;
    const FunctionLoops* const functions = set.many == 16
                                               ? &kFunctionLoopsAvx512
                                           : set.many == 8 ? &kFunctionLoopsAvx2
                                                           : &kFunctionLoops;
    EXPECT_EQ(&BestFunctionLoops(), functions) << set.kernels;
  }
  ASSERT_OK(ChooseKernelSet(before.c_str()));
}
#endif

}  // namespace
}  // namespace ringlet
