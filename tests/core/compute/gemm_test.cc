#include "core/compute/gemm.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/naive_gemm.h"
#include "../../support/op_runner.h"
#include "../../support/random_cases.h"
#include "../../support/sanitized.h"

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

// Bits, so that the sign of a zero counts.
std::vector<uint32_t> Bits(const Floats& v) {
  std::vector<uint32_t> bits(v.size());
  std::memcpy(bits.data(), v.data(), v.size() * sizeof(float));
  return bits;
}

// A product to compare with the definition.
struct Case {
  int64_t rows, cols, inner;
  int layouts;  // layouts of A, B, C: digits to the base of 4
  bool add;
  uint64_t seed;
};

std::string Text(const Case& c) {
  return std::to_string(c.rows) + "x" + std::to_string(c.cols) + "x" +
         std::to_string(c.inner) + ", layouts " + std::to_string(c.layouts) +
         (c.add ? ", added" : "") + ", seed " + std::to_string(c.seed);
}

std::vector<std::string> KernelSets() {
  std::vector<std::string> names;
  std::istringstream list(KernelSetNamesOfCpu());
  for (std::string name; std::getline(list >> std::ws, name, ',');) {
    names.push_back(name);
  }
  return names;
}

// Chooses the sets one after another, then the first set again.
template <typename Work>
void WithEachKernelSet(const Work& work) {
  const std::string before = ChosenKernelSetName();
  for (const std::string& name : KernelSets()) {
    SCOPED_TRACE("kernels " + name);
    ASSERT_OK(ChooseKernelSet(name.c_str()));
    work();
  }
  ASSERT_OK(ChooseKernelSet(before.c_str()));
}

// Calls work(), which computes the expected result, unless the set before also
// fuses, or also does not.
class Expected {
 public:
  template <typename Work>
  void Make(const Work& work) {
    if (made_ && fuses_ == UsesFusedMultiplyAdd()) return;
    work();
    made_ = true;
    fuses_ = UsesFusedMultiplyAdd();
  }

 private:
  bool made_ = false, fuses_ = false;
};

// The product by every set of kernels and threads 1 to 3, bit for bit.
void ExpectDefinition(const Case& p) {
  const Stored a = Store(p.rows, p.inner, p.layouts % 4, p.seed);
  const Stored b = Store(p.inner, p.cols, p.layouts / 4 % 4, p.seed + 1);
  const Stored c = Store(p.rows, p.cols, p.layouts / 16, p.seed + 2);
  Stored expected = c;
  Expected made;
  WithEachKernelSet([&] {
    made.Make([&] {
      expected = c;
      expected.view.data = expected.data.data();
      NaiveGemm(Const(a.view), Const(b.view), p.add, expected.view);
    });
    for (int threads = 1; threads <= 3; ++threads) {
      static ThreadPool* const pools[] = {nullptr, new ThreadPool(2),
                                          new ThreadPool(3)};
      Stored actual = c;
      actual.view.data = actual.data.data();
      Gemm(Const(a.view), Const(b.view), p.add, actual.view,
           pools[threads - 1]);
      ASSERT_EQ(Bits(actual.data), Bits(expected.data))
          << Text(p) << ", threads " << threads;
    }
  });
}

TEST(GemmTest, Gemm_OddShapesAndLayouts_EqualsTheDefinition) {
  const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {17, 1, 31},
                              {1, 33, 9},   {64, 10, 128}, {129, 67, 65},
                              {9, 32, 501}, {200, 3, 2},   {2, 3, 0}};
  for (const auto& size : sizes) {
    for (int layouts = 0; layouts < 64; ++layouts) {
      ExpectDefinition(
          {size[0], size[1], size[2], layouts, layouts % 3 == 0, 1});
    }
  }
}

// Every edge of the tiles: 12x32, 6x16, 4x16, 4x8 and 12x8.
TEST(GemmTest, Gemm_EveryEdgeOfATile_EqualsTheDefinition) {
  for (int64_t rows = 1; rows <= 13; ++rows) {
    for (int64_t cols = 1; cols <= 33; ++cols) {
      for (int layouts : {0, 5, 26}) {
        ExpectDefinition({rows, cols, 11, layouts, true, 2});
      }
    }
  }
}

TEST(GemmTest, Gemm_RandomShapes_EqualsTheDefinition) {
  const Philox random(7, 5);
  RandomCases cases("RINGLET_GEMM");
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    const uint64_t i = cases.number();
    const auto draw = random.At(i);
    const auto size = [&](uint32_t x) -> int64_t {
      return 1 + (x & 1 ? x / 2 % 300 : x / 2 % 40);
    };
    ExpectDefinition({size(draw[0]), size(draw[1]), size(draw[2]),
                      static_cast<int>(draw[3] % 64), draw[3] >> 31 != 0, i});
  }
}

