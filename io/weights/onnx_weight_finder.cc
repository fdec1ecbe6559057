// The nodes are read in the file's order, in which each node comes after those
// that give its inputs. For each value between nodes a Value records if it is a
// tensor of the file, perhaps transposed. It also records if an image has its
// channels first or last, and keeps this when the image is flattened.

#include "onnx_weight_finder.h"

#include <algorithm>
#include <cinttypes>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "../../core/base/text.h"
#include "../files/onnx_format.h"

namespace ringlet {
namespace {

using Node = OnnxFileGraph::Node;

// An operator with weights, or an operator that takes images. `roles` are the
// names of a node's inputs from the second on, as parts of a module.
constexpr struct OnnxOp {
  const char *op, *roles[4];
  bool takes_images = false;  // takes and gives images with channels first
  bool normalizes = false;
  bool is_product = false;  // a following node Add may add its bias
} kOps[] = {
    // op, roles, takes_images, normalizes, is_product
    {"Conv", {"weight", "bias"}, true, false, true},
    {"ConvTranspose", {"weight", "bias"}, true},
    {"Gemm", {"weight", "bias"}, false, false, true},
    {"MatMul", {"weight"}, false, false, true},
    {"BatchNormalization",
     {"weight", "bias", "running_mean", "running_var"},
     false,
     true},
    {"LayerNormalization", {"weight", "bias"}, false, true},
    {"PRelu", {"weight"}},
    {"MaxPool", {}, true},
    {"AveragePool", {}, true},
};

// A recurrent operator. `order` has the indices of PyTorch's gates in ONNX's
// order.
constexpr struct RecurrentOperator {
  const char* op;
  int gates, order[4];
} kRecurrentOperators[] = {
    {"RNN", 1, {0}}, {"GRU", 3, {1, 0, 2}}, {"LSTM", 4, {0, 2, 3, 1}}};

const RecurrentOperator* OperatorOf(const Node& node) {
  for (const RecurrentOperator& op : kRecurrentOperators) {
    if (node.op == op.op) return &op;
  }
  return nullptr;
}

// True for an operator that only copies elements: from its first input, or, for
// a Concat, from all inputs.
bool CopiesElements(const std::string& op) {
  constexpr const char* kCopying[] = {
      "Cast",    "Concat", "Expand",  "Flatten",   "Gather", "Identity",
      "Reshape", "Slice",  "Squeeze", "Transpose", "Tile",   "Unsqueeze"};
  return std::any_of(std::begin(kCopying), std::end(kCopying),
                     [&](const char* copying) { return op == copying; });
}

// The weights of a recurrent operator, by the node's inputs. The biases of both
// products are halves of one input.
constexpr struct RecurrentPart {
  const char* role;
  size_t input;
  bool is_bias;
  int half;
} kRecurrentParts[] = {
    // role, input, is_bias, half
    {"weight_ih_l0", 1, false, 0},
    {"weight_hh_l0", 2, false, 0},
    {"bias_ih_l0", 3, true, 0},
    {"bias_hh_l0", 3, true, 1}};

// The inputs of a recurrent operator with its initial states.
constexpr size_t kFirstState = 5, kStatesEnd = 7;
constexpr char kPackedBias[] =
    ".in_proj_bias";  // the bias of a MultiheadAttention

struct Value {
  const OnnxTensor* tensor = nullptr;
  std::vector<int> axes;  // see OnnxWeight::axes
  enum Order : uint8_t { kUnknown, kFirst, kLast } order = kUnknown;
  // True if each element is an element of `sources`, or 0.
  bool is_copy = false;
  std::vector<const OnnxTensor*> sources;
  bool time_may_be_reversed = false;  // true after a Slice or a ReverseSequence
  // The index of the module that gives this value and has no bias yet, so that
  // a following Add may be its bias; -1 if there is none.
  int module = -1;
};

// Changes *axes, the axes of a tensor of this rank, as a Transpose with `perm`
// does. An empty `perm` reverses the axes. False if `perm` is not a permutation
// of the axes.
bool TransposeAxes(int rank, const std::vector<int64_t>& perm,
                   std::vector<int>* axes) {
  std::vector<int> before = *axes, sorted(static_cast<size_t>(rank));
  std::iota(sorted.begin(), sorted.end(), 0);
  if (before.empty()) before = sorted;
  if (perm.empty()) {
    axes->assign(before.rbegin(), before.rend());
    return true;
  }
  if (!std::is_permutation(perm.begin(), perm.end(), sorted.begin(),
                           sorted.end())) {
    return false;
  }
  axes->clear();
  for (const int64_t axis : perm) {
    axes->push_back(before[static_cast<size_t>(axis)]);
  }
  return true;
}

class OnnxWeightFinder {
 public:
  OnnxWeightFinder(const OnnxFileGraph& graph,
                   std::vector<StoredTensor>* tensors,
                   std::vector<OnnxWeight>* weights,
                   std::vector<OnnxZeros>* zeros)
      : graph_(graph), tensors_(*tensors), weights_(*weights), zeros_(*zeros) {}

