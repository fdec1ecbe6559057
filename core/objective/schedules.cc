// Learning rates by step, computed in float64 from the decimal that the user
// has written (Decimal), and rounded once. The functions are from
// core/compute/functions.h, since every rank must get the same bits.
// At(iterations) has no state, so a run continues from its number of steps
// alone.

#include "ringlet/optimizers.h"

#include <algorithm>
#include <cmath>

#include "../base/decimal.h"
#include "../compute/functions.h"

namespace ringlet {

namespace {

// Half a cosine, which falls from 1 to 0 as `share` grows from 0 to 1.
double Cosine(double share) { return 0.5 * (1 + math::CosPi(share)); }

// `p` is in units of the first period. The number of the period is a quotient
// of logarithms, corrected where rounding makes it wrong by one.
double Restarted(const LearningRate& rate, double p) {
  const double t = Decimal(rate.t_mul), alpha = rate.alpha;
  const auto begin = [t](double i) { return (math::Pow(t, i) - 1) / (t - 1); };
  double period = std::floor(p), share = p - period;
  if (t > 1) {
    period = std::floor(math::Log(1 + p * (t - 1)) / math::Log(t));
    if (begin(period + 1) <= p) ++period;
    if (begin(period) > p) --period;
    share = (p - begin(period)) / math::Pow(t, period);
  }
  return (1 - alpha) * math::Pow(Decimal(rate.m_mul), period) * Cosine(share) +
         alpha;
}

}  // namespace

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
  if (warmup_target != 0) rate.Warmup(warmup_target, warmup_steps);
  return rate;
}

LearningRate PolynomialDecay(float initial_learning_rate, int64_t decay_steps,
                             float end_learning_rate, float power, bool cycle) {
  LearningRate rate(initial_learning_rate);
  rate.kind = LearningRate::Kind::kPolynomialDecay;
  rate.decay_steps = decay_steps;
  rate.end = end_learning_rate;
  rate.power = power;
  rate.cycle = cycle;
  return rate;
}

LearningRate InverseTimeDecay(float initial_learning_rate, int64_t decay_steps,
                              float decay_rate, bool staircase) {
  LearningRate rate = ExponentialDecay(initial_learning_rate, decay_steps,
                                       decay_rate, staircase);
  rate.kind = LearningRate::Kind::kInverseTimeDecay;
  return rate;
}

LearningRate CosineDecayRestarts(float initial_learning_rate,
                                 int64_t first_decay_steps, float t_mul,
                                 float m_mul, float alpha) {
  LearningRate rate(initial_learning_rate);
  rate.kind = LearningRate::Kind::kCosineDecayRestarts;
  rate.decay_steps = first_decay_steps;
  rate.t_mul = t_mul;
  rate.m_mul = m_mul;
  rate.alpha = alpha;
  return rate;
}

// With no warmup steps Keras also decays from the target.
LearningRate& LearningRate::Warmup(float target, int64_t steps) {
  warmup_target = steps > 0 ? target : 0;
  warmup_steps = steps;
  if (steps == 0) initial = target;
  return *this;
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
      kind != Kind::kConstant && kind != Kind::kPiecewiseConstantDecay;
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
  if (warmup_steps < 0 || !(warmup_target >= 0)) {
    return InvalidArgument(
        "warmup_steps and warmup_target must be >= 0, not %lld and %g",
        static_cast<long long>(warmup_steps), warmup_target);
  }
  if (kind == Kind::kInverseTimeDecay && !(decay_rate >= 0)) {
    return InvalidArgument("InverseTimeDecay: decay_rate must be >= 0, not %g",
                           decay_rate);
  }
  if (!(end >= 0) || !std::isfinite(end) || !(power >= 0) ||
      !std::isfinite(power)) {
    return InvalidArgument(
        "PolynomialDecay: end_learning_rate and power must be numbers >= 0, "
        "not %g, %g",
        end, power);
  }
  if (!(t_mul >= 1) || !std::isfinite(t_mul) || !(m_mul >= 0) ||
      !std::isfinite(m_mul)) {
    return InvalidArgument(
        "CosineDecayRestarts: t_mul must be a number >= 1, m_mul one >= 0, not "
        "%g, %g",
        t_mul, m_mul);
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
  double from = initial, at = static_cast<double>(iterations);
  if (warmup_steps > 0) {
    const auto warmup = static_cast<double>(warmup_steps);
    if (at < warmup) {
      return static_cast<float>(initial + (double{warmup_target} - initial) *
                                              at / warmup);
    }
    from = warmup_target;
    at -= warmup;
  }
  const auto steps = static_cast<double>(decay_steps);
  const double p = staircase ? std::floor(at / steps) : at / steps;
  switch (kind) {
    case Kind::kConstant:
      break;
    case Kind::kExponentialDecay:
      return static_cast<float>(from * math::Pow(Decimal(decay_rate), p));
    case Kind::kInverseTimeDecay:
      return static_cast<float>(from / (1 + Decimal(decay_rate) * p));
    case Kind::kCosineDecay:
      return static_cast<float>(
          from *
          ((1 - double{alpha}) * Cosine(std::min(at, steps) / steps) + alpha));
    case Kind::kCosineDecayRestarts:
      return static_cast<float>(from * Restarted(*this, p));
    case Kind::kPolynomialDecay: {
      const double length = cycle && at > 0 ? steps * std::ceil(p) : steps;
      const double rest = 1 - std::min(at, length) / length;
      return static_cast<float>((from - Decimal(end)) *
                                    math::Pow(rest, Decimal(power)) +
                                Decimal(end));
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
