// A layer names its inputs by the name of another layer and the number of that
// layer's call. Layers may be in any order. Names and cycles are checked first
// (SortCalls), so that the inputs of a layer are added before the layer.
//
// The calls of a layer are counted from 0, but the calls of a nested model from
// 1, since Keras counts its construction as call 0. For a nested Sequential
// only Keras 2 does so. The file does not store whether the calls of a layer
// are counted from 0 or from 1. Every call is an input of some layer, so the
// largest number of a call decides (CountFrom).

#include "functional_json.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "../../core/layers/recurrent/bidirectional.h"
#include "../../core/layers/recurrent/recurrent_output.h"
#include "../../core/layers/recurrent/time_distributed.h"
#include "mask_json.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;
// An entry, the number of its call, and the number of its tensor.
using TensorKey = std::tuple<int, int64_t, int64_t>;

Status NameEntries(LayerGraph* graph) {
  int i = 0;
  for (const LayerEntry& entry : graph->entries) {
    if (entry.layer.name.empty()) {
      return InvalidArgument("%s.name: is missing", entry.path.c_str());
    }
    if (!graph->by_name.emplace(entry.layer.name, i++).second) {
      return entry.Annotate(InvalidArgument(
          "%s.name: two layers have this name", entry.path.c_str()));
    }
  }
  return Status();
}

// Makes `reference` refer to a RecurrentOutput, if its layer gives several
// tensors. `output_names` has the name of the new layer for each such tensor.
Status ReferToOutput(const LayerGraph& graph, const std::string& path,
                     std::map<TensorKey, std::string>* output_names,
                     CallReference* reference) {
  const auto found = graph.by_name.find(reference->name);
  if (found == graph.by_name.end()) return Status();  // CountFrom has the error
  const LayerEntry& entry = graph.entries[found->second];
  const bool both = entry.layer.kind == Kind::kBidirectional;
  const Layer& layer = both ? *entry.layer.layer : entry.layer;
  const bool several =
      IsRecurrent(layer.kind) &&
      (layer.return_state || (both && OutputsOf(entry.layer) > 1));
  if (!several && reference->tensor == 0) return Status();
  if (!several) {
    return InvalidArgument(
        "%s: takes tensor %lld of layer '%s', which gives one; only a "
        "SimpleRNN, LSTM, GRU or Bidirectional with return_state, or a "
        "Bidirectional without a merge mode, gives several tensors",
        path.c_str(), static_cast<long long>(reference->tensor),
        Printable(reference->name).c_str());
  }
  std::string& name =
      (*output_names)[{found->second, reference->number, reference->tensor}];
  name = TensorName(reference->name, reference->number, reference->tensor);
  while (graph.by_name.count(name) != 0) name += '_';
  *reference = CallReference();
  reference->name = name;
  return Status();
}

// Adds a RecurrentOutput for each tensor that a reference takes of a layer with
// several.
Status AddRecurrentOutputs(std::vector<CallReference>* outputs,
                           const std::string& path, LayerGraph* graph) {
  std::map<TensorKey, std::string> output_names;
  for (CallReference& output : *outputs) {
    RINGLET_RETURN_IF_ERROR(
        ReferToOutput(*graph, path, &output_names, &output));
  }
  for (LayerEntry& entry : graph->entries) {
    for (auto& call : entry.calls) {
      for (CallReference& input : call) {
        RINGLET_RETURN_IF_ERROR(entry.Annotate(ReferToOutput(
            *graph, entry.path + ".inbound_nodes", &output_names, &input)));
      }
    }
  }
  for (const auto& [tensor, name] : output_names) {
    const auto [number, call, index] = tensor;
    LayerEntry entry;
    entry.layer = RecurrentOutput(index).Name(name);
    entry.class_name = ClassName(entry.layer);
    entry.path = graph->entries[number].path;
    CallReference source;
    source.name = graph->entries[number].layer.name;
    source.number = call;
    entry.calls = {{source}};
    graph->by_name.emplace(name, static_cast<int>(graph->entries.size()));
    graph->entries.push_back(std::move(entry));
  }
  return Status();
}

