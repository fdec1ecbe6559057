// Recurrences as the operators RNN, LSTM and GRU. These have the steps first,
// kernels (directions, gates, inputs), and other orders of gates.

#include <iterator>
#include <limits>

#include "../../files/onnx_activations.h"
#include "onnx_converter.h"

namespace ringlet {
namespace {

// By value of Cell. `order`: Keras's gates in ONNX's order.
constexpr struct {
  const char* op;
  int order[4];
} kCells[] = {
    {"RNN", {0}},
    {"LSTM", {0, 3, 1, 2}},
    {"GRU", {0, 1, 2}},
    {"GRU", {0, 1, 2}},
};

// Attributes of a node: the functions' names, and the numbers of all in order.
struct Functions {
  std::vector<const char*> names;
  std::vector<float> alphas, betas;
  std::string missing;

  void Add(Activation activation) {
    for (const OnnxActivation& row : kOnnxActivations) {
      if (row.activation != activation || !row.exported) continue;
      names.push_back(row.name);
      if (row.count > 0) alphas.push_back(row.numbers[0]);
      if (row.count > 1) betas.push_back(row.numbers[1]);
      return;
    }
    missing = ActivationName(activation);
  }
};

}  // namespace

// From (inputs, gates of all units) to (1, gates of all units, inputs).
int OnnxConverter::TransposedGates(const char* name, const Variable* weight) {
  const float* const from = floats_ + weight->offset;
  const int64_t inputs = weight->shape[0], width = weight->shape[1],
                units = p_->output.back();
  std::vector<float> values;
  for (int64_t g = 0; g < GatesOf(p_->cell); ++g) {
    const int64_t first =
        kCells[static_cast<size_t>(p_->cell)].order[g] * units;
    for (int64_t u = first; u < first + units; ++u) {
      for (int64_t k = 0; k < inputs; ++k) {
        values.push_back(from[k * width + u]);
      }
    }
  }
  return graph_->AddFloats(p_->layer->name + name, {1, width, inputs},
                           values.data(), width * inputs);
}

// Returns the bias of the inputs' product, then that of the state's product, or
// zeros.
int OnnxConverter::GateBiases() {
  if (p_->bias == nullptr) return -1;
  const float* const from = floats_ + p_->bias->offset;
  const int64_t units = p_->output.back(), gates = GatesOf(p_->cell);
  std::vector<float> values;
  for (int64_t i = 0; i < 2 * gates; ++i) {
    const int64_t gate = kCells[static_cast<size_t>(p_->cell)].order[i % gates];
    const int64_t first = (i / gates * gates + gate) * units;
    for (int64_t u = first; u < first + units; ++u) {
      values.push_back(u < p_->bias->size() ? from[u] : 0);
    }
  }
  return graph_->AddFloats(p_->layer->name + "/B", {1, 2 * gates * units},
                           values.data(), 2 * gates * units);
}

// A state before the first step, in ONNX with an axis of directions.
int OnnxConverter::InitialState(size_t input) {
  if (input >= p_->inputs.size()) return -1;
  const int axis = builder_.Ints("/direction", {0});
  return builder_.Node("Unsqueeze", {builder_.Last(&x(input)), axis});
}

// Adds the node. Returns its first output: Y for all steps, else Y_h.
int OnnxConverter::AddRecurrence() {
  const auto& cell = kCells[static_cast<size_t>(p_->cell)];
  Functions functions;
  if (p_->cell != Cell::kSimple) functions.Add(p_->gate_activation);
  functions.Add(p_->activation);
  if (p_->cell == Cell::kLstm) functions.Add(p_->activation);
  if (!functions.missing.empty()) {
    unsupported_ = "the activation '" + std::string(functions.missing) + "'";
  }
  const int steps =
      builder_.Node("Transpose", {builder_.Last(&x())}, {{"perm", {1, 0, 2}}});
  const int w = TransposedGates("/W", p_->kernel),
            r = TransposedGates("/R", p_->recurrent_kernel), b = GateBiases(),
            lengths = -1, h = InitialState(1), c = InitialState(2);
  const int inputs[] = {steps, w, r, b, lengths, h, c};
  const OnnxAttribute common[] = {
      {"hidden_size", p_->output.back()},
      {"direction", p_->backwards ? "reverse" : "forward"},
      {"activations", &functions.names},
      {"activation_alpha", &functions.alphas},
      {"activation_beta", &functions.betas}};
  const std::string& layer = p_->layer->name;
  const int number = p_->all_steps ? 0 : 1;
  const bool gru = std::string("GRU") == cell.op;
  const int linear = p_->cell == Cell::kGruAfter ? 1 : 0;
  return gru ? graph_->AddNode(cell.op, inputs, std::size(inputs),
                               {common[0],
                                common[1],
                                common[2],
                                common[3],
                                common[4],
                                {"linear_before_reset", linear}},
                               layer, number)
             : graph_->AddNode(
                   cell.op, inputs, std::size(inputs),
                   {common[0], common[1], common[2], common[3], common[4]},
                   layer, number);
}

// The output of `recurrence` in Keras's order of axes, from that of its node.
int OnnxConverter::WithoutDirection(int y, const Primitive& recurrence) {
  const bool all_steps = recurrence.all_steps;
  const int axis = builder_.Ints("/direction", {all_steps ? 1 : 0});
  y = builder_.Node("Squeeze", {y, axis});
  if (recurrence.reversed) {
    const int from = builder_.Ints("/from", {-1}),
              to = builder_.Ints("/to", {std::numeric_limits<int64_t>::min()}),
              axes = builder_.Ints("/steps", {0}),
              by = builder_.Ints("/by", {-1});
    y = builder_.Node("Slice", {y, from, to, axes, by});
  }
  if (all_steps) y = builder_.Node("Transpose", {y}, {{"perm", {1, 0, 2}}});
  return y;
}

// With last states the value is the node's output, of which TakeTensor
// makes each tensor.
OnnxValue OnnxConverter::Recur() {
  int y = AddRecurrence();
  if (p_->last_states == 0) y = WithoutDirection(y, *p_);
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

OnnxValue OnnxConverter::TakeTensor() {
  const Primitive& recurrence =
      lowering_.primitives[static_cast<size_t>(p_->inputs[0])];
  int y = builder_.Last(&x());
  if (p_->tensor == 0) {
    y = WithoutDirection(y, recurrence);
  } else {
    const int axis = builder_.Ints("/direction", {0});
    y = graph_->OutputOfSameNode(y, static_cast<int>(p_->tensor));
    y = builder_.Node("Squeeze", {y, axis});
  }
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

OnnxValue OnnxConverter::Gather() {
  constexpr int kInt64 = 7;
  const Shape& kernel = p_->kernel->shape;
  const int rows =
      builder_.Node("Cast", {builder_.Last(&x())}, {{"to", kInt64}});
  const int table = Weight(p_->kernel, {kernel[0], kernel[1]});
  return OnnxBuilder::MakeValue(
      p_->output, AxisOrder::kChannelsLast,
      builder_.Node("Gather", {table, rows}, {{"axis", 0}}));
}

}  // namespace ringlet
