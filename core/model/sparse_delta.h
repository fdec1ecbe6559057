// SparseDelta: of what a replica changed, the few largest numbers.
//
// Internal to core/. A block is 4,096 neighbours of a tensor, the last of which
// may be shorter. Its message has its 64 numbers of the greatest magnitude, or
// all that there are, with 4 bits each; what it does not have stays in the
// replica's error feedback e and is sent later (arXiv 1809.07599):
//
//   e = 0.95 e + d;  message = the greatest of e, rounded;  e = e - message
//
// A message is a byte with the greatest exponent of the block (ExponentOf),
// from which the scale of all its numbers follows, and then bits, the low ones
// of a byte first: the low bits of the k positions in ascending order, so many
// as k * 2^bits <= count allows; the rest of each in unary, as a one at bit
// (position >> bits) + its number (Elias-Fano); k numbers from -7 to 7, as 4
// bits in two's complement. Positions are left out where all numbers are there.

#ifndef RINGLET_CORE_MODEL_SPARSE_DELTA_H_
#define RINGLET_CORE_MODEL_SPARSE_DELTA_H_

#include <cstddef>
#include <cstdint>

namespace ringlet {

constexpr int64_t kSparseBlock = 4096;
constexpr int64_t kSparseKept = 64;
constexpr float kSparseDecay = 0.95f;

// Of 1 <= count <= kSparseBlock numbers.
size_t SparseBytes(int64_t count);
// Of a tensor.
size_t SparseBytesOf(int64_t numbers);

// A block's: `error` is e before and after; it and `delta` have `count` numbers
// and `message` SparseBytes(count). Of magnitudes that are the same the lower
// indices go first. Where e has a number that is not finite the message says
// so, of the whole block.
void EncodeSparse(const float* delta, int64_t count, float* error,
                  unsigned char* message);

// sum[i] += what the message has, NaN to all of a block that is not finite.
// False where it is no message, and then `sum` is undefined.
bool AddSparse(const unsigned char* message, int64_t count, float* sum);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_SPARSE_DELTA_H_
