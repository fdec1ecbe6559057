#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ringlet {
namespace {

void SoftmaxRow(int64_t width, float* y) {
  float largest = y[0];
  for (int64_t j = 1; j < width; ++j) largest = std::max(largest, y[j]);
  float sum = 0;
  for (int64_t j = 0; j < width; ++j) {
    y[j] = std::exp(y[j] - largest);
    sum += y[j];
  }
  for (int64_t j = 0; j < width; ++j) y[j] /= sum;
}

// Without the branch in a wrong place: no overflow for any x.
float SigmoidOf(float x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const float e = std::exp(x);
  return e / (1 + e);
}

}  // namespace

void BiasActivation(Activation activation, const float* bias, int64_t rows,
                    int64_t width, float* y) {
  for (int64_t i = 0; i < rows; ++i, y += width) {
    if (bias != nullptr && activation == kRelu) {  // the common pair, one pass
      for (int64_t j = 0; j < width; ++j) {
        const float z = y[j] + bias[j];
        y[j] = z > 0 ? z : z != z ? z : 0;
      }
      continue;
    }
    if (bias != nullptr) {
      for (int64_t j = 0; j < width; ++j) y[j] += bias[j];
    }
    switch (activation) {
      case kLinear:
        break;
      case kRelu:  // NaN stays NaN
        for (int64_t j = 0; j < width; ++j) y[j] = y[j] < 0 ? 0 : y[j];
        break;
      case kSigmoid:
        for (int64_t j = 0; j < width; ++j) y[j] = SigmoidOf(y[j]);
        break;
      case kTanh:
        for (int64_t j = 0; j < width; ++j) y[j] = std::tanh(y[j]);
        break;
      case kSoftmax:
        SoftmaxRow(width, y);
        break;
    }
  }
}

void ActivationGradient(Activation activation, const float* y, int64_t rows,
                        int64_t width, float* dy) {
  const int64_t n = rows * width;
  switch (activation) {
    case kLinear:
      break;
    case kRelu:
      for (int64_t i = 0; i < n; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
      break;
    case kSigmoid:
      for (int64_t i = 0; i < n; ++i) dy[i] *= y[i] * (1 - y[i]);
      break;
    case kTanh:
      for (int64_t i = 0; i < n; ++i) dy[i] *= 1 - y[i] * y[i];
      break;
    case kSoftmax:
      for (int64_t i = 0; i < rows; ++i, y += width, dy += width) {
        float dot = 0;
        for (int64_t j = 0; j < width; ++j) dot += dy[j] * y[j];
        for (int64_t j = 0; j < width; ++j) dy[j] = y[j] * (dy[j] - dot);
      }
      break;
  }
}

namespace {

using Vector = float __attribute__((vector_size(16), aligned(4)));
using Mask = int32_t __attribute__((vector_size(16)));

template <Activation kActivation>
Vector TimesGradient(Vector d, Vector y) {
  switch (kActivation) {
    case kRelu:
      return reinterpret_cast<Vector>(reinterpret_cast<Mask>(d) & (y > 0.0f));
    case kSigmoid:
      return d * (y * (1.0f - y));
    case kTanh:
      return d * (1.0f - y * y);
    default:
      return d;
  }
}

// Four rows of four.
inline void Transpose(Vector* a) {
  const Vector t0 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
  const Vector t1 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
  const Vector t2 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
  const Vector t3 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
  a[0] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
  a[1] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
  a[2] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
  a[3] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
}

template <Activation kActivation>
void Transposed(const float* s, int64_t rows, int64_t width, int64_t stride,
                float* x) {
  const auto one = [&](int64_t i, int64_t j) {
    float* to = x + i * stride + j;
    const Vector y = {*to}, d = {s[j * rows + i]};
    *to = TimesGradient<kActivation>(d, y)[0];
  };
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 4 <= width; j += 4) {
      Vector a[4];
      for (int k = 0; k < 4; ++k) {
        std::memcpy(&a[k], s + (j + k) * rows + i, sizeof(Vector));
      }
      float* const to = x + i * stride + j;
      Transpose(a);
      for (int k = 0; k < 4; ++k) {
        Vector y;
        std::memcpy(&y, to + k * stride, sizeof(Vector));
        const Vector d = TimesGradient<kActivation>(a[k], y);
        std::memcpy(to + k * stride, &d, sizeof(Vector));
      }
    }
    for (; j < width; ++j) {
      for (int k = 0; k < 4; ++k) one(i + k, j);
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) one(i, j);
  }
}

}  // namespace

