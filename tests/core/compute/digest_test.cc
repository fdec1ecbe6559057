// Digests of weights depend on bits and places, and on no number of threads and
// no machine.

#include "core/compute/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/text.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

std::vector<float> Values(int64_t count) {
  const Philox random(3, 4);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(Philox::Unit(random.At(static_cast<uint64_t>(i))[0]) -
                     0.5f);
  }
  return values;
}

uint64_t Digest(const std::vector<float>& values, int threads = 1) {
  ThreadPool pool(threads);
  return ComputeDigest(values.data(), static_cast<int64_t>(values.size()),
                       &pool);
}

// tests/digests.txt depends on these values.
TEST(DigestTest, Digest_AnyMachine_IsTheRecordedOne) {
  EXPECT_EQ(HexText(Digest({})), "0000000000000000");
  EXPECT_EQ(HexText(Digest({1, -2.5f, 0})), "df3b93f88bc73efd");
  EXPECT_EQ(HexText(Digest(Values(100001))), "f81bc0122380772c");
}

TEST(DigestTest, Digest_AnyNumberOfThreads_IsTheSame) {
  for (const int64_t count : {0, 1, 2, 16384, 32767, 32768, 32769, 200001}) {
    const std::vector<float> values = Values(count);
    const uint64_t one = Digest(values);
    for (int threads = 2; threads <= 5; ++threads) {
      EXPECT_EQ(Digest(values, threads), one) << count << ", " << threads;
    }
  }
}

TEST(DigestTest, Digest_AnyBitFlipped_Differs) {
  for (const int64_t count : {1, 2, 7, 500}) {
    const std::vector<float> values = Values(count);
    const uint64_t usual = Digest(values);
    for (size_t i = 0; i < values.size(); ++i) {
      for (int bit = 0; bit < 32; ++bit) {
        std::vector<float> other = values;
        uint32_t bits;
        std::memcpy(&bits, &other[i], sizeof(bits));
        bits ^= uint32_t{1} << bit;
        std::memcpy(&other[i], &bits, sizeof(bits));
        ASSERT_NE(Digest(other), usual) << i << " of " << count << ", " << bit;
      }
    }
  }
}

TEST(DigestTest, Digest_NanOfOtherBits_IsTheSame) {
  for (const int64_t count : {1, 2, 7, 500}) {
    std::vector<float> values = Values(count);
    const uint64_t usual = Digest(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float number = values[i];
      std::vector<uint64_t> digests;
      for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u}) {
        std::memcpy(&values[i], &bits, sizeof(bits));
        digests.push_back(Digest(values));
      }
      EXPECT_NE(digests[0], usual);
      EXPECT_EQ(digests[1], digests[0]);
      EXPECT_EQ(digests[2], digests[0]);
      values[i] = number;
    }
  }
}

TEST(DigestTest, Digest_ValuesSwappedOrOneMore_Differs) {
  const std::vector<float> values = Values(300);
  const uint64_t usual = Digest(values);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::vector<float> other = values;
      std::swap(other[i], other[j]);
      ASSERT_NE(Digest(other), usual) << i << ", " << j;
    }
  }
  EXPECT_NE(Digest(std::vector<float>(8)), Digest(std::vector<float>(9)));
}

}  // namespace
}  // namespace ringlet
