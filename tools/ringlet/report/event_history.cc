// A function for each event (kTakers) reads its fields from hostile JSON: each
// text is cut, and each container has a bound (kMax...). Lines of several
// workers about one thing become one ListedEvent, by the key that Add gets.

#include "event_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/stable_sort.h"
#include "core/base/text.h"
#include "html.h"
#include "io/files/input_file.h"
#include "io/logs/event_lines.h"

namespace ringlet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxText = 400, kMaxName = 100;
// Members record one thing at about the same time, by their own clocks.
constexpr double kSameThing = 120;  // seconds

std::string TextOf(const Json& value, size_t max_bytes = kMaxText) {
  return value.is_string() ? Shortened(value.text(), max_bytes) : "";
}

double NumberOf(const Json& value, double default_value = 0) {
  const double number = value.is_number() ? value.number() : default_value;
  return std::isfinite(number) ? number : default_value;
}

int64_t WholeNumberOf(const Json& value, int64_t default_value = 0) {
  int64_t number = 0;
  return value.ToInt64(&number) && number >= 0 ? number : default_value;
}

// "worker 2, worker 5" of a list of names.
std::vector<std::string> NamesOf(const Json& list) {
  std::vector<std::string> names;
  if (!list.is_array()) return names;
  for (Json m = list.first(); m && names.size() < EventHistory::kMaxMembers;
       m = m.next()) {
    names.push_back(TextOf(m, kMaxName));
  }
  return names;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return Shortened(out, kMaxText);
}

std::string WorkersText(const std::vector<std::string>& names) {
  return (names.size() == 1 ? "worker " : "workers ") + Joined(names);
}

// "in step 12", or "".
std::string StepText(const Json& json) {
  const int64_t step = WholeNumberOf(json["step"], -1);
  return step < 0 ? "" : " in step " + std::to_string(step);
}

std::string Because(const Json& reason) {
  const std::string text = TextOf(reason);
  return text.empty() ? "" : ": " + text;
}

// Like ParseEventLine, with the time in seconds since 1970.
bool ParseLine(const std::string& text, Json* fields, double* time) {
  int64_t nanos = 0;
  const bool is_event = ParseEventLine(text, fields, &nanos);
  *time = static_cast<double>(nanos) / 1e9;
  return is_event;
}

// Adds the points of `added` at places where *curve has none.
void AddMissing(const SampledCurve& added, SampledCurve* curve) {
  if (added.is_reduced() || curve->is_reduced()) return;
  std::map<double, double> points;
  for (const SampledCurve* from :
       {&added, static_cast<const SampledCurve*>(curve)}) {
    for (const SampledCurve::Column& column : from->columns()) {
      points[column.first_x] = column.values == 0 ? kNaN : column.last;
    }
  }
  if (points.size() == curve->columns().size()) return;
  *curve = SampledCurve();
  for (const auto& [x, y] : points) curve->Add(x, y);
}

// The lines of a file, of which each but the last has an end. A longer one than
// kMaxEventLine is cut to its size.
class LineReader {
 public:
  Status Open(const std::string& path) { return file_.Open(path); }

  Status Next(std::string* line, bool* has_line) {
    line->clear();
    *has_line = false;
    for (;;) {
      if (at_ == got_) {
        at_ = got_ = 0;
        RINGLET_RETURN_IF_ERROR(
            file_.ReadSome(buffer_, sizeof(buffer_), &got_));
        if (got_ == 0) return Status();
      }
      *has_line = true;
      const std::string_view rest(buffer_ + at_, got_ - at_);
      const size_t end = std::min(rest.find('\n'), rest.size());
      line->append(rest.substr(0, std::min(end, kMaxEventLine - line->size())));
      at_ += end;
      if (end == rest.size()) continue;
      ++at_;
      return Status();
    }
  }

 private:
  InputFile file_;
  char buffer_[1 << 14];
  size_t at_ = 0, got_ = 0;
};

}  // namespace

