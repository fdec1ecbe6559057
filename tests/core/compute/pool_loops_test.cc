#include "core/compute/pool_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ringlet/compute.h"

namespace ringlet {
namespace {

using Floats = std::vector<float>;

// The builds that this machine can run.
std::vector<const PoolLoops*> Builds() {
  std::vector<const PoolLoops*> builds = {&kPoolLoops};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) builds.push_back(&kPoolLoopsAvx2);
  if (__builtin_cpu_supports("avx512f")) builds.push_back(&kPoolLoopsAvx512);
#endif
  return builds;
}

// Few values, so that some are equal, and -0 among them.
Floats Values(int64_t n, uint64_t stream) {
  const Philox random(7, stream);
  Floats values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = random.At(i)[0] % 6;
    values[i] = word == 0 ? -0.0f : static_cast<float>(word) - 3;
  }
  return values;
}

constexpr float kUntouched = 77;
constexpr size_t kNanAt = 9;  // any place in x

struct Image {
  PoolWindows w;
  int64_t Pixel(int64_t p, int64_t i, int64_t c) const {
    return p * w.step + i / w.width * w.row_floats + i % w.width * w.channels +
           c;
  }
};

void Expect(const PoolLoops& loops, const Image& image) {
  const PoolWindows& w = image.w;
  const int64_t outputs = w.positions * w.channels;
  Floats x = Values(w.height * w.row_floats, 1);
  const Floats dy = Values(outputs, 2);
  if (x.size() > kNanAt) x[kNanAt] = std::numeric_limits<float>::quiet_NaN();
  Floats y(static_cast<size_t>(outputs) + 1, kUntouched);
  Floats dx(x.size() + 1, kUntouched), wanted = dx;
  loops.maxima(w, x.data(), y.data());
  loops.gradient(w, x.data(), y.data(), dy.data(), dx.data());
  for (int64_t p = 0; p < w.positions; ++p) {
    for (int64_t c = 0; c < w.channels; ++c) {
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < w.height * w.width; ++i) {
        const float v = x[image.Pixel(p, i, c)];
        if (v > most || std::isnan(v)) most = v;
      }
      const float found = y[p * w.channels + c];
      if (std::isnan(most)) {
        EXPECT_TRUE(std::isnan(found));
      } else {
        EXPECT_EQ(found, most);
        EXPECT_EQ(std::signbit(found), std::signbit(most));
      }
      float rest = dy[p * w.channels + c];
      for (int64_t i = 0; i < w.height * w.width; ++i) {
        const bool holds = x[image.Pixel(p, i, c)] == most;
        wanted[image.Pixel(p, i, c)] = holds ? rest : 0;
        if (holds) rest = 0;
      }
    }
  }
  EXPECT_EQ(y.back(), kUntouched);
  EXPECT_EQ(dx, wanted);
}

// indexed_maxima finds the maxima of maxima(), and indexed_gradient sends dy to
// them. With above_zero it sends none to a maximum that is not above 0.
void ExpectIndexed(const PoolLoops& loops, const Image& image,
                   bool above_zero) {
  const PoolWindows& w = image.w;
  const int64_t outputs = w.positions * w.channels;
  Floats x = Values(w.height * w.row_floats, 3);
  Floats dy = Values(outputs, 4);
  if (x.size() > kNanAt) x[kNanAt] = std::numeric_limits<float>::quiet_NaN();
  Floats y(static_cast<size_t>(outputs) + 1, kUntouched), wanted_y = y;
  Floats dx(x.size() + 1, kUntouched), wanted = dx;
  std::vector<uint8_t> indices(static_cast<size_t>(outputs) + 1, 99);
  loops.indexed_maxima(w, x.data(), above_zero, y.data(), indices.data());
  loops.indexed_gradient(w, indices.data(), dy.data(), dx.data());
  EXPECT_EQ(indices.back(), 99);
  loops.maxima(w, x.data(), wanted_y.data());
  EXPECT_EQ(std::memcmp(y.data(), wanted_y.data(), y.size() * sizeof(float)),
            0);
  for (size_t i = 0; i + 1 < y.size(); ++i) {
    if (above_zero && !(y[i] > 0)) dy[i] = 0;
  }
  loops.gradient(w, x.data(), y.data(), dy.data(), wanted.data());
  EXPECT_EQ(dx, wanted);
}

TEST(PoolLoops, MaximaAndGradients_AnyWindow_EqualTheReference) {
  for (const PoolLoops* loops : Builds()) {
    for (const int64_t channels : {1, 3, 6, 8, 16, 21, 40}) {
      for (const int64_t positions : {1, 2, 7}) {
        for (const int64_t size : {1, 2, 3}) {
          const int64_t step = size * channels;
          const int64_t row = positions * step + 2;
          for (const int64_t height : {size, int64_t{2}}) {
            const Image image = {
                {positions, step, height, size, row, channels}};
            Expect(*loops, image);
            ExpectIndexed(*loops, image, /*above_zero=*/true);
            ExpectIndexed(*loops, image, /*above_zero=*/false);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringlet
