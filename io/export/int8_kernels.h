// The functions of an int8 model, as text for a C file and compiled here. So
// the results of a file can be measured before it is written.
//
// A number q means scale (q - zero). int32 sums are scaled by multiplier /
// 2^shift, rounded to nearest.

#ifndef RINGLET_IO_EXPORT_INT8_KERNELS_H_
#define RINGLET_IO_EXPORT_INT8_KERNELS_H_

#include <cstdint>
#include <string>

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
};

// The functions of these bits, and those that convert from and to floats.
std::string KernelText(uint32_t needed);

// `g` is the geometry as for floats, then the zeros of x and y, and the shift.
// `w` is (filters, window height, window width, channels of a group). `b` has
// the initial sums and `m` the multipliers of the filters.
void Conv(const int8_t* x, int8_t* y, const int8_t* w, const int32_t* b,
          const int32_t* m, const int* g);
// `g` is the geometry, the zeros, the shift, and one multiplier.
void Pool(const int8_t* x, int8_t* y, const int* g);
// `operation` is a MergeOperation. `g` is the axes, then zero and multiplier of
// a, those of b, the zero of y and the shift.
enum MergeOperation : uint8_t {
  kMergeAdd,
  kMergeMultiply,
  kMergeLarger,
  kMergeSmaller,
};
void Merge(int operation, const int8_t* a, const int8_t* b, int8_t* y, int axes,
           const int* g);
// Maps by a table of all 256 values; null copies.
void Map(const int8_t* x, int8_t* y, int n, const int8_t* table);
void Copy(const int8_t* x, int8_t* y, int axes, const int* g,
          const int8_t* table);
void Fill(int8_t* y, int n, int value);
void Quantize(const float* x, int8_t* y, int n, float factor, int zero);
void Dequantize(const int8_t* x, float* y, int n, float scale, int zero);

}  // namespace int8
}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_KERNELS_H_