WorkerHistory* EventHistory::FindWorker(const std::string& name) {
  const auto found = workers_.find(name);
  if (found != workers_.end()) return &found->second;
  if (workers_.size() == kMaxWorkers) return nullptr;
  WorkerHistory& worker = workers_[name];
  worker.worker = name;
  return &worker;
}

void EventHistory::TakeLine(const std::string& text) {
  if (text.empty()) return;
  Line line;
  if (!ParseLine(text, &line.json, &line.time)) {
    ++skipped_lines_;
    return;
  }
  line.worker = FindWorker(TextOf(line.json["worker"], kMaxName));
  if (line.worker == nullptr) {
    ++left_out_;
    return;
  }
  if (lines_++ == 0) begin_ = end_ = line.time;
  begin_ = std::min(begin_, line.time);
  end_ = std::max(end_, line.time);
  // A clock that was set back: time stands still until it is reached again.
  line.time = std::max(line.time, line.worker->last_time);
  line.worker->last_time = line.time;
  struct Taker {
    const char* event;
    void (EventHistory::*take)(const Line& line);
  };
  constexpr Taker kTakers[] = {
      {"steps", &EventHistory::TakeSteps}, {"epoch", &EventHistory::TakeEpoch},
      {"view", &EventHistory::TakeView},   {"loss", &EventHistory::TakeLoss},
      {"save", &EventHistory::TakeSave},   {"fit", &EventHistory::TakeFit},
      {"start", &EventHistory::TakeStart}, {"check", &EventHistory::TakeCheck},
      {"waited", &EventHistory::TakeWait}, {"end", &EventHistory::TakeEnd}};
  const std::string event = line.json["event"].text();
  for (const Taker& taker : kTakers) {
    if (event == taker.event) return (this->*taker.take)(line);
  }
  TakeOther(event, line);
}

// The event of `key` that is nearest to the line's time; null if none is
// near. A worker records each thing once. So the same again is another thing,
// as the first view of a restarted job is.
ListedEvent* EventHistory::FindListed(const Line& line,
                                      const std::string& key) {
  const auto found = seen_.find(key);
  if (key.empty() || found == seen_.end()) return nullptr;
  const auto own_event = line.worker->recorded.find(key);
  ListedEvent* nearest = nullptr;
  double smallest_gap = kSameThing;
  for (const size_t place : found->second) {
    ListedEvent& known = listed_[place];
    const double apart = std::fabs(known.time - line.time);
    if (apart >= smallest_gap ||
        (own_event != line.worker->recorded.end() &&
         known.time <= listed_[own_event->second].time)) {
      continue;
    }
    nearest = &known;
    smallest_gap = apart;
  }
  return nearest;
}

// `key` is equal for all workers' lines of one thing, and "" if there is only
// this line. Returns the event, which another worker may have recorded first;
// null if there is no room.
ListedEvent* EventHistory::Add(ListedEvent::Kind kind, const Line& line,
                               const std::string& text,
                               const std::string& key) {
  ListedEvent* event = FindListed(line, key);
  if (event != nullptr) {
    ++event->recorded_by;
    event->time = std::min(event->time, line.time);
  } else if (listed_.size() == kMaxListed) {
    ++left_out_;
    return nullptr;
  } else {
    if (!key.empty()) seen_[key].push_back(listed_.size());
    event = &listed_.emplace_back();
    event->time = line.time;
    event->kind = kind;
    event->worker = line.worker->worker;
    event->text = text;
  }
  if (!key.empty()) {
    line.worker->recorded[key] = static_cast<size_t>(event - listed_.data());
  }
  return event;
}

void EventHistory::TakeStart(const Line& line) {
  WorkerHistory& w = *line.worker;
  w.address = TextOf(line.json["address"], kMaxName);
  w.run = TextOf(line.json["run"]);
  w.status.clear();
  if (line.json["continued"].as_bool()) return;  // only its file is new
  Add(ListedEvent::Kind::kStart, line, "worker " + w.worker + " started");
}

