#include "run_config.h"

#include <cfloat>

#include "callback_config.h"
#include "core/base/text.h"
#include "io/data/csv.h"
#include "io/data/idx.h"
#include "io/data/npy.h"
#include "io/files/file_kind.h"
#include "io/files/file_system.h"
#include "io/keras/keras_json.h"

namespace ringlet {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 40;
constexpr int64_t kMostBatch = int64_t{1} << 24;
constexpr int64_t kMostColumn = 100000;

// null stands, as None does in Keras, for the default.
void OptionalInt(FieldReader* fields, const char* key, int64_t low,
                 int64_t high, int64_t* value) {
  if (fields->Has(key)) fields->Int(key, low, high, value);
}

void ReadPath(FieldReader* fields, const char* key, const std::string& folder,
              std::string* path) {
  std::string text;
  fields->Text(key, "the path of a file", &text);
  if (!text.empty()) *path = PathIn(folder, text);
}

Status RequireCompile(const RunConfig& config) {
  if (config.has_compile) return Status();
  return InvalidArgument("compile: is missing; it names the loss");
}

Status ReadModel(const Json& json, const std::string& folder,
                 RunConfig* config) {
  if (json.is_object()) {
    RINGLET_RETURN_IF_ERROR(RequireCompile(*config));
    return ModelFromJson(json, "model", &config->model);
  }
  if (!json.is_string() || json.text().empty()) {
    return InvalidArgument(
        "model: %s; must be Keras's configuration (model.to_json()) or the "
        "path of a file with it, or of a saved model",
        json ? ("is " + Show(json)).c_str() : "is missing");
  }
  if (json.text()[0] == '{') {  // to_json() is a string, and may be kept one
    RINGLET_RETURN_IF_ERROR(RequireCompile(*config));
    Json parsed;
    RINGLET_RETURN_IF_ERROR(ParseKerasJson(json.text(), "model", &parsed));
    return ModelFromJson(parsed, "model", &config->model);
  }
  const std::string path = PathIn(folder, json.text());
  if (!EndsWith(path, ".json")) {
    config->saved_model = path;
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(RequireCompile(*config));
  std::string text;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(FileSystem::Posix(), path, kMaxKerasJsonBytes, &text)
          .Annotate("model"));
  Json parsed;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(text, path.c_str(), &parsed));
  if (parsed.is_string()) {  // of json.dump(model.to_json(), file)
    text = parsed.text();
    RINGLET_RETURN_IF_ERROR(ParseKerasJson(text, path.c_str(), &parsed));
  }
  return ModelFromJson(parsed, "", &config->model).Annotate("%s", path.c_str());
}

Status ReadCompile(const Json& json, RunConfig* config) {
  if (!json || json.kind() == Json::Kind::kNull) return Status();
  config->has_compile = true;
  FieldReader fields(json, "compile");
  config->optimizer = RMSprop();  // Keras's default
  if (fields.Has("optimizer")) {
    const Json optimizer =
        fields.Take("optimizer", "an optimizer", AsJson("rmsprop"));
    fields.Fail(
        OptimizerFromJson(optimizer, "compile.optimizer", &config->optimizer));
  }
  fields.Require("loss");
  const Json loss = fields.Take("loss", "a loss");
  if (loss && fields.ok()) {
    fields.Fail(LossFromJson(loss, "compile.loss", &config->loss));
  }
  if (fields.Has("metrics")) {
    const Json metrics = fields.Take("metrics", "a list of metrics");
    if (!metrics.is_array()) fields.Refuse("metrics", "must be a list");
    int64_t i = 0;
    for (Json m = metrics.first(); m && fields.ok(); m = m.next()) {
      Metric metric;
      fields.Fail(MetricFromJson(m, JoinPath("compile.metrics", i++), &metric));
      config->metrics.push_back(metric);
    }
  }
  // As compile_config of a configuration written by Keras has them.
  fields.OnlyNull({"loss_weights", "weighted_metrics"});
  fields.OnlyNumber("steps_per_execution", 1);
  fields.OnlyBool("run_eagerly", false);
  fields.Ignore({"jit_compile", "auto_scale_loss"});
  return fields.Finish();
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
    data->label_name = label.text();
    if (!data->header.value_or(true)) {
      fields->Refuse("label",
                     "a name needs a header; give the column's number");
    }
  } else {
    OptionalInt(fields, "label", -kMostColumn, kMostColumn,
                &data->label_column);
  }
  fields->Character("separator", &data->separator);
}

constexpr Named<AutoShardPolicy> kPolicies[] = {
    {"auto", AutoShardPolicy::kAuto},
    {"file", AutoShardPolicy::kFile},
    {"data", AutoShardPolicy::kData},
    {"off", AutoShardPolicy::kOff}};

