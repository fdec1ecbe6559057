#include "core/compute/direct_conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../support/op_runner.h"

namespace ringlet {
namespace {

// The builds that this machine can run.
std::vector<const DirectConv*> Builds() {
  std::vector<const DirectConv*> builds = {&kDirectConv};
  if (&BestDirectConv() != &kDirectConv) builds.push_back(&BestDirectConv());
  return builds;
}

struct Case {
  int64_t positions, stride, taps, filters;
};

// Taps here and there in an image, some twice, none in order.
std::vector<int64_t> Offsets(int64_t taps) {
  std::vector<int64_t> offsets;
  for (int64_t k = 0; k < taps; ++k) offsets.push_back(k * 7 % 29);
  return offsets;
}

template <typename Body>
void ForEachCase(const DirectConv& build, const Body& body) {
  for (int64_t positions = 1; positions <= 9; ++positions) {
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t taps : {1, 2, 3, 4, 5, 8, 9, 25, 32}) {
        for (int64_t filters : {1, 2, 3}) {
          body({positions, stride, taps, filters * build.filters});
        }
      }
    }
  }
}

TEST(DirectConvTest, ForwardIsTheSumOverTaps) {
  const Floats image = RandomFloats(29 + 9 * 3, 1);
  const Floats w = RandomFloats(32 * 48, 2), bias = RandomFloats(48, 3);
  for (const DirectConv* build : Builds()) {
    ForEachCase(*build, [&](const Case& c) {
      const auto offsets = Offsets(c.taps);
      const ConvRow row = {image.data(),   c.stride, c.positions,
                           offsets.data(), c.taps,   c.filters};
      for (int options = 0; options < 4; ++options) {
        const bool with_bias = (options & 1) != 0, relu = (options & 2) != 0;
        // The float after the last stays as it is.
        Floats y(static_cast<size_t>(c.positions * c.filters + 1), 77.0f);
        build->forward(row, w.data(), with_bias ? bias.data() : nullptr, relu,
                       y.data());
        for (int64_t p = 0; p < c.positions; ++p) {
          for (int64_t f = 0; f < c.filters; ++f) {
            double sum = with_bias ? bias[f] : 0;
            for (int64_t k = 0; k < c.taps; ++k) {
              sum +=
                  1.0 * image[p * c.stride + offsets[k]] * w[k * c.filters + f];
            }
            if (relu) sum = std::max(sum, 0.0);
            ASSERT_NEAR(y[p * c.filters + f], sum, 2e-5);
          }
        }
        ASSERT_EQ(y.back(), 77.0f);
      }
    });
  }
}

TEST(DirectConvTest, GradientsAreAddedToWhatIsThere) {
  const Floats image = RandomFloats(29 + 9 * 3, 1);
  const Floats dy = RandomFloats(9 * 48, 2), before = RandomFloats(33 * 48, 3);
  for (const DirectConv* build : Builds()) {
    ForEachCase(*build, [&](const Case& c) {
      const auto offsets = Offsets(c.taps);
      const ConvRow row = {image.data(),   c.stride, c.positions,
                           offsets.data(), c.taps,   c.filters};
      Floats dw = before, d_bias = before, unused = before;
      build->gradient(row, dy.data(), dw.data(), d_bias.data());
      build->gradient(row, dy.data(), unused.data(), nullptr);
      ASSERT_EQ(dw, unused);
      for (int64_t f = 0; f < c.filters; ++f) {
        double sum = before[f];
        for (int64_t p = 0; p < c.positions; ++p) sum += dy[p * c.filters + f];
        ASSERT_NEAR(d_bias[f], sum, 2e-5);
        for (int64_t k = 0; k < c.taps; ++k) {
          sum = before[k * c.filters + f];
          for (int64_t p = 0; p < c.positions; ++p) {
            sum +=
                1.0 * image[p * c.stride + offsets[k]] * dy[p * c.filters + f];
          }
          ASSERT_NEAR(dw[k * c.filters + f], sum, 2e-5);
        }
      }
      for (size_t i = c.taps * c.filters; i < dw.size(); ++i) {
        ASSERT_EQ(dw[i], before[i]);
      }
    });
  }
}

TEST(DirectConvTest, ReluKeepsNanAndMakesMinusZeroZero) {
  for (const DirectConv* build : Builds()) {
    const float image[2] = {1, std::numeric_limits<float>::quiet_NaN()};
    const int64_t offset = 0;
    const ConvRow row = {image, 1, 2, &offset, 1, build->filters};
    const Floats w(build->filters, -0.0f);
    Floats y(2 * build->filters);
    build->forward(row, w.data(), nullptr, true, y.data());
    for (int64_t f = 0; f < build->filters; ++f) {
      EXPECT_EQ(y[f], 0);
      EXPECT_TRUE(std::isnan(y[build->filters + f]));
    }
  }
}

}  // namespace
}  // namespace ringlet
