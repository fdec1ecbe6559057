// Json: the one reader of JSON in io, over cJSON; and a writer.
//
// Internal to io/. Text comes from files and is not trusted: nesting, syntax
// and keys that stand twice are found before a value is handed out.

#ifndef RINGLET_IO_KERAS_JSON_H_
#define RINGLET_IO_KERAS_JSON_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../../core/base/status.h"

struct cJSON;

namespace ringlet {

class FieldLog;

// net has a reader of this name; a program may hold both.
inline namespace io_json {

// A value within a parsed text, which lives as long as any of its values. A
// value that is not there is of kind kNone, and so are its members.
class Json {
 public:
  static constexpr int kMaxDepth = 16;
  enum class Kind { kNone, kNull, kBool, kNumber, kString, kArray, kObject };

  Json() = default;
  // No value, and one that readers answer by telling which fields they know
  // (field_log.h); so are all its members. `log` outlives it.
  static Json Asking(FieldLog* log);
  FieldLog* log() const { return log_; }
  // Errors begin with "<where>: line 3, column 7: ". A byte order mark before
  // the text is skipped.
  static Status Parse(const std::string& text, const std::string& where,
                      Json* json, int max_depth = kMaxDepth);

  Kind kind() const;
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // false, 0 or "" where it is of another kind.
  bool truth() const;
  double number() const;
  std::string text() const;
  // Whether it is a whole number of at most 2^53, which *value then is.
  bool ToInt64(int64_t* value) const;

  // Of an object, in steps: looking up all of n members costs n * n.
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

// Writes compact JSON. Commas are its own affair:
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
  JsonWriter& Number(double value);  // the shortest that reads back the same
  JsonWriter& Float(float value);    // the same, and Python's float: 1.0
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string text_;
  bool comma_ = false;
};

// Where the first byte is that does not belong to a character in UTF-8, as
// RFC 3629 has it; text.size() where there is none.
size_t EndOfUtf8(const std::string& text);

// `text` as it may stand in a message: no control bytes, at most 100 bytes.
std::string Printable(const std::string& text);

}  // namespace io_json
}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_JSON_H_
