// What the readers and writers of Keras's JSON share.
//
// Internal to io/ and tools/. Every error names its place as a path from the
// root, "config.layers[2].config.units", and where a name is not known the
// nearest that is.

#ifndef RINGLET_IO_KERAS_KERAS_JSON_H_
#define RINGLET_IO_KERAS_KERAS_JSON_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/json.h"
#include "../../core/model/losses.h"
#include "../../core/model/metrics.h"
#include "../../core/model/model.h"
#include "../../core/model/optimizers.h"
#include "field_reader.h"
#include "name_table.h"

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

// Something of Keras's with a class: {"class_name": …, "config": {…}}, its
// name alone, or a function: {"class_name": "function", "config": name}.
struct KerasObject {
  std::string name;
  bool name_only = false;
  bool keras2 = false;  // of a model: written by Keras 2 or TensorFlow.js
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

#endif  // RINGLET_IO_KERAS_KERAS_JSON_H_
