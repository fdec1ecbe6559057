#include "digest.h"

#include <atomic>
#include <cmath>
#include <cstring>

namespace ringlet {
namespace {

constexpr uint32_t kStep = 0x9e3779b9;  // odd, so that all keys differ
constexpr uint32_t kNan = 0x7fc00000;

uint32_t BitsOf(const float* value) {
  uint32_t bits;
  std::memcpy(&bits, value, sizeof(bits));
  return std::isnan(*value) ? kNan : bits;
}

// The part of the sum for values[begin, end); begin is even.
uint64_t SumOfPairs(const float* values, Range part) {
  uint32_t key = static_cast<uint32_t>(part.begin / 2) * kStep;
  uint64_t sum = 0;
  for (int64_t i = part.begin; i + 1 < part.end; i += 2) {
    key += kStep;
    sum += uint64_t{BitsOf(values + i) ^ key} * (BitsOf(values + i + 1) ^ ~key);
  }
  if (part.size() % 2 == 0) return sum;
  key += kStep;
  return sum + uint64_t{BitsOf(values + part.end - 1) ^ key} * ~key;
}

// Applies the finalizer of MurmurHash3: each bit of `h` changes about half of
// all bits.
uint64_t MixBits(uint64_t h) {
  h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
  h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return h ^ h >> 33;
}

}  // namespace

uint64_t ComputeDigest(const float* values, int64_t count, ThreadPool* pool) {
  constexpr int64_t kGrain = 1 << 14;  // the least values of a thread
  std::atomic<uint64_t> sum{0};
  if (count < 2 * kGrain) {
    sum = SumOfPairs(values, {0, count});
  } else {
    pool->Run([&](int t) {
      sum += SumOfPairs(values, Split(count, pool->threads(), t, kGrain));
    });
  }
  return MixBits(sum + static_cast<uint64_t>(count));
}

void CopyWithOneNan(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = BitsOf(from + i);
    std::memcpy(to + i, &bits, sizeof(bits));
  }
}

}  // namespace ringlet
