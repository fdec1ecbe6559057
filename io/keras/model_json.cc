#include "model_json.h"

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "layer_json.h"

namespace ringlet {
namespace {

constexpr int kMaxLayers = 4096;

using Kind = Layer::Kind;

Status ReadLayers(const Json& list, const std::string& path,
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
    RINGLET_RETURN_IF_ERROR(ReadLayer(json, &entry));
  }
  return Status();
}

// After the layer was added as the model's last.
Status CheckAdded(const LayerEntry& entry, const Model& model) {
  RINGLET_RETURN_IF_ERROR(model.status().Annotate("%s", entry.path.c_str()));
  const std::vector<int>& inputs = model.inputs(model.num_nodes() - 1);
  if (entry.has_input && model.output_shape(inputs[0]) != entry.input) {
    return entry.Annotate(InvalidArgument(
        "%s.config.batch_input_shape: is %s for each example, but the layer's "
        "input has %s",
        entry.path.c_str(), entry.input.ToString().c_str(),
        model.output_shape(inputs[0]).ToString().c_str()));
  }
  if (entry.axis == -1 || entry.axis == model.output_shape().rank()) {
    return Status();
  }
  return entry.Annotate(InvalidArgument(
      "%s.config.axis: is %lld; ringlet supports only the last axis, -1",
      entry.path.c_str(), static_cast<long long>(entry.axis)));
}

// --- Sequential -------------------------------------------------------------

Status BuildSequential(std::vector<LayerEntry>* entries, FieldReader* fields,
                       Sequential* model) {
  LayerEntry* first = entries->empty() ? nullptr : &entries->front();
  const bool has_input = first != nullptr && first->layer.kind == Kind::kInput;
  if (!has_input) {
    LayerEntry input;
    if (first != nullptr && first->has_input) {
      input.layer = Input(first->input);
      const std::string& name = first->layer.name;
      if (!name.empty() && name.size() < kMaxLayerName - 6) {
        input.layer.Name(name + "_input");  // as Keras 2
      }
    } else if (fields->Has("build_input_shape")) {
      input.layer = Input({});
      ReadShape("build_input_shape", true, 1, fields, &input.layer.shape);
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
    model->Add(entry.layer);
    RINGLET_RETURN_IF_ERROR(CheckAdded(entry, *model));
  }
  return Status();
}

// --- functional -------------------------------------------------------------

// [name, node, tensor] and, in a Keras 2 node, the call's arguments.
bool IsReference(const Json& json) {
  return json.is_array() && json.first().is_string();
}

Status ReadReference(const Json& json, const std::string& path,
                     std::string* name) {
  const int size = json.size();
  int64_t node = -1, tensor = -1;
  if (IsReference(json) && (size == 3 || size == 4)) {
    *name = json.first().text();
    const Json second = json.first().next();
    if (second.ToInt64(&node) && second.next().ToInt64(&tensor) && node == 0 &&
        tensor == 0) {
      return Status();
    }
    if (node > 0 || tensor > 0) {
      return InvalidArgument(
          "%s: is %s; a layer that is called twice or gives several tensors "
          "is not supported",
          path.c_str(), Show(json).c_str());
    }
  }
  return InvalidArgument("%s: is %s; must be [a layer's name, 0, 0]",
                         path.c_str(), Show(json).c_str());
}

// What a layer was called with besides its inputs.
Status CheckCall(const Json& json, const std::string& path) {
  FieldReader call(json, path);
  call.OnlyBool("training", false);
  call.OnlyNull({"mask"});
  return call.Finish();
}

// {"class_name": "__keras_tensor__", "config": {…, "keras_history": […]}}, or
// a list of such.
Status ReadTensors(const Json& json, const std::string& path,
                   std::vector<std::string>* inputs) {
  if (json.is_array()) {
    int64_t i = 0;
    for (Json m = json.first(); m; m = m.next(), ++i) {
      RINGLET_RETURN_IF_ERROR(ReadTensors(m, JoinPath(path, i), inputs));
    }
    return Status();
  }
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  if (object.name != "__keras_tensor__" && object.name != "keras_tensor") {
    return InvalidArgument("%s: is \"%s\"; only tensors are supported",
                           object.path.c_str(), Printable(object.name).c_str());
  }
  FieldReader fields(object.config, object.config_path);
  fields.Ignore({"shape", "dtype", "name"});
  fields.OnlyBool("sparse", false);
  fields.OnlyBool("ragged", false);
  fields.Require("keras_history");
  const Json history = fields.Take("keras_history");
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  inputs->emplace_back();
  return ReadReference(history, fields.PathOf("keras_history"),
                       &inputs->back());
}

Status ReadNode(const Json& json, const std::string& path,
                std::vector<std::string>* inputs) {
  if (json.is_object()) {  // Keras 3
    FieldReader node(json, path);
    node.Require("args");
    const Json args = node.Take("args");
    const Json kwargs = node.Take("kwargs");
    RINGLET_RETURN_IF_ERROR(node.Finish());
    RINGLET_RETURN_IF_ERROR(CheckCall(kwargs, node.PathOf("kwargs")));
    return ReadTensors(args, node.PathOf("args"), inputs);
  }
  if (!json.is_array()) {
    return InvalidArgument("%s: is %s; must be a list or an object",
                           path.c_str(), Show(json).c_str());
  }
  const bool single = IsReference(json);
  int64_t i = 0;
  for (Json m = single ? json : json.first(); m; m = m.next(), ++i) {
    const std::string at = single ? path : JoinPath(path, i);
    inputs->emplace_back();
    RINGLET_RETURN_IF_ERROR(ReadReference(m, at, &inputs->back()));
    const Json call = m.first().next().next().next();
    RINGLET_RETURN_IF_ERROR(CheckCall(call, JoinPath(at, 3)));
    if (single) break;
  }
  return Status();
}

Status ReadInputs(const Json& json, LayerEntry* entry) {
  const std::string path = JoinPath(entry->path, "inbound_nodes");
  const Json nodes = json["inbound_nodes"];
  const bool is_input = entry->layer.kind == Kind::kInput;
  if (!nodes.is_array() && !(is_input && !nodes)) {
    return InvalidArgument("%s: is %s; must be a list", path.c_str(),
                           Show(nodes).c_str());
  }
  if (nodes.size() != (is_input ? 0 : 1)) {
    return InvalidArgument("%s: has %d calls; %s", path.c_str(), nodes.size(),
                           is_input ? "an input takes no input"
                           : nodes.size() == 0
                               ? "the layer is not called"
                               : "a layer that is shared is not supported");
  }
  if (is_input) return Status();
  RINGLET_RETURN_IF_ERROR(
      ReadNode(nodes.first(), JoinPath(path, 0), &entry->inputs));
  if (!entry->inputs.empty()) return Status();
  return InvalidArgument("%s: names no input", path.c_str());
}

// One name of config.input_layers or output_layers.
void ReadEnd(const char* key, FieldReader* fields, std::string* name) {
  fields->Require(key);
  const Json json = fields->Take(key);
  if (!json) return;
  Json reference = json;
  if (json.is_array() && !IsReference(json)) {
    if (json.size() != 1) {
      return fields->Fail(InvalidArgument(
          "%s: has %d entries; ringlet's models have one input and one output",
          fields->PathOf(key).c_str(), json.size()));
    }
    reference = json.first();
  }
  fields->Fail(ReadReference(reference, fields->PathOf(key), name));
}

struct Graph {
  std::vector<LayerEntry> entries;
  std::map<std::string, int> by_name;
  std::vector<std::vector<int>> users;  // of each entry, one per use
};

Status LinkGraph(Graph* graph) {
  const int n = static_cast<int>(graph->entries.size());
  for (int i = 0; i < n; ++i) {
    const LayerEntry& entry = graph->entries[i];
    if (entry.layer.name.empty()) {
      return InvalidArgument("%s.name: is missing", entry.path.c_str());
    }
    if (!graph->by_name.emplace(entry.layer.name, i).second) {
      return entry.Annotate(InvalidArgument(
          "%s.name: two layers have this name", entry.path.c_str()));
    }
  }
  graph->users.resize(graph->entries.size());
  for (int i = 0; i < n; ++i) {
    const LayerEntry& entry = graph->entries[i];
    for (const std::string& input : entry.inputs) {
      const auto found = graph->by_name.find(input);
      if (found == graph->by_name.end()) {
        std::vector<std::string> known;
        for (const auto& named : graph->by_name) known.push_back(named.first);
        return entry.Annotate(
            UnknownName(entry.path + ".inbound_nodes", "layer", input, known));
      }
      graph->users[found->second].push_back(i);
    }
  }
  return Status();
}

// Each after its inputs; where that leaves a choice, in the order of the file.
Status SortGraph(const Graph& graph, std::vector<int>* order) {
  std::vector<size_t> missing;
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const LayerEntry& entry : graph.entries) {
    if (entry.inputs.empty()) ready.push(static_cast<int>(missing.size()));
    missing.push_back(entry.inputs.size());
  }
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order->push_back(next);
    for (int user : graph.users[next]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) continue;
    return graph.entries[i].Annotate(
        InvalidArgument("%s.inbound_nodes: waits for its own output (a cycle)",
                        graph.entries[i].path.c_str()));
  }
  return Status();
}

