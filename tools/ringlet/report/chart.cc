// A drawing has 1000 x 250 units and is stretched to the page. So what must
// keep its shape, such as texts and the signs of marks, is HTML beside the SVG,
// placed in percent. The classes in the markup are defined in kStyle of
// html.cc.

#include "chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/number_text.h"
#include "core/base/stable_sort.h"
#include "core/base/text.h"
#include "html.h"

namespace ringlet {
namespace {

constexpr double kWidth = 1000, kHeight = 250;  // in the SVG's own units
constexpr size_t kHovers = 100;

std::string Fixed(double value) {
  std::string text = PrintedText(value, 'f', 1);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) {
    text.resize(text.size() - 2);
  }
  return text;
}

std::string Place(double at) { return PrintedText(100 * at, 'f', 2) + "%"; }

// The least and the largest of the values taken.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool empty() const { return !(low <= high); }
  void Take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// --- the frame: axes, grid and labels ----------------------------------------

struct Frame {
  Axis x, y;
  std::string X(double value) const { return Fixed(kWidth * x.At(value)); }
  std::string Y(double value) const {
    return Fixed(kHeight * (1 - y.At(value)));
  }
};

// Appends the grid and the labels of the ticks.
void AppendGrid(const Frame& frame, std::string* svg, std::string* labels) {
  std::string path;
  for (const Axis::Tick& tick : frame.y.Ticks(5)) {
    path += "M0 " + Fixed(kHeight * (1 - tick.at)) + "H1000";
    *labels += "<span class=\"y\" style=\"top:" + Place(1 - tick.at) + "\">" +
               tick.text + "</span>";
  }
  int number = 0;
  for (const Axis::Tick& tick : frame.x.Ticks(6)) {
    // Every other one is left out on a narrow page.
    *labels +=
        std::string("<span class=\"x") + (number++ % 2 == 1 ? " o" : "") +
        "\" style=\"left:" + Place(tick.at) + "\">" + tick.text + "</span>";
  }
  *svg += "<path class=\"gr\" d=\"" + path + "M0 250H1000\"/>\n";
}

// The figure around the drawing `svg` and the labels beside it.
std::string FigureHtml(const std::string& title, const std::string& about,
                       const std::string& key, const Frame& frame,
                       const std::string& svg, const std::string& labels,
                       const std::string& x_name, bool named_lines) {
  std::string grid, ticks;
  AppendGrid(frame, &grid, &ticks);
  const char* const alone = named_lines ? "" : " alone";
  return "<figure><figcaption>" + EscapeHtml(title) +
         (about.empty() ? "" : " <span>" + EscapeHtml(about) + "</span>") +
         "</figcaption>" + key + "<div class=\"plot" + alone +
         "\"><svg viewBox=\"0 0 1000 250\" preserveAspectRatio=\"none\" "
         "role=\"img\" aria-label=\"" +
         EscapeHtml(title) + "\">\n" + grid + svg + "</svg>\n" + ticks +
         labels + "</div><div class=\"xl" + alone + "\">" + EscapeHtml(x_name) +
         "</div></figure>\n";
}

// --- lines -------------------------------------------------------------------

std::string PathOf(const ChartLine& line, const Frame& frame) {
  std::string path, y_before;
  bool drawing = false;
  const auto add = [&](const SampledCurve::Point& point) {
    const std::string x = frame.X(point.x), y = frame.Y(point.y);
    if (!drawing) {
      path += "M" + x + " " + y + "h0";  // a point without neighbours is a dot
    } else if (line.constant) {
      path += "H" + x + "V" + y;
    } else {
      path += "L" + x + " " + y;
    }
    drawing = true;
  };
  for (const SampledCurve::Column& column : line.curve->columns()) {
    if (column.values == 0) {
      drawing = false;
      continue;
    }
    const bool falls = column.high.x <= column.low.x;
    add(falls ? column.high : column.low);
    if (column.low.y != column.high.y) add(falls ? column.low : column.high);
  }
  if (line.constant && drawing) path += "H1000";
  return path;
}

// The intervals of x that show their values under the pointer: one for each
// point if these are few.
std::vector<double> HoverEdges(const LineChart& chart, const Extent& x) {
  const std::vector<SampledCurve::Column>* most = nullptr;
  for (const ChartLine& line : chart.lines) {
    const auto& columns = line.curve->columns();
    if (most == nullptr || columns.size() > most->size()) most = &columns;
  }
  std::vector<double> edges = {x.low};
  const bool each = most->size() <= kHovers;
  for (size_t i = 1; i < (each ? most->size() : kHovers); ++i) {
    edges.push_back(each ? ((*most)[i - 1].last_x + (*most)[i].first_x) / 2
                         : x.low + (x.high - x.low) * static_cast<double>(i) /
                                       static_cast<double>(kHovers));
  }
  edges.push_back(x.high);
  return edges;
}

std::string XText(const LineChart& chart, double x) {
  return chart.x_kind == Axis::Kind::kSeconds
             ? "after " + DurationText(x)
             : chart.x_name + " " + ExactText(x);
}

// The values of all lines in one interval of x.
class HoverText {
 public:
  explicit HoverText(const LineChart& chart)
      : chart_(chart), next_(chart.lines.size()) {}

