#include "regression_figures.h"

#include <algorithm>
#include <cmath>

namespace ringlet {

template <typename Function>
double RegressionFigures::ComputeMean(const Function& function) const {
  double sum = 0;
  for (const Value& each : values_) sum += function(each);
  return values_.empty() ? std::nan("")
                         : sum / static_cast<double>(values_.size());
}

void RegressionFigures::Add(int64_t index, int64_t value, float truth,
                            float predicted) {
  if (!std::isfinite(truth) || !std::isfinite(predicted)) {
    ++not_finite_;
    return;
  }
  values_.push_back({truth, predicted});
  KeepWorst({index, value, double{truth}, double{predicted}});
}

void RegressionFigures::KeepWorst(const Example& example) {
  const auto is_worse = [](const Example& a, const Example& b) {
    return std::fabs(a.predicted - a.truth) > std::fabs(b.predicted - b.truth);
  };
  if (worst_.size() == kWorst && !is_worse(example, worst_.back())) return;
  worst_.insert(
      std::upper_bound(worst_.begin(), worst_.end(), example, is_worse),
      example);
  if (worst_.size() > kWorst) worst_.pop_back();
}

double RegressionFigures::mean_error() const {
  return ComputeMean([](const Value& value) { return value.error(); });
}

double RegressionFigures::mean_absolute_error() const {
  return ComputeMean(
      [](const Value& value) { return std::fabs(value.error()); });
}

double RegressionFigures::root_mean_squared_error() const {
  return std::sqrt(ComputeMean(
      [](const Value& value) { return value.error() * value.error(); }));
}

double RegressionFigures::r2() const {
  const double mean =
      ComputeMean([](const Value& value) { return double{value.truth}; });
  const double variance = ComputeMean([mean](const Value& value) {
    const double difference = double{value.truth} - mean;
    return difference * difference;
  });
  const double rmse = root_mean_squared_error();
  return variance > 0 ? 1 - rmse * rmse / variance : std::nan("");
}

void RegressionFigures::Histogram(std::vector<double>* edges,
                                  std::vector<double>* counts) const {
  double low = 0, high = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    const double error = values_[i].error();
    low = i == 0 ? error : std::min(low, error);
    high = i == 0 ? error : std::max(high, error);
  }
  if (!(high > low)) high = low + std::max(1e-9, std::fabs(low) * 0.1);
  const double width = (high - low) / static_cast<double>(kBars);
  counts->assign(kBars, 0);
  for (size_t i = 0; i <= kBars; ++i) {
    edges->push_back(low + width * static_cast<double>(i));
  }
  for (const Value& each : values_) {
    const double bin = (each.error() - low) / width;
    ++(*counts)[std::min(kBars - 1, static_cast<size_t>(std::max(bin, 0.0)))];
  }
}

std::vector<SampledCurve::Point> RegressionFigures::Points() const {
  const size_t every = (values_.size() + kPoints - 1) / kPoints;
  std::vector<SampledCurve::Point> points;
  for (size_t i = 0; i < values_.size(); i += every) {
    points.push_back({double{values_[i].truth}, double{values_[i].predicted}});
  }
  return points;
}

}  // namespace ringlet
