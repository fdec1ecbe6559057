// Nodes are read in the file's order: each comes after the nodes that it reads.
// A Value records whether it is a tensor of the file, perhaps transposed. It
// also records the order of axes of its image, or of the image before it was
// flattened.

#include "onnx_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "../../core/base/text.h"
#include "../files/onnx_format.h"
#include "onnx_graph_reader.h"

namespace ringlet {
namespace {

using Node = OnnxFileGraph::Node;

// The roles of a node's inputs from the second on.
constexpr struct OnnxOp {
  const char *op, *roles[4];
  bool of_images = false;  // channels first
  bool normalizes = false;
} kOps[] = {
    {"Conv", {"weight", "bias"}, true},
    {"Gemm", {"weight", "bias"}},
    {"MatMul", {"weight"}},
    {"BatchNormalization",
     {"weight", "bias", "running_mean", "running_var"},
     false,
     true},
    {"LayerNormalization", {"weight", "bias"}, false, true},
    {"PRelu", {"weight"}},
    {"MaxPool", {}, true},
    {"AveragePool", {}, true},
};

struct Value {
  const StoredTensor* tensor = nullptr;
  bool transposed = false;
  enum Order : uint8_t { kUnknown, kFirst, kLast } order = kUnknown;
  // The index of the module with this output; a following Add may be its bias.
  // -1: none.
  int module = -1;
};

class OnnxWeightFinder {
 public:
  OnnxWeightFinder(const OnnxFileGraph& graph,
                   std::vector<StoredTensor>* tensors,
                   std::set<std::string>* transposed,
                   std::set<std::string>* first, std::set<std::string>* last,
                   std::set<std::string>* defaults)
      : graph_(graph),
        tensors_(*tensors),
        transposed_(*transposed),
        first_(*first),
        last_(*last),
        defaults_(*defaults) {}

  Status Run() {
    for (const auto& [name, tensor] : graph_.tensors) {
      values_[name].tensor = &tensor;
    }
    for (const Node& node : graph_.nodes) RINGLET_RETURN_IF_ERROR(Take(node));
    return Status();
  }

 private:
  Value InputOf(const Node& node, size_t i) const {
    const auto found =
        i < node.inputs.size() ? values_.find(node.inputs[i]) : values_.end();
    return found == values_.end() ? Value() : found->second;
  }

  Status Take(const Node& node) {
    Value& y = values_[node.output];
    if (y.tensor != nullptr) {
      return Corruption("a node gives '%s', which is a tensor",
                        Printable(node.output).c_str());
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value x = InputOf(node, i);
      if (x.tensor == nullptr && y.order == Value::kUnknown) y.order = x.order;
    }
    if (node.op == "Identity" || node.op == "Unsqueeze") y = InputOf(node, 0);
    if (node.op == "Transpose") TakeTranspose(node, &y);
    if (y.tensor == nullptr && IsConstant(node)) {
      computed_.emplace_back();
      computed_.back().name = node.output;
      computed_.back().unread = "given by a node " + Printable(node.op);
      y.tensor = &computed_.back();
      return Status();
    }
    if (node.op == "Add" || node.op == "Mul") return TakePart(node, &y);
    for (const OnnxOp& op : kOps) {
      if (node.op != op.op) continue;
      if (op.of_images) y.order = Value::kFirst;
      if (op.roles[0] != nullptr) return TakeModule(node, op, &y);
    }
    return Status();
  }

  // True if the node's output does not depend on the model's input.
  bool IsConstant(const Node& node) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool given = !node.inputs[i].empty();
      if (given && InputOf(node, i).tensor == nullptr) return false;
    }
    return !node.inputs.empty() || node.op == "Constant";
  }

  void TakeTranspose(const Node& node, Value* y) {
    const std::vector<int64_t>& perm = node.perm;
    const Value x = InputOf(node, 0);
    if (x.tensor != nullptr && (perm.empty() || perm[0] == 1) &&
        x.tensor->shape.rank() == 2) {
      *y = x;
      y->transposed = !x.transposed;
    }
    if (perm.size() < 3) return;
    const auto rank = static_cast<int64_t>(perm.size());
    const bool to_last = perm[perm.size() - 1] == 1,
               to_first = perm[1] == rank - 1;
    // With one axis of positions both permutations are the same.
    if (to_last && to_first) {
      y->order = x.order == Value::kFirst ? Value::kLast : Value::kFirst;
    } else if (to_last || to_first) {
      y->order = to_last ? Value::kLast : Value::kFirst;
    }
  }

