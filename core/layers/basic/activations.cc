// Activations: each is a function of one number, with the factor of its
// gradient. Except for activations with GradientReadsInput the factor follows
// from the output y, so that the input need not be kept. DispatchActivation()
// instantiates the loops for each activation, without branches and calls, so
// that they vectorize. NaN stays NaN.

#include <algorithm>
#include <cmath>

#include "../../compute/function_loops.h"
#include "../../compute/functions.h"
#include "../../compute/row_loops.h"
#include "../../compute/sums.h"
#include "../layer_loops.h"

namespace ringlet {
namespace {

constexpr float kSeluScale = 1.05070098735548049342f;
constexpr float kSeluAlpha = 1.67326324235437728482f;
constexpr float kLeakySlope = 0.2f;  // the slope of leaky_relu in Keras 3
constexpr float kNormalDensityAt0 = 0.39894228040143267794f;

float HardSigmoidOf(float x) {
  const float z = x + 3;
  return (z < 0 ? 0 : z > 6 ? 6 : z) / 6;
}

// 0.2 x + 0.5 before it is clipped.
float Keras2HardSigmoidOf(float x) { return 0.2f * x + 0.5f; }

// tanh(softplus(x)) = n / (n + 2) with n = e (e + 2), e = exp(x).
float MishFactor(float x) {
  const float e = math::Exp(x > 20 ? 20 : x), n = e * (e + 2);
  return n / (n + 2);
}

// Without tanh and sigmoid, which have loops of their own (function_loops.h).
template <Activation kOf>
float Value(float x) {
  if constexpr (kOf == kRelu6) return x < 0 ? 0 : x > 6 ? 6 : x;
  if constexpr (kOf == kElu) return x > 0 ? x : math::Expm1(x);
  if constexpr (kOf == kSelu) {
    return kSeluScale * (x > 0 ? x : kSeluAlpha * math::Expm1(x));
  }
  if constexpr (kOf == kLeakyRelu) return x > 0 ? x : kLeakySlope * x;
  if constexpr (kOf == kExponential) return math::Exp(x);
  if constexpr (kOf == kHardSigmoid) return HardSigmoidOf(x);
  if constexpr (kOf == kSoftsign) return x / (1 + std::fabs(x));
  if constexpr (kOf == kSoftplus) return math::Softplus(x);
  if constexpr (kOf == kGelu) return x * math::NormalAt(x).below;
  if constexpr (kOf == kSilu) return x * math::Sigmoid(x);
  if constexpr (kOf == kHardSilu) return x * HardSigmoidOf(x);
  if constexpr (kOf == kMish) return x * MishFactor(x);
  if constexpr (kOf == kHardSigmoidKeras2) {
    const float z = Keras2HardSigmoidOf(x);
    return z < 0 ? 0 : z > 1 ? 1 : z;
  }
  return x;
}

// d times the derivative at the output y; with GradientReadsInput, at the
// input.
template <Activation kOf>
float TimesSlope(float d, float y) {
  if constexpr (kOf == kSigmoid) return d * (y * (1 - y));
  if constexpr (kOf == kTanh) return d * (1 - y * y);
  if constexpr (kOf == kRelu6) return y > 0 && y < 6 ? d : 0;
  if constexpr (kOf == kElu) return y < 0 ? d * (y + 1) : d;
  if constexpr (kOf == kSelu) {
    return d * (y < 0 ? y + kSeluScale * kSeluAlpha : kSeluScale);
  }
  if constexpr (kOf == kLeakyRelu) return y > 0 ? d : kLeakySlope * d;
  if constexpr (kOf == kExponential) return d * y;
  if constexpr (kOf == kHardSigmoid) return y > 0 && y < 1 ? d / 6 : 0;
  if constexpr (kOf == kSoftsign) {
    const float rest = 1 - std::fabs(y);
    return d * (rest * rest);
  }
  if constexpr (kOf == kSoftplus) return d * -math::Expm1(-y);
  if constexpr (kOf == kGelu) {
    const math::Normal normal = math::NormalAt(y);
    return d * (normal.below + y * (kNormalDensityAt0 * normal.bell));
  }
  if constexpr (kOf == kSilu) {
    const float s = math::Sigmoid(y);
    return d * (s * (1 + y * (1 - s)));
  }
  if constexpr (kOf == kHardSilu) {
    if (y <= -3) return 0;
    return y >= 3 ? d : d * ((2 * y + 3) / 6);
  }
  if constexpr (kOf == kMish) {
    const float t = MishFactor(y);
    return d * (t + y * math::Sigmoid(y) * (1 - t * t));
  }
  if constexpr (kOf == kHardSigmoidKeras2) {  // also at the ends of the clip
    const float z = Keras2HardSigmoidOf(y);
    return z >= 0 && z <= 1 ? d * 0.2f : 0;
  }
  return d;
}

template <Activation kOf>
struct Constant {
  static constexpr Activation value = kOf;
};

// Calls body(Constant<a>()) for an activation of single numbers; false for
// other activations.
template <typename Body>
bool DispatchActivation(Activation a, const Body& body) {
  switch (a) {
    case kLinear:
      body(Constant<kLinear>());
      return true;
    case kSigmoid:
      body(Constant<kSigmoid>());
      return true;
    case kTanh:
      body(Constant<kTanh>());
      return true;
    case kRelu6:
      body(Constant<kRelu6>());
      return true;
    case kElu:
      body(Constant<kElu>());
      return true;
    case kSelu:
      body(Constant<kSelu>());
      return true;
    case kLeakyRelu:
      body(Constant<kLeakyRelu>());
      return true;
    case kExponential:
      body(Constant<kExponential>());
      return true;
    case kHardSigmoid:
      body(Constant<kHardSigmoid>());
      return true;
    case kSoftsign:
      body(Constant<kSoftsign>());
      return true;
    case kSoftplus:
      body(Constant<kSoftplus>());
      return true;
    case kGelu:
      body(Constant<kGelu>());
      return true;
    case kSilu:
      body(Constant<kSilu>());
      return true;
    case kHardSilu:
      body(Constant<kHardSilu>());
      return true;
    case kMish:
      body(Constant<kMish>());
      return true;
    case kHardSigmoidKeras2:
      body(Constant<kHardSigmoidKeras2>());
      return true;
    case kRelu:  // see row_loops.h
    case kSoftmax:
    case kLogSoftmax:
      break;
  }
  return false;
}

void SoftmaxRow(int64_t width, float* y) {
  float largest = y[0];
  for (int64_t j = 1; j < width; ++j) largest = std::max(largest, y[j]);
  BestFunctionLoops().exp(largest, width, y);
  const auto sum = static_cast<float>(
      LaneSum<float>(width, [y](int64_t j) { return y[j]; }));
  for (int64_t j = 0; j < width; ++j) y[j] /= sum;
}

void LogSoftmaxRow(int64_t width, float* y) {
  float largest = y[0];
  for (int64_t j = 1; j < width; ++j) largest = std::max(largest, y[j]);
  const double sum = LaneSum<float>(
      width, [=](int64_t j) { return math::Exp(y[j] - largest); });
  const float log = math::Log(static_cast<float>(sum));
  for (int64_t j = 0; j < width; ++j) y[j] = y[j] - largest - log;
}

void ActivateRow(Activation activation, int64_t width, float* y) {
  if (activation == kLinear) return;
  if (activation == kSoftmax) return SoftmaxRow(width, y);
  if (activation == kLogSoftmax) return LogSoftmaxRow(width, y);
  if (activation == kRelu) return BestRowLoops().relu(y, width, y);
  if (activation == kTanh) return BestFunctionLoops().tanh(width, y);
  if (activation == kSigmoid) return BestFunctionLoops().sigmoid(width, y);
  DispatchActivation(activation, [&](auto a) {
    for (int64_t j = 0; j < width; ++j) y[j] = Value<a.value>(y[j]);
  });
}

}  // namespace

bool IsOverRow(Activation activation) {
  return activation == kSoftmax || activation == kLogSoftmax;
}

bool GradientReadsInput(Activation activation) {
  return activation == kGelu || activation == kSilu ||
         activation == kHardSilu || activation == kMish ||
         activation == kHardSigmoidKeras2;
}

void BiasActivation(Activation activation, const float* bias, int64_t rows,
                    int64_t width, float* y) {
  if (bias == nullptr && !IsOverRow(activation)) {
    return ActivateRow(activation, rows * width, y);
  }
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
    ActivateRow(activation, width, y);
  }
}

void ActivationGradient(Activation activation, const float* y, int64_t rows,
                        int64_t width, float* dy) {
  if (activation == kLinear) return;
  const int64_t n = rows * width;
  if (activation == kRelu) return BestRowLoops().relu_gradient(y, dy, n, dy);
  if (DispatchActivation(activation, [&](auto a) {
        for (int64_t i = 0; i < n; ++i) {
          dy[i] = TimesSlope<a.value>(dy[i], y[i]);
        }
      })) {
    return;
  }
  const bool log = activation == kLogSoftmax;
  for (int64_t i = 0; i < rows; ++i, y += width, dy += width) {
    const auto sum = static_cast<float>(LaneSum<float>(
        width, [=](int64_t j) { return log ? dy[j] : dy[j] * y[j]; }));
    for (int64_t j = 0; j < width; ++j) {
      dy[j] = log ? dy[j] - math::Exp(y[j]) * sum : y[j] * (dy[j] - sum);
    }
  }
}

}  // namespace ringlet
