// Layers refer to each other by name, in any order. Names and the cycle check
// (SortGraph) come before the first layer is added, so that the model only ever
// sees inputs that it has.

#include "functional_json.h"

#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "../../core/base/text.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

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

Status LinkGraph(LayerGraph* graph) {
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
Status SortGraph(const LayerGraph& graph, std::vector<int>* order) {
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
Status CheckEnds(const LayerGraph& graph, const std::string& input,
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

}  // namespace

Status BuildFunctional(const Json& layers, LayerGraph* graph,
                       FieldReader* fields, Functional* model) {
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

}  // namespace ringlet
