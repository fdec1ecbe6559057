// The functions of an int8 model, as text for a C file and compiled here. So
// the results of a file can be measured before it is written.
//
// A number q means scale (q - zero). int32 sums are scaled by multiplier /
// 2^shift, rounded to nearest.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_
#define RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_

#include <cstdint>
#include <string>

#include "../lowering.h"

namespace ringlet {
namespace int8 {

// One bit for each function.
enum Kernel : uint32_t {
  kConv = 1,
  kPool = 2,
  kMerge = 4,
  kMap = 8,
  kCopy = 16,
  kFill = 32,
  kConvTranspose = 64,
  kGather = 128,
  kQuantize = 256,
  kSoftmax = 512,
  kNormalize = 1024,
  kAttend = 2048,
  kRecur = 4096,  // and the StepBit of each cell
  kScaledQuantize = 131072,
};
constexpr uint32_t StepBit(Cell cell) {
  return 8192u << static_cast<uint32_t>(cell);
}

// The text of the functions of these bits that use integers, and of the
// function that converts to floats.
std::string KernelText(uint32_t needed);
// The functions of these bits with floats between integer sums. They call
// quantize(), and expf() or root().
std::string FloatKernelText(uint32_t needed);
// The step of a recurrence, and its name. It calls add_state(c, h, first, z,
// n), which adds n sums of the state, from `first` on, to z.
const char* StepText(Cell cell);
const char* StepName(Cell cell);

// `g` is the geometry as for floats, then the zeros of x and y, and the shift.
// `w` is (filters, window height, window width, channels of a group). `b` has
// the initial sums and `m` the multipliers of the filters.
void Conv(const int8_t* x, int8_t* y, const int8_t* w, const int32_t* b,
          const int32_t* m, const int* g);
// A transposed convolution, with the parameters of Conv.
void ConvTranspose(const int8_t* x, int8_t* y, const int8_t* w,
                   const int32_t* b, const int32_t* m, const int* g);
// `g` is the geometry, the zeros, the shift, and one multiplier.
void Pool(const int8_t* x, int8_t* y, const int* g);
// `operation` is a MergeOperation. `g` has the axes, zero and multiplier of a,
// zero and multiplier of b, the zero of y, and the shift.
enum MergeOperation : uint8_t {
  kMergeAdd,
  kMergeMultiply,
  kMergeLarger,
  kMergeSmaller,
  kMergeSlopes,  // a, times b below 0
};
void Merge(int operation, const int8_t* a, const int8_t* b, int8_t* y, int axes,
           const int* g);
// Maps by a table of all 256 values; null copies.
void Map(const int8_t* x, int8_t* y, int n, const int8_t* table);
void Copy(const int8_t* x, int8_t* y, int axes, const int* g,
          const int8_t* table);
void Fill(int8_t* y, int n, int value);
void Quantize(const float* x, int8_t* y, int n, float factor, int zero);
// y = x factor + shift, rounded, with one factor and one shift for each
// channel. They include the scale and the zero of y.
void QuantizeScaled(const float* x, int8_t* y, int n, int channels,
                    const float* factors, const float* shifts);
void Dequantize(const int8_t* x, float* y, int n, float scale, int zero);
// TakeTokens converts floats to row numbers. Gather copies these rows of w,
// which has `rows` rows of n numbers.
void TakeTokens(const float* x, int32_t* y, int n);
void Gather(const int32_t* x, int8_t* y, int count, const int8_t* w, int rows,
            int n);

// --- integer sums, and floats between them -----------------------------------

// y is quantized with `factor` and `zero`, as by Quantize.
void Softmax(const int8_t* x, int8_t* y, int rows, int n, float scale,
             float factor, int zero);
// `epsilon` is divided by the square of the scale of x. `gamma` and `beta` may
// be null.
void Normalize(const int8_t* x, int8_t* y, int rows, int n, float epsilon,
               const float* gamma, const float* beta, float factor, int zero);
// g[0] queries, g[1] values, g[2] numbers of a key, g[3] numbers of a value,
// g[4] 1 if a query attends to no later value, g[5] to g[8] the zeros of q, k,
// v and y. `scale` multiplies the scores. `scores` has room for one for each
// value.
void Attend(const int8_t* q, const int8_t* k, const int8_t* v, int8_t* y,
            const int* g, float scale, float factor, float* scores);
// w and r have a row and a factor for each number of the gates. The state is
// quantized to int16 of at most `levels`, so that sums fit int32.
struct Recurrence {
  Cell cell;
  const int8_t *w, *r;
  const float *w_factors, *r_factors, *b;
  int units, gates, levels;
  Activation activation, gate;
};
// g[0] steps, g[1] features, g[2] floats that begin as 0 (the state, and
// scratch after it), g[3] 1 to begin with the last step, g[4] 1 for an output
// of all steps, g[5] 1 if this output begins with the last step, g[6] and g[7]
// the zeros of x and y. z has room for the gates and these g[2] floats, and q
// for the larger of features and units.
void Recur(const int8_t* x, int8_t* y, const Recurrence& recurrence,
           const int* g, float factor, float* z, int16_t* q);

}  // namespace int8
}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_KERNELS_H_
