#include "core/gemm.h"

#include <gtest/gtest.h>

#include <vector>

#include "op_runner.h"

namespace ringlet {
namespace {

// A matrix of the shape, row-major, column-major or with holes.
struct Stored {
  Floats data;
  Matrix view;
};

Stored Store(int64_t rows, int64_t cols, int layout, uint64_t seed) {
  Stored s;
  const int64_t pad = layout == 2 ? 3 : 0;
  s.data = RandomFloats(static_cast<size_t>((rows + pad) * (cols + pad) + 1),
                        seed);
  s.view = layout == 1 ? Matrix{s.data.data(), rows, cols, 1, rows}
                       : Matrix{s.data.data(), rows, cols, cols + pad, 1};
  return s;
}

ConstMatrix Const(const Matrix& m) {
  return {m.data, m.rows, m.cols, m.row_stride, m.col_stride};
}

TEST(GemmTest, AgreesWithItsTwinOnOddShapesLayoutsAndThreads) {
  const int64_t sizes[][3] = {{1, 1, 1},   {3, 5, 7},    {17, 1, 31},
                              {1, 33, 9},  {64, 10, 128}, {129, 67, 65},
                              {9, 32, 501}, {200, 3, 2},  {150, 211, 90}};
  uint64_t seed = 1;
  for (const auto& size : sizes) {
    for (int layouts = 0; layouts < 27; ++layouts) {
      Stored a = Store(size[0], size[2], layouts % 3, ++seed);
      Stored b = Store(size[2], size[1], layouts / 3 % 3, ++seed);
      Stored c = Store(size[0], size[1], layouts / 9, ++seed);
      for (float beta : {0.0f, 1.0f, -0.5f}) {
        Stored expected = c, actual = c;
        expected.view.data = expected.data.data();
        actual.view.data = actual.data.data();
        ThreadPool pool(1 + layouts % 3);
        NaiveGemm(0.5f, Const(a.view), Const(b.view), beta, expected.view);
        Gemm(0.5f, Const(a.view), Const(b.view), beta, actual.view, &pool);
        for (size_t i = 0; i < c.data.size(); ++i) {
          ASSERT_NEAR(actual.data[i], expected.data[i],
                      1e-5f * static_cast<float>(size[2]))
              << size[0] << "x" << size[1] << "x" << size[2];
        }
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
  EXPECT_EQ(check(view(2, 3), view(4, 4), view(2, 4)),
            Code::kInvalidArgument);
  EXPECT_EQ(check(view(2, 3), view(3, 4), view(3, 4)),
            Code::kInvalidArgument);
  Matrix overlapping = view(2, 3);
  overlapping.row_stride = 1;
  EXPECT_EQ(check(overlapping, view(3, 4), view(2, 4)),
            Code::kInvalidArgument);
  Matrix backwards = view(2, 3);
  backwards.col_stride = -1;
  EXPECT_EQ(check(backwards, view(3, 4), view(2, 4)),
            Code::kInvalidArgument);
}


}  // namespace
}  // namespace ringlet
