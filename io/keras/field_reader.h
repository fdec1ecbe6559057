// FieldReader: reads the fields of one JSON object by name.
//
// The contract: read every known field, then call Finish, which refuses all
// other fields. With Json::ForDescription the same calls describe the fields
// (field_log.h) for docs/reference.md. So each call names what it accepts, and
// the default is the content of *value before the call.

#ifndef RINGLET_IO_KERAS_FIELD_READER_H_
#define RINGLET_IO_KERAS_FIELD_READER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "../../core/base/interval.h"
#include "../../core/base/json.h"
#include "field_log.h"
#include "name_table.h"
#include "ringlet/status.h"

namespace ringlet {

// A default as JSON: 1, 0.5, "same", [2, 2], true.
std::string AsJson(bool value);
std::string AsJson(int64_t value);
std::string AsJson(float value);
std::string AsJson(double value);
std::string AsJson(const std::string& value);
inline std::string AsJson(const char* value) {
  return AsJson(std::string(value));
}

// The value without Keras's wrapping: the items of {"class_name": "__tuple__"
// or "TensorShape", "items": [2, 2]}, and the value of {"class_name":
// "__numpy__" or
// "__tensor__", "config": {"value": 6}} and {"type": "ndarray", "value": 6}.
Json WithoutWrapping(const Json& json);

struct KerasObject;

// Reads the fields of one object. Keeps the first error. Finish() refuses the
// fields that were not read. With Json::ForDescription every field is recorded
// in the log and keeps its default, and there are no errors.
class FieldReader {
 public:
  // A missing object has no fields. Other values than an object or null are an
  // error.
  FieldReader(const Json& object, const std::string& path);

  // Makes null a permitted value. True if the field is present and not null.
  bool MarkOptional(const char* key);
  // Returns a value that the caller reads, without its wrapping; kNone if the
  // field is absent.
  // `takes` and `standard` are for the log: "a number", and the default as
  // JSON.
  Json Take(const char* key, const std::string& takes,
            const std::string& standard = "null");
  // As Take, for a value that is an object. Its fields are logged too.
  Json Part(const char* key, const std::string& takes,
            const std::string& standard = "null");
  // Returns a value as Take does, without an entry in the log.
  Json Take(const char* key);
  std::string PathOf(const char* key) const;  // "strategy.timeout"

  // These functions keep *value, the default, if the field is absent. A default
  // outside the permitted values means that the field has no default. Null is
  // an error, except where a comment permits it.
  void Bool(const char* key, bool* value);
  void Bool(const char* key, std::optional<bool>* value);  // or null
  void Int(const char* key, int64_t low, int64_t high, int64_t* value);
  void Float(const char* key, float* value) { Float(key, kAnyNumber, value); }
  void Float(const char* key, const Interval& range, float* value);
  void Double(const char* key, const Interval& range, double* value);
  // The same, but null is permitted, and means the default as None in Keras.
  void IntOrNull(const char* key, int64_t low, int64_t high, int64_t* value) {
    if (MarkOptional(key)) Int(key, low, high, value);
  }
  void DoubleOrNull(const char* key, const Interval& range, double* value) {
    if (MarkOptional(key)) Double(key, range, value);
  }
  void String(const char* key, std::string* value);
  // Reads a string that is not empty. `takes` is such as "a path".
  void Text(const char* key, const char* takes, std::string* value);
  void Character(const char* key, char* value);
  // Reads one of the names of a table.
  template <typename T, size_t n>
  void Choice(const char* key, const Named<T> (&table)[n], T* value) {
    size_t row = 0;
    if (ChoiceOfRow(key, table, FirstName(table, *value), &row)) {
      *value = table[row].value;
    }
  }
  // Reads one whole number for all sizes, or a list of `count` numbers, one or
  // two, from `low` on.
  void Sizes(const char* key, int64_t low, int64_t high, int count,
             int64_t* value);
  // Reads a list of `min_size` items or more; null is permitted. `read_item`
  // returns false for an item that is not permitted.
  void List(const char* key, int64_t min_size, const std::string& takes,
            const std::function<bool(const Json&)>& read_item);
  // A Keras object: a class with its config, or a name. False if there is none.
  bool Object(const char* key, const std::string& takes,
              const std::string& standard, KerasObject* object);
  // Returns the name that is present, of two names of a field, or `name` if
  // neither is present.
  const char* Either(const char* name, const char* older);

  // Finish() fails if the field is absent.
  void Require(const char* key);
  // Fields with one supported value; null means it too.
  void OnlyNull(std::initializer_list<const char*> keys);
  void OnlyBool(const char* key, bool value);
  void OnlyNumber(const char* key, double value);
  // `older` is another name of the value. Null is refused unless `or_null`.
  void OnlyText(const char* key, const char* value, const char* older = "",
                bool or_null = true);
  // Refuses each of these that is present and not null, also with its default.
  void RefuseGiven(std::initializer_list<const char*> keys,
                   const std::string& rule);
  // Known fields that are ignored.
  void Ignore(std::initializer_list<const char*> keys);

  // "<path>.<key>: is <value>; <what>".
  void Refuse(const char* key, const std::string& rule);
  // "…; must be <what>", or null if permitted.
  void MustBe(const char* key, const std::string& rule);
  void Fail(const Status& status);
  bool ok() const { return status_.ok(); }
  Status Finish();

 private:
  bool is_describing() const { return json_.log() != nullptr; }
  FieldInfo* Info(const char* key) { return json_.log()->At(path_, key); }
  bool ChoiceOfRow(const char* key, const NameTable& table,
                   const std::string& standard, size_t* row);
  // Returns the field if it has another than its one supported value.
  Json UnsupportedValue(const char* key, const std::string& standard,
                        bool or_null = true);

  Json json_;
  std::string path_;
  std::vector<std::string> known_;
  std::vector<std::string> nullable_;  // keys given to MarkOptional
  std::string missing_;                // the first absent required field
  Status status_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FIELD_READER_H_
