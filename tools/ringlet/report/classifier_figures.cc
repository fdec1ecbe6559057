#include "classifier_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringlet {
namespace {

double Share(double part, int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : part / static_cast<double>(whole);
}

double Share(int64_t part, int64_t whole) {
  return Share(static_cast<double>(part), whole);
}

}  // namespace

double ClassifierFigures::Bin::accuracy() const {
  return Share(correct, count);
}
double ClassifierFigures::Bin::mean_confidence() const {
  return Share(confidence, count);
}
double ClassifierFigures::PerClass::precision() const {
  return Share(correct, predicted);
}
double ClassifierFigures::PerClass::recall() const {
  return Share(correct, labels);
}
double ClassifierFigures::PerClass::f1() const {
  return Share(2 * correct, labels + predicted);
}

void ClassifierFigures::Add(int64_t index, int64_t row, int64_t label,
                            const double* p) {
  const double* const best = std::max_element(p, p + classes_.size());
  Example example;
  example.index = index;
  example.row = row;
  example.label = label;
  example.predicted = best - p;
  example.p_label = p[label];
  example.p_predicted = *best;
  const bool correct = example.predicted == label;
  ++count_;
  correct_ += correct;
  PerClass& of_label = classes_[static_cast<size_t>(label)];
  ++of_label.labels;
  of_label.correct += correct;
  ++classes_[static_cast<size_t>(example.predicted)].predicted;
  ++confusion_[{label, example.predicted}];
  // A NaN belongs to no confidence; it counts in the first bin.
  const double at = *best * static_cast<double>(kBins);
  const size_t bin = at > 0 ? std::min(kBins - 1, static_cast<size_t>(at)) : 0;
  ++bins_[bin].count;
  bins_[bin].correct += correct;
  bins_[bin].confidence += *best;
  KeepWorst(example);
}

void ClassifierFigures::KeepWorst(const Example& example) {
  const auto is_worse = [](const Example& a, const Example& b) {
    return a.p_label < b.p_label ||
           (std::isnan(a.p_label) && !std::isnan(b.p_label));
  };
  if (worst_.size() == kWorst && !is_worse(example, worst_.back())) return;
  worst_.insert(
      std::upper_bound(worst_.begin(), worst_.end(), example, is_worse),
      example);
  if (worst_.size() > kWorst) worst_.pop_back();
}

double ClassifierFigures::calibration_error() const {
  double sum = 0;
  for (const Bin& bin : bins_) {
    sum += std::fabs(static_cast<double>(bin.correct) - bin.confidence);
  }
  return Share(sum, count_);
}

double ClassifierFigures::Mean(double (PerClass::*figure)() const) const {
  double sum = 0;
  int64_t count = 0;
  for (const PerClass& each : classes_) {
    if (each.labels + each.predicted == 0) continue;
    const double value = (each.*figure)();
    sum += std::isnan(value) ? 0 : value;
    ++count;
  }
  return Share(sum, count);
}

}  // namespace ringlet
