// Sums of a convolution fit int32, which the caller ensures. Products with a
// multiplier fit int64.

#include "int8_kernels.h"

#include <cstddef>

#include "int8_text.h"

namespace ringlet {
namespace int8 {
namespace {

BOTH(
    kScaledText, static int8_t scaled(int64_t value, int shift, int zero) {
      const int64_t y = ((value + ((int64_t)1 << (shift - 1))) >> shift) + zero;
      return (int8_t)(y < -128 ? -128 : y > 127 ? 127 : y);
    })

BOTH(kGeometryText,
     enum {X_HEIGHT, X_WIDTH, X_CHANNELS, Y_HEIGHT, Y_WIDTH, Y_CHANNELS};
     enum {WINDOW_HEIGHT = 6, WINDOW_WIDTH, STRIDE_DOWN, STRIDE_RIGHT};
     enum {DILATION_DOWN = 10, DILATION_RIGHT, PAD_TOP, PAD_LEFT};
     enum {GROUPS = 14, IS_MAX = GROUPS, X_ZERO, Y_ZERO, SHIFT, MULTIPLIER};)

// `g` has the numbers that GeometryText names, up to the shift. `w` is
// (filters, window height, window width, channels of a group).
BOTH(
    kConvText, static void conv(const int8_t* x, int8_t* y, const int8_t* w,
                                const int32_t* biases,
                                const int32_t* multipliers, const int* g) {
      const int channels = g[X_CHANNELS], filters = g[Y_CHANNELS],
                group_channels = channels / g[GROUPS],
                group_filters = filters / g[GROUPS], zero = g[X_ZERO];
      int i, j, k, l, y_row, y_column;
      for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
        for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column) {
          const int8_t* kernel = w;
          for (l = 0; l < filters; ++l) {
            const int first = l / group_filters * group_channels;
            int32_t sum = biases[l];
            for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
              const int x_row =
                  y_row * g[STRIDE_DOWN] + i * g[DILATION_DOWN] - g[PAD_TOP];
              for (j = 0; j < g[WINDOW_WIDTH]; ++j, kernel += group_channels) {
                const int x_column = y_column * g[STRIDE_RIGHT] +
                                     j * g[DILATION_RIGHT] - g[PAD_LEFT];
                const int8_t* pixel;
                if (x_row < 0 || x_row >= g[X_HEIGHT] || x_column < 0 ||
                    x_column >= g[X_WIDTH]) {
                  continue;
                }
                pixel = x + (x_row * g[X_WIDTH] + x_column) * channels + first;
                for (k = 0; k < group_channels; ++k) {
                  sum += (int16_t)(pixel[k] - zero) * kernel[k];
                }
              }
            }
            *y++ = scaled((int64_t)sum * multipliers[l], g[SHIFT], g[Y_ZERO]);
          }
        }
      }
    })

// A transposed convolution, with the parameters of conv.
BOTH(
    kConvTransposeText,
    static void conv_transpose(const int8_t* x, int8_t* y, const int8_t* w,
                               const int32_t* biases,
                               const int32_t* multipliers, const int* g) {
      const int channels = g[X_CHANNELS];
      int i, j, k, l, y_row, y_column;
      for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
        for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column) {
          const int8_t* kernel = w;
          for (l = 0; l < g[Y_CHANNELS]; ++l) {
            int32_t sum = biases[l];
            for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
              const int down = y_row + g[PAD_TOP] - i * g[DILATION_DOWN];
              const int x_row = down / g[STRIDE_DOWN];
              for (j = 0; j < g[WINDOW_WIDTH]; ++j, kernel += channels) {
                const int right =
                    y_column + g[PAD_LEFT] - j * g[DILATION_RIGHT];
                const int x_column = right / g[STRIDE_RIGHT];
                const int8_t* pixel;
                if (down < 0 || down % g[STRIDE_DOWN] != 0) continue;
                if (right < 0 || right % g[STRIDE_RIGHT] != 0) continue;
                if (x_row >= g[X_HEIGHT] || x_column >= g[X_WIDTH]) continue;
                pixel = x + (x_row * g[X_WIDTH] + x_column) * channels;
                for (k = 0; k < channels; ++k) {
                  sum += (int16_t)(pixel[k] - g[X_ZERO]) * kernel[k];
                }
              }
            }
            *y++ = scaled((int64_t)sum * multipliers[l], g[SHIFT], g[Y_ZERO]);
          }
        }
      }
    })

