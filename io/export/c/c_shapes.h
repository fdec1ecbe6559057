// The places of a layer's numbers, for the functions of a model in C.
//
// An axis has three numbers: a count, and the steps from one element to the
// next in each of two spans.

#ifndef RINGLET_IO_EXPORT_C_C_SHAPES_H_
#define RINGLET_IO_EXPORT_C_C_SHAPES_H_

#include <cstdint>
#include <vector>

#include "../lowering.h"
#include "ringlet/shape.h"

namespace ringlet {

using CInts = std::vector<int64_t>;

// The shape of an image; with one axis its height is 1.
Shape ImageOf(const Shape& x);

// A window over images (height, width, channels).
struct CWindow {
  Shape from, to;
  Primitive::Window window;
  // conv(): the number of groups; pool(): 1 for maxima, 0 for means.
  int64_t last;
  CInts Numbers() const;  // the arguments of conv() and pool()
};
// The window of a kConv, kPool or kMatMul over x.
CWindow WindowOf(const Primitive& primitive, const Shape& x);

// The axes of a and b, repeated along the axes of `to` that they lack.
CInts AxesOver(const Shape& a, const Shape& b, const Shape& to);
CInts FrameAxes(const Shape& x, const Shape& y, bool pads);
// The offset of the first copied number in the larger of the two images.
int64_t FrameBegin(const int64_t borders[4], const Shape& outer);
CInts RepeatAxes(const Shape& x, const Shape& y);
// Axis i of y is axis dims[i] of x, counted from 1.
CInts TransposeAxes(const Shape& dims, const Shape& x, const Shape& y);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_SHAPES_H_