  Status Run() {
    for (const auto& [name, tensor] : graph_.tensors) {
      Value& value = values_[name];
      value.tensor = &tensor;
      value.is_copy = true;
      value.sources = {&tensor};
    }
    FindInitialStates();
    for (const Node& node : graph_.nodes) {
      if (node.op != "Add") continue;
      for (const std::string& input : node.inputs) sums_.emplace(input, &node);
    }
    for (const Node& node : graph_.nodes)
      RINGLET_RETURN_IF_ERROR(VisitNode(node));
    return Status();
  }

 private:
  struct Module {
    std::string name;
    Value::Order order;  // the order of its input's axes
    Shape kernel;        // a product's kernel; rank 0 if it is not known
  };

  Value InputOf(const Node& node, size_t i) const {
    const auto found =
        i < node.inputs.size() ? values_.find(node.inputs[i]) : values_.end();
    return found == values_.end() ? Value() : found->second;
  }

  // A node that copies elements copies the elements of this number of first
  // inputs.
  static size_t CopiedInputs(const Node& node) {
    return node.op == "Concat" ? node.inputs.size() : 1;
  }

  // Finds the values that are copied to a recurrent operator's initial states:
  // they are not weights.
  void FindInitialStates() {
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const bool copies =
          CopiesElements(node.op) && states_.count(node.output) != 0;
      const bool recurrent = OperatorOf(node) != nullptr;
      const size_t first = recurrent ? kFirstState : 0;
      const size_t end = recurrent ? kStatesEnd : CopiedInputs(node);
      if (!recurrent && !copies) continue;
      for (size_t k = first; k < std::min(end, node.inputs.size()); ++k) {
        states_.insert(node.inputs[k]);
      }
    }
  }

