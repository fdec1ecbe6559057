#include "events.h"

#include <algorithm>
#include <cstring>

#include "text.h"

namespace ringlet {

Event::Event(const char* name)
    : name_(name), fields_("\"event\":\"" + name_ + "\"") {}

Event& Event::Add(const char* key, const JsonWriter& value) {
  const size_t bytes = std::strlen(key) + value.text().size() + 4;
  if (fields_.size() + bytes > kMaxBytes) return *this;
  fields_.append(",\"").append(key).append("\":").append(value.text());
  return *this;
}

Event& Event::Text(const char* key, const std::string& value) {
  std::string text = value.substr(0, kMaxText);
  for (size_t at = 0; (at = ValidUtf8Bytes(text)) < text.size();) {
    text[at] = '?';
  }
  std::replace(text.begin(), text.end(), '\0', '?');
  return Add(key, JsonWriter().String(text));
}

Event& Event::Int(const char* key, int64_t value) {
  return Add(key, JsonWriter().Int(value));
}

Event& Event::Seconds(const char* key, int64_t nanos) {
  const int64_t micros = nanos / 1000;
  return Add(key, JsonWriter().Number(static_cast<double>(micros) / 1e6));
}

Event& Event::Worker(const char* key, int worker) {
  return worker < 0 ? *this : Text(key, std::to_string(worker));
}

Event& Event::Workers(const char* key, const std::vector<int>& workers) {
  JsonWriter list;
  list.BeginArray();
  for (const int worker : workers) list.String(std::to_string(worker));
  return Add(key, list.EndArray());
}

}  // namespace ringlet
