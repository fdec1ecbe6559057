#include "keras_json.h"

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>

#include "keras_names.h"

namespace ringlet {
namespace {

// Levenshtein's distance.
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

std::string Lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string Digits(double number) {
  char digits[32];
  return std::string(
      digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
}

}  // namespace

Status ParseKerasJson(const std::string& text, const char* what, Json* json) {
  if (text.size() > kMaxKerasJsonBytes) {
    return InvalidArgument("%s: %zu bytes of JSON; at most %zu are read", what,
                           text.size(), kMaxKerasJsonBytes);
  }
  const Status parsed = Json::Parse(text, what, json, kMaxKerasJsonDepth);
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
      return json.truth() ? "true" : "false";
    case Json::Kind::kNumber:
      return Digits(json.number());
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

std::string Nearest(const std::string& word,
                    const std::vector<std::string>& known) {
  const std::string asked = Lower(word.substr(0, 64));
  std::string nearest;
  size_t least = SIZE_MAX;
  for (const std::string& name : known) {
    if (name.find('>') != std::string::npos) continue;  // of a registry
    const size_t distance = Distance(asked, Lower(name));
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

Status UnknownName(const std::string& path, const char* what,
                   const std::string& word,
                   const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return InvalidArgument("%s%sunknown %s '%s'%s%s%s", path.c_str(),
                         path.empty() ? "" : ": ", what,
                         Printable(word).c_str(),
                         nearest.empty() ? "" : "; the nearest known is '",
                         nearest.c_str(), nearest.empty() ? "" : "'");
}

std::vector<std::string> Words(const char* names) {
  std::vector<std::string> words(1);
  for (const char* c = names; *c != '\0'; ++c) {
    if (*c == ' ') {
      words.emplace_back();
    } else {
      words.back() += *c;
    }
  }
  return words;
}

std::vector<std::string> NameTable::All() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < size_; ++i) {
    for (const std::string& name : Row(i)) all.push_back(name);
  }
  return all;
}

Status ChooseRow(const NameTable& table, const std::string& path,
                 const char* what, const std::string& word, size_t* row) {
  for (size_t i = 0; i < table.size(); ++i) {
    const std::vector<std::string> names = table.Row(i);
    if (std::find(names.begin(), names.end(), word) == names.end()) continue;
    *row = i;
    return Status();
  }
  return NotAmong(path, what, word, table.All());
}

Status NotAmong(const std::string& path, const char* what,
                const std::string& word,
                const std::vector<std::string>& known) {
  const std::string keras = KerasName(what, word);
  if (keras.empty() ||
      std::find(known.begin(), known.end(), keras) != known.end()) {
    return UnknownName(path, what, word, known);
  }
  std::string all;
  std::vector<std::string> listed;  // without their other spellings
  for (const std::string& name : known) {
    const std::string spelt = KerasName(what, name);
    if (spelt.empty() ||
        std::find(listed.begin(), listed.end(), spelt) != listed.end()) {
      continue;
    }
    listed.push_back(spelt);
    all += (all.empty() ? "; it has " : ", ") + name;
  }
  return InvalidArgument("%s%sKeras has the %s '%s', ringlet has not%s",
                         path.c_str(), path.empty() ? "" : ": ", what,
                         keras.c_str(), all.c_str());
}

std::string Range::ToString() const {
  const bool from = low > -FLT_MAX, to = high < FLT_MAX;
  if (!from && !to) return "a number";
  if (!to)
    return std::string("a number ") + (low_open ? "> " : ">= ") + Digits(low);
  return std::string("a number in ") + (low_open ? "(" : "[") + Digits(low) +
         ", " + Digits(high) + (high_open ? ")" : "]");
}

std::string AsJson(bool value) { return value ? "true" : "false"; }
std::string AsJson(int64_t value) { return std::to_string(value); }
std::string AsJson(float value) {
  return std::isfinite(value) ? JsonWriter().Float(value).text() : "null";
}
std::string AsJson(double value) {
  return std::isfinite(value) ? JsonWriter().Number(value).text() : "null";
}
std::string AsJson(const std::string& value) {
  return JsonWriter().String(value).text();
}

FieldReader::FieldReader(const Json& object, const std::string& path)
    : json_(object), path_(path) {
  if (object && !asked() && !object.is_object() &&
      object.kind() != Json::Kind::kNull) {
    status_ = InvalidArgument("%s: must be an object, not %s",
                              path.empty() ? "the JSON" : path.c_str(),
                              Show(object).c_str());
  }
}

Json FieldReader::Take(const char* key) {
  known_.push_back(key);
  if (asked()) Info(key);
  return json_[key];
}

Json FieldReader::Take(const char* key, const std::string& takes,
                       const std::string& standard) {
  const Json json = Take(key);
  if (!asked()) return json;
  FieldInfo* info = Info(key);
  if (info->takes.empty()) {
    info->takes = takes;
    info->standard = standard;
  }
  return Json();
}

Json FieldReader::Part(const char* key, const std::string& takes,
                       const std::string& standard) {
  Take(key, takes, standard);
  return json_[key];
}

bool FieldReader::Has(const char* key) {
  const Json value = Take(key);
  if (asked()) Info(key)->null = true;
  nullable_.push_back(key);
  return value && value.kind() != Json::Kind::kNull;
}

void FieldReader::Fail(const Status& status) {
  if (status_.ok() && !asked()) status_ = status;
}

void FieldReader::Refuse(const char* key, const std::string& what) {
  Fail(InvalidArgument("%s: is %s; %s", PathOf(key).c_str(),
                       Show(json_[key]).c_str(), what.c_str()));
}

void FieldReader::MustBe(const char* key, const std::string& what) {
  const bool null =
      std::find(nullable_.begin(), nullable_.end(), key) != nullable_.end();
  Refuse(key, "must be " + what + (null ? ", or null" : ""));
}

void FieldReader::Bool(const char* key, bool* value) {
  const std::string takes = "true or false";
  const Json json = Take(key, takes, AsJson(*value));
  if (!json) return;
  if (json.kind() != Json::Kind::kBool) return MustBe(key, takes);
  *value = json.truth();
}

void FieldReader::Bool(const char* key, std::optional<bool>* value) {
  Take(key, "true or false", *value ? AsJson(**value) : "null");
  if (!Has(key)) return;
  bool given = false;
  Bool(key, &given);
  *value = given;
}

void FieldReader::Int(const char* key, int64_t low, int64_t high,
                      int64_t* value) {
  const std::string takes = "a whole number from " + std::to_string(low) +
                            " to " + std::to_string(high);
  const bool stands = *value >= low && *value <= high;
  const Json json = Take(key, takes, stands ? AsJson(*value) : "null");
  if (!json) return;
  int64_t number = 0;
  if (!json.ToInt64(&number) || number < low || number > high) {
    return MustBe(key, takes);
  }
  *value = number;
}

void FieldReader::Float(const char* key, const Range& range, float* value) {
  const std::string takes = range.ToString();
  const bool stands = range.Holds(static_cast<double>(*value));
  const Json json = Take(key, takes, stands ? AsJson(*value) : "null");
  if (!json) return;
  if (json.kind() != Json::Kind::kNumber ||
      !(std::fabs(json.number()) <= FLT_MAX)) {
    return MustBe(key, takes + ", within float32");
  }
  const float number = static_cast<float>(json.number());
  if (!range.Holds(static_cast<double>(number))) return MustBe(key, takes);
  *value = number;
}

void FieldReader::Double(const char* key, const Range& range, double* value) {
  const std::string takes = range.ToString();
  const Json json =
      Take(key, takes, range.Holds(*value) ? AsJson(*value) : "null");
  if (!json) return;
  if (json.kind() != Json::Kind::kNumber || !range.Holds(json.number())) {
    return MustBe(key, takes);
  }
  *value = json.number();
}

void FieldReader::String(const char* key, std::string* value) {
  const Json json = Take(key, "a string", AsJson(*value));
  if (!json) return;
  if (!json.is_string()) return MustBe(key, "a string");
  *value = json.text();
}

void FieldReader::Text(const char* key, const char* takes, std::string* value) {
  const Json json = Take(key, takes, value->empty() ? "null" : AsJson(*value));
  if (!json) return;
  if (json.text().empty()) return MustBe(key, takes);
  *value = json.text();
}

void FieldReader::Character(const char* key, char* value) {
  const std::string takes = "a string of one character";
  const Json json = Take(key, takes, AsJson(std::string(1, *value)));
  if (!json) return;
  if (json.text().size() != 1) return MustBe(key, takes);
  *value = json.text()[0];
}

bool FieldReader::ChoiceOfRow(const char* key, const NameTable& table,
                              const std::string& standard, size_t* row) {
  std::string takes;
  for (const std::string& name : table.All()) {
    takes += (takes.empty() ? "" : ", ") + AsJson(name);
  }
  const Json json = Take(key, takes, AsJson(standard));
  if (!json || !ok()) return false;
  if (json.is_string()) {
    Fail(ChooseRow(table, PathOf(key), key, json.text(), row));
  } else {
    MustBe(key, "a string");
  }
  return ok();
}

void FieldReader::Pair(const char* key, int64_t high, int64_t value[2]) {
  const std::string takes =
      "one or two whole numbers from 1 to " + std::to_string(high);
  const Json json = Take(
      key, takes,
      value[0] < 1 ? "null"
                   : "[" + AsJson(value[0]) + ", " + AsJson(value[1]) + "]");
  if (!json) return;
  int64_t pair[2];
  Json second = json;
  Json first = json;
  if (json.is_array() && json.size() == 2) {
    first = json.first();
    second = first.next();
  }
  if (!first.ToInt64(&pair[0]) || !second.ToInt64(&pair[1]) ||
      std::min(pair[0], pair[1]) < 1 || std::max(pair[0], pair[1]) > high) {
    return MustBe(key, takes);
  }
  value[0] = pair[0];
  value[1] = pair[1];
}

bool FieldReader::Object(const char* key, const std::string& takes,
                         const std::string& standard, KerasObject* object) {
  const Json json = Take(key, takes, standard);
  if (!json) return false;
  Fail(ReadKerasObject(json, PathOf(key), object));
  return ok();
}

const char* FieldReader::Either(const char* name, const char* older) {
  Take(older, std::string("as ") + name);
  known_.push_back(name);
  return Has(older) && !asked() ? older : name;
}

void FieldReader::Require(const char* key) {
  if (asked()) Info(key)->required = true;
  if (missing_.empty() && !json_[key]) missing_ = key;
}

Json FieldReader::TakeOnly(const char* key, const std::string& standard) {
  const Json json = Take(key, standard, standard);
  if (asked()) Info(key)->only = Info(key)->null = true;
  return json.kind() == Json::Kind::kNull ? Json() : json;
}

void FieldReader::OnlyNull(std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (TakeOnly(key, "null")) {
      Refuse(key, "ringlet does not support it (only null)");
    }
  }
}

void FieldReader::OnlyBool(const char* key, bool value) {
  const Json json = TakeOnly(key, AsJson(value));
  if (!json || (json.kind() == Json::Kind::kBool && json.truth() == value)) {
    return;
  }
  Refuse(key, "ringlet supports only " + AsJson(value));
}

void FieldReader::OnlyNumber(const char* key, double value) {
  const Json json = TakeOnly(key, Digits(value));
  if (!json) return;
  bool same = true;
  const auto compare = [&](const Json& j) {
    same = same && j.kind() == Json::Kind::kNumber && j.number() == value;
  };
  if (json.is_array()) {
    for (Json m = json.first(); m && same; m = m.next()) compare(m);
  } else {
    compare(json);
  }
  if (!same) Refuse(key, "ringlet supports only " + Digits(value));
}

void FieldReader::OnlyText(const char* key, const char* value,
                           const char* older) {
  const Json json = TakeOnly(key, AsJson(value));
  if (!json || (json.is_string() && (json.text() == value ||
                                     (*older != 0 && json.text() == older)))) {
    return;
  }
  Refuse(key, std::string("ringlet supports only \"") + value + "\"");
}

void FieldReader::Ignore(std::initializer_list<const char*> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
  if (!asked()) return;
  for (const char* key : keys) Info(key)->ignored = true;
}

Status FieldReader::Finish() {
  if (!status_.ok()) return status_;
  // First, for a name spelled wrong is also a name missed.
  for (Json m = json_.first(); m; m = m.next()) {
    const std::string key = m.key();
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      const std::string family = "argument of " + path_;
      return KerasName(family, key).empty()
                 ? UnknownName(path_, "field", key, known_)
                 : NotAmong(path_, family.c_str(), key, known_);
    }
  }
  if (!missing_.empty()) {
    return InvalidArgument("%s: is missing", PathOf(missing_.c_str()).c_str());
  }
  return status_;
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
  // Where a class is from, what it was built and compiled with, and who shares
  // it: nothing that a model is rebuilt from.
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
  // Keras registers a class of one's own as "package>Name".
  const std::string name = registered.text();
  if (name.find('>') != std::string::npos && name != object->name) {
    fields.Refuse("registered_name", "a class of one's own is not supported");
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
    object.config = Json::Asking(&log);
    read(object);
    classes.push_back({table.Row(i), "", log.fields()});
  }
  return classes;
}

void ReadDType(FieldReader* fields) {
  KerasObject object;
  if (!fields->Has("dtype") ||
      !fields->Object("dtype", "\"float32\", or its DTypePolicy", "\"float32\"",
                      &object)) {
    return;
  }
  std::string name = object.name;
  std::string path = object.path;
  if (!object.name_only) {
    FieldReader policy(object.config, object.config_path);
    name.clear();
    policy.Require("name");
    policy.String("name", &name);
    path = policy.PathOf("name");
    const Status finished = policy.Finish();
    if (!finished.ok()) return fields->Fail(finished);
  }
  if (name == "float32") return;
  fields->Fail(
      InvalidArgument("%s: is \"%s\"; ringlet computes in \"float32\" only",
                      path.c_str(), Printable(name).c_str()));
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
