// FieldReader: the fields of one JSON object, each asked for by name.
//
// Internal to io/ and tools/. The contract: ask for every field that is known,
// whatever the others hold, then Finish, which refuses what nobody asked for.
// The same calls over Json::Asking describe the fields (field_log.h), for
// docs/reference.md; hence each says what it takes, and its default is what
// *value holds when it is asked for.

#ifndef RINGLET_IO_KERAS_FIELD_READER_H_
#define RINGLET_IO_KERAS_FIELD_READER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "../../core/base/interval.h"
#include "../../core/base/json.h"
#include "../../core/base/status.h"
#include "field_log.h"
#include "name_table.h"

namespace ringlet {

// What a default is as JSON: 1, 0.5, "same", [2, 2], true.
std::string AsJson(bool value);
std::string AsJson(int64_t value);
std::string AsJson(float value);
std::string AsJson(double value);
std::string AsJson(const std::string& value);
inline std::string AsJson(const char* value) {
  return AsJson(std::string(value));
}

struct KerasObject;

// Reads the fields of one object. Keeps the first error. A field is known once
// it was asked for: Finish() refuses the others. Of Json::Asking every field is
// noted in the log and left as it is, and nothing is an error.
class FieldReader {
 public:
  // Something that is not there has no fields; other than an object or null is
  // an error.
  FieldReader(const Json& object, const std::string& path);

  // There and not null; a field that is asked for by it may be null.
  bool Has(const char* key);
  // The value to be taken apart by the caller; kNone where absent. `takes` and
  // `standard` are for the log: "a number", and the default as JSON.
  Json Take(const char* key, const std::string& takes,
            const std::string& standard = "null");
  // The same, of an object whose own fields are noted too.
  Json Part(const char* key, const std::string& takes,
            const std::string& standard = "null");
  // The same, of what is not for the log.
  Json Take(const char* key);
  std::string PathOf(const char* key) const;  // "strategy.timeout"

  // These leave *value where the field is absent; a default that they would
  // refuse stands for none. Null is not a value.
  void Bool(const char* key, bool* value);
  void Bool(const char* key, std::optional<bool>* value);  // null: none
  void Int(const char* key, int64_t low, int64_t high, int64_t* value);
  void Float(const char* key, float* value) { Float(key, kAnyNumber, value); }
  void Float(const char* key, const Interval& range, float* value);
  void Double(const char* key, const Interval& range, double* value);
  void String(const char* key, std::string* value);
  // One that is not empty; `takes`: "a path".
  void Text(const char* key, const char* takes, std::string* value);
  void Character(const char* key, char* value);
  // One of the names of a table.
  template <typename T, size_t n>
  void Choice(const char* key, const Named<T> (&table)[n], T* value) {
    size_t row = 0;
    if (ChoiceOfRow(key, table, FirstName(table, *value), &row)) {
      *value = table[row].value;
    }
  }
  // A whole number for all, of one or two, or a list of so many.
  void Sizes(const char* key, int64_t high, int count, int64_t* value);
  // Something of Keras's with a class, or its name. False where there is none.
  bool Object(const char* key, const std::string& takes,
              const std::string& standard, KerasObject* object);
  // Of two names of one field the one that is there; where none is, `name`.
  const char* Either(const char* name, const char* older);

  // An error of Finish() where the field is absent.
  void Require(const char* key);
  // Fields for which ringlet has one value only; null stands for it too.
  void OnlyNull(std::initializer_list<const char*> keys);
  void OnlyBool(const char* key, bool value);
  void OnlyNumber(const char* key, double value);
  // `older`: another name of it.
  void OnlyText(const char* key, const char* value, const char* older = "");
  // Known, and without a meaning here.
  void Ignore(std::initializer_list<const char*> keys);

  // "<path>.<key>: is <value>; <what>".
  void Refuse(const char* key, const std::string& what);
  // "…; must be <what>", or null where it may be.
  void MustBe(const char* key, const std::string& what);
  void Fail(const Status& status);
  bool ok() const { return status_.ok(); }
  Status Finish();

 private:
  bool asked() const { return json_.log() != nullptr; }
  FieldInfo* Info(const char* key) { return json_.log()->At(path_, key); }
  bool ChoiceOfRow(const char* key, const NameTable& table,
                   const std::string& standard, size_t* row);
  // Whether a field that has one value only has another.
  Json TakeOnly(const char* key, const std::string& standard);

  Json json_;
  std::string path_;
  std::vector<std::string> known_;
  std::vector<std::string> nullable_;  // of those that Has was asked for
  std::string missing_;                // the first required and absent
  Status status_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_FIELD_READER_H_
