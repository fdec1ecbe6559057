// ExactGrid: numbers as whole multiples of powers of two, whose sums are exact.
//
// Internal to core/. Floating-point sums depend on how they are grouped, sums
// of integers do not. A tensor is cut into blocks of 256 numbers, the last of
// which may be shorter; by a block's scale s all replicas take its numbers for
// multiples of 2^(s - 126), rounded to nearest, ties to even. With R replicas a
// contribution is at most (2^31 - 1) / R, so sums need no more than 32 bits.
// What is beyond is clamped, and found by the block's greatest exponent.
//
// Scales for the next sum follow from this one, which all replicas have: 8 bits
// of head-room over the greatest magnitude of the block's mean, and no block's
// finer than 2^-6 of its tensor's. Every function is of values alone: the same
// bits on all machines, for any threads, and any cut into ranges.

#ifndef RINGLET_CORE_COMPUTE_EXACT_GRID_H_
#define RINGLET_CORE_COMPUTE_EXACT_GRID_H_

#include <cstdint>
#include <vector>

namespace ringlet {

constexpr int64_t kGridBlock = 256;
// Scales, part of the checkpoints' format. The finest is that of a block of
// which nothing is known: contributions are zero, or clamped, so that the
// exponents are asked for.
constexpr uint8_t kFinestScale = 0;
constexpr uint8_t kCoarsestScale = 252;

// The greatest magnitude of one replica's number in units of the scale.
float GridLimit(int replicas);

// Which numbers of a row of tensors are a block.
class GridLayout {
 public:
  void Add(int64_t numbers);  // the next tensor; may be empty
  int64_t numbers() const { return numbers_; }
  int64_t blocks() const { return blocks_; }
  int64_t tensors() const { return static_cast<int64_t>(tensors_.size()); }
  // The blocks [begin, end) of a tensor.
  int64_t FirstBlock(int64_t tensor) const {
    return tensor < tensors() ? tensors_[tensor].first_block : blocks_;
  }

  // part(block, first, last) for the parts of blocks that [begin, end) covers,
  // in their order.
  template <typename Part>
  void ForEach(int64_t begin, int64_t end, const Part& part) const {
    int64_t t = TensorOf(begin);
    while (begin < end) {
      while (t + 1 < tensors() && tensors_[t + 1].begin <= begin) ++t;
      const int64_t within = (begin - tensors_[t].begin) / kGridBlock;
      const int64_t next = t + 1 < tensors() ? tensors_[t + 1].begin : numbers_;
      int64_t last = tensors_[t].begin + (within + 1) * kGridBlock;
      if (last > next) last = next;
      if (last > end) last = end;
      part(tensors_[t].first_block + within, begin, last);
      begin = last;
    }
  }

 private:
  struct Tensor {
    int64_t begin, first_block;
  };
  int64_t TensorOf(int64_t number) const;

  std::vector<Tensor> tensors_;
  int64_t numbers_ = 0, blocks_ = 0;
};

// The biased exponents (bits 23 to 30) of floats, of which the greatest says
// what a block needs: 0 of zero and denormal ones, kNotFinite of infinity and
// NaN.
constexpr uint8_t kNotFinite = 255;

// Where the whole numbers go: over the floats, behind whose bits nobody looks
// meanwhile, to memory of their own, or added to those that are there.
enum class GridMode : uint8_t { kInPlace, kSet, kAdd };

// whole[i] = x[i] / 2^(scale - 126), or += that, for numbers of one block;
// `whole` is x where they go over it. *exponent becomes the greatest of itself
// and the numbers'. False where a finite one was clamped. What is not finite is
// a number like any other here: the exponent tells.
bool ToGrid(GridMode mode, const float* x, int64_t count, uint8_t scale,
            float limit, void* whole, uint8_t* exponent);
// x[i] = whole[i] * 2^(scale - 126), rounded once; `whole` may be x. Returns
// the greatest magnitude of `whole`.
uint32_t FromGrid(const void* whole, int64_t count, uint8_t scale, float* x);
// The greatest exponent of numbers of one block.
uint8_t ExponentOf(const float* x, int64_t count);

// The finest scale on which no number of that exponent is clamped.
uint8_t ScaleThatHolds(uint8_t exponent, float limit);

// Of a tensor's blocks [0 … count), whose sums on the grid were at most
// greatest[i] units: the scales of the next sums. Where all sums
// are 0 nothing is known.
void NextScales(int64_t count, const uint32_t* greatest, uint8_t* scales);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_EXACT_GRID_H_
