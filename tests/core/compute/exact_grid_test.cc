#include "core/compute/exact_grid.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/compute/exact_loops.h"

namespace ringlet {
namespace {

constexpr uint8_t kOne = 126;  // the scale of units of 1
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Magnitudes of all floats, with both signs.
float AnyFloat(std::mt19937* random) {
  const double exponent =
      std::uniform_real_distribution<double>(-149, 127)(*random);
  const double sign = (*random)() % 2 == 0 ? 1 : -1;
  return static_cast<float>(sign * std::exp2(exponent));
}

TEST(ExactGridTest, ToGrid_AnyNumber_RoundsToNearestTiesToEven) {
  std::mt19937 random(1);
  std::vector<float> numbers = {
      0.0f,         -0.0f,        0.5f,        1.5f,       2.5f,
      -0.5f,        -2.5f,        0.49999997f, 8388607.5f, 8388608.0f,
      -8388607.5f,  4194303.5f,   4194304.5f,  1e9f,       FLT_MIN,
      FLT_TRUE_MIN, 2147483520.0f};
  while (numbers.size() < 100000) {
    numbers.push_back(std::ldexp(static_cast<float>(random()) / 65536,
                                 static_cast<int>(random() % 40) - 20));
    numbers.push_back(-static_cast<float>(random() % 1000000) / 2);
  }
  const float limit = GridLimit(1);
  for (const uint8_t scale : {0, 66, 103, 125, 126, 127, 166, 252}) {
    std::vector<int32_t> whole(numbers.size());
    uint8_t exponent = 0;
    (void)ToGrid(GridMode::kSet, numbers.data(),
                 static_cast<int64_t>(numbers.size()), scale, limit,
                 whole.data(), &exponent);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double exact = std::ldexp(double{numbers[i]}, 126 - scale);
      const double within =
          std::fmin(std::fmax(exact, -double{limit}), double{limit});
      ASSERT_EQ(whole[i], std::nearbyint(within))
          << numbers[i] << " of scale " << scale;
    }
  }
}

TEST(ExactGridTest, ToGrid_NumberBeyondTheLimit_ReportsTheClamp) {
  int32_t whole[2] = {};
  for (const int replicas : {1, 2, 3, 4, 1000}) {
    const float limit = GridLimit(replicas);
    ASSERT_LE(static_cast<int64_t>(limit) * replicas, INT32_MAX);
    ASSERT_GT((static_cast<int64_t>(limit) + 128) * (replicas + 1), INT32_MAX);
    const float beyond = std::nextafter(limit, kInfinity);
    for (const float x : {limit, -limit, beyond, -beyond, FLT_MAX}) {
      const float two[2] = {0.5f, x};
      uint8_t exponent = 0;
      EXPECT_EQ(ToGrid(GridMode::kSet, two, 2, kOne, limit, whole, &exponent),
                std::fabs(x) <= limit);
      EXPECT_LE(std::abs(int64_t{whole[1]}), INT32_MAX / replicas);
    }
  }
}

TEST(ExactGridTest, ToGrid_NumberNotFinite_ReportsIt) {
  for (const float x : {kInfinity, -kInfinity, std::nanf("")}) {
    for (const uint8_t scale : {kFinestScale, kOne, kCoarsestScale}) {
      std::vector<float> block(300, 1.0f);
      block[17] = x;
      std::vector<int32_t> whole(block.size());
      uint8_t exponent = 0;
      (void)ToGrid(GridMode::kSet, block.data(), 300, scale, GridLimit(2),
                   whole.data(), &exponent);
      EXPECT_EQ(exponent, kNotFinite);
    }
  }
  constexpr float kGreatest = FLT_MAX;
  EXPECT_LT(LargestExponent(&kGreatest, 1), kNotFinite);
}

TEST(ExactGridTest, ScaleThatHolds_AnyNumber_ClampsNothing) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const float x = i == 0 ? FLT_MAX : i == 1 ? 0.0f : AnyFloat(&random);
    const float limit = GridLimit(1 + static_cast<int>(random() % 1024));
    const uint8_t scale = ScaleThatHolds(LargestExponent(&x, 1), limit);
    int32_t whole = 0;
    uint8_t exponent = 0;
    ASSERT_TRUE(ToGrid(GridMode::kSet, &x, 1, scale, limit, &whole, &exponent))
        << x;
    // The scale is at most two bits coarser than necessary.
    if (scale > kFinestScale) {
      ASSERT_GT(std::abs(double{limit}) / 4, 0);
      ASSERT_GE(std::abs(whole), static_cast<int32_t>(limit / 4)) << x;
    }
  }
}