  // Adds a product's bias, or by Keras's names the gamma or beta of a
  // normalization.
  Status TakePart(const Node& node, Value* y) {
    for (size_t i = 0; i < 2; ++i) {
      const Value part = InputOf(node, i), x = InputOf(node, 1 - i);
      if (part.tensor == nullptr || x.tensor != nullptr) continue;
      const std::string& name = part.tensor->name;
      const bool gamma = EndsWith(name, "/gamma"),
                 beta = EndsWith(name, "/beta");
      if (node.op == "Add" && x.module >= 0 && !beta) {
        return AddPart(static_cast<size_t>(x.module), "bias", part,
                       {part.tensor->shape.elements()});
      }
      if (!gamma && !beta) continue;
      const size_t module = ModuleNamed(name.substr(0, name.rfind('/')));
      modules_[module].order = Value::kLast;
      y->order = x.order;
      return AddPart(module, gamma ? "weight" : "bias", part,
                     part.tensor->shape);
    }
    return Status();
  }

  Status TakeModule(const Node& node, const OnnxOp& op, Value* y) {
    if (InputOf(node, 1).tensor == nullptr || !IsNew(node)) {
      return Status();  // of numbers that are computed; or a shared layer's
    }
    if (node.trans_a || node.scales) {
      return Error(Code::kUnimplemented,
                   "node '%s': a Gemm with transA, alpha or beta",
                   Printable(node.name).c_str());
    }
    const size_t module = ModuleNamed(NameOf(node));
    const Value x = InputOf(node, 0);
    const bool unknown = x.order == Value::kUnknown;
    modules_[module].order =
        unknown && graph_.producer != "pytorch" ? Value::kLast : x.order;
    if (graph_.producer == onnx_format::kRinglet) {
      const std::string& weight = InputOf(node, 1).tensor->name;
      modules_[module].order =
          graph_.transposed.count(weight) != 0 ? Value::kFirst : Value::kLast;
    }
    if (op.roles[1] == nullptr) y->module = static_cast<int>(module);
    for (size_t i = 0; i < 4 && op.roles[i] != nullptr; ++i) {
      Value part = InputOf(node, i + 1);
      if (part.tensor == nullptr) continue;
      const bool matrix = i == 0 && (node.op == "Gemm" || node.op == "MatMul");
      if (matrix && !node.trans_b) part.transposed = !part.transposed;
      const Shape& shape = part.tensor->shape;
      RINGLET_RETURN_IF_ERROR(AddPart(
          module, op.roles[i], part, i == 0 ? shape : Shape{shape.elements()}));
      if (op.normalizes && i < 2 && part.tensor->unread.empty()) {
        defaults_.insert(tensors_.back().name);
      }
    }
    return Status();
  }

  // True if no module has all the same tensors. Two modules may share single
  // tensors: PyTorch writes tensors of equal numbers once.
  bool IsNew(const Node& node) {
    std::vector<const StoredTensor*> tensors;
    for (size_t i = 1; i < 5; ++i) tensors.push_back(InputOf(node, i).tensor);
    return taken_.insert(std::move(tensors)).second;
  }

