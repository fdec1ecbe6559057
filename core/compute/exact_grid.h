// Exact sums: numbers as multiples of powers of two.
//
// Floating-point sums depend on their grouping, sums of integers do not. A
// tensor is cut into blocks of 256 numbers; the last block may be shorter. A
// block has a scale s. All replicas round its numbers to multiples of 2^(s -
// 126), to nearest, ties to even. With R replicas a contribution is at most
// (2^31 - 1) / R, so sums need no more than 32 bits. Greater numbers are
// clamped; the block's greatest exponent shows that.
//
// The scales for the next sum follow from this sum, which all replicas have. A
// scale has 8 bits of headroom over the greatest magnitude of the block's mean.
// It is not finer than 2^-6 of its tensor's scale. Every function depends only
// on values: it gives the same bits on all machines, for any threads, and any
// cut into ranges.

#ifndef RINGLET_CORE_COMPUTE_EXACT_GRID_H_
#define RINGLET_CORE_COMPUTE_EXACT_GRID_H_

#include <cstdint>
#include <vector>

namespace ringlet {

constexpr int64_t kGridBlock = 256;
// The number of block exponents that a rank sends in one all-gather.
constexpr int64_t kGatheredExponents = 1 << 14;
// Scales, part of the checkpoints' format. The finest scale also means
// "not known yet". All but tiny numbers are then clamped, which makes the
// ranks gather their exponents and repeat the sum.
constexpr uint8_t kFinestScale = 0;
constexpr uint8_t kCoarsestScale = 252;

// The greatest magnitude of one replica's number in units of the scale.
float GridLimit(int replicas);

// The blocks in a row of tensors.
class GridLayout {
 public:
  void Add(int64_t numbers);  // the next tensor; may be empty
  int64_t numbers() const { return numbers_; }
  int64_t blocks() const { return blocks_; }
  int64_t tensors() const { return static_cast<int64_t>(tensors_.size()); }
  // The first block of a tensor; blocks() for the number of tensors.
  int64_t FirstBlock(int64_t tensor) const {
    return tensor < tensors() ? tensors_[tensor].first_block : blocks_;
  }

  // Calls part(block, first, last) for the parts of blocks in [begin, end), in
  // order.
  template <typename Part>
  void ForEach(int64_t begin, int64_t end, const Part& part) const {
    int64_t t = FindTensor(begin);
    while (begin < end) {
      while (t + 1 < tensors() && tensors_[t + 1].begin <= begin) ++t;
      const int64_t block = (begin - tensors_[t].begin) / kGridBlock;
      const int64_t next = t + 1 < tensors() ? tensors_[t + 1].begin : numbers_;
      int64_t last = tensors_[t].begin + (block + 1) * kGridBlock;
      if (last > next) last = next;
      if (last > end) last = end;
      part(tensors_[t].first_block + block, begin, last);
      begin = last;
    }
  }

 private:
  struct Tensor {
    int64_t begin, first_block;
  };
  int64_t FindTensor(int64_t number) const;

  std::vector<Tensor> tensors_;
  int64_t numbers_ = 0, blocks_ = 0;
};

// The biased exponents (bits 23 to 30) of floats. The greatest one determines
// the scale of a block. It is 0 for zero and denormal numbers, kNotFinite for
// infinity and NaN.
constexpr uint8_t kNotFinite = 255;

// The place of the integers.
enum class GridMode : uint8_t {
  // Over the floats, which must not be read until they are floats again.
  kInPlace,
  kSet,  // other memory
  kAdd   // added to the integers in other memory
};

// integers[i] = x[i] / 2^(scale - 126), for numbers of one block. With kAdd
// this is added to integers[i]. With kInPlace `integers` is x. *exponent
// becomes the maximum of itself and the numbers' exponents. False if a finite
// number was clamped. Infinity and NaN are treated as any number. The exponent
// shows whether there was one.
bool ToGrid(GridMode mode, const float* x, int64_t count, uint8_t scale,
            float limit, void* integers, uint8_t* exponent);
// x[i] = integers[i] * 2^(scale - 126), rounded once; `integers` may be x.
// Returns the greatest magnitude of `integers`.
uint32_t FromGrid(const void* integers, int64_t count, uint8_t scale, float* x);
// The greatest exponent of numbers of one block.
uint8_t LargestExponent(const float* x, int64_t count);

// The finest scale on which no number of that exponent is clamped.
uint8_t ScaleThatHolds(uint8_t exponent, float limit);

// Sets the scales of the next sums for a tensor's blocks [0, count). Block i
// had sums of at most greatest[i] units on the grid. If all sums are 0 they get
// the finest scale.
void NextScales(int64_t count, const uint32_t* greatest, uint8_t* scales);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_EXACT_GRID_H_