void EventHistory::TakeCheck(const Line& line) {
  ++line.worker->checks;
  const Json agreed = line.json["agreed"];
  if (agreed.kind() != Json::Kind::kBool || agreed.as_bool()) return;
  const std::string step = StepText(line.json);
  Add(ListedEvent::Kind::kCheck, line, "a replica check failed" + step,
      "check " + step);
}

void EventHistory::TakeFit(const Line& line) {
  WorkerHistory& w = *line.worker;
  const Json& json = line.json;
  w.planned_bytes = NumberOf(json["planned_memory_bytes"]);
  w.epochs = NumberOf(json["epochs"]);
  w.steps_per_epoch = NumberOf(json["steps_per_epoch"]);
  w.batch_size = NumberOf(json["batch_size"]);
  w.threads = NumberOf(json["threads"]);
  w.examples = NumberOf(json["examples"]);
  const Json model = json["model"];
  w.model = TextOf(model["name"], kMaxName);
  w.layers = NumberOf(model["layers"]);
  w.parameters = NumberOf(model["parameters"]);
  w.trainable = NumberOf(model["trainable_parameters"]);
  // Another run.
  if (json["source"].text() == "start") {
    w.logs.clear();
    w.last_epoch = -1;
    w.epochs_recorded = 0;
    w.run_began = line.time;
  }
}

void EventHistory::TakeView(const Line& line) {
  if (!line.json["members"]) return TakeReplicas(line);
  ViewChange view;
  view.time = line.time;
  view.number = WholeNumberOf(line.json["view"]);
  view.members = NamesOf(line.json["members"]);
  const std::string text = "view " + std::to_string(view.number) + " of " +
                           WorkersText(view.members);
  ListedEvent* const event = Add(ListedEvent::Kind::kView, line, text, text);
  if (event != nullptr && event->recorded_by > 1) {
    line.worker->view = event->view;
    return;
  }
  if (views_.size() == kMaxViews) {
    ++left_out_;
    return;
  }
  views_.push_back(view);
  line.worker->view = views_.size();
  if (event != nullptr) event->view = views_.size();
}

// All members of a view record the same assignments.
void EventHistory::TakeReplicas(const Line& line) {
  size_t& place = line.worker->view;
  if (place == 0) return;
  std::map<std::string, int64_t> replicas;
  const Json json = line.json["replicas"];
  for (Json m = json.is_object() ? json.first() : Json(); m; m = m.next()) {
    if (replicas.size() == kMaxMembers) break;
    replicas[Shortened(m.key(), kMaxName)] = WholeNumberOf(m);
  }
  ViewChange& view = views_[place - 1];
  if (view.replicas.empty()) view.replicas = replicas;
  if (view.replicas == replicas || views_.size() == kMaxViews) return;
  // The workers of a view may be far apart in the order of the files, so a
  // later assignment of another worker is searched for.
  for (size_t i = place; i < views_.size(); ++i) {
    if (views_[i].number != view.number || views_[i].replicas != replicas ||
        std::fabs(views_[i].time - line.time) >= kSameThing) {
      continue;
    }
    place = i + 1;
    return;
  }
  ViewChange next = view;
  next.time = line.time;
  next.replicas = replicas;
  views_.push_back(next);
  place = views_.size();
}

void EventHistory::TakeLoss(const Line& line) {
  const Json& json = line.json;
  const std::vector<std::string> lost = NamesOf(json["lost"]);
  const std::string who = lost.empty() ? "a member" : WorkersText(lost);
  Add(ListedEvent::Kind::kLoss, line,
      who + (lost.size() > 1 ? " were lost" : " was lost") + StepText(json) +
          Because(json["reason"]),
      "loss " + std::to_string(WholeNumberOf(json["view"])) + " " +
          Joined(lost));
}