TEST(ExactGridTest, ForEach_AnyCut_VisitsTheBlocksOfEachTensor) {
  std::mt19937 random(3);
  GridLayout layout;
  std::vector<int64_t> block_of;
  int64_t blocks = 0;
  for (const int64_t size : {1, 0, 256, 257, 16, 1000, 512, 3, 0}) {
    layout.Add(size);
    for (int64_t i = 0; i < size; ++i) block_of.push_back(blocks + i / 256);
    blocks += (size + 255) / 256;
  }
  ASSERT_EQ(layout.blocks(), blocks);
  const auto numbers = static_cast<int64_t>(block_of.size());
  ASSERT_EQ(layout.numbers(), numbers);
  for (int i = 0; i < 2000; ++i) {
    const int64_t begin = static_cast<int64_t>(random()) % (numbers + 1);
    const int64_t end =
        begin + static_cast<int64_t>(random()) % (numbers + 1 - begin);
    int64_t at = begin;
    layout.ForEach(begin, end, [&](int64_t b, int64_t from, int64_t to) {
      ASSERT_EQ(from, at);
      ASSERT_LT(from, to);
      ASSERT_EQ(block_of[from], b);
      ASSERT_EQ(block_of[to - 1], b);
      at = to;
    });
    ASSERT_EQ(at, end);
  }
}

// The scales leave room for means 2^8 times as large in the next sums of R
// replicas, and are otherwise as fine as 32 bits permit.
TEST(ExactGridTest, NextScales_AnySums_LeaveHeadroom) {
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    const int replicas = 1 + static_cast<int>(random() % 64);
    const uint32_t greatest[3] = {1 + static_cast<uint32_t>(random() >> 1), 0,
                                  1};
    const auto before = static_cast<uint8_t>(96 + random() % 60);
    uint8_t scales[3] = {before, before, before};
    NextScales(3, greatest, scales);
    const double sum =
        std::ldexp(static_cast<double>(greatest[0]), before - 126);
    const auto most = static_cast<float>(255 * (sum / replicas));
    int32_t whole = 0;
    uint8_t exponent = 0;
    ASSERT_TRUE(ToGrid(GridMode::kSet, &most, 1, scales[0], GridLimit(replicas),
                       &whole, &exponent));
    ASSERT_LE(std::ldexp(1.0, scales[0] - 126), sum * 0x1p-22);
    // No finer than 2^-6 of the tensor's.
    ASSERT_EQ(scales[1], scales[0] - 6);
    ASSERT_GE(scales[2], scales[0] - 6);
  }
}

// Converts floats into another array, in place, and as a sum: the integers are
// the same, and so are the floats computed from them.
TEST(ExactGridTest, ToGrid_SetAddedOrInPlace_GivesTheSameIntegers) {
  std::mt19937 random(6);
  for (int64_t n = 0; n < 300; ++n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = std::ldexp(static_cast<float>(random()), -28);
    if (n > 7) x[7] = -1000;
    const uint8_t scale = static_cast<uint8_t>(90 + n % 30);
    const float limit = GridLimit(3);
    std::vector<int32_t> apart(x.size()), sums(x.size(), 5);
    std::vector<float> over = x;
    uint8_t exponents[3] = {};
    const bool good = ToGrid(GridMode::kSet, x.data(), n, scale, limit,
                             apart.data(), &exponents[0]);
    EXPECT_EQ(ToGrid(GridMode::kAdd, x.data(), n, scale, limit, sums.data(),
                     &exponents[1]),
              good);
    EXPECT_EQ(ToGrid(GridMode::kInPlace, over.data(), n, scale, limit,
                     over.data(), &exponents[2]),
              good);
    for (const uint8_t exponent : exponents) {
      EXPECT_EQ(exponent, LargestExponent(x.data(), n));
    }
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sums[i], apart[i] + 5);
    if (n > 0) {
      ASSERT_EQ(std::memcmp(over.data(), apart.data(), x.size() * 4), 0);
    }
    std::vector<float> back(x.size());
    EXPECT_EQ(FromGrid(over.data(), n, scale, over.data()),
              FromGrid(apart.data(), n, scale, back.data()));
    EXPECT_EQ(over, back);
  }
}