// One input, one output, and every layer on a way between them.
Status CheckEnds(const Graph& graph, const std::string& input,
                 const std::string& output, const FieldReader& fields) {
  const auto out = graph.by_name.find(output);
  const auto in = graph.by_name.find(input);
  for (const auto& end :
       {std::make_pair(in, &input), std::make_pair(out, &output)}) {
    if (end.first != graph.by_name.end()) continue;
    return InvalidArgument(
        "%s: there is no layer '%s'",
        fields.PathOf(end.second == &input ? "input_layers" : "output_layers")
            .c_str(),
        Printable(*end.second).c_str());
  }
  for (size_t i = 0; i < graph.entries.size(); ++i) {
    const LayerEntry& entry = graph.entries[i];
    const bool is_input = entry.layer.kind == Kind::kInput;
    if (is_input != (static_cast<int>(i) == in->second)) {
      return entry.Annotate(InvalidArgument(
          "%s: %s", entry.path.c_str(),
          is_input ? "a second input is not supported"
                   : "named by input_layers, and is not an InputLayer"));
    }
    const bool is_output = static_cast<int>(i) == out->second;
    if (graph.users[i].empty() == is_output) continue;
    return entry.Annotate(InvalidArgument(
        "%s: %s", entry.path.c_str(),
        is_output ? "the output is taken by another layer"
                  : "nothing takes its output, and it is not the model's"));
  }
  return Status();
}

