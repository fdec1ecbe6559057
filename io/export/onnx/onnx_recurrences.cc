// Recurrences as the operators RNN, LSTM and GRU. These have the steps first,
// kernels (directions, gates, inputs), and other orders of gates.
//
// Not all programs that read ONNX have its lengths of sequences, and these do
// not describe masks. So the steps that count are moved together, in the order
// of the computation, by a product with a matrix of zeros and ones; steps of
// zeros follow them, and their outputs become zeros, since an activation such
// as relu may let them grow to infinity. Another product gives each step the
// output of the last step that counts, or zeros.

#include <iterator>
#include <limits>

#include "../../files/onnx_activations.h"
#include "onnx_converter.h"

namespace ringlet {
namespace {

// By value of Cell. `order` has the indices of Keras's gates in ONNX's order.
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

// From (inputs, gates of all units) to (1, gates of all units, inputs). With
// `keeps_carry` there is an input more: where it is 1, an LSTM keeps its carry.
int OnnxConverter::TransposedGates(const char* name, const Variable* weight,
                                   bool keeps_carry) {
  constexpr float kClosed = 1000, kGates[] = {-kClosed, kClosed, 0, 0};
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
      if (keeps_carry) values.push_back(kGates[first / units]);
    }
  }
  const int64_t all = inputs + (keeps_carry ? 1 : 0);
  return graph_->AddFloats(p_->layer->name + name, {1, width, all},
                           values.data(), width * all);
}

// Returns the bias of the product of the inputs, then the bias of the product
// of the state, or zeros.
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
  if (input >= p_->inputs.size() - (p_->masked ? 1 : 0)) return -1;
  const int axis = builder_.Ints("/direction", {0});
  return builder_.Node("Unsqueeze", {builder_.Last(&x(input)), axis});
}

