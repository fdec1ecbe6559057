// RunPage has the order of the parts. A part without figures is left out, with
// its heading.

#include "run_page.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/text.h"
#include "curves_html.h"
#include "events_html.h"
#include "html.h"

namespace ringlet {
namespace {

std::string Paragraph(const std::string& text) {
  return "<p class=\"dim\">" + EscapeHtml(text) + "</p>\n";
}

std::vector<NamedCurve> CurvesOf(const LogTable& table) {
  std::vector<NamedCurve> curves;
  for (const LogTable::Column& column : table.columns) {
    curves.push_back({column.name, &column.curve});
  }
  return curves;
}

using EpochCurves = std::map<std::string, SampledCurve>;

std::vector<NamedCurve> CurvesOf(const EpochCurves& epochs) {
  std::vector<NamedCurve> curves;
  for (const auto& [name, curve] : epochs) curves.push_back({name, &curve});
  return curves;
}

const char* XName(const LogTable& table) {
  return table.of_steps ? "step" : "epoch";
}

std::string RowsHtml(const LogTable& table) {
  if (table.shown.empty()) return "";
  std::vector<std::string> headings = {XName(table)};
  for (const LogTable::Column& column : table.columns) {
    headings.push_back(column.name);
  }
  HtmlTable rows(headings, 0);
  for (const std::vector<std::string>& row : table.shown) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const std::string& field : row) cells.push_back(EscapeHtml(field));
    rows.Row(cells);
  }
  return "<details><summary>All rows</summary>" + rows.Html() + "</details>\n";
}

// How the curves were reduced, and what was left out.
std::string AboutTable(const LogTable& table) {
  std::string about =
      std::to_string(table.rows) + (table.of_steps ? " steps" : " epochs");
  const SampledCurve* curve =
      table.columns.empty() ? nullptr : &table.columns[0].curve;
  if (curve != nullptr && curve->is_reduced()) {
    about +=
        "; each column of the charts shows the least and the largest "
        "value of " +
        std::to_string(curve->points_per_column()) +
        " rows, and the table is of all rows";
  }
  if (table.skipped_rows > 0) {
    about += "; left out: " + std::to_string(table.skipped_rows) +
             " rows that do not fit the header";
  }
  if (table.more_columns > 0) {
    about += "; left out: " + std::to_string(table.more_columns) +
             " columns beyond " + std::to_string(LogTable::kMaxColumns);
  }
  return about + ".";
}

std::string TableHtml(const LogTable& table) {
  const std::vector<NamedCurve> curves = CurvesOf(table);
  return "<h2>" + EscapeHtml(table.of_steps ? "Steps: " : "Epochs: ") +
         EscapeHtml(table.path) + "</h2>\n" + Paragraph(AboutTable(table)) +
         CurvesHtml(curves, XName(table)) + FiguresHtml(curves, XName(table)) +
         RowsHtml(table);
}

std::string EventCurvesHtml(const RunReport& report,
                            const EpochCurves& epochs) {
  const std::vector<NamedCurve> curves = CurvesOf(epochs);
  const bool has_epochs =
      std::any_of(report.tables.begin(), report.tables.end(),
                  [](const LogTable& table) { return !table.of_steps; });
  if (curves.empty() || has_epochs) return "";
  return "<h2>Epochs</h2>\n" + CurvesHtml(curves, "epoch") +
         FiguresHtml(curves, "epoch");
}

