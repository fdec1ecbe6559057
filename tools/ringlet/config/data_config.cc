// Which of the five forms the data have (FormsOf), and what only some fields
// together permit. The fields of a form are read by its file: data_part.cc
// (arrays), table_config.cc, text_config.cc, picture_config.cc (sound too) and
// timeseries_config.cc. A new field of one form goes into kFieldsOfForms too,
// or it is reported as unknown where no form is given. As in run_config.cc
// every field must be reached where Json::ForDescription is read.

#include "data_config.h"

#include <utility>

#include "column_fields.h"
#include "core/base/text.h"
#include "io/keras/field_reader.h"
#include "ringlet/readers.h"
#include "run_config.h"
#include "scaled_number.h"
#include "table_config.h"

namespace ringlet {
namespace {

void ReadWeightPath(FieldReader* fields, const std::string& folder,
                    std::string* path) {
  fields->Take("sample_weight", kSampleWeightTakes);
  if (!fields->MarkOptional("sample_weight")) return;
  ReadPath("sample_weight", folder, fields, path);
}

constexpr Named<AutoShardPolicy> kPolicies[] = {
    {"auto", AutoShardPolicy::kAuto},
    {"file", AutoShardPolicy::kFile},
    {"data", AutoShardPolicy::kData},
    {"off", AutoShardPolicy::kOff}};

void ReadOwnExamples(FieldReader* fields, std::vector<int64_t>* counts) {
  fields->List("own_examples", 1,
               "a list of whole numbers, one for each worker",
               [&](const Json& item) {
                 counts->push_back(0);
                 return item.ToInt64(&counts->back()) && counts->back() >= 0;
               });
}

// Reads the memory of examples that stay in their files.
void ReadMemory(const Json& json, FieldReader* fields, DataConfig* data) {
  const char kKey[] = "memory";
  const char kTakes[] =
      "bytes, as \"32MB\", \"512KB\" or \"1GB\", or a whole number";
  if (!fields->MarkOptional(kKey)) return;
  const Json value = fields->Take(kKey, kTakes);
  if (!value) return;
  if (value.is_string() ? !ReadByteCount(value.text(), &data->memory)
                        : !value.ToInt64(&data->memory) || data->memory < 1) {
    return fields->MustBe(kKey, kTakes);
  }
  if (json["in_memory"] && data->in_memory) {
    fields->Refuse(kKey, "\"in_memory\" must be false, or be left out");
  }
  data->in_memory = false;
}

// The fields that not all forms have, with a space behind each.
constexpr char kFieldsOfForms[] =
    "images labels x y csv label header separator decimal comment columns "
    "drop categorical unknown_categories missing na_values sample_weight "
    "sequence_length sequence_stride sampling_rate start_index end_index "
    "target_offset target_length target_columns group validation_groups text "
    "vocabulary max_tokens standardize split output_sequence_length "
    "directory audio_directory image audio image_size color_mode label_mode "
    "class_names interpolation crop_to_aspect_ratio subset validation_split "
    "seed damaged background_noise background_frequency background_volume "
    "time_shift_ms";

void TakeFieldsOfForms(FieldReader* fields) {
  for (const std::string& key : SplitAt(kFieldsOfForms, ' ')) {
    fields->Take(key.c_str());
  }
}

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

// Takes the fields of sound that windows and texts have too, in another sense.
void TakeSoundFields(bool of_csv, FieldReader* fields, DataConfig* data) {
  PictureConfig* const sound = &data->pictures;
  const char kLength[] = "output_sequence_length";
  sound->output_sequence_length =
      data->text.vectorization.output_sequence_length;
  if (!of_csv) {
    fields->IntOrNull(kLength, 1, int64_t{1} << 30,
                      &sound->output_sequence_length);
  }
  TimeseriesOptions* const windows = &data->windows.options;
  if (fields->MarkOptional("sampling_rate")) {
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
  // The labels of a directory are "inferred", as in Keras.
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
    ReadPath("images", folder, fields, &data->images);
    if (forms.needs_targets) ReadPath("labels", folder, fields, &data->labels);
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
    ReadPath("csv", folder, fields, &data->csv);
    ReadTable(fields, &data->table);
    ReadText(folder, forms.of_sound, fields, &data->text);
    data->text.training = {data->csv, data->text.column, data->table};
  }
}

// Refuses fields that do not fit together.
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
    fields.Refuse("own_examples", "set \"auto_shard_policy\": \"off\" too");
  }
  fields.Bool("in_memory", &data->in_memory);
  ReadMemory(json, &fields, data);
  data->table.in_memory = data->in_memory;
  const DataForms forms = FormsOf(json);
  if (forms.inferred) fields.Ignore({"labels"});
  if (json.is_object() && !IsOneForm(json, forms)) {
    TakeFieldsOfForms(&fields);
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
// which is of the training data. Validation may have them in a different
// column.
void InheritText(const Json& json, const TextConfig& train, DataConfig* data,
                 FieldReader* fields) {
  TextConfig* const text = &data->text;
  if (!IsAlone(*data) || !data->in_memory) {
    fields->Fail(InvalidArgument(
        "data.validation: the \"text\" of data.train %s", kIsAlone));
  }
  const TextVectorization vectorization = text->vectorization;
  const TextVectorization& wanted = train.vectorization;
  const std::pair<const char*, bool> same[] = {
      {"max_tokens", vectorization.max_tokens == wanted.max_tokens},
      {"standardize", vectorization.standardize == wanted.standardize},
      {"split", vectorization.split == wanted.split},
      {"output_sequence_length",
       vectorization.output_sequence_length == wanted.output_sequence_length}};
  for (const auto& [key, is_same] : same) {
    if (!IsGiven(json[key]) || is_same) continue;
    fields->Fail(InvalidArgument(
        "data.validation.%s: differs from data.train's, which has the "
        "same text; leave it out",
        key));
  }
  const std::string column = text->column, vocabulary = text->vocabulary;
  *text = train;
  if (!column.empty()) text->column = column;
  if (!vocabulary.empty()) text->vocabulary = vocabulary;
}

// Takes the examples of validation from the training data, since data.train has
// the field `key`. `makes` is the verb of this field in messages.
void DivideTraining(const std::string& key, const std::string& makes,
                    FieldReader* fields, const DataConfig& train,
                    DataConfig* validation) {
  if (!validation->empty()) {
    fields->Refuse("validation",
                   "data.train." + key + " " + makes + " it; leave one out");
  }
  if (!train.own_examples.empty()) {
    fields->Refuse("train", "all workers validate on the same examples; with " +
                                key + " leave own_examples out");
  }
  *validation = train;
}

// The data are split as by Keras's subset "both".
void SplitPictures(FieldReader* fields, DataConfig* train,
                   DataConfig* validation) {
  DivideTraining("validation_split", "makes", fields, *train, validation);
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
  if (fields.MarkOptional("train")) {
    fields.Fail(ReadData(fields.Part("train", "an object"), "data.train",
                         folder, train));
  }
  if (fields.MarkOptional("validation")) {
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
    DivideTraining("validation_groups", "make", &fields, *train, validation);
    validation->windows.is_validation = true;
  }
  return fields.Finish();
}

}  // namespace ringlet
