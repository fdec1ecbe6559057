// Dot, against a loop over its definition.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

struct DotCase {
  std::vector<int64_t> axes;
  Shape a, b, output;
};

std::vector<DotCase> DotCases() {
  return {{{1}, {5}, {5}, {1}},
          {{-1}, {5}, {5}, {1}},
          {{2}, {4, 3}, {2, 3}, {4, 2}},
          {{1}, {4, 3}, {4, 2}, {3, 2}},
          {{2, 1}, {4, 3}, {3, 2}, {4, 2}},
          {{-2, -1}, {4, 3}, {5, 4}, {3, 5}},
          {{1, 2}, {7}, {3, 7}, {3}},
          {{2, 1}, {3, 7}, {7}, {3}},
          {{2, 2}, {70, 9}, {33, 9}, {70, 33}}};
}

// Element (row, k) of an input that is summed over this axis.
double ElementOf(const float* x, const Shape& shape, int64_t axis, int64_t row,
                 int64_t k) {
  if (shape.rank() == 1) return x[k];
  const bool first = axis == 1 || axis == -2;
  return first ? x[k * shape[1] + row] : x[row * shape[1] + k];
}

int64_t SummedSize(const Shape& shape, int64_t axis) {
  return shape[static_cast<int>(axis < 0 ? axis + shape.rank() : axis - 1)];
}

TEST(DotTest, Forward_EachPairOfAxes_IsTheSumOfProducts) {
  for (const DotCase& c : DotCases()) {
    for (const int64_t batch : {1, 3, 32}) {
      SCOPED_TRACE(c.a.ToString() + c.b.ToString());
      OpRunner runner(Dot(c.axes), {c.a, c.b});
      ASSERT_OK(runner.status());
      EXPECT_EQ(runner.op().output(), c.output);
      OpRunner normalized(Dot(c.axes, /*normalize=*/true), {c.a, c.b});
      std::vector<Floats> x = RandomInputs({c.a, c.b}, batch);
      std::fill_n(x[0].begin(), c.a.elements(), 0.0f);  // a norm of 0
      const Floats y = runner.Run(batch, x, {}, {}, 2).y;
      const Floats cosines = normalized.Run(batch, x, {}, {}, 2).y;
      const int64_t n = SummedSize(c.a, c.axes.front()),
                    rows = c.a.elements() / n, cols = c.b.elements() / n;
      for (int64_t i = 0; i < batch * rows * cols; ++i) {
        const int64_t e = i / (rows * cols);
        double sum = 0, of_a = 0, of_b = 0;
        for (int64_t k = 0; k < n; ++k) {
          const double a = ElementOf(x[0].data() + e * c.a.elements(), c.a,
                                     c.axes.front(), i / cols % rows, k);
          const double b = ElementOf(x[1].data() + e * c.b.elements(), c.b,
                                     c.axes.back(), i % cols, k);
          sum += a * b;
          of_a += a * a;
          of_b += b * b;
        }
        ASSERT_NEAR(y[static_cast<size_t>(i)], sum, 1e-5);
        const double cosine = e == 0 ? 0 : sum / std::sqrt(of_a * of_b);
        ASSERT_NEAR(cosines[static_cast<size_t>(i)], cosine, 1e-5);
      }
    }
  }
}

TEST(DotTest, Backward_EachPairOfAxes_HasItsGradientsAndBits) {
  for (const DotCase& c : DotCases()) {
    for (const bool normalize : {false, true}) {
      const Layer layer = Dot(c.axes, normalize);
      if (c.a.elements() < 100) CheckGradients(layer, {c.a, c.b}, 3, 2);
      ExpectSameBits(layer, {c.a, c.b}, 5);
    }
  }
}

TEST(DotTest, Make_WhatDoesNotFit_IsRefused) {
  const auto error = [](const Layer& layer, const std::vector<Shape>& x) {
    return std::string(OpRunner(layer, x).status().message());
  };
  const char* const part = "Dot takes two inputs of one or two dimensions";
  EXPECT_TRUE(Contains(error(Dot({1}), {{4}, {5}}), part));
  EXPECT_TRUE(Contains(error(Dot({0}), {{4}, {4}}), part));
  EXPECT_TRUE(Contains(error(Dot({2}), {{4}, {4}}), part));
  EXPECT_TRUE(Contains(error(Dot({-3}), {{4, 4}, {4, 4}}), part));
  EXPECT_TRUE(Contains(error(Dot({}), {{4}, {4}}), part));
  EXPECT_TRUE(Contains(error(Dot({1, 1, 1}), {{4}, {4}}), part));
  EXPECT_TRUE(Contains(error(Dot({1}), {{4, 2, 3}, {4}}), part));
  EXPECT_TRUE(Contains(error(Dot({1}), {{4}, {4}, {4}}), part));
}

}  // namespace
}  // namespace ringlet