  // Returns the values of the columns that begin before `end` and are not yet
  // shown.
  std::string Next(double end, bool is_last) {
    std::string values;
    Extent x;
    for (size_t i = 0; i < chart_.lines.size(); ++i) {
      const auto& columns = chart_.lines[i].curve->columns();
      Extent y;
      for (size_t& at = next_[i]; at < columns.size(); ++at) {
        if (!is_last && columns[at].first_x >= end) break;
        x.Take(columns[at].first_x);
        x.Take(columns[at].last_x);
        if (columns[at].values == 0) continue;
        y.Take(columns[at].low.y);
        y.Take(columns[at].high.y);
      }
      if (y.empty()) continue;
      values += "\n" + chart_.lines[i].name + " " + ExactText(y.low);
      if (y.high > y.low) values += " to " + ExactText(y.high);
    }
    if (values.empty()) return "";
    std::string where = XText(chart_, x.low);
    if (x.high > x.low) {
      where +=
          " to " + (chart_.x_kind == Axis::Kind::kSeconds ? DurationText(x.high)
                                                          : ExactText(x.high));
    }
    return where + values;
  }

 private:
  const LineChart& chart_;
  std::vector<size_t> next_;  // the next column of each line
};

std::string HoversHtml(const LineChart& chart, const Frame& frame,
                       const Extent& x) {
  const std::vector<double> edges = HoverEdges(chart, x);
  HoverText text(chart);
  std::string out = "<g class=\"ho\">\n";
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const std::string values = text.Next(edges[i + 1], i + 2 == edges.size());
    if (values.empty()) continue;
    const double left = kWidth * frame.x.At(edges[i]),
                 right = kWidth * frame.x.At(edges[i + 1]);
    out += "<rect x=\"" + Fixed(left) + "\" y=\"0\" width=\"" +
           Fixed(std::max(right - left, 1.0)) + "\" height=\"250\"><title>" +
           EscapeHtml(values) + "</title></rect>\n";
  }
  return out + "</g>";
}