Status ReadData(const Json& json, const std::string& path,
                const std::string& folder, DataConfig* data) {
  FieldReader fields(json, path);
  fields.Float("scale", &data->scale.factor);
  fields.Float("offset", &data->scale.offset);
  fields.Choice("auto_shard_policy", kPolicies, &data->policy);
  fields.Bool("in_memory", &data->in_memory);
  const bool idx = json["images"] || json["labels"];
  const bool npy = json["x"] || json["y"];
  const bool csv = json["csv"] || json["label"];
  if (json.is_object() && idx + npy + csv != 1) {
    for (const char* key : {"images", "labels", "x", "y", "csv", "label",
                            "header", "separator"}) {
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
  }
  if (npy) {
    fields.Require("x");
    fields.Require("y");
    ReadPath(&fields, "x", folder, &data->x);
    ReadPath(&fields, "y", folder, &data->y);
  }
  if (csv) {
    fields.Require("csv");
    ReadCsv(&fields, folder, data);
  }
  return fields.Finish();
}

Status ReadBothData(const Json& json, const std::string& folder,
                    RunConfig* config) {
  FieldReader fields(json, "data");
  if (fields.Has("train")) {
    fields.Fail(ReadData(fields.Part("train", "an object"), "data.train",
                         folder, &config->train));
  }
  if (fields.Has("validation")) {
    fields.Fail(ReadData(fields.Part("validation", "an object"),
                         "data.validation", folder, &config->validation));
  }
  return fields.Finish();
}

void ReadValidationFreq(FieldReader* fields, FitConfig* fit) {
  const std::string takes = "a number of epochs from 1 to " +
                            AsJson(kMostCount) +
                            ", or a list of epochs counted from 1";
  const Json json = fields->Take("validation_freq", takes, "1");
  if (!json.is_array()) {
    return OptionalInt(fields, "validation_freq", 1, kMostCount,
                       &fit->validation_freq);
  }
  for (Json m = json.first(); m; m = m.next()) {
    int64_t epoch = 0;
    if (!m.ToInt64(&epoch) || epoch < 1) {
      return fields->MustBe("validation_freq", takes);
    }
    fit->validation_epochs.push_back(epoch);
  }
}

void ReadVerbose(FieldReader* fields, Verbose* verbose) {
  const char kTakes[] = "\"auto\", 0, 1 or 2";
  const Json json = fields->Take("verbose", kTakes, AsJson("auto"));
  if (!json || json.text() == "auto") return;
  constexpr Verbose kVerbose[] = {Verbose::kSilent, Verbose::kBar,
                                  Verbose::kLine};
  int64_t number = 0;
  if (!json.ToInt64(&number) || number < 0 || number > 2) {
    return fields->MustBe("verbose", kTakes);
  }
  *verbose = kVerbose[number];
}

Status ReadFit(const Json& json, FitConfig* fit) {
  FieldReader fields(json, "fit");
  OptionalInt(&fields, "batch_size", 1, kMostBatch, &fit->batch_size);
  OptionalInt(&fields, "epochs", 0, kMostCount, &fit->epochs);
  OptionalInt(&fields, "initial_epoch", 0, kMostCount, &fit->initial_epoch);
  OptionalInt(&fields, "steps_per_epoch", 1, kMostCount, &fit->steps_per_epoch);
  fields.Bool("shuffle", &fit->shuffle);
  OptionalInt(&fields, "seed", 0, int64_t{1} << 53, &fit->seed);
  OptionalInt(&fields, "threads", 1, 1024, &fit->threads);
  if (fields.Has("validation_split")) {
    fields.Double("validation_split", kShareBelow1, &fit->validation_split);
  }
  OptionalInt(&fields, "validation_batch_size", 1, kMostBatch,
              &fit->validation_batch_size);
  OptionalInt(&fields, "validation_steps", 1, kMostCount,
              &fit->validation_steps);
  ReadValidationFreq(&fields, fit);
  ReadVerbose(&fields, &fit->verbose);
  return fields.Finish();
}

Status ReadCommunication(const Json& json, const std::string& path,
                         CommunicationOptions* options) {
  std::string name = json.text();
  if (!json.is_string()) {
    FieldReader fields(json, path);
    fields.Take(
        "implementation",
        "\"auto\", \"ring\", \"tree\" or, where it is built in, \"mpi\"; "
        "in any case",
        AsJson("auto"));
    fields.String("implementation", &name);
    OptionalInt(&fields, "bytes_per_pack", 0, kMostCount,
                &options->bytes_per_pack);
    std::string dtype;
    fields.Take("wire_dtype", "\"float32\", \"bfloat16\" or \"float16\"",
                AsJson("float32"));
    if (fields.Has("wire_dtype")) fields.String("wire_dtype", &dtype);
    if (!dtype.empty()) {
      fields.Fail(WireDtypeFromName(dtype, &options->wire_dtype)
                      .Annotate("%s.wire_dtype", path.c_str()));
    }
    RINGLET_RETURN_IF_ERROR(fields.Finish());
    if (name.empty()) return Status();
  }
  return CommunicationImplementationFromName(name, &options->implementation)
      .Annotate("%s", path.c_str());
}

constexpr Interval kSeconds = {0.1, 1e6};
constexpr Named<StrategyConfig::Policy> kWhenLost[] = {
    {"wait", StrategyConfig::Policy::kWait},
    {"fail", StrategyConfig::Policy::kFail}};

Status ReadStrategy(const Json& json, StrategyConfig* strategy) {
  FieldReader fields(json, "strategy");
  StrategyOptions* options = &strategy->options;
  if (fields.Has("timeout")) {
    fields.Double("timeout", kSeconds, &options->timeout_seconds);
  }
  if (fields.Has("start_timeout")) {
    fields.Double("start_timeout", kSeconds, &options->start_timeout_seconds);
  }
  if (fields.Has("patience")) {
    fields.Double("patience", {0, 1e9}, &options->patience_seconds);
  }
  fields.String("job", &options->job);
  OptionalInt(&fields, "min_workers", 1, 1024, &strategy->min_workers);
  if (json["policy"].text() == "shrink") {
    fields.Refuse("policy",
                  "this build goes on with all workers only: "
                  "\"wait\" or \"fail\"");
  }
  fields.Choice("policy", kWhenLost, &strategy->policy);
  if (fields.Has("communication")) {
    const Json communication = fields.Part(
        "communication", "an implementation, or an object", AsJson("auto"));
    fields.Fail(ReadCommunication(communication, "strategy.communication",
                                  &options->communication));
  }
  return fields.Finish();
}

Status ReadAll(const Json& json, const std::string& folder, RunConfig* config) {
  FieldReader fields(json, "");
  // Unknown names first: what is misspelt would be missing too.
  fields.Ignore(
      {"$schema", "model", "compile", "data", "fit", "callbacks", "strategy"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(ReadCompile(json["compile"], config));
  RINGLET_RETURN_IF_ERROR(ReadBothData(json["data"], folder, config));
  RINGLET_RETURN_IF_ERROR(ReadFit(json["fit"], &config->fit));
  RINGLET_RETURN_IF_ERROR(ReadCallbacks(json["callbacks"], "callbacks", folder,
                                        &config->callbacks));
  for (Json m = json["callbacks"].first(); m; m = m.next()) {
    const std::string log = m["config"]["filename"].text();
    if (!log.empty()) config->logs.push_back(PathIn(folder, log));
  }
  RINGLET_RETURN_IF_ERROR(ReadStrategy(json["strategy"], &config->strategy));
  if (config->strategy.policy == StrategyConfig::Policy::kFail &&
      AnyRestoresAfterLoss(config->callbacks)) {
    return InvalidArgument(
        "strategy.policy: is \"fail\", but callbacks hold BackupAndRestore, "
        "which waits for a lost worker; take one of them away");
  }
  return ReadModel(json["model"], folder, config);
}

}  // namespace

std::vector<FieldInfo> DescribeRun() {
  FieldLog log;
  const Json asking = Json::Asking(&log);
  RunConfig config;
  (void)ReadCompile(asking, &config);
  (void)ReadBothData(asking, ".", &config);
  (void)ReadFit(asking, &config.fit);
  (void)ReadStrategy(asking, &config.strategy);
  return log.fields();
}

std::string PathIn(const std::string& folder, const std::string& path) {
  return path[0] == '/' || folder == "." ? path : folder + "/" + path;
}

Status ReadRunConfig(const std::string& path, RunConfig* config) {
  std::string text;
  RINGLET_RETURN_IF_ERROR(OtherKind(
      FileSystem::Posix(), path, {FileKind::Format::kRun},
      ReadWholeFile(FileSystem::Posix(), path, kMaxKerasJsonBytes, &text)));
  Json json;
  Status status = ParseKerasJson(text, path.c_str(), &json);
  if (status.ok()) {
    status = ReadAll(json, FolderOf(path), config).Annotate("%s", path.c_str());
  }
  return OtherKind(FileSystem::Posix(), path,
                   {FileKind::Format::kRun, FileKind::Format::kJson}, status);
}

Dataset OpenData(const DataConfig& data) {
  Dataset dataset;
  if (!data.images.empty()) {
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
    dataset = CsvDataset(data.csv, options);
  }
  return dataset.empty() ? dataset
                         : dataset.Map(data.scale).AutoShard(data.policy);
}

}  // namespace ringlet