// Adds the node. Returns Y, the outputs of all steps, if all steps are needed
// or there is a mask. Otherwise returns Y_h, the last state.
int OnnxConverter::AddRecurrence(int x, bool keeps_carry) {
  const auto& cell = kCells[static_cast<size_t>(p_->cell)];
  Functions functions;
  if (p_->cell != Cell::kSimple) functions.Add(p_->gate_activation);
  functions.Add(p_->activation);
  if (p_->cell == Cell::kLstm) functions.Add(p_->activation);
  if (!functions.missing.empty()) {
    unsupported_ = "the activation '" + std::string(functions.missing) + "'";
  }
  const Activation gate = p_->gate_activation;
  if (keeps_carry && gate != kSigmoid && gate != kHardSigmoid &&
      gate != kHardSigmoidKeras2) {
    unsupported_ = "a mask, return_state and the recurrent_activation '" +
                   std::string(ActivationName(gate)) + "'";
  }
  const int steps = builder_.Node("Transpose", {x}, {{"perm", {1, 0, 2}}});
  const int w = TransposedGates(keeps_carry ? kKernelWithMask : "/W",
                                p_->kernel, keeps_carry),
            r = TransposedGates("/R", p_->recurrent_kernel,
                                /*keeps_carry=*/false),
            b = GateBiases(), lengths = -1, h = InitialState(1),
            c = InitialState(2);
  const int inputs[] = {steps, w, r, b, lengths, h, c};
  const OnnxAttribute common[] = {
      {"hidden_size", p_->output.back()},
      {"direction", p_->backwards ? "reverse" : "forward"},
      {"activations", &functions.names},
      {"activation_alpha", &functions.alphas},
      {"activation_beta", &functions.betas}};
  const std::string& layer = p_->layer->name;
  const int number = p_->all_steps || p_->masked ? 0 : 1;
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

int OnnxConverter::Reversed(int y, int axis) {
  const int from = builder_.Ints("/from", {-1}),
            to = builder_.Ints("/to", {std::numeric_limits<int64_t>::min()}),
            by = builder_.Ints("/by", {-1});
  return builder_.Node("Slice", {y, from, to, axis, by});
}

// The output of `recurrence` in Keras's order of axes, made from its node's
// output.
int OnnxConverter::WithoutDirection(int y, const Primitive& recurrence) {
  const bool all_steps = recurrence.all_steps;
  const int axis = builder_.Ints("/direction", {all_steps ? 1 : 0});
  y = builder_.Node("Squeeze", {y, axis});
  if (recurrence.reversed) y = Reversed(y, builder_.Ints("/steps", {0}));
  if (all_steps) y = builder_.Node("Transpose", {y}, {{"perm", {1, 0, 2}}});
  return y;
}

// With last states the value is the node's output, of which TakeTensor
// makes each tensor.
OnnxValue OnnxConverter::Recur() {
  if (p_->masked) return RecurMasked();
  int y = AddRecurrence(builder_.Last(&x()), /*keeps_carry=*/false);
  if (p_->last_states == 0) y = WithoutDirection(y, *p_);
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

OnnxValue OnnxConverter::RecurMasked() {
  const int64_t steps = x().shape[0];
  std::vector<float> places;
  for (int64_t s = 0; s < steps; ++s) {
    places.push_back(static_cast<float>(p_->backwards ? steps - s : s + 1));
  }
  const int axis = builder_.Ints("/step", {1}),
            behind = builder_.Ints("/behind", {2});
  const int mask = builder_.Last(&x(p_->inputs.size() - 1)),
            column = builder_.Node("Unsqueeze", {mask, behind}),
            count = builder_.Node("CumSum", {column, axis},
                                  {{"reverse", p_->backwards ? 1 : 0}});
  const int row = graph_->AddFloats(p_->layer->name + "/places", {steps},
                                    places.data(), steps);
  constexpr int kFloat = 1;
  const int outputs = builder_.Node(
      "Cast", {builder_.Node("Equal", {count, row})}, {{"to", kFloat}});
  const int counted = builder_.Node("Mul", {outputs, column}),
            order = builder_.Node("Transpose", {counted},
                                  {{"perm", OnnxInts{0, 2, 1}}});
  int moved = builder_.Node("MatMul", {order, builder_.Last(&x())});
  const int is_step = builder_.Node("ReduceMax", {order},
                                    {{"axes", OnnxInts{2}}, {"keepdims", 1}});
  const bool keeps_carry = p_->last_states == 2;
  if (keeps_carry) {
    moved = builder_.Node(
        "Concat", {moved, builder_.Node("Sub", {builder_.Scalar(1), is_step})},
        {{"axis", 2}});
  }
  const auto last_of = [&](int matrix) {
    const int64_t at = p_->backwards ? 0 : steps - 1;
    return builder_.Node("Slice", {matrix, builder_.Ints("/last", {at}),
                                   builder_.Ints("/end", {at + 1}), axis});
  };
  MaskedSteps& masked =
      masked_[static_cast<size_t>(p_ - &lowering_.primitives[0])];
  constexpr int kBool = 9;
  masked.is_step = builder_.Node("Cast", {is_step}, {{"to", kBool}});
  masked.outputs = p_->zero_masked ? counted : outputs;
  if (!p_->all_steps) masked.outputs = last_of(masked.outputs);
  if (p_->last_states > 0) masked.last = last_of(outputs);
  masked.initial = p_->inputs.size() > 2 ? builder_.Last(&x(1)) : -1;
  int y = AddRecurrence(moved, keeps_carry);
  if (p_->last_states == 0) y = MaskedOutput(y, &masked, *p_);
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

// A product of one of the matrices and the outputs of the node, in Keras's
// order of axes.
int OnnxConverter::MaskedRows(int y, int matrix, MaskedSteps* steps) {
  if (steps->rows < 0) {
    y = builder_.Node("Squeeze", {y, builder_.Ints("/direction", {1})});
    y = builder_.Node("Transpose", {y}, {{"perm", {1, 0, 2}}});
    steps->rows =
        builder_.Node("Where", {steps->is_step, y, builder_.Scalar(0)});
  }
  return builder_.Node("MatMul", {matrix, steps->rows});
}

int OnnxConverter::MaskedOutput(int y, MaskedSteps* steps,
                                const Primitive& recurrence) {
  y = MaskedRows(y, steps->outputs, steps);
  const int axis = builder_.Ints("/step", {1});
  if (!recurrence.all_steps) return builder_.Node("Squeeze", {y, axis});
  return recurrence.reversed ? Reversed(y, axis) : y;
}

// The state after the last step that counts, or the initial state.
int OnnxConverter::MaskedState(int y, MaskedSteps* steps) {
  const int axis = builder_.Ints("/step", {1});
  y = builder_.Node("Squeeze", {MaskedRows(y, steps->last, steps), axis});
  if (steps->initial < 0) return y;
  const int any = builder_.Node("ReduceMax", {steps->last},
                                {{"axes", OnnxInts{2}}, {"keepdims", 0}}),
            none = builder_.Node("Sub", {builder_.Scalar(1), any}),
            kept = builder_.Node("Mul", {steps->initial, none});
  return builder_.Node("Add", {y, kept});
}

OnnxValue OnnxConverter::TakeTensor() {
  const auto input = static_cast<size_t>(p_->inputs[0]);
  const Primitive& recurrence = lowering_.primitives[input];
  int y = builder_.Last(&x());
  if (recurrence.masked && p_->tensor < 2) {
    MaskedSteps* const steps = &masked_[input];
    y = p_->tensor == 0 ? MaskedOutput(y, steps, recurrence)
                        : MaskedState(y, steps);
  } else if (p_->tensor == 0) {
    y = WithoutDirection(y, recurrence);
  } else {
    const int axis = builder_.Ints("/direction", {0});
    y = graph_->OutputOfSameNode(y, static_cast<int>(p_->tensor));
    y = builder_.Node("Squeeze", {y, axis});
  }
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast, y);
}

// A row counts if it has a number other than the mask value.
OnnxValue OnnxConverter::Mask() {
  constexpr int kFloat = 1;
  const int equal =
      builder_.Node("Equal", {builder_.Last(&x()), builder_.Scalar(p_->fill)});
  int y =
      builder_.Node("Cast", {builder_.Node("Not", {equal})}, {{"to", kFloat}});
  if (x().shape.rank() > p_->output.rank()) {
    y = builder_.Node("ReduceMax", {y},
                      {{"axes", OnnxInts{-1}}, {"keepdims", 0}});
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
