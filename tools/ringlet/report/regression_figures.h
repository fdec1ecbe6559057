// RegressionFigures: how far predicted numbers are from the true ones.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_REGRESSION_FIGURES_H_
#define RINGLET_TOOLS_RINGLET_REPORT_REGRESSION_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "curve.h"

namespace ringlet {

class RegressionFigures {
 public:
  static constexpr size_t kBars = 40, kPoints = 2000, kWorst = 10;

  struct Example {
    int64_t index = 0, value = 0;  // the index in the data, and in the example
    double truth = 0, predicted = 0;
  };

  // `value` is the number of the value within the example. A value that is not
  // finite is counted and left out.
  void Add(int64_t index, int64_t value, float truth, float predicted);

  int64_t count() const { return static_cast<int64_t>(values_.size()); }
  int64_t not_finite() const { return not_finite_; }
  double mean_error() const;  // predicted - true
  double mean_absolute_error() const;
  double root_mean_squared_error() const;
  // The coefficient of determination; NaN if all true values are equal.
  double r2() const;
  // The largest absolute error first; of equal ones the first.
  const std::vector<Example>& worst() const { return worst_; }
  // Predicted - true in bars of equal width: kBars + 1 edges and kBars counts.
  void Histogram(std::vector<double>* edges, std::vector<double>* counts) const;
  // At most kPoints examples, evenly chosen, as (true, predicted).
  std::vector<SampledCurve::Point> Points() const;

 private:
  // An autoencoder has thousands for each example.
  struct Value {
    float truth, predicted;
    double error() const { return double{predicted} - double{truth}; }
  };
  template <typename Function>
  double ComputeMean(const Function& function) const;
  void KeepWorst(const Example& example);

  std::vector<Value> values_;
  std::vector<Example> worst_;
  int64_t not_finite_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_REGRESSION_FIGURES_H_