Status BuildFunctional(const Json& layers, Graph* graph, FieldReader* fields,
                       Functional* model) {
  Json json = layers.first();
  for (LayerEntry& entry : graph->entries) {
    RINGLET_RETURN_IF_ERROR(entry.Annotate(ReadInputs(json, &entry)));
    json = json.next();
  }
  std::string input, output;
  ReadEnd("input_layers", fields, &input);
  ReadEnd("output_layers", fields, &output);
  RINGLET_RETURN_IF_ERROR(fields->Finish());
  RINGLET_RETURN_IF_ERROR(LinkGraph(graph));
  std::vector<int> order;
  RINGLET_RETURN_IF_ERROR(SortGraph(*graph, &order));
  RINGLET_RETURN_IF_ERROR(CheckEnds(*graph, input, output, *fields));
  std::vector<Functional::Node> node_of(graph->entries.size());
  for (int i : order) {
    const LayerEntry& entry = graph->entries[i];
    std::vector<Functional::Node> inputs;
    for (const std::string& name : entry.inputs) {
      inputs.push_back(node_of[graph->by_name[name]]);
    }
    node_of[i] = model->Add(entry.layer, inputs);
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

Status ReadModel(const KerasObject& object, std::unique_ptr<Model>* model) {
  ModelClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kModels, object.path, "model", object.name, &which));
  const bool sequential = which == ModelClass::kSequential;
  // The first Keras 2 wrote a Sequential's layers without a name around them.
  const bool bare = sequential && object.config.is_array();
  FieldReader fields(bare ? Json() : object.config, object.config_path);
  if (!bare) fields.Require("layers");
  const Json layers =
      bare ? object.config : fields.Take("layers", "a list of layers");
  std::string name;
  if (fields.Has("name")) {
    fields.Text("name", "a string of 1 to 255 bytes", &name);
    if (fields.ok()) fields.Fail(CheckName(name, fields.PathOf("name")));
  }
  std::optional<bool> trainable = true;
  fields.Bool("trainable", &trainable);
  ReadDType(&fields);
  if (sequential) {
    fields.Take("build_input_shape", "the shape of an input without a layer");
    fields.Has("build_input_shape");
  } else {
    for (const char* end : {"input_layers", "output_layers"}) {
      fields.Require(end);
      fields.Take(end, "[a layer's name, 0, 0]");
    }
  }
  RINGLET_RETURN_IF_ERROR(fields.Finish());

  Graph graph;
  RINGLET_RETURN_IF_ERROR(
      ReadLayers(layers, bare ? object.config_path : fields.PathOf("layers"),
                 &graph.entries));
  for (LayerEntry& entry : graph.entries) {
    if (!trainable.value_or(true)) entry.layer.Trainable(false);
  }
  std::unique_ptr<Model> made;
  if (sequential) {
    auto built = std::make_unique<Sequential>();
    RINGLET_RETURN_IF_ERROR(
        BuildSequential(&graph.entries, &fields, built.get()));
    made = std::move(built);
  } else {
    auto built = std::make_unique<Functional>();
    RINGLET_RETURN_IF_ERROR(
        BuildFunctional(layers, &graph, &fields, built.get()));
    made = std::move(built);
  }
  RINGLET_RETURN_IF_ERROR(made->status());
  if (made->num_nodes() < 2) {
    return InvalidArgument("%s: a model needs an input and a layer",
                           fields.PathOf("layers").c_str());
  }
  if (!name.empty()) made->set_name(name);
  *model = std::move(made);
  return Status();
}