// `g` has all numbers that GeometryText names.
BOTH(
    kPoolText, static void pool(const int8_t* x, int8_t* y, const int* g) {
      const int channels = g[X_CHANNELS];
      int i, j, k, y_row, y_column;
      for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
        for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column) {
          for (k = 0; k < channels; ++k) {
            int32_t sum = 0;
            int max = -128, count = 0;
            for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
              const int x_row = y_row * g[STRIDE_DOWN] + i - g[PAD_TOP];
              if (x_row < 0 || x_row >= g[X_HEIGHT]) continue;
              for (j = 0; j < g[WINDOW_WIDTH]; ++j) {
                const int x_column =
                    y_column * g[STRIDE_RIGHT] + j - g[PAD_LEFT];
                int pixel, value;
                if (x_column < 0 || x_column >= g[X_WIDTH]) continue;
                pixel = (x_row * g[X_WIDTH] + x_column) * channels + k;
                value = x[pixel];  // NOLINT: a number
                sum += value - g[X_ZERO];
                max = value > max ? value : max;
                ++count;
              }
            }
            *y++ = (int8_t)(g[IS_MAX]
                                ? max
                                : scaled((int64_t)sum * g[MULTIPLIER] / count,
                                         g[SHIFT], g[Y_ZERO]));
          }
        }
      }
    })

// `what` is a MergeOperation. `g` has the axes, zero and multiplier of a, zero
// and multiplier of b, the zero of y, and the shift.
BOTH(
    kMergeText, static void merge(int what, const int8_t* a, const int8_t* b,
                                  int8_t* y, int axes, const int* g) {
      const int* const s = g + 3 * axes;
      int at[8] = {0}, i = 0, j = 0, k;
      for (;;) {
        const int64_t u = (int64_t)(a[i] - s[0]) * s[1],
                      v = (int64_t)(b[j] - s[2]);
        const int64_t w = what == 1 ? 0 : v * s[3];
        *y++ = scaled(what == 0   ? u + w
                      : what == 1 ? u * v
                      : what == 4 ? (u < 0 ? (a[i] - s[0]) * w : u)
                      : what == 2 ? (u < w ? w : u)
                                  : (u < w ? u : w),
                      s[5], s[4]);
        for (k = axes - 1; k >= 0; --k) {
          i += g[3 * k + 1];
          j += g[3 * k + 2];
          if (++at[k] < g[3 * k]) break;
          i -= g[3 * k + 1] * g[3 * k];
          j -= g[3 * k + 2] * g[3 * k];
          at[k] = 0;
        }
        if (k < 0) return;
      }
    })

// Maps by a table of all 256 values; in a copy null copies.
BOTH(
    kMapText,
    static void map(const int8_t* x, int8_t* y, int n, const int8_t* table) {
      for (; n > 0; --n) *y++ = table[*x++ + 128];
    })

BOTH(
    kCopyText, static void copy(const int8_t* x, int8_t* y, int axes,
                                const int* g, const int8_t* table) {
      int at[8] = {0}, from = 0, to = 0, k;
      for (;;) {
        y[to] = table ? table[x[from] + 128] : x[from];
        for (k = axes - 1; k >= 0; --k) {
          from += g[3 * k + 1];
          to += g[3 * k + 2];
          if (++at[k] < g[3 * k]) break;
          from -= g[3 * k + 1] * g[3 * k];
          to -= g[3 * k + 2] * g[3 * k];
          at[k] = 0;
        }
        if (k < 0) return;
      }
    })

