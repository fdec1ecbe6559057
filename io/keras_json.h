// What the readers and writers of Keras's JSON share.
//
// Internal to io/ and tools/. Every error names its place as a path from the
// root, "config.layers[2].config.units", and where a name is not known the
// nearest that is.

#ifndef RINGLET_IO_KERAS_JSON_H_
#define RINGLET_IO_KERAS_JSON_H_

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../core/losses.h"
#include "../core/metrics.h"
#include "../core/model.h"
#include "../core/optimizers.h"
#include "field_log.h"
#include "json.h"

namespace ringlet {

constexpr size_t kMaxKerasJsonBytes = size_t{1} << 20;
constexpr int kMaxKerasJsonDepth = 64;

// Parses within these limits; every error is kInvalidArgument.
Status ParseKerasJson(const std::string& text, const char* what, Json* json);

// The public readers of model_json.h and compile_json.h, of a part of a larger
// text: `path` is its place there.
Status ModelFromJson(const Json& json, const std::string& path,
                     std::unique_ptr<Model>* model);
Status OptimizerFromJson(const Json& json, const std::string& path,
                         Optimizer* optimizer);
Status LossFromJson(const Json& json, const std::string& path, Loss* loss);
Status MetricFromJson(const Json& json, const std::string& path,
                      Metric* metric);

// What stands in docs/reference.md of each family that has a table of names.
std::vector<ClassInfo> DescribeModels();
std::vector<ClassInfo> DescribeLayers();
std::vector<ClassInfo> DescribeActivations();
std::vector<ClassInfo> DescribeInitializers();
std::vector<ClassInfo> DescribeRegularizers();
std::vector<ClassInfo> DescribeOptimizers();
std::vector<ClassInfo> DescribeSchedules();
std::vector<ClassInfo> DescribeLosses();
std::vector<ClassInfo> DescribeMetrics();

// "config.layers" + "units" -> "config.layers.units"; either may be "".
std::string JoinPath(const std::string& path, const std::string& key);
std::string JoinPath(const std::string& path, int64_t index);  // "layers[2]"

// A value as a message shows it: 2, "same", null, a list, an object.
std::string Show(const Json& json);

// The one of `known` with the fewest letters to change; "" where none.
std::string Nearest(const std::string& word,
                    const std::vector<std::string>& known);

// "<path>: unknown <what> 'Dens'; the nearest known is 'Dense'".
Status UnknownName(const std::string& path, const char* what,
                   const std::string& word,
                   const std::vector<std::string>& known);

// A value and the names that it is known by, with a blank between two; the
// first is written.
template <typename T>
struct Named {
  const char* names;
  T value;
};
std::vector<std::string> Words(const char* names);

// The names of such a table.
class NameTable {
 public:
  template <typename T, size_t n>
  NameTable(const Named<T> (&table)[n])  // NOLINT: implicit
      : first_(reinterpret_cast<const char*>(table)),
        stride_(sizeof(Named<T>)),
        size_(n) {
    static_assert(offsetof(Named<T>, names) == 0);
  }
  size_t size() const { return size_; }
  std::vector<std::string> Row(size_t i) const {
    return Words(*reinterpret_cast<const char* const*>(first_ + i * stride_));
  }
  std::vector<std::string> All() const;

 private:
  const char* first_;
  size_t stride_, size_;
};

// The same, or that Keras has the word and ringlet does not.
Status NotAmong(const std::string& path, const char* what,
                const std::string& word, const std::vector<std::string>& known);

// The row of `word`, or an error that names the nearest.
Status ChooseRow(const NameTable& table, const std::string& path,
                 const char* what, const std::string& word, size_t* row);

template <typename T, size_t n>
Status Choose(const Named<T> (&table)[n], const std::string& path,
              const char* what, const std::string& word, T* value) {
  size_t row = 0;
  const Status status = ChooseRow(table, path, what, word, &row);
  if (status.ok()) *value = table[row].value;
  return status;
}

template <typename T, size_t n>
std::string FirstName(const Named<T> (&table)[n], T value) {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return Words(entry.names)[0];
  }
  return "";
}

// Numbers between two ends, which belong to them unless they are open. An end
// of FLT_MAX or more is none.
struct Range {
  double low = -FLT_MAX, high = FLT_MAX;
  bool low_open = false, high_open = false;
  bool Holds(double number) const {
    return (low_open ? number > low : number >= low) &&
           (high_open ? number < high : number <= high);
  }
  std::string ToString() const;  // "a number in [0, 1)"
};
constexpr Range kAnyNumber = {};
constexpr Range kNotNegative = {0, FLT_MAX, false, false};
constexpr Range kPositive = {0, FLT_MAX, true, false};
constexpr Range kShare = {0, 1, false, false};
constexpr Range kShareBelow1 = {0, 1, false, true};

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
  std::string PathOf(const char* key) const { return JoinPath(path_, key); }

  // These leave *value where the field is absent; a default that they would
  // refuse stands for none. Null is not a value.
  void Bool(const char* key, bool* value);
  void Bool(const char* key, std::optional<bool>* value);  // null: none
  void Int(const char* key, int64_t low, int64_t high, int64_t* value);
  void Float(const char* key, float* value) { Float(key, kAnyNumber, value); }
  void Float(const char* key, const Range& range, float* value);
  void Double(const char* key, const Range& range, double* value);
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
  // A whole number for both or a list of two.
  void Pair(const char* key, int64_t high, int64_t value[2]);
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

// Something of Keras's with a class: {"class_name": …, "config": {…}}, its
// name alone, or a function: {"class_name": "function", "config": name}.
struct KerasObject {
  std::string name;
  bool name_only = false;
  Json config;
  std::string path;         // of the name
  std::string config_path;  // of the config
};
// `more`: fields that may stand beside those, for the caller.
Status ReadKerasObject(const Json& json, const std::string& path,
                       KerasObject* object,
                       std::initializer_list<const char*> more = {});

// The classes of a table: `read` reads each from what Json::Asking answers.
std::vector<ClassInfo> Describe(
    const NameTable& table,
    const std::function<void(const KerasObject& object)>& read);

// The field "dtype", where it is there: "float32", or a policy of this name.
void ReadDType(FieldReader* fields);

// {"module", "class_name", "config": {what `config` writes}, "registered_name"}
// as Keras 3 writes it; `more` may add members.
void WriteKerasObject(JsonWriter* w, const char* module, const char* class_name,
                      const std::function<void()>& config,
                      const std::function<void()>& more = nullptr);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_JSON_H_
