// Json: reads a JSON text from outside.
//
// Internal to net/. A document owns its text's tree; a Json is a view of one
// of its values and lives as long as the document. Nothing in the text is
// trusted: its size and depth are bounded before it is parsed, and a question
// to a value of another type has an answer ("missing"), never a crash.

#ifndef RINGLET_NET_CLUSTER_JSON_H_
#define RINGLET_NET_CLUSTER_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "../../core/base/status.h"

struct cJSON;

namespace ringlet {

class Json {
 public:
  Json() = default;  // missing
  explicit Json(const cJSON* node) : node_(node) {}

  bool exists() const { return node_ != nullptr; }
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  // "a list", "null" and so on, for messages.
  const char* type_name() const;

  // Of an object: the value of a key, in its exact case.
  Json Find(const char* key) const;
  // Of an object: the first key that is there twice, or null.
  const char* DuplicateKey() const;
  // Of an object or a list: its values, as in
  //   for (Json item = list.first(); item.exists(); item = item.next())
  Json first() const;
  Json next() const;
  // The key under which an object holds this value; "" in a list.
  const char* key() const;
  const char* string() const;  // "" where not a string
  // False where this is not a whole number within +-2^53.
  bool Integer(int64_t* value) const;

 private:
  const cJSON* node_ = nullptr;
};

class JsonDocument {
 public:
  JsonDocument() = default;
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  // kInvalidArgument, with line and column (from 1, in bytes), where the text
  // is not one JSON value, has more bytes or is nested deeper than allowed, or
  // holds a NUL, escaped or not.
  Status Parse(const std::string& text, size_t max_bytes, int max_depth);
  Json root() const { return Json(root_); }

 private:
  cJSON* root_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_JSON_H_