  // Sets what a node's output has of its inputs: the order of their axes, and
  // the tensors with the elements that the node copies.
  void FollowInputs(const Node& node, Value* y) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value x = InputOf(node, i);
      if (x.tensor == nullptr && y->order == Value::kUnknown) {
        y->order = x.order;
      }
      y->time_may_be_reversed |=
          CopiesElements(node.op) && x.time_may_be_reversed;
    }
    y->time_may_be_reversed |=
        node.op == "Slice" || node.op == "ReverseSequence";
    if (node.op == "ConstantOfShape") {
      y->is_copy = true;
      if (node.filler != nullptr) y->sources = {node.filler.get()};
    }
    if (!CopiesElements(node.op)) return;
    y->is_copy = true;
    const size_t count = CopiedInputs(node);
    for (size_t i = 0; i < count; ++i) {
      const Value x = InputOf(node, i);
      y->is_copy &= x.is_copy;
      // More sources than a file of PyTorch has are not followed.
      if (y->sources.size() + x.sources.size() > 16) y->is_copy = false;
      if (!y->is_copy) break;
      y->sources.insert(y->sources.end(), x.sources.begin(), x.sources.end());
    }
  }

  Status VisitNode(const Node& node) {
    Value& y = values_[node.output];
    if (y.tensor != nullptr) {
      return Corruption("a node gives '%s', which is a tensor",
                        Printable(node.output).c_str());
    }
    FollowInputs(node, &y);
    if (node.op == "Identity" || node.op == "Unsqueeze") y = InputOf(node, 0);
    if (node.op == "Transpose") VisitTranspose(node, &y);
    if (y.tensor == nullptr && IsConstant(node)) {
      computed_.emplace_back();
      computed_.back().name = node.output;
      computed_.back().unread = "given by a node " + Printable(node.op);
      y.tensor = &computed_.back();
      return Status();
    }
    if (node.op == "Add" || node.op == "Mul") VisitAddOrMul(node, &y);
    if (states_.count(node.output) == 0) {
      if (node.op == "Gather" && node.axis == 0) AddRows(node, "weight");
      if (node.op == "Expand") AddRows(node, "positions");
    }
    const bool is_of_values = node.op == "MatMul" &&
                              InputOf(node, 0).tensor == nullptr &&
                              InputOf(node, 1).tensor == nullptr;
    if (is_of_values) y.order = Value::kUnknown;
    if (const auto* op = OperatorOf(node)) return AddRecurrent(node, *op);
    for (const OnnxOp& op : kOps) {
      if (node.op != op.op) continue;
      if (op.takes_images) y.order = Value::kFirst;
      if (op.roles[0] != nullptr) return AddModule(node, op, &y);
    }
    return Status();
  }

  // True if the node's output does not depend on the model's input.
  bool IsConstant(const Node& node) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_present = !node.inputs[i].empty();
      if (is_present && InputOf(node, i).tensor == nullptr) return false;
    }
    return !node.inputs.empty();
  }

  void VisitTranspose(const Node& node, Value* y) {
    const std::vector<int64_t>& perm = node.perm;
    const Value x = InputOf(node, 0);
    Value transposed = x;
    if (x.tensor != nullptr &&
        TransposeAxes(x.tensor->shape.rank(), perm, &transposed.axes)) {
      *y = transposed;
    }
    if (perm.size() < 3) return;
    const auto rank = static_cast<int64_t>(perm.size());
    const bool to_last = perm[perm.size() - 1] == 1,
               to_first = perm[1] == rank - 1;
    // (0, 2, 1) moves the channels of a sequence from first to last, and from
    // last to first.
    if (to_last && to_first) {
      y->order = x.order == Value::kFirst ? Value::kLast : Value::kFirst;
    } else if (to_last || to_first) {
      y->order = to_last ? Value::kLast : Value::kFirst;
    }
  }

  // Adds the tensor that an Add or a Mul has as an input. It is a product's
  // bias, or by its name in Keras the gamma or beta of a normalization. It may
  // be a matrix of positions.
  void VisitAddOrMul(const Node& node, Value* y) {
    for (size_t i = 0; i < 2; ++i) {
      const Value part = InputOf(node, i), x = InputOf(node, 1 - i);
      if (part.tensor == nullptr || x.tensor != nullptr) continue;
      const std::string& name = part.tensor->name;
      const bool gamma = EndsWith(name, "/gamma"),
                 beta = EndsWith(name, "/beta");
      if (node.op == "Add" && x.module >= 0 && !beta &&
          IsBias(part, modules_[static_cast<size_t>(x.module)])) {
        return AddPart(
            static_cast<size_t>(x.module),
            EndsWith(node.inputs[i], kPackedBias) ? "in_proj_bias" : "bias",
            part);
      }
      if (node.op == "Add" && !gamma && !beta) AddRows(node, "positions", i);
      if (!gamma && !beta) continue;
      const size_t module = FindOrAddModule(name.substr(0, name.rfind('/')));
      modules_[module].order = Value::kLast;
      y->order = x.order;
      return AddPart(module, gamma ? "weight" : "bias", part, /*flat=*/false);
    }
  }

  // Adds a matrix, the input `i` of a node that looks up or adds its rows.
  void AddRows(const Node& node, const char* role, size_t i = 0) {
    const Value part = InputOf(node, i);
    if (part.tensor == nullptr || !part.tensor->unread.empty()) return;
    const Shape shape = Permuted(part.tensor->shape, part.axes);
    const int rank = shape.rank();
    const bool is_matrix =
        rank > 1 && shape[rank - 2] * shape[rank - 1] == shape.elements();
    if (!is_matrix || !taken_.insert({part.tensor}).second) return;
    const bool is_table = role == std::string("weight");
    if (is_table ? rank > 2 : shape[rank - 2] < 2 || shape[rank - 1] < 2) {
      return;
    }
    AddPart(
        FindOrAddModule(ModuleName(node, {node.inputs[i], part.tensor->name})),
        role, part, /*flat=*/false);
    tensors_.back().shape = {shape[rank - 2], shape[rank - 1]};
    weights_.back().is_identity = !is_table;
  }

  // Finds out if a recurrent operator has initial states. Constant ones must be
  // zeros.
  Status CheckInitialStates(const Node& node, bool* has_states) {
    constexpr const char* kNames[] = {"initial_h", "initial_c"};
    const size_t end = std::min(kStatesEnd, node.inputs.size());
    for (size_t i = kFirstState; i < end; ++i) {
      if (node.inputs[i].empty()) continue;
      const Value state = InputOf(node, i);
      OnnxZeros zeros;
      zeros.error = "node '" + Printable(node.name) + "' (" + node.op +
                    "): its input " + kNames[i - kFirstState] + ", '" +
                    Printable(node.inputs[i]) +
                    "', is a constant of other numbers than 0; in ringlet the "
                    "states begin as zeros, or are values of the model: export "
                    "it with its initial states as inputs";
      if (!state.is_copy && state.tensor == nullptr) {
        *has_states = true;
      } else if (!state.is_copy) {
        return InvalidArgument("%s", zeros.error.c_str());
      }
      for (const OnnxTensor* const source : state.sources) {
        if (!states_read_.insert(source).second) continue;
        zeros.tensor = *source;
        zeros_.push_back(zeros);
      }
    }
    return Status();
  }

  // Adds both directions of a recurrent operator.
  Status AddRecurrent(const Node& node, const RecurrentOperator& op) {
    if (InputOf(node, 1).tensor == nullptr) return Status();
    bool has_states = false;
    RINGLET_RETURN_IF_ERROR(CheckInitialStates(node, &has_states));
    const int directions = node.direction == "bidirectional" ? 2 : 1;
    std::shared_ptr<OnnxRecurrence> recurrences[2];
    for (int direction = 0; direction < directions; ++direction) {
      auto& recurrence = recurrences[direction];
      recurrence = std::make_shared<OnnxRecurrence>();
      recurrence->has_states = has_states;
      recurrence->time_may_be_reversed = InputOf(node, 0).time_may_be_reversed;
      RINGLET_RETURN_IF_ERROR(
          ReadOnnxRecurrence(node, op.gates, direction > 0, recurrence.get()));
    }
    if (!AddIfNew(node)) return Status();
    const size_t module = FindOrAddModule(ModuleName(node, PartNames(node)));
    for (int direction = 0; direction < directions; ++direction) {
      for (const RecurrentPart& part : kRecurrentParts) {
        const Value stored = InputOf(node, part.input);
        if (stored.tensor == nullptr) continue;
        const char* const suffix = direction > 0 ? "_reverse" : "";
        AddPart(module, part.role + std::string(suffix), stored,
                /*flat=*/false);
        weights_.back().recurrence = recurrences[direction];
        if (!stored.tensor->unread.empty() ||
            SelectDirection(direction, directions, part, op)) {
          continue;
        }
        return Corruption("node '%s': '%s' of shape %s is not the weight of %s",
                          Printable(node.name).c_str(),
                          Printable(stored.tensor->name).c_str(),
                          stored.tensor->shape.ToString().c_str(), op.op);
      }
    }
    return Status();
  }

  // Selects the blocks of one direction in the weight that was added last.
  // Returns false if the shape of its tensor does not fit `part`.
  bool SelectDirection(int direction, int directions, const RecurrentPart& part,
                       const RecurrentOperator& op) {
    OnnxWeight* const weight = &weights_.back();
    const int halves = part.is_bias ? 2 : 1;
    weight->num_blocks = directions * halves * op.gates;
    const int first = (direction * halves + part.half) * op.gates;
    for (int i = 0; i < op.gates; ++i) {
      weight->blocks.push_back(first + op.order[i]);
    }
    return ToOneDirection(directions, part, op, &tensors_.back().shape);
  }

  // From (directions, numbers of all gates, inputs) to the shape of one
  // direction. A bias has no inputs, and two halves. False if the shape is
  // another.
  static bool ToOneDirection(int directions, const RecurrentPart& part,
                             const RecurrentOperator& op, Shape* shape) {
    const int rank = part.is_bias ? 1 : 2, halves = part.is_bias ? 2 : 1,
              more = shape->rank() - rank;
    const bool fits =
        more == 0 ? directions == 1 : more == 1 && (*shape)[0] == directions;
    if (!fits || (*shape)[more] % (halves * op.gates) != 0) return false;
    const int64_t numbers = (*shape)[more] / halves;
    const bool is_state = part.input == 2;
    if (is_state && shape->back() * op.gates != numbers) return false;
    *shape = part.is_bias ? Shape{numbers} : Shape{numbers, shape->back()};
    return true;
  }

  Status AddModule(const Node& node, const OnnxOp& op, Value* y) {
    if (InputOf(node, 1).tensor == nullptr || !AddIfNew(node)) {
      return Status();  // its weights are computed, or belong to another node
    }
    if (node.trans_a || node.scales) {
      return Error(Code::kUnimplemented,
                   "node '%s': a Gemm with transA, alpha or beta",
                   Printable(node.name).c_str());
    }
    const size_t module = FindOrAddModule(ModuleName(node, PartNames(node)));
    const Value x = InputOf(node, 0);
    const bool unknown = x.order == Value::kUnknown;
    modules_[module].order =
        unknown && graph_.producer != kPyTorch ? Value::kLast : x.order;
    if (graph_.producer == onnx_format::kRinglet) {
      const std::string& weight = InputOf(node, 1).tensor->name;
      modules_[module].order =
          graph_.transposed.count(weight) != 0 ? Value::kFirst : Value::kLast;
    }
    const bool has_bias = node.inputs.size() > 2 && !node.inputs[2].empty();
    if (op.is_product && !has_bias) y->module = static_cast<int>(module);
    for (size_t i = 0; i < 4 && op.roles[i] != nullptr; ++i) {
      Value part = InputOf(node, i + 1);
      if (part.tensor == nullptr) continue;
      if (i == 0 && op.is_product && !op.takes_images && !node.trans_b) {
        RINGLET_RETURN_IF_ERROR(TransposeMatrix(&part));
      }
      AddPart(module,
              i == 0 && HasPackedBias(node) ? "in_proj_weight" : op.roles[i],
              part, i > 0);
      if (i == 0 && op.is_product && part.tensor->unread.empty()) {
        modules_[module].kernel = tensors_.back().shape;
      }
      weights_.back().may_be_identity =
          op.normalizes && i < 2 && part.tensor->unread.empty();
    }
    return Status();
  }

  static Status TransposeMatrix(Value* part) {
    const Shape& shape = part->tensor->shape;
    if (shape.rank() == 2) {
      TransposeAxes(2, {}, &part->axes);
      return Status();
    }
    if (!part->tensor->unread.empty()) return Status();
    return Error(Code::kUnimplemented, "'%s' of shape %s is not a matrix",
                 Printable(part->tensor->name).c_str(),
                 shape.ToString().c_str());
  }

  // True if the part has one number for each of the product's C outputs: its
  // shape is (C), or after a convolution (C, 1, 1). Axes of 1 may be before
  // it.
  static bool IsBias(const Value& part, const Module& module) {
    const Shape& kernel = module.kernel;
    if (kernel.rank() == 0 || !part.tensor->unread.empty()) return true;
    const Shape shape = Permuted(part.tensor->shape, part.axes);
    const int spatial_axes = std::max(kernel.rank() - 2, 0);
    const int axis = shape.rank() - 1 - spatial_axes;
    return axis >= 0 && shape[axis] == kernel[0] &&
           shape.elements() == kernel[0];
  }

  // False if another node has the same tensors as this one: the layer is called
  // again. Different layers may share single tensors, since PyTorch writes
  // tensors with equal numbers once.
  bool AddIfNew(const Node& node) {
    std::vector<const OnnxTensor*> tensors;
    for (size_t i = 1; i < 5; ++i) tensors.push_back(InputOf(node, i).tensor);
    return taken_.insert(std::move(tensors)).second;
  }

  // True if the product makes query, key and value in PyTorch's
  // MultiheadAttention.
  bool HasPackedBias(const Node& node) const {
    const auto sum = sums_.find(node.output);
    if (sum == sums_.end()) return false;
    const auto& added = sum->second->inputs;
    return std::any_of(added.begin(), added.end(), [](const std::string& name) {
      return EndsWith(name, kPackedBias);
    });
  }

  // First the names of the node's inputs with weights, and of a bias that a
  // following Add adds. Then the names of the file's tensors with their
  // numbers.
  std::vector<std::string> PartNames(const Node& node) const {
    std::vector<std::string> names(node.inputs.begin() + 1, node.inputs.end());
    const auto sum = sums_.find(node.output);
    for (size_t i = 0; i < 2 && sum != sums_.end(); ++i) {
      const auto& added = sum->second->inputs;
      if (i >= added.size()) break;
      const bool bias = EndsWith(added[i], ".bias") ||
                        EndsWith(added[i], "/bias") ||
                        EndsWith(added[i], kPackedBias);
      if (bias) names.push_back(added[i]);
    }
    for (size_t i = 0, count = names.size(); i < count; ++i) {
      const auto value = values_.find(names[i]);
      const bool known =
          value != values_.end() && value->second.tensor != nullptr;
      if (known) names.push_back(value->second.tensor->name);
    }
    return names;
  }

  // The module's name: "conv1" if one of its parts' names is "conv1.weight" or
  // "conv1/kernel". Otherwise it is the node's name: "body.conv1" for
  // "/body/conv1/Conv".
  static std::string ModuleName(const Node& node,
                                const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const size_t dot = name.rfind('.'), slash = name.rfind('/');
      for (const char* role :
           {".weight", ".bias", ".running_mean", ".running_var", kPackedBias}) {
        if (EndsWith(name, role)) return name.substr(0, dot);
      }
      for (const char* part : {"depthwise", "pointwise", "query", "key",
                               "value", "attention_output"}) {
        if (!EndsWith(name, std::string("/") + part + "_kernel")) continue;
        return name.substr(0, slash) + "." + part;
      }
      for (const char* role :
           {"/kernel", "/bias", "/gamma", "/beta", "/alpha", "/moving_mean",
            "/moving_variance", "/embeddings", "/W"}) {
        if (EndsWith(name, role)) return name.substr(0, slash);
      }
    }
    const size_t end = node.name.rfind('/');
    if (end == std::string::npos || end == 0) return names[0];
    const size_t begin = node.name[0] == '/' ? 1 : 0;
    std::string path = node.name.substr(begin, end - begin);
    std::replace(path.begin(), path.end(), '/', '.');
    return path;
  }

  size_t FindOrAddModule(const std::string& name) {
    const auto added = numbers_.emplace(name, modules_.size());
    if (added.second) modules_.push_back({name, Value::kUnknown, {}});
    return added.first->second;
  }

  // Adds a tensor as a part of a module. If the module has a part of this role,
  // another module has the same name, and the tensor's name gets a number. With
  // `flat` the tensor becomes a vector.
  void AddPart(size_t module, const std::string& role, const Value& part,
               bool flat = true) {
    StoredTensor tensor = *part.tensor;
    tensor.shape = Permuted(tensor.shape, part.axes);
    if (flat && tensor.unread.empty()) {
      tensor.shape = {tensor.shape.elements()};
    }
    tensor.name = modules_[module].name + "." + role;
    for (int& count = names_[tensor.name]; ++count > 1;) {
      tensor.name =
          modules_[module].name + "_" + std::to_string(count) + "." + role;
      if (names_.emplace(tensor.name, 1).second) break;
    }
    OnnxWeight weight;
    weight.location = part.tensor->location;
    weight.elements = part.tensor->elements;
    weight.axes = part.axes;
    weight.file_shape = part.tensor->shape;
    weight.channels_first = modules_[module].order == Value::kFirst;
    weight.channels_last = modules_[module].order == Value::kLast;
    tensors_.push_back(std::move(tensor));
    weights_.push_back(std::move(weight));
  }

  const OnnxFileGraph& graph_;
  std::vector<StoredTensor>& tensors_;
  std::vector<OnnxWeight>& weights_;
  std::map<std::string, Value> values_;
  std::map<std::string, const Node*> sums_;  // nodes Add by their inputs
  std::deque<OnnxTensor> computed_;
  std::vector<Module> modules_;
  std::vector<OnnxZeros>& zeros_;
  std::set<std::string> states_;  // values that become initial states
  std::set<const OnnxTensor*> states_read_;
  std::set<std::vector<const OnnxTensor*>> taken_;
  std::map<std::string, size_t> numbers_;  // the index of each module
  std::map<std::string, int> names_;       // how often each tensor name is used
};

}  // namespace

Shape Permuted(const Shape& shape, const std::vector<int>& axes) {
  Shape permuted;
  for (const int axis : axes) permuted.Append(shape[axis]);
  return axes.empty() ? shape : permuted;
}

Status FindOnnxWeights(const OnnxFileGraph& graph,
                       std::vector<StoredTensor>* tensors,
                       std::vector<OnnxWeight>* weights,
                       std::vector<OnnxZeros>* zeros) {
  return OnnxWeightFinder(graph, tensors, weights, zeros).Run();
}

}  // namespace ringlet
