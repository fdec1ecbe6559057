// The charts and the table of figures of a log's columns.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_CURVES_HTML_H_
#define RINGLET_TOOLS_RINGLET_REPORT_CURVES_HTML_H_

#include <string>
#include <vector>

#include "chart.h"
#include "curve.h"
#include "html.h"

namespace ringlet {

struct NamedCurve {
  std::string name;
  const SampledCurve* curve = nullptr;
};

// A chart for each metric, with its "val_" curve: loss first, learning_rate
// last. `x_name` is "epoch" or "step".
std::string CurvesHtml(const std::vector<NamedCurve>& curves,
                       const std::string& x_name);
// A row for each curve, with all digits.
std::string FiguresHtml(const std::vector<NamedCurve>& curves,
                        const std::string& x_name);
// The last or best values of the loss and of a metric.
std::vector<KeyFigure> MakeTiles(const std::vector<NamedCurve>& curves,
                                 const std::string& x_name);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_CURVES_HTML_H_
