// Which of the three forms data have is told by the fields that are there. As
// in run_config.cc every field must be reached where Json::Asking is read.

#include "data_config.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "io/data/readers.h"
#include "io/keras/field_reader.h"
#include "io/keras/keras_json.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMostColumn = 100000;
constexpr char kWeightOfCsv[] =
    "a file's path (NPY), or of a CSV a column's name or number";

void ReadPath(FieldReader* fields, const char* key, const std::string& folder,
              std::string* path) {
  std::string text;
  fields->Text(key, "the path of a file", &text);
  if (!text.empty()) *path = PathIn(folder, text);
}

void ReadColumnName(const char* key, FieldReader* fields,
                    const DataConfig& data, std::string* name) {
  fields->Text(key, "a column's name or number", name);
  if (!data.header.value_or(true)) {
    fields->Refuse(key, "a name needs a header; give the column's number");
  }
}

void ReadCsv(FieldReader* fields, const std::string& folder, DataConfig* data) {
  ReadPath(fields, "csv", folder, &data->csv);
  fields->Bool("header", &data->header);
  const Json label =
      fields->Take("label",
                   "a column's name, or its number from " +
                       AsJson(-kMostColumn) + " to " + AsJson(kMostColumn),
                   AsJson(data->label_column));
  if (label.is_string()) {
    ReadColumnName("label", fields, *data, &data->label_name);
  } else if (fields->Has("label")) {
    fields->Int("label", -kMostColumn, kMostColumn, &data->label_column);
  }
  fields->Character("separator", &data->separator);
  const Json weight = fields->Take("sample_weight", kWeightOfCsv);
  if (weight.is_string()) {
    ReadColumnName("sample_weight", fields, *data, &data->weight_name);
  } else if (weight && fields->Has("sample_weight")) {
    int64_t column = -1;
    fields->Int("sample_weight", -kMostColumn, kMostColumn, &column);
    data->weight_column = column;
  }
}

void ReadWeightPath(FieldReader* fields, const std::string& folder,
                    std::string* path) {
  fields->Take("sample_weight", kWeightOfCsv);
  if (!fields->Has("sample_weight")) return;
  ReadPath(fields, "sample_weight", folder, path);
}

constexpr char kParts[] =
    "the path of a file, a list, or an object by layers' names";

Status ReadPart(const Json& json, const std::string& path,
                const std::string& folder, DataPart* part) {
  if (json.is_string() && !json.text().empty()) {
    part->path = PathIn(folder, json.text());
    return Status();
  }
  FieldReader fields(json, path);
  fields.Require("file");
  ReadPath(&fields, "file", folder, &part->path);
  fields.Float("scale", &part->scale.factor);
  fields.Float("offset", &part->scale.offset);
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

Status ReadData(const Json& json, const std::string& path,
                const std::string& folder, DataConfig* data) {
  FieldReader fields(json, path);
  fields.Float("scale", &data->scale.factor);
  fields.Float("offset", &data->scale.offset);
  fields.Choice("auto_shard_policy", kPolicies, &data->policy);
  ReadOwnExamples(&fields, &data->own_examples);
  if (!data->own_examples.empty() && data->policy != AutoShardPolicy::kOff) {
    fields.Refuse("own_examples", "say \"auto_shard_policy\": \"off\" too");
  }
  fields.Bool("in_memory", &data->in_memory);
  const bool idx = json["images"] || json["labels"];
  const bool npy = json["x"] || json["y"];
  const bool csv = json["csv"] || json["label"];
  if (json.is_object() && idx + npy + csv != 1) {
    for (const char* key : {"images", "labels", "x", "y", "csv", "label",
                            "header", "separator", "sample_weight"}) {
      fields.Take(key);
    }
    RINGLET_RETURN_IF_ERROR(fields.Finish());
    return InvalidArgument(
        "%s: must have one of {images, labels} (IDX), {x, y} (NPY) and "
        "{csv, label}",
        path.c_str());
  }
  if (!idx && !data->in_memory) {
    fields.Refuse("in_memory", "only images (IDX) can be read from disk");
  }
  if (idx) {
    fields.Require("images");
    fields.Require("labels");
    ReadPath(&fields, "images", folder, &data->images);
    ReadPath(&fields, "labels", folder, &data->labels);
    ReadWeightPath(&fields, folder, &data->sample_weight);
  }
  if (npy) {
    ReadParts("x", folder, &fields, &data->x, &data->inputs);
    ReadParts("y", folder, &fields, &data->y, &data->targets);
    ReadWeightPath(&fields, folder, &data->sample_weight);
  }
  if (csv) {
    fields.Require("csv");
    ReadCsv(&fields, folder, data);
  }
  return fields.Finish();
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
    if (!validation->own_examples.empty()) {
      fields.Refuse("validation",
                    "workers validate on examples that all have; leave "
                    "own_examples out");
    }
  }
  return fields.Finish();
}

