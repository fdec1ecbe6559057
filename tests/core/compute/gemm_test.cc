#include "core/compute/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "../../support/op_runner.h"

namespace ringlet {
namespace {

// A matrix of the shape, row-major, column-major, with rows apart, or with
// elements apart as well.
struct Stored {
  Floats data;
  Matrix view;
};

Stored Store(int64_t rows, int64_t cols, int layout, uint64_t seed) {
  const int64_t apart = layout == 3 ? 2 : 1;
  const int64_t row = layout >= 2 ? apart * cols + 3 : cols;
  Stored s;
  s.data = RandomFloats(static_cast<size_t>(rows * row + 1), seed);
  s.view =
      layout == 1
          ? Matrix{s.data.data(), rows, cols, 1, std::max<int64_t>(rows, 1)}
          : Matrix{s.data.data(), rows, cols, std::max<int64_t>(row, 1), apart};
  return s;
}

ConstMatrix Const(const Matrix& m) {
  return {m.data, m.rows, m.cols, m.row_stride, m.col_stride};
}

// Gemm and NaiveGemm on the same numbers.
void ExpectTwins(int64_t rows, int64_t cols, int64_t inner, int layouts,
                 float alpha, float beta) {
  const uint64_t seed = static_cast<uint64_t>(layouts) * 3 + 1;
  const Stored a = Store(rows, inner, layouts % 4, seed);
  const Stored b = Store(inner, cols, layouts / 4 % 4, seed + 1);
  const Stored c = Store(rows, cols, layouts / 16, seed + 2);
  Stored expected = c, actual = c;
  expected.view.data = expected.data.data();
  actual.view.data = actual.data.data();
  ThreadPool pool(1 + layouts % 3);
  NaiveGemm(alpha, Const(a.view), Const(b.view), beta, expected.view);
  Gemm(alpha, Const(a.view), Const(b.view), beta, actual.view, &pool);
  for (size_t i = 0; i < c.data.size(); ++i) {
    ASSERT_NEAR(actual.data[i], expected.data[i],
                1e-5f * static_cast<float>(inner + 1))
        << rows << "x" << cols << "x" << inner << ", layouts " << layouts
        << ", alpha " << alpha << ", beta " << beta;
  }
}

TEST(GemmTest, AgreesWithItsTwinOnOddShapesLayoutsAndThreads) {
  const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {17, 1, 31},
                              {1, 33, 9},   {64, 10, 128}, {129, 67, 65},
                              {9, 32, 501}, {200, 3, 2},   {2, 3, 0}};
  for (const auto& size : sizes) {
    for (int layouts = 0; layouts < 64; ++layouts) {
      for (float beta : {0.0f, 1.0f, -0.5f}) {
        ExpectTwins(size[0], size[1], size[2], layouts, 0.5f, beta);
      }
    }
  }
}

// BLIS goes other ways with large products, and with none.
TEST(GemmTest, AgreesWithItsTwinOnLargeProductsAndScalars) {
  const int64_t sizes[][3] = {{310, 300, 290}, {260, 700, 3},   {1, 500, 700},
                              {500, 1, 700},   {211, 205, 520}, {300, 300, 0}};
  for (const auto& size : sizes) {
    for (int layouts = 0; layouts < 64; layouts += 9) {
      ExpectTwins(size[0], size[1], size[2], layouts, 0.5f, -0.5f);
      ExpectTwins(size[0], size[1], size[2], layouts, 0.0f, 2.0f);
    }
    ExpectTwins(size[0], size[1], size[2], 63, 1.0f, 0.0f);
    ExpectTwins(size[0], size[1], size[2], 0, 0.0f, 0.0f);
  }
}

// Every edge of the micro-tiles, among them 6x16, 4x16 and 8x12.
TEST(GemmTest, AgreesWithItsTwinOnEveryEdgeOfATile) {
  for (int64_t rows = 1; rows <= 13; ++rows) {
    for (int64_t cols = 1; cols <= 33; ++cols) {
      for (int layouts : {0, 1, 5, 16, 21, 42}) {
        ExpectTwins(rows, cols, 11, layouts, 1.0f, 1.0f);
      }
    }
  }
}

TEST(GemmTest, BetaZeroDoesNotReadC) {
  const Floats a = {1, 2}, b = {3, 4};
  Floats c = {std::numeric_limits<float>::quiet_NaN()};
  Gemm(1, RowMajor(a.data(), 1, 2), RowMajor(b.data(), 2, 1), 0,
       RowMajor(c.data(), 1, 1));
  EXPECT_EQ(c[0], 11);
}

TEST(GemmTest, SameThreadsSameBits) {
  const Stored a = Store(97, 301, 0, 1), b = Store(301, 130, 0, 2);
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Floats first(97 * 130), second(97 * 130);
    Gemm(1, Const(a.view), Const(b.view), 0, RowMajor(first.data(), 97, 130),
         &pool);
    Gemm(1, Const(a.view), Const(b.view), 0, RowMajor(second.data(), 97, 130),
         &pool);
    EXPECT_EQ(first, second);
  }
}

TEST(GemmTest, RejectsMismatchedShapes) {
  Floats m(64);
  const auto view = [&](int64_t r, int64_t c) {
    return RowMajor(m.data(), r, c);
  };
  const auto check = [&](Matrix a, Matrix b, Matrix c) {
    return CheckGemm(Const(a), Const(b), c).code();
  };
  EXPECT_EQ(check(view(2, 3), view(3, 4), view(2, 4)), Code::kOk);
  EXPECT_EQ(check(view(2, 3), view(4, 4), view(2, 4)), Code::kInvalidArgument);
  EXPECT_EQ(check(view(2, 3), view(3, 4), view(3, 4)), Code::kInvalidArgument);
  Matrix overlapping = view(2, 3);
  overlapping.row_stride = 1;
  EXPECT_EQ(check(overlapping, view(3, 4), view(2, 4)), Code::kInvalidArgument);
  Matrix backwards = view(2, 3);
  backwards.col_stride = -1;
  EXPECT_EQ(check(backwards, view(3, 4), view(2, 4)), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringlet
