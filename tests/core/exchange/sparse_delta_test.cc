// Compares the messages of sparse changes with a simple encoder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "core/exchange/sparse_delta.h"

namespace ringlet {
namespace {

struct Sent {
  std::vector<float> values, error;
};

// Sorts all, and rounds with the C library.
Sent Plain(const std::vector<float>& delta, const std::vector<float>& error) {
  const size_t n = delta.size();
  std::vector<float> e(n);
  for (size_t i = 0; i < n; ++i) {
    const float kept = kSparseDecay * error[i];
    e[i] = kept + delta[i];
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::fabs(e[a]) > std::fabs(e[b]);
  });
  Sent sent{std::vector<float>(n, 0.0f), e};
  const float greatest = std::fabs(e[order[0]]);
  const int above = greatest < 0x1p-126f ? -125 : std::ilogb(greatest) + 1;
  const float unit = std::ldexp(1.0f, std::max(above - 3, -126));
  for (size_t k = 0; k < std::min<size_t>(n, 64); ++k) {
    const size_t i = order[k];
    const float levels = std::nearbyint(e[i] / unit);
    sent.values[i] = std::min(7.0f, std::max(-7.0f, levels)) * unit;
    sent.error[i] -= sent.values[i];
  }
  return sent;
}

// Random numbers of many magnitudes, with ties and zeros among them.
std::vector<float> Numbers(size_t n, int kind, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) {
    switch (kind) {
      case 0:
        v = normal(*random);
        break;
      case 1:
        v = std::exp(3 * normal(*random)) * normal(*random);
        break;
      case 2:
        v = static_cast<float>((*random)() % 5) - 2;
        break;
      case 3:
        v = (*random)() % 200 == 0 ? normal(*random) : 0;
        break;
      case 4:
        v = 1e-41f * normal(*random);
        break;
      case 5:
        v = 1e37f * normal(*random);
        break;
      default:
        v = 0;
        break;
    }
  }
  return x;
}

constexpr size_t kSizes[] = {1,   2,   3,   63,  64,   65,   100,  127, 128,
                             129, 250, 255, 256, 1000, 4000, 4095, 4096};

TEST(SparseDeltaTest, Encode_AnyDelta_SendsTheGreatestAndKeepsTheRest) {
  std::mt19937 random(5);
  for (const size_t n : kSizes) {
    for (int kind = 0; kind < 7; ++kind) {
      SCOPED_TRACE(std::to_string(n) + " " + std::to_string(kind));
      std::vector<float> error(n, 0.0f), wanted = error;
      for (int round = 0; round < 3; ++round) {
        const std::vector<float> delta = Numbers(n, kind, &random);
        const auto count = static_cast<int64_t>(n);
        std::vector<unsigned char> message(SparseBytes(count));
        EncodeSparse(delta.data(), count, error.data(), message.data());
        const Sent plain = Plain(delta, wanted);
        wanted = plain.error;
        EXPECT_EQ(error, wanted);
        std::vector<float> sum(n, 0.0f);
        ASSERT_TRUE(AddSparse(message.data(), count, sum.data()));
        EXPECT_EQ(sum, plain.values);
      }
    }
  }
}

// `ringlet plan` counts these bytes, and docs/ state them.
TEST(SparseDeltaTest, SparseBytes_BlockOf4096_Takes97Bytes) {
  EXPECT_EQ(SparseBytes(4096), 97u);  // 64 times 6 + 4 bits, 127, and a byte
  EXPECT_EQ(SparseBytes(64), 33u);
  EXPECT_EQ(SparseBytes(1), 2u);
  EXPECT_EQ(SparseBytesOf(4096 * 3 + 64), 3 * 97u + 33u);
  EXPECT_EQ(SparseBytesOf(4096), 97u);
}

TEST(SparseDeltaTest, Encode_NumberNotFinite_DecodesToNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), NAN}) {
    std::vector<float> delta(300, 1.0f), error(300, 0.0f), sum(300, 2.0f);
    delta[17] = bad;
    std::vector<unsigned char> message(SparseBytes(300));
    EncodeSparse(delta.data(), 300, error.data(), message.data());
    ASSERT_TRUE(AddSparse(message.data(), 300, sum.data()));
    for (const float s : sum) EXPECT_TRUE(std::isnan(s));
  }
}

// Any bytes decode to 64 places in order, or are refused. Only the given span
// is written.
TEST(SparseDeltaTest, Add_DamagedBytes_AreRefusedOrInBounds) {
  std::mt19937 random(6);
  int refused = 0, taken = 0;
  for (const size_t n : kSizes) {
    const auto count = static_cast<int64_t>(n);
    for (int trial = 0; trial < 300; ++trial) {
      const std::vector<float> delta = Numbers(n, trial % 4, &random);
      std::vector<float> error(n, 0.0f), sum(n, 0.0f);
      std::vector<unsigned char> message(SparseBytes(count));
      EncodeSparse(delta.data(), count, error.data(), message.data());
      for (unsigned flips = random() % 8; flips > 0; --flips) {
        message[random() % message.size()] ^=
            static_cast<unsigned char>(1u << random() % 8);
      }
      (AddSparse(message.data(), count, sum.data()) ? taken : refused) += 1;
    }
    for (const unsigned char all : {0x00, 0xff}) {
      std::vector<float> sum(n, 0.0f);
      std::vector<unsigned char> message(SparseBytes(count), all);
      message[0] = 127;
      const bool is = AddSparse(message.data(), count, sum.data());
      EXPECT_EQ(is, n <= 64) << n;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace ringlet
