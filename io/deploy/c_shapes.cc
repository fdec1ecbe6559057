#include "c_shapes.h"

#include <algorithm>

#include "../../core/layers/layer_table.h"

namespace ringlet {
namespace {

// Steps from one element to the next along the axes of `to`, of a span of shape
// x that is repeated along those that it has not.
CInts StepsOver(const Shape& x, const Shape& to) {
  CInts steps(static_cast<size_t>(to.rank()));
  int64_t step = 1;
  for (int k = 1; k <= x.rank(); ++k) {
    const int64_t size = x[x.rank() - k];
    steps[static_cast<size_t>(to.rank() - k)] = size == 1 ? 0 : step;
    step *= size;
  }
  return steps;
}

}  // namespace

Shape ImageOf(const Shape& x) {
  return x.rank() == 2 ? Shape{1, x[0], x[1]} : x;
}

CInts CWindow::Numbers() const {
  return {from[0],     from[1],     from[2],   to[0],      to[1],
          to[2],       window[0],   window[1], strides[0], strides[1],
          dilation[0], dilation[1], before[0], before[1],  last};
}

CWindow PlaceWindow(const Layer& layer, const Shape& x, const Shape& y) {
  CWindow g = {ImageOf(x), ImageOf(y), {}, {}, {}, {}, 1};
  const bool line = ClassOf(layer).axes == 1;
  for (int i = 0; i < 2; ++i) {
    const bool none = line && i == 0;
    g.window[i] = none ? 1 : layer.window[i];
    g.strides[i] = none ? 1 : layer.strides[i];
    g.dilation[i] = none ? 1 : layer.dilation[i];
    const int64_t extent = (g.window[i] - 1) * g.dilation[i] + 1;
    if (layer.padding == kCausal) g.before[i] = extent - 1;
    if (layer.padding == kSame) {
      g.before[i] = std::max<int64_t>(
                        (g.to[i] - 1) * g.strides[i] + extent - g.from[i], 0) /
                    2;
    }
  }
  return g;
}

CWindow PointWindow(const Shape& from, int64_t filters) {
  return {from, {from[0], from[1], filters}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1};
}

CWindow WholeWindow(const Shape& input, bool max) {
  const Shape x = ImageOf(input);
  return {x, {1, 1, x[2]}, {x[0], x[1]}, {1, 1}, {1, 1}, {0, 0}, max};
}

CInts AxesOver(const Shape& a, const Shape& b, const Shape& to) {
  if (a == to && b == to) return {to.elements(), 1, 1};
  const CInts of_a = StepsOver(a, to), of_b = StepsOver(b, to);
  CInts axes;
  for (size_t k = 0; k < of_a.size(); ++k) {
    axes.insert(axes.end(), {to[static_cast<int>(k)], of_a[k], of_b[k]});
  }
  return axes;
}

CInts FrameAxes(const Shape& input, const Shape& output, bool pads) {
  const Shape x = ImageOf(input), y = ImageOf(output);
  const Shape& inner = pads ? x : y;
  return {inner[0], x[1] * x[2], y[1] * y[2], inner[1] * inner[2], 1, 1};
}

int64_t FrameBegin(const Layer& layer, const Shape& outer) {
  const Shape image = ImageOf(outer);
  return (layer.borders[0] * image[1] + layer.borders[2]) * image[2];
}

CInts UpSampleAxes(const Shape& input, const Shape& output) {
  const Shape x = ImageOf(input), y = ImageOf(output);
  const int64_t down = y[0] / x[0], across = y[1] / x[1], c = x[2],
                row = y[1] * c;
  return {x[0],       x[1] * c, down * row, down, 0, row, x[1], c,
          across * c, across,   0,          c,    c, 1,   1};
}

CInts PermuteAxes(const Layer& layer, const Shape& x, const Shape& y) {
  const CInts from = StepsOver(x, x), to = StepsOver(y, y);
  CInts axes;
  for (int i = 0; i < y.rank(); ++i) {
    axes.insert(axes.end(),
                {y[i], from[static_cast<size_t>(layer.shape[i] - 1)],
                 to[static_cast<size_t>(i)]});
  }
  return axes;
}

}  // namespace ringlet
