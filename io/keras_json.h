// What the readers and writers of Keras's JSON share.
//
// Internal to io/ and tools/. Every error names its place as a path from the
// root, "config.layers[2].config.units", and where a name is not known the
// nearest that is.

#ifndef RINGLET_IO_KERAS_JSON_H_
#define RINGLET_IO_KERAS_JSON_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "../core/losses.h"
#include "../core/metrics.h"
#include "../core/model.h"
#include "../core/optimizers.h"
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

// "config.layers" + "units" -> "config.layers.units"; either may be "".
std::string JoinPath(const std::string& path, const std::string& key);
std::string JoinPath(const std::string& path, int64_t index);  // "layers[2]"

// A value as a message shows it: 2, "same", null, a list, an object.
std::string Show(const Json& json);

// The one of `known` that `word` may have been meant to be: with the fewest
// letters to change, two at most, or one that begins as it does; "" where none
// is so near. Case and leading dashes do not count.
std::string Nearest(const std::string& word,
                    const std::vector<std::string>& known);

// "; the nearest known is 'Dense'", or where none is near "; known are 'Dense',
// 'Flatten'": all of them.
std::string NearestOrAll(const std::string& word,
                         const std::vector<std::string>& known);

// "<path>: unknown <what> 'Dens'; the nearest known is 'Dense'".
Status UnknownName(const std::string& path, const char* what,
                   const std::string& word,
                   const std::vector<std::string>& known);

// A value and its name; of several names of a value the first is written.
template <typename T>
struct Named {
  const char* name;
  T value;
};

// The value of `word` in `table`, or an error that names the nearest.
template <typename T, size_t n>
Status Choose(const Named<T> (&table)[n], const std::string& path,
              const char* what, const std::string& word, T* value) {
  std::vector<std::string> known;
  for (const Named<T>& entry : table) {
    if (word == entry.name) {
      *value = entry.value;
      return Status();
    }
    known.push_back(entry.name);
  }
  return UnknownName(path, what, word, known);
}

template <typename T, size_t n>
const char* FirstName(const Named<T> (&table)[n], T value) {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return "";
}

// Reads the fields of one object. Keeps the first error. A field is known once
// it was asked for: Finish() refuses the others.
class FieldReader {
 public:
  // Something that is not there has no fields; other than an object or null is
  // an error.
  FieldReader(const Json& object, const std::string& path);

  bool Has(const char* key);  // there and not null
  // The value to be taken apart by the caller; kNone where absent.
  Json Take(const char* key);
  std::string PathOf(const char* key) const { return JoinPath(path_, key); }

  // These leave *value where the field is absent. Null is not a value.
  void Bool(const char* key, bool* value);
  void Int(const char* key, int64_t low, int64_t high, int64_t* value);
  void Float(const char* key, float* value);
  void Double(const char* key, double low, double high, double* value);
  void String(const char* key, std::string* value);
  // One of the names of a table.
  template <typename T, size_t n>
  void Choice(const char* key, const Named<T> (&table)[n], T* value) {
    std::string word;
    String(key, &word);
    if (!ok() || !json_[key]) return;
    Fail(Choose(table, PathOf(key), key, word, value));
  }
  // A whole number for both or a list of two.
  void Pair(const char* key, int64_t high, int64_t value[2]);

  // An error of Finish() where the field is absent.
  void Require(const char* key);
  // Fields for which ringlet has one value only.
  void OnlyNull(std::initializer_list<const char*> keys);
  void OnlyBool(const char* key, bool value);
  void OnlyNumber(const char* key, double value);
  void OnlyText(const char* key, const char* value);
  // Known, and without a meaning here.
  void Ignore(std::initializer_list<const char*> keys);

  // "<path>.<key>: is <value>; <what>".
  void Refuse(const char* key, const std::string& what);
  void Fail(const Status& status);
  bool ok() const { return status_.ok(); }
  Status Finish();

 private:
  Json json_;
  std::string path_;
  std::vector<std::string> known_;
  std::string missing_;  // the first required and absent
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

// The field "dtype", where it is there: "float32", or a policy of this name.
void ReadDType(FieldReader* fields);

// {"module", "class_name", "config": {what `config` writes}, "registered_name"}
// as Keras 3 writes it; `more` may add members.
void WriteKerasObject(JsonWriter* w, const char* module, const char* class_name,
                      const std::function<void()>& config,
                      const std::function<void()>& more = nullptr);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_JSON_H_
