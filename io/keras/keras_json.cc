// Parses what Keras 2 and Keras 3 write for the same object: {"class_name",
// "config"} with or without module and registered_name, or only a name. The
// limits on size and depth of such a text are here too.

#include "keras_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "../../core/base/number_text.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

// Returns the Levenshtein distance.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

// Names before Keras 3.
constexpr struct {
  const char *old, *name;
} kOldNames[] = {
    {"lr", "learning_rate"},
    {"nb_epoch", "epochs"},
};

// "epochs" of "--epochs".
std::string WithoutDashes(const std::string& name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

// True for "package>Name", under which Keras registers a user's class.
bool IsOfARegistry(const std::string& name) {
  return name.find('>') != std::string::npos;
}

// A class without the package of KerasHub, which Keras 3 has in the registered
// name, and Keras 2 in the name of the class.
std::string WithoutHub(const std::string& name) {
  for (const std::string_view package : {"keras_hub>", "keras_nlp>"}) {
    if (name.rfind(package, 0) == 0) return name.substr(package.size());
  }
  return name;
}

}  // namespace

Status ParseKerasJson(const std::string& text, const char* name, Json* json) {
  if (text.size() > kMaxKerasJsonBytes) {
    return InvalidArgument("%s: %zu bytes of JSON; at most %zu are read", name,
                           text.size(), kMaxKerasJsonBytes);
  }
  const Status parsed = Json::Parse(text, name, json, kMaxKerasJsonDepth);
  return parsed.ok() ? parsed : InvalidArgument("%s", parsed.message());
}

std::string JoinPath(const std::string& path, const std::string& key) {
  const std::string shown = Printable(key);
  return path.empty() || shown.empty() ? path + shown : path + "." + shown;
}

std::string JoinPath(const std::string& path, int64_t index) {
  return path + "[" + std::to_string(index) + "]";
}

std::string Show(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::kNone:
      return "absent";
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return json.as_bool() ? "true" : "false";
    case Json::Kind::kNumber:
      return ShortestText(json.number());
    case Json::Kind::kString:
      return "\"" + Printable(json.text()) + "\"";
    case Json::Kind::kArray:
      break;
    case Json::Kind::kObject:
      return "an object";
  }
  if (json.size() > 4) return "a list";
  std::string list;
  for (Json m = json.first(); m; m = m.next()) {
    if (m.is_array() || m.is_object()) return "a list";
    list += (list.empty() ? "" : ", ") + Show(m);
  }
  return "[" + list + "]";
}

