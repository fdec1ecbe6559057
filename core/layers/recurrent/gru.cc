// GRU. The gates are update, reset and new, as in Keras:
//
//   h = z h + (1 - z) n
//
// with n = activation(x W + r (h R + b')), or with reset_after false
// activation(x W + (r h) R). The extra values are h R + b', which Backward
// replaces by its gradient; or r h.

#include <algorithm>

#include "../layer_loops.h"
#include "recurrent.h"

namespace ringlet {
namespace {

constexpr int64_t kGates = 3;

class GruOp : public RecurrentOp {
 protected:
  GruOp(const Layer& layer, const Shape& x, const Shape& bias)
      : RecurrentOp(layer, x, {kGates, /*states=*/1, /*has_extra=*/true},
                    bias) {}

  // h = z h + (1 - z) n
  void Mix(const float* z, const float* n, float* h) const {
    for (int64_t j = 0; j < units(); ++j) {
      h[j] = z[j] * h[j] + (1 - z[j]) * n[j];
    }
  }
  // Computes the gradients of z, of the input of n's activation, and, through z
  // alone, of the previous state.
  void MixBackward(const float* __restrict z, const float* __restrict n,
                   const float* __restrict before, float* __restrict dh,
                   float* __restrict dz, float* __restrict dn) const {
    for (int64_t j = 0; j < units(); ++j) {
      dz[j] = dh[j] * (before[j] - n[j]);
      dn[j] = dh[j] * (1 - z[j]);
      dh[j] *= z[j];
    }
    GateGradient(activation_, n, units(), dn);
  }
};

class ResetAfterOp final : public GruOp {
 public:
  ResetAfterOp(const Layer& layer, const Shape& x)
      : GruOp(layer, x, {2, kGates * layer.units}) {}

 protected:
  void StepForward(const RecurrentStep& step) const override {
    const int64_t u = units();
    if (!step.is_first) {
      MultiplyState(step, step.state, {0, 2}, /*add=*/true, step.gates);
      MultiplyState(step, step.state, {2, 3}, /*add=*/false, step.extra);
    }
    const float* const bias =
        has_bias() ? step.call->weights[2] + kGates * u : nullptr;
    for (int64_t i = 0; i < step.examples; ++i) {
      float *const z = step.gates[i], *const r = z + u, *const n = r + u,
                   *const product = step.extra[i];
      if (step.is_first) std::fill_n(product, u, 0.0f);
      if (bias != nullptr) AddTo(bias + 2 * u, u, product);
      BiasActivation(recurrent_activation_, bias, 1, 2 * u, z);
      for (int64_t j = 0; j < u; ++j) n[j] += r[j] * product[j];
      ActivateGate(activation_, u, n);
      Mix(z, n, step.state[i]);
    }
  }

  void StepBackward(const RecurrentStep& step) const override {
    const int64_t u = units();
    for (int64_t i = 0; i < step.examples; ++i) {
      float *const z = step.gates[i], *const r = z + u, *const n = r + u,
                   *const product = step.extra[i];
      float *const dz = step.row, *const dr = dz + u, *const dn = dr + u;
      MixBackward(z, n, step.state[i], step.d_state + i * u, dz, dn);
      for (int64_t j = 0; j < u; ++j) {
        dr[j] = dn[j] * product[j];
        product[j] = dn[j] * r[j];
      }
      GateGradient(recurrent_activation_, z, 2 * u, dz);
      std::copy_n(dz, kGates * u, z);
    }
    AddStateGradient(step, step.gates, {0, 2}, step.d_state);
    AddStateGradient(step, step.extra, {2, 3}, step.d_state);
  }

  void RecurrentGradients(const OpCall& call,
                          const SavedSpans& saved) const override {
    const ConstMatrix gates = RowMajor(static_cast<const float*>(saved.gates),
                                       Rows(call), kGates * units());
    RecurrentGradient(call, saved.states[0], /*masked=*/false, {0, 2},
                      gates.Cols(0, 2 * units()), saved.adds);
    RecurrentGradient(
        call, saved.states[0], /*masked=*/false, {2, 3},
        RowMajor(static_cast<const float*>(saved.extra), Rows(call), units()),
        saved.adds);
  }

  void BiasGradient(const OpCall& call,
                    const SavedSpans& saved) const override {
    float* const input_bias = call.d_weights[2];
    float* const state_bias = input_bias + kGates * units();
    std::copy_n(input_bias, 2 * units(), state_bias);
    if (!saved.adds) std::fill_n(state_bias + 2 * units(), units(), 0.0f);
    AddColumnSums(saved.extra, Rows(call), units(), state_bias + 2 * units());
  }
};

class ResetBeforeOp final : public GruOp {
 public:
  ResetBeforeOp(const Layer& layer, const Shape& x)
      : GruOp(layer, x, {kGates * layer.units}) {}

