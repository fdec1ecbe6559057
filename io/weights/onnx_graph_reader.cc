// Each nested message has its own reader. Two invariants hold for any input.
// The graph in memory is never larger than the file. A tensor's bytes are
// within the file, and have the length of its shape and type.

#include "onnx_graph_reader.h"

#include <cinttypes>
#include <utility>

#include "../../core/base/text.h"
#include "../files/onnx_format.h"
#include "../files/protobuf_reader.h"

namespace ringlet {
namespace {

using namespace onnx_format;  // NOLINT: numbers alone
using Field = ProtobufReader::Field;

constexpr size_t kMostEntries = 20000;  // nodes, tensors, inputs of a node
constexpr uint64_t kOne = 0x3f800000;   // 1.0f

// Calls take(field) for each field of a message.
template <typename Take>
Status ForEachField(ProtobufReader* reader, const Take& take) {
  Field field;
  for (bool has = true;;) {
    RINGLET_RETURN_IF_ERROR(reader->Next(&field, &has));
    if (!has) return Status();
    RINGLET_RETURN_IF_ERROR(take(field));
  }
}

Status ReadAttribute(ProtobufReader reader, OnnxFileGraph::Node* node) {
  std::string name;
  uint64_t number = 0, bits = kOne;
  std::vector<int64_t> ints;
  RINGLET_RETURN_IF_ERROR(ForEachField(&reader, [&](const Field& f) {
    if (f.number == kAttributeName) return reader.Text(f, &name);
    if (f.number == kFloat) bits = f.value;
    if (f.number == kInt) number = f.value;
    // Longer names belong to attributes that are not read.
    if (f.number == kInts && ints.size() < 8) {
      return reader.Ints(f, kMostEntries, &ints);
    }
    return Status();
  }));
  if (name == "perm") node->perm = std::move(ints);
  if (name == "transA") node->trans_a = number != 0;
  if (name == "transB") node->trans_b = number != 0;
  if (name == "alpha" || name == "beta") node->scales |= bits != kOne;
  return Status();
}

Status ReadNode(ProtobufReader reader, OnnxFileGraph::Node* node) {
  return ForEachField(&reader, [&](const Field& f) {
    std::string text;
    switch (f.number) {
      case kNodeInput:
        if (node->inputs.size() >= kMostEntries) {
          return Corruption("a node of too many inputs");
        }
        RINGLET_RETURN_IF_ERROR(reader.Text(f, &text));
        node->inputs.push_back(text);
        return Status();
      case kNodeOutput:
        return node->output.empty() ? reader.Text(f, &node->output) : Status();
      case kNodeName:
        return reader.Text(f, &node->name);
      case kOpType:
        return reader.Text(f, &node->op);
      case kAttribute:
        return f.type == ProtobufType::kBytes
                   ? ReadAttribute(ProtobufReader(reader, f), node)
                   : Status();
      default:
        return Status();
    }
  });
}

// "I8"
std::string NameOfType(uint64_t type) {
  constexpr const char* kNames[] = {"U8",  "I8",  "U16",  "I16",
                                    "I32", "I64", "text", "bool"};
  return type >= 2 && type < 10 ? kNames[type - 2]
                                : "type " + std::to_string(type);
}

// False if it is no type of weights.
bool StorageOfType(uint64_t type, Storage* storage) {
  constexpr struct {
    uint64_t type;
    Storage storage;
  } kTypes[] = {{kFloat32, Storage::kF32},
                {kFloat64, Storage::kF64},
                {kFloat16, Storage::kF16},
                {kBFloat16, Storage::kBF16}};
  for (const auto& row : kTypes) {
    if (row.type != type) continue;
    *storage = row.storage;
    return true;
  }
  return false;
}

Status CheckTensor(const std::vector<int64_t>& dims, bool external,
                   StoredTensor* tensor) {
  const std::string name = Printable(tensor->name);
  if (external && tensor->unread.empty()) {
    return Error(Code::kUnimplemented,
                 "'%s' stands in another file; save the model as one "
                 "(save_as_external_data=False)",
                 name.c_str());
  }
  if (dims.size() > Shape::kMaxRank) {
    return Corruption("'%s' has %zu dimensions", name.c_str(), dims.size());
  }
  for (const int64_t dim : dims) {
    if (dim < 0) return Corruption("'%s' has a negative size", name.c_str());
    tensor->shape.Append(dim);
  }
  const bool read = tensor->unread.empty();
  if (!read && StoredBytes(tensor->shape, Storage::kF64) >= 0) return Status();
  const int64_t bytes = StoredBytes(tensor->shape, tensor->storage);
  if (read && bytes == tensor->bytes) return Status();
  return Corruption(
      "'%s' of shape %s has %" PRId64 " bytes in one piece, and takes %" PRId64,
      name.c_str(), tensor->shape.ToString().c_str(), tensor->bytes, bytes);
}

Status ReadTensor(ProtobufReader reader, OnnxFileGraph* graph) {
  StoredTensor tensor;
  std::vector<int64_t> dims;
  uint64_t type = 0;
  bool external = false;
  std::string doc;
  RINGLET_RETURN_IF_ERROR(ForEachField(&reader, [&](const Field& f) {
    if (f.number == kDims) return reader.Ints(f, kMostEntries, &dims);
    if (f.number == kTensorName) return reader.Text(f, &tensor.name);
    const bool may_be_turned = f.number == kTensorDoc &&
                               f.end - f.begin == sizeof(kTransposedMark) - 1;
    if (may_be_turned) return reader.Text(f, &doc);
    if (f.number == kDataType) type = f.value;
    if (f.number == kDataLocation) external = f.value != 0;
    const bool data = f.number == kRawData || f.number == kFloatData ||
                      f.number == kDoubleData;
    if (data && f.type == ProtobufType::kBytes && f.end > f.begin) {
      tensor.offset = f.begin;
      tensor.bytes = f.end - f.begin;
    }
    return Status();
  }));
  if (!StorageOfType(type, &tensor.storage)) tensor.unread = NameOfType(type);
  RINGLET_RETURN_IF_ERROR(CheckTensor(dims, external, &tensor));
  std::string name = tensor.name;
  if (doc == kTransposedMark) graph->transposed.insert(name);
  if (graph->tensors.emplace(name, std::move(tensor)).second) return Status();
  return Corruption("two tensors are called '%s'", Printable(name).c_str());
}

Status ReadGraph(ProtobufReader reader, OnnxFileGraph* graph) {
  return ForEachField(&reader, [&](const Field& f) {
    if (f.type != ProtobufType::kBytes) return Status();
    if (graph->nodes.size() + graph->tensors.size() >= kMostEntries) {
      return Corruption("more than %zu nodes and tensors", kMostEntries);
    }
    if (f.number == kInitializer) {
      return ReadTensor(ProtobufReader(reader, f), graph);
    }
    if (f.number != kNode) return Status();
    graph->nodes.emplace_back();
    return ReadNode(ProtobufReader(reader, f), &graph->nodes.back());
  });
}

}  // namespace

Status ReadOnnxGraph(File* file, OnnxFileGraph* graph) {
  int64_t bytes = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&bytes));
  ProtobufReader reader(file, 0, bytes);
  bool found = false;
  RINGLET_RETURN_IF_ERROR(ForEachField(&reader, [&](const Field& f) {
    if (f.number == kProducerName) return reader.Text(f, &graph->producer);
    if (f.number != kGraph || f.type != ProtobufType::kBytes) return Status();
    if (std::exchange(found, true)) return Corruption("it has two graphs");
    return ReadGraph(ProtobufReader(reader, f), graph);
  }));
  return found ? Status() : Corruption("it has no graph");
}

}  // namespace ringlet
