// Each function makes a part of the page, or "" if the logs have nothing for
// it. Texts of the logs go through EscapeHtml.

#include "events_html.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "chart.h"
#include "core/base/stable_sort.h"
#include "core/base/text.h"

namespace ringlet {
namespace {

using Kind = ListedEvent::Kind;

constexpr size_t kShownWorkers = 64, kShownEvents = 400, kShownWaits = 20;
constexpr size_t kMarks = 60;

struct PartOfStep {
  const char* name;
  double StepParts::*seconds;
};
constexpr PartOfStep kParts[] = {{"compute", &StepParts::compute},
                                 {"wait", &StepParts::wait},
                                 {"transfer", &StepParts::transfer},
                                 {"read", &StepParts::read},
                                 {"save", &StepParts::save}};

struct KindStyle {
  Kind kind;
  const char *sign, *name;
  int color;
  bool is_marked;
};
constexpr KindStyle kStyles[] = {
    // kind, sign, name, color, is_marked
    {Kind::kStart, "▶", "start", 5, false},
    {Kind::kView, "●", "view", 0, false},
    {Kind::kLoss, "✕", "loss", 1, true},
    {Kind::kLeave, "◁", "leave", 1, true},
    {Kind::kJoin, "+", "join", 2, true},
    {Kind::kRefused, "⊘", "refused", 4, false},
    {Kind::kRollback, "↶", "rollback", 3, true},
    {Kind::kSilence, "…", "silence", 4, false},
    {Kind::kSave, "▾", "save", 5, true},
    {Kind::kCheck, "≠", "check failed", 1, true},
    {Kind::kWarning, "!", "warning", 4, false},
    {Kind::kSignal, "⚑", "signal", 4, true},
    {Kind::kEnd, "■", "end", 5, false},
};

const KindStyle& StyleOf(Kind kind) {
  for (const KindStyle& style : kStyles) {
    if (style.kind == kind) return style;
  }
  return kStyles[0];
}

int64_t CountOf(const EventHistory& events, Kind kind) {
  return std::count_if(events.listed().begin(), events.listed().end(),
                       [kind](const ListedEvent& h) { return h.kind == kind; });
}

// Marks of what happened, without the saves if there are many.
std::vector<ChartMark> MarksOf(const EventHistory& events) {
  std::vector<ChartMark> marks;
  const bool saves =
      CountOf(events, Kind::kSave) <= static_cast<int64_t>(kMarks) / 3;
  for (const ListedEvent& event : events.listed()) {
    const KindStyle& style = StyleOf(event.kind);
    if (!style.is_marked || (event.kind == Kind::kSave && !saves)) continue;
    if (marks.size() == kMarks) break;
    ChartMark mark;
    mark.x = event.time - events.begin();
    mark.sign = style.sign;
    mark.text = DurationText(mark.x) + ": " + event.text;
    mark.color = style.color;
    marks.push_back(mark);
  }
  return marks;
}

std::string MarksKey(const std::vector<ChartMark>& marks) {
  std::string out;
  for (const KindStyle& style : kStyles) {
    const bool shown = std::any_of(
        marks.begin(), marks.end(),
        [&](const ChartMark& mark) { return mark.sign == style.sign; });
    if (!shown) continue;
    out += (out.empty() ? "" : " · ") + std::string("<b class=\"t") +
           std::to_string(style.color) + "\">" + style.sign + "</b> " +
           style.name;
  }
  return out.empty() ? "" : "<p class=\"dim\">" + out + "</p>\n";
}

// A longer time without a line of steps counts as a pause of the worker.
constexpr double kPause = 35;  // seconds

// The curve with seconds since the job's begin as x, and a gap in each pause.
SampledCurve SinceBegin(const SampledCurve& curve, double begin) {
  SampledCurve shifted;
  double before = 0;
  for (const SampledCurve::Column& column : curve.columns()) {
    if (column.values == 0) continue;
    const bool paused = !curve.is_reduced() && shifted.values() > 0 &&
                        column.high.x - before > kPause;
    if (paused) shifted.Add(before - begin, std::nan(""));
    shifted.Add(column.high.x - begin, column.high.y);
    before = column.high.x;
  }
  return shifted;
}

std::string PartsKey() {
  std::string out = "<p class=\"dim\">";
  int color = 0;
  for (const PartOfStep& part : kParts) {
    out += "<span class=\"sw b" + std::to_string(color++) + "\"></span>" +
           part.name + " &#160; ";
  }
  return out + "</p>\n";
}

// The workers with steps, the slowest of which come first in `slowest`.
std::vector<const WorkerHistory*> WithSteps(const EventHistory& events) {
  std::vector<const WorkerHistory*> out;
  for (const WorkerHistory* worker : events.workers()) {
    if (worker->p50.values() > 0) out.push_back(worker);
  }
  return out;
}

std::string StepChartHtml(const EventHistory& events,
                          const std::vector<const WorkerHistory*>& workers) {
  LineChart chart;
  chart.title = "Time of a step";
  chart.unit =
      "seconds; solid: half of the steps were shorter (p50), dashed: "
      "99 of 100 were (p99)";
  chart.x_name = "time since the first event";
  chart.x_kind = Axis::Kind::kSeconds;
  std::deque<SampledCurve> curves;
  const bool both = workers.size() <= 3;
  int color = 0;
  for (const WorkerHistory* worker : workers) {
    if (color == kColors) break;
    const auto add = [&](const SampledCurve& curve, const char* what,
                         bool dashed) {
      curves.push_back(SinceBegin(curve, events.begin()));
      ChartLine line;
      line.name = "worker " + worker->worker + what;
      line.curve = &curves.back();
      line.color = color;
      line.dashed = dashed;
      chart.lines.push_back(line);
    };
    add(worker->p50, " p50", /*dashed=*/false);
    if (both) add(worker->p99, " p99", /*dashed=*/true);
    ++color;
  }
  if (!both) chart.unit = "seconds; half of the steps were shorter (p50)";
  if (workers.size() > kColors) {
    chart.unit += "; the first " + std::to_string(kColors) + " workers";
  }
  chart.from_zero = true;
  chart.x_end = events.end() - events.begin();
  chart.marks = MarksOf(events);
  return LineChartHtml(chart) + MarksKey(chart.marks);
}

}  // namespace

std::vector<KeyFigure> MakeTiles(const EventHistory& events) {
  std::vector<KeyFigure> tiles;
  const double seconds = events.end() - events.begin();
  tiles.push_back(
      {"duration", DurationText(seconds), "from " + DateText(events.begin())});
  const size_t workers = events.workers().size();
  const int64_t losses = CountOf(events, Kind::kLoss);
  tiles.push_back(
      {"workers", std::to_string(workers),
       std::to_string(losses) + (losses == 1 ? " loss" : " losses")});
  int64_t steps = 0;
  double p50 = 0;
  for (const WorkerHistory* worker : events.workers()) {
    steps = std::max(steps, worker->steps);
    if (worker->p50.values() > 0) p50 = std::max(p50, worker->p50.last().y);
  }
  if (steps > 0) {
    tiles.push_back({"steps", WithCommas(steps),
                     "last p50 " + DurationText(p50) + " a step"});
  }
  return tiles;
}

std::string WorkersHtml(const EventHistory& events) {
  HtmlTable table({"worker", "address", "its end"}, 3);
  const WorkerHistory* trained = nullptr;
  for (const WorkerHistory* w : events.workers()) {
    if (w->planned_bytes > 0 || w->parameters > 0) trained = w;
    if (table.rows() == kShownWorkers) continue;
    const std::string end =
        w->status.empty()
            ? "none in its log: it runs, or was killed"
            : "exit code " + ShortText(w->exit_code) + " (" + w->status + ")";
    table.Row({EscapeHtml(w->worker), EscapeHtml(w->address), EscapeHtml(end)});
  }
  std::string out = "<h2>Workers</h2>\n";
  if (trained != nullptr) {
    const WorkerHistory& w = *trained;
    out += "<p>" + EscapeHtml(w.run) + ": model " + EscapeHtml(w.model) +
           " of " + ExactText(w.layers) + " layers and " +
           ExactText(w.parameters) + " parameters (" + ExactText(w.trainable) +
           " trainable), " + ExactText(w.epochs) + " epochs of " +
           ExactText(w.steps_per_epoch) + " steps, " + ExactText(w.examples) +
           " examples.</p>\n";
  }
  return out + table.Html();
}

std::string StepPartsHtml(const EventHistory& events) {
  const std::vector<const WorkerHistory*> workers = WithSteps(events);
  if (workers.empty()) return "";
  std::string bars = "<div class=\"row\">\n";
  HtmlTable table({"worker", "steps", "compute s", "wait s", "transfer s",
                   "read s", "save s", "wait", "slowest step s"},
                  1);
  for (const WorkerHistory* worker : workers) {
    if (table.rows() == kShownWorkers) break;
    std::vector<BarPart> parts;
    std::vector<std::string> cells = {EscapeHtml(worker->worker),
                                      std::to_string(worker->steps)};
    const double sum = worker->times.sum();
    for (const PartOfStep& part : kParts) {
      const double seconds = worker->times.*part.seconds;
      parts.push_back({part.name, seconds,
                       DurationText(seconds) + ", " + PercentText(seconds, sum),
                       static_cast<int>(parts.size())});
      cells.push_back(ShortText(seconds));
    }
    cells.push_back(PercentText(worker->times.wait, sum));
    cells.push_back(ShortText(worker->slowest));
    bars += "<div>worker " + EscapeHtml(worker->worker) + "</div>" +
            BarHtml(parts, sum) + "\n";
    table.Row(cells);
  }
  std::string out = "<h2>Time of the steps</h2>\n" + PartsKey() + bars +
                    "</div>\n" + table.Html() + StepChartHtml(events, workers);
  if (workers.size() > kShownWorkers) {
    out += "<p class=\"dim\">The first " + std::to_string(kShownWorkers) +
           " of " + std::to_string(workers.size()) + " workers.</p>\n";
  }
  return out;
}

std::string MembersHtml(const EventHistory& events) {
  if (events.views().empty()) return "";
  SampledCurve members, replicas;
  for (const ViewChange& view : events.views()) {
    const double x = view.time - events.begin();
    int64_t sum = 0;
    for (const auto& [worker, count] : view.replicas) {
      sum += std::min<int64_t>(count, 1 << 20);
    }
    members.Add(x, static_cast<double>(view.members.size()));
    if (!view.replicas.empty()) replicas.Add(x, static_cast<double>(sum));
  }
  const double end = events.end() - events.begin();
  members.Add(end, members.last().y);
  if (replicas.values() > 0) replicas.Add(end, replicas.last().y);
  LineChart chart;
  chart.title = "Members of the view";
  chart.x_name = "time since the first event";
  chart.x_kind = Axis::Kind::kSeconds;
  chart.counts = true;
  chart.x_end = end;
  chart.lines = {{"members", &members, 0, /*dashed=*/false, /*constant=*/true}};
  if (replicas.values() > 0) {
    chart.title += " and replicas";
    chart.lines.push_back(
        {"replicas", &replicas, 2, /*dashed=*/true, /*constant=*/true});
  }
  chart.marks = MarksOf(events);
  return "<h2>Members</h2>\n" + LineChartHtml(chart) + MarksKey(chart.marks);
}

std::string WaitsHtml(const EventHistory& events) {
  using Pair = std::pair<std::pair<std::string, std::string>, Waiting>;
  std::vector<Pair> waits(events.waits().begin(), events.waits().end());
  if (waits.empty()) return "";
  StableSort(&waits, [](const Pair& a, const Pair& b) {
    return a.second.seconds > b.second.seconds;
  });
  HtmlTable table({"worker", "waited for", "times", "seconds", "longest s"}, 2);
  for (const auto& [pair, waiting] : waits) {
    if (table.rows() == kShownWaits) break;
    table.Row({EscapeHtml(pair.first), EscapeHtml(pair.second),
               std::to_string(waiting.count), ShortText(waiting.seconds),
               ShortText(waiting.longest)});
  }
  std::string caption = "Waits of a second or longer";
  if (waits.size() > kShownWaits) {
    caption += ", the longest " + std::to_string(kShownWaits) + " of " +
               std::to_string(waits.size()) + " pairs";
  }
  return "<h2>Which worker waited for which</h2>\n" + table.Html(caption);
}

std::string SavesHtml(const EventHistory& events) {
  HtmlTable table({"worker", "saves", "failed", "seconds in all",
                   "largest file", "replica checks"},
                  1);
  for (const WorkerHistory* w : events.workers()) {
    if (w->saves + w->failed_saves + w->checks == 0) continue;
    if (table.rows() == kShownWorkers) break;
    table.Row({EscapeHtml(w->worker), std::to_string(w->saves),
               std::to_string(w->failed_saves), ShortText(w->save_seconds),
               BinaryBytesText(w->largest_save), std::to_string(w->checks)});
  }
  if (table.rows() == 0) return "";
  return "<h2>Saves and checks</h2>\n" + table.Html();
}

std::string EventListHtml(const EventHistory& events) {
  const std::vector<ListedEvent>& all = events.listed();
  if (all.empty()) return "";
  HtmlTable table({"after", "", "event", "what happened", "workers"}, 4);
  // The first and the last ones, if there are too many.
  const size_t half = kShownEvents / 2;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all.size() > kShownEvents && i >= half && i < all.size() - half) {
      continue;
    }
    const KindStyle& style = StyleOf(all[i].kind);
    table.Row({DurationText(all[i].time - events.begin()),
               std::string("<b class=\"t") + std::to_string(style.color) +
                   "\">" + style.sign + "</b>",
               style.name, EscapeHtml(all[i].text),
               std::to_string(all[i].recorded_by)});
  }
  std::string caption =
      "Since " + DateText(events.begin()) + ", by the clocks of the workers.";
  if (all.size() > kShownEvents) {
    caption += " " + std::to_string(all.size() - 2 * half) +
               " events in the middle are left out.";
  }
  return "<h2>What happened</h2>\n" + table.Html(caption);
}

std::string PlannedMemoryHtml(const EventHistory& events) {
  HtmlTable table({"worker", "planned for the model", "largest of the process",
                   "beside the model", "batch", "threads"},
                  1);
  for (const WorkerHistory* w : events.workers()) {
    if (w->planned_bytes <= 0 && w->peak_bytes <= 0) continue;
    if (table.rows() == kShownWorkers) break;
    const bool both = w->planned_bytes > 0 && w->peak_bytes > 0;
    table.Row({EscapeHtml(w->worker), BinaryBytesText(w->planned_bytes),
               w->peak_bytes > 0 ? BinaryBytesText(w->peak_bytes) : "–",
               both ? BinaryBytesText(w->peak_bytes - w->planned_bytes) : "–",
               ExactText(w->batch_size), ExactText(w->threads)});
  }
  if (table.rows() == 0) return "";
  return table.Html(
      "The plan is exact for the model. Beside it a process has its data, the "
      "program and its libraries.");
}

}  // namespace ringlet
