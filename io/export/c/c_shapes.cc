#include "c_shapes.h"

namespace ringlet {
namespace {

// The steps along the axes of `to` in a span of shape x, which is repeated
// along the axes that it lacks.
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
  const Primitive::Window& w = window;
  return {from[0],       from[1],       from[2],     to[0],        to[1],
          to[2],         w.size[0],     w.size[1],   w.strides[0], w.strides[1],
          w.dilation[0], w.dilation[1], w.before[0], w.before[1],  last};
}

CWindow WindowOf(const Primitive& p, const Shape& x) {
  if (p.kind == Primitive::Kind::kMatMul) {  // each row is a pixel
    const int64_t rows = x.elements() / x.back();
    return {{1, rows, x.back()}, {1, rows, p.output.back()}, {}, 1};
  }
  const Shape from = ImageOf(x);
  const bool pools = p.kind == Primitive::Kind::kPool;
  return {from, p.covers_image ? Shape{1, 1, from[2]} : ImageOf(p.output),
          p.window, pools ? int64_t{p.is_max} : p.groups};
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

int64_t FrameBegin(const int64_t borders[4], const Shape& outer) {
  const Shape image = ImageOf(outer);
  return (borders[0] * image[1] + borders[2]) * image[2];
}

CInts RepeatAxes(const Shape& input, const Shape& output) {
  const Shape x = ImageOf(input), y = ImageOf(output);
  const int64_t down = y[0] / x[0], across = y[1] / x[1], c = x[2],
                row = y[1] * c;
  return {x[0],       x[1] * c, down * row, down, 0, row, x[1], c,
          across * c, across,   0,          c,    c, 1,   1};
}

CInts TransposeAxes(const Shape& dims, const Shape& x, const Shape& y) {
  const CInts from = StepsOver(x, x), to = StepsOver(y, y);
  CInts axes;
  for (int i = 0; i < y.rank(); ++i) {
    axes.insert(axes.end(), {y[i], from[static_cast<size_t>(dims[i] - 1)],
                             to[static_cast<size_t>(i)]});
  }
  return axes;
}

}  // namespace ringlet