// Sizes with several blocks of rows and of columns for every set, and with a
// remainder.
TEST(GemmTest, Gemm_LargeProducts_EqualsTheDefinition) {
  const int64_t sizes[][3] = {{310, 300, 290}, {260, 700, 3},   {1, 500, 700},
                              {500, 1, 700},   {211, 205, 520}, {300, 300, 0},
                              {490, 530, 260}};
  uint64_t number = 0;
  for (const auto& size : sizes) {
    for (int layouts = 0; layouts < 64; layouts += 21) {
      if (!RunsCase(number++)) continue;
      ExpectDefinition(
          {size[0], size[1], size[2], layouts, layouts % 2 > 0, 3});
    }
  }
}

TEST(GemmTest, Multiply_BiasAndReluFused_GivesTheSameBits) {
  const int64_t sizes[][3] = {
      {1, 7, 9}, {70, 33, 200}, {7, 300, 129}, {9, 9, 0}};
  for (const auto& size : sizes) {
    const int64_t m = size[0], n = size[1], k = size[2];
    const Stored a = Store(m, k, 0, 1), b = Store(k, n, 1, 2);
    const Floats bias = RandomFloats(static_cast<size_t>(n), 3);
    Floats expected(m * n);
    Expected made;
    WithEachKernelSet([&] {
      made.Make([&] {
        NaiveGemm(Const(a.view), Const(b.view), /*add=*/false,
                  RowMajor(expected.data(), m, n));
        for (int64_t i = 0; i < m * n; ++i) {
          expected[i] += bias[i % n];
          expected[i] = expected[i] < 0 ? 0 : expected[i];
        }
      });
      for (int threads = 1; threads <= 3; ++threads) {
        ThreadPool pool(threads);
        Floats actual(m * n);
        Product p{Const(a.view), Const(b.view), RowMajor(actual.data(), m, n)};
        p.bias = bias.data();
        p.relu = true;
        Multiply(p, &pool);
        ASSERT_EQ(Bits(actual), Bits(expected)) << m << "x" << n << "x" << k;
      }
    });
  }
}

// Multiplies in a child process without memory for panels.
[[maybe_unused]] void MultiplyWithoutMemory() {
  const Stored a = Store(70, 200, 0, 1), b = Store(200, 90, 1, 2);
  Floats expected(70 * 90), actual(70 * 90);
  NaiveGemm(Const(a.view), Const(b.view), /*add=*/false,
            RowMajor(expected.data(), 70, 90));
  std::thread([&] {
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_AS, &none) != 0) std::_Exit(2);
    Gemm(Const(a.view), Const(b.view), /*add=*/false,
         RowMajor(actual.data(), 70, 90));
  }).join();
  const size_t bytes = actual.size() * sizeof(float);
  std::_Exit(std::memcmp(actual.data(), expected.data(), bytes) == 0 ? 0 : 1);
}

TEST(GemmTest, Multiply_NoMemoryLeft_NeedsNone) {
#ifdef RINGLET_SANITIZED
  GTEST_SKIP() << "a sanitizer takes more memory than the limit";
#else
  EXPECT_EXIT(MultiplyWithoutMemory(), testing::ExitedWithCode(0), "");
#endif
}

TEST(GemmTest, ChooseGemmKernels_UnknownName_IsRefusedByName) {
  const Status status = ChooseKernelSet("z80");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "z80"));
  EXPECT_TRUE(Contains(status, ChosenKernelSetName()));
}

// Every machine has at least one such set.
TEST(GemmTest, Kernels_Unfused_AreASetThatDoesNotFuse) {
  const std::string before = ChosenKernelSetName();
  ASSERT_OK(ChooseKernelSet("unfused"));
  EXPECT_FALSE(UsesFusedMultiplyAdd());
  EXPECT_STREQ(ArithmeticClassName(), "no fused multiply-adds");
  ASSERT_OK(ChooseKernelSet(before.c_str()));
}

TEST(GemmTest, Gemm_BetaZero_DoesNotReadC) {
  const Floats a = {1, 2}, b = {3, 4};
  Floats c = {std::numeric_limits<float>::quiet_NaN()};
  Gemm(RowMajor(a.data(), 1, 2), RowMajor(b.data(), 2, 1), /*add=*/false,
       RowMajor(c.data(), 1, 1));
  EXPECT_EQ(c[0], 11);
}

TEST(GemmTest, CheckGemm_ShapesDoNotMatch_IsRefused) {
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