void TransposedGradientOver(Activation activation, const float* s, int64_t rows,
                            int64_t width, int64_t stride, float* x) {
  switch (activation) {
    case kLinear:
      return Transposed<kLinear>(s, rows, width, stride, x);
    case kRelu:
      return Transposed<kRelu>(s, rows, width, stride, x);
    case kSigmoid:
      return Transposed<kSigmoid>(s, rows, width, stride, x);
    case kTanh:
      return Transposed<kTanh>(s, rows, width, stride, x);
    case kSoftmax:
      break;
  }
  RINGLET_CHECK(false);
}

void AddColumnSums(const float* m, int64_t rows, int64_t width, float* sums) {
  for (int64_t i = 0; i < rows; ++i, m += width) {
    for (int64_t j = 0; j < width; ++j) sums[j] += m[j];
  }
}

void AddTo(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

bool WindowAxis::Resolve(PaddingMode padding) {
  if (window < 1 || stride < 1 || input < 1) return false;
  if (padding == kSame) {
    output = (input + stride - 1) / stride;
    const int64_t pad =
        std::max<int64_t>((output - 1) * stride + window - input, 0);
    pad_before = pad / 2;
    return true;
  }
  pad_before = 0;
  if (window > input) return false;
  output = (input - window) / stride + 1;
  return true;
}

Status PlaceWindow(const Layer& layer, const Shape& x, const char* what,
                   Window2D* window) {
  *window = {{x[0], 0, layer.window[0], layer.strides[0], 0},
             {x[1], 0, layer.window[1], layer.strides[1], 0},
             x[2]};
  if (window->height.Resolve(layer.padding) &&
      window->width.Resolve(layer.padding)) {
    return Status();
  }
  return InvalidArgument(
      "a %s of (%lld, %lld) with strides (%lld, %lld) does not fit an input of "
      "%s",
      what, static_cast<long long>(layer.window[0]),
      static_cast<long long>(layer.window[1]),
      static_cast<long long>(layer.strides[0]),
      static_cast<long long>(layer.strides[1]), x.ToString().c_str());
}

void ImageToColumns(const Window2D& w, const float* image, float* col) {
  const int64_t row_floats = w.width.input * w.channels;
  const int64_t run = w.width.window * w.channels;
  for (int64_t oy = 0; oy < w.height.output; ++oy) {
    const int64_t top = oy * w.height.stride - w.height.pad_before;
    for (int64_t ox = 0; ox < w.width.output; ++ox) {
      const int64_t left = ox * w.width.stride - w.width.pad_before;
      // The columns of the window that lie on the image, as one run of floats.
      const int64_t skip = std::max<int64_t>(0, -left) * w.channels;
      const int64_t keep =
          (std::min(left + w.width.window, w.width.input) - left) * w.channels;
      for (int64_t ky = 0; ky < w.height.window; ++ky, col += run) {
        const int64_t y = top + ky;
        if (y < 0 || y >= w.height.input) {
          std::fill(col, col + run, 0.0f);
          continue;
        }
        const float* from = image + y * row_floats + left * w.channels;
        if (skip == 0 && keep == run) {
          for (int64_t i = 0; i < run; ++i) col[i] = from[i];
          continue;
        }
        for (int64_t i = 0; i < run; ++i) {
          col[i] = i >= skip && i < keep ? from[i] : 0.0f;
        }
      }
    }
  }
}

void AddColumnsToImage(const Window2D& w, const float* col, float* image) {
  const int64_t row_floats = w.width.input * w.channels;
  const int64_t run = w.width.window * w.channels;
  for (int64_t oy = 0; oy < w.height.output; ++oy) {
    const int64_t top = oy * w.height.stride - w.height.pad_before;
    for (int64_t ox = 0; ox < w.width.output; ++ox) {
      const int64_t left = ox * w.width.stride - w.width.pad_before;
      const int64_t skip = std::max<int64_t>(0, -left) * w.channels;
      const int64_t keep =
          (std::min(left + w.width.window, w.width.input) - left) * w.channels;
      for (int64_t ky = 0; ky < w.height.window; ++ky, col += run) {
        const int64_t y = top + ky;
        if (y < 0 || y >= w.height.input) continue;
        float* to = image + y * row_floats + left * w.channels;
        for (int64_t i = skip; i < keep; ++i) to[i] += col[i];
      }
    }
  }
}

}  // namespace ringlet
