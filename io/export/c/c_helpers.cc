// A geometry g has the numbers that int8::GeometryText names.

#include "c_helpers.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "../../../core/base/number_text.h"
#include "../int8/int8_kernels.h"
#include "../int8/int8_text.h"

namespace ringlet {
namespace {

constexpr CHelperRow kHelpers[] = {
    {"sigmoid", "", R"(
static float sigmoid(float x) {
  const float e = expf(x < 0 ? x : -x);
  return (x < 0 ? e : 1) / (1 + e);
}
)"},
    {"hard_sigmoid", "", R"(
static float hard_sigmoid(float x) {
  return (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
}
)"},
    {"mish", "", R"(
static float mish(float x) {
  const float e = expf(x < 20 ? x : 20), n = e * (e + 2);
  return x * (n / (n + 2));
}
)"},
    {"error_function", "", R"(
/* Abramowitz and Stegun, 7.1.26 */
static float error_function(float x) {
  const float a = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * a);
  const float y = 1 - ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) *
                        t - 0.284496736f) * t + 0.254829592f) * t * expf(-a * a);
  return x < 0 ? -y : y;
}
)"},
    {"log_of_1_and", "", R"(
/* log(1 + x), x in [0, 1] */
static float log_of_1_and(float x) {
  const float s = x / (2 + x), t = s * s;
  return 2 * s * (1 + t * (1 / 3.0f + t * (1 / 5.0f + t * (1 / 7.0f + t * (
                  1 / 9.0f + t * (1 / 11.0f + t / 13.0f))))));
}
)"},
    {"log_of", "log_of_1_and", R"(
/* x >= 1 */
static float log_of(float x) {
  int k = 0;
  for (; x > 2; ++k) x *= 0.5f;
  return (float)k * 0.69314718f + log_of_1_and(x - 1);
}
)"},
    {"root", "", R"(
static float root(float x) {
  float y = x < 1 ? 1 : x;
  int i;
  for (i = 0; i < 100; ++i) {
    const float z = 0.5f * (y + x / y);
    if (!(z < y)) break;
    y = z;
  }
  return y;
}
)"},
    {"fused", "", R"(
#define fused(a, b, c) ((c) + (a) * (b))
)"},
    {"conv", "fused geometry", R"(
/* w: (window height, width, channels of a group, filters). A sum is one of
   128 terms at a time, of which those outside of the image are 0. */
static void conv(const float* x, float* y, const float* w, const float* b,
                 const int* g) {
  const int channels = g[X_CHANNELS], group_channels = channels / g[GROUPS];
  const int filters = g[Y_CHANNELS], group_filters = filters / g[GROUPS];
  int first, i, j, k, l, y_row, y_column;
  for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
    for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column, y += filters) {
      for (first = 0; first < filters;) {
        const int left = group_filters - first % group_filters;
        const int n = left < 32 ? left : 32;
        float sum[32], part[32] = {0};
        int block = 0;
        for (l = 0; l < n; ++l) sum[l] = -0.0f;
        for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
          const int x_row =
              y_row * g[STRIDE_DOWN] + i * g[DILATION_DOWN] - g[PAD_TOP];
          if (x_row < 0 || x_row >= g[X_HEIGHT]) continue;
          for (j = 0; j < g[WINDOW_WIDTH]; ++j) {
            const int x_column = y_column * g[STRIDE_RIGHT] +
                                 j * g[DILATION_RIGHT] - g[PAD_LEFT];
            const int term = (i * g[WINDOW_WIDTH] + j) * group_channels;
            const float *pixel, *taps;
            if (x_column < 0 || x_column >= g[X_WIDTH]) continue;
            pixel = x + (x_row * g[X_WIDTH] + x_column) * channels +
                    first / group_filters * group_channels;
            taps = w + term * filters + first;
            for (k = 0; k < group_channels; ++k, taps += filters) {
              for (l = 0; (term + k) / 128 > block && l < n; ++l) {
                sum[l] += part[l];
                part[l] = 0;
              }
              block = (term + k) / 128;
              for (l = 0; l < n; ++l) {
                part[l] = fused(pixel[k], taps[l], part[l]);
              }
            }
          }
        }
        for (l = 0; l < n; ++l) {
          sum[l] += part[l];
          y[first + l] = b ? sum[l] + b[first + l] : sum[l];
        }
        first += n;
      }
    }
  }
}
)"},
    {"conv_transpose", "geometry", R"(
/* The reverse of conv() from y to x; w: (window height, width, channels of y,
   of x). The padding is that of y. */
static void conv_transpose(const float* x, float* y, const float* w,
                           const float* b, const int* g) {
  const int channels = g[X_CHANNELS], filters = g[Y_CHANNELS];
  int i, j, k, l, y_row, y_column;
  for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
    for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column, y += filters) {
      for (l = 0; l < filters; ++l) {
        float sum = 0, part = 0;
        int terms = 0;
        for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
          const int down = y_row + g[PAD_TOP] - i * g[DILATION_DOWN];
          const int x_row = down / g[STRIDE_DOWN];
          if (down < 0 || down % g[STRIDE_DOWN] != 0) continue;
          if (x_row >= g[X_HEIGHT]) continue;
          for (j = 0; j < g[WINDOW_WIDTH]; ++j) {
            const int right = y_column + g[PAD_LEFT] - j * g[DILATION_RIGHT];
            const int x_column = right / g[STRIDE_RIGHT];
            const float *pixel, *taps;
            if (right < 0 || right % g[STRIDE_RIGHT] != 0) continue;
            if (x_column >= g[X_WIDTH]) continue;
            pixel = x + (x_row * g[X_WIDTH] + x_column) * channels;
            taps = w + ((i * g[WINDOW_WIDTH] + j) * filters + l) * channels;
            for (k = 0; k < channels; ++k) {
              part += pixel[k] * taps[k];
              if (++terms % 128 != 0) continue;
              sum += part;
              part = 0;
            }
          }
        }
        y[l] = sum + part + (b ? b[l] : 0);
      }
    }
  }
}
)"},
    {"pool", "geometry", R"(
static void pool(const float* x, float* y, const int* g) {
  const int channels = g[X_CHANNELS];
  int i, j, k, y_row, y_column;
  for (y_row = 0; y_row < g[Y_HEIGHT]; ++y_row) {
    for (y_column = 0; y_column < g[Y_WIDTH]; ++y_column, y += channels) {
      int count = 0;
      for (k = 0; k < channels; ++k) y[k] = 0;
      for (i = 0; i < g[WINDOW_HEIGHT]; ++i) {
        const int x_row = y_row * g[STRIDE_DOWN] + i - g[PAD_TOP];
        if (x_row < 0 || x_row >= g[X_HEIGHT]) continue;
        for (j = 0; j < g[WINDOW_WIDTH]; ++j) {
          const int x_column = y_column * g[STRIDE_RIGHT] + j - g[PAD_LEFT];
          const float* pixel;
          if (x_column < 0 || x_column >= g[X_WIDTH]) continue;
          pixel = x + (x_row * g[X_WIDTH] + x_column) * channels;
          for (k = 0; k < channels; ++k) {
            if (!g[IS_MAX]) y[k] += pixel[k];
            else if (!count || pixel[k] > y[k]) y[k] = pixel[k];
          }
          ++count;
        }
      }
      for (k = 0; !g[IS_MAX] && k < channels; ++k) y[k] *= 1.0f / (float)count;
    }
  }
}
)"},
    {"resize", "", R"(
/* g: input size; begin and size of a part of it; output size. A pixel outside
   of the input is -1. */
static int pixel_in(int i, const int* g) {
  const int size = g[0], begin = g[1], count = g[2];
  i = begin + (i < 0 ? 0 : i < count ? i : count - 1);
  return i < 0 || i >= size ? -1 : i;
}
static float pixels_at(int at, int nearest, const int* g, int* pixels) {
  const int count = g[2], outputs = g[3], whole = 2 * outputs;
  const int m = (2 * at + 1) * count - (nearest ? 0 : outputs);
  const int first = m < 0 ? -1 : m / whole;
  pixels[0] = pixel_in(first, g);
  pixels[1] = nearest ? pixels[0] : pixel_in(first + 1, g);
  return nearest ? 0 : (float)(m - first * whole) / (float)whole;
}
/* g: channels; 1 to copy pixels; rows and columns, as in pixel_in */
static void resize(const float* x, float* y, const int* g, float fill) {
  const int channels = g[0], nearest = g[1], x_width = g[6];
  const int y_height = g[5], y_width = g[9];
  int y_row, y_column, k, rows[2], columns[2];
  for (y_row = 0; y_row < y_height; ++y_row) {
    const float down = pixels_at(y_row, nearest, g + 2, rows);
    for (y_column = 0; y_column < y_width; ++y_column) {
      const float right = pixels_at(y_column, nearest, g + 6, columns);
      for (k = 0; k < channels; ++k) {
        float u[4], above, below;
        int i;
        for (i = 0; i < 4; ++i) {
          const int row = rows[i / 2], column = columns[i % 2];
          const int at = (row * x_width + column) * channels + k;
          u[i] = row < 0 || column < 0 ? fill : x[at];
        }
        above = u[0] + (u[1] - u[0]) * right;
        below = u[2] + (u[3] - u[2]) * right;
        *y++ = above + (below - above) * down;
      }
    }
  }
}
)"},
    {"copy", "", R"(
/* g: for each axis how many, and the steps in x and y */
static void copy(const float* x, float* y, int axes, const int* g) {
  int at[8] = {0}, from = 0, to = 0, k;
  for (;;) {
    y[to] = x[from];
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
}
)"},
    {"merge", "", R"(
static float plus(float a, float b) { return a + b; }
static float minus(float a, float b) { return a - b; }
static float times(float a, float b) { return a * b; }
static float larger(float a, float b) { return b > a ? b : a; }
static float smaller(float a, float b) { return b < a ? b : a; }
static float sloped(float a, float b) { return a < 0 ? a * b : a; }
static float quotient(float a, float b) { return b != 0 ? a / b : 0; }
typedef float (*operation)(float, float);
static const operation operations[] = {plus,    minus,  times,   larger,
                                       smaller, sloped, quotient};

/* g: for each axis how many, and the steps in a and b */
static void merge(int what, const float* a, const float* b, float* y, int axes,
                  const int* g) {
  const operation merged = operations[what];
  int at[8] = {0}, i = 0, j = 0, k;
  for (;;) {
    *y++ = merged(a[i], b[j]);
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
}
)"},
    {"affine", "", R"(
static void affine(const float* x, float* y, int rows, int n, const float* a,
                   const float* b, const float* c) {
  int i, j;
  for (i = 0; i < rows; ++i, x += n, y += n) {
    for (j = 0; j < n; ++j) {
      y[j] = (x[j] - (a ? a[j] : 0)) * b[j] + (c ? c[j] : 0);
    }
  }
}
)"},
    {"normalize", "root", R"(
static void normalize(const float* x, float* y, int rows, int n, float epsilon,
                      const float* gamma, const float* beta) {
  int i, j;
  for (i = 0; i < rows; ++i, x += n, y += n) {
    float mean = 0, square = 0, part = 0;
    for (j = 0; j < n; ++j) {
      part += x[j] - x[0];
      if (j % 128 < 127 && j < n - 1) continue;
      mean += part;
      part = 0;
    }
    mean = x[0] + mean / (float)n;
    for (j = 0; j < n; ++j) {
      part += (x[j] - mean) * (x[j] - mean);
      if (j % 128 < 127 && j < n - 1) continue;
      square += part;
      part = 0;
    }
    square = 1 / root(square / (float)n + epsilon);
    for (j = 0; j < n; ++j) {
      y[j] = (x[j] - mean) * square * (gamma ? gamma[j] : 1) +
             (beta ? beta[j] : 0);
    }
  }
}
)"},
    {"group_normalize", "root", R"(
static void group_normalize(const float* x, float* y, int rows, int groups,
                            int n, float epsilon, const float* gamma,
                            const float* beta) {
  const int row = groups * n, count = rows * n;
  int i, j, k;
  for (; groups > 0; --groups, x += n, y += n) {
    float mean = 0, square = 0, part = 0;
    for (i = k = 0; i < rows; ++i) {
      for (j = 0; j < n; ++j) {
        part += x[i * row + j] - x[0];
        if (++k % 128 > 0 && k < count) continue;
        mean += part;
        part = 0;
      }
    }
    mean = x[0] + mean / (float)count;
    for (i = k = 0; i < rows; ++i) {
      for (j = 0; j < n; ++j) {
        part += (x[i * row + j] - mean) * (x[i * row + j] - mean);
        if (++k % 128 > 0 && k < count) continue;
        square += part;
        part = 0;
      }
    }
    square = 1 / root(square / (float)count + epsilon);
    for (i = 0; i < rows; ++i) {
      for (j = 0; j < n; ++j) {
        y[i * row + j] =
            (x[i * row + j] - mean) * square * (gamma ? gamma[j] : 1) +
            (beta ? beta[j] : 0);
      }
    }
    if (gamma) gamma += n;
    if (beta) beta += n;
  }
}
)"},
    {"unit_normalize", "root", R"(
static void unit_normalize(const float* x, float* y, int rows, int n,
                           float min) {
  for (; rows > 0; --rows, x += n, y += n) {
    float square = 0, part = 0;
    int i;
    for (i = 0; i < n; ++i) {
      part += x[i] * x[i];
      if (i % 128 < 127 && i < n - 1) continue;
      square += part;
      part = 0;
    }
    square = 1 / root(square > min ? square : min);
    for (i = 0; i < n; ++i) y[i] = x[i] * square;
  }
}
)"},
    {"softmax", "", R"(
static void softmax(float* y, int rows, int n) {
  for (; rows > 0; --rows, y += n) {
    float max = y[0], sum = 0;
    int i;
    for (i = 1; i < n; ++i) max = y[i] > max ? y[i] : max;
    for (i = 0; i < n; ++i) sum += y[i] = expf(y[i] - max);
    for (i = 0; i < n; ++i) y[i] /= sum;
  }
}
)"},
    {"log_softmax", "log_of", R"(
static void log_softmax(float* y, int rows, int n) {
  for (; rows > 0; --rows, y += n) {
    float max = y[0], sum = 0;
    int i;
    for (i = 1; i < n; ++i) max = y[i] > max ? y[i] : max;
    for (i = 0; i < n; ++i) sum += expf(y[i] - max);
    sum = log_of(sum);
    for (i = 0; i < n; ++i) y[i] = y[i] - max - sum;
  }
}
)"},
    {"zero", "", R"(
static void zero(float* y, int n) {
  for (; n > 0; --n) *y++ = 0;
}
)"},
    {"gather", "", R"(
/* Row x of w, which has `rows` rows of n numbers, for each x. */
static void gather(const float* x, float* y, int count, const float* w,
                   int rows, int n) {
  int i;
  for (; count > 0; --count, ++x) {
    const int row = !(*x > 0) ? 0 : *x < (float)rows ? (int)*x : rows - 1;
    for (i = 0; i < n; ++i) *y++ = w[row * n + i];
  }
}
)"},
    {"attend", "softmax", R"(
/* The scores of query t that do not count; all do if none does. */
static void hide(const float* m, const int* g, int t, float* s) {
  const int values = g[2], causal = g[5], row_step = g[6], step = g[7];
  int i, any = 0;
  for (i = 0; i < values; ++i) {
    if (m[t * row_step + i * step] == 0 || (causal && i > t)) s[i] = -1e9f;
    else any = 1;
  }
  for (i = 0; !any && i < values; ++i) s[i] = 0;
}

/* Causal: no value behind a query counts. s: a float for each value. The end of
   g: the steps of the mask m. */
static void attend(const float* q, const float* k, const float* v,
                   const float* m, float* y, const int* g, float factor,
                   float* s) {
  const int heads = g[0], queries = g[1], values = g[2], causal = g[5];
  const int key_size = g[3], value_size = g[4];
  const int key = heads * key_size, value = heads * value_size;
  int h, t, i, j;
  for (t = 0; t < queries; ++t) {
    const int n = causal && !m && t + 1 < values ? t + 1 : values;
    for (h = 0; h < heads; ++h) {
      const float *const u = q + t * key + h * key_size, *a = k + h * key_size;
      float* const z = y + t * value + h * value_size;
      for (i = 0; i < n; ++i, a += key) {
        float sum = 0, part = 0;
        for (j = 0; j < key_size; ++j) {
          part += u[j] * a[j];
          if (j % 128 < 127 && j < key_size - 1) continue;
          sum += part;
          part = 0;
        }
        s[i] = sum * factor;
      }
      if (m) hide(m, g, t, s);
      softmax(s, 1, n);
      for (j = 0; j < value_size; ++j) {
        float sum = 0, part = 0;
        for (i = 0; i < n; ++i) {
          part += s[i] * v[i * value + h * value_size + j];
          if (i % 128 < 127 && i < n - 1) continue;
          sum += part;
          part = 0;
        }
        z[j] = sum;
      }
    }
  }
}
)"},
    {"fast_fourier", "", R"(
/* Squared magnitudes p of the Fourier transform of n numbers, a power of 2; or
   its real parts p and imaginary parts q. c: the cosines, then the sines, of
   2 pi k / n for k up to n / 2. */
static void fourier(float* x, float* p, float* q, int n, const float* c,
                    int begin, int count) {
  const int h = n / 2;
  const float* const s = c + h + 1;
  int i, j, k, half;
  (void)begin;
  (void)count;
  for (i = 1, j = 0; i < h; ++i) {
    int bit = h / 2;
    for (; j & bit; bit /= 2) j ^= bit;
    j ^= bit;
    for (k = 0; k < 2 && i < j; ++k) {
      const float t = x[2 * i + k];
      x[2 * i + k] = x[2 * j + k];
      x[2 * j + k] = t;
    }
  }
  for (half = 1; half < h; half *= 2) {
    for (i = 0; i < h; i += 2 * half) {
      for (k = 0; k < half; ++k) {
        const float u = c[k * (h / half)], v = s[k * (h / half)];
        float *a = x + 2 * (i + k), *b = a + 2 * half;
        const float r = b[0] * u + b[1] * v, m = b[1] * u - b[0] * v;
        b[0] = a[0] - r;
        b[1] = a[1] - m;
        a[0] += r;
        a[1] += m;
      }
    }
  }
  for (k = 0; k <= h; ++k) {
    const float *a = x + 2 * (k % h), *b = x + 2 * ((h - k) % h);
    const float e = 0.5f * (a[0] + b[0]), f = 0.5f * (a[1] - b[1]),
                g = 0.5f * (a[1] + b[1]), o = 0.5f * (b[0] - a[0]);
    const float r = e + (g * c[k] + o * s[k]), m = f + (o * c[k] - g * s[k]);
    p[k] = q ? r : r * r + m * m;
    if (q) q[k] = m;
  }
}
)"},
    {"direct_fourier", "", R"(
/* Squared magnitudes p of the Fourier transform of n numbers, by its
   definition; or its real parts p and imaginary parts q. x[begin] and the next
   are not 0. c: the cosines, then the sines, of 2 pi k / n. */
static void fourier(float* x, float* p, float* q, int n, const float* c,
                    int begin, int count) {
  int i, k;
  for (k = 0; k <= n / 2; ++k) {
    float r = 0, m = 0;
    int at = (int)((long long)begin * k % n);
    for (i = begin; i < begin + count; ++i) {
      r += x[i] * c[at];
      m -= x[i] * c[n + at];
      at += k;
      if (at >= n) at -= n;
    }
    p[k] = q ? r : r * r + m * m;
    if (q) q[k] = m;
  }
}
)"},
    {"spectrogram", "", R"(
/* n: the length of the transform. m: the first frequency and the number of each
   mel bin. coefficients: of an MFCC. */
static void spectrogram(const float* x, float* y, const int* g, const float* f,
                        const float* window, const float* c, const int* m,
                        const float* w, const float* d, float* z) {
  const int frames = g[0], stride = g[1], samples = g[2], padding = g[3];
  const int window_size = g[4], begin = g[5], n = g[6], mels = g[7];
  const int coefficients = g[8], frames_last = g[9], has_log = g[10];
  const int has_range = g[11], bins = n / 2 + 1;
  const float exponent = f[0], least = f[1], offset = f[2], factor = f[3];
  const float reference = f[4], range = f[5];
  float *const p = z + n, *const v = p + bins;
  const int width = coefficients > 0 ? coefficients : mels;
  int t, i, k;
  for (t = 0; t < frames; ++t) {
    const float* u = w;
    for (i = 0; i < n; ++i) z[i] = 0;
    for (i = 0; i < window_size; ++i) {
      int at = t * stride + begin + i - padding;
      if (at < 0) at = -at;
      if (at >= samples) at = 2 * (samples - 1) - at;
      z[begin + i] = window[i] * x[at];
    }
    fourier(z, p, 0, n, c, begin, window_size);
    for (k = 0; k < bins && exponent != 2; ++k) {
      p[k] = exponent == 1 ? sqrtf(p[k])
             : p[k] > 0    ? powf(p[k], exponent / 2)
                           : 0;
    }
    for (k = 0; k < mels; ++k) {
      float sum = 0;
      for (i = 0; i < m[2 * k + 1]; ++i) sum += *u++ * p[m[2 * k] + i];
      if (has_log) {
        sum = logf((sum < least ? least : sum) + offset) * factor - reference;
      }
      v[k] = sum;
    }
    for (k = 0; k < width; ++k) {
      float sum = v[k];
      if (coefficients > 0) {
        for (sum = 0, i = 0; i < mels; ++i) sum += d[k * mels + i] * v[i];
      }
      y[frames_last ? k * frames + t : t * width + k] = sum;
    }
  }
  if (has_range) {
    float max = y[0];
    for (i = 1; i < frames * width; ++i) max = y[i] > max ? y[i] : max;
    for (i = 0; i < frames * width; ++i) {
      y[i] = y[i] < max - range ? max - range : y[i];
    }
  }
}
)"},
    {"stft_spectrogram", "", R"(
/* The transform of each frame and channel. n: its length. */
static void stft_spectrogram(const float* x, float* y, const int* g,
                             const float* window, const float* c, float* z) {
  const int frames = g[0], stride = g[1], samples = g[2], padding = g[3];
  const int window_size = g[4], n = g[5], channels = g[6], mode = g[7];
  const int channels_last = g[8], bins = n / 2 + 1;
  const int width = mode == 6 ? 2 * bins : bins;
  const int step = channels_last ? channels : 1;
  float *const p = z + n, *const q = p + bins;
  int t, h, i, k;
  for (t = 0; t < frames; ++t) {
    for (h = 0; h < channels; ++h) {
      float* const to = y + (channels_last ? t * width * channels + h
                                           : (t * channels + h) * width);
      for (i = 0; i < n; ++i) z[i] = 0;
      for (i = 0; i < window_size; ++i) {
        const int at = t * stride + i - padding;
        if (at >= 0 && at < samples) z[i] = window[i] * x[at * channels + h];
      }
      fourier(z, p, q, n, c, 0, window_size);
      for (k = 0; k < bins; ++k) {
        float v = p[k] * p[k] + q[k] * q[k];
        if (mode == 2 && k > 0 && k < bins - 1) v *= 2;
        if (mode < 2) v = sqrtf(v > 1e-7f ? v : 1e-7f);
        if (mode == 0) v = logf(v);
        if (mode == 3 || mode == 6) v = p[k];
        if (mode == 4) v = q[k];
        if (mode == 5) v = atan2f(q[k], p[k]);
        to[k * step] = v;
        if (mode == 6) to[(bins + k) * step] = q[k];
      }
    }
  }
}
)"},
    {"mask", "", R"(
/* 1 for each row of n numbers that has another than `value`, else 0. */
static void mask(const float* x, float* y, int rows, int n, float value) {
  int i;
  for (; rows > 0; --rows, ++y) {
    for (*y = 0, i = 0; i < n; ++i, ++x) {
      if (*x != value) *y = 1;
    }
  }
}
)"},
    {"recur", "", R"(
typedef void (*function)(float* y, int n);

/* What each step uses. w and r: (features or units, gates of all units). */
typedef struct {
  const float *w, *r, *b;
  int units, gates;
  function activation, gate;
} cell;
/* z has the products of the inputs; h the state, and behind it what else. */
typedef void (*step)(const cell* c, float* z, float* h);

/* z += x w, for n columns of w from the first on. */
static void add_product(const float* x, int terms, const float* w, int columns,
                        float* z, int n) {
  int first, k, l;
  for (first = 0; first < n; first += 32) {
    const int left = n - first, m = left < 32 ? left : 32;
    float part[32] = {0};
    const float* t = w + first;
    for (k = 0; k < terms; ++k, t += columns) {
      for (l = 0; l < m; ++l) part[l] += x[k] * t[l];
      if (k % 128 < 127 && k < terms - 1) continue;
      for (l = 0; l < m; ++l) {
        z[first + l] += part[l];
        part[l] = 0;
      }
    }
  }
}

/* z += h r, for n columns of r from `first` on. */
static void add_state(const cell* c, const float* h, int first, float* z,
                      int n) {
  add_product(h, c->units, c->r + first, c->gates * c->units, z, n);
}

/* backwards: from the last step on. reversed: an output of all steps begins
   with the last step. last_states: behind the output. zero_masked: zeros at masked
   steps. h0 and c0: the initial states; 0: zeros. m: the mask; 0: all steps
   count. */
static void recur(const float* x, float* y, const cell* c, step next,
                  const int* g, const float* h0, const float* c0,
                  const float* m, float* z) {
  const int steps = g[0], features = g[1], state_floats = g[2];
  const int backwards = g[3], all_steps = g[4], reversed = g[5];
  const int last_states = g[6], zero_masked = g[7];
  const int n = c->gates * c->units;
  float *const h = z + n, *to = y;
  int i, t, has_output = 0;
  for (i = 0; i < state_floats; ++i) h[i] = 0;
  for (i = 0; h0 && i < c->units; ++i) h[i] = h0[i];
  for (i = 0; c0 && i < c->units; ++i) h[c->units + i] = c0[i];
  for (t = 0; t < steps; ++t) {
    const int row = backwards ? steps - 1 - t : t, counts = !m || m[row] != 0;
    for (i = 0; counts && i < n; ++i) z[i] = c->b ? c->b[i] : 0;
    if (counts) add_product(x + row * features, features, c->w, n, z, n);
    if (counts) next(c, z, h);
    has_output = counts || (has_output && !zero_masked);
    if (!all_steps && t < steps - 1) continue;
    if (all_steps) {
      to = y + (backwards == reversed ? t : steps - 1 - t) * c->units;
    }
    for (i = 0; i < c->units; ++i) to[i] = has_output ? h[i] : 0;
  }
  to = y + (all_steps ? steps : 1) * c->units;
  for (i = 0; i < last_states * c->units; ++i) to[i] = h[i];
}
)"},
};

constexpr struct {
  Activation activation;
  const char* needs;
  const char* text;
} kExpressions[] = {
    {kRelu, "", "x < 0 ? 0 : x"},
    {kSigmoid, "sigmoid", "sigmoid(x)"},
    {kTanh, "", "tanhf(x)"},
    {kRelu6, "", "x < 0 ? 0 : x > 6 ? 6 : x"},
    {kElu, "", "x > 0 ? x : expf(x) - 1"},
    {kSelu, "",
     "1.05070098735548f * (x > 0 ? x : 1.67326324235438f * (expf(x) - 1))"},
    {kLeakyRelu, "", "x > 0 ? x : 0.2f * x"},
    {kExponential, "", "expf(x)"},
    {kHardSigmoid, "hard_sigmoid", "hard_sigmoid(x)"},
    {kHardSigmoidKeras2, "", "x < -2.5f ? 0 : x > 2.5f ? 1 : 0.2f * x + 0.5f"},
    {kSoftsign, "", "x / (1 + (x < 0 ? -x : x))"},
    {kSoftplus, "log_of_1_and",
     "(x < 0 ? 0 : x) + log_of_1_and(expf(x < 0 ? x : -x))"},
    {kGelu, "error_function",
     "0.5f * x * (1 + error_function(x * 0.70710678f))"},
    {kSilu, "sigmoid", "x * sigmoid(x)"},
    {kHardSilu, "hard_sigmoid", "x * hard_sigmoid(x)"},
    {kMish, "mish", "mish(x)"},
};

}  // namespace

