// EvaluationPage: the page of ringlet evaluate --report.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_EVALUATION_PAGE_H_
#define RINGLET_TOOLS_RINGLET_REPORT_EVALUATION_PAGE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "classifier_figures.h"
#include "regression_figures.h"

namespace ringlet {

struct EvaluationReport {
  std::string model, data;  // their files
  std::string summary, compiled;
  int64_t examples = 0;
  std::vector<std::pair<std::string, double>> logs;  // loss and metrics
  // One of these.
  std::optional<ClassifierFigures> classifier;
  std::optional<RegressionFigures> regression;
  // The classes' names by number; shorter or empty: the numbers.
  std::vector<std::string> names;
  // Of each worst example: its file, or "", and its picture as a data: URI, or
  // "".
  struct Shown {
    std::string path, picture;
  };
  std::vector<Shown> shown;
  bool has_rows = false;     // an example has several predictions
  bool is_weighted = false;  // the loss and the metrics have sample weights
};

std::string EvaluationPage(const EvaluationReport& report);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_EVALUATION_PAGE_H_
