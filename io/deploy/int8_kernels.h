// The functions of a model in int8: in a C file as text, and here the same ones
// compiled, so that what a file computes can be measured before it is written.
//
// Internal to io/deploy. A number q stands for scale (q - zero); int32 sums are
// scaled by multiplier / 2^shift, rounded to the nearest.

#ifndef RINGLET_IO_DEPLOY_INT8_KERNELS_H_
#define RINGLET_IO_DEPLOY_INT8_KERNELS_H_

#include <cstdint>
#include <string>

namespace ringlet {
namespace int8 {

// A bit each.
enum Kernel : uint32_t {
  kConv = 1,
  kPool = 2,
  kMerge = 4,
  kMap = 8,
  kCopy = 16,
  kFill = 32,
};

// Of these bits, and what reads and writes floats.
std::string KernelText(uint32_t needed);

// Geometry g as of floats, then the zeros of x and y, and the shift. w:
// (filters, window height, width, channels of a group); b: sums to begin with;
// m: multipliers of the filters.
void Conv(const int8_t* x, int8_t* y, const int8_t* w, const int32_t* b,
          const int32_t* m, const int* g);
// Geometry, the zeros, the shift, and one multiplier.
void Pool(const int8_t* x, int8_t* y, const int* g);
// 0 adds, 1 multiplies, 2 and 3 take the larger and the smaller. g: the axes,
// then zero and multiplier of a, those of b, the zero of y and the shift.
void Merge(int what, const int8_t* a, const int8_t* b, int8_t* y, int axes,
           const int* g);
// By a table of all 256 values; null: as it is.
void Map(const int8_t* x, int8_t* y, int n, const int8_t* table);
void Copy(const int8_t* x, int8_t* y, int axes, const int* g,
          const int8_t* table);
void Fill(int8_t* y, int n, int value);
void Quantize(const float* x, int8_t* y, int n, float factor, int zero);
void Dequantize(const int8_t* x, float* y, int n, float scale, int zero);

}  // namespace int8
}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_INT8_KERNELS_H_
