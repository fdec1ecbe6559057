#include "curves_html.h"

#include <algorithm>

#include "core/base/stable_sort.h"
#include "core/base/text.h"

namespace ringlet {
namespace {

constexpr char kValidation[] = "val_";

// A smaller number for a metric with an earlier chart: loss, metrics, learning
// rate.
int PlaceOf(const std::string& metric) {
  return metric == "loss" ? 0 : metric == "learning_rate" ? 2 : 1;
}

// The metrics of the curves, in the order of their charts.
std::vector<std::string> MetricsOf(const std::vector<NamedCurve>& curves) {
  std::vector<std::string> metrics;
  for (const NamedCurve& curve : curves) {
    const std::string metric = WithoutPrefix(curve.name, kValidation);
    if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) {
      metrics.push_back(metric);
    }
  }
  StableSort(&metrics, [](const std::string& a, const std::string& b) {
    return PlaceOf(a) < PlaceOf(b);
  });
  return metrics;
}

const NamedCurve* Find(const std::vector<NamedCurve>& curves,
                       const std::string& name) {
  for (const NamedCurve& curve : curves) {
    if (curve.name == name && curve.curve->values() > 0) return &curve;
  }
  return nullptr;
}

KeyFigure BestTile(const NamedCurve& curve, bool lowest,
                   const std::string& x_name) {
  const SampledCurve::Point& best =
      lowest ? curve.curve->low() : curve.curve->high();
  return {(lowest ? "lowest " : "highest ") + curve.name, ShortText(best.y),
          x_name + " " + ExactText(best.x)};
}

}  // namespace

std::string CurvesHtml(const std::vector<NamedCurve>& curves,
                       const std::string& x_name) {
  std::string out = "<div class=\"grid\">\n";
  for (const std::string& metric : MetricsOf(curves)) {
    LineChart chart;
    chart.title = Shortened(metric, 100);
    chart.x_name = x_name;
    for (const NamedCurve& curve : curves) {
      const bool validation = curve.name == kValidation + metric;
      if (!validation && curve.name != metric) continue;
      ChartLine line;
      line.name = curve.name;
      line.curve = curve.curve;
      line.color = metric == "learning_rate" ? 2 : validation ? 1 : 0;
      line.dashed = validation;
      chart.lines.push_back(line);
    }
    out += LineChartHtml(chart);
  }
  return out + "</div>\n";
}

std::string FiguresHtml(const std::vector<NamedCurve>& curves,
                        const std::string& x_name) {
  HtmlTable table({"", "values", "missing", "first", "last", "lowest",
                   "at " + x_name, "highest", "at " + x_name},
                  1);
  for (const NamedCurve& named : curves) {
    const SampledCurve& curve = *named.curve;
    std::vector<std::string> cells = {EscapeHtml(named.name),
                                      std::to_string(curve.values()),
                                      std::to_string(curve.missing())};
    const bool any = curve.values() > 0;
    for (const double figure :
         {curve.first().y, curve.last().y, curve.low().y, curve.low().x,
          curve.high().y, curve.high().x}) {
      cells.push_back(any ? ExactText(figure) : "–");
    }
    table.Row(cells);
  }
  return table.Html();
}

std::vector<KeyFigure> MakeTiles(const std::vector<NamedCurve>& curves,
                                 const std::string& x_name) {
  std::vector<KeyFigure> tiles;
  if (const NamedCurve* loss = Find(curves, "loss")) {
    const SampledCurve::Point& last = loss->curve->last();
    tiles.push_back(
        {"last loss", ShortText(last.y), x_name + " " + ExactText(last.x)});
  }
  if (const NamedCurve* loss = Find(curves, "val_loss")) {
    tiles.push_back(BestTile(*loss, /*lowest=*/true, x_name));
  }
  for (const char* name : {"val_accuracy", "accuracy"}) {
    if (const NamedCurve* accuracy = Find(curves, name)) {
      tiles.push_back(BestTile(*accuracy, /*lowest=*/false, x_name));
      break;
    }
  }
  return tiles;
}

}  // namespace ringlet
