// Programs of other versions read these files. So a field never gets another
// meaning, and a new one is optional. Each part of the description has its
// Write and its Read side by side.

#include "data_description.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/fnv1a.h"
#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../keras/image_names.h"
#include "../keras/text_names.h"
#include "../weights/model_metadata.h"
#include "../weights/safetensors.h"

namespace ringlet {
namespace {

constexpr int kMaxNames = 1 << 20;
// The names of columns, and the names of classes, each take at most an eighth
// of the largest header of a model file. The label's name takes less.
static_assert(kMaxNamesBytes == SafetensorsLimits::kHeaderBytes / 8);
constexpr size_t kMaxLabelBytes = 4 << 10;
constexpr size_t kMaxOtherBytes =
    32 << 10;  // the names of columns that are not taken

void WriteNames(const char* key, const std::vector<std::string>& names,
                JsonWriter* json) {
  json->Key(key).List(CanBeSaved(names) ? names : std::vector<std::string>());
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
  return Status();
}

Status ReadDifferentNames(const Json& json, const char* key,
                          std::vector<std::string>* names) {
  RINGLET_RETURN_IF_ERROR(ReadNames(json, key, names));
  const std::set<std::string> different(names->begin(), names->end());
  if (different.size() == names->size()) return Status();
  return InvalidArgument("%s has a name twice", key);
}

// --- the columns -------------------------------------------------------------

using Role = TableColumn::Role;

// The roles' names, in the order of the values of Role.
constexpr const char* kRoles[] = {"dropped", "value", "label", "weight"};

// Neighbours of one role are one object. "columns" has the names of the values,
// and "label" the column of the label.
void WriteTable(const std::vector<TableColumn>& columns, JsonWriter* json) {
  json->Key("table").BeginArray();
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    const TableColumn& column = columns[i];
    const bool is_value = column.role == Role::kValue;
    if (!is_value && column.role != Role::kLabel) names.push_back(column.name);
  }
  const bool with_all = CanBeSaved(names, kMaxOtherBytes);
  for (size_t i = 0, end = 0; i < columns.size(); i = end) {
    const TableColumn& column = columns[i];
    const auto next = [&](size_t k) {
      const int64_t step = static_cast<int64_t>(k - i);
      return columns[k].role == column.role &&
             (column.role != Role::kValue ||
              columns[k].value == column.value + step);
    };
    for (end = i + 1; end < columns.size() && next(end);) ++end;
    json->BeginObject();
    json->Key("role").String(kRoles[static_cast<size_t>(column.role)]);
    if (column.role == Role::kValue) json->Key("first").Int(column.value);
    json->Key("count").Int(static_cast<int64_t>(end - i));
    const auto is_named = [](const TableColumn& c) { return !c.name.empty(); };
    const auto at = [&](size_t k) {
      return columns.begin() + static_cast<ptrdiff_t>(k);
    };
    // The column of weights is found by its name. So its name is saved even if
    // there are too many names of other columns.
    const bool with_names = (column.role == Role::kDropped && with_all) ||
                            (column.role == Role::kWeight &&
                             CanBeSaved({column.name}, kMaxLabelBytes));
    if (with_names && std::any_of(at(i), at(end), is_named)) {
      json->Key("names").BeginArray();
      for (size_t k = i; k < end; ++k) json->String(columns[k].name);
      json->EndArray();
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteLabel(const std::vector<TableColumn>& columns, JsonWriter* json) {
  const auto label =
      std::find_if(columns.begin(), columns.end(),
                   [](const TableColumn& c) { return c.role == Role::kLabel; });
  const std::string name = label == columns.end() ? "" : label->name;
  json->Key("label").String(CanBeSaved({name}, kMaxLabelBytes) ? name : "");
}

Status ReadRun(const Json& json, std::vector<TableColumn>* columns) {
  const auto role =
      std::find(std::begin(kRoles), std::end(kRoles), json["role"].text());
  TableColumn column;
  column.role = static_cast<Role>(role - std::begin(kRoles));
  int64_t first = -1, count = 0;
  const bool is_value = column.role == Role::kValue;
  if (role == std::end(kRoles) || !json["count"].ToInt64(&count) || count < 1 ||
      count > kMaxNames - static_cast<int64_t>(columns->size()) ||
      (is_value && (!json["first"].ToInt64(&first) || first < 0 ||
                    first > kMaxNames - count))) {
    return InvalidArgument(
        "table has an invalid part: a part needs a known role, a count from 1 "
        "on and, for values, the index of the first");
  }
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "names", &names));
  names.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    column.name = names[static_cast<size_t>(i)];
    if (is_value) column.value = first + i;
    columns->push_back(column);
  }
  return Status();
}

// Checks that each value occurs once, with at most one label and one column of
// weights.
Status CheckColumns(const std::vector<TableColumn>& columns, size_t names) {
  std::set<int64_t> values;
  int singles[std::size(kRoles)] = {};
  size_t count = 0;
  for (const TableColumn& column : columns) {
    if (column.role == Role::kValue) {
      values.insert(column.value);
      ++count;
    } else {
      ++singles[static_cast<size_t>(column.role)];
    }
  }
  const bool each_once = values.size() == count && count > 0 &&
                         *values.rbegin() == static_cast<int64_t>(count) - 1;
  if (each_once && singles[static_cast<size_t>(Role::kLabel)] <= 1 &&
      singles[static_cast<size_t>(Role::kWeight)] <= 1 &&
      (names == 0 || names == count)) {
    return Status();
  }
  return InvalidArgument("table does not have each value once, with its name");
}

Status ReadPlace(const char* key, const Json& json, int64_t* place) {
  if (json.ToInt64(place) && *place >= 0 && *place < kMaxNames) return Status();
  return InvalidArgument("%s has %s, not a number of columns", key,
                         json.type_name());
}

Status ReadTable(const Json& json, std::vector<TableColumn>* columns) {
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(ReadNames(json, "columns", &names));
  std::string label;
  if (const Json name = json["label"]) {
    if (!name.is_string()) {
      return InvalidArgument("label is %s, not a name", name.type_name());
    }
    label = name.text();
  }
  const Json table = json["table"];
  if (table && !table.is_array()) {
    return InvalidArgument("table is %s, not a list", table.type_name());
  }
  for (Json m = table.first(); m; m = m.next()) {
    RINGLET_RETURN_IF_ERROR(ReadRun(m, columns));
  }
  // In a table without names earlier programs wrote the label's number.
  if (names.empty() && ParseWholeNumber(label, kMaxNames) >= 0) label.clear();
  if (columns->empty()) return Status();
  RINGLET_RETURN_IF_ERROR(CheckColumns(*columns, names.size()));
  for (TableColumn& column : *columns) {
    if (column.role == Role::kLabel) column.name = label;
    if (column.role != Role::kValue || names.empty()) continue;
    column.name = names[static_cast<size_t>(column.value)];
  }
  return Status();
}

// --- the encoding ------------------------------------------------------------

void WriteEncoding(const TableEncoding& encoding, JsonWriter* json) {
  if (!encoding.na_values.empty()) {
    WriteNames("na_values", encoding.na_values, json);
  }
  if (encoding.decimal > ' ' && encoding.decimal <= '~') {
    json->Key("decimal").String(std::string(1, encoding.decimal));
  }
  if (encoding.drop_unlabelled) json->Key("drop_unlabelled").Bool(true);
  if (encoding.columns.empty()) return;
  json->Key("encoding").BeginArray();
  for (const auto& [place, column] : encoding.columns) {
    json->BeginObject();
    json->Key("column").Number(static_cast<double>(place));
    if (!column.categories.empty()) {
      json->Key("one_hot").Bool(column.one_hot);
      json->Key("other").Bool(column.has_unknown_category);
      json->Key("categories").List(column.categories);
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
    return InvalidArgument(
        "a column of encoding has no column number, or another column's");
  }
  TableEncoding::Column column;
  RINGLET_RETURN_IF_ERROR(
      ReadDifferentNames(json, "categories", &column.categories));
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
  RINGLET_RETURN_IF_ERROR(
      ReadDifferentNames(json, "na_values", &encoding->na_values));
  if (const Json decimal = json["decimal"]) {
    const std::string text = decimal.text();
    if (text.size() != 1) {
      return InvalidArgument("decimal is %s, not a character",
                             decimal.type_name());
    }
    encoding->decimal = text[0];
  }
  RINGLET_RETURN_IF_ERROR(
      ReadBool(json, "drop_unlabelled", &encoding->drop_unlabelled));
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

// --- windows -----------------------------------------------------------------

// The numbers of a description's windows, and their least values.
struct WindowsField {
  const char* key;
  int64_t TimeseriesOptions::*value;
  int64_t min_value;
};
constexpr WindowsField kWindows[] = {
    {"sequence_length", &TimeseriesOptions::sequence_length, 1},
    {"sequence_stride", &TimeseriesOptions::sequence_stride, 1},
    {"sampling_rate", &TimeseriesOptions::sampling_rate, 1},
    {"target_offset", &TimeseriesOptions::target_offset, 0},
    {"target_length", &TimeseriesOptions::target_length, 0}};

void WriteWindows(const DataDescription& description, JsonWriter* json) {
  if (!description.windows) return;
  const TimeseriesOptions& windows = *description.windows;
  json->Key("windows").BeginObject();
  for (const WindowsField& field : kWindows) {
    json->Key(field.key).Int(windows.*field.value);
  }
  json->Key("target_columns").List(windows.target_columns);
  const bool fits = CanBeSaved({description.group}, kMaxLabelBytes);
  json->Key("group").String(fits ? description.group : "?");
  json->EndObject();
}

// `inputs` is the number of the model's input values, or 0 if it is not known.
// Each row has an equal part of them.
Status ReadWindows(const Json& json, int64_t inputs,
                   DataDescription* description) {
  if (!json) return Status();
  TimeseriesOptions& windows = description->windows.emplace();
  constexpr int64_t kMaxRows = int64_t{1} << 30;
  for (const WindowsField& field : kWindows) {
    int64_t* const value = &(windows.*field.value);
    if (json[field.key].ToInt64(value) && *value >= field.min_value &&
        *value <= kMaxRows) {
      continue;
    }
    return InvalidArgument("windows.%s is not a number of rows", field.key);
  }
  if (inputs > 0 && inputs % windows.sequence_length != 0) {
    return InvalidArgument(
        "windows.sequence_length is %lld, but the model takes %lld values",
        static_cast<long long>(windows.sequence_length),
        static_cast<long long>(inputs));
  }
  const Json columns = json["target_columns"];
  if (!columns.is_array() || columns.size() > kMaxNames) {
    return InvalidArgument("windows.target_columns is %s, not a list",
                           columns.type_name());
  }
  for (Json m = columns.first(); m; m = m.next()) {
    RINGLET_RETURN_IF_ERROR(ReadPlace("windows.target_columns", m,
                                      &windows.target_columns.emplace_back()));
  }
  description->group = json["group"].text();
  return Status();
}

// --- the text ----------------------------------------------------------------

void WriteText(const DataDescription& description, JsonWriter* json) {
  if (!description.text) return;
  const TextVectorization& text = *description.text;
  json->Key("text").BeginObject();
  json->Key("standardize").String(FirstName(kStandardize, text.standardize));
  json->Key("split").String(FirstName(kSplit, text.split));
  json->Key("output_sequence_length").Int(text.output_sequence_length);
  const std::vector<std::string>& tokens = text.vocabulary;
  if (!tokens.empty() && CanBeSaved(tokens, kMaxVocabularyBytes)) {
    json->Key("vocabulary").List(tokens);
  } else {
    json->Key("vocabulary_digest")
        .String(tokens.empty() ? description.vocabulary_digest
                               : VocabularyDigest(tokens));
  }
  json->EndObject();
}

Status ReadText(const Json& json, DataDescription* description) {
  if (!json) return Status();
  TextVectorization& text = description->text.emplace();
  RINGLET_RETURN_IF_ERROR(Choose(kStandardize, "text", "standardize",
                                 json["standardize"].text(),
                                 &text.standardize));
  RINGLET_RETURN_IF_ERROR(
      Choose(kSplit, "text", "split", json["split"].text(), &text.split));
  int64_t* const length = &text.output_sequence_length;
  if (!json["output_sequence_length"].ToInt64(length) || *length < 1 ||
      *length > kMaxNames) {
    return InvalidArgument("text.output_sequence_length must be from 1 to %lld",
                           static_cast<long long>(kMaxNames));
  }
  RINGLET_RETURN_IF_ERROR(
      ReadDifferentNames(json, "vocabulary", &text.vocabulary));
  if (!text.vocabulary.empty()) return Status();
  description->vocabulary_digest = json["vocabulary_digest"].text();
  if (!description->vocabulary_digest.empty()) return Status();
  return InvalidArgument("text has no vocabulary and no digest of one");
}

// --- pictures ----------------------------------------------------------------

void WriteResizing(const DataDescription& description, JsonWriter* json) {
  if (!description.resizing) return;
  const ImageResizing& resizing = *description.resizing;
  json->Key("pictures").BeginObject();
  json->Key("interpolation")
      .String(FirstName(kImageInterpolations, resizing.interpolation));
  json->Key("crop_to_aspect_ratio").Bool(resizing.crop_to_aspect_ratio);
  json->EndObject();
}

Status ReadResizing(const Json& json, DataDescription* description) {
  if (!json) return Status();
  ImageResizing& resizing = description->resizing.emplace();
  RINGLET_RETURN_IF_ERROR(Choose(kImageInterpolations, "pictures",
                                 "interpolation", json["interpolation"].text(),
                                 &resizing.interpolation));
  return ReadBool(json, "crop_to_aspect_ratio", &resizing.crop_to_aspect_ratio);
}

// --- sound -------------------------------------------------------------------

void WriteSound(const DataDescription& description, JsonWriter* json) {
  if (description.sampling_rate == 0) return;
  json->Key("sound").BeginObject();
  json->Key("sampling_rate").Int(description.sampling_rate);
  json->EndObject();
}

Status ReadSound(const Json& json, DataDescription* description) {
  if (!json) return Status();
  int64_t* const rate = &description->sampling_rate;
  if (json["sampling_rate"].ToInt64(rate) && *rate >= 1 &&
      *rate <= int64_t{1} << 30) {
    return Status();
  }
  return InvalidArgument("sound.sampling_rate must be from 1 to 1073741824");
}

}  // namespace

std::string VocabularyDigest(const std::vector<std::string>& vocabulary) {
  Fnv1a digest;
  for (const std::string& token : vocabulary) digest.Add(token);
  return HexText(digest.value());
}

bool CanBeSaved(const std::vector<std::string>& names, size_t max_bytes) {
  size_t bytes = 0;
  for (const std::string& name : names) {
    // JSON has only UTF-8, and Json no NUL in a string.
    if (ValidUtf8Bytes(name) != name.size()) return false;
    if (name.find('\0') != std::string::npos) return false;
    // The header is JSON that has this JSON as a string.
    const std::string once = JsonWriter().String(name).text();
    bytes += JsonWriter().String(once).text().size() + 1;
  }
  return bytes <= max_bytes;
}

std::string ToJson(const DataDescription& description) {
  JsonWriter json;
  json.BeginObject();
  const Scale& scale = description.scale;
  if (std::isfinite(scale.factor) && std::isfinite(scale.offset)) {
    json.Key("scale").Float(scale.factor);
    json.Key("offset").Float(scale.offset);
  }
  const std::vector<TableColumn>& columns = description.columns;
  WriteNames("columns", ValueNames(columns), &json);
  WriteNames("classes", description.classes, &json);
  WriteLabel(columns, &json);
  if (!columns.empty()) WriteTable(columns, &json);
  WriteEncoding(description.encoding, &json);
  WriteText(description, &json);
  WriteWindows(description, &json);
  WriteResizing(description, &json);
  WriteSound(description, &json);
  json.EndObject();
  return json.text();
}

Status DataDescriptionFromJson(const std::string& text, int64_t inputs,
                               DataDescription* description) {
  Json json;
  RINGLET_RETURN_IF_ERROR(Json::Parse(text, "its text", &json));
  if (!json.is_object()) {
    return InvalidArgument("it is %s, not an object", json.type_name());
  }
  DataDescription read;
  RINGLET_RETURN_IF_ERROR(ReadNumber(json, "scale", &read.scale.factor));
  RINGLET_RETURN_IF_ERROR(ReadNumber(json, "offset", &read.scale.offset));
  RINGLET_RETURN_IF_ERROR(ReadDifferentNames(json, "classes", &read.classes));
  RINGLET_RETURN_IF_ERROR(ReadEncoding(json, &read.encoding));
  RINGLET_RETURN_IF_ERROR(ReadText(json["text"], &read));
  RINGLET_RETURN_IF_ERROR(ReadWindows(json["windows"], inputs, &read));
  RINGLET_RETURN_IF_ERROR(ReadResizing(json["pictures"], &read));
  RINGLET_RETURN_IF_ERROR(ReadSound(json["sound"], &read));
  RINGLET_RETURN_IF_ERROR(ReadTable(json, &read.columns));
  *description = std::move(read);
  return Status();
}

Status ReadDataDescription(const SafetensorsReader& file, const Model& model,
                           std::optional<DataDescription>* description) {
  description->reset();
  // Another program's file may have another text there.
  const auto text = file.metadata().find(kDataDescriptionKey);
  if (text == file.metadata().end() || !IsRinglets(file.metadata())) {
    return Status();
  }
  const int64_t inputs =
      model.num_inputs() == 1 ? model.input_shape().elements() : 0;
  return DataDescriptionFromJson(text->second, inputs, &description->emplace())
      .Annotate("%s: metadata '%s'", file.path().c_str(), kDataDescriptionKey);
}

}  // namespace ringlet
