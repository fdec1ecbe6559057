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

// `g` is the geometry as for floats, then the zeros of x and y, and the shift.
// `w` is (filters, window height, window width, channels of a group). `b` has
// the initial sums and `m` the multipliers of the filters.
BOTH(
    kConvText,
    static void conv(const int8_t* x, int8_t* y, const int8_t* w,
                     const int32_t* b, const int32_t* m, const int* g) {
      const int c = g[2], f = g[5], cg = c / g[14], fg = f / g[14],
                zero = g[15];
      int i, j, k, l, p, q;
      for (p = 0; p < g[3]; ++p) {
        for (q = 0; q < g[4]; ++q) {
          const int8_t* v = w;
          for (l = 0; l < f; ++l) {
            const int first = l / fg * cg;
            int32_t sum = b[l];
            for (i = 0; i < g[6]; ++i) {
              const int row = p * g[8] + i * g[10] - g[12];
              for (j = 0; j < g[7]; ++j, v += cg) {
                const int column = q * g[9] + j * g[11] - g[13];
                const int8_t* u;
                if (row < 0 || row >= g[0] || column < 0 || column >= g[1]) {
                  continue;
                }
                u = x + (row * g[1] + column) * c + first;
                for (k = 0; k < cg; ++k) sum += (int16_t)(u[k] - zero) * v[k];
              }
            }
            *y++ = scaled((int64_t)sum * m[l], g[17], g[16]);
          }
        }
      }
    })

// A transposed convolution, with the parameters of conv.
BOTH(
    kConvTransposeText,
    static void conv_transpose(const int8_t* x, int8_t* y, const int8_t* w,
                               const int32_t* b, const int32_t* m,
                               const int* g) {
      const int c = g[2];
      int i, j, k, l, p, q;
      for (p = 0; p < g[3]; ++p) {
        for (q = 0; q < g[4]; ++q) {
          const int8_t* v = w;
          for (l = 0; l < g[5]; ++l) {
            int32_t sum = b[l];
            for (i = 0; i < g[6]; ++i) {
              const int row = p + g[12] - i * g[10];
              for (j = 0; j < g[7]; ++j, v += c) {
                const int column = q + g[13] - j * g[11];
                const int8_t* u;
                if (row < 0 || row % g[8] != 0 || row / g[8] >= g[0]) continue;
                if (column < 0 || column % g[9] != 0) continue;
                if (column / g[9] >= g[1]) continue;
                u = x + (row / g[8] * g[1] + column / g[9]) * c;
                for (k = 0; k < c; ++k) sum += (int16_t)(u[k] - g[15]) * v[k];
              }
            }
            *y++ = scaled((int64_t)sum * m[l], g[17], g[16]);
          }
        }
      }
    })

// `g` is the geometry, the zeros, the shift, and one multiplier.
BOTH(
    kPoolText, static void pool(const int8_t* x, int8_t* y, const int* g) {
      const int c = g[2];
      int i, j, k, p, q;
      for (p = 0; p < g[3]; ++p) {
        for (q = 0; q < g[4]; ++q) {
          for (k = 0; k < c; ++k) {
            int32_t sum = 0;
            int most = -128, count = 0;
            for (i = 0; i < g[6]; ++i) {
              const int row = p * g[8] + i - g[12];
              if (row < 0 || row >= g[0]) continue;
              for (j = 0; j < g[7]; ++j) {
                const int column = q * g[9] + j - g[13];
                int u;
                if (column < 0 || column >= g[1]) continue;
                u = x[(row * g[1] + column) * c + k];  // NOLINT: a number
                sum += u - g[15];
                most = u > most ? u : most;
                ++count;
              }
            }
            *y++ = (int8_t)(g[14] ? most
                                  : scaled((int64_t)sum * g[18] / count, g[17],
                                           g[16]));
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
