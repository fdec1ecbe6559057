#include "ringlet/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/layers/initializers.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

// The test vectors of the Random123 distribution (kat_vectors).
TEST(PhiloxTest, Philox_Random123Vectors_EqualTheKnownAnswers) {
  EXPECT_EQ(Philox(0, 0).At(0),
            (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0}, ~uint64_t{0}).At(~uint64_t{0}),
            (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  EXPECT_EQ(
      Philox(0x299f31d0a4093822u, 0x0370734413198a2eu).At(0x85a308d3243f6a88u),
      (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

struct Moments {
  double mean, deviation, least, most;
};
Moments Draw(const Initializer& initializer, const Shape& shape) {
  std::vector<float> v(static_cast<size_t>(shape.elements()));
  Initialize(initializer, shape, 11, 3, v.data());
  double sum = 0, squares = 0;
  for (float x : v) {
    sum += x;
    squares += double{x} * x;
  }
  const double n = static_cast<double>(v.size());
  return {sum / n, std::sqrt(squares / n - sum * sum / n / n),
          *std::min_element(v.begin(), v.end()),
          *std::max_element(v.begin(), v.end())};
}

TEST(InitializersTest, Values_EachInitializer_HaveKerasDistribution) {
  const Shape kernel = {3, 3, 40, 60};  // fans 360 and 540
  struct Case {
    Initializer initializer;
    double deviation, limit;
  };
  const Case cases[] = {
      {GlorotUniform(), std::sqrt(2.0 / 900), std::sqrt(6.0 / 900)},
      {GlorotNormal(), std::sqrt(2.0 / 900), 2 * std::sqrt(2.0 / 900) / .8796},
      {HeUniform(), std::sqrt(2.0 / 360), std::sqrt(6.0 / 360)},
      {HeNormal(), std::sqrt(2.0 / 360), 2 * std::sqrt(2.0 / 360) / .8796},
      {LecunUniform(), std::sqrt(1.0 / 360), std::sqrt(3.0 / 360)},
      {LecunNormal(), std::sqrt(1.0 / 360), 2 * std::sqrt(1.0 / 360) / .8796},
      {RandomUniform(), 0.1 / std::sqrt(12.0), 0.05},
      {RandomNormal(), 0.05, 1},
      {TruncatedNormal(), 0.05 * .8796, 0.1},
  };
  for (const Case& c : cases) {
    const Moments m = Draw(c.initializer, kernel);
    EXPECT_NEAR(m.mean, 0, 0.03 * c.deviation);
    EXPECT_NEAR(m.deviation, c.deviation, 0.02 * c.deviation);
    EXPECT_GE(m.least, -c.limit * 1.0001);
    EXPECT_LE(m.most, c.limit * 1.0001);
    EXPECT_GT(m.most, c.limit > 0.5 ? 0.15 : 0.95 * c.limit);
  }
  EXPECT_EQ(Draw(Ones(), {5}).mean, 1);
  EXPECT_EQ(Draw(Zeros(), {5}).most, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(Draw(Constant(0.3f), {5}).most), 0.3f);
}

TEST(InitializersTest, Values_SeedAndStream_DecideThemAlone) {
  std::vector<float> a(100), b(100), c(100), d(100);
  Initialize(HeNormal(), {10, 10}, 1, 2, a.data());
  Initialize(HeNormal(), {10, 10}, 1, 2, b.data());
  Initialize(HeNormal(), {10, 10}, 1, 3, c.data());
  Initialize(HeNormal(), {10, 10}, 2, 2, d.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
}

TEST(InitializersTest, Fans_ShapesOfAnyRank_EqualKeras) {
  EXPECT_EQ(ComputeFans({7}).in, 7);
  EXPECT_EQ(ComputeFans({7, 5}).out, 5);
  EXPECT_EQ(ComputeFans({3, 2, 4, 5}).in, 24);
  EXPECT_EQ(ComputeFans({3, 2, 4, 5}).out, 30);
}

// As in Keras the last axis has the columns, and the smaller side has the
// orthogonal vectors.
TEST(InitializersTest, Orthogonal_AnyShape_HasOrthogonalVectors) {
  for (const Shape& shape :
       {Shape{7, 28}, Shape{64, 64}, Shape{3, 5, 4}, Shape{1, 4}, Shape{6}}) {
    std::vector<float> m(static_cast<size_t>(shape.elements()));
    Initialize(Orthogonal(2), shape, 11, 3, m.data());
    const int64_t columns = shape.back(), rows = shape.elements() / columns;
    const bool transposed = rows > columns;
    const int64_t count = transposed ? columns : rows,
                  width = transposed ? rows : columns;
    const auto at = [&](int64_t i, int64_t k) {
      return double{m[static_cast<size_t>(transposed ? k * columns + i
                                                     : i * columns + k)]};
    };
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t k = 0; k < width; ++k) product += at(i, k) * at(j, k);
        EXPECT_NEAR(product, i == j ? 4 : 0, 1e-5) << shape.ToString();
      }
    }
  }
}

}  // namespace
}  // namespace ringlet
