// The inputs and outputs of a graph, and the paths between them.

#include <algorithm>
#include <cinttypes>

#include "../layers/layer_table.h"
#include "../layers/recurrent/bidirectional.h"
#include "graph.h"

namespace ringlet {

Status Graph::SetOutputs(const std::vector<int>& nodes) {
  RINGLET_RETURN_IF_ERROR(CheckNewCall(nodes).Annotate("outputs"));
  if (nodes.empty()) return InvalidArgument("a model has at least one output");
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes_[nodes[i]];
    if (node.op == nullptr) {
      return InvalidArgument("Input '%s' cannot be an output",
                             node.layer.name.c_str());
    }
    for (size_t k = 0; k < i; ++k) {
      const GraphNode& other = nodes_[nodes[k]];
      if (other.root != node.root) continue;
      return InvalidArgument(
          "outputs '%s' and '%s' are the same values; leave one out",
          other.layer.name.c_str(), node.layer.name.c_str());
    }
  }
  outputs_ = nodes;
  outputs_set_ = true;
  return Status();
}

int64_t Graph::input_elements() const {
  int64_t sum = 0;
  for (int i = 0; i < num_inputs_; ++i) sum += nodes_[i].output.elements();
  return sum;
}

bool Graph::is_output_root(int root) const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [&](int output) { return nodes_[output].root == root; });
}

std::string Graph::OutputName(size_t k) const {
  const auto layer = [&](size_t i) {
    return calls_[call_of_node_[outputs_[i]]].layer;
  };
  int before = 0;
  for (size_t i = 0; i < k; ++i) before += layer(i) == layer(k) ? 1 : 0;
  const std::string& name = layers_[layer(k)].path;
  return before == 0 ? name : name + "_" + std::to_string(before);
}

// Checks that there is a layer, and that every node is read or is an output.
Status Graph::CheckWhole() const {
  if (size() <= num_inputs_ || size() == 0) {
    return InvalidArgument("model '%s': needs an Input and at least one layer",
                           name_.c_str());
  }
  std::vector<bool> is_read(nodes_.size(), false);
  for (const GraphNode& node : nodes_) {
    for (int input : node.inputs) is_read[input] = true;
    // If a state or an output of a Bidirectional is read, its last layer, the
    // merge, need not be read.
    if (layers_[node.layer_index].layer.kind != Layer::Kind::kRecurrentOutput) {
      continue;
    }
    const int parent = layers_[nodes_[node.inputs[0]].layer_index].parent;
    if (parent < 0 || !IsExpandedBidirectional(layers_[parent].layer)) continue;
    int merge = node.inputs[0];
    while (nodes_[merge].layer_index + 1 != layers_[parent].end) ++merge;
    if (node.layer_index >= layers_[parent].end) is_read[merge] = true;
  }
  for (const auto& mask : masks_) is_read[mask.second] = true;
  for (const int output : outputs_) is_read[output] = true;
  RINGLET_RETURN_IF_ERROR(CheckTensors(outputs_));
  RINGLET_RETURN_IF_ERROR(CheckSamplingRates());
  const auto unused = std::find(is_read.begin(), is_read.end(), false);
  if (unused == is_read.end()) return Status();
  return InvalidArgument(
      "layer '%s': no layer takes its output, and it is not %s",
      nodes_[unused - is_read.begin()].layer.name.c_str(),
      outputs_set_ ? "one of the model's" : "the last layer");
}

// A layer with as many outputs as inputs keeps the number of samples in a
// second. Any other layer, such as a pool, may change it.
Status Graph::CheckSamplingRates() const {
  std::vector<size_t> source(nodes_.size());  // the source of a node's samples
  std::vector<const GraphNode*> taker(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GraphNode& node = nodes_[i];
    const int64_t rate = SamplingRateOf(node.layer);
    source[i] = i;
    if (node.inputs.empty()) continue;
    const int input = node.inputs[0];
    const bool keeps =
        node.output.elements() == nodes_[input].output.elements();
    if (keeps) source[i] = source[input];
    if (rate == 0) continue;
    const GraphNode*& other = taker[source[input]];
    if (other == nullptr) other = &node;
    const int64_t others = SamplingRateOf(other->layer);
    if (others == rate) continue;
    return InvalidArgument(
        "layers '%s' and '%s' take the same sound, but with sampling_rate "
        "%" PRId64 " and %" PRId64
        "; give both that of the files, or an Input each",
        other->layer.name.c_str(), node.layer.name.c_str(), others, rate);
  }
  return Status();
}

// Returns the nodes that an output with a loss depends on.
std::vector<bool> Graph::LeadsToLoss() const {
  std::vector<bool> leads(nodes_.size(), false);
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (has_loss(k)) leads[outputs_[k]] = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!leads[i]) continue;
    for (const int input : nodes_[i].inputs) leads[input] = true;
  }
  return leads;
}

// Returns an error if one call of a shared layer leads to a loss, and another
// does not.
Status Graph::CheckShared() const {
  const std::vector<bool> leads = LeadsToLoss();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GraphNode& node = nodes_[i];
    const int first = layers_[node.layer_index].first_node;
    if (leads[i] == leads[first] || node.num_variables == 0) continue;
    return InvalidArgument(
        "layer '%s': one of its calls leads to an output with a loss, another "
        "only to an output without; give each output a loss",
        node.layer.name.c_str());
  }
  return Status();
}

}  // namespace ringlet
