// LSTM. The gates are input, forget, cell and output, as in Keras:
//
//   c = f c + i g,  h = o activation(c)
//
// Backward computes c and its activation again.

#include <algorithm>

#include "../layer_loops.h"
#include "recurrent.h"

namespace ringlet {
namespace {

// A loop of several spans would not become vectors.
void Products(const float* __restrict a, const float* __restrict b, int64_t n,
              float* __restrict to) {
  for (int64_t j = 0; j < n; ++j) to[j] = a[j] * b[j];
}

class LstmOp final : public RecurrentOp {
 public:
  LstmOp(const Layer& layer, const Shape& x)
      : RecurrentOp(layer, x, {kGates, /*states=*/2, /*has_extra=*/false},
                    {kGates * layer.units}) {
    if (layer.use_bias && layer.unit_forget_bias) {
      weights_[2].ones = {layer.units, 2 * layer.units};
    }
  }

 protected:
  void StepForward(const RecurrentStep& step) const override {
    const int64_t u = units();
    if (!step.is_first) {
      MultiplyState(step, step.state, {0, kGates}, /*add=*/true, step.gates);
    }
    for (int64_t n = 0; n < step.examples; ++n) {
      float* const i = step.gates[n];
      ActivateGate(recurrent_activation_, 2 * u, i);
      ActivateGate(activation_, u, i + 2 * u);
      ActivateGate(recurrent_activation_, u, i + 3 * u);
      float* const c = step.carry[n];
      float* const h = step.state[n];
      Carry(i, c, c);
      std::copy_n(c, u, h);
      ActivateGate(activation_, u, h);
      const float* const __restrict o = i + 3 * u;
      for (int64_t j = 0; j < u; ++j) h[j] *= o[j];
    }
  }

  void StepBackward(const RecurrentStep& step) const override {
    for (int64_t n = 0; n < step.examples; ++n) GatesBackward(step, n);
    std::fill_n(step.d_state, step.examples * units(), 0.0f);
    AddStateGradient(step, step.gates, {0, kGates}, step.d_state);
  }

 private:
  static constexpr int64_t kGates = 4;

  // to = f c + i g, from the gates' values; `to` may be c.
  void Carry(const float* gates, const float* c, float* to) const {
    const int64_t u = units();
    const float *const f = gates + u, *const g = gates + 2 * u;
    for (int64_t j = 0; j < u; ++j) to[j] = f[j] * c[j] + gates[j] * g[j];
  }

  // Computes the gradients of example n's gates and of the carry before the
  // step.
  void GatesBackward(const RecurrentStep& step, int64_t n) const {
    const int64_t u = units();
    float* const gates = step.gates[n];
    const float *const i = gates, *const f = gates + u, *const g = f + u,
                       *const o = g + u, *const c_before = step.carry[n],
                       *const dh = step.d_state + n * u;
    float* const dc = step.d_carry + n * u;
    float* const d = step.row;  // gradients of the four gates
    float* const a = d + kGates * u;
    float* const da = a + u;
    Carry(gates, c_before, a);
    ActivateGate(activation_, u, a);
    for (int64_t j = 0; j < u; ++j) da[j] = dh[j] * o[j];
    GateGradient(activation_, a, u, da);
    AddTo(dc, u, da);
    Products(da, g, u, d);
    Products(da, c_before, u, d + u);
    Products(da, i, u, d + 2 * u);
    Products(dh, a, u, d + 3 * u);
    Products(da, f, u, dc);
    GateGradient(recurrent_activation_, gates, 2 * u, d);
    GateGradient(activation_, g, u, d + 2 * u);
    GateGradient(recurrent_activation_, o, u, d + 3 * u);
    std::copy_n(d, kGates * u, gates);
  }
};

}  // namespace

std::unique_ptr<Op> MakeLSTM(const Layer& layer, const Shape& x) {
  return std::unique_ptr<Op>(new LstmOp(layer, x));
}

}  // namespace ringlet
