// ringlet top: where the trainings of this user are now.

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <thread>

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

double NumberOr(const Json& json, double otherwise) {
  return json.is_number() ? json.number() : otherwise;
}

int64_t IntOr(const Json& json, int64_t otherwise) {
  int64_t value = otherwise;
  return json.ToInt64(&value) ? value : otherwise;
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

// "training", or "no step for 35 s" if steps are missing.
std::string PhaseOf(const Json& progress, double now) {
  const std::string phase = Printable(progress["phase"].text());
  double since = NumberOr(progress["seconds_since_step"], -1);
  const double at = NumberOr(progress["at"], -1);
  if (since >= 0 && at >= 0 && now > at) since += now - at;
  const double rate = NumberOr(progress["steps_per_second"], -1);
  const bool stalls = phase == "training" && since > kStallSeconds &&
                      (rate <= 0 || since > 5 / rate);
  if (!stalls) return phase;
  return "no step for " + PrintedText(since, 'f', 0) + " s";
}

constexpr char kRow[] = "%-21s %6s  %-18s %9s %13s %8s %9s %9s  %s\n";

void PrintRow(const std::string& source, const Json& progress, double now) {
  const double rate = NumberOr(progress["steps_per_second"], -1);
  const Json loss = progress["logs"]["loss"];
  std::printf(
      kRow, source.c_str(), OfTotal(progress, "worker", "workers").c_str(),
      PhaseOf(progress, now).c_str(),
      OfTotal(progress, "epoch", "epochs").c_str(),
      OfTotal(progress, "step", "steps_per_epoch").c_str(),
      rate < 0 ? "-" : PrintedText(rate, 'g', 4).c_str(),
      Left(NumberOr(progress["seconds_left"], -1)).c_str(),
      loss.is_number() ? PrintedText(NumberOr(loss, 0), 'g', 4).c_str() : "-",
      Printable(progress["run"].text()).c_str());
}

void PrintTable(const std::vector<std::string>& addresses, bool* any) {
  std::printf(kRow, addresses.empty() ? "PROCESS" : "ADDRESS", "WORKER",
              "PHASE", "EPOCH", "STEP", "STEPS/S", "LEFT", "LOSS", "RUN");
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
      PrintRow(address, progress, -1);
      *any = true;
    } else {
      std::printf("%s\n", read.message());
    }
  }
  if (!addresses.empty()) return;
  for (const std::string& line : ReadProgressFiles()) {
    Json progress;
    if (!Json::Parse(line, "", &progress).ok()) continue;  // half written
    PrintRow(std::to_string(IntOr(progress["process"], 0)), progress,
             static_cast<double>(Clock::System()->MonotonicNanos()) * 1e-9);
    *any = true;
  }
  if (!*any) std::printf("no training of this user runs on this machine\n");
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
    if (redraws) std::printf("\033[H\033[2J");
    PrintTable(flags.arguments(), &any);
    std::fflush(stdout);
    if (!redraws) return any || flags.arguments().empty() ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace ringlet