std::string NearestName(const std::string& word,
                        const std::vector<std::string>& known) {
  constexpr size_t kMaxChanges = 2;
  const std::string unknown = LowerAscii(WithoutDashes(word.substr(0, 64)));
  for (const auto& row : kOldNames) {
    const bool has =
        std::find(known.begin(), known.end(), row.name) != known.end();
    if (unknown == row.old && has) return row.name;
  }
  std::string nearest;
  size_t smallest = SIZE_MAX;
  for (const std::string& name : known) {
    if (IsOfARegistry(name)) continue;
    const std::string lower = LowerAscii(WithoutDashes(name));
    const size_t shorter = std::min(unknown.size(), lower.size());
    // If all letters change, the words have nothing in common.
    const size_t distance = Distance(unknown, lower);
    const bool near =
        (distance <= kMaxChanges && distance < shorter) ||
        (shorter > 0 && unknown.compare(0, shorter, lower, 0, shorter) == 0);
    if (near && distance < smallest) {
      smallest = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string NearestOrAll(const std::string& word,
                         const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  if (!nearest.empty()) return "; the nearest known is '" + nearest + "'";
  std::string list;
  std::set<std::string> listed;  // "MSE" beside "mse" is redundant
  for (const std::string& name : known) {
    if (IsOfARegistry(name) || !listed.insert(LowerAscii(name)).second)
      continue;
    list += (list.empty() ? "'" : ", '") + Printable(name) + "'";
  }
  return list.empty() ? "" : "; known are " + list;
}

Status UnknownName(const std::string& path, const char* kind,
                   const std::string& word,
                   const std::vector<std::string>& known) {
  return InvalidArgument(
      "%s%sunknown %s '%s'%s", path.c_str(), path.empty() ? "" : ": ", kind,
      Printable(word).c_str(), NearestOrAll(word, known).c_str());
}

Status ReadKerasObject(const Json& json, const std::string& path,
                       KerasObject* object,
                       std::initializer_list<const char*> more) {
  *object = KerasObject();
  object->path = path;
  if (json.is_string()) {
    object->name = json.text();
    object->name_only = true;
    return Status();
  }
  if (!json.is_object()) {
    return InvalidArgument(
        "%s: is %s; must be a name or an object with class_name and config",
        path.empty() ? "the JSON" : path.c_str(), Show(json).c_str());
  }
  FieldReader fields(json, path);
  fields.Require("class_name");
  fields.String("class_name", &object->name);
  object->config = fields.Take("config");
  object->path = fields.PathOf("class_name");
  object->config_path = fields.PathOf("config");
  // Module, build and compile settings and sharing do not affect a model.
  fields.Ignore(
      {"module", "build_config", "compile_config", "shared_object_id"});
  fields.Ignore(more);
  const Json registered = fields.Take("registered_name");
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  if (object->name == "function") {
    object->name = object->config.text();
    object->path = object->config_path;
    object->name_only = true;
    object->config = Json();
    return Status();
  }
  // Keras registers a user's class as "package>Name".
  object->name = WithoutHub(object->name);
  const std::string name = WithoutHub(registered.text());
  if (name.find('>') != std::string::npos && name != object->name) {
    fields.Refuse("registered_name", "a user-defined class is not supported");
    return fields.Finish();
  }
  return Status();
}

std::vector<ClassInfo> Describe(
    const NameTable& table,
    const std::function<void(const KerasObject& object)>& read) {
  std::vector<ClassInfo> classes;
  for (size_t i = 0; i < table.size(); ++i) {
    FieldLog log;
    KerasObject object;
    object.name = table.Row(i)[0];
    object.config = Json::ForDescription(&log);
    read(object);
    classes.push_back({table.Row(i), "", log.fields()});
  }
  return classes;
}

bool ReadDType(FieldReader* fields, DTypePolicy* policy) {
  KerasObject object;
  if (!fields->MarkOptional("dtype") ||
      !fields->Object("dtype",
                      policy == nullptr
                          ? "\"float32\", or its DTypePolicy"
                          : "\"float32\" or \"mixed_bfloat16\", or the "
                            "DTypePolicy of one",
                      "\"float32\"", &object)) {
    return false;
  }
  std::string name = object.name;
  std::string path = object.path;
  if (!object.name_only) {
    FieldReader config(object.config, object.config_path);
    name.clear();
    config.Require("name");
    config.String("name", &name);
    path = config.PathOf("name");
    const Status finished = config.Finish();
    if (!finished.ok()) fields->Fail(finished);
    if (!finished.ok()) return false;
  }
  const bool mixed = policy != nullptr && name == "mixed_bfloat16";
  if (mixed) *policy = DTypePolicy::kMixedBFloat16;
  if (mixed || name == "float32") return true;
  fields->Fail(
      InvalidArgument("%s: is \"%s\"; ringlet computes in \"float32\" only%s",
                      path.c_str(), Printable(name).c_str(),
                      policy == nullptr ? "" : ", or \"mixed_bfloat16\""));
  return true;
}

void WriteKerasObject(JsonWriter* w, const char* module, const char* class_name,
                      const std::function<void()>& config,
                      const std::function<void()>& more) {
  w->BeginObject().Key("module").String(module);
  w->Key("class_name").String(class_name);
  w->Key("config").BeginObject();
  config();
  w->EndObject().Key("registered_name").Null();
  if (more) more();
  w->EndObject();
}

}  // namespace ringlet
