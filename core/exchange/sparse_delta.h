// The encoding of the few largest numbers of a replica's change.
//
// A block is 4,096 neighbours of a tensor; the last block may be shorter. Its
// message has the 64 numbers of the greatest magnitude, or all if there are
// fewer, with 4 bits each. The rest stays in the replica's error feedback e and
// is sent later (arXiv 1809.07599):
//
//   e = 0.95 e + d;  message = the greatest of e, rounded;  e = e - message
//
// A message begins with a byte: the greatest exponent of the block
// (LargestExponent), from which the scale of its numbers follows. Bits follow,
// the low ones of a byte first. First come the low bits of the k positions, in
// ascending order, as many as k * 2^bits <= count permits. Then comes the rest
// of each position in unary: a one at bit (position >> bits) + its index
// (Elias-Fano). Last come k numbers from -7 to 7, in two's complement of 4
// bits. A message with all numbers has no positions.

#ifndef RINGLET_CORE_EXCHANGE_SPARSE_DELTA_H_
#define RINGLET_CORE_EXCHANGE_SPARSE_DELTA_H_

#include <cstddef>
#include <cstdint>

namespace ringlet {

constexpr int64_t kSparseBlock = 4096;
constexpr int64_t kSparseKept = 64;
constexpr float kSparseDecay = 0.95f;

// The encoded bytes of 1 <= count <= kSparseBlock numbers.
size_t SparseBytes(int64_t count);
// The sum for a tensor of `numbers` numbers.
size_t SparseBytesOf(int64_t numbers);

// Encodes a block. `error` is e before and after. `error` and `delta` have
// `count` numbers, `message` has SparseBytes(count) bytes. Among equal
// magnitudes the lower indices go first. If a number of e is not finite, the
// message marks the whole block as not finite.
void EncodeSparse(const float* delta, int64_t count, float* error,
                  unsigned char* message);

// Adds the numbers of the message to `sum`; a block that is not finite adds NaN
// to all. Returns false if the message is invalid; `sum` is then undefined.
bool AddSparse(const unsigned char* message, int64_t count, float* sum);

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_SPARSE_DELTA_H_
