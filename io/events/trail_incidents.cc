// What must be known to change this: an incident is what ended one ring, all
// that the workers noted of it within a minute. A generation alone does not
// name a ring, for a job that is started again counts them from 1 anew: of one
// worker there are only records of one ring in it, and of every worker only
// those of a process that was there before the incident.

#include "trail_incidents.h"

#include <algorithm>
#include <tuple>

#include "trail_words.h"

namespace ringlet {
namespace {

using Kind = TrailKind;
constexpr int64_t kOneIncident = 60000000000;  // nanoseconds
constexpr size_t kMostIncidents = 16;

struct Told {
  int worker;
  const TrailRecord* record;
  size_t trail;   // which
  size_t ring;    // which of the trail's, by what began it
  int64_t began;  // the process; INT64_MIN: that is not in the trail
};

struct Incident {
  uint32_t generation;
  int64_t wall;
  std::vector<Told> told;
};

bool EndsRing(Kind kind) {
  return kind == Kind::kLost || kind == Kind::kTold || kind == Kind::kAborted;
}

// In the order of their clocks.
std::vector<Told> EndsOf(const std::vector<TrailContent>& trails) {
  std::vector<Told> out;
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
  std::sort(out.begin(), out.end(), [](const Told& a, const Told& b) {
    const int64_t at = a.record->wall, other = b.record->wall;
    return at != other ? at < other
                       : std::tie(a.trail, a.record->number) <
                             std::tie(b.trail, b.record->number);
  });
  return out;
}

bool IsOf(const Incident& incident, const Told& told) {
  if (incident.generation != told.record->event.generation ||
      NanosBetween(incident.wall, told.record->wall) >= kOneIncident ||
      told.began > incident.wall) {
    return false;
  }
  return std::none_of(
      incident.told.begin(), incident.told.end(), [&](const Told& other) {
        return other.trail == told.trail && other.ring != told.ring;
      });
}

std::vector<Incident> IncidentsOf(const std::vector<TrailContent>& trails) {
  std::vector<Incident> out;
  for (const Told& told : EndsOf(trails)) {
    const auto at =
        std::find_if(out.rbegin(), out.rend(),
                     [&](const Incident& i) { return IsOf(i, told); });
    if (at != out.rend()) {
      at->told.push_back(told);
    } else {
      out.push_back({told.record->event.generation, told.record->wall, {told}});
    }
  }
  return out;
}

// The word that is nearest to the cause: of the worker that gave up, or else of
// the first that saw another's loss.
const Told& CauseOf(const Incident& incident) {
  for (const Kind kind : {Kind::kAborted, Kind::kLost}) {
    for (const Told& told : incident.told) {
      if (told.record->event.kind == kind) return told;
    }
  }
  return incident.told.front();
}

std::string WaitText(const Told& told) {
  const TrailEvent& event = told.record->event;
  const std::string who = WorkerName(told.worker);
  if (event.kind == Kind::kAborted || event.peer == told.worker) return "";
  if (event.other < 0) return who + " computed";
  return who + " waited for " + WorkerName(event.other) + ", for " +
         SecondsText(event.nanos) + " (operation " +
         std::to_string(event.operation) + ")";
}

// What each saw, where they do not agree on who was lost: a network that is cut
// in two leaves each part without the other. "": they agree.
std::string DisputeText(const Incident& incident) {
  const TrailEvent* first = nullptr;
  bool differ = false;
  std::string out;
  for (const Told& told : incident.told) {
    const TrailEvent& event = told.record->event;
    if (event.kind != Kind::kLost) continue;
    if (first == nullptr) first = &event;
    differ = differ || event.peer != first->peer;
    out +=
        (out.empty() ? "" : "; ") + WorkerName(told.worker) + " says that " +
        (event.peer == told.worker ? "it was cut off: "
                                   : WorkerName(event.peer) + " was lost: ") +
        told.record->text;
  }
  return differ ? out : "";
}

std::string CauseText(const Incident& incident) {
  const Told& cause = CauseOf(incident);
  const TrailEvent& event = cause.record->event;
  const std::string& text = cause.record->text;
  if (event.kind == Kind::kTold) return text;
  if (event.kind == Kind::kAborted) {
    return WorkerName(cause.worker) + " gave up: " + text;
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
  for (const Told& told : incident.told) {
    step = std::max(step, told.record->event.step);
    if (std::count(heard.begin(), heard.end(), told.worker) > 0) continue;
    heard.push_back(told.worker);
    const std::string wait = WaitText(told);
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
  const size_t shown = std::min(incidents.size(), kMostIncidents);
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
