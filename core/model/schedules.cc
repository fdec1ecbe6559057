#include "schedules.h"

#include <algorithm>
#include <cmath>

#include "../base/decimal.h"

namespace ringlet {

LearningRate ExponentialDecay(float initial_learning_rate, int64_t decay_steps,
                              float decay_rate, bool staircase) {
  LearningRate rate(initial_learning_rate);
  rate.kind = LearningRate::Kind::kExponentialDecay;
  rate.decay_steps = decay_steps;
  rate.decay_rate = decay_rate;
  rate.staircase = staircase;
  return rate;
}

LearningRate CosineDecay(float initial_learning_rate, int64_t decay_steps,
                         float alpha, float warmup_target,
                         int64_t warmup_steps) {
  LearningRate rate(initial_learning_rate);
  rate.kind = LearningRate::Kind::kCosineDecay;
  rate.decay_steps = decay_steps;
  rate.alpha = alpha;
  if (warmup_target == 0) return rate;
  if (warmup_steps == 0) {
    rate.initial = warmup_target;
    return rate;
  }
  rate.warmup_target = warmup_target;
  rate.warmup_steps = warmup_steps;
  return rate;
}

LearningRate PiecewiseConstantDecay(const std::vector<int64_t>& boundaries,
                                    const std::vector<float>& values) {
  LearningRate rate(values.empty() ? 0 : values[0]);
  rate.kind = LearningRate::Kind::kPiecewiseConstantDecay;
  rate.boundaries = boundaries;
  rate.values = values;
  return rate;
}

Status LearningRate::Check() const {
  if (!(initial >= 0) || !std::isfinite(initial)) {
    return InvalidArgument("learning_rate must be a number >= 0, not %g",
                           initial);
  }
  const bool decays =
      kind == Kind::kExponentialDecay || kind == Kind::kCosineDecay;
  if (decays && decay_steps < 1) {
    return InvalidArgument("decay_steps must be at least 1, not %lld",
                           static_cast<long long>(decay_steps));
  }
  if (!std::isfinite(decay_rate) || !std::isfinite(alpha) ||
      !std::isfinite(warmup_target)) {
    return InvalidArgument(
        "decay_rate, alpha and warmup_target must be numbers, not %g, %g, %g",
        decay_rate, alpha, warmup_target);
  }
  if (kind == Kind::kPiecewiseConstantDecay) {
    for (const float value : values) {
      if (value >= 0 && std::isfinite(value)) continue;
      return InvalidArgument(
          "PiecewiseConstantDecay: a value must be a number >= 0, not %g",
          value);
    }
    if (values.size() != boundaries.size() + 1) {
      return InvalidArgument(
          "PiecewiseConstantDecay needs one more value than boundaries (%d "
          "and %d)",
          static_cast<int>(values.size()), static_cast<int>(boundaries.size()));
    }
    if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
      return InvalidArgument("PiecewiseConstantDecay: boundaries must grow");
    }
  }
  return Status();
}

float LearningRate::At(int64_t iterations) const {
  const double step = static_cast<double>(iterations);
  const double steps = static_cast<double>(decay_steps);
  switch (kind) {
    case Kind::kConstant:
      return initial;
    case Kind::kExponentialDecay: {
      const double p = staircase ? std::floor(step / steps) : step / steps;
      return static_cast<float>(initial * std::pow(Decimal(decay_rate), p));
    }
    case Kind::kCosineDecay: {
      double from = initial, at = step;
      if (warmup_steps > 0) {
        const double warmup = static_cast<double>(warmup_steps);
        if (step < warmup) {
          return static_cast<float>(
              initial + (double{warmup_target} - initial) * step / warmup);
        }
        from = warmup_target;
        at = step - warmup;
      }
      constexpr double kPi = 3.141592653589793;
      const double cosine =
          0.5 * (1 + std::cos(kPi * std::min(at, steps) / steps));
      return static_cast<float>(from * ((1 - double{alpha}) * cosine + alpha));
    }
    case Kind::kPiecewiseConstantDecay:
      for (size_t i = 0; i < boundaries.size(); ++i) {
        if (iterations <= boundaries[i]) return values[i];
      }
      return values.back();
  }
  return initial;
}

}  // namespace ringlet