void EventHistory::TakeSave(const Line& line) {
  const Json& json = line.json;
  WorkerHistory& w = *line.worker;
  const std::string file = TextOf(json["file"]);
  const std::string error = TextOf(json["error"]);
  if (!error.empty()) {
    ++w.failed_saves;
    Add(ListedEvent::Kind::kSave, line, file + " was not saved: " + error);
    return;
  }
  const double seconds = NumberOf(json["save_seconds"]),
               bytes = NumberOf(json["bytes"]);
  w.saves += std::min<int64_t>(WholeNumberOf(json["saves"], 1), 1 << 30);
  w.save_seconds += seconds;
  w.largest_save = std::max(w.largest_save, bytes);
  Add(ListedEvent::Kind::kSave, line,
      "saved " + file + " (" + BinaryBytesText(bytes) + " in " +
          DurationText(seconds) + ")");
}

void EventHistory::TakeSteps(const Line& line) {
  const Json& json = line.json;
  WorkerHistory& w = *line.worker;
  const double x = line.time;
  w.p50.Add(x, NumberOf(json["p50"], kNaN));
  w.p90.Add(x, NumberOf(json["p90"], kNaN));
  w.p99.Add(x, NumberOf(json["p99"], kNaN));
  w.max.Add(x, NumberOf(json["max"], kNaN));
  w.slowest = std::max(w.slowest, NumberOf(json["max"]));
  w.steps += std::min<int64_t>(WholeNumberOf(json["count"]), int64_t{1} << 40);
  StepParts& times = w.times;
  const auto add = [&](const char* name, double* sum) {
    *sum += std::max(0.0, NumberOf(json[name]));
  };
  add("compute", &times.compute);
  add("wait", &times.wait);
  add("transfer", &times.transfer);
  add("read", &times.read);
  add("save", &times.save);
}

void EventHistory::TakeEpoch(const Line& line) {
  WorkerHistory& w = *line.worker;
  const int64_t epoch = WholeNumberOf(line.json["epoch"], -1);
  w.peak_bytes =
      std::max(w.peak_bytes, NumberOf(line.json["peak_memory_bytes"]));
  w.last_epoch_time = line.time;
  // After a rollback an epoch ends a second time, with the same numbers.
  if (epoch <= w.last_epoch) return;
  w.last_epoch = epoch;
  ++w.epochs_recorded;
  const auto add = [&](const std::string& name, const Json& value) {
    if (w.logs.size() == kMaxLogs && w.logs.count(name) == 0) return;
    w.logs[name].Add(static_cast<double>(epoch), NumberOf(value, kNaN));
  };
  const Json logs = line.json["logs"];
  for (Json m = logs.is_object() ? logs.first() : Json(); m; m = m.next()) {
    add(Shortened(m.key(), kMaxName), m);
  }
  const Json rate = line.json["learning_rate"];
  if (rate && !logs["learning_rate"]) add("learning_rate", rate);
}

void EventHistory::TakeWait(const Line& line) {
  const auto pair =
      std::make_pair(line.worker->worker, TextOf(line.json["for"], kMaxName));
  if (waits_.size() == kMaxPairs && waits_.count(pair) == 0) {
    ++left_out_;
    return;
  }
  const double seconds = std::max(0.0, NumberOf(line.json["waited_seconds"]));
  Waiting& waiting = waits_[pair];
  ++waiting.count;
  waiting.seconds += seconds;
  waiting.longest = std::max(waiting.longest, seconds);
}

void EventHistory::TakeEnd(const Line& line) {
  WorkerHistory& w = *line.worker;
  const Json& json = line.json;
  w.exit_code = NumberOf(json["exit_code"], -1);
  w.status = TextOf(json["status"]);
  if (w.status.empty()) w.status = "ended";
  Add(ListedEvent::Kind::kEnd, line,
      "worker " + w.worker + " ended with exit code " + ShortText(w.exit_code) +
          StepText(json) + Because(json["reason"]));
}