// Checks that every named layer exists, and finds whether the calls of each
// nested model are counted from 0 or from 1.
Status CountFrom(const std::vector<CallReference>& outputs, LayerGraph* graph) {
  const auto refer = [graph](const CallReference& reference) {
    const auto found = graph->by_name.find(reference.name);
    if (found == graph->by_name.end()) return false;
    LayerEntry& entry = graph->entries[found->second];
    const auto calls = static_cast<int64_t>(entry.calls.size());
    if (entry.layer.model != nullptr && reference.number == calls) {
      graph->counts_from_1.insert(found->second);
    }
    return true;
  };
  for (const CallReference& output : outputs) refer(output);
  for (const LayerEntry& entry : graph->entries) {
    for (const auto& call : entry.calls) {
      for (const CallReference& input : call) {
        if (refer(input)) continue;
        std::vector<std::string> known;
        for (const auto& named : graph->by_name) known.push_back(named.first);
        return entry.Annotate(UnknownName(entry.path + ".inbound_nodes",
                                          "layer", input.name, known));
      }
    }
  }
  return Status();
}

bool ContainsCall(const std::vector<int>& calls, int call) {
  return std::find(calls.begin(), calls.end(), call) != calls.end();
}

// Finds the call that a reference names.
Status FindCall(const LayerGraph& graph, const CallReference& reference,
                const std::string& path, int* call) {
  const int entry = graph.by_name.at(reference.name);
  const auto calls = static_cast<int64_t>(graph.entries[entry].calls.size());
  const int64_t first = graph.counts_from_1.count(entry) != 0 ? 1 : 0;
  if (reference.number < first || reference.number - first >= calls) {
    return InvalidArgument(
        "%s: call %lld of layer '%s', which has calls %lld to %lld",
        path.c_str(), static_cast<long long>(reference.number),
        Printable(reference.name).c_str(), static_cast<long long>(first),
        static_cast<long long>(first + calls - 1));
  }
  *call = graph.first_call[entry] + static_cast<int>(reference.number - first);
  return Status();
}

Status LinkCalls(LayerGraph* graph) {
  for (size_t e = 0; e < graph->entries.size(); ++e) {
    graph->first_call.push_back(static_cast<int>(graph->calls.size()));
    for (size_t k = 0; k < graph->entries[e].calls.size(); ++k) {
      graph->calls.emplace_back();
      graph->calls.back().entry = static_cast<int>(e);
      graph->calls.back().number = static_cast<int>(k);
    }
  }
  for (size_t c = 0; c < graph->calls.size(); ++c) {
    LayerGraph::Call& call = graph->calls[c];
    const LayerEntry& entry = graph->entries[call.entry];
    for (const CallReference& input : entry.calls[call.number]) {
      int from = 0;
      RINGLET_RETURN_IF_ERROR(entry.Annotate(
          FindCall(*graph, input, entry.path + ".inbound_nodes", &from)));
      call.inputs.push_back(from);
      graph->calls[from].users.push_back(static_cast<int>(c));
    }
  }
  return Status();
}

// Sorts the calls so that each comes after its inputs, and the calls of a layer
// are in order of their numbers. If several orders are possible, it takes the
// order of LayerEntry::call_order, or without one the order in the file. A
// RecurrentOutput is directly after its layer. `first` are the calls of the
// model's inputs.
Status SortCalls(const LayerGraph& graph, const std::vector<int>& first,
                 std::vector<int>* order) {
  using Place = std::pair<int64_t, int>;  // priority, and the call
  std::vector<size_t> missing;
  std::priority_queue<Place, std::vector<Place>, std::greater<Place>> ready;
  const auto push = [&](int c) {
    const auto input = std::find(first.begin(), first.end(), c);
    if (input != first.end()) {
      return ready.push({input - first.end(), c});
    }
    const LayerGraph::Call& call = graph.calls[c];
    const LayerEntry& entry = graph.entries[call.entry];
    if (entry.layer.kind == Kind::kRecurrentOutput) {
      return ready.push({std::numeric_limits<int64_t>::min(), c});
    }
    const auto& stored_order = entry.call_order;
    ready.push({stored_order.empty() ? c : stored_order[call.number], c});
  };
  for (const LayerGraph::Call& call : graph.calls) {
    if (call.inputs.empty()) push(static_cast<int>(missing.size()));
    missing.push_back(call.inputs.size() + (call.number > 0 ? 1 : 0));
  }
  while (!ready.empty()) {
    const int next = ready.top().second;
    ready.pop();
    order->push_back(next);
    for (int user : graph.calls[next].users) {
      if (--missing[user] == 0) push(user);
    }
    const size_t next_call = static_cast<size_t>(next) + 1;
    if (next_call < graph.calls.size() && graph.calls[next_call].number > 0 &&
        --missing[next_call] == 0) {
      push(next + 1);
    }
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) continue;
    const LayerEntry& entry = graph.entries[graph.calls[i].entry];
    return entry.Annotate(
        InvalidArgument("%s.inbound_nodes: waits for its own output (a cycle)",
                        entry.path.c_str()));
  }
  return Status();
}

