#include "data_description.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../weights/model_metadata.h"
#include "../weights/safetensors.h"

namespace ringlet {
namespace {

constexpr int kMaxNames = 1 << 20;
// An eighth of the largest header of a model file: of columns and of classes.
// The label's name has less.
constexpr size_t kMaxBytes = SafetensorsLimits::kHeaderBytes / 8;
constexpr size_t kMaxLabelBytes = 4 << 10;

void WriteNames(const char* key, const std::vector<std::string>& names,
                JsonWriter* json) {
  json->Key(key).BeginArray();
  if (CanBeSaved(names)) {
    for (const std::string& name : names) json->String(name);
  }
  json->EndArray();
}

Status ReadNumber(const Json& json, const char* key, float* number) {
  const Json value = json[key];
  if (!value) return Status();
  *number = static_cast<float>(value.number());
  if (value.is_number() && std::isfinite(*number)) return Status();
  return InvalidArgument("%s is not a finite number", key);
}

Status ReadNames(const Json& json, const char* key,
                 std::vector<std::string>* names) {
  const Json list = json[key];
  if (!list) return Status();
  if (!list.is_array() || list.size() > kMaxNames) {
    return InvalidArgument("%s is %s, not a list of at most %d names", key,
                           list.type_name(), kMaxNames);
  }
  for (Json name = list.first(); name; name = name.next()) {
    if (!name.is_string()) {
      return InvalidArgument("%s has %s among its names", key,
                             name.type_name());
    }
    names->push_back(name.text());
  }
  const std::set<std::string> different(names->begin(), names->end());
  if (different.size() == names->size()) return Status();
  return InvalidArgument("%s has a name twice", key);
}

void WriteEncoding(const TableEncoding& encoding, JsonWriter* json) {
  if (!encoding.na_values.empty()) {
    WriteNames("na_values", encoding.na_values, json);
  }
  if (encoding.decimal > ' ' && encoding.decimal <= '~') {
    json->Key("decimal").String(std::string(1, encoding.decimal));
  }
  if (encoding.drop_unlabelled) json->Key("drop_unlabelled").Bool(true);
  if (!encoding.taken.empty()) {
    json->Key("taken").BeginArray();
    for (const int64_t column : encoding.taken) json->Int(column);
    json->EndArray();
  }
  if (encoding.columns.empty()) return;
  json->Key("encoding").BeginArray();
  for (const auto& [place, column] : encoding.columns) {
    json->BeginObject();
    json->Key("column").Number(static_cast<double>(place));
    if (!column.categories.empty()) {
      json->Key("one_hot").Bool(column.one_hot);
      json->Key("other").Bool(column.has_unknown_category);
      json->Key("categories").BeginArray();
      for (const std::string& name : column.categories) json->String(name);
      json->EndArray();
    }
    if (column.fill) json->Key("fill").Float(*column.fill);
    if (column.drop) json->Key("drop").Bool(true);
    json->EndObject();
  }
  json->EndArray();
}

Status ReadBool(const Json& json, const char* key, bool* value) {
  const Json found = json[key];
  if (!found) return Status();
  *value = found.as_bool();
  if (found.kind() == Json::Kind::kBool) return Status();
  return InvalidArgument("%s is %s, not true or false", key, found.type_name());
}

Status ReadColumn(const Json& json, TableEncoding* encoding) {
  int64_t place = -1;
  if (!json["column"].ToInt64(&place) || place < 0 || place >= kMaxNames ||
      encoding->columns.count(place) > 0) {
    return InvalidArgument("a column of encoding has no number of its own");
  }
  TableEncoding::Column column;
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "categories", &column.categories));
  RINGLET_RETURN_IF_ERROR(ReadBool(json, "one_hot", &column.one_hot));
  RINGLET_RETURN_IF_ERROR(
      ReadBool(json, "other", &column.has_unknown_category));
  RINGLET_RETURN_IF_ERROR(ReadBool(json, "drop", &column.drop));
  if (json["fill"]) {
    RINGLET_RETURN_IF_ERROR(ReadNumber(json, "fill", &column.fill.emplace()));
  }
  encoding->columns[place] = std::move(column);
  return Status();
}