void EventHistory::TakeOther(const std::string& event, const Line& line) {
  using Kind = ListedEvent::Kind;
  const Json& json = line.json;
  const std::string view = std::to_string(WholeNumberOf(json["view"]));
  if (event == "abort") {
    Add(Kind::kLoss, line,
        "worker " + line.worker->worker + " gave up" + StepText(json) +
            Because(json["reason"]));
  } else if (event == "leave") {
    const std::string departed = TextOf(json["left"], kMaxName);
    Add(Kind::kLeave, line, "worker " + departed + " left" + StepText(json),
        "leave " + view + " " + departed);
  } else if (event == "join") {
    Add(Kind::kJoin, line, "a worker joins" + StepText(json), "join " + view);
  } else if (event == "refused") {
    const std::string refused = TextOf(json["refused"], kMaxName);
    Add(Kind::kRefused, line,
        "worker " + line.worker->worker + " refused " +
            (refused.empty() ? "a connection" : "worker " + refused) +
            Because(json["reason"]),
        refused.empty() ? "" : "refused " + view + " " + refused);
  } else if (event == "rollback") {
    const std::string from = std::to_string(WholeNumberOf(json["from_step"])),
                      to = std::to_string(WholeNumberOf(json["to_step"]));
    Add(Kind::kRollback, line, "rolled back from step " + from + " to " + to,
        "rollback " + from + " " + to);
  } else if (event == "silence") {
    const std::string silent_worker = TextOf(json["of"], kMaxName);
    Add(Kind::kSilence, line,
        "nothing was heard of worker " + silent_worker + " for " +
            DurationText(NumberOf(json["silent_seconds"])),
        "silence " + view + " " + silent_worker);
  } else if (event == "signal") {
    Add(Kind::kSignal, line,
        "worker " + line.worker->worker + " got signal " +
            std::to_string(WholeNumberOf(json["signal"])));
  } else if (event == "warning") {
    Add(Kind::kWarning, line, TextOf(json["text"]));
  }
}

void EventHistory::Finish() {
  const auto earlier = [](const auto& a, const auto& b) {
    return a.time < b.time;
  };
  StableSort(&views_, earlier);
  StableSort(&listed_, earlier);
  ordered_.clear();
  for (const auto& [name, worker] : workers_) ordered_.push_back(&worker);
  // Compared as numbers: 2 is before 10.
  StableSort(&ordered_, [](const WorkerHistory* a, const WorkerHistory* b) {
    return a->worker.size() < b->worker.size();
  });
}

std::map<std::string, SampledCurve> EventHistory::EpochCurves() const {
  double began = 0;
  for (const WorkerHistory* w : ordered_) began = std::max(began, w->run_began);
  std::vector<const WorkerHistory*> members;
  for (const WorkerHistory* w : ordered_) {
    if (!w->logs.empty() && w->last_epoch_time >= began) members.push_back(w);
  }
  // A worker that joined late lacks the first epochs, a lost one the last.
  StableSort(&members, [](const WorkerHistory* a, const WorkerHistory* b) {
    return std::make_pair(a->last_epoch, a->epochs_recorded) >
           std::make_pair(b->last_epoch, b->epochs_recorded);
  });
  std::map<std::string, SampledCurve> curves;
  for (const WorkerHistory* w : members) {
    for (const auto& [name, curve] : w->logs) {
      if (curves.size() == kMaxLogs && curves.count(name) == 0) continue;
      const auto [known, is_new] = curves.try_emplace(name, curve);
      if (!is_new) AddMissing(curve, &known->second);
    }
  }
  return curves;
}

bool ReadFirstEventTime(const std::string& path, double* time) {
  LineReader reader;
  std::string line;
  bool has_line = false;
  if (!reader.Open(path).ok()) return false;
  // The first line of a rotated file may be incomplete.
  for (int i = 0; i < 3; ++i) {
    Json json;
    if (!reader.Next(&line, &has_line).ok() || !has_line) return false;
    if (ParseLine(line, &json, time)) return true;
  }
  return false;
}

Status ReadEventHistory(const std::string& path, EventHistory* history) {
  LineReader reader;
  RINGLET_RETURN_IF_ERROR(reader.Open(path));
  std::string line;
  for (bool has_line = true;;) {
    RINGLET_RETURN_IF_ERROR(reader.Next(&line, &has_line));
    if (!has_line) return Status();
    if (!line.empty() && line.back() == '\r') line.pop_back();
    history->TakeLine(line);
  }
}

}  // namespace ringlet