std::string ForComment(std::string name) {
  std::replace(name.begin(), name.end(), '*', '_');
  return name;
}

std::string CNumber(float value) {
  const std::string text = ShortestText(value);
  return text + (text.find_first_of(".e") == std::string::npos ? ".f" : "f");
}

std::string CString(const std::string& bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?') {  // two ? may begin a trigraph
      text += std::string("\\") + c;
    } else if (byte >= ' ' && byte < 127) {
      text += c;
    } else {  // three octal digits end the escape
      for (const int shift : {6, 3, 0}) {
        if (shift == 6) text += '\\';
        text += static_cast<char>('0' + (byte >> shift & 7));
      }
    }
  }
  return text + "\"";
}

void CHelpers::Add(const char* names) {
  names_ += names;
  names_ += ' ';
}

bool CHelpers::Has(const char* name) const {
  return names_.find(' ' + std::string(name) + ' ') != std::string::npos;
}

// Begins with the last row, since a row calls functions of earlier ones.
static void PrependTexts(const CHelperTable& table, const CHelperTable& others,
                         CHelpers* needed, std::string* text) {
  for (size_t i = table.count; i-- > 0;) {
    const CHelperRow& row = table.rows[i];
    const auto has_name = [&](const CHelperRow& other) {
      return std::strcmp(row.name, other.name) == 0;
    };
    if (!needed->Has(row.name) ||
        std::any_of(others.rows, others.rows + others.count, has_name)) {
      continue;
    }
    text->insert(0, row.text);
    needed->Add(row.needs);
  }
}

std::string CHelperTexts(const CHelpers& helpers, const CHelperTable& others) {
  std::string text;
  CHelpers needed = helpers;
  PrependTexts({kHelpers, std::size(kHelpers)}, others, &needed, &text);
  PrependTexts(others, {}, &needed, &text);
  if (needed.Has("geometry")) text.insert(0, int8::GeometryText());
  for (const Cell cell :
       {Cell::kSimple, Cell::kLstm, Cell::kGruAfter, Cell::kGruBefore}) {
    if (!needed.Has(int8::StepName(cell))) continue;
    int8::AppendLines(int8::StepText(cell), &text);
  }
  return text;
}

std::string CFunction(const std::string& name, const std::string& expression) {
  return "\nstatic void " + name +
         "(float* y, int n) {\n  for (; n > 0; --n, ++y) {\n"
         "    const float x = *y;\n    *y = " +
         expression + ";\n  }\n}\n";
}

const char* CExpression(Activation activation, CHelpers* helpers) {
  for (const auto& row : kExpressions) {
    if (row.activation != activation) continue;
    helpers->Add(row.needs);
    return row.text;
  }
  return nullptr;
}

}  // namespace ringlet
