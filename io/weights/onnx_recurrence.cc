// An operator's attributes are compared with the layer's settings one by one.
// An attribute without a counterpart in Keras is refused, since the weights
// alone would load and compute other outputs. Defaults are the defaults of the
// ONNX operators: an attribute may be absent.

#include "onnx_recurrence.h"

#include <cinttypes>
#include <cmath>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "../files/onnx_activations.h"

namespace ringlet {
namespace {

using Node = OnnxFileGraph::Node;

bool IsNear(float a, float b) { return std::fabs(a - b) < 1e-6f; }

// Names functions one after another: each takes its numbers from the front of
// both lists.
class FunctionNames {
 public:
  explicit FunctionNames(const Node& node) : node_(node) {}

  std::string Next(const std::string& function) {
    const std::string lower = LowerAscii(function);
    float numbers[2] = {};
    bool known = false;
    std::string keras;
    for (const OnnxActivation& row : kOnnxActivations) {
      if (lower != LowerAscii(row.name)) continue;
      if (!known) {
        Take(node_.activation_alpha, row.count > 0, row.defaults[0], &alphas_,
             &numbers[0]);
        Take(node_.activation_beta, row.count > 1, row.defaults[1], &betas_,
             &numbers[1]);
      }
      known = true;
      if (IsNear(numbers[0], row.numbers[0]) &&
          IsNear(numbers[1], row.numbers[1])) {
        keras = ActivationName(row.activation);
      }
    }
    if (!keras.empty()) return keras;
    if (!known) return Printable(function);
    return Printable(function) + FormatText("(%g, %g)",
                                            static_cast<double>(numbers[0]),
                                            static_cast<double>(numbers[1]));
  }

 private:
  static void Take(const std::vector<float>& list, bool takes,
                   float default_value, size_t* at, float* number) {
    if (takes) *number = *at < list.size() ? list[(*at)++] : default_value;
  }

  const Node& node_;
  size_t alphas_ = 0, betas_ = 0;
};

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

Status RefusedAttribute(const Node& node, const std::string& attribute,
                        const char* layers) {
  return Error(Code::kUnimplemented,
               "node '%s' (%s): its attribute %s; ringlet's recurrent layers "
               "%s",
               Printable(node.name).c_str(), Printable(node.op).c_str(),
               attribute.c_str(), layers);
}

// The activations of one direction are for the gates and for the state; an LSTM
// has another for the cell state.
Status ReadActivations(const Node& node, int gates, bool second,
                       OnnxRecurrence* recurrence) {
  const size_t count = gates == 4   ? 3
                       : gates == 3 ? 2
                                    : 1,
               directions = node.direction == "bidirectional" ? 2 : 1;
  std::vector<std::string> functions = node.activations;
  if (functions.empty()) {
    for (size_t i = 0; i < count * directions; ++i) {
      functions.push_back(count > 1 && i % count == 0 ? "Sigmoid" : "Tanh");
    }
  }
  if (functions.size() != count * directions) {
    return Corruption(
        "node '%s' (%s): its attribute activations has %zu names "
        "in place of %zu",
        Printable(node.name).c_str(), Printable(node.op).c_str(),
        functions.size(), count * directions);
  }
  FunctionNames names(node);
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string name = names.Next(functions[i]);
    if (i / count == (second ? 1 : 0)) recurrence->activations.push_back(name);
  }
  return Status();
}

// How often the layer is called with initial states, and without.
void CountCalls(const Model& model, int node, int* with_states,
                int* without_states) {
  *with_states = *without_states = 0;
  for (int call = 0; call < model.num_nodes(); ++call) {
    if (model.first_call(call) != model.first_call(node)) continue;
    const size_t masks = model.layer(call).masked_inputs != 0 ? 1 : 0;
    ++*(model.inputs(call).size() > 1 + masks ? with_states : without_states);
  }
}

Status CheckStates(const OnnxRecurrence& recurrence, const Model& model,
                   int node) {
  int with_states = 0, without_states = 0;
  CountCalls(model, node, &with_states, &without_states);
  if (recurrence.has_states ? with_states > 0 : without_states > 0)
    return Status();
  return InvalidArgument(
      "layer '%s' is called %s initial states, and node '%s' of the file has "
      "%s",
      model.layer(node).name.c_str(),
      recurrence.has_states ? "without" : "with", recurrence.node.c_str(),
      recurrence.has_states ? "values of the graph as initial_h" : "none");
}

Status CheckActivations(const OnnxRecurrence& recurrence, const Model& model,
                        int node) {
  const Layer& layer = StepLayer(model.layer(node));
  const std::string activation = ActivationName(layer.activation),
                    gates = ActivationName(layer.recurrent_activation);
  std::vector<std::string> expected = {activation};
  if (layer.kind != Layer::Kind::kSimpleRNN) expected = {gates, activation};
  if (layer.kind == Layer::Kind::kLSTM)
    expected = {gates, activation, activation};
  if (recurrence.activations == expected) return Status();
  return InvalidArgument(
      "layer '%s' computes the activations %s, and node '%s' of the file by "
      "its attribute activations %s",
      model.layer(node).name.c_str(), Joined(expected).c_str(),
      recurrence.node.c_str(), Joined(recurrence.activations).c_str());
}

}  // namespace

Status ReadOnnxRecurrence(const Node& node, int gates, bool backward,
                          OnnxRecurrence* recurrence) {
  const std::string& direction = node.direction;
  const bool both = direction == "bidirectional";
  if (!both && !direction.empty() && direction != "forward" &&
      direction != "reverse") {
    return Corruption(
        "node '%s' (%s): its attribute direction is '%s', and not forward, "
        "reverse or bidirectional",
        Printable(node.name).c_str(), Printable(node.op).c_str(),
        Printable(direction).c_str());
  }
  if (node.clips) {
    return RefusedAttribute(node, "clip limits the inputs of activations",
                            "have no limit");
  }
  if (node.input_forget) {
    return RefusedAttribute(node, "input_forget joins two gates",
                            "have both gates");
  }
  if (node.inputs.size() > 7 && !node.inputs[7].empty()) {
    return Error(Code::kUnimplemented, "node '%s': an LSTM with peepholes",
                 Printable(node.name).c_str());
  }
  if (node.inputs.size() > 1 && EndsWith(node.inputs[1], kKernelWithMask)) {
    return Error(Code::kUnimplemented,
                 "node '%s' (%s): its kernel has one more input, for a mask, "
                 "as exports of a model with a mask and return_state have it; "
                 "take the weights from the model's own file",
                 Printable(node.name).c_str(), Printable(node.op).c_str());
  }
  recurrence->node = Printable(node.name);
  recurrence->backward = backward || direction == "reverse";
  recurrence->resets_before = gates == 3 && !node.linear_before_reset;
  return ReadActivations(node, gates, backward, recurrence);
}

Status CheckRecurrence(const OnnxRecurrence& recurrence, const Model& model,
                       int node) {
  const Layer& layer = StepLayer(model.layer(node));
  const bool may_be_backward =
      recurrence.time_may_be_reversed && !recurrence.backward;
  if (layer.go_backwards != recurrence.backward && !may_be_backward) {
    return InvalidArgument(
        "layer '%s' has go_backwards %s, and node '%s' of the file computes %s "
        "by its attribute direction",
        model.layer(node).name.c_str(), layer.go_backwards ? "true" : "false",
        recurrence.node.c_str(), recurrence.backward ? "backward" : "forward");
  }
  RINGLET_RETURN_IF_ERROR(CheckActivations(recurrence, model, node));
  return CheckStates(recurrence, model, node);
}

}  // namespace ringlet
