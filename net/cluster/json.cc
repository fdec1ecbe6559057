#include "json.h"

#include <cJSON.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

#include "../../core/base/cjson_lock.h"

namespace ringlet {

namespace {

// cJSON tells some places one byte too late: `near` "column".
Status SyntaxError(const std::string& text, size_t offset, const char* what,
                   const char* near = "") {
  int line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  return InvalidArgument("line %d, %scolumn %zu: %s", line, near,
                         offset - line_start + 1, what);
}

// What cJSON lets pass or would recurse into: nesting, control characters
// (NUL among them, which would cut a string short) and "\u0000".
Status CheckText(const std::string& text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (in_string) {
      if (c < 0x20) {
        return SyntaxError(text, i,
                           "a control character inside a string: is its "
                           "closing quote missing?");
      }
      if (c == '"') in_string = false;
      if (c == '\\') {
        if (text.compare(i, 6, "\\u0000") == 0) {
          return SyntaxError(text, i, "\\u0000 is not allowed in a string");
        }
        ++i;
      }
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') {
      if (++depth > max_depth) {
        return SyntaxError(text, i, "nested too deeply");
      }
    }
    if (c == ']' || c == '}') --depth;
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      return SyntaxError(text, i, "a control character");
    }
  }
  if (in_string) {
    return SyntaxError(text, text.size(),
                       "the text ends inside a string: is its closing quote "
                       "missing?");
  }
  return Status();
}

}  // namespace

bool Json::is_object() const { return cJSON_IsObject(node_) != 0; }
bool Json::is_array() const { return cJSON_IsArray(node_) != 0; }
bool Json::is_string() const { return cJSON_IsString(node_) != 0; }
bool Json::is_number() const { return cJSON_IsNumber(node_) != 0; }

const char* Json::type_name() const {
  if (!exists()) return "missing";
  if (is_object()) return "an object";
  if (is_array()) return "a list";
  if (is_string()) return "a string";
  if (is_number()) return "a number";
  return cJSON_IsNull(node_) ? "null" : "a boolean";
}

Json Json::Find(const char* key) const {
  if (!is_object()) return Json();
  return Json(cJSON_GetObjectItemCaseSensitive(node_, key));
}

const char* Json::DuplicateKey() const {
  std::set<std::string_view> seen;
  if (!is_object()) return nullptr;
  for (Json item = first(); item.exists(); item = item.next()) {
    if (!seen.insert(item.key()).second) return item.key();
  }
  return nullptr;
}

Json Json::first() const {
  return Json(is_object() || is_array() ? node_->child : nullptr);
}

Json Json::next() const { return Json(exists() ? node_->next : nullptr); }

const char* Json::key() const {
  return exists() && node_->string != nullptr ? node_->string : "";
}

const char* Json::string() const {
  return is_string() && node_->valuestring != nullptr ? node_->valuestring : "";
}

bool Json::Integer(int64_t* value) const {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  if (!is_number()) return false;
  const double number = node_->valuedouble;
  if (!(std::fabs(number) <= kLimit) || std::floor(number) != number) {
    return false;
  }
  *value = static_cast<int64_t>(number);
  return true;
}

JsonDocument::~JsonDocument() { cJSON_Delete(root_); }

Status JsonDocument::Parse(const std::string& text, size_t max_bytes,
                           int max_depth) {
  cJSON_Delete(root_);
  root_ = nullptr;
  if (text.size() > max_bytes) {
    return InvalidArgument("%zu bytes, more than the %zu allowed", text.size(),
                           max_bytes);
  }
  RINGLET_RETURN_IF_ERROR(CheckText(text, max_depth));
  const char* end = text.c_str();
  {
    const std::lock_guard<std::mutex> lock(CJsonMutex());
    root_ = cJSON_ParseWithLengthOpts(text.c_str(), text.size() + 1, &end, 1);
  }
  if (root_ != nullptr) return Status();
  size_t offset = static_cast<size_t>(end - text.c_str());
  if (offset > text.size()) offset = text.size();
  return SyntaxError(text, offset,
                     offset == text.size()
                         ? "the text ends too early: is a bracket missing?"
                         : "not JSON from here on: look for a missing or "
                           "extra comma, bracket or quote (strings take \"\")",
                     "near ");
}

}  // namespace ringlet