// Finds the calls that `ends` name. It is an error to name a call twice.
Status FindEnds(const LayerGraph& graph, const std::vector<CallReference>& ends,
                const std::string& path, std::vector<int>* calls) {
  for (const CallReference& end : ends) {
    if (graph.by_name.count(end.name) == 0) {
      return InvalidArgument("%s: there is no layer '%s'", path.c_str(),
                             Printable(end.name).c_str());
    }
    int call = 0;
    RINGLET_RETURN_IF_ERROR(FindCall(graph, end, path, &call));
    if (ContainsCall(*calls, call)) {
      return InvalidArgument("%s: names layer '%s' twice", path.c_str(),
                             Printable(end.name).c_str());
    }
    calls->push_back(call);
  }
  return Status();
}

// Returns an error if a call is not on a path from an input of the model to an
// output.
Status CheckEnds(const LayerGraph& graph) {
  for (size_t c = 0; c < graph.calls.size(); ++c) {
    const LayerGraph::Call& call = graph.calls[c];
    const LayerEntry& entry = graph.entries[call.entry];
    const bool is_input = entry.layer.kind == Kind::kInput;
    if (is_input != ContainsCall(graph.inputs, static_cast<int>(c))) {
      return entry.Annotate(InvalidArgument(
          "%s: %s", entry.path.c_str(),
          is_input ? "is an InputLayer, and input_layers does not name it"
                   : "named by input_layers, and is not an InputLayer"));
    }
    if (!call.users.empty() ||
        ContainsCall(graph.outputs, static_cast<int>(c))) {
      continue;
    }
    return entry.Annotate(InvalidArgument(
        "%s: no layer takes its output, and it is not the model's",
        entry.path.c_str()));
  }
  return Status();
}

// Adds the calls of a valid graph to the model, in topological order.
Status LinkGraph(LayerGraph* graph, FieldReader* fields,
                 std::vector<int>* order) {
  std::vector<CallReference> inputs, outputs;
  ReadEnds("input_layers", fields, &inputs);
  ReadEnds("output_layers", fields, &outputs);
  RINGLET_RETURN_IF_ERROR(fields->Finish());
  const std::string in = fields->PathOf("input_layers");
  const std::string out = fields->PathOf("output_layers");
  RINGLET_RETURN_IF_ERROR(NameEntries(graph));
  RINGLET_RETURN_IF_ERROR(AddRecurrentOutputs(&outputs, out, graph));
  RINGLET_RETURN_IF_ERROR(CountFrom(outputs, graph));
  RINGLET_RETURN_IF_ERROR(LinkCalls(graph));
  RINGLET_RETURN_IF_ERROR(FindEnds(*graph, inputs, in, &graph->inputs));
  RINGLET_RETURN_IF_ERROR(SortCalls(*graph, graph->inputs, order));
  RINGLET_RETURN_IF_ERROR(FindEnds(*graph, outputs, out, &graph->outputs));
  return CheckEnds(*graph);
}

// Compares a mask of the file with the model's mask.
Status CheckMaskOf(const LayerGraph& graph, const LayerEntry& entry,
                   const MaskReference& mask,
                   const std::vector<Functional::Node>& node_of,
                   Functional::Node node, const Model& model) {
  int from = 0;
  const std::string path = entry.path + ".inbound_nodes";
  if (graph.by_name.count(mask.from.name) == 0) {
    return entry.Annotate(InvalidArgument("%s: mask: there is no layer '%s'",
                                          path.c_str(),
                                          Printable(mask.from.name).c_str()));
  }
  RINGLET_RETURN_IF_ERROR(FindCall(graph, mask.from, path, &from));
  return CheckMask(entry, mask, model, node, node_of[from]);
}

}  // namespace

