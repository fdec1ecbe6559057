// An incident is the end of one view: all records of it that the workers wrote
// within a minute. A number alone does not identify a view, since a restarted
// job counts again from 1. So an incident has records of one view of each
// worker, and of a process that had started before it.

#include "event_report.h"

#include <algorithm>
#include <tuple>

#include "../../core/base/stable_sort.h"
#include "event_words.h"

namespace ringlet {
namespace {

constexpr int64_t kOneIncident = 60000000000;  // nanoseconds
constexpr size_t kMaxIncidents = 16;

// A record of the end of a view, by one worker.
struct ViewEnd {
  int worker;
  const EventRecord* record;
  size_t log;     // the log's index
  size_t view;    // the view's index in the log
  int64_t began;  // the start of the process; INT64_MIN: not in the log
};

struct Incident {
  int64_t view;
  int64_t wall;
  std::vector<ViewEnd> ends;
};

bool IsOwnLoss(const EventRecord& record) {
  return record.is("loss") && record.reporter < 0;
}

// The ends, in the order of their clocks.
std::vector<ViewEnd> EndsOf(const std::vector<EventLogContent>& logs) {
  std::vector<ViewEnd> out;
  for (size_t i = 0; i < logs.size(); ++i) {
    size_t view = 0;
    int64_t began = INT64_MIN;
    for (const EventRecord& record : logs[i].records) {
      if (record.begins_process()) began = record.wall;
      if (record.begins_process() || record.begins_view()) {
        ++view;
      } else if (record.ends_view()) {
        out.push_back({logs[i].worker, &record, i, view, began});
      }
    }
  }
  StableSort(&out, [](const ViewEnd& a, const ViewEnd& b) {
    const int64_t time = a.record->wall, other = b.record->wall;
    return time != other
               ? time < other
               : std::tie(a.log, a.record) < std::tie(b.log, b.record);
  });
  return out;
}

bool IsOf(const Incident& incident, const ViewEnd& end) {
  if (incident.view != end.record->view ||
      NanosBetween(incident.wall, end.record->wall) >= kOneIncident ||
      end.began > incident.wall) {
    return false;
  }
  return std::none_of(incident.ends.begin(), incident.ends.end(),
                      [&](const ViewEnd& other) {
                        return other.log == end.log && other.view != end.view;
                      });
}

std::vector<Incident> IncidentsOf(const std::vector<EventLogContent>& logs) {
  std::vector<Incident> out;
  for (const ViewEnd& end : EndsOf(logs)) {
    const auto place =
        std::find_if(out.rbegin(), out.rend(),
                     [&](const Incident& i) { return IsOf(i, end); });
    if (place != out.rend()) {
      place->ends.push_back(end);
    } else {
      out.push_back({end.record->view, end.record->wall, {end}});
    }
  }
  return out;
}

// Returns the record nearest to the cause: the record of a worker that aborted.
// Without an abort: the record of the first worker that saw a loss itself.
const ViewEnd& CauseOf(const Incident& incident) {
  for (const ViewEnd& end : incident.ends) {
    if (end.record->is("abort")) return end;
  }
  for (const ViewEnd& end : incident.ends) {
    if (IsOwnLoss(*end.record)) return end;
  }
  return incident.ends.front();
}

std::string WaitText(const ViewEnd& end) {
  const EventRecord& event = *end.record;
  const std::string worker = WorkerName(end.worker);
  if (event.is("abort") || event.peer == end.worker) return "";
  if (event.other < 0) return worker + " computed";
  return worker + " waited for " + WorkerName(event.other) + ", for " +
         SecondsText(event.nanos) + " (operation " +
         std::to_string(event.operation) + ")";
}

// Returns each worker's record if the workers disagree on the lost worker, as
// in a partition. Returns "" if they agree.
std::string DisputeText(const Incident& incident) {
  const EventRecord* first = nullptr;
  bool differ = false;
  std::string out;
  for (const ViewEnd& end : incident.ends) {
    const EventRecord& event = *end.record;
    if (!IsOwnLoss(event)) continue;
    if (first == nullptr) first = &event;
    differ = differ || event.peer != first->peer;
    out += (out.empty() ? "" : "; ") + WorkerName(end.worker) + " says that " +
           (event.peer == end.worker ? "it was cut off: "
                                     : WorkerName(event.peer) + " was lost: ") +
           event.text;
  }
  return differ ? out : "";
}

std::string CauseText(const Incident& incident) {
  const ViewEnd& cause = CauseOf(incident);
  const EventRecord& event = *cause.record;
  const std::string& text = event.text;
  if (event.is("abort")) return WorkerName(cause.worker) + " ended: " + text;
  if (!IsOwnLoss(event)) return text;
  const std::string dispute = DisputeText(incident);
  if (!dispute.empty()) return dispute;
  if (event.peer == cause.worker) {
    return WorkerName(cause.worker) + " was cut off: " + text;
  }
  return WorkerName(event.peer) + " was lost: " + text;
}

std::string IncidentText(const Incident& incident) {
  int64_t step = 0;
  std::string waits;
  std::vector<int> heard;
  for (const ViewEnd& end : incident.ends) {
    step = std::max(step, end.record->step);
    if (std::count(heard.begin(), heard.end(), end.worker) > 0) continue;
    heard.push_back(end.worker);
    const std::string wait = WaitText(end);
    if (!wait.empty()) waits += "; " + wait;
  }
  return TimeText(incident.wall) + "  " +
         (step <= 0 ? "before the first step"
                    : "in step " + std::to_string(step)) +
         " " + CauseText(incident) + waits + "\n";
}

}  // namespace

std::string IncidentLines(const std::vector<EventLogContent>& logs) {
  std::string out;
  const std::vector<Incident> incidents = IncidentsOf(logs);
  const size_t shown = std::min(incidents.size(), kMaxIncidents);
  if (shown < incidents.size()) {
    out += "the last " + std::to_string(shown) + " of " +
           std::to_string(incidents.size()) + " views that ended:\n";
  }
  for (size_t i = incidents.size() - shown; i < incidents.size(); ++i) {
    out += IncidentText(incidents[i]);
  }
  return out;
}

}  // namespace ringlet
