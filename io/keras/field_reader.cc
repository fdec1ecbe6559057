// Keeps the first error and continues with defaults. Finish returns it, or
// names a field that was not read. With Json::ForDescription the same calls
// record what they accept, so the reference page cannot differ from the reader.

#include "field_reader.h"

#include <algorithm>
#include <cmath>

#include "keras_json.h"
#include "keras_names.h"

namespace ringlet {

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

Json WithoutWrapping(const Json& json) {
  if (!json.is_object()) return json;
  std::string kind = json["class_name"].text();
  if (kind.empty()) kind = json["type"].text();
  Json value;
  if (kind == "__tuple__" || kind == "TensorShape") value = json["items"];
  if (kind == "__numpy__" || kind == "__tensor__") {
    value = json["config"]["value"];
  }
  if (kind == "ndarray") value = json["value"];
  return value ? value : json;
}

FieldReader::FieldReader(const Json& object, const std::string& path)
    : json_(object), path_(path) {
  if (object && !is_describing() && !object.is_object() &&
      object.kind() != Json::Kind::kNull) {
    status_ = InvalidArgument("%s: must be an object, not %s",
                              path.empty() ? "the JSON" : path.c_str(),
                              Show(object).c_str());
  }
}

std::string FieldReader::PathOf(const char* key) const {
  return JoinPath(path_, key);
}

Json FieldReader::Take(const char* key) {
  known_.push_back(key);
  if (is_describing()) Info(key);
  return WithoutWrapping(json_[key]);
}

Json FieldReader::Take(const char* key, const std::string& takes,
                       const std::string& standard) {
  const Json json = Take(key);
  if (!is_describing()) return json;
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

bool FieldReader::MarkOptional(const char* key) {
  const Json value = Take(key);
  if (is_describing()) Info(key)->null = true;
  nullable_.push_back(key);
  return value && value.kind() != Json::Kind::kNull;
}

void FieldReader::Fail(const Status& status) {
  if (status_.ok() && !is_describing()) status_ = status;
}

void FieldReader::Refuse(const char* key, const std::string& rule) {
  Fail(InvalidArgument("%s: is %s; %s", PathOf(key).c_str(),
                       Show(json_[key]).c_str(), rule.c_str()));
}

void FieldReader::RefuseGiven(std::initializer_list<const char*> keys,
                              const std::string& rule) {
  for (const char* key : keys) {
    if (!is_describing() && MarkOptional(key)) Refuse(key, rule);
  }
}

void FieldReader::MustBe(const char* key, const std::string& rule) {
  const bool null =
      std::find(nullable_.begin(), nullable_.end(), key) != nullable_.end();
  Refuse(key, "must be " + rule + (null ? ", or null" : ""));
}

void FieldReader::Bool(const char* key, bool* value) {
  const std::string takes = "true or false";
  const Json json = Take(key, takes, AsJson(*value));
  if (!json) return;
  if (json.kind() != Json::Kind::kBool) return MustBe(key, takes);
  *value = json.as_bool();
}

void FieldReader::Bool(const char* key, std::optional<bool>* value) {
  Take(key, "true or false", *value ? AsJson(**value) : "null");
  if (!MarkOptional(key)) return;
  bool flag = false;
  Bool(key, &flag);
  *value = flag;
}

void FieldReader::Int(const char* key, int64_t low, int64_t high,
                      int64_t* value) {
  const std::string takes = "a whole number from " + std::to_string(low) +
                            " to " + std::to_string(high);
  const bool is_in_range = *value >= low && *value <= high;
  const Json json = Take(key, takes, is_in_range ? AsJson(*value) : "null");
  if (!json) return;
  int64_t number = 0;
  if (!json.ToInt64(&number) || number < low || number > high) {
    return MustBe(key, takes);
  }
  *value = number;
}

void FieldReader::Float(const char* key, const Interval& range, float* value) {
  const std::string takes = ToString(range);
  const bool is_in_range = range.Holds(static_cast<double>(*value));
  const Json json = Take(key, takes, is_in_range ? AsJson(*value) : "null");
  if (!json) return;
  if (json.kind() != Json::Kind::kNumber ||
      !(std::fabs(json.number()) <= FLT_MAX)) {
    return MustBe(key, takes + ", within float32");
  }
  const float number = static_cast<float>(json.number());
  if (!range.Holds(static_cast<double>(number))) return MustBe(key, takes);
  *value = number;
}

void FieldReader::Double(const char* key, const Interval& range,
                         double* value) {
  const std::string takes = ToString(range);
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
  const bool none = *value == '\0';
  const Json json =
      Take(key, takes, none ? "null" : AsJson(std::string(1, *value)));
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

void FieldReader::Sizes(const char* key, int64_t low, int64_t high, int count,
                        int64_t* value) {
  const std::string takes =
      (count == 1 ? "a whole number" : "one or two whole numbers") +
      (" from " + std::to_string(low) + " to " + std::to_string(high));
  const std::string second = count == 1 ? "" : ", " + AsJson(value[1]);
  const Json json =
      Take(key, takes,
           value[0] < low ? "null" : "[" + AsJson(value[0]) + second + "]");
  if (!json) return;
  int64_t sizes[2];
  const bool list = json.is_array() && json.size() == count;
  Json item = list ? json.first() : json;
  for (int i = 0; i < count; ++i) {
    if (!item.ToInt64(&sizes[i]) || sizes[i] < low || sizes[i] > high) {
      return MustBe(key, takes);
    }
    if (list) item = item.next();
  }
  std::copy_n(sizes, count, value);
}

void FieldReader::List(const char* key, int64_t min_size,
                       const std::string& takes,
                       const std::function<bool(const Json&)>& read_item) {
  if (!MarkOptional(key)) return;
  const Json json = Take(key, takes);
  if (!json) return;
  bool good = json.is_array() && json.size() >= min_size;
  for (Json m = json.first(); m && good; m = m.next()) good = read_item(m);
  if (!good) MustBe(key, takes);
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
  return MarkOptional(older) && !is_describing() ? older : name;
}

void FieldReader::Require(const char* key) {
  if (is_describing()) Info(key)->required = true;
  if (missing_.empty() && !json_[key]) missing_ = key;
}

Json FieldReader::UnsupportedValue(const char* key, const std::string& standard,
                                   bool or_null) {
  const Json json = Take(key, standard, standard);
  if (is_describing()) {
    Info(key)->only = true;
    Info(key)->null |= or_null;
  }
  return or_null && json.kind() == Json::Kind::kNull ? Json() : json;
}

void FieldReader::OnlyNull(std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (UnsupportedValue(key, "null")) {
      Refuse(key, "ringlet does not support it (only null)");
    }
  }
}

void FieldReader::OnlyBool(const char* key, bool value) {
  const Json json = UnsupportedValue(key, AsJson(value));
  if (!json || (json.kind() == Json::Kind::kBool && json.as_bool() == value)) {
    return;
  }
  Refuse(key, "ringlet supports only " + AsJson(value));
}

void FieldReader::OnlyNumber(const char* key, double value) {
  const Json json = UnsupportedValue(key, AsJson(value));
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
  if (!same) Refuse(key, "ringlet supports only " + AsJson(value));
}

void FieldReader::OnlyText(const char* key, const char* value,
                           const char* older, bool or_null) {
  const Json json = UnsupportedValue(key, AsJson(value), or_null);
  if (!json || (json.is_string() && (json.text() == value ||
                                     (*older != 0 && json.text() == older)))) {
    return;
  }
  Refuse(key, std::string("ringlet supports only \"") + value + "\"");
}

void FieldReader::Ignore(std::initializer_list<const char*> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
  if (!is_describing()) return;
  for (const char* key : keys) Info(key)->ignored = true;
}

Status FieldReader::Finish() {
  if (!status_.ok()) return status_;
  // Check this first: a misspelt name also makes a field missing.
  for (Json m = json_.first(); m; m = m.next()) {
    const std::string key = m.key();
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      const std::string category = "argument of " + path_;
      return KerasName(category, key).empty()
                 ? UnknownName(path_, "field", key, known_)
                 : NotAmong(path_, category.c_str(), key, known_);
    }
  }
  if (!missing_.empty()) {
    return InvalidArgument("%s: is missing", PathOf(missing_.c_str()).c_str());
  }
  return status_;
}

}  // namespace ringlet
