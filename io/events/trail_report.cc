// What must be known to change this: the trails are of several clocks, any of
// them may lack events, and their bytes are believed in nothing but what is
// printed of them. An incident is what ended one ring: all that the workers
// noted of that generation's end within a minute.

#include "trail_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <map>

namespace ringlet {
namespace {

using Kind = TrailKind;
constexpr int64_t kOneIncident = 60000000000;  // nanoseconds
constexpr size_t kMostIncidents = 16, kMostLives = 4;

std::string Worker(int worker) { return "worker " + std::to_string(worker); }

// "2026-11-23 15:48:22.250", of UTC.
std::string TimeText(int64_t wall) {
  int64_t seconds = wall / 1000000000, nanos = wall % 1000000000;
  if (nanos < 0) --seconds, nanos += 1000000000;
  const auto time = static_cast<time_t>(seconds);
  tm parts;
  if (time != seconds || gmtime_r(&time, &parts) == nullptr) return "?";
  char text[64], all[80];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(all, sizeof(all), "%s.%03d", text,
                static_cast<int>(nanos / 1000000));
  return all;
}

std::string SecondsText(int64_t nanos) {
  char text[48];
  const double seconds = static_cast<double>(nanos) / 1e9;
  std::snprintf(text, sizeof(text), seconds < 10 ? "%.2f s" : "%.0f s",
                seconds);
  return text;
}

std::string StepText(uint64_t step) {
  return step == 0 ? "before the first step"
                   : "in step " + std::to_string(step);
}

// --- what ended a ring ------------------------------------------------------

struct Told {
  int worker;
  const TrailRecord* record;
};

struct Incident {
  uint32_t generation;
  int64_t wall;
  std::vector<Told> told;
};

bool EndsRing(Kind kind) {
  return kind == Kind::kLost || kind == Kind::kTold || kind == Kind::kAborted;
}

std::vector<Incident> IncidentsOf(const std::vector<TrailContent>& trails) {
  std::vector<Told> all;
  for (const TrailContent& trail : trails) {
    for (const TrailRecord& record : trail.records) {
      if (EndsRing(record.event.kind)) all.push_back({trail.worker, &record});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Told& a, const Told& b) {
    return a.record->wall < b.record->wall;
  });
  std::vector<Incident> out;
  for (const Told& told : all) {
    const TrailRecord& record = *told.record;
    const auto same = [&](const Incident& incident) {
      return incident.generation == record.event.generation &&
             record.wall - incident.wall < kOneIncident;
    };
    auto at = std::find_if(out.begin(), out.end(), same);
    if (at == out.end()) {
      out.push_back({record.event.generation, record.wall, {}});
      at = out.end() - 1;
    }
    at->told.push_back(told);
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
  const std::string who = Worker(told.worker);
  if (event.kind == Kind::kAborted || event.peer == told.worker) return "";
  if (event.other < 0) return who + " computed";
  return who + " waited for " + Worker(event.other) + ", for " +
         SecondsText(event.nanos) + " (operation " +
         std::to_string(event.operation) + ")";
}

std::string IncidentText(const Incident& incident) {
  const Told& cause = CauseOf(incident);
  const TrailEvent& event = cause.record->event;
  uint64_t step = 0;
  std::string waits;
  std::vector<int> heard;
  for (const Told& told : incident.told) {
    step = std::max(step, told.record->event.step);
    if (std::count(heard.begin(), heard.end(), told.worker) > 0) continue;
    heard.push_back(told.worker);
    const std::string wait = WaitText(told);
    if (!wait.empty()) waits += (waits.empty() ? "" : "; ") + wait;
  }
  std::string what;
  if (event.kind == Kind::kTold) {
    what = cause.record->text;
  } else if (event.kind == Kind::kAborted) {
    what = Worker(cause.worker) + " gave up: " + cause.record->text;
  } else if (event.peer == cause.worker) {
    what = Worker(cause.worker) + " was cut off: " + cause.record->text;
  } else {
    what = Worker(event.peer) + " was lost: " + cause.record->text;
  }
  return TimeText(incident.wall) + "  " + StepText(step) + " " + what +
         (waits.empty() ? "" : "; " + waits) + "\n";
}

// --- how each ended ---------------------------------------------------------

// One process of a worker.
struct Life {
  std::vector<const TrailRecord*> records;
};

std::vector<Life> LivesOf(const TrailContent& trail) {
  std::vector<Life> out;
  for (const TrailRecord& record : trail.records) {
    if (out.empty() || record.event.kind == Kind::kBegan) out.emplace_back();
    out.back().records.push_back(&record);
  }
  return out;
}

// Where it was; `doing`: and what it did when nothing more was noted.
std::string DoingText(const Life& life, bool doing) {
  uint64_t step = 0;
  bool in_step = false, blocked = false;
  const TrailRecord* waits = nullptr;
  for (const TrailRecord* record : life.records) {
    const TrailEvent& event = record->event;
    switch (event.kind) {
      case Kind::kStepBegan:
      case Kind::kStepEnded:
        step = event.step;
        in_step = event.kind == Kind::kStepBegan;
        blocked = false;
        waits = nullptr;
        break;
      case Kind::kBlocked:
        blocked = true;
        break;
      case Kind::kResumed:
      case Kind::kWaited:
        blocked = event.kind == Kind::kWaited && blocked;
        waits = nullptr;
        break;
      case Kind::kWaits:
        waits = record;
        break;
      case Kind::kFormed:
        blocked = false;
        waits = nullptr;
        break;
      default:
        break;
    }
  }
  std::string out = in_step     ? "in step " + std::to_string(step)
                    : step == 0 ? "before its first step"
                                : "after step " + std::to_string(step);
  if (!doing) return out;
  if (waits != nullptr) {
    const TrailEvent& event = waits->event;
    out += ", waiting for " + Worker(event.peer) + " since " +
           TimeText(waits->wall - event.nanos);
    if (event.other >= 0 && event.other != event.peer) {
      out += ", which waited in turn, at last for " + Worker(event.other);
    }
  } else if (blocked) {
    out += ", waiting for the others";
  } else if (in_step) {
    out += ", computing";
  }
  return out;
}

std::string EndText(const Life& life) {
  const TrailRecord* last = life.records.front();
  const TrailRecord* signal = nullptr;
  for (const TrailRecord* record : life.records) {
    if (record->event.kind == Kind::kSignal) signal = record;
    if (record->number >= last->number) last = record;
  }
  std::string out = TimeText(last->wall) + "  ";
  if (last->event.kind == Kind::kEnded) {
    out += "ended with exit code " + std::to_string(last->event.code) + " " +
           DoingText(life, false);
  } else {
    out += "its trail ends here, " + DoingText(life, true) +
           ": it was killed or stopped, or lost its power, or still runs";
  }
  if (signal != nullptr) {
    out += "; signal " + std::to_string(signal->event.code) + " came at " +
           TimeText(signal->wall);
  }
  if (last->event.kind == Kind::kEnded && !last->text.empty()) {
    out += ": " + last->text;
  }
  return out;
}

std::string WorkerText(const TrailContent& trail) {
  std::string name = Worker(trail.worker);
  const std::vector<Life> lives = LivesOf(trail);
  for (const TrailRecord& record : trail.records) {
    if (record.event.kind != Kind::kBegan || record.text.empty()) continue;
    name = Worker(trail.worker) + " (" + record.text + ")";
  }
  std::string out;
  const size_t shown = std::min(lives.size(), kMostLives);
  for (size_t i = lives.size() - shown; i < lives.size(); ++i) {
    out += EndText(lives[i]) + "\n";
  }
  if (lives.empty()) out = "nothing was noted\n";
  if (trail.damaged > 0) {
    out += std::to_string(trail.damaged) + " damaged records are left out\n";
  }
  std::string indented;
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find('\n', at) + 1;
    indented += "  " + out.substr(at, end - at);
    at = end;
  }
  return name + ":\n" + indented;
}

const char* KindName(Kind kind) {
  static const std::map<Kind, const char*> kNames = {
      {Kind::kBegan, "began"},         {Kind::kFormed, "ring formed"},
      {Kind::kJoined, "joined"},       {Kind::kLost, "lost"},
      {Kind::kTold, "told of"},        {Kind::kAborted, "gave up"},
      {Kind::kLeft, "left"},           {Kind::kVisited, "another comes"},
      {Kind::kSaveBegan, "save"},      {Kind::kSaved, "saved"},
      {Kind::kSignal, "signal"},       {Kind::kEnded, "ended"},
      {Kind::kStepBegan, "step"},      {Kind::kStepEnded, "step done"},
      {Kind::kWaits, "waits for"},     {Kind::kWaited, "waited"},
      {Kind::kQuiet, "hears nothing"}, {Kind::kHeard, "hears again"},
      {Kind::kBlocked, "blocks"},      {Kind::kResumed, "goes on"}};
  const auto found = kNames.find(kind);
  return found == kNames.end() ? "unknown" : found->second;
}

}  // namespace

std::string DescribeTrails(const std::vector<TrailContent>& trails) {
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
  for (const TrailContent& trail : trails) out += WorkerText(trail);
  return out;
}

std::string ListTrail(const TrailContent& trail) {
  std::string out;
  for (const TrailRecord& record : trail.records) {
    const TrailEvent& event = record.event;
    char line[256];
    std::snprintf(line, sizeof(line), "%" PRIu64 "  %s  step %" PRIu64 "  %s",
                  record.number, TimeText(record.wall).c_str(), event.step,
                  KindName(event.kind));
    out += line;
    if (event.peer >= 0) out += "  " + Worker(event.peer);
    if (event.other >= 0) out += ", " + Worker(event.other);
    if (event.operation != 0) {
      out += event.kind == Kind::kBegan ? "  process " : "  operation ";
      out += std::to_string(event.operation);
    }
    if (event.nanos != 0) out += "  " + SecondsText(event.nanos);
    if (event.code != 0) out += "  code " + std::to_string(event.code);
    if (event.generation != 0) {
      out += "  ring " + std::to_string(event.generation);
    }
    if (!record.text.empty()) out += "  " + record.text;
    out += "\n";
  }
  return out;
}

}  // namespace ringlet
