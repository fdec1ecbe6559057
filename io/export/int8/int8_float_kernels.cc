// Functions with integer sums and floats between them. Every compiler without
// fused operations gives the same floats, except for the last bits of expf and
// tanhf.
//
// The state of a recurrence is float. Before each product its largest number
// gives the step of int16 numbers, so that no range of examples limits it.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "../../../core/compute/functions.h"
#include "../../../core/layers/layer_loops.h"
#include "int8_kernels.h"
#include "int8_text.h"

namespace ringlet {
namespace int8 {
namespace {

// Functions that the C file has from its helpers or the C library.
float expf(float x) { return math::Exp(x); }
float root(float x) { return std::sqrt(x); }
void quantize(const float* x, int8_t* y, int n, float factor, int zero) {
  Quantize(x, y, n, factor, zero);
}

// y is quantized with `factor` and `zero`, as by quantize.
BOTH(
    kSoftmaxText,
    static void softmax_int8(const int8_t* x, int8_t* y, int rows, int n,
                             float scale, float factor, int zero) {
      int i;
      for (; rows > 0; --rows, x += n, y += n) {
        int max = -128;
        float sum = 0;
        for (i = 0; i < n; ++i) max = x[i] > max ? x[i] : max;
        for (i = 0; i < n; ++i) sum += expf(scale * (float)(x[i] - max));
        for (i = 0; i < n; ++i) {
          const float v = expf(scale * (float)(x[i] - max)) / sum;
          quantize(&v, y + i, 1, factor, zero);
        }
      }
    })

// `epsilon` is divided by the square of the scale of x. `gamma` and `beta` may
// be null.
BOTH(
    kNormalizeText,
    static void normalize(const int8_t* x, int8_t* y, int rows, int n,
                          float epsilon, const float* gamma, const float* beta,
                          float factor, int zero) {
      int i;
      for (; rows > 0; --rows, x += n, y += n) {
        int64_t sum = 0, square = 0;
        float mean, deviation;
        for (i = 0; i < n; ++i) {
          sum += x[i];
          square += x[i] * x[i];
        }
        mean = (float)sum / (float)n;
        deviation = root((float)(n * square - sum * sum) / (float)n / (float)n +
                         epsilon);
        for (i = 0; i < n; ++i) {
          const float v =
              ((float)x[i] - mean) / deviation * (gamma ? gamma[i] : 1) +
              (beta ? beta[i] : 0);
          quantize(&v, y + i, 1, factor, zero);
        }
      }
    })

// g[0] queries, g[1] values, g[2] numbers of a key, g[3] numbers of a value,
// g[4] 1 if a query attends to no later value, g[5] to g[8] the zeros of q, k,
// v and y. `scale` multiplies the scores. s has room for one for each value.
BOTH(
    kAttendText, static void attend(const int8_t* q, const int8_t* k,
                                    const int8_t* v, int8_t* y, const int* g,
                                    float scale, float factor, float* s) {
      const int queries = g[0], values = g[1], key_size = g[2];
      const int value_size = g[3], causal = g[4], q_zero = g[5];
      const int k_zero = g[6], v_zero = g[7], y_zero = g[8];
      int t, i, j;
      for (t = 0; t < queries; ++t, q += key_size) {
        const int n = causal && t + 1 < values ? t + 1 : values;
        const int8_t* a = k;
        float max = 0, sum = 0;
        for (i = 0; i < n; ++i, a += key_size) {
          int32_t product = 0;
          for (j = 0; j < key_size; ++j) {
            product += (q[j] - q_zero) * (a[j] - k_zero);
          }
          s[i] = (float)product * scale;
          max = i == 0 || s[i] > max ? s[i] : max;
        }
        for (i = 0; i < n; ++i) {
          s[i] = expf(s[i] - max);
          sum += s[i];
        }
        for (j = 0; j < value_size; ++j) {
          float mean = 0;
          for (i = 0; i < n; ++i) {
            mean += s[i] * (float)(v[i * value_size + j] - v_zero);
          }
          mean /= sum;
          quantize(&mean, y++, 1, factor, y_zero);
        }
      }
    })

// g[0] steps, g[1] features, g[2] floats that begin as 0 (the state, and
// scratch after it), g[3] 1 to begin with the last step, g[4] 1 for an output
// of all steps, g[5] 1 if this output begins with the last step, g[6] and g[7]
// the zeros of x and y. z has room for the gates and these g[2] floats.
BOTH(
    kCellText, typedef void (*function)(float* y, int n);

    typedef struct {
      const int8_t *w, *r;
      const float *w_factors, *r_factors, *b;
      int units, gates, levels;
      function activation, gate;
      int16_t* q;
    } cell;

    typedef void (*step)(const cell* c, float* z, float* h);

    static void add_sums(const int16_t* x, int terms, const int8_t* w,
                         const float* factors, float scale, float* z, int n) {
      int k, l;
      for (l = 0; l < n; ++l, w += terms) {
        int32_t sum = 0;
        for (k = 0; k < terms; ++k) sum += x[k] * w[k];
        z[l] += (float)sum * (factors[l] * scale);
      }
    }

    static void add_state(const cell* c, const float* h, int first, float* z,
                          int n) {
      const int u = c->units;
      const float levels = (float)c->levels;
      float max = 0;
      int i;
      for (i = 0; i < u; ++i) {
        const float v = h[i] < 0 ? -h[i] : h[i];
        max = v > max ? v : max;
      }
      if (!(max > 1e-30f)) return;
      for (i = 0; i < u; ++i) {
        const float v = h[i] * (levels / max);
        c->q[i] = (int16_t)(!(v < levels) ? levels
                            : v < 0       ? v - 0.5f
                                          : v + 0.5f);
      }
      add_sums(c->q, u, c->r + first * u, c->r_factors + first, max / levels, z,
               n);
    }

    static void recur(const int8_t* x, int8_t* y, const cell* c, step next,
                      const int* g, float factor, float* z) {
      const int steps = g[0], features = g[1], state_floats = g[2];
      const int backwards = g[3], all_steps = g[4], reversed = g[5];
      const int x_zero = g[6], y_zero = g[7], n = c->gates * c->units;
      float* const h = z + n;
      int8_t* to = y;
      int i, t;
      for (i = 0; i < state_floats; ++i) h[i] = 0;
      for (t = 0; t < steps; ++t) {
        const int8_t* const u = x + (backwards ? steps - 1 - t : t) * features;
        for (i = 0; i < n; ++i) z[i] = c->b ? c->b[i] : 0;
        for (i = 0; i < features; ++i) c->q[i] = (int16_t)(u[i] - x_zero);
        add_sums(c->q, features, c->w, c->w_factors, 1, z, n);
        next(c, z, h);
        if (!all_steps && t < steps - 1) continue;
        if (all_steps) {
          to = y + (backwards == reversed ? t : steps - 1 - t) * c->units;
        }
        quantize(h, to, c->units, factor, y_zero);
      }
    })

BOTH(
    kSimpleText, static void simple_step(const cell* c, float* z, float* h) {
      int i;
      add_state(c, h, 0, z, c->units);
      c->activation(z, c->units);
      for (i = 0; i < c->units; ++i) h[i] = z[i];
    })

BOTH(
    kLstmText, static void lstm_step(const cell* c, float* z, float* h) {
      const int u = c->units;
      float* const carry = h + u;
      int i;
      add_state(c, h, 0, z, 4 * u);
      c->gate(z, 2 * u);
      c->activation(z + 2 * u, u);
      c->gate(z + 3 * u, u);
      for (i = 0; i < u; ++i) {
        carry[i] = z[u + i] * carry[i] + z[i] * z[2 * u + i];
        h[i] = carry[i];
      }
      c->activation(h, u);
      for (i = 0; i < u; ++i) h[i] *= z[3 * u + i];
    })

BOTH(
    kGruAfterText,
    static void gru_after_step(const cell* c, float* z, float* h) {
      const int u = c->units;
      float *const n = z + 2 * u, *const product = h + u;
      const float* b = c->b;
      int i;
      if (b) b += 3 * u;
      for (i = 0; i < u; ++i) product[i] = b ? b[2 * u + i] : 0;
      for (i = 0; b && i < 2 * u; ++i) z[i] += b[i];
      add_state(c, h, 0, z, 2 * u);
      add_state(c, h, 2 * u, product, u);
      c->gate(z, 2 * u);
      for (i = 0; i < u; ++i) n[i] += z[u + i] * product[i];
      c->activation(n, u);
      for (i = 0; i < u; ++i) h[i] = z[i] * h[i] + (1 - z[i]) * n[i];
    })

BOTH(
    kGruBeforeText,
    static void gru_before_step(const cell* c, float* z, float* h) {
      const int u = c->units;
      float *const n = z + 2 * u, *const reset = h + u;
      int i;
      add_state(c, h, 0, z, 2 * u);
      c->gate(z, 2 * u);
      for (i = 0; i < u; ++i) reset[i] = z[u + i] * h[i];
      add_state(c, reset, 2 * u, n, u);
      c->activation(n, u);
      for (i = 0; i < u; ++i) h[i] = z[i] * h[i] + (1 - z[i]) * n[i];
    })

constexpr struct {
  Cell cell;
  const char *name, *text;
  step function;
} kSteps[] = {
    {Cell::kSimple, "simple_step", kSimpleText, simple_step},
    {Cell::kLstm, "lstm_step", kLstmText, lstm_step},
    {Cell::kGruAfter, "gru_after_step", kGruAfterText, gru_after_step},
    {Cell::kGruBefore, "gru_before_step", kGruBeforeText, gru_before_step},
};

const auto& StepOf(Cell cell) { return kSteps[static_cast<size_t>(cell)]; }

template <size_t activation>
void Each(float* y, int n) {
  BiasActivation(static_cast<Activation>(activation), nullptr, 1, n, y);
}

template <size_t... activations>
function EachOf(Activation activation, std::index_sequence<activations...>) {
  constexpr function kEach[] = {Each<activations>...};
  return kEach[activation];
}

function EachOf(Activation activation) {
  return EachOf(activation, std::make_index_sequence<kHardSigmoidKeras2 + 1>());
}

// r->cell decides the step's function.
void Recur(const int8_t* x, int8_t* y, const Recurrence* r, const void*,
           const int* g, float factor, float* z) {
  const cell c = {
      r->w,     r->r,     r->w_factors, r->r_factors,          r->b,
      r->units, r->gates, r->levels,    EachOf(r->activation), EachOf(r->gate),
      r->q};
  recur(x, y, &c, StepOf(r->cell).function, g, factor, z);
}

constexpr Function kFunctions[] = {
    {kSoftmax, kSoftmaxText, "softmax_int8", Call<softmax_int8>},
    {kNormalize, kNormalizeText, "normalize", Call<normalize>},
    {kAttend, kAttendText, "attend", Call<attend>},
    {kRecur, kCellText, "recur", Call<Recur>},
};

}  // namespace

const Function& FloatFunctionOf(Kernel kernel) {
  return *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                       [&](const Function& f) { return f.kernels == kernel; });
}

std::string FloatKernelText(uint32_t needed) {
  std::string out;
  for (const Function& function : kFunctions) {
    if ((function.kernels & needed) != 0) AppendLines(function.text, &out);
  }
  for (const auto& each : kSteps) {
    if ((StepBit(each.cell) & needed) != 0) AppendLines(each.text, &out);
  }
  return out;
}

const char* StepText(Cell cell) { return StepOf(cell).text; }
const char* StepName(Cell cell) { return StepOf(cell).name; }

}  // namespace int8
}  // namespace ringlet
