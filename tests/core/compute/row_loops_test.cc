#include "core/compute/row_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/float16.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

// The builds that this machine can run.
std::vector<const RowLoops*> Builds() {
  std::vector<const RowLoops*> builds = {&kRowLoops};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) builds.push_back(&kRowLoopsAvx2);
  if (__builtin_cpu_supports("avx512f")) builds.push_back(&kRowLoopsAvx512);
#endif
  return builds;
}

Floats Noise(int64_t n, uint64_t stream) {
  const Philox random(7, stream);
  Floats values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Philox::Unit(random.At(i)[0]) - 0.5f;
  }
  return values;
}

// body(loops, rows) for builds and for shapes with and without rests.
template <typename Body>
void ForEachShape(const Body& body) {
  for (const RowLoops* loops : Builds()) {
    for (const int64_t n : {1, 3, 6, 8, 16, 22, 37, 64, 100}) {
      for (const int64_t rows : {1, 3, 4, 7, 128}) {
        for (const int64_t more : {0, 5}) {
          body(*loops, RowsOfFloats{rows, n, n + more});
        }
      }
    }
  }
}

// The sum of term(at, column) down a column, four rows in pairs.
template <typename Term>
float SumOf(const RowsOfFloats& r, int64_t c, const Term& term) {
  float sum = 0;
  int64_t row = 0;
  const auto at = [&](int64_t i) { return term((row + i) * r.stride + c, c); };
  for (; row + 4 <= r.rows; row += 4) {
    sum += (at(0) + at(1)) + (at(2) + at(3));
  }
  for (; row < r.rows; ++row) sum += at(0);
  return sum;
}

TEST(RowLoops, Sums_DownColumns_AreInOneOrder) {
  ForEachShape([](const RowLoops& loops, const RowsOfFloats& r) {
    const Floats x = Noise(r.rows * r.stride, 1),
                 dy = Noise(r.rows * r.stride, 2);
    const Floats minus = Noise(r.n, 3);
    const auto d = [&](int64_t i, int64_t c) { return x[i] - minus[c]; };
    // One element behind the end, which must not change.
    Floats sum(r.n + 1, 9.f), squares = sum, dy_sums = sum, products = sum;
    Floats columns = sum;
    loops.sum(r, x.data(), minus.data(), sum.data());
    loops.sum_of_squares(r, x.data(), minus.data(), squares.data());
    loops.sum_of_products(r, x.data(), minus.data(), dy.data(), dy_sums.data(),
                          products.data());
    loops.column_sums(r, x.data(), columns.data());
    for (int64_t c = 0; c < r.n; ++c) {
      float column = 9;
      for (int64_t i = 0; i < r.rows; ++i) column += x[i * r.stride + c];
      EXPECT_EQ(columns[c], column);
      EXPECT_EQ(sum[c], SumOf(r, c, d));
      EXPECT_EQ(squares[c], SumOf(r, c, [&](int64_t i, int64_t k) {
                  return d(i, k) * d(i, k);
                }));
      EXPECT_EQ(dy_sums[c],
                SumOf(r, c, [&](int64_t i, int64_t) { return dy[i]; }));
      EXPECT_EQ(products[c], SumOf(r, c, [&](int64_t i, int64_t k) {
                  return dy[i] * d(i, k);
                }));
    }
    for (const Floats& sums : {sum, squares, dy_sums, products, columns}) {
      EXPECT_EQ(sums.back(), 9.f);
    }
  });
}

TEST(RowLoops, Affine_InPlaceOrNot_IsTheFormulaByColumn) {
  ForEachShape([](const RowLoops& loops, const RowsOfFloats& r) {
    const Floats x = Noise(r.rows * r.stride, 1),
                 dy = Noise(r.rows * r.stride, 2);
    const Floats m = Noise(r.n, 3), s = Noise(r.n, 4), t = Noise(r.n, 5),
                 p = Noise(r.n, 6);
    Floats y = x, dx = x, over_x = x, over_dy = dy, two = x, two_over_dy = dy;
    for (int64_t row = 0; row < r.rows; ++row) {
      for (int64_t c = 0; c < r.n; ++c) {
        const int64_t i = row * r.stride + c;
        y[i] = (x[i] - m[c]) * s[c] + p[c];
        const float x_part = t[c] * (x[i] - m[c]) + p[c];
        two[i] = two_over_dy[i] = s[c] * dy[i] + x_part;
      }
    }
    loops.affine(r, over_x.data(), m.data(), s.data(), p.data(), over_x.data());
    EXPECT_EQ(over_x, y);
    loops.affine_of_two(r, x.data(), dy.data(), m.data(), s.data(), t.data(),
                        p.data(), dx.data());
    EXPECT_EQ(dx, two);
    loops.affine_of_two(r, x.data(), over_dy.data(), m.data(), s.data(),
                        t.data(), p.data(), over_dy.data());
    EXPECT_EQ(over_dy, two_over_dy);
  });
}