Status BuildFunctional(const Json& layers, LayerGraph* graph,
                       FieldReader* fields, Functional* model) {
  Json json = layers.first();
  for (LayerEntry& entry : graph->entries) {
    RINGLET_RETURN_IF_ERROR(entry.Annotate(ReadCalls(json, &entry)));
    RINGLET_RETURN_IF_ERROR(entry.Annotate(ReadCallOrder(json, &entry)));
    json = json.next();
  }
  RINGLET_RETURN_IF_ERROR(ResolveMasks(&graph->entries));
  std::vector<int> order;
  RINGLET_RETURN_IF_ERROR(LinkGraph(graph, fields, &order));
  std::vector<Functional::Node> node_of(graph->calls.size());
  for (int c : order) {
    const LayerGraph::Call& call = graph->calls[c];
    const LayerEntry& entry = graph->entries[call.entry];
    std::vector<Functional::Node> inputs;
    for (int input : call.inputs) inputs.push_back(node_of[input]);
    node_of[c] = call.number == 0
                     ? model->Add(LayerBehind(entry, *model,
                                              inputs.empty() ? -1 : inputs[0]),
                                  inputs)
                     : model->CallAgain(node_of[c - call.number], inputs);
    RINGLET_RETURN_IF_ERROR(CheckAdded(entry, *model));
    for (const MaskReference& mask : entry.masks) {
      if (mask.call != static_cast<size_t>(call.number)) continue;
      RINGLET_RETURN_IF_ERROR(
          CheckMaskOf(*graph, entry, mask, node_of, node_of[c], *model));
    }
  }
  std::vector<Functional::Node> outputs;
  for (const int c : graph->outputs) outputs.push_back(node_of[c]);
  model->Outputs(outputs);
  return model->status();
}

Layer LayerBehind(const LayerEntry& entry, const Model& model, int input) {
  Layer layer = entry.layer;
  // In Keras a Normalization without adapt() has mean 0 and variance 1. Here
  // Fit adapts it, but only if it is directly after an input.
  if (layer.kind == Kind::kNormalization && layer.means.empty() &&
      layer.variances.empty() && !entry.has_adapt && input >= 0 &&
      model.layer(input).kind != Kind::kInput) {
    layer.means = {0};
    layer.variances = {1};
  }
  if (layer.kind == Layer::Kind::kSoftmax && layer.axes.size() == 1 &&
      input >= 0 && layer.axes[0] == model.output_shape(input).rank()) {
    layer.kind = Layer::Kind::kActivation;
    layer.activation = kSoftmax;
    layer.axes = {-1};
  }
  return layer;
}

// True if `shape` is `expected`, with any sizes in place of its open ones.
bool MatchesOpenShape(const Shape& shape, const Shape& expected) {
  if (shape.rank() != expected.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (expected[i] != kOpenSize && expected[i] != shape[i]) return false;
  }
  return true;
}

// The nodes that a layer becomes.
int NodesOf(const Layer& layer) {
  if (AppliesModel(layer)) return NodesOf(*layer.layer);
  if (layer.kind == Kind::kModel) {
    return static_cast<int>(layer.model->num_nodes);
  }
  return layer.kind == Kind::kBidirectional ? NodesOfBidirectional(layer) : 1;
}

Status CheckAdded(const LayerEntry& entry, const Model& model) {
  RINGLET_RETURN_IF_ERROR(model.status().Annotate("%s", entry.path.c_str()));
  const std::vector<int>& inputs =
      model.inputs(model.num_nodes() - NodesOf(entry.layer));
  if (entry.has_input && entry.layer.model == nullptr &&
      !MatchesOpenShape(model.output_shape(inputs[0]), entry.input)) {
    return entry.Annotate(InvalidArgument(
        "%s.config.batch_input_shape: is %s for each example, but the layer's "
        "input has %s",
        entry.path.c_str(), entry.input.ToString().c_str(),
        model.output_shape(inputs[0]).ToString().c_str()));
  }
  if (entry.rank > model.output_shape().rank() + 1) {
    return entry.Annotate(InvalidArgument(
        "%s.inbound_nodes: numbers of %d dimensions; at most %d fit the input",
        entry.path.c_str(), entry.rank, model.output_shape().rank() + 1));
  }
  if (entry.axis == -1 || entry.axis == model.output_shape().rank()) {
    return Status();
  }
  return entry.Annotate(InvalidArgument(
      "%s.config.axis: is %lld; ringlet supports only the last axis, -1",
      entry.path.c_str(), static_cast<long long>(entry.axis)));
}

}  // namespace ringlet
