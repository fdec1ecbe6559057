// Texts of the data and the model, such as names and paths, go through
// EscapeHtml. classifier_figures.h and regression_figures.h compute the
// numbers.

#include "evaluation_page.h"

#include <algorithm>
#include <cmath>

#include "chart.h"
#include "core/base/number_text.h"
#include "core/base/stable_sort.h"
#include "core/base/text.h"
#include "html.h"

namespace ringlet {
namespace {

using PerClass = ClassifierFigures::PerClass;

// A matrix of more classes is not readable.
constexpr size_t kMatrixClasses = 25;
constexpr size_t kShownConfusions = 30, kShownClasses = 200;

std::string FigureText(double value) {
  return std::isnan(value) ? "–" : PrintedText(value, 'f', 4);
}

std::string ClassName(const EvaluationReport& report, int64_t number) {
  const auto index = static_cast<size_t>(number);
  return index < report.names.size() ? report.names[index]
                                     : std::to_string(number);
}

std::string NameHtml(const EvaluationReport& report, int64_t number) {
  return EscapeHtml(Shortened(ClassName(report, number), 80));
}

// --- classifiers -------------------------------------------------------------

std::string MatrixHtml(const EvaluationReport& report) {
  const ClassifierFigures& figures = *report.classifier;
  const auto classes = static_cast<int64_t>(figures.classes().size());
  std::string out =
      "<p class=\"dim\">Rows: the true class. Columns: the predicted class. A "
      "stronger colour: a larger part of its row.</p>\n<div "
      "class=\"scroll\"><table class=\"cm\"><thead><tr><th></th>";
  for (int64_t c = 0; c < classes; ++c) {
    out += "<th>" + NameHtml(report, c) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (int64_t row = 0; row < classes; ++row) {
    out += "<tr><th>" + NameHtml(report, row) + "</th>";
    const double labels = static_cast<double>(std::max<int64_t>(
        1, figures.classes()[static_cast<size_t>(row)].labels));
    for (int64_t c = 0; c < classes; ++c) {
      const auto found = figures.confusion().find({row, c});
      const int64_t count =
          found == figures.confusion().end() ? 0 : found->second;
      // The square root shows rare confusions too.
      const double shade = std::sqrt(static_cast<double>(count) / labels);
      out += std::string("<td class=\"") + (shade > 0.55 ? "hi" : "") +
             (row == c ? " right" : "") +
             "\" style=\"--a:" + PrintedText(shade * 0.9, 'f', 2) + "\">" +
             std::to_string(count) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// The most frequent confusions of two classes, where there are many classes.
std::string ConfusionsHtml(const EvaluationReport& report) {
  using Entry = std::pair<std::pair<int64_t, int64_t>, int64_t>;
  std::vector<Entry> wrong;
  for (const Entry entry : report.classifier->confusion()) {
    if (entry.first.first != entry.first.second) wrong.push_back(entry);
  }
  StableSort(&wrong, [](const Entry& a, const Entry& b) {
    return a.second > b.second;
  });
  HtmlTable table({"true class", "predicted", "examples"}, 2);
  for (const Entry& entry : wrong) {
    if (table.rows() == kShownConfusions) break;
    table.Row({NameHtml(report, entry.first.first),
               NameHtml(report, entry.first.second),
               std::to_string(entry.second)});
  }
  return table.Html("The most frequent confusions; a matrix of more than " +
                    std::to_string(kMatrixClasses) +
                    " classes is not readable");
}

std::string ClassesHtml(const EvaluationReport& report) {
  const ClassifierFigures& figures = *report.classifier;
  std::vector<int64_t> order;
  for (size_t i = 0; i < figures.classes().size(); ++i) {
    order.push_back(static_cast<int64_t>(i));
  }
  const bool all = order.size() <= kShownClasses;
  if (!all) {
    StableSort(&order, [&](int64_t a, int64_t b) {
      const double fa = figures.classes()[static_cast<size_t>(a)].f1(),
                   fb = figures.classes()[static_cast<size_t>(b)].f1();
      return (std::isnan(fa) ? 2 : fa) < (std::isnan(fb) ? 2 : fb);
    });
  }
  HtmlTable table(
      {"class", "examples", "predicted", "precision", "recall", "F1"}, 1);
  for (const int64_t number : order) {
    if (table.rows() == kShownClasses) break;
    const PerClass& each = figures.classes()[static_cast<size_t>(number)];
    table.Row({NameHtml(report, number), std::to_string(each.labels),
               std::to_string(each.predicted), FigureText(each.precision()),
               FigureText(each.recall()), FigureText(each.f1())});
  }
  table.Row({"<b>mean</b>", std::to_string(figures.count()),
             std::to_string(figures.count()),
             FigureText(figures.Mean(&PerClass::precision)),
             FigureText(figures.Mean(&PerClass::recall)),
             FigureText(figures.Mean(&PerClass::f1))});
  return "<h2>Classes</h2>\n" +
         table.Html(all ? ""
                        : "The " + std::to_string(kShownClasses) +
                              " classes with the lowest F1");
}

std::string CalibrationHtml(const EvaluationReport& report) {
  const ClassifierFigures& figures = *report.classifier;
  Scatter chart;
  chart.title = "Calibration";
  chart.y_name =
      "bars: accuracy of the predictions with this probability; "
      "dashed: a calibrated model";
  chart.x_name = "probability of the predicted class";
  chart.bars = true;
  constexpr double kBins = ClassifierFigures::kBins;
  chart.bar_width = 1 / kBins;
  HtmlTable table(
      {"probability", "predictions", "mean probability", "accuracy"}, 1);
  for (size_t i = 0; i < ClassifierFigures::kBins; ++i) {
    const ClassifierFigures::Bin& bin = figures.bins()[i];
    const double low = static_cast<double>(i) / kBins;
    const std::string range = PrintedText(low, 'f', 1) + " to " +
                              PrintedText(low + 1 / kBins, 'f', 1);
    table.Row({range, std::to_string(bin.count),
               FigureText(bin.mean_confidence()), FigureText(bin.accuracy())});
    if (bin.count == 0) continue;
    chart.points.push_back({low + 0.5 / kBins, bin.accuracy()});
    chart.titles.push_back("probability " + range + "\naccuracy " +
                           FigureText(bin.accuracy()) + "\nmean probability " +
                           FigureText(bin.mean_confidence()) + "\n" +
                           std::to_string(bin.count) + " predictions");
  }
  return "<h2>Calibration</h2>\n<p>Expected calibration error (ECE, " +
         std::to_string(ClassifierFigures::kBins) + " bins): <b>" +
         FigureText(figures.calibration_error()) +
         "</b></p>\n<div class=\"grid\">" + ScatterHtml(chart) + table.Html() +
         "</div>\n";
}

std::string CardHtml(const EvaluationReport::Shown& shown,
                     const std::string& text) {
  std::string out = "<div class=\"card\">";
  if (!shown.picture.empty()) {
    out += "<img alt=\"the example\" src=\"" + shown.picture + "\"/>";
  }
  out += text;
  if (!shown.path.empty()) {
    out += "<div class=\"dim\">" + EscapeHtml(shown.path) + "</div>";
  }
  return out + "</div>\n";
}

std::string IndexText(const EvaluationReport& report, int64_t index,
                      int64_t row) {
  return "<b>example " + std::to_string(index) +
         (report.has_rows ? ", row " + std::to_string(row) : "") + "</b>";
}

std::string WorstClassesHtml(const EvaluationReport& report) {
  std::string out =
      "<h2>The worst predictions</h2>\n<p class=\"dim\">Those with the least "
      "probability of the true class. Examples count from 0 in the order of "
      "the data.</p>\n<div class=\"cards\">\n";
  const auto& worst = report.classifier->worst();
  for (size_t i = 0; i < worst.size() && i < report.shown.size(); ++i) {
    const ClassifierFigures::Example& example = worst[i];
    const bool wrong = example.label != example.predicted;
    out += CardHtml(report.shown[i],
                    IndexText(report, example.index, example.row) +
                        "<div>true: " + NameHtml(report, example.label) + " (" +
                        FigureText(example.p_label) + ")</div><div" +
                        (wrong ? " class=\"bad\"" : "") +
                        ">predicted: " + NameHtml(report, example.predicted) +
                        " (" + FigureText(example.p_predicted) + ")</div>");
  }
  return out + "</div>\n";
}

std::string ClassifierHtml(const EvaluationReport& report) {
  const bool matrix = report.classifier->classes().size() <= kMatrixClasses;
  return "<h2>Confusion matrix</h2>\n" +
         (matrix ? MatrixHtml(report) : ConfusionsHtml(report)) +
         ClassesHtml(report) + CalibrationHtml(report) +
         WorstClassesHtml(report);
}

// --- regression --------------------------------------------------------------

std::string RegressionHtml(const EvaluationReport& report) {
  const RegressionFigures& figures = *report.regression;
  if (figures.count() == 0) return "<p>No value is finite.</p>\n";
  Scatter scatter;
  scatter.title = "Predicted against true";
  scatter.x_name = "true";
  scatter.points = figures.Points();
  scatter.y_name =
      "predicted; dashed: equal" +
      (static_cast<int64_t>(scatter.points.size()) < figures.count()
           ? "; " + std::to_string(scatter.points.size()) + " of " +
                 std::to_string(figures.count()) + " values"
           : std::string());
  scatter.low = scatter.high = scatter.points[0].x;
  for (const SampledCurve::Point& point : scatter.points) {
    scatter.low = std::min({scatter.low, point.x, point.y});
    scatter.high = std::max({scatter.high, point.x, point.y});
  }
  BarChart residuals;
  residuals.title = "Residuals";
  residuals.x_name = "predicted − true";
  figures.Histogram(&residuals.edges, &residuals.counts);
  HtmlTable table({"example", report.has_rows ? "value" : "", "true",
                   "predicted", "predicted − true"},
                  0);
  for (const RegressionFigures::Example& each : figures.worst()) {
    table.Row({std::to_string(each.index),
               report.has_rows ? std::to_string(each.value) : "",
               ExactText(each.truth), ExactText(each.predicted),
               ShortText(each.predicted - each.truth)});
  }
  std::string out = "<h2>Values</h2>\n<div class=\"grid\">" +
                    ScatterHtml(scatter) + HistogramHtml(residuals) +
                    "</div>\n<h2>The largest errors</h2>\n" +
                    table.Html(
                        "Examples count from 0 in the order of the "
                        "data");
  if (figures.not_finite() > 0) {
    out += "<p class=\"bad\">" + std::to_string(figures.not_finite()) +
           " values are not finite and were left out.</p>\n";
  }
  return out;
}

std::vector<KeyFigure> MakeTiles(const EvaluationReport& report) {
  std::vector<KeyFigure> tiles;
  tiles.push_back({"examples", WithCommas(report.examples), report.data});
  for (const auto& [name, value] : report.logs) {
    tiles.push_back({name, ShortText(value), ""});
  }
  if (report.classifier) {
    const ClassifierFigures& figures = *report.classifier;
    tiles.push_back(
        {"wrong", WithCommas(figures.count() - figures.correct()),
         PercentText(static_cast<double>(figures.count() - figures.correct()),
                     static_cast<double>(figures.count()))});
    tiles.push_back({"mean F1", FigureText(figures.Mean(&PerClass::f1)), ""});
    tiles.push_back(
        {"calibration error", FigureText(figures.calibration_error()), "ECE"});
  } else if (report.regression) {
    const RegressionFigures& figures = *report.regression;
    tiles.push_back(
        {"mean absolute error", ShortText(figures.mean_absolute_error()), ""});
    tiles.push_back({"root mean squared error",
                     ShortText(figures.root_mean_squared_error()), ""});
    tiles.push_back({"R²", ShortText(figures.r2()), ""});
    tiles.push_back(
        {"mean of predicted − true", ShortText(figures.mean_error()), ""});
  }
  return tiles;
}

}  // namespace

std::string EvaluationPage(const EvaluationReport& report) {
  const std::string title = "Evaluation of " + report.model;
  std::string body =
      "<h1>" + EscapeHtml(title) + "</h1>\n" + TilesHtml(MakeTiles(report));
  if (report.is_weighted) {
    body +=
        "<p class=\"dim\">Loss and weighted metrics use the sample "
        "weights; all other figures count each example once.</p>\n";
  }
  if (report.classifier) body += ClassifierHtml(report);
  if (report.regression) body += RegressionHtml(report);
  body += "<h2>Model</h2>\n<pre>" + EscapeHtml(report.summary) + "</pre>\n";
  if (!report.compiled.empty()) {
    body += "<p class=\"dim\">" + EscapeHtml(report.compiled) + "</p>\n";
  }
  return HtmlPage(title, body);
}

}  // namespace ringlet
