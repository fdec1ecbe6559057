#include "regression_figures.h"

#include <algorithm>
#include <cmath>

namespace ringlet {
namespace {

double ErrorOf(const RegressionFigures::Example& example) {
  return example.predicted - example.truth;
}

template <typename Function>
double MeanOf(const std::vector<RegressionFigures::Example>& values,
              const Function& function) {
  double sum = 0;
  for (const RegressionFigures::Example& each : values) sum += function(each);
  return values.empty() ? std::nan("")
                        : sum / static_cast<double>(values.size());
}

}  // namespace

void RegressionFigures::Add(int64_t index, int64_t value, double truth,
                            double predicted) {
  if (!std::isfinite(truth) || !std::isfinite(predicted)) {
    ++not_finite_;
    return;
  }
  values_.push_back({index, value, truth, predicted});
}

double RegressionFigures::mean_error() const {
  return MeanOf(values_, ErrorOf);
}

double RegressionFigures::mean_absolute_error() const {
  return MeanOf(values_,
                [](const Example& e) { return std::fabs(ErrorOf(e)); });
}

double RegressionFigures::root_mean_squared_error() const {
  return std::sqrt(MeanOf(
      values_, [](const Example& e) { return ErrorOf(e) * ErrorOf(e); }));
}

double RegressionFigures::r2() const {
  const double mean = MeanOf(values_, [](const Example& e) { return e.truth; });
  const double variance = MeanOf(values_, [mean](const Example& e) {
    return (e.truth - mean) * (e.truth - mean);
  });
  const double rmse = root_mean_squared_error();
  return variance > 0 ? 1 - rmse * rmse / variance : std::nan("");
}

std::vector<RegressionFigures::Example> RegressionFigures::Worst() const {
  std::vector<Example> worst(std::min(kWorst, values_.size()));
  std::partial_sort_copy(values_.begin(), values_.end(), worst.begin(),
                         worst.end(), [](const Example& a, const Example& b) {
                           const double error_a = std::fabs(ErrorOf(a)),
                                        error_b = std::fabs(ErrorOf(b));
                           if (error_a != error_b) return error_a > error_b;
                           return a.index != b.index ? a.index < b.index
                                                     : a.value < b.value;
                         });
  return worst;
}

void RegressionFigures::Histogram(std::vector<double>* edges,
                                  std::vector<double>* counts) const {
  double low = 0, high = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    const double error = ErrorOf(values_[i]);
    low = i == 0 ? error : std::min(low, error);
    high = i == 0 ? error : std::max(high, error);
  }
  if (!(high > low)) high = low + std::max(1e-9, std::fabs(low) * 0.1);
  const double width = (high - low) / static_cast<double>(kBars);
  counts->assign(kBars, 0);
  for (size_t i = 0; i <= kBars; ++i) {
    edges->push_back(low + width * static_cast<double>(i));
  }
  for (const Example& each : values_) {
    const double at = (ErrorOf(each) - low) / width;
    ++(*counts)[std::min(kBars - 1, static_cast<size_t>(std::max(at, 0.0)))];
  }
}

std::vector<Curve::Point> RegressionFigures::Points() const {
  const size_t every = (values_.size() + kPoints - 1) / kPoints;
  std::vector<Curve::Point> points;
  for (size_t i = 0; i < values_.size(); i += every) {
    points.push_back({values_[i].truth, values_[i].predicted});
  }
  return points;
}

}  // namespace ringlet