namespace {

Dataset Open(const DataPart& part) {
  const std::string& path = part.path;
  if (EndsWith(path, ".csv") || EndsWith(path, ".csv.gz")) {
    CsvOptions options;
    options.has_label = false;
    return CsvDataset(path, options).Map(part.scale);
  }
  const bool npy = EndsWith(path, ".npy") || EndsWith(path, ".npy.gz");
  return (npy ? NpyDataset(path) : IdxDataset(path)).Map(part.scale);
}

// Opens those of `names`, in their order.
Status OpenNamed(const char* key, const std::string& single,
                 const std::vector<DataPart>& parts,
                 const std::vector<std::string>& names,
                 std::vector<Dataset>* datasets) {
  if (parts.empty()) {
    DataPart only;
    only.path = single;
    datasets->push_back(Open(only));
    return Status();
  }
  if (parts[0].name.empty()) {
    for (const DataPart& part : parts) datasets->push_back(Open(part));
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
    datasets->push_back(Open(*found));
  }
  return Status();
}

}  // namespace

Dataset OpenParts(const DataConfig& data, const Model& model, bool targets) {
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < model.num_inputs(); ++i) {
    inputs.push_back(model.layer(i).name);
  }
  for (const OutputLoss& output : model.losses()) {
    if (output.trains) outputs.push_back(output.output);
  }
  std::vector<Dataset> x, y;
  Status opened = OpenNamed("x", data.x, data.inputs, inputs, &x);
  if (opened.ok() && targets) {
    opened = OpenNamed("y", data.y, data.targets, outputs, &y);
  }
  return opened.ok() ? Zip(x, y) : Dataset(opened);
}

Dataset OpenData(const DataConfig& data, const Model& model) {
  Dataset dataset;
  if (data.has_parts()) {
    dataset = OpenParts(data, model, /*targets=*/true);
  } else if (!data.images.empty()) {
    IdxOptions options;
    options.in_memory = data.in_memory;
    dataset = IdxDataset(data.images, data.labels, options);
  } else if (!data.x.empty()) {
    dataset = NpyDataset(data.x, data.y);
  } else if (!data.csv.empty()) {
    CsvOptions options;
    options.separator = data.separator;
    options.header = data.header;
    options.values = data.csv_values;
    options.label_name = data.label_name;
    options.label_column = static_cast<int>(data.label_column);
    options.weight_name = data.weight_name;
    options.weight_column = data.weight_column;
    dataset = CsvDataset(data.csv, options);
  }
  if (!data.sample_weight.empty()) {
    std::vector<float> weights;
    const Status read = ReadSampleWeights(data.sample_weight, &weights)
                            .Annotate("sample_weight");
    dataset =
        read.ok() ? dataset.SampleWeight(std::move(weights)) : Dataset(read);
  }
  return dataset.empty() ? dataset
                         : dataset.Map(data.scale)
                               .AutoShard(data.policy)
                               .OwnExamples(data.own_examples);
}

}  // namespace ringlet
