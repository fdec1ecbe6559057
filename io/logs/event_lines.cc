#include "event_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "../../core/base/text.h"
#include "event_words.h"

namespace ringlet {
namespace {

constexpr char kHead[] = "{\"time\":\"";
static_assert(sizeof(kHead) - 1 == kEventLogHeadBytes);
constexpr int kMaxWorker = 32767;

std::string Shown(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte > 126) c = '?';
  }
  return text;
}

int64_t NumberOf(const Json& value, int64_t other) {
  int64_t number;
  return value.ToInt64(&number) ? number : other;
}

int64_t NanosOf(const Json& value) {
  constexpr double kMost = 9e18;
  const double nanos = value.number() * 1e9;
  return std::isfinite(nanos)
             ? static_cast<int64_t>(std::clamp(nanos, -kMost, kMost))
             : 0;
}

int WorkerOf(const Json& value) {
  return static_cast<int>(ParseWholeNumber(value.text(), kMaxWorker));
}

// The first of these fields that the line has.
Json FirstField(const Json& line, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (Json value = line[key]) return value;
  }
  return Json();
}

bool ParseRecord(const std::string& text, EventRecord* out, Json* line) {
  if (!ParseEventLine(text, line, &out->wall)) return false;
  const Json& json = *line;
  out->event = Shown(json["event"].text());
  out->monotonic = NanosOf(json["seconds"]);
  out->step = NumberOf(FirstField(json, {"last_step", "step"}), -1);
  out->view = NumberOf(json["view"], -1);
  out->operation = NumberOf(json["operation"], -1);
  out->nanos = NanosOf(
      FirstField(json, {"waited_seconds", "silent_seconds", "save_seconds"}));
  out->peer = WorkerOf(FirstField(json, {"for", "of", "left", "refused"}));
  if (const Json lost = json["lost"]) out->peer = WorkerOf(lost.first());
  out->other = WorkerOf(FirstField(json, {"last", "waiting_for"}));
  out->reporter = WorkerOf(json["reported_by"]);
  const int64_t code = NumberOf(FirstField(json, {"exit_code", "signal"}), 0);
  out->code = static_cast<int>(std::clamp<int64_t>(code, -1, 255));
  out->continued = json["continued"].as_bool();
  out->text =
      Shown(FirstField(json, {"reason", "error", "text", "address"}).text());
  out->line = Shown(text);
  return true;
}

// A board without a hardware clock gets the time after its start. So the wall
// clock of a process's newest record gives the times of all its records.
void UseNewestClock(std::vector<EventRecord>* records) {
  bool last = true;
  int64_t clock_offset = 0;  // the wall clock less than the monotonic one
  for (auto record = records->rbegin(); record != records->rend(); ++record) {
    if (last) clock_offset = NanosBetween(record->wall, record->monotonic);
    record->wall = NanosBetween(clock_offset, record->monotonic);
    last = record->begins_process();
  }
}

}  // namespace

size_t MakeEventLine(int64_t wall, int64_t nanos, int worker,
                     const char* fields, size_t bytes, char* out) {
  char time[kTimeBytes];
  WriteTime(wall, time);
  const int head = std::snprintf(
      out, kMaxEventLine, "%s%s\",\"seconds\":%lld.%03d,\"worker\":\"%d\",",
      kHead, time, static_cast<long long>(nanos / 1000000000),
      static_cast<int>(nanos / 1000000 % 1000), worker);
  char* end = out + head;
  bytes = std::min(bytes, kMaxEventLine - static_cast<size_t>(head) - 2);
  std::memcpy(end, fields, bytes);
  end += bytes;
  *end++ = '}';
  *end++ = '\n';
  return static_cast<size_t>(end - out);
}

bool IsEventLog(const std::string& head) { return StartsWith(head, kHead); }

bool IsOldEventLog(const std::string& head) {
  return StartsWith(head, "RLTRAIL1");
}

bool ParseEventLine(const std::string& line, Json* fields, int64_t* wall) {
  constexpr int kMaxDepth = 4;
  return line.size() < kMaxEventLine &&
         Json::Parse(line, "", fields, kMaxDepth).ok() &&
         (*fields)["event"].is_string() &&
         ParseTime((*fields)["time"].text(), wall);
}

EventLogContent ParseEventLog(const std::string& bytes) {
  EventLogContent out;
  bool known = false;
  std::string_view rest = bytes;
  for (std::string text; TakeLine(&rest, &text);) {
    if (text.empty()) continue;
    EventRecord record;
    Json line;
    if (!ParseRecord(text, &record, &line)) {
      ++out.damaged;
      continue;
    }
    const int worker = WorkerOf(line["worker"]);
    if (!known && worker >= 0) out.worker = worker;
    known = known || worker >= 0;
    const int64_t workers = NumberOf(line["workers"], 0);
    if (workers > 0 && workers <= kMaxWorker) {
      out.workers = static_cast<int>(workers);
    }
    out.records.push_back(std::move(record));
  }
  UseNewestClock(&out.records);
  return out;
}

}  // namespace ringlet
