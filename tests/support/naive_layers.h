// Reference implementations of the layers: loops over the definitions, in
// double.

#ifndef RINGLET_TESTS_SUPPORT_NAIVE_LAYERS_H_
#define RINGLET_TESTS_SUPPORT_NAIVE_LAYERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/layers/layer_kind.h"
#include "naive_activations.h"
#include "ringlet/layers.h"

namespace ringlet {
namespace naive {

using Floats = std::vector<float>;

struct Geometry {
  int64_t out, before;
};
// TensorFlow's rule for one axis. `window` is the size from its first pixel to
// its last.
inline Geometry Axis(int64_t in, int64_t window, int64_t stride,
                     PaddingMode padding) {
  if (padding == kValid) return {(in - window) / stride + 1, 0};
  const int64_t out = (in + stride - 1) / stride;
  if (padding == kCausal) return {out, window - 1};
  return {out, std::max<int64_t>((out - 1) * stride + window - in, 0) / 2};
}
inline Geometry AxisOf(const Layer& l, int axis, int64_t in) {
  return Axis(in, (l.window[axis] - 1) * l.dilation[axis] + 1, l.strides[axis],
              l.padding);
}

// A depthwise convolution is one of as many groups as channels.
inline Floats Conv2DForward(const Layer& l, const Shape& x_shape, int64_t batch,
                            const Floats& x, const Floats& w, const Floats& b,
                            int64_t groups = 1) {
  const int64_t H = x_shape[0], W = x_shape[1], C = x_shape[2], F = l.units;
  const int64_t G = C / groups;  // channels of a group
  const Geometry gy = AxisOf(l, 0, H), gx = AxisOf(l, 1, W);
  Floats y;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t oy = 0; oy < gy.out; ++oy) {
      for (int64_t ox = 0; ox < gx.out; ++ox) {
        for (int64_t f = 0; f < F; ++f) {
          double z = b.empty() ? 0 : b[f];
          for (int64_t ky = 0; ky < l.window[0]; ++ky) {
            for (int64_t kx = 0; kx < l.window[1]; ++kx) {
              const int64_t iy =
                  oy * l.strides[0] + ky * l.dilation[0] - gy.before;
              const int64_t ix =
                  ox * l.strides[1] + kx * l.dilation[1] - gx.before;
              if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
              const int64_t first = f / (F / groups) * G;
              for (int64_t c = 0; c < G; ++c) {
                z += double{x[((n * H + iy) * W + ix) * C + first + c]} *
                     w[((ky * l.window[1] + kx) * G + c) * F + f];
              }
            }
          }
          y.push_back(static_cast<float>(Activate(l.activation, z)));
        }
      }
    }
  }
  return y;
}

// Each pixel of x adds the kernel (height, width, filters, channels) to a
// window of the output, with the geometry of a convolution of the output.
inline Floats Conv2DTransposeForward(const Layer& l, const Shape& x_shape,
                                     const Shape& y_shape, int64_t batch,
                                     const Floats& x, const Floats& w,
                                     const Floats& b) {
  const int64_t H = x_shape[0], W = x_shape[1], C = x_shape[2], F = l.units;
  const Geometry gy = AxisOf(l, 0, y_shape[0]), gx = AxisOf(l, 1, y_shape[1]);
  std::vector<double> z(static_cast<size_t>(batch * y_shape.elements()));
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] = b.empty() ? 0 : b[i % static_cast<size_t>(F)];
  }
  for (int64_t i = 0; i < batch * H * W; ++i) {
    const int64_t n = i / (H * W), iy = i / W % H, ix = i % W;
    for (int64_t k = 0; k < l.window[0] * l.window[1]; ++k) {
      const int64_t oy =
          iy * l.strides[0] + k / l.window[1] * l.dilation[0] - gy.before;
      const int64_t ox =
          ix * l.strides[1] + k % l.window[1] * l.dilation[1] - gx.before;
      if (oy < 0 || oy >= y_shape[0] || ox < 0 || ox >= y_shape[1]) continue;
      for (int64_t f = 0; f < F; ++f) {
        double& to = z[static_cast<size_t>(
            ((n * y_shape[0] + oy) * y_shape[1] + ox) * F + f)];
        for (int64_t c = 0; c < C; ++c) {
          to += double{x[i * C + c]} * w[(k * F + f) * C + c];
        }
      }
    }
  }
  Floats y;
  for (const double v : z) {
    y.push_back(static_cast<float>(Activate(l.activation, v)));
  }
  return y;
}

inline Floats Pool2DForward(const Layer& l, const Shape& x_shape, int64_t batch,
                            const Floats& x) {
  const int64_t H = x_shape[0], W = x_shape[1], C = x_shape[2];
  const Geometry gy = Axis(H, l.window[0], l.strides[0], l.padding);
  const Geometry gx = Axis(W, l.window[1], l.strides[1], l.padding);
  Floats y;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t oy = 0; oy < gy.out; ++oy) {
      for (int64_t ox = 0; ox < gx.out; ++ox) {
        for (int64_t c = 0; c < C; ++c) {
          double sum = 0, count = 0;
          double largest = -std::numeric_limits<double>::infinity();
          for (int64_t ky = 0; ky < l.window[0]; ++ky) {
            for (int64_t kx = 0; kx < l.window[1]; ++kx) {
              const int64_t iy = oy * l.strides[0] + ky - gy.before;
              const int64_t ix = ox * l.strides[1] + kx - gx.before;
              if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
              const double v = x[((n * H + iy) * W + ix) * C + c];
              sum += v;
              count += 1;
              largest = std::max(largest, v);
            }
          }
          y.push_back(static_cast<float>(
              l.kind == Layer::Kind::kMaxPooling2D ? largest : sum / count));
        }
      }
    }
  }
  return y;
}

inline Floats DenseForward(const Layer& l, int64_t rows, int64_t inputs,
                           const Floats& x, const Floats& w, const Floats& b) {
  Floats y;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t u = 0; u < l.units; ++u) {
      double z = b.empty() ? 0 : b[u];
      for (int64_t k = 0; k < inputs; ++k) {
        z += double{x[i * inputs + k]} * w[k * l.units + u];
      }
      y.push_back(static_cast<float>(Activate(l.activation, z)));
    }
  }
  return y;
}

}  // namespace naive
}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_NAIVE_LAYERS_H_
