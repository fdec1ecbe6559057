// ringlet report: a page of a run's logs.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "../command_line.h"
#include "../report/run_page.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/stable_sort.h"
#include "core/base/text.h"
#include "file_summaries.h"
#include "io/files/atomic_file.h"
#include "io/files/file_kind.h"
#include "io/files/path.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Writes one HTML page of a run: the curves of its losses and metrics, the time
of its steps, what happened to its workers, its memory and its model. The page
needs no other file and no network.
)";

constexpr char kMore[] = R"(
It takes the logs of CSVLogger and StepLogger (CSV), the event logs of workers
(.events), RUN.json for the memory and the layers, and a saved model for its
layers. Of a folder it takes all of these files.

Examples: ringlet report run/ -o report.html
          ringlet report log.csv model.worker-*.events run.json
)";

constexpr size_t kMaxFiles = 4096;

// The files that the arguments name.
struct Inputs {
  std::vector<std::string> tables, models, runs;
  // The first time and the path.
  std::vector<std::pair<double, std::string>> events;
  size_t count() const {
    return tables.size() + models.size() + runs.size() + events.size();
  }
};

bool IsTableName(const std::string& path) {
  return EndsWith(path, ".csv") || EndsWith(path, ".csv.gz");
}

// Adds a file by its kind. False if it is not the file of a run.
bool AddFile(const std::string& path, Inputs* inputs) {
  double time = 0;
  if (IsTableName(path)) {
    inputs->tables.push_back(path);
    return true;
  }
  if (ReadFirstEventTime(path, &time)) {
    inputs->events.emplace_back(time, path);
    return true;
  }
  FileKind kind;
  if (!FindFileKind(CommandFileSystem(), path, &kind).ok()) return false;
  switch (kind.format) {
    case FileKind::Format::kRun:
      inputs->runs.push_back(path);
      return true;
    case FileKind::Format::kSafetensors:
    case FileKind::Format::kSealed:
      inputs->models.push_back(path);
      return true;
    default:
      return false;
  }
}

Status AddFolder(const std::string& folder, Inputs* inputs) {
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->List(folder, &names));
  for (const std::string& name : names) {
    const std::string path = PathIn(folder, name);
    const bool may_be = IsTableName(name) || EndsWith(name, ".json") ||
                        EndsWith(name, ".safetensors") ||
                        name.find(".events") != std::string::npos;
    if (!may_be || !IsFile(path)) continue;
    if (IsTableName(name) && !IsLogTable(path)) continue;
    if (inputs->count() < kMaxFiles) AddFile(path, inputs);
  }
  return Status();
}

Status FindInputs(const std::vector<std::string>& arguments, Inputs* inputs) {
  for (const std::string& path : arguments) {
    if (IsFolder(path)) {
      RINGLET_RETURN_IF_ERROR(AddFolder(path, inputs));
      continue;
    }
    std::unique_ptr<File> file;
    RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
    if (AddFile(path, inputs)) continue;
    return InvalidArgument(
        "%s: is neither a log (.csv, .events) nor a RUN.json nor a saved model",
        path.c_str());
  }
  if (inputs->count() > 0) return Status();
  return InvalidArgument(
      "%s: has no log; give the files of CSVLogger or StepLogger, event logs "
      "or RUN.json",
      arguments[0].c_str());
}

Status ReadMemory(const std::string& path, RunReport* report) {
  RunReport::Memory memory;
  memory.path = path;
  std::vector<MemoryRow> rows;
  RINGLET_RETURN_IF_ERROR(PlanMemoryRows(path, &memory.batch, &rows));
  for (const MemoryRow& row : rows) {
    if (row.kind == MemoryRow::Kind::kTotal) {
      memory.total = row.bytes;
    } else {
      memory.rows.push_back(
          {row.name, row.bytes, row.kind == MemoryRow::Kind::kSubtracted});
    }
  }
  report->memory.push_back(memory);
  return Status();
}

Status ReadModel(const std::string& path, RunReport* report) {
  RunReport::Model model;
  model.path = path;
  RINGLET_RETURN_IF_ERROR(SummarizeFile(path, &model.summary, &model.compiled));
  report->models.push_back(model);
  return Status();
}

// A file that cannot be read is named on the page and on stderr.
RunReport ReadInputs(const Inputs& inputs, bool* all_read) {
  RunReport report;
  const auto take = [&](const std::string& path, const Status& status) {
    if (status.ok()) {
      report.files.push_back(path);
      return;
    }
    *all_read = false;
    report.notes.emplace_back(status.message());
    Notice("warning: %s; left out of the report", status.message());
  };
  for (const std::string& path : inputs.tables) {
    LogTable table;
    const Status status = ReadLogTable(path, &table);
    if (table.rows > 0) report.tables.push_back(std::move(table));
    take(path, status);
  }
  StableSort(&report.tables, [](const LogTable& a, const LogTable& b) {
    return a.of_steps < b.of_steps;
  });
  for (const auto& [time, path] : inputs.events) {
    take(path, ReadEventHistory(path, &report.events));
  }
  report.events.Finish();
  for (const std::string& path : inputs.runs) {
    const Status summarized = ReadModel(path, &report);
    take(path, summarized.ok() ? ReadMemory(path, &report) : summarized);
  }
  for (const std::string& path : inputs.models) {
    take(path, ReadModel(path, &report));
  }
  return report;
}

std::string TitleOf(const std::string& argument) {
  std::string path = argument;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return "Report of " + (path == "." ? "this folder" : FileNameOf(path));
}

Status Report(const std::vector<std::string>& arguments, const std::string& out,
              bool* all_read) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", out));
  Inputs inputs;
  RINGLET_RETURN_IF_ERROR(FindInputs(arguments, &inputs));
  std::sort(inputs.events.begin(), inputs.events.end());
  for (const auto* files : {&inputs.tables, &inputs.runs, &inputs.models}) {
    RINGLET_RETURN_IF_ERROR(CheckNotRead("--out", out, *files));
  }
  for (const auto& [time, path] : inputs.events) {
    RINGLET_RETURN_IF_ERROR(CheckNotRead("--out", out, {path}));
  }
  RunReport report = ReadInputs(inputs, all_read);
  report.title = TitleOf(arguments[0]);
  RINGLET_RETURN_IF_ERROR(WriteWholeFile(PosixFiles(), out, RunPage(report)));
  PrintWritten(out, "the report");
  return Status();
}

}  // namespace

int ReportCommand(const std::vector<std::string>& line) {
  std::string out = "report.html";
  CommandLine flags("report", "FOLDER|FILE...", kAbout, kMore);
  flags.Text("-o, --out", "FILE", &out, "the page (default: report.html)");
  int code = 0;
  if (!flags.Parse(line, 1, kMaxFiles, &code)) return code;
  bool all_read = true;
  const Status status = Report(flags.arguments(), out, &all_read);
  return status.ok() && !all_read ? 1 : InputExitCode(status);
}

}  // namespace ringlet