TEST(RowLoops, Relu_Nan_IsKeptAndItsGradientIsZero) {
  for (const RowLoops* loops : Builds()) {
    for (const int64_t n : {1, 7, 16, 33, 64}) {
      Floats x = Noise(n + 1, 1), dy = Noise(n + 1, 2), y = x, dx = x;
      x[0] = std::numeric_limits<float>::quiet_NaN();
      loops->relu(x.data(), n, y.data());
      loops->relu_gradient(x.data(), dy.data(), n, dx.data());
      EXPECT_TRUE(std::isnan(y[0]));
      EXPECT_EQ(dx[0], 0);
      for (int64_t i = 1; i < n; ++i) {
        EXPECT_EQ(y[i], x[i] < 0 ? 0 : x[i]);
        EXPECT_EQ(dx[i], x[i] > 0 ? dy[i] : 0);
      }
      EXPECT_EQ(y.back(), x.back());
      Floats sum = y;
      loops->add(x.data(), n, sum.data());
      for (int64_t i = 1; i < n; ++i) EXPECT_EQ(sum[i], y[i] + x[i]);
      EXPECT_EQ(sum.back(), y.back());
    }
  }
}

TEST(RowLoops, Uniform_AnyPosition_IsPhiloxWordByWord) {
  const uint64_t seed = 0x123456789abcdef0, stream = 0xfedcba9876543210;
  const Philox random(seed, stream);
  for (const RowLoops* loops : Builds()) {
    // In the second case the lower half of the position overflows.
    for (const uint64_t position : {uint64_t{0}, uint64_t{0xffffffc0}}) {
      for (const int64_t n : {1, 4, 31, 64, 65, 200}) {
        Floats numbers(static_cast<size_t>(n) + 1, 9.f);
        loops->uniform(seed, stream, position, n, numbers.data());
        for (int64_t i = 0; i < n; ++i) {
          const auto at = position + static_cast<uint64_t>(i / 4 * 4);
          EXPECT_EQ(numbers[i], Philox::Unit(random.At(at)[i % 4])) << i;
        }
        EXPECT_EQ(numbers.back(), 9.f);
      }
    }
  }
}

TEST(RowLoops, FirstUniform_AnyCount_IsTheFirstWordOfEachBlock) {
  const uint64_t seed = 0x123456789abcdef0, stream = 0xfedcba9876543210;
  const Philox random(seed, stream);
  for (const RowLoops* loops : Builds()) {
    for (const int64_t n : {1, 3, 16, 33, 200}) {
      Floats numbers(static_cast<size_t>(n) + 1, 9.f);
      loops->first_uniform(seed, stream, n, numbers.data());
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<uint64_t>(i);
        EXPECT_EQ(numbers[i], Philox::Unit(random.At(at)[0])) << i;
      }
      EXPECT_EQ(numbers.back(), 9.f);
    }
  }
}

// To nearest, ties to even; NaN stays NaN. Unpacking gives what was rounded.
TEST(RowLoops, RoundToBFloat16_AnyBits_EqualsFloat16) {
  for (const RowLoops* loops : Builds()) {
    for (const int64_t n : {1, 7, 64, 1003}) {
      Floats values, expected;
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t special[] = {0x3F808000, 0x3F818000, 0x7F7FFFFF,
                                    0xFF800000, 0x7F800001, 0xFFFFFFFF,
                                    0x00008000, 0x80018000};
        const uint32_t bits =
            i % 9 == 8 ? i * 0x9E3779B1u : special[i % 9] + i / 9 % 2;
        values.push_back(FloatOfBits(bits));
        expected.push_back(FloatOfBFloat16(BFloat16OfFloat(values[i])));
      }
      Floats rounded = values, unpacked(values.size());
      std::vector<uint16_t> packed(values.size() + 1, 7);
      loops->round_to_bfloat16(n, values.data(), nullptr);
      loops->round_to_bfloat16(n, rounded.data(), packed.data());
      loops->unpack_bfloat16(packed.data(), n, unpacked.data());
      EXPECT_EQ(packed.back(), 7);
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(BitsOfFloat(values[i]), BitsOfFloat(expected[i]));
        EXPECT_EQ(BitsOfFloat(rounded[i]), BitsOfFloat(expected[i]));
        EXPECT_EQ(BitsOfFloat(unpacked[i]), BitsOfFloat(expected[i]));
      }
    }
  }
}

}  // namespace
}  // namespace ringlet
