#include "axis.h"

#include <algorithm>
#include <cmath>

#include "core/base/number_text.h"
#include "html.h"

namespace ringlet {
namespace {

// 1, 2 or 5 times a power of ten, at least `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * 0.9999) return factor * power;
  }
  return 10 * power;
}

double SecondsStep(double step) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (step < 1) return RoundStep(step);
  for (const double round :
       {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, kMinute, 2 * kMinute, 5 * kMinute,
        10 * kMinute, 15 * kMinute, 30 * kMinute, kHour, 2 * kHour, 3 * kHour,
        6 * kHour, 12 * kHour, kDay}) {
    if (round >= step) return round;
  }
  return kDay * RoundStep(step / kDay);
}

// "1.5M": `value` with as many decimals as tell ticks of `step` apart.
std::string NumberTick(double value, double step) {
  const double magnitude = std::fabs(value);
  if (magnitude < step / 2) return "0";
  struct Unit {
    double size;
    const char* name;
  };
  if (magnitude >= 1e15 || (step < 1e-5 && magnitude < 0.1)) {
    return PrintedText(value, 'g', 3);
  }
  Unit unit = {1, ""};
  for (const Unit& each :
       {Unit{1e12, "T"}, Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}}) {
    if (magnitude >= each.size && magnitude >= 1e4) {
      unit = each;
      break;
    }
  }
  const double decimals = std::ceil(-std::log10(step / unit.size) - 1e-9);
  return PrintedText(value / unit.size, 'f',
                     static_cast<int>(std::clamp(decimals, 0.0, 9.0))) +
         unit.name;
}

std::string SecondsTick(double value, double step) {
  if (step < 1) return NumberTick(value, step) + " s";
  const auto text = [value](double unit, const char* name) {
    return PrintedText(value / unit, 'f', 0) + name;
  };
  if (step < 60) return text(1, " s");
  if (step < 3600) return text(60, " min");
  if (step < 86400) return text(3600, " h");
  return text(86400, " d");
}

}  // namespace

Axis::Axis(Kind kind, double low, double high)
    : kind_(kind), low_(low), high_(high) {
  if (kind_ == Kind::kLog) {
    low_ = std::log10(low_);
    high_ = std::log10(high_);
  }
  if (high_ > low_) return;
  const double width = kind_ == Kind::kCount || low_ == 0
                           ? 1
                           : std::max(std::fabs(low_) * 0.1, 1e-300);
  high_ = low_ + width;
}

double Axis::At(double value) const {
  if (kind_ == Kind::kLog) value = std::log10(std::max(value, 1e-320));
  // Halves, since the difference of two numbers may be too large.
  const double at = (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
  return std::clamp(at, 0.0, 1.0);
}

double Axis::Step(int wanted) const {
  const double step = std::max(high_ / wanted - low_ / wanted, 1e-300);
  if (kind_ == Kind::kSeconds) return SecondsStep(step);
  return kind_ == Kind::kCount ? std::max(1.0, RoundStep(step))
                               : RoundStep(step);
}

std::vector<Axis::Tick> Axis::LogTicks(int wanted) const {
  std::vector<Tick> ticks;
  const double decades = high_ - low_;
  const double every = std::max(1.0, std::ceil(decades / wanted));
  for (double e = std::floor(low_); e <= high_; e += 1) {
    const bool shown = std::fmod(e, every) == 0;
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (!shown || (factor > 1 && decades > 2.5)) continue;
      const double value = factor * std::pow(10, e);
      const double log = std::log10(value);
      if (log < low_ - 1e-9 || log > high_ + 1e-9) continue;
      ticks.push_back({At(value), PrintedText(value, 'g', 3)});
    }
  }
  return ticks;
}

std::vector<Axis::Tick> Axis::Ticks(int wanted) const {
  if (kind_ == Kind::kLog) return LogTicks(wanted);
  std::vector<Tick> ticks;
  const double step = Step(wanted);
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i <= 2 * wanted; ++i) {
    const double value = (first + i) * step;
    if (!(value <= high_ + step * 1e-9)) break;
    ticks.push_back({At(value), kind_ == Kind::kSeconds
                                    ? SecondsTick(value, step)
                                    : NumberTick(value, step)});
  }
  return ticks;
}

}  // namespace ringlet
