// Tests padding, cropping, enlarging, permuting and global pooling of images
// against the definition of each element.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/op_checks.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace {

// Element (i, j, k) of the output is element from(i, j, k) of x, or 0 where
// that is outside; the gradient goes back the same way.
using From = std::function<Shape(int64_t, int64_t, int64_t)>;

void ExpectMoves(const Layer& layer, const Shape& x, const Shape& y,
                 const From& from) {
  SCOPED_TRACE(ClassName(layer));
  OpRunner runner(layer, {x});
  ASSERT_OK(runner.status());
  ASSERT_EQ(runner.op().output(), y);
  constexpr int64_t kBatch = 3;
  const Floats in = RandomFloats(static_cast<size_t>(kBatch * x.elements()), 1);
  const Floats dy = RandomFloats(static_cast<size_t>(kBatch * y.elements()), 2);
  Floats out, dx(in.size());
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t i = 0; i < y[0]; ++i) {
      for (int64_t j = 0; j < y[1]; ++j) {
        for (int64_t k = 0; k < y[2]; ++k) {
          const Shape at = from(i, j, k);
          const bool inside = at[0] >= 0 && at[0] < x[0] && at[1] >= 0 &&
                              at[1] < x[1] && at[2] >= 0 && at[2] < x[2];
          const int64_t flat =
              ((n * x[0] + at[0]) * x[1] + at[1]) * x[2] + at[2];
          if (inside) dx[static_cast<size_t>(flat)] += dy[out.size()];
          out.push_back(inside ? in[static_cast<size_t>(flat)] : 0);
        }
      }
    }
  }
  const OpRun run = runner.Run(kBatch, {in}, {}, dy, 2);
  EXPECT_EQ(run.y, out);
  ExpectClose(run.dx[0], dx, 1e-6);
  ExpectSameBits(layer, {x}, 5);
}

TEST(ImageOpsTest, Pixels_PaddedCroppedOrPermuted_GoWhereTheyShould) {
  using I = int64_t;
  ExpectMoves(ZeroPadding2D(1, 2, 3, 0), {2, 4, 3}, {5, 7, 3},
              [](I i, I j, I k) {
                return Shape{i - 1, j - 3, k};
              });
  ExpectMoves(ZeroPadding2D(), {1, 1, 1}, {3, 3, 1}, [](I i, I j, I k) {
    return Shape{i - 1, j - 1, k};
  });
  ExpectMoves(ZeroPadding2D(0), {2, 3, 2}, {2, 3, 2}, [](I i, I j, I k) {
    return Shape{i, j, k};
  });
  ExpectMoves(Cropping2D(1, 0, 2, 1), {4, 5, 3}, {3, 2, 3}, [](I i, I j, I k) {
    return Shape{i + 1, j + 2, k};
  });
  ExpectMoves(UpSampling2D(3, 2), {2, 3, 5}, {6, 6, 5}, [](I i, I j, I k) {
    return Shape{i / 3, j / 2, k};
  });
  ExpectMoves(Permute({1, 2, 3}), {2, 3, 4}, {2, 3, 4}, [](I i, I j, I k) {
    return Shape{i, j, k};
  });
  ExpectMoves(Permute({2, 1, 3}), {2, 3, 4}, {3, 2, 4}, [](I i, I j, I k) {
    return Shape{j, i, k};
  });
  ExpectMoves(Permute({3, 1, 2}), {2, 3, 4}, {4, 2, 3}, [](I i, I j, I k) {
    return Shape{j, k, i};
  });
  ExpectMoves(Permute({2, 3, 1}), {2, 3, 4}, {3, 4, 2}, [](I i, I j, I k) {
    return Shape{k, i, j};
  });
  OpRunner plane(Permute({2, 1}), {{2, 3}});
  EXPECT_EQ(plane.Run(1, {{1, 2, 3, 4, 5, 6}}, {}, {}).y,
            (Floats{1, 4, 2, 5, 3, 6}));
  OpRunner line(Permute({1}), {{3}});
  EXPECT_EQ(line.Run(1, {{1, 2, 3}}, {}, {}).y, (Floats{1, 2, 3}));
}

// Equal maxima share the gradient, as in Keras.
TEST(ImageOpsTest, GlobalMaxPooling_EqualMaxima_ShareTheGradient) {
  OpRunner pool(GlobalMaxPooling2D(), {{2, 2, 2}});
  const OpRun run = pool.Run(2,
                             {{1, 5, 3, 5, 2, 5, 3, 4,  // the first image
                               -1, NAN, -2, 1, -3, 2, -4, 3}},
                             {}, {6, 9, 5, 7});
  EXPECT_EQ(run.y[0], 3);
  EXPECT_EQ(run.y[1], 5);
  EXPECT_EQ(run.y[2], -1);
  EXPECT_TRUE(std::isnan(run.y[3]));
  EXPECT_EQ(Floats(run.dx[0].begin(), run.dx[0].begin() + 8),
            (Floats{0, 3, 3, 3, 0, 3, 3, 0}));
  EXPECT_EQ(run.dx[0][8], 5);
  CheckGradients(GlobalMaxPooling2D(), {{3, 4, 5}}, 2, 2);
  ExpectSameBits(GlobalMaxPooling2D().KeepDims(true), {{3, 4, 5}}, 7);
}

TEST(ImageOpsTest, ImageOp_DoesNotFit_ErrorNamesIt) {
  const auto expect = [](const Layer& layer, const Shape& x,
                         const std::string& part) {
    const std::string text = OpRunner(layer, {x}).status().message();
    EXPECT_TRUE(Contains(text, part));
  };
  expect(ZeroPadding2D(), {4, 4}, "(height, width, channels)");
  expect(ZeroPadding2D(-1), {4, 4, 1}, "padding must be");
  expect(ZeroPadding2D(INT64_MAX), {4, 4, 1}, "padding must be");
  expect(ZeroPadding1D(1 << 30), {4, 4}, "too large");
  expect(Cropping2D(2, 2, 0, 0), {4, 4, 1}, "leaves nothing");
  expect(Cropping1D(2, 3), {4, 4}, "leaves nothing");
  expect(UpSampling2D(0), {4, 4, 1}, "size");
  expect(UpSampling2D(INT64_MAX), {4, 4, 1}, "size must be from 1 to");
  expect(UpSampling2D(1 << 20), {4, 4, 1}, "too large");
  expect(Permute({1, 2}), {4, 4, 1}, "from 1 to 3, not (1, 2)");
  expect(Permute({1, 1, 2}), {4, 4, 1}, "axes");
  expect(Permute({0, 1, 2}), {4, 4, 1}, "axes");
  expect(Permute({1, 2, 9}), {4, 4, 1}, "axes");
  expect(Permute({INT64_MIN, 1, 2}), {4, 4, 1}, "axes");
  expect(Permute({}), Shape(), "axes");
  expect(GlobalMaxPooling2D(), {4, 2}, "GlobalMaxPooling2D needs an input");
}

}  // namespace
}  // namespace ringlet