// The lines' names at their ends, moved apart.
std::string EndLabelsHtml(const LineChart& chart, const Frame& frame) {
  struct Label {
    double at;
    const ChartLine* line;
  };
  constexpr double kApart = 0.075;
  std::vector<Label> labels;
  for (const ChartLine& line : chart.lines) {
    if (line.curve->values() == 0) continue;
    labels.push_back({1 - frame.y.At(line.curve->last().y), &line});
  }
  StableSort(&labels,
             [](const Label& a, const Label& b) { return a.at < b.at; });
  for (size_t i = 1; i < labels.size(); ++i) {
    labels[i].at = std::max(labels[i].at, labels[i - 1].at + kApart);
  }
  for (size_t i = labels.size(); i-- > 0;) {
    const double max_at =
        i + 1 == labels.size() ? 1.0 : labels[i + 1].at - kApart;
    labels[i].at = std::min(labels[i].at, max_at);
  }
  std::string out;
  for (const Label& label : labels) {
    out += "<span class=\"e t" + std::to_string(label.line->color) +
           "\" style=\"top:" + Place(label.at) + "\" title=\"" +
           EscapeHtml(label.line->name) + "\">" +
           EscapeHtml(Shortened(label.line->name, 40)) + "</span>";
  }
  return out;
}

std::string KeyHtml(const LineChart& chart) {
  std::string out = "<ul class=\"key\">";
  for (const ChartLine& line : chart.lines) {
    if (line.curve->values() == 0) continue;
    out += "<li class=\"t" + std::to_string(line.color) +
           (line.dashed ? " d" : "") + "\">" +
           EscapeHtml(Shortened(line.name, 60)) + " <b>" +
           ShortText(line.curve->last().y) + "</b></li>";
  }
  return out + "</ul>";
}

// The signs of marks that are close together share a label.
void AppendMarks(const LineChart& chart, const Frame& frame, std::string* svg,
                 std::string* labels) {
  constexpr double kClose = 0.02;
  std::string signs, texts;
  double begin = 0;
  for (size_t i = 0; i < chart.marks.size(); ++i) {
    const ChartMark& mark = chart.marks[i];
    const std::string color = std::to_string(mark.color);
    *svg += "<path class=\"ml s" + color + "\" d=\"M" + frame.X(mark.x) +
            " 0V250\"/>\n";
    if (signs.empty()) begin = frame.x.At(mark.x);
    const std::string sign =
        "<b class=\"t" + color + "\">" + EscapeHtml(mark.sign) + "</b>";
    if (!EndsWith(signs, sign)) signs += sign;
    texts += (texts.empty() ? "" : "\n") + mark.text;
    const bool joins_next = i + 1 < chart.marks.size() &&
                            frame.x.At(chart.marks[i + 1].x) - begin < kClose;
    if (joins_next) continue;
    *labels += "<span class=\"m\" style=\"left:" + Place(begin) +
               "\" title=\"" + EscapeHtml(texts) + "\">" + signs + "</span>";
    signs.clear();
    texts.clear();
  }
}

Axis YAxis(const LineChart& chart, const Extent& y, bool* is_log) {
  *is_log = chart.may_be_log && !chart.from_zero && !chart.counts &&
            y.low > 0 && y.high / y.low > 30;
  if (*is_log) return {Axis::Kind::kLog, y.low * 0.93, y.high * 1.07};
  if (chart.counts) return {Axis::Kind::kCount, 0, std::max(y.high, 1.0) * 1.1};
  // Far from the largest double, so that a margin can be added.
  const double low = std::max(y.low, -1e300), high = std::min(y.high, 1e300);
  const double margin = high > low    ? (high - low) * 0.05
                        : high == 0.0 ? 0.5
                                      : std::fabs(high) * 0.05;
  return {Axis::Kind::kNumber, chart.from_zero ? 0 : low - margin,
          high + margin};
}

}  // namespace

