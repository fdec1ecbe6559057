// ClassifierFigures: what a classifier did with examples of known classes.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_CLASSIFIER_FIGURES_H_
#define RINGLET_TOOLS_RINGLET_REPORT_CLASSIFIER_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ringlet {

class ClassifierFigures {
 public:
  static constexpr size_t kBins = 10;
  static constexpr size_t kWorst = 10;

  // A prediction with little probability for the true class.
  struct Example {
    int64_t index = 0;  // the index in the data
    int64_t row = 0;    // the row of an example with several predictions
    int64_t label = 0, predicted = 0;
    double p_label = 0, p_predicted = 0;
  };
  // The predictions with a probability (confidence) in [i / 10, (i + 1) /
  // 10), the last bin with 1.
  struct Bin {
    int64_t count = 0, correct = 0;
    double confidence = 0;  // their sum
    double accuracy() const;
    double mean_confidence() const;
  };
  struct PerClass {
    int64_t labels = 0;     // examples of the class
    int64_t predicted = 0;  // predictions of the class
    int64_t correct = 0;
    // NaN if there is no prediction, or no example.
    double precision() const;
    double recall() const;
    double f1() const;  // 2 correct / (labels + predicted)
  };

  explicit ClassifierFigures(int64_t classes)
      : classes_(static_cast<size_t>(classes)) {}

  // `p` has a probability for each class. The prediction is the first of the
  // largest.
  void Add(int64_t index, int64_t row, int64_t label, const double* p);

  int64_t count() const { return count_; }
  int64_t correct() const { return correct_; }
  const std::vector<PerClass>& classes() const { return classes_; }
  // How often (label, prediction) occurred, if it did.
  const std::map<std::pair<int64_t, int64_t>, int64_t>& confusion() const {
    return confusion_;
  }
  const Bin* bins() const { return bins_; }
  // The expected calibration error: the mean over the examples of the
  // difference between their bin's accuracy and mean confidence.
  double calibration_error() const;
  // The least probability of the true class first; of equal ones the first.
  const std::vector<Example>& worst() const { return worst_; }

  // The mean over the classes, with 0 for a NaN, as scikit-learn's "macro"
  // average; classes without an example or a prediction are left out.
  double Mean(double (PerClass::*figure)() const) const;

 private:
  void KeepWorst(const Example& example);

  std::vector<PerClass> classes_;
  std::map<std::pair<int64_t, int64_t>, int64_t> confusion_;
  Bin bins_[kBins];
  std::vector<Example> worst_;
  int64_t count_ = 0, correct_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_CLASSIFIER_FIGURES_H_