  // "conv1" of "conv1.weight" and "conv1/kernel"; else of "/body/conv1/Conv".
  static std::string NameOf(const Node& node) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      const size_t dot = name.rfind('.'), slash = name.rfind('/');
      for (const char* role :
           {".weight", ".bias", ".running_mean", ".running_var"}) {
        if (EndsWith(name, role)) return name.substr(0, dot);
      }
      for (const char* part : {"depthwise", "pointwise"}) {
        if (!EndsWith(name, std::string("/") + part + "_kernel")) continue;
        return name.substr(0, slash) + "." + part;
      }
      for (const char* role : {"/kernel", "/gamma", "/beta", "/alpha",
                               "/moving_mean", "/moving_variance"}) {
        if (EndsWith(name, role)) return name.substr(0, slash);
      }
    }
    const size_t end = node.name.rfind('/');
    if (end == std::string::npos || end == 0) return node.inputs[1];
    const size_t begin = node.name.rfind('/', end - 1);
    return node.name.substr(begin + 1, end - begin - 1);
  }

  size_t ModuleNamed(const std::string& name) {
    const auto added = numbers_.emplace(name, modules_.size());
    if (added.second) modules_.push_back({name, Value::kUnknown});
    return added.first->second;
  }

  // If the module has this part already, another module has the same name.
  Status AddPart(size_t module, const char* role, const Value& part,
                 const Shape& shape) {
    StoredTensor tensor = *part.tensor;
    const bool readable = tensor.unread.empty();
    if (readable) tensor.shape = shape;
    tensor.name = modules_[module].name + "." + role;
    for (int& count = names_[tensor.name]; ++count > 1;) {
      tensor.name =
          modules_[module].name + "_" + std::to_string(count) + "." + role;
      if (names_.emplace(tensor.name, 1).second) break;
    }
    const bool matrix = tensor.shape.rank() == 2;
    if (part.transposed && (readable || matrix)) {
      if (!matrix) {
        return Error(Code::kUnimplemented, "'%s' of shape %s is not a matrix",
                     Printable(part.tensor->name).c_str(),
                     shape.ToString().c_str());
      }
      tensor.shape = {tensor.shape[1], tensor.shape[0]};
      transposed_.insert(tensor.name);
    }
    const Value::Order order = modules_[module].order;
    if (order == Value::kFirst) first_.insert(tensor.name);
    if (order == Value::kLast) last_.insert(tensor.name);
    tensors_.push_back(std::move(tensor));
    return Status();
  }

  struct Module {
    std::string name;
    Value::Order order;  // of what it takes
  };
  const OnnxFileGraph& graph_;
  std::vector<StoredTensor>& tensors_;
  std::set<std::string>&transposed_, &first_, &last_, &defaults_;
  std::map<std::string, Value> values_;
  std::deque<StoredTensor> computed_;
  std::vector<Module> modules_;
  std::set<std::vector<const StoredTensor*>> taken_;
  std::map<std::string, size_t> numbers_;  // of modules
  std::map<std::string, int> names_;       // of tensors
};

}  // namespace

Status OnnxWeights::Open(FileSystem* files, const std::string& path) {
  *this = OnnxWeights();
  path_ = path;
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  file_ = std::move(file);
  OnnxFileGraph graph;
  RINGLET_RETURN_IF_ERROR(
      ReadOnnxGraph(file_.get(), &graph).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(OnnxWeightFinder(graph, &tensors_, &transposed_,
                                           &first_, &last_, &defaults_)
                              .Run()
                              .Annotate("%s", path.c_str()));
  for (const StoredTensor& tensor : tensors_) {
    const float none = EndsWith(tensor.name, ".weight") ? 1 : 0;
    if (defaults_.count(tensor.name) == 0) continue;
    std::vector<float> floats(static_cast<size_t>(tensor.shape.elements()));
    const bool floats_fit = DTypeOf(tensor.storage) == DType::kFloat32;
    if (floats_fit) RINGLET_RETURN_IF_ERROR(Read(tensor, floats.data()));
    const bool all = std::all_of(floats.begin(), floats.end(),
                                 [none](float f) { return f == none; });
    if (!floats_fit || !all) defaults_.erase(tensor.name);
  }
  return Status();
}

const StoredTensor* OnnxWeights::Find(const std::string& name) const {
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Status OnnxWeights::Read(const StoredTensor& tensor, void* elements) const {
  if (!tensor.unread.empty()) {
    return InvalidArgument("%s: '%s' is %s, which is not read", path_.c_str(),
                           Printable(tensor.name).c_str(),
                           Printable(tensor.unread).c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
  const auto bytes = static_cast<size_t>(tensor.bytes);
  std::vector<unsigned char> stored(bytes);
  RINGLET_RETURN_IF_ERROR(file_->Read(tensor.offset, stored.data(), bytes)
                              .Annotate("%s", path_.c_str()));
  if (transposed_.count(tensor.name) != 0) {
    const size_t size = SizeOf(tensor.storage),
                 rows = static_cast<size_t>(tensor.shape[0]),
                 columns = static_cast<size_t>(tensor.shape[1]);
    std::vector<unsigned char> transposed(bytes);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        std::memcpy(transposed.data() + (r * columns + c) * size,
                    stored.data() + (c * rows + r) * size, size);
      }
    }
    stored.swap(transposed);
  }
  DecodeElements(tensor.storage, stored.data(),
                 static_cast<size_t>(tensor.shape.elements()), elements);
  return Status();
}

}  // namespace ringlet