// --- writing ----------------------------------------------------------------

void WriteReference(JsonWriter* w, const std::string& name) {
  w->BeginArray().String(name).Int(0).Int(0).EndArray();
}

void WriteTensor(JsonWriter* w, const Model& model, int node) {
  w->BeginObject().Key("class_name").String("__keras_tensor__");
  w->Key("config").BeginObject();
  w->Key("shape");
  WriteShape(w, true, model.output_shape(node));
  w->Key("dtype").String("float32").Key("keras_history");
  WriteReference(w, model.layer(node).name);
  w->EndObject().EndObject();
}

// Keras calls a merging layer with one argument, the list of its inputs.
void WriteInboundNodes(JsonWriter* w, const Model& model, int node) {
  const std::vector<int>& inputs = model.inputs(node);
  w->Key("inbound_nodes").BeginArray();
  if (!inputs.empty()) {
    const bool list = ClassOf(model.layer(node)).inputs == LayerInputs::kList;
    w->BeginObject().Key("args").BeginArray();
    if (list) w->BeginArray();
    for (int input : inputs) WriteTensor(w, model, input);
    if (list) w->EndArray();
    w->EndArray().Key("kwargs").BeginObject().EndObject().EndObject();
  }
  w->EndArray();
}

void WriteLayer(JsonWriter* w, const Model& model, int node, bool functional) {
  const Layer& layer = model.layer(node);
  WriteKerasObject(
      w, "keras.layers", ClassName(layer), [&] { WriteConfig(w, layer); },
      [&] {
        if (!functional) return;
        w->Key("name").String(layer.name);
        WriteInboundNodes(w, model, node);
      });
}

void WriteModelConfig(JsonWriter* w, const Model& model, bool functional) {
  w->Key("name").String(model.name()).Key("trainable").Bool(true);
  if (!functional) WriteDType(w);
  w->Key("layers").BeginArray();
  for (int node = 0; node < model.num_nodes(); ++node) {
    WriteLayer(w, model, node, functional);
  }
  w->EndArray();
  if (!functional || model.num_nodes() == 0) return;
  w->Key("input_layers").BeginArray();
  WriteReference(w, model.layer(0).name);
  w->EndArray().Key("output_layers").BeginArray();
  WriteReference(w, model.layer(model.num_nodes() - 1).name);
  w->EndArray();
}

}  // namespace

std::vector<ClassInfo> DescribeModels() {
  return Describe(kModels, [](const KerasObject& object) {
    std::unique_ptr<Model> model;
    (void)ReadModel(object, &model);
  });
}

std::string ToJson(const Model& model) {
  JsonWriter w;
  const bool functional = std::string(model.class_name()) == "Functional";
  // Functional is not among Keras's public names; this is where it is.
  WriteKerasObject(&w, functional ? "keras.src.models.functional" : "keras",
                   model.class_name(),
                   [&] { WriteModelConfig(&w, model, functional); });
  return w.text();
}

Status ModelFromJson(const Json& json, const std::string& path,
                     std::unique_ptr<Model>* model) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(
      ReadKerasObject(json, path, &object, {"keras_version", "backend"}));
  return ReadModel(object, model);
}

Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model) {
  Json root;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(json, "model JSON", &root));
  return ModelFromJson(root, "", model).Annotate("model JSON");
}

}  // namespace ringlet