std::string MemoryHtml(const RunReport& report) {
  std::string out = PlannedMemoryHtml(report.events);
  for (const RunReport::Memory& plan : report.memory) {
    HtmlTable table({"", "bytes", ""}, 1);
    std::vector<BarPart> parts;
    double sum = 0;
    for (const RunReport::Memory::Row& row : plan.rows) {
      if (row.bytes == 0) continue;
      const auto bytes = static_cast<double>(row.bytes);
      if (!row.subtracted) {
        parts.push_back({row.name, bytes, BinaryBytesText(bytes),
                         static_cast<int>(parts.size() % kBarColors)});
        sum += bytes;
      }
      table.Row({EscapeHtml(row.name),
                 (row.subtracted ? "−" : "") + std::to_string(row.bytes),
                 BinaryBytesText(bytes)});
    }
    table.Row({"<b>total</b>", "<b>" + std::to_string(plan.total) + "</b>",
               BinaryBytesText(static_cast<double>(plan.total))});
    out += "<h3>" + EscapeHtml(plan.path) + ", a batch of " +
           std::to_string(plan.batch) + "</h3>\n" + BarHtml(parts, sum) +
           table.Html(
               "The plan of ringlet plan, exact for the model of one "
               "worker");
  }
  return out.empty() ? "" : "<h2>Memory</h2>\n" + out;
}

std::string ModelsHtml(const RunReport& report) {
  std::string out;
  for (const RunReport::Model& model : report.models) {
    out += "<h2>Model: " + EscapeHtml(model.path) + "</h2>\n<pre>" +
           EscapeHtml(model.summary) + "</pre>\n";
    if (!model.compiled.empty()) out += Paragraph(model.compiled);
  }
  return out;
}

std::string AboutHtml(const RunReport& report) {
  std::string out = "<h2>About this page</h2>\n<ul>\n";
  const auto item = [&out](const std::string& text) {
    out += "<li>" + EscapeHtml(text) + "</li>\n";
  };
  for (const std::string& file : report.files) item("read: " + file);
  for (const std::string& note : report.notes) item("not read: " + note);
  const EventHistory& events = report.events;
  if (events.skipped_lines() > 0) {
    item(std::to_string(events.skipped_lines()) +
         " lines of the event logs are not events and were left out");
  }
  if (events.left_out() > 0) {
    item(std::to_string(events.left_out()) +
         " events were left out, since a page has a bound");
  }
  item("A chart shows at most " + std::to_string(SampledCurve::kMaxColumns) +
       " columns. A column of several rows has a line from their least to "
       "their largest value, so no peak is lost; the numbers in the tables are "
       "those of the log, of all rows.");
  item(
      "Under the pointer a chart shows its values. Dashed lines are of "
      "validation, if a chart has both.");
  return out + "</ul>\n";
}

}  // namespace

std::string RunHtml(const RunReport& report) {
  std::string body;
  const EpochCurves epochs = report.events.EpochCurves();
  std::vector<KeyFigure> tiles;
  if (!report.events.empty()) tiles = MakeTiles(report.events);
  bool has_figures = false;
  for (const LogTable& table : report.tables) {
    if (has_figures || table.rows == 0) continue;
    const std::vector<KeyFigure> more =
        MakeTiles(CurvesOf(table), XName(table));
    tiles.insert(tiles.end(), more.begin(), more.end());
    has_figures = true;
  }
  if (!has_figures) {
    const std::vector<KeyFigure> more = MakeTiles(CurvesOf(epochs), "epoch");
    tiles.insert(tiles.end(), more.begin(), more.end());
  }
  if (!tiles.empty()) body += TilesHtml(tiles);
  for (const LogTable& table : report.tables) body += TableHtml(table);
  body += EventCurvesHtml(report, epochs);
  if (!report.events.empty()) {
    body += WorkersHtml(report.events) + MembersHtml(report.events) +
            StepPartsHtml(report.events) + WaitsHtml(report.events) +
            SavesHtml(report.events);
  }
  body += MemoryHtml(report);
  if (!report.events.empty()) body += EventListHtml(report.events);
  return body + ModelsHtml(report) + AboutHtml(report);
}

std::string RunPage(const RunReport& report) {
  return HtmlPage(report.title, "<h1>" + EscapeHtml(report.title) + "</h1>\n" +
                                    RunHtml(report));
}

}  // namespace ringlet
