// The logs have different clocks, and any of them may lack events. Their bytes
// are not trusted; they are only printed.

#include "event_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../../core/base/text.h"
#include "event_words.h"

namespace ringlet {
namespace {

constexpr size_t kMaxProcesses = 4, kMaxMissing = 8, kMaxRefusals = 8;

// The records of one process of a worker.
using ProcessRecords = std::vector<const EventRecord*>;

std::vector<ProcessRecords> ProcessesOf(const EventLogContent& log) {
  std::vector<ProcessRecords> out;
  for (const EventRecord& record : log.records) {
    if (out.empty() || record.begins_process()) out.emplace_back();
    out.back().push_back(&record);
  }
  return out;
}

// The activity of a process at its last record.
struct Activity {
  explicit Activity(const ProcessRecords& process) {
    for (const EventRecord* record : process) Take(record);
  }
  void Take(const EventRecord* record) {
    const bool waiting = record->is("wait") || record->is("waited");
    if (waiting || record->ends_view()) {
      in_step = record->step > after;
      step = std::max(record->step, after);
    } else if (record->is("steps") || record->is("epoch") ||
               record->is("fit") || record->is("save") || record->is("check")) {
      // A "fit" may be a rollback to an earlier step.
      if (record->is("fit")) step = after = 0;
      in_step = in_step && record->step < step;
      after = std::max(after, record->step);
      step = std::max(step, after);
    }
    if (record->is("fit")) fits = true;
    if (waiting || record->ends_view()) {
      waits = record->is("wait") ? record : nullptr;
    }
    if (record->ends_view()) ended = record;
    if (record->begins_view()) waits = ended = nullptr;
  }
  int64_t after = 0;     // the last step that was certainly completed
  int64_t step = 0;      // the last known step
  bool in_step = false;  // it was not completed
  bool fits = false;     // training has begun
  const EventRecord* waits = nullptr;
  // The end of its last view; null if a later view has begun.
  const EventRecord* ended = nullptr;
};

// Returns the worker's position and, with `with_activity`, its activity.
std::string ActivityText(const Activity& activity, bool with_activity) {
  std::string out = activity.step > 0
                        ? (activity.in_step ? "in step " : "after step ") +
                              std::to_string(activity.step)
                    : activity.fits ? "in its first second of training"
                                    : "before the first step";
  if (!with_activity) return out;
  if (activity.ended != nullptr) {
    out += ", in no view since " + TimeText(activity.ended->wall);
  } else if (activity.waits != nullptr) {
    const EventRecord& event = *activity.waits;
    out += ", waiting for " + WorkerName(event.peer) + " since " +
           TimeText(NanosBetween(event.nanos, event.wall));
    if (event.other >= 0 && event.other != event.peer) {
      out += ", which waited in turn, at last for " + WorkerName(event.other);
    }
  }
  return out;
}

std::string EndText(const ProcessRecords& process) {
  const EventRecord& last = *process.back();
  const EventRecord* signal = nullptr;
  for (const EventRecord* record : process) {
    if (record->is("signal")) signal = record;
  }
  const Activity activity(process);
  std::string out = TimeText(last.wall) + "  ";
  if (last.is("end")) {
    out += "ended with exit code " + std::to_string(last.code) + " " +
           ActivityText(activity, /*with_activity=*/false);
  } else {
    out += "its log ends here, " +
           ActivityText(activity, /*with_activity=*/true) +
           ": it was killed or stopped, or lost its power, or still runs";
  }
  if (signal != nullptr) {
    out += "; signal " + std::to_string(signal->code) + " came at " +
           TimeText(signal->wall);
  }
  if (last.is("end") && !last.text.empty()) out += ": " + last.text;
  return out;
}

std::string WorkerText(const EventLogContent& log) {
  std::string name = WorkerName(log.worker);
  const std::vector<ProcessRecords> processes = ProcessesOf(log);
  for (const EventRecord& record : log.records) {
    if (!record.is("start") || record.text.empty()) continue;
    name = WorkerName(log.worker) + " (" + record.text + ")";
  }
  std::string out;
  const size_t shown = std::min(processes.size(), kMaxProcesses);
  if (!log.records.empty() && !log.records.front().begins_process()) {
    out += "  its events before " + TimeText(log.records.front().wall) +
           " are no longer in the log\n";
  }
  if (shown < processes.size()) {
    out += "  the last " + std::to_string(shown) + " of " +
           std::to_string(processes.size()) + " processes:\n";
  }
  for (size_t i = processes.size() - shown; i < processes.size(); ++i) {
    out += "  " + EndText(processes[i]) + "\n";
  }
  if (processes.empty()) out = "  no events\n";
  // The newest refusal of each worker, in each direction.
  std::map<std::pair<bool, int>, const EventRecord*> refusals;
  for (const EventRecord& record : log.records) {
    const bool by = record.is("refused_by");
    if (by || record.is("refused")) refusals[{by, record.peer}] = &record;
  }
  size_t lines = 0;
  for (const auto& [key, record] : refusals) {
    if (++lines > kMaxRefusals) {
      out += "  more workers were refused\n";
      break;
    }
    const auto [by, peer] = key;
    const std::string name = peer < 0 ? "a connection" : WorkerName(peer);
    out += "  " + TimeText(record->wall) + "  " +
           (by ? name + " refused this worker" : "refused " + name) + ": " +
           record->text + "\n";
  }
  if (log.damaged > 0) {
    out += "  " + std::to_string(log.damaged) + " damaged lines are skipped\n";
  }
  return name + ":\n" + out;
}

// Reports logs that do not fit together. A folder may have logs of an earlier,
// larger job, and each board has only its own.
std::string JobText(const std::vector<EventLogContent>& logs) {
  const EventLogContent* newest = nullptr;
  for (const EventLogContent& log : logs) {
    if (log.records.empty()) continue;
    if (newest == nullptr ||
        log.records.back().wall > newest->records.back().wall) {
      newest = &log;
    }
  }
  if (newest == nullptr) return "";
  std::string out, missing;
  std::vector<bool> has(static_cast<size_t>(newest->workers));
  for (const EventLogContent& log : logs) {
    const auto worker = static_cast<size_t>(log.worker);
    if (worker < has.size()) has[worker] = true;
    if (log.workers == newest->workers) continue;
    out += WorkerName(log.worker) + "'s log is of a job of " +
           std::to_string(log.workers) + " workers, and the newest, " +
           WorkerName(newest->worker) + "'s, of " +
           std::to_string(newest->workers) + "\n";
  }
  size_t lacks = 0;
  for (size_t w = 0; w < has.size(); ++w) {
    if (has[w] || ++lacks > kMaxMissing) continue;
    missing += (lacks > 1 ? ", " : "") + WorkerName(static_cast<int>(w));
  }
  if (lacks == 0) return out;
  if (lacks > kMaxMissing) {
    missing += " and " + std::to_string(lacks - kMaxMissing) + " more";
  }
  return out + "there is no log of " + missing + "\n";
}

}  // namespace

std::string DescribeEventLogs(const std::vector<EventLogContent>& logs) {
  std::string out = IncidentLines(logs) + JobText(logs);
  for (const EventLogContent& log : logs) out += WorkerText(log);
  return out;
}

}  // namespace ringlet
