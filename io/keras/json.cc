#include "json.h"

#include <cjson/cJSON.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "../../core/base/cjson_lock.h"

namespace ringlet {
inline namespace io_json {

namespace {

Status ErrorAt(const std::string& text, size_t offset, const std::string& where,
               const char* what) {
  int line = 1, column = 1;
  for (size_t i = 0; i < std::min(offset, text.size()); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return Corruption("%s: line %d, column %d: %s", where.c_str(), line, column,
                    what);
}

// What cJSON takes but must not: deep nesting, and bytes that end a C string.
Status CheckLexically(const std::string& text, const std::string& where,
                      int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 && (in_string || !std::strchr("\t\n\r", c) || c == 0)) {
      return ErrorAt(text, i, where, "a control character");
    }
    if (in_string) {
      if (c == '\\') {
        if (text.compare(i, 6, "\\u0000") == 0) {
          return ErrorAt(text, i, where, "a character zero in a string");
        }
        ++i;
      }
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) {
        const std::string what =
            "nested too deeply (more than " + std::to_string(max_depth) + ")";
        return ErrorAt(text, i, where, what.c_str());
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return Status();
}

// The first key that an object holds twice, or null.
const char* FindDuplicate(const cJSON* value) {
  std::vector<std::string_view> keys;
  for (const cJSON* m = value->child; m != nullptr; m = m->next) {
    if (m->string != nullptr) keys.emplace_back(m->string);
    const char* within = FindDuplicate(m);
    if (within != nullptr) return within;
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() ? nullptr : twice->data();
}

}  // namespace

Status Json::Parse(const std::string& text, const std::string& where,
                   Json* json, int max_depth) {
  const bool marked = text.compare(0, 3, "\xEF\xBB\xBF") == 0;
  return marked ? ParseUnmarked(text.substr(3), where, json, max_depth)
                : ParseUnmarked(text, where, json, max_depth);
}

Status Json::ParseUnmarked(const std::string& text, const std::string& where,
                           Json* json, int max_depth) {
  const size_t utf8 = EndOfUtf8(text);
  if (utf8 != text.size()) return ErrorAt(text, utf8, where, "not UTF-8");
  RINGLET_RETURN_IF_ERROR(CheckLexically(text, where, max_depth));
  const char* end = nullptr;
  cJSON* root;
  {
    const std::lock_guard<std::mutex> lock(CJsonMutex());
    root = cJSON_ParseWithLengthOpts(text.data(), text.size(), &end, false);
  }
  const size_t at = end == nullptr ? 0 : static_cast<size_t>(end - text.data());
  if (root == nullptr) return ErrorAt(text, at, where, "not JSON");
  *json = Json(std::shared_ptr<cJSON>(root, cJSON_Delete), root);
  const size_t rest = text.find_first_not_of(" \t\r\n", at);
  if (rest != std::string::npos) {
    return ErrorAt(text, rest, where, "more after the end of the JSON value");
  }
  const char* twice = FindDuplicate(root);
  if (twice != nullptr) {
    return Corruption("%s: the key \"%s\" stands twice in one object",
                      where.c_str(), Printable(twice).c_str());
  }
  return Status();
}

Json::Kind Json::kind() const {
  if (at_ == nullptr) return Kind::kNone;
  switch (at_->type & 0xFF) {
    case cJSON_True:
    case cJSON_False:
      return Kind::kBool;
    case cJSON_Number:
      return Kind::kNumber;
    case cJSON_String:
      return Kind::kString;
    case cJSON_Array:
      return Kind::kArray;
    case cJSON_Object:
      return Kind::kObject;
    default:
      return Kind::kNull;
  }
}

bool Json::truth() const { return at_ != nullptr && cJSON_IsTrue(at_); }

double Json::number() const {
  return kind() == Kind::kNumber ? at_->valuedouble : 0;
}

std::string Json::text() const { return is_string() ? at_->valuestring : ""; }

bool Json::ToInt64(int64_t* value) const {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const double d = number();
  if (kind() != Kind::kNumber || !(std::fabs(d) <= kExact) ||
      d != std::floor(d)) {
    return false;
  }
  *value = static_cast<int64_t>(d);
  return true;
}

Json Json::Asking(FieldLog* log) {
  Json json;
  json.log_ = log;
  return json;
}

Json Json::operator[](const char* key) const {
  if (log_ != nullptr) return *this;
  if (!is_object()) return Json();
  return {root_, cJSON_GetObjectItemCaseSensitive(at_, key)};
}

Json Json::first() const {
  return at_ == nullptr ? Json() : Json(root_, at_->child);
}

Json Json::next() const {
  return at_ == nullptr ? Json() : Json(root_, at_->next);
}

std::string Json::key() const {
  return at_ != nullptr && at_->string != nullptr ? at_->string : "";
}

int Json::size() const { return at_ == nullptr ? 0 : cJSON_GetArraySize(at_); }

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

void JsonWriter::Separate() {
  if (comma_) text_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::Key(const std::string& key) {
  String(key);
  text_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(const std::string& value) {
  static constexpr char kHex[] = "0123456789abcdef";
  Separate();
  text_ += '"';
  for (const char c : value) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20) {
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();  // JSON has no other word for it
  Separate();
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text_.append(digits, end);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text_.append(digits, end);
  if (std::find_if(digits, end, [](char c) { return c == '.' || c == 'e'; }) ==
      end) {
    text_ += ".0";
  }
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  text_ += "null";
  return *this;
}

size_t EndOfUtf8(const std::string& text) {
  const size_t size = text.size();
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(i < size ? text[i] : 0);
  };
  for (size_t at = 0; at < size;) {
    const unsigned char first = byte(at);
    const size_t more = first < 0x80                    ? 0
                        : first >= 0xC2 && first < 0xE0 ? 1
                        : first >= 0xE0 && first < 0xF0 ? 2
                        : first >= 0xF0 && first < 0xF5 ? 3
                                                        : 4;
    // The second byte's range leaves out long forms, surrogates, and what is
    // beyond U+10FFFF.
    const unsigned char low = first == 0xE0   ? 0xA0
                              : first == 0xF0 ? 0x90
                                              : 0x80;
    const unsigned char high = first == 0xED   ? 0x9F
                               : first == 0xF4 ? 0x8F
                                               : 0xBF;
    if (more > 3) return at;
    if (more > 0 && (byte(at + 1) < low || byte(at + 1) > high)) return at;
    for (size_t i = 2; i <= more; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    }
    at += more + 1;
  }
  return size;
}

std::string Printable(const std::string& text) {
  constexpr size_t kMost = 100;
  std::string shown = text.substr(0, kMost);
  for (char& c : shown) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return text.size() > kMost ? shown + "..." : shown;
}

}  // namespace io_json
}  // namespace ringlet