 protected:
  void StepForward(const RecurrentStep& step) const override {
    const int64_t u = units();
    if (!step.is_first) {
      MultiplyState(step, step.state, {0, 2}, /*add=*/true, step.gates);
    }
    for (int64_t i = 0; i < step.examples; ++i) {
      float* const z = step.gates[i];
      ActivateGate(recurrent_activation_, 2 * u, z);
      for (int64_t j = 0; j < u; ++j) {
        step.extra[i][j] = z[u + j] * step.state[i][j];
      }
      if (const float* const mask = StateMask(step.masks, i, 2)) {
        for (int64_t j = 0; j < u; ++j) step.extra[i][j] *= mask[j];
      }
    }
    if (!step.is_first) {
      MultiplyNew(step, step.extra, step.gates.At(2 * u));
    }
    for (int64_t i = 0; i < step.examples; ++i) {
      float *const z = step.gates[i], *const n = z + 2 * u;
      ActivateGate(activation_, u, n);
      Mix(z, n, step.state[i]);
    }
  }

  void StepBackward(const RecurrentStep& step) const override {
    const int64_t u = units();
    float* const dzs = step.products;
    float* const d_resets = dzs + step.examples * u;
    for (int64_t i = 0; i < step.examples; ++i) {
      float *const z = step.gates[i], *const n = z + 2 * u,
                   *const dn = step.row;
      MixBackward(z, n, step.state[i], step.d_state + i * u, dzs + i * u, dn);
      std::copy_n(dn, u, n);
    }
    MultiplyNewBackward(step, step.gates.At(2 * u), d_resets);
    for (int64_t i = 0; i < step.examples; ++i) {
      float *const z = step.gates[i], *const r = z + u,
                   *const d_reset = d_resets + i * u,
                   *const dh = step.d_state + i * u;
      if (const float* const mask = StateMask(step.masks, i, 2)) {
        for (int64_t j = 0; j < u; ++j) d_reset[j] *= mask[j];
      }
      float* const d = step.row;
      std::copy_n(dzs + i * u, u, d);
      for (int64_t j = 0; j < u; ++j) {
        d[u + j] = d_reset[j] * step.state[i][j];
        dh[j] += d_reset[j] * r[j];
      }
      GateGradient(recurrent_activation_, z, 2 * u, d);
      std::copy_n(d, 2 * u, z);
    }
    AddStateGradient(step, step.gates, {0, 2}, step.d_state);
  }

  void RecurrentGradients(const OpCall& call,
                          const SavedSpans& saved) const override {
    const ConstMatrix gates = RowMajor(static_cast<const float*>(saved.gates),
                                       Rows(call), kGates * units());
    RecurrentGradient(call, saved.states[0], /*masked=*/false, {0, 2},
                      gates.Cols(0, 2 * units()), saved.adds);
    RecurrentGradient(call, saved.extra, /*masked=*/true, {2, 3},
                      gates.Cols(2 * units(), kGates * units()), saved.adds);
  }

 private:
  ConstMatrix KernelOfNew(const RecurrentStep& step) const {
    const int64_t u = units();
    return RowMajor(static_cast<const float*>(step.call->weights[1]), u,
                    kGates * u)
        .Cols(2 * u, kGates * u);
  }
  // to += resets R
  void MultiplyNew(const RecurrentStep& step, StepRows resets,
                   StepRows to) const {
    const int64_t n = step.examples, u = units();
    Gemm({resets.data, n, u, resets.stride, 1}, KernelOfNew(step),
         /*add=*/true, {to.data, n, u, to.stride, 1});
  }
  // to = dn R^T, which the first step does not need.
  void MultiplyNewBackward(const RecurrentStep& step, StepRows dn,
                           float* to) const {
    const int64_t n = step.examples, u = units();
    if (step.is_first) {
      std::fill_n(to, n * u, 0.0f);
      return;
    }
    Gemm({dn.data, n, u, dn.stride, 1}, KernelOfNew(step).Transposed(),
         /*add=*/false, RowMajor(to, n, u));
  }
};

}  // namespace

std::unique_ptr<Op> MakeGRU(const Layer& layer, const Shape& x) {
  if (layer.reset_after) {
    return std::unique_ptr<Op>(new ResetAfterOp(layer, x));
  }
  return std::unique_ptr<Op>(new ResetBeforeOp(layer, x));
}

}  // namespace ringlet
