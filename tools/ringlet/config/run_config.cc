// Each part of a RUN.json has a function that reads its fields by a
// FieldReader. A field that is not read is an error. DescribeRun calls the same
// functions on Json::ForDescription, which has no values and records each
// field, for docs/reference.md and docs/run.schema.json. So every read must be
// reached then too. Nothing is opened but the model's configuration.

#include "run_config.h"

#include <cfloat>
#include <charconv>
#include <cmath>

#include "callback_config.h"
#include "column_fields.h"
#include "core/base/text.h"
#include "core/fit/run_state.h"
#include "core/layers/layer_table.h"
#include "core/step/local_round.h"
#include "io/files/atomic_file.h"
#include "io/files/file_kind.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/keras/keras_json.h"
#include "local_config.h"
#include "net/cluster/address.h"
#include "net/cluster/ring_options.h"
#include "net/wire/wire_dtype.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 40;
constexpr int64_t kMaxBatch = int64_t{1} << 24;
constexpr int64_t kMaxInRun = 8192;  // replicas

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
      ReadWholeFile(PosixFiles(), path, kMaxKerasJsonBytes, &text)
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
  Optimizer& optimizer = config->compile.optimizer;
  optimizer = RMSprop();  // Keras's default
  if (fields.MarkOptional("optimizer")) {
    const Json value =
        fields.Take("optimizer", "an optimizer", AsJson("rmsprop"));
    fields.Fail(OptimizerFromJson(value, "compile.optimizer", &optimizer));
  }
  ReadCompileFields(&fields, &config->compile);
  // The form of compile_config in a configuration written by Keras.
  fields.OnlyNumber("steps_per_execution", 1);
  fields.OnlyBool("run_eagerly", false);
  fields.Ignore({"jit_compile", "auto_scale_loss"});
  return fields.Finish();
}

