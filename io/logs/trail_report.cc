// The trails have different clocks, and any of them may lack events. Their
// bytes are not trusted; they are only printed.

#include "trail_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "trail_words.h"

namespace ringlet {
namespace {

using Kind = TrailKind;
constexpr size_t kMaxLives = 4, kMaxMissing = 8;

// The records of one process of a worker.
struct Life {
  std::vector<const TrailRecord*> records;
  const TrailRecord* next = nullptr;  // what began the process after it
  bool whole = true;                  // no number is missing
};

std::vector<Life> LivesOf(const TrailContent& trail) {
  std::vector<Life> out;
  for (const TrailRecord& record : trail.records) {
    const bool began = record.event.kind == Kind::kBegan;
    if (!out.empty()) {
      Life& last = out.back();
      if (record.number - last.records.back()->number > 1) last.whole = false;
      if (began) last.next = &record;
    }
    if (out.empty() || began) {
      out.emplace_back();
      out.back().whole = began;
    }
    out.back().records.push_back(&record);
  }
  return out;
}

// `last` is the last kStepBegan or kStepEnded. 0: no record of its steps is
// left, but the next process may have its last step.
std::string WhereText(const Life& life, int last, uint64_t step) {
  if (last == static_cast<int>(Kind::kStepBegan)) {
    return "in step " + std::to_string(step);
  }
  if (last == static_cast<int>(Kind::kStepEnded)) {
    return step > 0 ? "after step " + std::to_string(step)
                    : "before the first step";  // which was given up
  }
  if (last == 0 && life.next != nullptr && life.next->event.code != 0) {
    return WhereText(life, life.next->event.code, life.next->event.step);
  }
  return life.whole ? "before its first step"
                    : "its steps are no longer in the trail";
}

// The activity of a process at its last record.
struct Doing {
  explicit Doing(const Life& life) {
    for (const TrailRecord* record : life.records) Take(record);
  }
  void Take(const TrailRecord* record) {
    const Kind kind = record->event.kind;
    switch (kind) {
      case Kind::kStepBegan:
      case Kind::kStepEnded:
        step = record->event.step;
        last = static_cast<int>(kind);
        blocked = false;
        waits = nullptr;
        break;
      case Kind::kFormed:
        blocked = false;
        waits = ended = nullptr;
        break;
      case Kind::kLost:
      case Kind::kReported:
      case Kind::kAborted:
        blocked = false;
        waits = nullptr;
        ended = record;
        break;
      case Kind::kBlocked:
        blocked = true;
        break;
      case Kind::kResumed:
      case Kind::kWaited:
        blocked = kind == Kind::kWaited && blocked;
        waits = nullptr;
        break;
      case Kind::kWaits:
        waits = record;
        break;
      default:
        break;
    }
  }
  uint64_t step = 0;
  int last = 0;  // of a step
  bool blocked = false;
  const TrailRecord* waits = nullptr;
  const TrailRecord* ended = nullptr;  // what ended its ring; it has no other
};

// Returns the worker's position and, with `with_activity`, its activity.
std::string DoingText(const Life& life, bool with_activity) {
  const Doing doing(life);
  std::string out = WhereText(life, doing.last, doing.step);
  if (!with_activity) return out;
  if (doing.ended != nullptr) {
    out += ", in no ring since " + TimeText(doing.ended->wall);
  } else if (doing.waits != nullptr) {
    const TrailEvent& event = doing.waits->event;
    out += ", waiting for " + WorkerName(event.peer) + " since " +
           TimeText(NanosBetween(event.nanos, doing.waits->wall));
    if (event.other >= 0 && event.other != event.peer) {
      out += ", which waited in turn, at last for " + WorkerName(event.other);
    }
  } else if (doing.blocked) {
    out += ", waiting for the others";
  } else if (doing.last == static_cast<int>(Kind::kStepBegan)) {
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
  // Newer records may have been overwritten.
  const bool known = life.next != nullptr && life.next->event.nanos != 0;
  std::string out =
      TimeText(known ? life.next->event.nanos : last->wall) + "  ";
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

// The oldest rare record, which steps do not overwrite.
const TrailRecord& FirstRare(const TrailContent& trail) {
  for (const TrailRecord& record : trail.records) {
    if (IsRare(record.event)) return record;
  }
  return trail.records.front();
}

std::string WorkerText(const TrailContent& trail) {
  std::string name = WorkerName(trail.worker);
  const std::vector<Life> lives = LivesOf(trail);
  for (const TrailRecord& record : trail.records) {
    if (record.event.kind != Kind::kBegan || record.text.empty()) continue;
    name = WorkerName(trail.worker) + " (" + record.text + ")";
  }
  std::string out;
  const size_t shown = std::min(lives.size(), kMaxLives);
  if (!trail.records.empty() && trail.records.front().number > 1) {
    out += "its events before " + TimeText(FirstRare(trail).wall) +
           " are no longer in the trail, except steps and waits\n";
  }
  if (shown < lives.size()) {
    out += "the last " + std::to_string(shown) + " of " +
           std::to_string(lives.size()) + " processes:\n";
  }
  for (size_t i = lives.size() - shown; i < lives.size(); ++i) {
    out += EndText(lives[i]) + "\n";
  }
  if (lives.empty()) out = "no events\n";
  if (trail.damaged > 0) {
    out += std::to_string(trail.damaged) + " damaged records are skipped\n";
  }
  std::string indented;
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find('\n', at) + 1;
    indented += "  " + out.substr(at, end - at);
    at = end;
  }
  return name + ":\n" + indented;
}

// Reports trails that do not fit together. A folder may have trails of an
// earlier, larger job, and each board has only its own.
std::string JobText(const std::vector<TrailContent>& trails) {
  const TrailContent* newest = nullptr;
  for (const TrailContent& trail : trails) {
    if (trail.records.empty()) continue;
    if (newest == nullptr ||
        trail.records.back().wall > newest->records.back().wall) {
      newest = &trail;
    }
  }
  if (newest == nullptr) return "";
  std::string out, missing;
  std::vector<bool> has(static_cast<size_t>(newest->workers));
  for (const TrailContent& trail : trails) {
    const auto worker = static_cast<size_t>(trail.worker);
    if (worker < has.size()) has[worker] = true;
    if (trail.workers == newest->workers) continue;
    out += WorkerName(trail.worker) + "'s trail is of a job of " +
           std::to_string(trail.workers) + " workers, and the newest, " +
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
  return out + "there is no trail of " + missing + "\n";
}

const char* KindName(Kind kind) {
  static constexpr struct {
    Kind kind;
    const char* name;
  } kNames[] = {
      {Kind::kBegan, "began"},         {Kind::kFormed, "ring formed"},
      {Kind::kJoined, "joined"},       {Kind::kLost, "lost"},
      {Kind::kReported, "reported"},   {Kind::kAborted, "aborted"},
      {Kind::kLeft, "left"},           {Kind::kJoinerWaits, "joiner waits"},
      {Kind::kSaveBegan, "save"},      {Kind::kSaved, "saved"},
      {Kind::kSignal, "signal"},       {Kind::kEnded, "ended"},
      {Kind::kStepBegan, "step"},      {Kind::kStepEnded, "step done"},
      {Kind::kWaits, "waits for"},     {Kind::kWaited, "waited"},
      {Kind::kQuiet, "hears nothing"}, {Kind::kHeard, "hears again"},
      {Kind::kBlocked, "blocks"},      {Kind::kResumed, "resumes"}};
  for (const auto& known : kNames) {
    if (known.kind == kind) return known.name;
  }
  return "unknown";
}

}  // namespace

std::string DescribeTrails(const std::vector<TrailContent>& trails) {
  std::string out = IncidentLines(trails) + JobText(trails);
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
    if (event.peer >= 0) out += "  " + WorkerName(event.peer);
    if (event.other >= 0) out += ", " + WorkerName(event.other);
    if (event.operation != 0) {
      const bool backup =
          event.kind == Kind::kSaveBegan || event.kind == Kind::kSaved;
      out += event.kind == Kind::kBegan ? "  process "
             : backup                   ? "  backup "
                                        : "  operation ";
      out += std::to_string(event.operation);
    }
    if (event.kind == Kind::kBegan) {
      if (event.nanos != 0) {
        out += "  the one before it until " + TimeText(event.nanos);
      }
    } else {
      if (event.nanos != 0) out += "  " + SecondsText(event.nanos);
      if (event.code != 0) out += "  code " + std::to_string(event.code);
    }
    if (event.generation != 0) {
      out += "  ring " + std::to_string(event.generation);
    }
    if (!record.text.empty()) out += "  " + record.text;
    out += "\n";
  }
  return out;
}

}  // namespace ringlet
