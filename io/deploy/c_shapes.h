// Where a layer's numbers are, for the functions of a model in C.
//
// Internal to io/deploy. Axes are three numbers each: how many, and the steps
// from one to the next in the two spans that are gone through.

#ifndef RINGLET_IO_DEPLOY_C_SHAPES_H_
#define RINGLET_IO_DEPLOY_C_SHAPES_H_

#include <cstdint>
#include <vector>

#include "../../core/base/shape.h"
#include "../../core/layers/layers.h"

namespace ringlet {

using CInts = std::vector<int64_t>;

// A line of an image has a height of 1.
Shape ImageOf(const Shape& x);

// A window over images (height, width, channels).
struct CWindow {
  Shape from, to;
  int64_t window[2], strides[2], dilation[2], before[2];
  int64_t last;           // groups, or whether it is of maxima
  CInts Numbers() const;  // as conv() and pool() take them
};
// The layer's, in one group.
CWindow PlaceWindow(const Layer& layer, const Shape& x, const Shape& y);
// Windows of one pixel; and one of the whole image.
CWindow PointWindow(const Shape& from, int64_t filters);
CWindow WholeWindow(const Shape& x, bool max);

// Of a and b, repeated along the axes of `to` that they have not.
CInts AxesOver(const Shape& a, const Shape& b, const Shape& to);
CInts FrameAxes(const Shape& x, const Shape& y, bool pads);
// Of the first number that is copied, in the larger of the two images.
int64_t FrameBegin(const Layer& layer, const Shape& outer);
CInts UpSampleAxes(const Shape& x, const Shape& y);
CInts PermuteAxes(const Layer& layer, const Shape& x, const Shape& y);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_C_SHAPES_H_
