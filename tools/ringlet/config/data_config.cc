// The fields decide which of the five forms the data have. As in run_config.cc
// every field must be reached where Json::ForDescription is read.

#include "data_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "column_fields.h"
#include "core/base/text.h"
#include "io/files/path.h"
#include "io/keras/field_reader.h"
#include "io/keras/keras_json.h"
#include "io/readers/arrays/array_path.h"
#include "io/sound/wav.h"
#include "ringlet/readers.h"
#include "run_config.h"
#include "scaled_number.h"
#include "timeseries_windows.h"

namespace ringlet {
namespace {

constexpr char kColumns[] = "a list of columns' names or numbers";
constexpr char kWeightOfCsv[] =
    "a file's path (NPY), or for a CSV a column's name or number";

void ReadPath(FieldReader* fields, const char* key, const std::string& folder,
              std::string* path) {
  std::string text;
  fields->Text(key, "the path of a file", &text);
  if (!text.empty()) *path = PathIn(folder, text);
}

void ReadColumnName(const char* key, FieldReader* fields,
                    const CsvOptions& table, std::string* name) {
  fields->Text(key, "a column's name or number", name);
  if (!table.header.value_or(true)) {
    fields->Refuse(key, "a name needs a header; give the column's number");
  }
}

constexpr Named<bool> kUnknown[] = {{"error", false}, {"other", true}};

void ReadCategorical(FieldReader* fields, CsvOptions* table) {
  bool other = false;
  fields->Choice("unknown_categories", kUnknown, &other);
  const char kKey[] = "categorical";
  const std::string takes =
      std::string(kColumns) +
      ", or an object: columns' names and one_hot or index";
  if (!fields->Has(kKey)) return;
  const Json json = fields->Take(kKey, takes);
  if (!json) return;
  const bool by_name = json.is_object();
  for (Json m = json.first(); m && (by_name || json.is_array()); m = m.next()) {
    CsvOptions::Categorical column;
    column.has_unknown_category = other;
    if (by_name) {
      column.column = m.key();
      column.one_hot = m.is_string() && m.text() == "one_hot";
      if (!column.one_hot && (!m.is_string() || m.text() != "index")) {
        return fields->MustBe(kKey, takes);
      }
    } else if (!ReadColumn(m, &column.column)) {
      return fields->MustBe(kKey, takes);
    }
    table->categorical.push_back(column);
  }
  if (table->categorical.empty()) fields->MustBe(kKey, takes);
}

// False if `json` is no rule.
bool ReadMissingRule(const Json& json, CsvOptions::MissingRule* rule) {
  using Missing = CsvOptions::Missing;
  if (json.is_number()) {
    rule->kind = Missing::kConstant;
    rule->value = static_cast<float>(json.number());
    return std::isfinite(rule->value);
  }
  const std::string text = json.is_string() ? json.text() : "";
  rule->kind = text == "drop"   ? Missing::kDrop
               : text == "mean" ? Missing::kMean
                                : Missing::kError;
  return rule->kind != Missing::kError || text == "error";
}

void ReadMissing(FieldReader* fields, CsvOptions* table) {
  const char kKey[] = "missing";
  const char kTakes[] =
      "\"error\", \"drop\", \"mean\" or a number, or an object with one of "
      "these by columns' names";
  if (fields->Has(kKey)) {
    const Json json = fields->Take(kKey, kTakes, "\"error\"");
    if (json && !json.is_object() && !ReadMissingRule(json, &table->missing)) {
      fields->MustBe(kKey, kTakes);
    }
    for (Json m = json.first(); m && json.is_object(); m = m.next()) {
      if (!ReadMissingRule(m, &table->missing_by_column[m.key()])) {
        fields->MustBe(kKey, kTakes);
      }
    }
  }
  const char kTexts[] = "na_values";
  if (!fields->Has(kTexts)) return;
  const Json json = fields->Take(kTexts, "a list of texts");
  if (!json) return;
  for (Json m = json.first(); m; m = m.next()) {
    if (!m.is_string()) return fields->MustBe(kTexts, "a list of texts");
    table->na_values.push_back(m.text());
  }
  if (!json.is_array()) fields->MustBe(kTexts, "a list of texts");
}

void ReadDialect(FieldReader* fields, CsvOptions* table) {
  fields->Bool("header", &table->header);
  fields->Character("separator", &table->separator);
  fields->Character("decimal", &table->decimal);
  if (fields->Has("comment")) {
    fields->Character("comment", &table->comment);
  }
  if (table->decimal == table->separator) {
    fields->Refuse("decimal", "\"separator\" must be another character");
  }
}

void ReadCsv(FieldReader* fields, const std::string& folder, DataConfig* data) {
  CsvOptions* const table = &data->table;
  ReadPath(fields, "csv", folder, &data->csv);
  ReadDialect(fields, table);
  int64_t column = -1;
  const Json label =
      fields->Take("label",
                   "a column's name, or its number from " +
                       AsJson(-kMaxColumn) + " to " + AsJson(kMaxColumn),
                   AsJson(column));
  if (label.is_string()) {
    ReadColumnName("label", fields, *table, &table->label_name);
  } else if (fields->Has("label")) {
    fields->Int("label", -kMaxColumn, kMaxColumn, &column);
    table->label_column = static_cast<int>(column);
  }
  const Json weight = fields->Take("sample_weight", kWeightOfCsv);
  if (weight.is_string()) {
    ReadColumnName("sample_weight", fields, *table, &table->weight_name);
  } else if (weight && fields->Has("sample_weight")) {
    column = -1;
    fields->Int("sample_weight", -kMaxColumn, kMaxColumn, &column);
    table->weight_column = static_cast<int>(column);
  }
  ReadColumns("columns", fields, &table->take);
  ReadColumns("drop", fields, &table->drop);
  if (!table->take.empty() && !table->drop.empty()) {
    fields->Refuse("drop", "\"columns\" lists the others; give one of the two");
  }
  ReadCategorical(fields, table);
  ReadMissing(fields, table);
}

void ReadWeightPath(FieldReader* fields, const std::string& folder,
                    std::string* path) {
  fields->Take("sample_weight", kWeightOfCsv);
  if (!fields->Has("sample_weight")) return;
  ReadPath(fields, "sample_weight", folder, path);
}

constexpr char kParts[] =
    "the path of a file, a list, or an object by layers' names";

void ReadScale(FieldReader* fields, std::optional<Scale>* scale) {
  if (fields->Take("scale") || fields->Take("offset")) scale->emplace();
  Scale unused;
  Scale* const read = *scale ? &**scale : &unused;
  fields->Float("scale", &read->factor);
  fields->Float("offset", &read->offset);
}

Status ReadPart(const Json& json, const std::string& path,
                const std::string& folder, DataPart* part) {
  if (json.is_string() && !json.text().empty()) {
    part->path = PathIn(folder, json.text());
    return Status();
  }
  FieldReader fields(json, path);
  fields.Require("file");
  ReadPath(&fields, "file", folder, &part->path);
  ReadScale(&fields, &part->scale);
  return fields.Finish();
}

void ReadParts(const char* key, const std::string& folder, FieldReader* fields,
               std::string* path, std::vector<DataPart>* parts) {
  fields->Require(key);
  const Json json = fields->Take(key, kParts);
  if (json.is_string()) return ReadPath(fields, key, folder, path);
  if (!json.is_array() && !json.is_object()) {
    if (json) fields->MustBe(key, kParts);
    return;
  }
  int64_t i = 0;
  for (Json m = json.first(); m && fields->ok(); m = m.next(), ++i) {
    parts->emplace_back();
    const std::string at = fields->PathOf(key);
    const bool named = json.is_object();
    if (named) parts->back().name = m.key();
    fields->Fail(
        ReadPart(m, named ? JoinPath(at, Printable(m.key())) : JoinPath(at, i),
                 folder, &parts->back()));
  }
  if (i == 0) fields->MustBe(key, kParts);
}

constexpr Named<AutoShardPolicy> kPolicies[] = {
    {"auto", AutoShardPolicy::kAuto},
    {"file", AutoShardPolicy::kFile},
    {"data", AutoShardPolicy::kData},
    {"off", AutoShardPolicy::kOff}};

void ReadOwnExamples(FieldReader* fields, std::vector<int64_t>* counts) {
  const char kKey[] = "own_examples";
  const char kTakes[] = "a list of whole numbers, one for each worker";
  if (!fields->Has(kKey)) return;
  const Json json = fields->Take(kKey, kTakes);
  if (!json) return;
  for (Json m = json.first(); m; m = m.next()) {
    int64_t count = 0;
    if (!m.ToInt64(&count) || count < 0) return fields->MustBe(kKey, kTakes);
    counts->push_back(count);
  }
  if (counts->empty()) fields->MustBe(kKey, kTakes);
}

// The memory of examples that stay in their files.
void ReadMemory(const Json& json, FieldReader* fields, DataConfig* data) {
  const char kKey[] = "memory";
  const char kTakes[] =
      "bytes, as \"32MB\", \"512KB\" or \"1GB\", or a whole number";
  if (!fields->Has(kKey)) return;
  const Json given = fields->Take(kKey, kTakes);
  if (!given) return;
  if (given.is_string() ? !ReadByteCount(given.text(), &data->memory)
                        : !given.ToInt64(&data->memory) || data->memory < 1) {
    return fields->MustBe(kKey, kTakes);
  }
  if (json["in_memory"] && data->in_memory) {
    fields->Refuse(kKey, "\"in_memory\" must be false, or be left out");
  }
  data->in_memory = false;
}

// The fields that not all forms have.
constexpr const char* kFieldsOfForms[] = {"images",
                                          "labels",
                                          "x",
                                          "y",
                                          "csv",
                                          "label",
                                          "header",
                                          "separator",
                                          "decimal",
                                          "comment",
                                          "columns",
                                          "drop",
                                          "categorical",
                                          "unknown_categories",
                                          "missing",
                                          "na_values",
                                          "sample_weight",
                                          "sequence_length",
                                          "sequence_stride",
                                          "sampling_rate",
                                          "start_index",
                                          "end_index",
                                          "target_offset",
                                          "target_length",
                                          "target_columns",
                                          "group",
                                          "validation_groups",
                                          "text",
                                          "vocabulary",
                                          "max_tokens",
                                          "standardize",
                                          "split",
                                          "output_sequence_length",
                                          "directory",
                                          "audio_directory",
                                          "image",
                                          "audio",
                                          "image_size",
                                          "color_mode",
                                          "label_mode",
                                          "class_names",
                                          "interpolation",
                                          "crop_to_aspect_ratio",
                                          "subset",
                                          "validation_split",
                                          "seed",
                                          "damaged",
                                          "background_noise",
                                          "background_frequency",
                                          "background_volume",
                                          "time_shift_ms"};

constexpr char kIsAlone[] =
    "is the only column of x, in memory, and any field is a text, also an "
    "empty one; leave out columns, drop, categorical, missing, na_values, "
    "sequence_length, in_memory and memory";

constexpr char kIsPath[] =
    "has the paths of the files; leave out text, columns, drop, "
    "categorical, missing, na_values and sequence_length";

// True if no field gives columns beside the text, or the paths.
bool IsAlone(const DataConfig& data) {
  const CsvOptions& table = data.table;
  return data.windows.empty() && table.take.empty() && table.drop.empty() &&
         table.categorical.empty() &&
         table.missing.kind == CsvOptions::Missing::kError &&
         table.missing_by_column.empty() && table.na_values.empty();
}

// The fields of sound that windows and texts have too, in another sense.
void TakeSoundFields(bool of_csv, FieldReader* fields, DataConfig* data) {
  PictureConfig* const sound = &data->pictures;
  const char kLength[] = "output_sequence_length";
  sound->output_sequence_length =
      data->text.vectorization.output_sequence_length;
  if (!of_csv && fields->Has(kLength)) {
    fields->Int(kLength, 1, int64_t{1} << 30, &sound->output_sequence_length);
  }
  TimeseriesOptions* const windows = &data->windows.options;
  if (fields->Has("sampling_rate")) {
    sound->sampling_rate = windows->sampling_rate;
  }
  windows->sampling_rate = 1;
}

// True for a field that is neither missing nor null.
bool IsGiven(const Json& json) {
  return json && json.kind() != Json::Kind::kNull;
}

// The forms of data that the object has fields of.
struct DataForms {
  bool idx = false, npy = false, csv = false;
  bool folders = false;        // files in a folder for each class
  bool sounds = false;         // `folders` of sound
  bool of_sound = false;       // `sounds`, or a CSV with paths of sound
  bool inferred = false;       // "labels" are the folders
  bool needs_targets = false;  // no column of x is the target
};

DataForms FormsOf(const Json& json) {
  DataForms forms;
  forms.sounds = !!json["audio_directory"];
  forms.folders = forms.sounds || json["directory"];
  forms.of_sound = forms.sounds || IsGiven(json["audio"]);
  // As in Keras: the labels of a directory are "inferred".
  const Json labels = json["labels"];
  forms.inferred = forms.folders && labels.text() == "inferred";
  forms.idx = json["images"] || (labels && !forms.inferred);
  forms.npy = json["x"] || json["y"];
  forms.csv = json["csv"] || json["label"];
  forms.needs_targets =
      json.log() != nullptr || !json["target_columns"].is_array();
  return forms;
}

bool IsOneForm(const Json& json, const DataForms& forms) {
  return forms.idx + forms.npy + forms.csv + forms.folders == 1 &&
         !(forms.sounds && json["directory"]);
}

// Reads the paths of IDX, NPY or CSV files, and how their values are read.
void ReadFiles(const DataForms& forms, const std::string& folder,
               FieldReader* fields, DataConfig* data) {
  if (forms.idx) {
    fields->Require("images");
    if (forms.needs_targets) fields->Require("labels");
    ReadPath(fields, "images", folder, &data->images);
    if (forms.needs_targets) ReadPath(fields, "labels", folder, &data->labels);
    ReadWeightPath(fields, folder, &data->sample_weight);
  }
  if (forms.npy) {
    ReadParts("x", folder, fields, &data->x, &data->inputs);
    if (forms.needs_targets) {
      ReadParts("y", folder, fields, &data->y, &data->targets);
    }
    ReadWeightPath(fields, folder, &data->sample_weight);
  }
  if (forms.csv) {
    fields->Require("csv");
    ReadCsv(fields, folder, data);
    ReadText(folder, forms.of_sound, fields, &data->text);
    data->text.training = {data->csv, data->text.column, data->table};
  }
}

// Refuses fields that do not fit the others.
void CheckTogether(const Json& json, const DataForms& forms,
                   const DataConfig& data, FieldReader* fields) {
  const TimeseriesConfig& windows = data.windows;
  if (!windows.empty() && data.has_parts()) {
    fields->Refuse("sequence_length",
                   "windows are of one input and one output; \"x\" and \"y\" "
                   "must be files");
  }
  if (!windows.target_columns.empty()) {
    for (const char* key : {"y", "labels", "label"}) {
      if (json.log() == nullptr && json[key]) {
        fields->Refuse(key, "\"target_columns\" are the targets; leave it out");
      }
    }
  }
  const bool text_is_alone = IsAlone(data) && data.in_memory;
  if (!data.text.empty() && !text_is_alone) fields->Refuse("text", kIsAlone);
  const bool has_text = !data.text.empty() || !IsAlone(data);
  if (!data.pictures.column.empty() && has_text) {
    fields->Refuse(forms.of_sound ? "audio" : "image", kIsPath);
  }
  if (forms.folders && !windows.empty()) {
    fields->Refuse(forms.sounds ? "audio_directory" : "directory",
                   "windows are of rows, not of files");
  }
}

Status ReadData(const Json& json, const std::string& path,
                const std::string& folder, DataConfig* data) {
  FieldReader fields(json, path);
  ReadScale(&fields, &data->scale);
  fields.Choice("auto_shard_policy", kPolicies, &data->policy);
  ReadOwnExamples(&fields, &data->own_examples);
  if (!data->own_examples.empty() && data->policy != AutoShardPolicy::kOff) {
    fields.Refuse("own_examples", "say \"auto_shard_policy\": \"off\" too");
  }
  fields.Bool("in_memory", &data->in_memory);
  ReadMemory(json, &fields, data);
  data->table.in_memory = data->in_memory;
  const DataForms forms = FormsOf(json);
  if (forms.inferred) fields.Ignore({"labels"});
  if (json.is_object() && !IsOneForm(json, forms)) {
    for (const char* key : kFieldsOfForms) {
      fields.Take(key);
    }
    RINGLET_RETURN_IF_ERROR(fields.Finish());
    return InvalidArgument(
        "%s: must have one of {images, labels} (IDX), {x, y} (NPY), "
        "{csv, label}, {directory} (pictures) and {audio_directory} (sound)",
        path.c_str());
  }
  ReadFiles(forms, folder, &fields, data);
  if (json["directory"]) fields.Require("directory");
  if (forms.sounds) fields.Require("audio_directory");
  if (forms.folders || forms.csv) {
    ReadPictures(forms.csv, folder, &fields, &data->pictures);
  }
  data->pictures.options.in_memory = data->in_memory;
  ReadTimeseries(forms.csv, forms.of_sound, folder, &fields, &data->windows);
  if (json.is_object() && forms.of_sound) {
    TakeSoundFields(forms.csv, &fields, data);
  }
  if (forms.csv) SetLabelAndGroupColumns(data->windows, &data->table);
  CheckTogether(json, forms, *data, &fields);
  return fields.Finish();
}

// The texts of training and validation become numbers by the same vocabulary,
// that of the training data. Validation may have them in another column.
void InheritText(const Json& json, const TextConfig& train, DataConfig* data,
                 FieldReader* fields) {
  TextConfig* const text = &data->text;
  if (!IsAlone(*data) || !data->in_memory) {
    fields->Fail(InvalidArgument(
        "data.validation: the \"text\" of data.train %s", kIsAlone));
  }
  const TextVectorization own = text->vectorization;
  const TextVectorization& wanted = train.vectorization;
  const std::pair<const char*, bool> same[] = {
      {"max_tokens", own.max_tokens == wanted.max_tokens},
      {"standardize", own.standardize == wanted.standardize},
      {"split", own.split == wanted.split},
      {"output_sequence_length",
       own.output_sequence_length == wanted.output_sequence_length}};
  for (const auto& [key, is_same] : same) {
    const Json::Kind kind = json[key].kind();
    const bool given = kind != Json::Kind::kNone && kind != Json::Kind::kNull;
    if (!given || is_same) continue;
    fields->Fail(InvalidArgument(
        "data.validation.%s: is another than that of data.train, which has the "
        "same text; leave it out",
        key));
  }
  const std::string column = text->column, vocabulary = text->vocabulary;
  *text = train;
  if (!column.empty()) text->column = column;
  if (!vocabulary.empty()) text->vocabulary = vocabulary;
}

// As with Keras's subset "both".
void SplitPictures(FieldReader* fields, DataConfig* train,
                   DataConfig* validation) {
  if (!validation->empty()) {
    fields->Refuse("validation",
                   "data.train.validation_split makes it; leave one out");
  }
  if (!train->own_examples.empty()) {
    fields->Refuse("train",
                   "all workers validate on the same examples; with "
                   "validation_split leave own_examples out");
  }
  *validation = *train;
  train->pictures.options.subset = ImageOptions::Subset::kTraining;
  validation->pictures.options.subset = ImageOptions::Subset::kValidation;
}

// Refuses fields of data.validation that only data.train has.
void RefuseOfTraining(const DataConfig& validation, FieldReader* fields) {
  if (!validation.own_examples.empty()) {
    fields->Refuse(
        "validation",
        "all workers validate on the same examples; leave own_examples out");
  }
  const AudioOptions& changes = validation.pictures.changes;
  if (!changes.background_noise.empty() || changes.time_shift_ms > 0) {
    fields->Refuse("validation",
                   "background_noise and time_shift_ms belong to data.train");
  }
  if (!validation.windows.validation_groups.empty()) {
    fields->Refuse("validation", "validation_groups belong to data.train");
  }
}

}  // namespace

Status ReadBothData(const Json& json, const std::string& folder,
                    DataConfig* train, DataConfig* validation) {
  FieldReader fields(json, "data");
  if (fields.Has("train")) {
    fields.Fail(ReadData(fields.Part("train", "an object"), "data.train",
                         folder, train));
  }
  if (fields.Has("validation")) {
    fields.Fail(ReadData(fields.Part("validation", "an object"),
                         "data.validation", folder, validation));
    RefuseOfTraining(*validation, &fields);
  }
  if (json.log() == nullptr && !train->text.empty() &&
      !validation->csv.empty()) {
    InheritText(json["validation"], train->text, validation, &fields);
  }
  for (const DataConfig* data : {train, validation}) {
    const TextConfig& text = data->text;
    if (text.empty() || text.vectorization.output_sequence_length > 0) continue;
    fields.Fail(InvalidArgument(
        "data.%s.text: needs \"output_sequence_length\", the numbers of an "
        "example",
        data == train ? "train" : "validation"));
  }
  InheritPictures(train->pictures, &validation->pictures);
  if (validation->pictures.splits()) {
    fields.Fail(
        InvalidArgument("data.validation: has a validation_split without a "
                        "\"subset\"; give \"subset\": \"validation\", or leave "
                        "validation_split out"));
  }
  if (train->pictures.splits()) SplitPictures(&fields, train, validation);
  fields.Fail(CheckMeans(train->windows, train->table));
  if (!train->empty() && !validation->empty()) {
    fields.Fail(CheckWindows(train->windows, validation->windows));
  }
  if (!train->windows.validation_groups.empty()) {
    if (!validation->empty()) {
      fields.Refuse("validation",
                    "data.train.validation_groups make it; leave one out");
    }
    if (!train->own_examples.empty()) {
      fields.Refuse("train",
                    "all workers validate on the same examples; with "
                    "validation_groups leave own_examples out");
    }
    *validation = *train;
    validation->windows.is_validation = true;
  }
  return fields.Finish();
}

namespace {

ArrayOptions ArrayOptionsOf(const DataConfig& data) {
  ArrayOptions options;
  options.in_memory = data.in_memory;
  return options;
}

// The columns and their encoding are those of `table`.
Dataset Open(const DataPart& part, const ArrayOptions& arrays,
             const CsvOptions& table) {
  const std::string& path = part.path;
  if (EndsWith(path, ".csv") || EndsWith(path, ".csv.gz")) {
    CsvOptions options;
    options.has_label = false;
    options.training_columns = table.training_columns;
    options.encoding = table.encoding;
    options.in_memory = arrays.in_memory;
    return CsvDataset(path, options).Map(part.scale.value_or(Scale()));
  }
  if (HasSoundName(path)) {
    return WavDataset(path).Map(part.scale.value_or(Scale()));
  }
  const std::string file = SplitArrayPath(path).file;
  const bool npy = file != path || EndsWith(file, ".npy") ||
                   EndsWith(file, ".npy.gz") || EndsWith(file, ".npz");
  return (npy ? NpyDataset(path, arrays) : IdxDataset(path, arrays))
      .Map(part.scale.value_or(Scale()));
}

// Opens the parts of `names`, in their order.
Status OpenNamed(const char* key, const std::string& single,
                 const std::vector<DataPart>& parts,
                 const std::vector<std::string>& names,
                 const ArrayOptions& arrays, const CsvOptions& table,
                 std::vector<Dataset>* datasets) {
  if (parts.empty()) {
    DataPart only;
    only.path = single;
    datasets->push_back(Open(only, arrays, table));
    return Status();
  }
  if (parts[0].name.empty()) {
    for (const DataPart& part : parts)
      datasets->push_back(Open(part, arrays, table));
    return Status();
  }
  for (const DataPart& part : parts) {
    if (std::count(names.begin(), names.end(), part.name) == 0) {
      return UnknownName(key, "layer", part.name, names);
    }
  }
  for (const std::string& name : names) {
    const auto found =
        std::find_if(parts.begin(), parts.end(),
                     [&](const DataPart& part) { return part.name == name; });
    if (found == parts.end()) {
      return InvalidArgument("%s.%s: is missing", key, name.c_str());
    }
    datasets->push_back(Open(*found, arrays, table));
  }
  return Status();
}

Dataset OpenParts(const DataConfig& data, const Model& model, bool targets) {
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < model.num_inputs(); ++i) {
    inputs.push_back(model.layer(i).name);
  }
  for (const OutputLoss& output : model.losses()) {
    if (output.trains) outputs.push_back(output.output);
  }
  std::vector<Dataset> x, y;
  const ArrayOptions arrays = ArrayOptionsOf(data);
  // The names of columns and the encoding are those of a single input.
  Status opened =
      OpenNamed("x", data.x, data.inputs, inputs, arrays,
                data.inputs.size() > 1 ? CsvOptions() : data.table, &x);
  if (opened.ok() && targets) {
    opened =
        OpenNamed("y", data.y, data.targets, outputs, arrays, CsvOptions(), &y);
  }
  return opened.ok() ? Zip(x, y) : Dataset(opened);
}

// Returns the examples of the files, without sample weights: rows, if there are
// windows.
Dataset OpenRows(const DataConfig& data, const Model& model, bool targets) {
  const ArrayOptions arrays = ArrayOptionsOf(data);
  if (data.has_parts()) return OpenParts(data, model, targets);
  if (!data.pictures.empty()) {
    return OpenPictures(data.pictures, data.csv, data.table, model, targets);
  }
  if (!data.text.empty()) return OpenText(data.csv, data.table, data.text);
  if (!data.csv.empty()) return CsvDataset(data.csv, data.table);
  const bool idx = !data.images.empty();
  const std::string& x = idx ? data.images : data.x;
  const std::string& y = idx ? data.labels : data.y;
  if (x.empty()) return Dataset();
  const bool has_y = targets && !y.empty();
  if (HasSoundName(x) || (has_y && HasSoundName(y))) {
    const Dataset recording = Open({"", x, {}}, arrays, {});
    return has_y ? Zip({recording}, {Open({"", y, {}}, arrays, {})})
                 : recording;
  }
  if (!has_y) {
    return idx ? IdxDataset(x, arrays) : NpyDataset(x, arrays);
  }
  return idx ? IdxDataset(x, y, arrays)
             : NpyDataset(x, y, data.table.classes, arrays);
}

}  // namespace

Dataset OpenData(const DataConfig& data, const Model& model, bool targets) {
  Dataset dataset = OpenRows(data, model, targets);
  if (!data.sample_weight.empty() && targets) {
    std::vector<float> weights;
    int64_t weights_per_example = 1;
    const Status read =
        ReadSampleWeights(data.sample_weight, &weights, &weights_per_example)
            .Annotate("sample_weight");
    dataset = read.ok() ? dataset.SampleWeight(std::move(weights),
                                               weights_per_example)
                        : Dataset(read);
  }
  const Shape input = model.num_inputs() == 1 ? model.input_shape() : Shape{0};
  dataset =
      OpenWindows(dataset, data.windows, data.csv, data.table, input, targets);
  if (dataset.empty()) return dataset;
  if (data.memory > 0) dataset = dataset.Memory(data.memory);
  return dataset.Map(data.scale.value_or(Scale()))
      .AutoShard(data.policy)
      .OwnExamples(data.own_examples);
}

}  // namespace ringlet
