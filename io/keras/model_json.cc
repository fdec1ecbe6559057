// Models may nest: ReadNested reads a model as a layer of another. The text
// may be hostile: the depth is bounded by ParseKerasJson and the layers of
// each model by kMaxLayers. A Sequential has no calls, and gets an Input from
// its first layer's shape, as in Keras.

#include "ringlet/checkpoint.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "../../core/base/text.h"
#include "../../core/layers/layer_kind.h"
#include "functional_json.h"
#include "layer_json.h"

namespace ringlet {
namespace {

constexpr int kMaxLayers = 4096;

using Kind = Layer::Kind;

Status ReadEntry(const Json& json, LayerEntry* entry) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadLayerObject(json, entry, &object));
  object.keras2 = entry->keras2;
  return IsModel(object) ? ReadNested(json, object, entry)
                         : ReadLayer(json, object, entry);
}

Status ReadLayers(const Json& list, const std::string& path, bool keras2,
                  std::vector<LayerEntry>* entries) {
  if (!list.is_array()) {
    return InvalidArgument("%s: is %s; must be a list of layers", path.c_str(),
                           Show(list).c_str());
  }
  if (list.size() > kMaxLayers) {
    return InvalidArgument("%s: %d layers; at most %d are read", path.c_str(),
                           list.size(), kMaxLayers);
  }
  entries->resize(static_cast<size_t>(list.size()));
  Json json = list.first();
  for (size_t i = 0; i < entries->size(); ++i, json = json.next()) {
    LayerEntry& entry = (*entries)[i];
    entry.path = JoinPath(path, static_cast<int64_t>(i));
    entry.keras2 = keras2;
    RINGLET_RETURN_IF_ERROR(ReadEntry(json, &entry));
  }
  return Status();
}

// --- Sequential -------------------------------------------------------------

Status CheckNoOpenSize(const LayerEntry& first) {
  for (int i = 0; i < first.input.rank(); ++i) {
    if (first.input[i] != kOpenSize) continue;
    return first.Annotate(InvalidArgument(
        "%s.config.batch_input_shape: has null in place of a size; a model's "
        "input has one shape: write the number of steps there",
        first.path.c_str()));
  }
  return Status();
}

Status BuildSequential(std::vector<LayerEntry>* entries, FieldReader* fields,
                       Sequential* model) {
  for (const LayerEntry& entry : *entries) {
    if (entry.layer.return_state) {
      return entry.Annotate(InvalidArgument(
          "%s.config.return_state: is true, and a Sequential passes one tensor "
          "from layer to layer; leave it out, or write the model as a "
          "Functional, which names each tensor",
          entry.path.c_str()));
    }
    if (entry.operation == Operation::kNone) continue;
    return entry.Annotate(InvalidArgument(
        "%s: only a functional model may have an operation on tensors",
        entry.path.c_str()));
  }
  LayerEntry* first = entries->empty() ? nullptr : &entries->front();
  const bool has_input = first != nullptr && first->layer.kind == Kind::kInput;
  if (!has_input) {
    LayerEntry input;
    if (first != nullptr && first->has_input) {
      RINGLET_RETURN_IF_ERROR(CheckNoOpenSize(*first));
      input.layer = Input(first->input);
      const std::string& name = first->layer.name;
      if (!name.empty() && name.size() < kMaxLayerName - 6) {
        input.layer.Name(name + "_input");  // Keras 2 names it so
      }
    } else if (fields->MarkOptional("build_input_shape")) {
      input.layer = Input({});
      ReadShape("build_input_shape", /*batch=*/true, 1, fields,
                &input.layer.shape);
    } else {
      fields->Fail(InvalidArgument(
          "%s: the shape of the input is not given; add an InputLayer with "
          "batch_shape as the first layer",
          fields->PathOf("layers").c_str()));
    }
    RINGLET_RETURN_IF_ERROR(fields->Finish());
    model->Add(input.layer);
  }
  for (const LayerEntry& entry : *entries) {
    model->Add(LayerBehind(entry, *model, model->num_nodes() - 1));
    RINGLET_RETURN_IF_ERROR(CheckAdded(entry, *model));
  }
  return Status();
}

// --- the model --------------------------------------------------------------

enum class ModelClass : uint8_t { kSequential, kFunctional };

constexpr Named<ModelClass> kModels[] = {
    {"Sequential", ModelClass::kSequential},
    {"Functional Model", ModelClass::kFunctional},
};

// A layer without a dtype has the dtype of the model. An operation, to which
// Keras gives none, has the dtype of its inputs.
void SetMissingDTypes(DTypePolicy policy, std::vector<LayerEntry>* entries) {
  DTypePolicy highest = policy;
  for (const LayerEntry& entry : *entries) {
    highest = std::max(highest, entry.layer.dtype);
  }
  for (LayerEntry& entry : *entries) {
    const Kind kind = entry.layer.kind;
    if (entry.has_dtype || kind == Kind::kModel || kind == Kind::kInput) {
      continue;
    }
    const bool is_layer =
        entry.operation == Operation::kNone && !entry.from_ops;
    entry.layer.dtype = is_layer ? policy : highest;
  }
}

// Builds a model from `layers` at `path`; `fields` are the model's own.
Status BuildModel(bool sequential, bool trainable, bool keras2,
                  DTypePolicy policy, const Json& layers,
                  const std::string& path, FieldReader* fields,
                  std::unique_ptr<Model>* model) {
  LayerGraph graph;
  RINGLET_RETURN_IF_ERROR(ReadLayers(layers, path, keras2, &graph.entries));
  SetMissingDTypes(policy, &graph.entries);
  for (LayerEntry& entry : graph.entries) {
    if (!trainable) entry.layer.Trainable(false);
  }
  if (sequential) {
    auto built = std::make_unique<Sequential>();
    RINGLET_RETURN_IF_ERROR(
        BuildSequential(&graph.entries, fields, built.get()));
    *model = std::move(built);
  } else {
    auto built = std::make_unique<Functional>();
    RINGLET_RETURN_IF_ERROR(
        BuildFunctional(layers, &graph, fields, built.get()));
    *model = std::move(built);
  }
  return Status();
}

