// ringlet top: where the trainings of this user are now.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../command_line.h"
#include "../run/progress_files.h"
#include "commands.h"
#include "core/base/json.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "net/status/http_get.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Shows the trainings of this user on this machine, a line for each worker. With
ADDRESS it asks workers that were started with --status, on any machine.
)";

constexpr char kMore[] = R"(
On a terminal the table is drawn again each second until Ctrl-C; else it is
printed once. RINGLET_STATUS_TOKEN has the token of other machines' workers.

Example: ringlet top
         ringlet top board1:9090 board2:9090
)";

constexpr double kAnswerSeconds = 2;
constexpr double kStallSeconds = 10;

double NumberOr(const Json& json, double default_value) {
  return json.is_number() ? json.number() : default_value;
}

int64_t IntOr(const Json& json, int64_t default_value) {
  int64_t value = default_value;
  return json.ToInt64(&value) ? value : default_value;
}

std::string OfTotal(const Json& progress, const char* done, const char* total) {
  const int64_t all = IntOr(progress[total], 0);
  return std::to_string(IntOr(progress[done], 0)) +
         (all > 0 ? "/" + std::to_string(all) : "");
}

std::string Left(double seconds) {
  if (seconds < 0 || seconds > 1e9) return "-";
  const auto full_seconds = static_cast<int64_t>(seconds);
  char text[40];
  std::snprintf(text, sizeof(text), "%" PRId64 ":%02d:%02d",
                full_seconds / 3600, static_cast<int>(full_seconds / 60 % 60),
                static_cast<int>(full_seconds % 60));
  return text;
}

// "training", "no step for 35 s" if steps are missing, or "waits for worker 2,
// 35 s".
std::string PhaseOf(const Json& progress, double now) {
  const std::string phase = Printable(progress["phase"].text());
  const double updated = NumberOr(progress["at"], -1);
  const double age = updated >= 0 && now > updated ? now - updated : 0;
  const std::string awaited = Printable(progress["waiting_for"].text());
  if (!awaited.empty()) {
    const double waited = age + NumberOr(progress["waiting_seconds"], 0);
    return "waits for " + awaited + ", " + PrintedText(waited, 'f', 0) + " s";
  }
  double since = NumberOr(progress["seconds_since_step"], -1);
  if (since >= 0) since += age;
  const double rate = NumberOr(progress["steps_per_second"], -1);
  const bool stalls = phase == "training" && since > kStallSeconds &&
                      (rate <= 0 || since > 5 / rate);
  if (!stalls) return phase;
  return "no step for " + PrintedText(since, 'f', 0) + " s";
}

// The lines of one drawing. Each column is as wide as its widest cell.
class Table {
 public:
  using Row = std::vector<std::string>;
  // A row of one cell is a message over all columns.
  void Add(const Row& row) { rows_.push_back(row); }
  // Cuts lines at `width`, so that a terminal wraps none. With 0 it cuts none.
  void Print(size_t width) const;

 private:
  std::vector<Row> rows_;
};

void Table::Print(size_t width) const {
  std::vector<size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 == row.size()) break;
      line.append(widths[i] - row[i].size() + 1, ' ');
    }
    if (width > 0) line.resize(std::min(line.size(), width));
    std::printf("%s\n", line.c_str());
  }
}

size_t TerminalWidth() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void AddRow(const std::string& source, const Json& progress, double now,
            Table* table) {
  const double rate = NumberOr(progress["steps_per_second"], -1);
  const Json loss = progress["logs"]["loss"];
  table->Add({source, OfTotal(progress, "worker", "workers"),
              PhaseOf(progress, now), OfTotal(progress, "epoch", "epochs"),
              OfTotal(progress, "step", "steps_per_epoch"),
              rate < 0 ? "-" : PrintedText(rate, 'g', 4),
              Left(NumberOr(progress["seconds_left"], -1)),
              loss.is_number() ? PrintedText(NumberOr(loss, 0), 'g', 4) : "-",
              Printable(progress["run"].text())});
}

Table MakeTable(const std::vector<std::string>& addresses, bool* any) {
  Table table;
  table.Add({addresses.empty() ? "PROCESS" : "ADDRESS", "WORKER", "PHASE",
             "EPOCH", "STEP", "STEPS/S", "LEFT", "LOSS", "RUN"});
  const char* const token = std::getenv("RINGLET_STATUS_TOKEN");
  for (const std::string& address : addresses) {
    std::string text;
    const Status got =
        HttpGet(address, "/status.json", token == nullptr ? "" : token,
                kAnswerSeconds, &text);
    Json progress;
    Status read = got;
    if (read.ok()) read = Json::Parse(text, address, &progress);
    if (read.ok()) {
      AddRow(address, progress, -1, &table);
      *any = true;
    } else {
      table.Add({read.message()});
    }
  }
  if (!addresses.empty()) return table;
  for (const std::string& line : ReadProgressFiles()) {
    Json progress;
    if (!Json::Parse(line, "", &progress).ok()) continue;  // half written
    AddRow(std::to_string(IntOr(progress["process"], 0)), progress,
           static_cast<double>(Clock::System()->MonotonicNanos()) * 1e-9,
           &table);
    *any = true;
  }
  if (!*any) table.Add({"no training of this user runs on this machine"});
  return table;
}

}  // namespace

int TopCommand(const std::vector<std::string>& line) {
  bool once = false;
  CommandLine flags("top", "[ADDRESS]...", kAbout, kMore);
  flags.Switch("--once", &once, "print the table once");
  int code = 0;
  if (!flags.Parse(line, 0, 64, &code)) return code;
  const bool redraws = !once && isatty(STDOUT_FILENO) != 0;
  for (;;) {
    bool any = false;
    const Table table = MakeTable(flags.arguments(), &any);
    if (redraws) std::printf("\033[H\033[2J");
    table.Print(redraws ? TerminalWidth() : 0);
    std::fflush(stdout);
    if (!redraws) return any || flags.arguments().empty() ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace ringlet
