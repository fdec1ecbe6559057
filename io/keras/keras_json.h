// The common parts of the readers and writers of Keras's JSON.
//
// Every error has the path of its place from the root,
// "config.layers[2].config.units". An error about an unknown name adds the
// nearest known one.

#ifndef RINGLET_IO_KERAS_KERAS_JSON_H_
#define RINGLET_IO_KERAS_KERAS_JSON_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/json.h"
#include "field_reader.h"
#include "name_table.h"
#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/model.h"
#include "ringlet/optimizers.h"

namespace ringlet {

constexpr size_t kMaxKerasJsonBytes = size_t{1} << 20;
constexpr int kMaxKerasJsonDepth = 64;

// Parses within these limits. Every error is kInvalidArgument.
Status ParseKerasJson(const std::string& text, const char* name, Json* json);

// Readers of ringlet/checkpoint.h and compile_json.h, for a part of a larger
// text. `path` is the part's place there.
Status ModelFromJson(const Json& json, const std::string& path,
                     std::unique_ptr<Model>* model);
Status OptimizerFromJson(const Json& json, const std::string& path,
                         Optimizer* optimizer);
Status LossFromJson(const Json& json, const std::string& path, Loss* loss);
Status MetricFromJson(const Json& json, const std::string& path,
                      Metric* metric);

// The entries of docs/reference.md for each category with a table of names.
std::vector<ClassInfo> DescribeModels();
std::vector<ClassInfo> DescribeLayers();
std::vector<ClassInfo> DescribeActivations();
std::vector<ClassInfo> DescribeInitializers();
std::vector<ClassInfo> DescribeRegularizers();
std::vector<ClassInfo> DescribeConstraints();
std::vector<ClassInfo> DescribeOptimizers();
std::vector<ClassInfo> DescribeSchedules();
std::vector<ClassInfo> DescribeLosses();
std::vector<ClassInfo> DescribeMetrics();

// "config.layers" + "units" -> "config.layers.units"; either may be "".
std::string JoinPath(const std::string& path, const std::string& key);
std::string JoinPath(const std::string& path, int64_t index);  // "layers[2]"

// A value in a message: 2, "same", null, a list, an object.
std::string Show(const Json& json);

// The name of `known` that is nearest to `word`: with the fewest letters to
// change, at most two, or with the same beginning. Empty if none is near. Case
// and leading dashes do not count.
std::string NearestName(const std::string& word,
                        const std::vector<std::string>& known);

// "; the nearest known is 'Dense'", or, if none is near, all names: "; known
// are 'Dense', 'Flatten'".
std::string NearestOrAll(const std::string& word,
                         const std::vector<std::string>& known);

// "<path>: unknown <what> 'Dens'; the nearest known is 'Dense'".
Status UnknownName(const std::string& path, const char* kind,
                   const std::string& word,
                   const std::vector<std::string>& known);

// A Keras object with a class: {"class_name": …, "config": {…}}, its name
// alone, or a function: {"class_name": "function", "config": name}.
struct KerasObject {
  std::string name;
  bool name_only = false;
  bool keras2 = false;  // true for a model from Keras 2 or TensorFlow.js
  Json config;
  std::string path;         // the path of the name
  std::string config_path;  // the path of the config
};
// `more` names the other fields, which the caller reads.
Status ReadKerasObject(const Json& json, const std::string& path,
                       KerasObject* object,
                       std::initializer_list<const char*> more = {});

// Describes the classes of a table. `read` reads each from
// Json::ForDescription.
std::vector<ClassInfo> Describe(
    const NameTable& table,
    const std::function<void(const KerasObject& object)>& read);

constexpr Named<DTypePolicy> kDTypePolicies[] = {
    {"float32", DTypePolicy::kFloat32},
    {"mixed_bfloat16", DTypePolicy::kMixedBFloat16}};

// Reads the field "dtype", a policy or its name, of a layer or a model. False
// if it is absent. With null only "float32" is accepted.
bool ReadDType(FieldReader* fields, DTypePolicy* policy = nullptr);

// Writes {"module", "class_name", "config": {what `config` writes},
// "registered_name"} as Keras 3 does; `more` may add members.
void WriteKerasObject(JsonWriter* w, const char* module, const char* class_name,
                      const std::function<void()>& config,
                      const std::function<void()>& more = nullptr);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_KERAS_JSON_H_
