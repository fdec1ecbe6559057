// Json: the reader of JSON, which uses cJSON; and a writer.
//
// Texts come from files and from the environment and are not trusted: syntax,
// nesting, UTF-8 and duplicate keys are checked before a value is returned.
// Several threads may parse texts at the same time.

#ifndef RINGLET_CORE_BASE_JSON_H_
#define RINGLET_CORE_BASE_JSON_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ringlet/status.h"

struct cJSON;

namespace ringlet {

class FieldLog;

// A value in a parsed text. The text lives as long as any of its values. A
// missing value has the kind kNone, and so have its members.
class Json {
 public:
  static constexpr int kMaxDepth = 16;
  enum class Kind { kNone, kNull, kBool, kNumber, kString, kArray, kObject };

  Json() = default;
  // A missing value. A reader that gets one records its known fields in `log`
  // (io/keras/field_log.h). `log` outlives it.
  static Json ForDescription(FieldLog* log);
  FieldLog* log() const { return log_; }
  // Errors are kCorruption and begin with "<where>: ", then, if known, "line 3,
  // column 7: " (from 1, in bytes). A byte order mark before the text is
  // ignored.
  static Status Parse(const std::string& text, const std::string& where,
                      Json* json, int max_depth = kMaxDepth);

  Kind kind() const;
  // "a list", "null" and so on, for messages.
  const char* type_name() const;
  bool is_number() const { return kind() == Kind::kNumber; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // false, 0 or "" for a value of another kind.
  bool as_bool() const;
  double number() const;
  std::string text() const;
  // True for a whole number of at most 2^53, which becomes *value.
  bool ToInt64(int64_t* value) const;

  // The member `key` of an object. It is a search: looking up all of n members
  // costs n * n.
  Json operator[](const char* key) const;
  // The members of an array or object in order:
  //   for (Json m = json.first(); m; m = m.next()) use m.key(), m.
  Json first() const;
  Json next() const;
  std::string key() const;
  int size() const;
  explicit operator bool() const { return at_ != nullptr || log_ != nullptr; }

 private:
  Json(const std::shared_ptr<cJSON>& root, const cJSON* at)
      : root_(root), at_(at) {}
  static Status ParseUnmarked(const std::string& text, const std::string& where,
                              Json* json, int max_depth);

  std::shared_ptr<cJSON> root_;
  const cJSON* at_ = nullptr;
  FieldLog* log_ = nullptr;
};

// Writes compact JSON, and inserts commas itself:
//   w.BeginObject().Key("a").Int(1).EndObject()
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(const std::string& key);
  JsonWriter& String(const std::string& value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Number(double value);  // the shortest that reads back equal
  JsonWriter& Float(float value);  // the same for a float32, with a point: 1.0
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // An array of texts or numbers, by the methods above.
  template <typename Values>
  JsonWriter& List(const Values& values) {
    BeginArray();
    for (const auto& value : values) Write(value);
    return EndArray();
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();
  void Write(const std::string& value) { String(value); }
  void Write(int64_t value) { Int(value); }
  void Write(float value) { Float(value); }

  std::string text_;
  bool comma_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_JSON_H_