std::string LineChartHtml(const LineChart& chart) {
  Extent x, y;
  bool reduced = false;
  for (const ChartLine& line : chart.lines) {
    const SampledCurve& curve = *line.curve;
    if (curve.values() == 0) continue;
    x.Take(curve.columns().front().first_x);
    x.Take(curve.columns().back().last_x);
    y.Take(curve.low().y);
    y.Take(curve.high().y);
    reduced |= curve.is_reduced();
  }
  if (x.empty()) return "";
  if (chart.x_end > 0) {
    x.Take(0);
    x.Take(chart.x_end);
  }
  bool is_log = false;
  const Frame frame = {Axis(chart.x_kind, x.low, x.high),
                       YAxis(chart, y, &is_log)};
  std::string svg, labels;
  AppendMarks(chart, frame, &svg, &labels);
  for (const ChartLine& line : chart.lines) {
    svg += "<path class=\"ln s" + std::to_string(line.color) +
           (line.dashed ? " d" : "") + "\" d=\"" + PathOf(line, frame) +
           "\"/>\n";
  }
  std::string about = chart.unit;
  if (is_log) about += (about.empty() ? "" : ", ") + std::string("log scale");
  if (reduced) {
    about += (about.empty() ? "" : ", ") +
             std::string("least and largest of each column");
  }
  return FigureHtml(chart.title, about, KeyHtml(chart), frame,
                    svg + HoversHtml(chart, frame, x),
                    labels + EndLabelsHtml(chart, frame), chart.x_name,
                    /*named_lines=*/true);
}

std::string HistogramHtml(const BarChart& histogram) {
  double largest = 1;
  for (const double count : histogram.counts)
    largest = std::max(largest, count);
  const Frame frame = {Axis(Axis::Kind::kNumber, histogram.edges.front(),
                            histogram.edges.back()),
                       Axis(Axis::Kind::kCount, 0, largest * 1.05)};
  std::string svg = "<g>\n";
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const double left = kWidth * frame.x.At(histogram.edges[i]),
                 right = kWidth * frame.x.At(histogram.edges[i + 1]);
    const double top = kHeight * (1 - frame.y.At(histogram.counts[i]));
    svg += "<rect class=\"fb\" x=\"" + Fixed(left + 1) + "\" y=\"" +
           Fixed(top) + "\" width=\"" + Fixed(std::max(right - left - 2, 1.0)) +
           "\" height=\"" + Fixed(kHeight - top) + "\"><title>" +
           ExactText(histogram.edges[i]) + " to " +
           ExactText(histogram.edges[i + 1]) + "\n" +
           ExactText(histogram.counts[i]) + "</title></rect>\n";
  }
  return FigureHtml(histogram.title, "examples in each bar", "", frame,
                    svg + "</g>", "", histogram.x_name, /*named_lines=*/false);
}

std::string ScatterHtml(const Scatter& scatter) {
  const Frame frame = {Axis(Axis::Kind::kNumber, scatter.low, scatter.high),
                       Axis(Axis::Kind::kNumber, scatter.low, scatter.high)};
  std::string svg;
  for (size_t i = 0; scatter.bars && i < scatter.points.size(); ++i) {
    const double half = scatter.bar_width / 2, x = scatter.points[i].x;
    const double left = kWidth * frame.x.At(x - half),
                 right = kWidth * frame.x.At(x + half);
    const double top = kHeight * (1 - frame.y.At(scatter.points[i].y));
    svg += "<rect class=\"fb\" x=\"" + Fixed(left + 2) + "\" y=\"" +
           Fixed(top) + "\" width=\"" + Fixed(right - left - 4) +
           "\" height=\"" + Fixed(kHeight - top) + "\"><title>" +
           EscapeHtml(i < scatter.titles.size() ? scatter.titles[i] : "") +
           "</title></rect>\n";
  }
  svg += "<path class=\"ref\" d=\"M0 250L1000 0\"/>\n";
  std::string dots;
  for (size_t i = 0; !scatter.bars && i < scatter.points.size(); ++i) {
    dots += "M" + frame.X(scatter.points[i].x) + " " +
            frame.Y(scatter.points[i].y) + "h0";
  }
  if (!dots.empty()) svg += "<path class=\"dot\" d=\"" + dots + "\"/>";
  return FigureHtml(scatter.title, scatter.y_name, "", frame, svg, "",
                    scatter.x_name, /*named_lines=*/false);
}

}  // namespace ringlet