BOTH(
    kFillText, static void fill(int8_t* y, int n, int value) {
      for (; n > 0; --n) *y++ = (int8_t)value;
    })

// Copies rows of w, which has `rows` rows of n numbers. take_tokens converts
// floats to their numbers.
BOTH(
    kGatherText, static void gather(const int32_t* x, int8_t* y, int count,
                                    const int8_t* w, int rows, int n) {
      int i;
      for (; count > 0; --count, ++x) {
        const int row = *x < 0 ? 0 : *x < rows ? *x : rows - 1;
        for (i = 0; i < n; ++i) *y++ = w[row * n + i];
      }
    })

BOTH(
    kTokensText, static void take_tokens(const float* x, int32_t* y, int n) {
      for (; n > 0; --n, ++x) {
        *y++ = !(*x > 0) ? 0 : *x < 1e9f ? (int32_t)*x : 1000000000;
      }
    })

BOTH(
    kQuantizeText, static void quantize(const float* x, int8_t* y, int n,
                                        float factor, int zero) {
      for (; n > 0; --n) {
        const float v = *x++ * factor + (float)zero;
        *y++ = (int8_t)(v > 127    ? 127
                        : v > -128 ? (int)(v < 0 ? v - 0.5f : v + 0.5f)
                                   : -128);
      }
    })

BOTH(
    kScaledQuantizeText,
    static void quantize_scaled(const float* x, int8_t* y, int n, int channels,
                                const float* factors, const float* shifts) {
      int i;
      for (i = 0; i < n; ++i) {
        const float product = x[i] * factors[i % channels];
        const float v = product + shifts[i % channels];
        quantize(&v, y + i, 1, 1, 0);
      }
    })

BOTH(
    kDequantizeText, static void dequantize(const int8_t* x, float* y, int n,
                                            float scale, int zero) {
      for (; n > 0; --n) *y++ = (float)(*x++ - zero) * scale;
    })

constexpr Function kFunctions[] = {
    {kConv | kConvTranspose | kPool | kMerge, kScaledText},
    {kConv | kConvTranspose | kPool, kGeometryText},
    {kConv, kConvText, "conv", Call<conv>},
    {kConvTranspose, kConvTransposeText, "conv_transpose",
     Call<conv_transpose>},
    {kPool, kPoolText, "pool", Call<pool>},
    {kMerge, kMergeText, "merge", Call<merge>},
    {kMap, kMapText, "map", Call<map>},
    {kCopy, kCopyText, "copy", Call<copy>},
    {kFill, kFillText, "fill", Call<fill>},
    {kGather, kGatherText, "gather", Call<gather>},
    {kGather, kTokensText},
    {kQuantize, kQuantizeText},
    {kScaledQuantize, kScaledQuantizeText},
    {~0u, kDequantizeText},
};

}  // namespace

const Function& FunctionOf(Kernel kernel) {
  for (const Function& function : kFunctions) {
    if (function.kernels == kernel && function.call) return function;
  }
  return FloatFunctionOf(kernel);
}

std::string GeometryText() {
  std::string out;
  AppendLines(kGeometryText, &out);
  return out;
}

std::string KernelText(uint32_t needed) {
  std::string out;
  for (const Function& function : kFunctions) {
    if ((function.kernels & needed) != 0 || function.text == kDequantizeText) {
      AppendLines(function.text, &out);
    }
  }
  return out;
}

void TakeTokens(const float* x, int32_t* y, int n) { take_tokens(x, y, n); }
void Quantize(const float* x, int8_t* y, int n, float factor, int zero) {
  quantize(x, y, n, factor, zero);
}
void QuantizeScaled(const float* x, int8_t* y, int n, int channels,
                    const float* factors, const float* shifts) {
  quantize_scaled(x, y, n, channels, factors, shifts);
}
void Dequantize(const int8_t* x, float* y, int n, float scale, int zero) {
  dequantize(x, y, n, scale, zero);
}

}  // namespace int8
}  // namespace ringlet