void ReadValidationFreq(FieldReader* fields, FitConfig* fit) {
  const std::string takes = "a number of epochs from 1 to " +
                            AsJson(kMaxCount) +
                            ", or a list of epochs counted from 1";
  const Json json = fields->Take("validation_freq", takes, "1");
  if (!json.is_array()) {
    return fields->IntOrNull("validation_freq", 1, kMaxCount,
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

void ReadClassWeight(FieldReader* fields, FitConfig* fit) {
  constexpr char kKey[] = "class_weight";
  const std::string takes = "an object: a class's number and its weight";
  const Json json = fields->Take(kKey, takes);
  if (!fields->MarkOptional(kKey) || !json) return;
  if (!json.is_object()) return fields->MustBe(kKey, takes);
  for (Json m = json.first(); m; m = m.next()) {
    int32_t number = -1;
    const std::string key = m.key();
    const char* const end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, number);
    const double weight = m.number();
    if (parsed.ec != std::errc() || parsed.ptr != end || number < 0 ||
        m.kind() != Json::Kind::kNumber || !(std::fabs(weight) <= FLT_MAX)) {
      return fields->Fail(InvalidArgument(
          "%s: is %s; it takes a class's number and its weight, as in "
          "{\"0\": 1, \"1\": 2.5}",
          JoinPath(fields->PathOf(kKey), key).c_str(), Show(m).c_str()));
    }
    const auto added =
        fit->class_weight.emplace(number, static_cast<float>(weight));
    if (!added.second) {
      return fields->Refuse(
          kKey, "names class " + AsJson(int64_t{number}) + " twice");
    }
  }
}

void ReadDTypePolicy(FieldReader* fields, FitConfig* fit) {
  constexpr const char* kKey = "dtype_policy";
  fields->Take(kKey, "\"float32\" or \"mixed_bfloat16\"");
  if (!fields->MarkOptional(kKey)) return;
  std::string name;
  fields->String(kKey, &name);
  DTypePolicy policy{};
  fields->Fail(Choose(kDTypePolicies, fields->PathOf(kKey), "dtype policy",
                      name, &policy));
  fit->dtype_policy = policy;
}

Status ReadFit(const Json& json, FitConfig* fit) {
  if (json.log() == nullptr && json["sample_weight"]) {
    return InvalidArgument(
        "fit.sample_weight: belongs to the examples, in data.train and "
        "data.validation");
  }
  FieldReader fields(json, "fit");
  fields.IntOrNull("batch_size", 1, kMaxBatch, &fit->batch_size);
  fields.IntOrNull("epochs", 0, kMaxCount, &fit->epochs);
  fields.IntOrNull("initial_epoch", 0, kMaxCount, &fit->initial_epoch);
  fields.IntOrNull("steps_per_epoch", 1, kMaxCount, &fit->steps_per_epoch);
  fields.Bool("shuffle", &fit->shuffle);
  fields.IntOrNull("seed", 0, int64_t{1} << 53, &fit->seed);
  fields.IntOrNull("threads", 1, 1024, &fit->threads);
  fields.Bool("recompute", &fit->recompute);
  ReadDTypePolicy(&fields, fit);
  fields.DoubleOrNull("validation_split", kFractionBelow1,
                      &fit->validation_split);
  fields.IntOrNull("validation_batch_size", 1, kMaxBatch,
                   &fit->validation_batch_size);
  fields.IntOrNull("validation_steps", 1, kMaxCount, &fit->validation_steps);
  ReadValidationFreq(&fields, fit);
  ReadVerbose(&fields, &fit->verbose);
  ReadClassWeight(&fields, fit);
  return fields.Finish();
}

Status ImplementationFromName(const std::string& name,
                              CommunicationImplementation* out) {
  using Implementation = CommunicationImplementation;
  constexpr Named<Implementation> kNames[] = {{"auto", Implementation::kAuto},
                                              {"ring", Implementation::kRing},
                                              {"tree", Implementation::kTree},
                                              {"mpi", Implementation::kMpi},
                                              {"nccl", Implementation::kNccl}};
  const std::string lower = LowerAscii(name);
  for (const auto& known : kNames) {
    if (lower != known.names) continue;
    *out = known.value;
    return Status();
  }
  return InvalidArgument(
      "communication implementation '%s' is none of AUTO, RING, TREE, MPI, "
      "NCCL",
      name.c_str());
}

Status ReadCommunication(const Json& json, const std::string& path,
                         CommunicationOptions* options) {
  std::string name = json.text();
  if (!json.is_string()) {
    FieldReader fields(json, path);
    fields.Take("implementation",
                "\"auto\", \"ring\", \"tree\" or, if it is built in, \"mpi\"; "
                "in upper or lower case",
                AsJson("auto"));
    fields.String("implementation", &name);
    fields.IntOrNull("bytes_per_pack", 0, kMaxCount, &options->bytes_per_pack);
    std::string dtype;
    fields.Take("wire_dtype", "\"float32\", \"bfloat16\" or \"float16\"",
                AsJson("float32"));
    if (fields.MarkOptional("wire_dtype")) fields.String("wire_dtype", &dtype);
    if (!dtype.empty()) {
      fields.Fail(WireDtypeFromName(dtype, &options->wire_dtype)
                      .Annotate("%s.wire_dtype", path.c_str()));
    }
    RINGLET_RETURN_IF_ERROR(fields.Finish());
    if (name.empty()) return Status();
  }
  return ImplementationFromName(name, &options->implementation)
      .Annotate("%s", path.c_str());
}

constexpr Interval kSeconds = {0.1, 1e6};
constexpr Named<StrategyConfig::Policy> kWhenLost[] = {
    {"wait", StrategyConfig::Policy::kWait},
    {"fail", StrategyConfig::Policy::kFail},
    {"shrink", StrategyConfig::Policy::kShrink}};

constexpr Named<Reduction> kReductions[] = {{"ring", Reduction::kRing},
                                            {"exact", Reduction::kExact}};

constexpr Named<bool> kModes[] = {{"sync", false}, {"local", true}};

// Reads the fields of how the workers find, wait for and trust each other.
void ReadConnections(const std::string& folder, FieldReader* fields,
                     StrategyOptions* options) {
  fields->DoubleOrNull("timeout", {kMinTimeoutSeconds, kMaxTimeoutSeconds},
                       &options->timeout_seconds);
  fields->DoubleOrNull("start_timeout", kSeconds,
                       &options->start_timeout_seconds);
  fields->DoubleOrNull("patience", {0, 1e9}, &options->patience_seconds);
  fields->String("job", &options->job);
  int64_t replicas = 0;
  fields->IntOrNull("replicas", 1, kMaxInRun, &replicas);
  options->replicas = static_cast<int>(replicas);
  if (fields->MarkOptional("key_file")) {
    ReadPath("key_file", folder, fields, &options->key_file, "a path");
  }
  if (fields->MarkOptional("relay")) {
    fields->Text("relay", "host:port", &options->relay);
    Address relay;
    if (!options->relay.empty()) {
      fields->Fail(
          ParseAddress(options->relay, &relay).Annotate("strategy.relay"));
    }
  }
}

Status ReadStrategy(const Json& json, const std::string& folder,
                    StrategyConfig* strategy) {
  FieldReader fields(json, "strategy");
  StrategyOptions* options = &strategy->options;
  ReadConnections(folder, &fields, options);
  fields.Bool("insecure", &options->insecure);
  fields.IntOrNull("min_workers", 1, 1024, &strategy->min_workers);
  fields.Choice("policy", kWhenLost, &strategy->policy);
  fields.Bool("cross_check", &strategy->cross_check);
  if (fields.MarkOptional("communication")) {
    const Json communication = fields.Part(
        "communication", "an implementation, or an object", AsJson("auto"));
    fields.Fail(ReadCommunication(communication, "strategy.communication",
                                  &options->communication));
  }
  strategy->may_shrink =
      json.log() == nullptr && !json["policy"] && !json["reduction"] &&
      options->communication.wire_dtype == WireDtype::kFloat32 &&
      options->communication.implementation !=
          CommunicationImplementation::kMpi;
  if (strategy->elastic()) strategy->SetShrinkPolicy();
  bool is_local = false;
  fields.Choice("mode", kModes, &is_local);
  ReadLocal(&fields, is_local, &options->local);
  if (options->local.keeps_state_per_worker()) strategy->may_shrink = false;
  if (strategy->elastic()) {
    RINGLET_RETURN_IF_ERROR(
        CheckStateOutlivesLoss(options->local).Annotate("strategy"));
  }
  if (is_local && fields.MarkOptional("reduction")) {
    fields.Refuse("reduction",
                  "strategy.mode is \"local\", which sums no gradients, and "
                  "its sums are always exact; leave it out");
  }
  fields.Choice("reduction", kReductions, &options->reduction);
  if (strategy->elastic() && options->reduction != Reduction::kExact) {
    return InvalidArgument(
        "strategy.reduction: is \"ring\", with bits that depend on the "
        "workers, but strategy.policy is \"shrink\"; leave it out, or set "
        "\"exact\"");
  }
  return fields.Finish();
}

Status ReadLora(const Json& json, LoraOptions* lora) {
  FieldReader fields(json, "lora");
  fields.Require("rank");
  fields.Int("rank", 1, kMaxLayerSize, &lora->rank);
  fields.IntOrNull("alpha", 1, kMaxLayerSize, &lora->alpha);
  const char kTakes[] = "a list of names of Dense and Embedding layers";
  if (fields.MarkOptional("layers")) {
    const Json layers = fields.Take("layers", kTakes);
    bool fit = layers.is_array() && layers.size() > 0;
    for (Json m = layers.first(); m; m = m.next()) {
      fit &= m.is_string();
      lora->layers.push_back(m.text());
    }
    if (!fit) fields.MustBe("layers", kTakes);
  }
  return fields.Finish();
}

// A saved model is loaded later, and gets its LoRA then.
Status EnableLoraOfRun(const Json& json, RunConfig* config) {
  if (!json || json.kind() == Json::Kind::kNull) return Status();
  LoraOptions lora;
  RINGLET_RETURN_IF_ERROR(ReadLora(json, &lora));
  RINGLET_RETURN_IF_ERROR(RequireCompile(*config));
  if (config->model == nullptr) {
    config->lora = std::move(lora);
    return Status();
  }
  return EnableLora(*config->model, lora, &config->model).Annotate("lora");
}

// Reads `strategy` first, so that an error in another part can be reported to
// the other workers.
Status ReadAll(const Json& json, const std::string& folder, RunConfig* config) {
  const Status strategy =
      ReadStrategy(json["strategy"], folder, &config->strategy);
  config->has_strategy = strategy.ok();
  FieldReader fields(json, "");
  // Unknown names first: a misspelt field would be missing too.
  fields.Ignore({"$schema", "model", "lora", "compile", "data", "fit",
                 "callbacks", "strategy"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(ReadCompile(json["compile"], config));
  RINGLET_RETURN_IF_ERROR(
      ReadBothData(json["data"], folder, &config->train, &config->validation));
  RINGLET_RETURN_IF_ERROR(ReadFit(json["fit"], &config->fit));
  if (!config->train.pictures.directory.empty() && config->validation.empty() &&
      config->fit.validation_split > 0) {
    return InvalidArgument(
        "fit.validation_split: takes the last pictures, which are those of the "
        "last classes; give data.train.validation_split and seed instead");
  }
  RINGLET_RETURN_IF_ERROR(strategy);
  const std::string& key_file = config->strategy.options.key_file;
  config->disk = SealedFiles(key_file, /*seal=*/false);
  config->sealed_disk = SealedFiles(key_file);
  RINGLET_RETURN_IF_ERROR(
      ReadCallbacks(json["callbacks"], "callbacks", folder, config));
  for (Json m = json["callbacks"].first(); m; m = m.next()) {
    const std::string log = m["config"]["filename"].text();
    if (!log.empty()) config->logs.push_back(PathIn(folder, log));
    const std::string saved = m["config"]["filepath"].text();
    if (!saved.empty()) config->checkpoints.push_back(PathIn(folder, saved));
    const std::string backup = m["config"]["backup_dir"].text();
    if (!backup.empty()) config->backup = PathIn(folder, backup);
  }
  if (config->strategy.policy == StrategyConfig::Policy::kFail &&
      AnyRestoresAfterLoss(config->callbacks)) {
    return InvalidArgument(
        "strategy.policy: is \"fail\", but callbacks hold BackupAndRestore, "
        "which waits for a lost worker; take one of them away");
  }
  RINGLET_RETURN_IF_ERROR(ReadModel(json["model"], folder, config));
  return EnableLoraOfRun(json["lora"], config);
}

}  // namespace

void StrategyConfig::SetShrinkPolicy() {
  policy = Policy::kShrink;
  options.reduction = Reduction::kExact;
  options.min_workers = static_cast<int>(min_workers);
}

void ChooseShrinkPolicy(int workers, RunConfig* config) {
  if (workers < 2 || workers > kMaxElasticWorkers ||
      !config->strategy.may_shrink || config->model == nullptr) {
    return;
  }
  for (int i = 0; i < config->model->num_nodes(); ++i) {
    if (config->model->layer(i).synchronized) return;
  }
  config->strategy.SetShrinkPolicy();
}

std::vector<FieldInfo> DescribeRun() {
  FieldLog log;
  const Json described = Json::ForDescription(&log);
  RunConfig config;
  LoraOptions lora;
  (void)ReadLora(described, &lora);
  (void)ReadCompile(described, &config);
  (void)ReadBothData(described, ".", &config.train, &config.validation);
  (void)ReadFit(described, &config.fit);
  (void)ReadStrategy(described, ".", &config.strategy);
  return log.fields();
}

Status ReadRunConfig(const std::string& path, RunConfig* config) {
  std::string text;
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      PosixFiles(), path, {FileKind::Format::kRun},
      ReadWholeFile(PosixFiles(), path, kMaxKerasJsonBytes, &text)));
  Json json;
  Status status = ParseKerasJson(text, path.c_str(), &json);
  if (status.ok()) {
    status = ReadAll(json, FolderOf(path), config).Annotate("%s", path.c_str());
  }
  return WrongKindError(PosixFiles(), path,
                        {FileKind::Format::kRun, FileKind::Format::kJson},
                        status);
}

}  // namespace ringlet
