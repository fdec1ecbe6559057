// An incident is the end of one ring: all records of it that the workers wrote
// within a minute. A generation alone does not identify a ring, since a
// restarted job counts again from 1. So an incident has records of one ring of
// each worker, and of a process that had started before it.

#include "trail_report.h"

#include <algorithm>
#include <tuple>

#include "trail_words.h"

namespace ringlet {
namespace {

using Kind = TrailKind;
constexpr int64_t kOneIncident = 60000000000;  // nanoseconds
constexpr size_t kMaxIncidents = 16;

// A record of the end of a ring, by one worker.
struct RingEnd {
  int worker;
  const TrailRecord* record;
  size_t trail;   // the trail's index
  size_t ring;    // the ring's index in the trail
  int64_t began;  // the start of the process; INT64_MIN: not in the trail
};

struct Incident {
  uint32_t generation;
  int64_t wall;
  std::vector<RingEnd> ends;
};

bool EndsRing(Kind kind) {
  return kind == Kind::kLost || kind == Kind::kReported ||
         kind == Kind::kAborted;
}

// The ends, in the order of their clocks.
std::vector<RingEnd> EndsOf(const std::vector<TrailContent>& trails) {
  std::vector<RingEnd> out;
  for (size_t i = 0; i < trails.size(); ++i) {
    size_t ring = 0;
    int64_t began = INT64_MIN;
    for (const TrailRecord& record : trails[i].records) {
      const Kind kind = record.event.kind;
      if (kind == Kind::kBegan || kind == Kind::kFormed) {
        ++ring;
        if (kind == Kind::kBegan) began = record.wall;
      } else if (EndsRing(kind)) {
        out.push_back({trails[i].worker, &record, i, ring, began});
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const RingEnd& a, const RingEnd& b) {
    const int64_t at = a.record->wall, other = b.record->wall;
    return at != other ? at < other
                       : std::tie(a.trail, a.record->number) <
                             std::tie(b.trail, b.record->number);
  });
  return out;
}

bool IsOf(const Incident& incident, const RingEnd& end) {
  if (incident.generation != end.record->event.generation ||
      NanosBetween(incident.wall, end.record->wall) >= kOneIncident ||
      end.began > incident.wall) {
    return false;
  }
  return std::none_of(
      incident.ends.begin(), incident.ends.end(), [&](const RingEnd& other) {
        return other.trail == end.trail && other.ring != end.ring;
      });
}

std::vector<Incident> IncidentsOf(const std::vector<TrailContent>& trails) {
  std::vector<Incident> out;
  for (const RingEnd& end : EndsOf(trails)) {
    const auto at =
        std::find_if(out.rbegin(), out.rend(),
                     [&](const Incident& i) { return IsOf(i, end); });
    if (at != out.rend()) {
      at->ends.push_back(end);
    } else {
      out.push_back({end.record->event.generation, end.record->wall, {end}});
    }
  }
  return out;
}

// Returns the record nearest to the cause: the record of the worker that gave
// up, or else of the first worker that saw a loss.
const RingEnd& CauseOf(const Incident& incident) {
  for (const Kind kind : {Kind::kAborted, Kind::kLost}) {
    for (const RingEnd& end : incident.ends) {
      if (end.record->event.kind == kind) return end;
    }
  }
  return incident.ends.front();
}

std::string WaitText(const RingEnd& end) {
  const TrailEvent& event = end.record->event;
  const std::string worker = WorkerName(end.worker);
  if (event.kind == Kind::kAborted || event.peer == end.worker) return "";
  if (event.other < 0) return worker + " computed";
  return worker + " waited for " + WorkerName(event.other) + ", for " +
         SecondsText(event.nanos) + " (operation " +
         std::to_string(event.operation) + ")";
}

// Each worker's record, if they disagree on the lost worker: each partition
// loses the other. "": they agree.
std::string DisputeText(const Incident& incident) {
  const TrailEvent* first = nullptr;
  bool differ = false;
  std::string out;
  for (const RingEnd& end : incident.ends) {
    const TrailEvent& event = end.record->event;
    if (event.kind != Kind::kLost) continue;
    if (first == nullptr) first = &event;
    differ = differ || event.peer != first->peer;
    out += (out.empty() ? "" : "; ") + WorkerName(end.worker) + " says that " +
           (event.peer == end.worker ? "it was cut off: "
                                     : WorkerName(event.peer) + " was lost: ") +
           end.record->text;
  }
  return differ ? out : "";
}

std::string CauseText(const Incident& incident) {
  const RingEnd& cause = CauseOf(incident);
  const TrailEvent& event = cause.record->event;
  const std::string& text = cause.record->text;
  if (event.kind == Kind::kReported) return text;
  if (event.kind == Kind::kAborted) {
    return WorkerName(cause.worker) + " ended: " + text;
  }
  const std::string dispute = DisputeText(incident);
  if (!dispute.empty()) return dispute;
  if (event.peer == cause.worker) {
    return WorkerName(cause.worker) + " was cut off: " + text;
  }
  return WorkerName(event.peer) + " was lost: " + text;
}

std::string IncidentText(const Incident& incident) {
  uint64_t step = 0;
  std::string waits;
  std::vector<int> heard;
  for (const RingEnd& end : incident.ends) {
    step = std::max(step, end.record->event.step);
    if (std::count(heard.begin(), heard.end(), end.worker) > 0) continue;
    heard.push_back(end.worker);
    const std::string wait = WaitText(end);
    if (!wait.empty()) waits += "; " + wait;
  }
  return TimeText(incident.wall) + "  " +
         (step == 0 ? "before the first step"
                    : "in step " + std::to_string(step)) +
         " " + CauseText(incident) + waits + "\n";
}

}  // namespace

std::string IncidentLines(const std::vector<TrailContent>& trails) {
  std::string out;
  const std::vector<Incident> incidents = IncidentsOf(trails);
  const size_t shown = std::min(incidents.size(), kMaxIncidents);
  if (shown < incidents.size()) {
    out += "the last " + std::to_string(shown) + " of " +
           std::to_string(incidents.size()) + " rings that ended:\n";
  }
  for (size_t i = incidents.size() - shown; i < incidents.size(); ++i) {
    out += IncidentText(incidents[i]);
  }
  return out;
}

}  // namespace ringlet
