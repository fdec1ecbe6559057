// The functions of a C file that trains. Each computes the bits of the trainer:
// see docs/one_result.md for the order of sums, and core/compute/functions.h,
// core/objective and core/layers for the formulas. A function here replaces the
// function of the same name in c_helpers.cc. int8::GeometryText names the
// numbers of a geometry g.
//
// To train another kind of layer, add its gradient here and a row to
// c_gradients.cc.

#include "c_training_texts.h"

#include <algorithm>
#include <iterator>

namespace ringlet {
namespace {

constexpr CHelperRow kRows[] = {
    {"bits", "", R"(
static uint32_t bits_of(float x) {
  union { float x; uint32_t bits; } u;
  u.x = x;
  return u.bits;
}
static float float_of(uint32_t bits) {
  union { float x; uint32_t bits; } u;
  u.bits = bits;
  return u.x;
}
)"},
    {"fused", "", R"(
/* a b + c, rounded once */
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define fused(a, b, c) __builtin_fmaf(a, b, c)
#else
static float fused(float a, float b, float c) {
  union { double x; uint64_t bits; } sum;
  const double p = (double)a * (double)b, s = p + (double)c, t = s - p;
  const double lost = (p - (s - t)) + ((double)c - t);
  sum.x = s;
  if (s - s == 0 && lost != 0 && sum.bits % 2 == 0) {
    sum.bits = (lost > 0) == (s > 0) ? sum.bits + 1 : sum.bits - 1;
  }
  return (float)sum.x;
}
#endif
)"},
    {"exp_parts", "bits", R"(
static float power_of_2(int n) {
  return float_of(((uint32_t)n + 127) << 23);
}
/* x = n ln 2 + rest + low */
static int reduce(float x, float* rest, float* low) {
  const float shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
  const float n = shifted - 0x1.8p+23f, high = x - n * 0x1.62e4p-1f;
  const float l = n * 0x1.7f7d1cp-20f;
  *rest = high - l;
  *low = (high - *rest) - l;
  return (int)(bits_of(shifted) - bits_of(0x1.8p+23f));
}
static float exp_rest(float r) {
  float p = 0x1.a18852p-13f;
  p = p * r + 0x1.6db302p-10f;
  p = p * r + 0x1.1110a6p-7f;
  p = p * r + 0x1.555464p-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0.5f;
  return p * (r * r);
}
)"},
    {"exp_of", "exp_parts", R"(
static float exp_of(float x) {
  const float at_least = x < -104 ? -104 : x;
  float rest, low, sum, lost, y;
  const int n = reduce(at_least > 89 ? 89 : at_least, &rest, &low), h = n >> 1;
  sum = 1 + rest;
  lost = rest - (sum - 1);
  y = sum + (exp_rest(rest) + (low + lost));
  return y * power_of_2(h) * power_of_2(n - h);
}
)"},
    {"expm1_of", "exp_parts", R"(
static float expm1_of(float x) {
  const float at_least = x < -18 ? -18 : x;
  float rest, low, rise, half, y;
  const int n = reduce(at_least > 89 ? 89 : at_least, &rest, &low);
  rise = rest + (exp_rest(rest) + low);
  half = power_of_2(n - 1);
  y = (rise * half + (half - 0.5f)) * 2;
  return (x < 0 ? -x : x) < 0x1p-25f ? x : y;
}
)"},
    {"log1p_of", "exp_parts", R"(
/* log(1 + x), x > -1 */
static float log1p_of(float x) {
  const float sum = 1 + x;
  const uint32_t moved = bits_of(sum) - 0x3f3504f3;
  const int n = (int)moved >> 23;
  const float m = float_of((moved & 0x007fffff) + 0x3f3504f3);
  const float lost = 0.5f * (x - (sum - 1)) * power_of_2(1 - n);
  const float f = m - 1 + lost, square = f * f, e = (float)n;
  float p = 0x1.14ca48p-4f, rest;
  p = p * f - 0x1.defffep-4f;
  p = p * f + 0x1.e72882p-4f;
  p = p * f - 0x1.fc07c2p-4f;
  p = p * f + 0x1.23322cp-3f;
  p = p * f - 0x1.555cccp-3f;
  p = p * f + 0x1.99a4f6p-3f;
  p = p * f - 0x1.000006p-2f;
  p = p * f + 0x1.555546p-2f;
  rest = f * square * p + e * 0x1.7f7d1cp-20f;
  if (!(x <= FLT_MAX) || (x < 0 ? -x : x) < 0x1p-25f) return x;
  return (rest - 0.5f * square) + f + e * 0x1.62e4p-1f;
}
)"},
    {"sigmoid", "exp_of", R"(
static float sigmoid(float x) {
  const float e = exp_of(x < 0 ? x : -x), sum = 1 + e, lost = e - (sum - 1);
  const float y = (x < 0 ? e : 1) / sum;
  return y - y * (lost * (1 - 0.5f * e));
}
)"},
    {"tanh_of", "exp_of", R"(
static float tanh_of(float x) {
  const float a = x < 0 ? -x : x, square = x * x;
  float p = -0x1.93dfb8p-8f, y;
  p = p * square + 0x1.582048p-6f;
  p = p * square - 0x1.b90e42p-5f;
  p = p * square + 0x1.110cd4p-3f;
  p = p * square - 0x1.55554cp-2f;
  y = a < 0.55f ? a + a * square * p : 1 - 2 / (exp_of(2 * a) + 1);
  return bits_of(x) >> 31 ? -y : y;
}
)"},
    {"lane_sum", "", R"(
/* In 16 lanes; the rest one by one. With v, of products. */
static float lane_sum(const float* u, const float* v, int n) {
  const int whole = n / 16 * 16;
  float lanes[16] = {0};
  double sums[16], rest = 0;
  int i, half;
  for (i = 0; i < n; ++i) {
    const float x = v ? u[i] * v[i] : u[i];
    if (i < whole) lanes[i % 16] += x;
    else rest += (double)x;
  }
  if (!whole) return (float)rest;
  for (i = 0; i < 16; ++i) sums[i] = (double)lanes[i];
  for (half = 8; half > 0; half /= 2) {
    for (i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return (float)(sums[0] + rest);
}
)"},
    {"softmax", "exp_of lane_sum", R"(
static void softmax(float* y, int rows, int n) {
  for (; rows > 0; --rows, y += n) {
    float max = y[0], sum;
    int i;
    for (i = 1; i < n; ++i) max = max < y[i] ? y[i] : max;
    for (i = 0; i < n; ++i) y[i] = exp_of(y[i] - max);
    sum = lane_sum(y, 0, n);
    for (i = 0; i < n; ++i) y[i] /= sum;
  }
}
)"},
    {"softmax_gradient", "lane_sum", R"(
static void softmax_gradient(const float* y, float* dy, int rows, int n) {
  for (; rows > 0; --rows, y += n, dy += n) {
    const float sum = lane_sum(dy, y, n);
    int i;
    for (i = 0; i < n; ++i) dy[i] = y[i] * (dy[i] - sum);
  }
}
)"},
    {"pool_gradient", "geometry", R"(
/* The gradient of a maximum goes to the first pixel that has it. */
static void pool_gradient(const float* x, const float* y, const float* dy,
                          float* dx, const int* g) {
  const int channels = g[X_CHANNELS];
  int i, j, k, y_row, y_column;
  for (i = 0; i < g[X_HEIGHT] * g[X_WIDTH] * channels; ++i) dx[i] = 0;
  for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
    for (y_column = 0; y_column < g[Y_WIDTH];
         ++y_column, y += channels, dy += channels) {
      const int top = y_row * g[STRIDE_DOWN] - g[PAD_TOP];
      const int left = y_column * g[STRIDE_RIGHT] - g[PAD_LEFT];
      const int row = top < 0 ? 0 : top, column = left < 0 ? 0 : left;
      const int below = top + g[WINDOW_HEIGHT], after = left + g[WINDOW_WIDTH];
      const int bottom = below < g[X_HEIGHT] ? below : g[X_HEIGHT];
      const int right = after < g[X_WIDTH] ? after : g[X_WIDTH];
      const float share = 1.0f / (float)((bottom - row) * (right - column));
      for (k = 0; k < channels; ++k) {
        int found = 0;
        for (i = row; i < bottom; ++i) {
          for (j = column; j < right; ++j) {
            const int pixel = (i * g[X_WIDTH] + j) * channels + k;
            if (!g[IS_MAX]) dx[pixel] += dy[k] * share;
            else if (!found && x[pixel] == y[k]) found = 1, dx[pixel] += dy[k];
          }
        }
      }
    }
  }
}
)"},
    {"row_gradient", "fused", R"(
/* dw(k, j) = the sum of x(k) dy(j) over the rows of a step, of which `at` came
   before; without x, of dy(j). A sum is one of `block` rows at a time; `sums`
   has earlier blocks. */
static void row_gradient(const float* x, const float* dy, float* dw,
                         float* sums, int at, int rows, int n, int m,
                         int block) {
  for (; rows > 0; --rows, ++at, x = x ? x + n : x, dy += m) {
    int j, k;
    for (k = 0; k < n; ++k) {
      for (j = 0; j < m; ++j) {
        float *const part = dw + k * m + j, *const sum = sums + k * m + j;
        if (at % block == 0) {
          if (at > 0) *sum = at == block ? *part : *sum + *part;
          *part = 0;
        }
        *part = fused(x ? x[k] : 1, dy[j], *part);
      }
    }
  }
}
)"},
    {"end_sums", "", R"(
/* Adds the last block of a step of so many rows. */
static void end_sums(float* dw, const float* sums, int n, int rows, int block) {
  int i;
  for (i = 0; rows > block && i < n; ++i) dw[i] += sums[i];
}
)"},
    {"conv_gradient", "fused geometry", R"(
/* The gradient of conv() by its kernel and bias, of which one may be 0, of 128
   positions at a time. It is added to that of the examples before, if there
   are any. */
static void conv_gradient(const float* x, const float* dy, float* dw, float* db,
                          int before, const int* g) {
  const int channels = g[X_CHANNELS], group_channels = channels / g[GROUPS];
  const int filters = g[Y_CHANNELS], group_filters = filters / g[GROUPS];
  const int positions = g[Y_HEIGHT] * g[Y_WIDTH];
  const int taps = g[WINDOW_HEIGHT] * g[WINDOW_WIDTH] * group_channels;
  int k, l, position;
  for (k = 0; dw && k < taps; ++k) {
    const int i = k / group_channels / g[WINDOW_WIDTH],
              j = k / group_channels % g[WINDOW_WIDTH];
    for (l = 0; l < filters; ++l, ++dw) {
      const float* const pixel =
          x + l / group_filters * group_channels + k % group_channels;
      float part = 0;
      for (position = 0; position < positions; ++position) {
        const int x_row = position / g[Y_WIDTH] * g[STRIDE_DOWN] +
                          i * g[DILATION_DOWN] - g[PAD_TOP];
        const int x_column = position % g[Y_WIDTH] * g[STRIDE_RIGHT] +
                             j * g[DILATION_RIGHT] - g[PAD_LEFT];
        if (x_row >= 0 && x_row < g[X_HEIGHT] && x_column >= 0 &&
            x_column < g[X_WIDTH]) {
          part = fused(pixel[(x_row * g[X_WIDTH] + x_column) * channels],
                       dy[position * filters + l], part);
        }
        if (position % 128 < 127 && position < positions - 1) continue;
        *dw = before || position > 127 ? *dw + part : part;
        part = 0;
      }
    }
  }
  for (l = 0; db && l < filters; ++l) {
    float sum = 0;
    for (position = 0; position < positions; ++position) {
      sum += dy[position * filters + l];
    }
    db[l] = (before ? db[l] : 0) + sum;
  }
}
)"},
    {"depthwise_gradient", "fused geometry", R"(
/* The same of a conv() with a filter for each group. Examples are summed in 16
   blocks of a step at most; `sums` has the present block's. */
static void depthwise_gradient(const float* x, const float* dy, float* dw,
                               float* db, float* sums, int before, int count,
                               const int* g) {
  const int channels = g[X_CHANNELS], filters = g[Y_CHANNELS];
  const int group_filters = filters / channels;
  const int taps = g[WINDOW_HEIGHT] * g[WINDOW_WIDTH];
  const int positions = g[Y_HEIGHT] * g[Y_WIDTH], size = (count + 15) / 16;
  const int begins = before % size == 0;
  const int ends = (before + 1) % size == 0 || before + 1 == count;
  int k, l, position;
  for (k = dw ? 0 : taps; k < (db ? taps + 1 : taps); ++k) {
    const int i = k / g[WINDOW_WIDTH], j = k % g[WINDOW_WIDTH];
    for (l = 0; l < filters; ++l, ++sums) {
      float* const to = k < taps ? dw++ : db++;
      float sum = begins ? 0 : *sums, part = 0;
      for (position = 0; position < positions; ++position) {
        const int x_row = position / g[Y_WIDTH] * g[STRIDE_DOWN] +
                          i * g[DILATION_DOWN] - g[PAD_TOP];
        const int x_column = position % g[Y_WIDTH] * g[STRIDE_RIGHT] +
                             j * g[DILATION_RIGHT] - g[PAD_LEFT];
        if (k == taps) {
          sum += dy[position * filters + l];
        } else if (x_row >= 0 && x_row < g[X_HEIGHT] && x_column >= 0 &&
                   x_column < g[X_WIDTH]) {
          part = fused(
              x[(x_row * g[X_WIDTH] + x_column) * channels + l / group_filters],
              dy[position * filters + l], part);
        }
        if (k == taps || (position % 128 < 127 && position < positions - 1)) {
          continue;
        }
        sum += part;
        part = 0;
      }
      if (!ends) *sums = sum;
      else *to = (before < size ? 0 : *to) + sum;
    }
  }
}
)"},
    {"conv_input_gradient", "fused geometry", R"(
/* The gradient of conv() by x: the sum over the taps that read a pixel, from
   the last to the first, in blocks of 128. */
static void conv_input_gradient(const float* dy, float* dx, const float* w,
                                const int* g) {
  const int channels = g[X_CHANNELS], group_channels = channels / g[GROUPS];
  const int filters = g[Y_CHANNELS], group_filters = filters / g[GROUPS];
  int i, j, k, l, x_row, x_column;
  for (x_row = 0; x_row < g[X_HEIGHT]; ++x_row) {
    for (x_column = 0; x_column < g[X_WIDTH]; ++x_column) {
      for (k = 0; k < channels; ++k) {
        const int first = k / group_channels * group_filters;
        float sum = 0, part = 0;
        int terms = 0;
        for (i = g[WINDOW_HEIGHT] - 1; i >= 0; --i) {
          const int down = x_row + g[PAD_TOP] - i * g[DILATION_DOWN];
          const int y_row = down / g[STRIDE_DOWN];
          if (down % g[STRIDE_DOWN] != 0) continue;
          for (j = g[WINDOW_WIDTH] - 1; j >= 0; --j) {
            const int right = x_column + g[PAD_LEFT] - j * g[DILATION_RIGHT];
            const int y_column = right / g[STRIDE_RIGHT];
            const int pixel = y_row * g[Y_WIDTH] + y_column;
            const int tap = (i * g[WINDOW_WIDTH] + j) * group_channels +
                            k % group_channels;
            const int in = down >= 0 && y_row < g[Y_HEIGHT] && right >= 0 &&
                           y_column < g[Y_WIDTH];
            if (right % g[STRIDE_RIGHT] != 0) continue;
            for (l = first; l < first + group_filters; ++l) {
              if (in) {
                part = fused(dy[pixel * filters + l], w[tap * filters + l],
                             part);
              }
              if (++terms % 128 != 0) continue;
              sum = terms == 128 ? part : sum + part;
              part = 0;
            }
          }
        }
        if (terms % 128 != 0) sum = terms < 128 ? part : sum + part;
        *dx++ = sum;
      }
    }
  }
}
)"},
    {"product", "fused", R"(
/* The sum of u[k] v[step k], in blocks of 128, which are added to *before. */
static float product(const float* u, const float* v, int n, int step,
                     const float* before) {
  float sum = before ? *before : -0.0f, part = 0;
  int k;
  for (k = 0; k < n; ++k) {
    part = fused(u[k], v[k * step], part);
    if (k % 128 < 127 && k < n - 1) continue;
    sum += part;
    part = 0;
  }
  return sum;
}
)"},
    {"lora", "product", R"(
/* y = x w + xa b + bias with xa = scale x a, for g[3] rows */
static void lora(const float* x, float* y, float* xa, const float* w,
                 const float* a, const float* b, const float* bias, float scale,
                 const int* g) {
  int l, row;
  for (row = 0; row < g[3]; ++row, x += g[0], y += g[1], xa += g[2]) {
    for (l = 0; l < g[2]; ++l) xa[l] = product(x, a + l, g[0], g[2], 0) * scale;
    for (l = 0; l < g[1]; ++l) {
      y[l] = product(x, w + l, g[0], g[1], 0);
      y[l] = product(xa, b + l, g[2], g[1], y + l);
      if (bias) y[l] += bias[l];
    }
  }
}
)"},
    {"lora_gradient", "product", R"(
/* The gradients of xa, and unless dx is 0 of x. */
static void lora_gradient(const float* d, float* dxa, float* dx, const float* w,
                          const float* a, const float* b, float scale,
                          const int* g) {
  int l, row;
  for (row = 0; row < g[3]; ++row, d += g[1], dxa += g[2]) {
    for (l = 0; l < g[2]; ++l) {
      dxa[l] = product(d, b + l * g[1], g[1], 1, 0) * scale;
    }
    for (l = 0; dx && l < g[0]; ++l, ++dx) {
      *dx = product(d, w + l * g[1], g[1], 1, 0);
      *dx = product(dxa, a + l * g[2], g[2], 1, dx);
    }
  }
}
)"},
    {"scale_gradient", "", R"(
static void scale_gradient(float* dy, int rows, int n, const float* scale) {
  int j;
  for (; rows > 0; --rows, dy += n) {
    for (j = 0; j < n; ++j) dy[j] = scale[j] * dy[j];
  }
}
)"},
    {"root_of", "", R"(
/* The square root, rounded once. */
static double root_of(double x) {
  union { double x; uint64_t bits; } u;
  uint64_t rest, root = 0, sum = 0, bit;
  int n;
  u.x = x;
  if (!(x > 0) || !(x <= DBL_MAX)) return x;
  n = (int)(u.bits >> 52) - 1023;
  rest = (u.bits & 0x000fffffffffffff) | 0x0010000000000000;
  if (n & 1) rest += rest;
  rest += rest;
  for (bit = 0x0020000000000000; bit != 0; bit >>= 1) {
    if (sum + bit <= rest) {
      rest -= sum + bit;
      sum += 2 * bit;
      root += bit;
    }
    rest += rest;
  }
  root += root & (rest != 0);
  u.bits = (root >> 1) + 0x3fe0000000000000 + ((uint64_t)(n >> 1) << 52);
  return u.x;
}
)"},
    {"root", "root_of", R"(
static float root(float x) {
#if defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__aarch64__)
  __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x));
  return x;
#else
  return (float)root_of((double)x);
#endif
}
)"},
    {"magnitude", "", R"(
static float magnitude(float x) { return x < 0 ? -x : x; }
)"},
    {"square", "magnitude", R"(
static float square(float x) {
  const float r = magnitude(x) < 0x1p-55f ? 0 : x;
  return r * r;
}
)"},
    {"power", "", R"(
/* A value as the sum of two doubles. */
static double sum_of(double a, double b, double* low) {
  const double sum = a + b, part = sum - a;
  *low = (a - (sum - part)) + (b - part);
  return sum;
}
static double upper(double a) {
  union { double x; uint64_t bits; } u;
  u.x = a;
  u.bits &= ~(uint64_t)0x7ffffff;
  return u.x;
}
static double double_of(int n) {
  union { double x; uint64_t bits; } u;
  u.bits = (uint64_t)(n + 1023) << 52;
  return u.x;
}
/* e^((high + low) y) for a negative high, y > 0 */
static double power(double high, double low, double y) {
  const double p = high * y, a = upper(high), b = upper(y), c = high - a,
               d = y - b;
  double less = ((a * b - p) + a * d + c * b) + c * d, r, n, sum = 0,
         factorial = 6227020800.0;
  int k, half;
  high = sum_of(p, less + low * y, &low);
  if (high < -746) return 0;
  n = high * 0x1.71547652b82fep+0 + 0x1.8p+52 - 0x1.8p+52;
  r = sum_of(high - n * 0x1.62e42fefa2000p-1, low - n * 0x1.9ef35793c7673p-41,
             &less);
  for (k = 13; k >= 2; factorial /= k--) sum = sum * r + 1 / factorial;
  half = (int)n >> 1;
  return (1 + (r + (less + sum * (r * r)))) * double_of(half) *
         double_of((int)n - half);
}
)"},
    {"crc", "", R"(
static uint32_t crc_of(const unsigned char* bytes, int n) {
  uint32_t crc = 0xffffffff;
  int i;
  for (; n > 0; --n) {
    crc ^= *bytes++;
    for (i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}
static void put(unsigned char* to, uint32_t n) {
  int i;
  for (i = 0; i < 4; ++i) to[i] = (unsigned char)(n >> 8 * i);
}
static uint32_t get(const unsigned char* from) {
  return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
         (uint32_t)from[3] << 24;
}
)"},
    // --- losses of one row; z: logits, y: probabilities, t: targets ---------
    {"clip", "", R"(
static double clip(double p) {
  const double low = 1e-7f, high = 1 - 1e-7f;
  return p < low ? low : high < p ? high : p;
}
static int clipped(double p) { return !(p >= 1e-7f && p <= 1 - 1e-7f); }
)"},
    {"log1p_double", "log1p_of", R"(
static double log1p_double(double x) { return (double)log1p_of((float)x); }
)"},
    {"softmax_rest", "exp_of log1p_double", R"(
/* gradient[j] = e^(z[j] - z[top]). Returns the sum for all j but top. */
static double softmax_rest(const float* z, float* gradient, int n, int* top) {
  double rest = 0;
  int begin, j, k, t = 0;
  for (j = 1; j < n; ++j) t = z[t] < z[j] ? j : t;
  for (begin = 0; begin < n; begin += 64) {
    const int left = n - begin, m = left < 64 ? left : 64, whole = m / 16 * 16;
    double lanes[16] = {0}, sum = 0;
    for (j = 0; j < m; ++j) {
      const double below = (double)z[begin + j] - (double)z[t];
      const float rounded = (float)below;
      double e = (double)exp_of(rounded) * (1 + (below - (double)rounded));
      if (below < -110) e = 0;
      gradient[begin + j] = (float)e;
      if (begin + j == t) e = 0;
      if (j < whole) lanes[j % 16] += e;
      else sum += e;
    }
    for (k = whole ? 8 : 0; k > 0; k /= 2) {
      for (j = 0; j < k; ++j) lanes[j] += lanes[j + k];
    }
    rest += whole ? lanes[0] + sum : sum;
  }
  gradient[t] = 1;
  *top = t;
  return z[t] - z[t] == 0 ? rest : (double)(z[t] - z[t]);
}
)"},
    {"sparse_from_logits", "softmax_rest", R"(
static double loss_of_row(const float* z, int label, float* gradient, int n,
                          double scale) {
  int j, top;
  const double rest = softmax_rest(z, gradient, n, &top), sum = 1 + rest;
  for (j = 0; j < n; ++j) {
    const double e = (double)gradient[j];
    const double others = j == top ? rest : 1 + (rest - e);
    gradient[j] = (float)(scale * ((j == label ? -others : e) / sum));
  }
  return (double)z[top] - (double)z[label] + log1p_double(rest);
}
)"},
    {"sparse_from_probabilities", "clip log1p_double", R"(
static double loss_of_row(const float* y, int label, float* gradient, int n,
                          double scale) {
  const double chosen = clip((double)y[label]);
  double others = 0, sum;
  int j;
  for (j = 0; j < n; ++j) {
    if (j != label) others += clip((double)y[j]);
  }
  sum = others + chosen;
  for (j = 0; j < n; ++j) {
    const double slope = (j == label ? -others / chosen : 1) / sum;
    gradient[j] = (float)(scale * (clipped((double)y[j]) ? 0 : slope));
  }
  return log1p_double(others / chosen);
}
)"},
    {"categorical_from_logits", "softmax_rest", R"(
static double loss_of_row(const float* z, const float* t, float* gradient,
                          int n, double scale) {
  int j, top;
  const double rest = softmax_rest(z, gradient, n, &top), sum = 1 + rest;
  double loss = 0, weight = 0;
  for (j = 0; j < n; ++j) {
    const double each = (double)z[top] - (double)z[j] + log1p_double(rest);
    if (t[j] != 0 || each != each) loss += (double)t[j] * each;
    weight += (double)t[j];
  }
  for (j = 0; j < n; ++j) {
    const double e = (double)gradient[j];
    const double others = j == top ? rest : 1 + (rest - e);
    const double target = (double)t[j];
    gradient[j] =
        (float)(scale * ((e * (weight - target) - target * others) / sum));
  }
  return loss;
}
)"},
    {"categorical_from_probabilities", "clip log1p_double", R"(
static double loss_of_row(const float* y, const float* t, float* gradient,
                          int n, double scale) {
  double sum = 0, loss = 0, dot = 0;
  int j;
  for (j = 0; j < n; ++j) sum += (double)y[j];
  for (j = 0; j < n; ++j) {
    const double p = (double)y[j] / sum, inside = clip(p);
    loss += (double)t[j] * log1p_double((1 - inside) / inside);
    if (!clipped(p)) dot -= (double)t[j];
  }
  for (j = 0; j < n; ++j) {
    const double p = (double)y[j] / sum;
    const double slope = (clipped(p) ? 0 : -(double)t[j] / p) - dot;
    gradient[j] = (float)(scale * (slope / sum));
  }
  return loss;
}
)"},
    {"binary_from_logits", "exp_of log1p_of", R"(
static double loss_of_row(const float* z, const float* t, float* gradient,
                          int n, double scale) {
  double sum = 0;
  int j;
  for (j = 0; j < n; ++j) {
    const float x = z[j], small = exp_of(x < 0 ? x : -x);
    const double target = (double)t[j], e = (double)small;
    const double slope =
        (x >= 0 ? (1 - target) - target * e : e * (1 - target) - target) /
        (1 + e);
    sum += (x >= 0 ? (double)x * (1 - target) : -(double)x * target) +
           (double)log1p_of(small);
    gradient[j] = (float)(scale * (slope / n));
  }
  return sum / n;
}
)"},
    {"binary_from_probabilities", "clip log1p_double", R"(
static double loss_of_row(const float* y, const float* t, float* gradient,
                          int n, double scale) {
  double sum = 0;
  int j;
  for (j = 0; j < n; ++j) {
    const double target = (double)t[j], p = clip((double)y[j]);
    const double slope =
        clipped((double)y[j]) ? 0 : (p - target) / (p * (1 - p));
    sum += target * log1p_double((1 - p) / p) +
           (1 - target) * -log1p_double(-p);
    gradient[j] = (float)(scale * (slope / n));
  }
  return sum / n;
}
)"},
    {"squared_error", "", R"(
static double loss_of_row(const float* y, const float* t, float* gradient,
                          int n, double scale) {
  double sum = 0;
  int j;
  for (j = 0; j < n; ++j) {
    const double error = (double)y[j] - (double)t[j];
    sum += error * error;
    gradient[j] = (float)(scale * (2 * error / n));
  }
  return sum / n;
}
)"},
};

// `value` is an expression of the input x. `slope` is the gradient of x, as an
// expression of the output y and its gradient d.
constexpr struct {
  Activation activation;
  const char *needs, *value, *slope;
} kActivations[] = {
    {kRelu, "", "x < 0 ? 0 : x", "y > 0 ? d : 0"},
    {kRelu6, "", "x < 0 ? 0 : x > 6 ? 6 : x", "y > 0 && y < 6 ? d : 0"},
    {kLeakyRelu, "", "x > 0 ? x : 0.2f * x", "y > 0 ? d : 0.2f * d"},
    {kSigmoid, "sigmoid", "sigmoid(x)", "d * (y * (1 - y))"},
    {kTanh, "tanh_of", "tanh_of(x)", "d * (1 - y * y)"},
    {kElu, "expm1_of", "x > 0 ? x : expm1_of(x)", "y < 0 ? d * (y + 1) : d"},
    {kExponential, "exp_of", "exp_of(x)", "d * y"},
    {kHardSigmoid, "hard_sigmoid", "hard_sigmoid(x)",
     "y > 0 && y < 1 ? d / 6 : 0"},
    {kSilu, "sigmoid", "x * sigmoid(x)", nullptr},
};

}  // namespace

CHelperTable TrainingHelpers() { return {kRows, std::size(kRows)}; }

const char* ExactExpression(Activation activation, bool slope,
                            CHelpers* helpers) {
  for (const auto& row : kActivations) {
    if (row.activation != activation) continue;
    helpers->Add(row.needs);
    return slope ? row.slope : row.value;
  }
  return nullptr;
}

}  // namespace ringlet