// Writes the model's own field `trainable` to *trainable. If that is null, the
// field applies to all layers.
Status ReadModel(const KerasObject& object, bool* trainable,
                 std::unique_ptr<Model>* model) {
  ModelClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kModels, object.path, "model", object.name, &which));
  const bool sequential = which == ModelClass::kSequential;
  // Early versions of Keras 2 wrote the layers of a Sequential without an
  // object.
  const bool bare = sequential && object.config.is_array();
  FieldReader fields(bare ? Json() : object.config, object.config_path);
  if (!bare) fields.Require("layers");
  const Json layers =
      bare ? object.config : fields.Take("layers", "a list of layers");
  std::string name;
  if (fields.MarkOptional("name")) {
    fields.Text("name", "a string of 1 to 255 bytes", &name);
    if (fields.ok()) fields.Fail(CheckName(name, fields.PathOf("name")));
  }
  std::optional<bool> trains = true;
  fields.Bool("trainable", &trains);
  const bool frozen = !trains.value_or(true);
  if (trainable != nullptr) *trainable = !frozen;
  DTypePolicy policy = DTypePolicy::kFloat32;
  ReadDType(&fields, &policy);
  if (sequential) {
    fields.Take("build_input_shape", "the shape of an input without a layer");
    fields.MarkOptional("build_input_shape");
  } else {
    for (const char* end : {"input_layers", "output_layers"}) {
      fields.Require(end);
      fields.Take(end, "[a layer's name, 0, 0]");
    }
  }
  RINGLET_RETURN_IF_ERROR(fields.Finish());

  std::unique_ptr<Model> new_model;
  RINGLET_RETURN_IF_ERROR(BuildModel(
      sequential, trainable != nullptr || !frozen, object.keras2, policy,
      layers, bare ? object.config_path : fields.PathOf("layers"), &fields,
      &new_model));
  RINGLET_RETURN_IF_ERROR(new_model->status());
  if (new_model->num_nodes() < 2) {
    return InvalidArgument("%s: a model needs an input and a layer",
                           fields.PathOf("layers").c_str());
  }
  if (!name.empty()) new_model->set_name(name);
  *model = std::move(new_model);
  return Status();
}

// True for a file of Keras 2 or TensorFlow.js. They store their version, and
// have a different name for the input's shape; Keras 3 stores modules.
bool IsOfKeras2(const Json& json, const std::string& version) {
  if (!version.empty()) {
    return StartsWith(version, "1.") || StartsWith(version, "2.") ||
           StartsWith(version, "tfjs");
  }
  if (json["module"]) return false;
  const Json config = json["config"];
  const Json layers = config.is_array() ? config : config["layers"];
  const Json first = layers.is_array() ? layers.first() : Json();
  return static_cast<bool>(first["config"]["batch_input_shape"]);
}

// Finds the model in a model.json of TensorFlow.js ("modelTopology") and in the
// texts of HDF5 files and SavedModels ("model_config").
Status FindModel(Json* json, std::string* path, std::string* version) {
  if ((*json)["modelTopology"]["node"]) {
    return InvalidArgument(
        "%s: is a graph of TensorFlow's operations, for inference only; "
        "convert the Keras model with --output_format=tfjs_layers_model",
        JoinPath(*path, "modelTopology").c_str());
  }
  *version = (*json)["keras_version"].text();
  for (const char* key : {"modelTopology", "model_config"}) {
    const Json model = (*json)[key];
    if (!model) continue;
    *json = model;
    *path = JoinPath(*path, key);
    const Json stored = model["keras_version"];
    if (stored) *version = stored.text();
  }
  if (!(*json)["layers"] || (*json)["config"]) return Status();
  return InvalidArgument(
      "%s: is a model of Keras 0, without \"config\"; build it in Keras 2 or 3 "
      "and write model.to_json()",
      path->empty() ? "the JSON" : path->c_str());
}

}  // namespace

Status ReadNested(const Json& json, const KerasObject& object,
                  LayerEntry* entry) {
  if (object.config.is_object()) {
    FieldReader fields(object.config, object.config_path);
    RINGLET_RETURN_IF_ERROR(ReadName(json, object, &fields, entry));
  }
  const std::string name = entry->layer.name;
  std::unique_ptr<Model> model;
  bool trainable = true;
  RINGLET_RETURN_IF_ERROR(
      entry->Annotate(ReadModel(object, &trainable, &model)));
  entry->layer = model->AsLayer().Trainable(trainable).Name(name);
  entry->input = model->input_shape();
  entry->has_input = true;
  return Status();
}

std::vector<ClassInfo> DescribeModels() {
  return Describe(kModels, [](const KerasObject& object) {
    std::unique_ptr<Model> model;
    (void)ReadModel(object, nullptr, &model);
  });
}

Status ModelFromJson(const Json& model_json, const std::string& given_path,
                     std::unique_ptr<Model>* model) {
  Json json = model_json;
  std::string path = given_path, version;
  RINGLET_RETURN_IF_ERROR(FindModel(&json, &path, &version));
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(
      ReadKerasObject(json, path, &object, {"keras_version", "backend"}));
  object.keras2 = IsOfKeras2(json, version);
  return ReadModel(object, nullptr, model);
}

Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model) {
  Json root;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(json, "model JSON", &root));
  return ModelFromJson(root, "", model).Annotate("model JSON");
}

}  // namespace ringlet
