// Both ends compute the layout of a block from its length (BlockLayout), so no
// message has a length of its own. The bytes come from other workers:
// GetPositions refuses positions that do not ascend or are outside the block.
// Ties of magnitude go to the lowest positions, since every machine must
// choose the same numbers.

#include "sparse_delta.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "../compute/exact_grid.h"

namespace ringlet {
namespace {

constexpr int kValueBits = 4;
constexpr float kLimit = 7;  // the greatest rounded number
// The greatest magnitude of a block may be rounded to it, and is then clamped
// to kLimit.
constexpr float kHolds = 8;

// The layout of a message, which follows from the length of the block.
struct BlockLayout {
  explicit BlockLayout(int64_t n) : count(n), kept(std::min(n, kSparseKept)) {
    while (kept << (low_bits + 1) <= count) ++low_bits;
  }
  bool all() const { return kept == count; }
  int64_t high_at() const { return kept * low_bits; }  // in bits
  int64_t high_bits() const { return kept + ((count - 1) >> low_bits); }
  int64_t values_at() const { return all() ? 0 : high_at() + high_bits(); }
  int64_t bits() const { return values_at() + kValueBits * kept; }

  int64_t count, kept;
  int low_bits = 0;
};

void PutBits(unsigned char* bytes, int64_t first_bit, int bits,
             uint32_t value) {
  for (int i = 0; i < bits; ++i, ++first_bit) {
    const uint32_t bit = value >> i & 1;
    bytes[first_bit / 8] = static_cast<unsigned char>(bytes[first_bit / 8] |
                                                      bit << (first_bit % 8));
  }
}

uint32_t GetBits(const unsigned char* bytes, int64_t first_bit, int bits) {
  uint32_t value = 0;
  for (int i = 0; i < bits; ++i, ++first_bit) {
    value |= static_cast<uint32_t>(bytes[first_bit / 8] >> (first_bit % 8) & 1)
             << i;
  }
  return value;
}

uint32_t MagnitudeBits(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits & 0x7fffffff;
}

// Chooses the positions of the `kept` greatest magnitudes, in ascending order.
void ChooseLargest(const float* x, const BlockLayout& shape, int* positions) {
  uint32_t sorted[kSparseBlock];
  for (int64_t i = 0; i < shape.count; ++i) sorted[i] = MagnitudeBits(x[i]);
  uint32_t* const end = sorted + shape.count;
  uint32_t* const smallest_kept = end - shape.kept;
  std::nth_element(sorted, smallest_kept, end);
  const uint32_t threshold = *smallest_kept;
  int64_t ties = std::count(smallest_kept, end, threshold);
  for (int64_t i = 0; i < shape.count; ++i) {
    const uint32_t magnitude = MagnitudeBits(x[i]);
    if (magnitude < threshold) continue;
    if (magnitude == threshold && ties-- <= 0) continue;
    *positions++ = static_cast<int>(i);
  }
}

void PutPositions(const int* positions, const BlockLayout& shape,
                  unsigned char* bits) {
  const int low = shape.low_bits;
  for (int64_t i = 0; i < shape.kept; ++i) {
    PutBits(bits, i * low, low, static_cast<uint32_t>(positions[i]));
    PutBits(bits, shape.high_at() + (positions[i] >> low) + i, 1, 1);
  }
}

bool GetPositions(const unsigned char* bits, const BlockLayout& shape,
                  int* positions) {
  int64_t found = 0;
  int before = -1;
  for (int64_t b = 0; b < shape.high_bits(); ++b) {
    if (GetBits(bits, shape.high_at() + b, 1) == 0) continue;
    if (found == shape.kept) return false;
    const auto high = static_cast<uint32_t>(b - found);
    const uint32_t low = GetBits(bits, found * shape.low_bits, shape.low_bits);
    const auto position = static_cast<int>(high << shape.low_bits | low);
    if (position <= before || position >= shape.count) return false;
    positions[found++] = before = position;
  }
  return found == shape.kept;
}

}  // namespace

size_t SparseBytes(int64_t count) {
  return 1 + static_cast<size_t>((BlockLayout(count).bits() + 7) / 8);
}

size_t SparseBytesOf(int64_t numbers) {
  const int64_t rest = numbers % kSparseBlock;
  return static_cast<size_t>(numbers / kSparseBlock) *
             SparseBytes(kSparseBlock) +
         (rest > 0 ? SparseBytes(rest) : 0);
}

void EncodeSparse(const float* delta, int64_t count, float* error,
                  unsigned char* message) {
  const BlockLayout shape(count);
  for (int64_t i = 0; i < count; ++i) {
    error[i] = kSparseDecay * error[i] + delta[i];
  }
  std::memset(message, 0, SparseBytes(count));
  message[0] = LargestExponent(error, count);
  if (message[0] == kNotFinite) return;
  unsigned char* const bits = message + 1;
  int positions[kSparseKept];
  ChooseLargest(error, shape, positions);
  if (!shape.all()) PutPositions(positions, shape, bits);
  float values[kSparseKept];
  int32_t integers[kSparseKept];
  for (int64_t i = 0; i < shape.kept; ++i) values[i] = error[positions[i]];
  const uint8_t scale = ScaleThatHolds(message[0], kHolds);
  uint8_t exponent = 0;
  (void)ToGrid(GridMode::kSet, values, shape.kept, scale, kLimit, integers,
               &exponent);
  (void)FromGrid(integers, shape.kept, scale, values);
  for (int64_t i = 0; i < shape.kept; ++i) {
    error[positions[i]] -= values[i];
    PutBits(bits, shape.values_at() + i * kValueBits, kValueBits,
            static_cast<uint32_t>(integers[i]));
  }
}

bool AddSparse(const unsigned char* message, int64_t count, float* sum) {
  const BlockLayout shape(count);
  if (message[0] == kNotFinite) {
    std::fill_n(sum, count, std::numeric_limits<float>::quiet_NaN());
    return true;
  }
  const unsigned char* const bits = message + 1;
  int positions[kSparseKept];
  if (!shape.all() && !GetPositions(bits, shape, positions)) return false;
  float values[kSparseKept];
  int32_t integers[kSparseKept];
  for (int64_t i = 0; i < shape.kept; ++i) {
    const auto value = static_cast<int32_t>(
        GetBits(bits, shape.values_at() + i * kValueBits, kValueBits));
    integers[i] = value < 8 ? value : value - 16;
    if (shape.all()) positions[i] = static_cast<int>(i);
  }
  (void)FromGrid(integers, shape.kept, ScaleThatHolds(message[0], kHolds),
                 values);
  for (int64_t i = 0; i < shape.kept; ++i) sum[positions[i]] += values[i];
  return true;
}

}  // namespace ringlet
