// Charts: drawings of curves and bars, as SVG with labels around it.
//
// Pure. A drawing stretches to the width of the page, while its lines and its
// labels keep their size: the labels are text beside the SVG. A curve's name
// stands at its end; on a narrow page a key takes its place. Under the pointer
// a column of a chart shows its values, by an SVG title.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_CHART_H_
#define RINGLET_TOOLS_RINGLET_REPORT_CHART_H_

#include <string>
#include <vector>

#include "axis.h"
#include "curve.h"

namespace ringlet {

constexpr int kColors = 6;

struct ChartLine {
  std::string name;
  const SampledCurve* curve = nullptr;  // not null
  int color = 0;                        // below kColors
  bool dashed = false;
  bool constant = false;  // a value stays until the next point
};

// A vertical line with a sign above the chart.
struct ChartMark {
  double x = 0;
  std::string sign;  // "✕"
  std::string text;  // shown under the pointer
  int color = 0;
};

struct LineChart {
  std::string title, unit;  // the unit of y
  std::string x_name;       // "epoch", "step", "time"
  Axis::Kind x_kind = Axis::Kind::kCount;
  double x_end = 0;        // if > 0, x goes from 0 to here at least
  bool from_zero = false;  // y begins at 0
  bool counts = false;     // y is a whole number
  bool may_be_log = true;  // y may have a logarithmic axis
  std::vector<ChartLine> lines;
  std::vector<ChartMark> marks;
};
// Empty if no line has a value.
std::string LineChartHtml(const LineChart& chart);

// Bars of counts between edges: edges.size() == counts.size() + 1.
struct BarChart {
  std::string title, x_name;
  std::vector<double> edges;
  std::vector<double> counts;
};
std::string HistogramHtml(const BarChart& histogram);

// Points in a square of equal axes, with the line y = x.
struct Scatter {
  std::string title, x_name, y_name;
  std::vector<SampledCurve::Point> points;
  double low = 0, high = 1;  // the ends of both axes
  bool bars = false;         // a bar below each point, as of a calibration
  double bar_width = 0;      // the width in units of x
  std::vector<std::string> titles;  // the titles of the points; may be empty
};
std::string ScatterHtml(const Scatter& scatter);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_CHART_H_