Status ReadEncoding(const Json& json, TableEncoding* encoding) {
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "na_values", &encoding->na_values));
  if (const Json decimal = json["decimal"]) {
    const std::string text = decimal.is_string() ? decimal.text() : "";
    if (text.size() != 1) {
      return InvalidArgument("decimal is %s, not a character",
                             decimal.type_name());
    }
    encoding->decimal = text[0];
  }
  RINGLET_RETURN_IF_ERROR(
      ReadBool(json, "drop_unlabelled", &encoding->drop_unlabelled));
  if (const Json taken = json["taken"]) {
    for (Json m = taken.first(); m && taken.is_array(); m = m.next()) {
      int64_t column = -1;
      if (!m.ToInt64(&column) || column < 0 || column >= kMaxNames) {
        return InvalidArgument("taken has %s, not a column's number",
                               m.type_name());
      }
      encoding->taken.push_back(column);
    }
  }
  const Json list = json["encoding"];
  if (!list) return Status();
  if (!list.is_array()) {
    return InvalidArgument("encoding is %s, not a list", list.type_name());
  }
  for (Json m = list.first(); m; m = m.next()) {
    RINGLET_RETURN_IF_ERROR(ReadColumn(m, encoding));
  }
  return Status();
}

}  // namespace

bool CanBeSaved(const std::vector<std::string>& names) {
  size_t bytes = 0;
  for (const std::string& name : names) {
    // JSON has only UTF-8, and Json no NUL in a string.
    if (ValidUtf8Bytes(name) != name.size()) return false;
    if (name.find('\0') != std::string::npos) return false;
    // The header is JSON that has this JSON as a string.
    const std::string once = JsonWriter().String(name).text();
    bytes += JsonWriter().String(once).text().size() + 1;
  }
  return bytes <= kMaxBytes;
}

bool CanBeSaved(const std::string& label) {
  return label.size() <= kMaxLabelBytes &&
         CanBeSaved(std::vector<std::string>{label});
}

std::string ToJson(const DataDescription& description) {
  JsonWriter json;
  json.BeginObject();
  const Scale& scale = description.scale;
  if (std::isfinite(scale.factor) && std::isfinite(scale.offset)) {
    json.Key("scale").Float(scale.factor);
    json.Key("offset").Float(scale.offset);
  }
  WriteNames("columns", description.columns, &json);
  WriteNames("classes", description.classes, &json);
  if (CanBeSaved(description.label)) {
    json.Key("label").String(description.label);
  }
  if (description.label_place >= 0) {
    json.Key("label_place").Int(description.label_place);
  }
  WriteEncoding(description.encoding, &json);
  json.EndObject();
  return json.text();
}

Status DataDescriptionFromJson(const std::string& text,
                               DataDescription* description) {
  Json json;
  RINGLET_RETURN_IF_ERROR(Json::Parse(text, "its text", &json));
  if (!json.is_object()) {
    return InvalidArgument("it is %s, not an object", json.type_name());
  }
  DataDescription read;
  RINGLET_RETURN_IF_ERROR(ReadNumber(json, "scale", &read.scale.factor));
  RINGLET_RETURN_IF_ERROR(ReadNumber(json, "offset", &read.scale.offset));
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "columns", &read.columns));
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "classes", &read.classes));
  if (const Json label = json["label"]) {
    if (!label.is_string()) {
      return InvalidArgument("label is %s, not a name", label.type_name());
    }
    read.label = label.text();
  }
  if (const Json place = json["label_place"]) {
    if (!place.ToInt64(&read.label_place) || read.label_place < 0 ||
        read.label_place > kMaxNames) {
      return InvalidArgument("label_place is %s, not a number of columns",
                             place.type_name());
    }
  }
  RINGLET_RETURN_IF_ERROR(ReadEncoding(json, &read.encoding));
  *description = std::move(read);
  return Status();
}

Status ReadDataDescription(const SafetensorsReader& file,
                           std::optional<DataDescription>* description) {
  description->reset();
  // Another program's file may have another text there.
  const auto text = file.metadata().find(kDataDescriptionKey);
  if (text == file.metadata().end() || !IsRinglets(file.metadata())) {
    return Status();
  }
  return DataDescriptionFromJson(text->second, &description->emplace())
      .Annotate("%s: metadata '%s'", file.path().c_str(), kDataDescriptionKey);
}

}  // namespace ringlet
