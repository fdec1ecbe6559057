// cJSON parses. Texts that it should not accept are found before it
// (CheckLexically), so that its recursion is limited and no string has a NUL,
// and after it (CheckKeys). Values share one tree by a counted pointer: the
// text lives as long as any of its values.

#include "json.h"

#include <cjson/cJSON.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string_view>
#include <vector>

#include "named.h"
#include "number_text.h"
#include "text.h"

namespace ringlet {

namespace {

// cJSON stores the place of each parse in one global variable of the process,
// which nothing here reads. So one thread parses at a time.
std::mutex& ParserMutex() {
  static std::mutex mutex;
  return mutex;
}

// cJSON reports some places one byte too late: `near` is then "near ".
Status ErrorAt(const std::string& text, size_t offset, const std::string& where,
               const std::string& what, const char* near = "") {
  int line = 1;
  size_t column = 1;
  for (size_t i = 0; i < std::min(offset, text.size()); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return Corruption("%s: line %d, %scolumn %zu: %s", where.c_str(), line, near,
                    column, what.c_str());
}

// Refuses deep nesting, control characters (a NUL would end a C string) and
// "\u0000", which cJSON accepts without a limit. *open becomes the number of
// open brackets.
Status CheckLexically(const std::string& text, const std::string& where,
                      int max_depth, int* open) {
  int& depth = *open;
  depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool control = static_cast<unsigned char>(c) < 0x20;
    if (in_string) {
      if (control) {
        return ErrorAt(text, i, where,
                       "a control character inside a string: is its closing "
                       "quote missing?");
      }
      if (c == '\\' && text.compare(i, 6, "\\u0000") == 0) {
        return ErrorAt(text, i, where, "\\u0000 is not allowed in a string");
      }
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) {
        return ErrorAt(
            text, i, where,
            "nested too deeply (more than " + std::to_string(max_depth) + ")");
      }
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (control && c != '\t' && c != '\n' && c != '\r') {
      return ErrorAt(text, i, where, "a control character");
    }
  }
  if (!in_string) return Status();
  return ErrorAt(text, text.size(), where,
                 "the text ends inside a string: is its closing quote "
                 "missing?");
}

// Advice for a word or a comment at `offset` that other languages have and JSON
// does not; empty if there is none.
std::string OtherLanguages(const std::string& text, size_t offset) {
  const auto is_letter = [&text](size_t i) {
    return (text[i] >= 'a' && text[i] <= 'z') ||
           (text[i] >= 'A' && text[i] <= 'Z');
  };
  size_t begin = std::min(offset, text.size()), end = begin;
  while (begin > 0 && is_letter(begin - 1)) --begin;
  while (end < text.size() && is_letter(end)) ++end;
  const std::string word = text.substr(begin, end - begin);
  constexpr struct {
    const char *word, *instead;
  } kWords[] = {{"None", "null"},     {"True", "true"},
                {"False", "false"},   {"NaN", "no number"},
                {"nan", "no number"}, {"Infinity", "no number"},
                {"inf", "no number"}, {"undefined", "null"}};
  for (const auto& row : kWords) {
    if (word != row.word) continue;
    return word + " is not JSON, which has " + row.instead + " for it";
  }
  for (const size_t at : {offset, offset - 1}) {
    if (at >= text.size()) continue;
    if (text[at] == '#' || text.compare(at, 2, "//") == 0 ||
        text.compare(at, 2, "/*") == 0) {
      return "JSON has no comments; leave this one out";
    }
  }
  return "";
}

Status SyntaxError(const std::string& text, size_t offset,
                   const std::string& where, int open) {
  const bool empty = text.find_first_not_of(" \t\r\n") == std::string::npos;
  const std::string hint = OtherLanguages(text, offset);
  if (!hint.empty()) return ErrorAt(text, offset, where, hint, "near ");
  return ErrorAt(text, offset, where,
                 offset >= text.size() && (open > 0 || empty)
                     ? "the text ends too early: is a bracket missing?"
                     : "not JSON from here on: look for a missing or extra "
                       "comma, bracket or quote (strings take \"\")",
                 "near ");
}

// The first object in `value` with a duplicate key, which becomes *key; null if
// there is none.
const cJSON* FindDuplicate(const cJSON* value, const char** key) {
  std::vector<std::string_view> keys;
  for (const cJSON* m = value->child; m != nullptr; m = m->next) {
    if (m->string != nullptr) keys.emplace_back(m->string);
    const cJSON* within = FindDuplicate(m, key);
    if (within != nullptr) return within;
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return nullptr;
  *key = twice->data();
  return value;
}

Status CheckKeys(const cJSON* root, const std::string& where) {
  const char* key = nullptr;
  const cJSON* const object = FindDuplicate(root, &key);
  if (object == nullptr) return Status();
  const std::string name = object->string == nullptr
                               ? "one object"
                               : '"' + Printable(object->string) + '"';
  return Corruption("%s: the key \"%s\" is in %s twice: keep one",
                    where.c_str(), Printable(key).c_str(), name.c_str());
}

}  // namespace

Status Json::Parse(const std::string& text, const std::string& where,
                   Json* json, int max_depth) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const bool marked = StartsWith(text, kByteOrderMark);
  return marked ? ParseUnmarked(text.substr(3), where, json, max_depth)
                : ParseUnmarked(text, where, json, max_depth);
}

Status Json::ParseUnmarked(const std::string& text, const std::string& where,
                           Json* json, int max_depth) {
  const size_t utf8 = ValidUtf8Bytes(text);
  if (utf8 != text.size()) return ErrorAt(text, utf8, where, "not UTF-8");
  int open = 0;
  RINGLET_RETURN_IF_ERROR(CheckLexically(text, where, max_depth, &open));
  const char* end = text.c_str();
  cJSON* root;
  {
    const std::lock_guard<std::mutex> lock(ParserMutex());
    // Includes the NUL after the text, so that its end has a place too.
    root = cJSON_ParseWithLengthOpts(end, text.size() + 1, &end, false);
  }
  const size_t at = static_cast<size_t>(end - text.c_str());
  if (root == nullptr) return SyntaxError(text, at, where, open);
  *json = Json(std::shared_ptr<cJSON>(root, cJSON_Delete), root);
  const size_t rest = text.find_first_not_of(" \t\r\n", at);
  if (rest != std::string::npos) {
    return ErrorAt(text, rest, where, "more after the end of the JSON value");
  }
  return CheckKeys(root, where);
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

const char* Json::type_name() const {
  constexpr Named<Kind> kTypes[] = {
      {"missing", Kind::kNone},     {"null", Kind::kNull},
      {"a boolean", Kind::kBool},   {"a number", Kind::kNumber},
      {"a string", Kind::kString},  {"a list", Kind::kArray},
      {"an object", Kind::kObject},
  };
  return NameIn(kTypes, kind());
}

bool Json::as_bool() const { return at_ != nullptr && cJSON_IsTrue(at_); }

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

Json Json::ForDescription(FieldLog* log) {
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
  if (!std::isfinite(value)) return Null();  // JSON has no infinity and no NaN
  Separate();
  text_ += ShortestText(value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  const std::string digits = ShortestText(value);
  text_ += digits;
  if (digits.find_first_of(".e") == std::string::npos) text_ += ".0";
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

}  // namespace ringlet