#if defined(__x86_64__)
TEST(ExactGridTest, ExactLoops_EveryVectorWidth_HaveTheSameBits) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs AVX2";
  std::mt19937 random(7);
  const ExactLoops &a = kExactLoops, &b = kExactLoopsAvx2;
  for (int64_t n = 0; n < 2000; ++n) {
    std::vector<float> x(static_cast<size_t>(n % 257));
    for (float& v : x) {
      const auto bits = static_cast<uint32_t>(random());
      std::memcpy(&v, &bits, sizeof(v));
    }
    const auto size = static_cast<int64_t>(x.size());
    const float inverse = std::ldexp(1.0f, static_cast<int>(n % 250) - 120);
    std::vector<int32_t> one(x.size(), 3), other(x.size(), 3);
    EXPECT_EQ(a.quantize_and_add(x.data(), size, inverse, 1e6f, one.data()),
              b.quantize_and_add(x.data(), size, inverse, 1e6f, other.data()));
    EXPECT_EQ(one, other);
    EXPECT_EQ(a.quantize(x.data(), size, inverse, 2e9f, one.data()),
              b.quantize(x.data(), size, inverse, 2e9f, other.data()));
    EXPECT_EQ(one, other);
    EXPECT_EQ(a.max_magnitude_bits(x.data(), size),
              b.max_magnitude_bits(x.data(), size));
    std::vector<float> back(x.size()), back_too(x.size());
    EXPECT_EQ(a.to_floats(one.data(), size, inverse, back.data()),
              b.to_floats(other.data(), size, inverse, back_too.data()));
    EXPECT_EQ(back, back_too);
  }
}
#endif

// Numbers with any bits give the same digest on every machine.
TEST(ExactGridTest, Grid_NumbersOfAnyBits_HasTheKnownDigest) {
  uint32_t state = 12345;
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    const uint32_t x = (state ^ (state >> 16)) * 0x7feb352du;
    return x ^ (x >> 15);
  };
  uint64_t digest = 0;
  const auto add = [&digest](uint32_t value) {
    digest = (digest ^ value) * 1099511628211u;
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<float> x(1 + next() % 256);
    for (float& v : x) {
      const uint32_t bits = next();
      std::memcpy(&v, &bits, sizeof(v));
    }
    const auto n = static_cast<int64_t>(x.size());
    const auto scale = static_cast<uint8_t>(next() % 253);
    const float limit = GridLimit(static_cast<int>(1 + next() % 16));
    std::vector<int32_t> whole(x.size());
    uint8_t exponent = 0;
    add(ToGrid(GridMode::kSet, x.data(), n, scale, limit, whole.data(),
               &exponent));
    add(exponent);
    for (const int32_t q : whole) add(static_cast<uint32_t>(q));
    const uint32_t greatest = FromGrid(whole.data(), n, scale, x.data());
    for (const float v : x) {
      uint32_t bits;
      std::memcpy(&bits, &v, sizeof(bits));
      add(bits);
    }
    const uint32_t sums[2] = {greatest, next() >> 1};
    uint8_t scales[2] = {scale, static_cast<uint8_t>(next() % 253)};
    NextScales(2, sums, scales);
    add(scales[0]);
    add(scales[1]);
  }
  EXPECT_EQ(digest, 7360714723478490941u);
}

TEST(ExactGridTest, NextScales_SumsOfZero_AreTheFinest) {
  const uint32_t greatest[2] = {0, 0};
  uint8_t scales[2] = {131, 86};
  NextScales(2, greatest, scales);
  EXPECT_EQ(scales[0], kFinestScale);
  EXPECT_EQ(scales[1], kFinestScale);
}

TEST(ExactGridTest, FromGrid_AnySum_IsRoundedOnce) {
  std::mt19937 random(5);
  for (const uint8_t scale : {0, 86, 126, 216}) {
    std::vector<int32_t> whole(257);
    for (int32_t& q : whole) q = static_cast<int32_t>(random());
    whole[100] = -INT32_MAX;
    std::vector<float> x(whole.size());
    EXPECT_EQ(FromGrid(whole.data(), 257, scale, x.data()),
              static_cast<uint32_t>(INT32_MAX));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i], static_cast<float>(std::ldexp(
                          static_cast<double>(whole[i]), scale - 126)));
    }
  }
}

}  // namespace
}  // namespace ringlet
