// Each nested message has its own reader. Two invariants hold for any input.
// The graph in memory is never larger than the file. A tensor's bytes have the
// length of its shape and type and, unless they are in another file, are within
// the file.

#include "onnx_graph_reader.h"

#include <cinttypes>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/named.h"
#include "../../core/base/text.h"
#include "../files/onnx_format.h"
#include "../files/protobuf_reader.h"

namespace ringlet {
namespace {

using namespace onnx_format;  // NOLINT: numbers alone
using Field = ProtobufReader::Field;

// Limits the nodes and tensors of a graph, and the inputs of a node.
constexpr size_t kMaxEntries = 20000;
constexpr uint64_t kOne = 0x3f800000;  // 1.0f
// The most activations of a recurrent operator: three for each of two
// directions, and two more.
constexpr size_t kMaxFunctions = 8;

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

// Floats of an attribute: packed in one field of bytes, or a field for each.
struct Floats {
  int64_t begin = 0, end = 0, count = 0;
  bool are_fields = false;
  bool in_one_piece = true;  // no other fields are between them

  void Add(const Field& f) {
    const bool is_field = f.type == ProtobufType::kFixed32;
    const bool follows = is_field && are_fields && f.begin == end + 1;
    if (f.type == ProtobufType::kVarint || f.type == ProtobufType::kFixed64 ||
        (count > 0 && !follows)) {
      in_one_piece = false;
      return;
    }
    if (count == 0) begin = f.begin;
    are_fields = is_field;
    end = f.end;
    count += is_field ? 1 : (f.end - f.begin) / 4;
    if (!is_field && (f.end - f.begin) % 4 != 0) in_one_piece = false;
  }
};

// The value of a node Constant.
struct ConstantValue {
  Field tensor;  // its type is kBytes if there is one
  Floats floats;
  std::string attribute;  // a different one from "value"
};

// Appends the floats of a field. Longer lists belong to attributes that are not
// read.
Status ReadShortFloats(const ProtobufReader& reader, const Field& f,
                       std::vector<float>* floats) {
  if (f.type == ProtobufType::kVarint || f.type == ProtobufType::kFixed64 ||
      f.end - f.begin > static_cast<int64_t>(4 * kMaxFunctions) ||
      floats->size() > kMaxFunctions) {
    return Status();
  }
  std::string bytes(4, '\0');
  if (f.type == ProtobufType::kFixed32) {
    StoreLittle(static_cast<uint32_t>(f.value),
                reinterpret_cast<unsigned char*>(&bytes[0]));
  } else {
    RINGLET_RETURN_IF_ERROR(reader.Text(f, &bytes));
  }
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    const auto bits = LoadLittle<uint32_t>(
        reinterpret_cast<const unsigned char*>(bytes.data()) + at);
    floats->emplace_back();
    std::memcpy(&floats->back(), &bits, sizeof bits);
  }
  return Status();
}

struct Attribute {
  std::string name, text;
  Field tensor;
  Floats one, several;
  uint64_t number = 0, bits = kOne;
  std::vector<int64_t> ints;
  std::vector<std::string> texts;
  std::vector<float> numbers;
};

Status ReadAttributeFields(ProtobufReader* reader, Attribute* a) {
  return ForEachField(reader, [&](const Field& f) {
    if (f.number == kAttributeName) return reader->Text(f, &a->name);
    if (f.number == kFloat) {
      a->bits = f.value;
      a->one.Add(f);
    }
    if (f.number == kFloats) {
      a->several.Add(f);
      return ReadShortFloats(*reader, f, &a->numbers);
    }
    if (f.number == kStrings && a->texts.size() < kMaxFunctions) {
      return reader->Text(f, &a->texts.emplace_back());
    }
    if (f.number == kInt) a->number = f.value;
    if (f.number == kString) return reader->Text(f, &a->text);
    if (f.number == kAttributeTensor) a->tensor = f;
    // Longer lists belong to attributes that are not read.
    if (f.number == kInts && a->ints.size() < 8) {
      return reader->Ints(f, kMaxEntries, &a->ints);
    }
    return Status();
  });
}

using Node = OnnxFileGraph::Node;
constexpr Named<bool Node::*> kFlags[] = {
    {"input_forget", &Node::input_forget},
    {"linear_before_reset", &Node::linear_before_reset},
    {"transA", &Node::trans_a},
    {"transB", &Node::trans_b},
};
constexpr Named<std::vector<float> Node::*> kFactors[] = {
    {"activation_alpha", &Node::activation_alpha},
    {"activation_beta", &Node::activation_beta},
};

// Reads one attribute of a node. *value becomes the attribute's tensor or
// floats if its name is a name that a Constant has.
Status ReadAttribute(ProtobufReader reader, Node* node, ConstantValue* value) {
  Attribute a;
  RINGLET_RETURN_IF_ERROR(ReadAttributeFields(&reader, &a));
  const std::string& name = a.name;
  for (const auto& [flag, member] : kFlags) {
    if (name == flag) node->*member = a.number != 0;
  }
  for (const auto& [factors, member] : kFactors) {
    if (name == factors) node->*member = a.numbers;
  }
  if (name == "value") value->tensor = a.tensor;
  if (StartsWith(name, "value_")) {
    value->attribute = name;
    value->floats = name == "value_float" ? a.one : a.several;
  }
  if (name == "perm") node->perm = std::move(a.ints);
  if (name == "direction") node->direction = a.text;
  if (name == "clip") node->clips = true;
  if (name == "activations") node->activations = std::move(a.texts);
  if (name == "axis") node->axis = static_cast<int64_t>(a.number);
  if (name == "alpha" || name == "beta") node->scales |= a.bits != kOne;
  return Status();
}

Status ReadNode(ProtobufReader reader, OnnxFileGraph::Node* node,
                ConstantValue* value) {
  return ForEachField(&reader, [&](const Field& f) {
    std::string text;
    switch (f.number) {
      case kNodeInput:
        if (node->inputs.size() >= kMaxEntries) {
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
                   ? ReadAttribute(ProtobufReader(reader, f), node, value)
                   : Status();
      default:
        return Status();
    }
  });
}

// The name of a type that is not read: "I8".
std::string NameOfType(uint64_t type) {
  constexpr const char* kNames[] = {"U8",  "I8",  "U16",  "I16",
                                    "I32", "I64", "text", "bool"};
  return type >= 2 && type < 10 ? kNames[type - 2]
                                : "type " + std::to_string(type);
}

// Finds the Storage of a type. False for a type that weights do not have.
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

// The place of a tensor's data in another file.
struct ExternalData {
  std::string location;
  int64_t offset = 0, length = -1;  // -1 if not given
};

Status ReadExternalData(ProtobufReader reader, ExternalData* external) {
  constexpr int64_t kMax = int64_t{1} << 62;
  std::string key, value;
  RINGLET_RETURN_IF_ERROR(ForEachField(&reader, [&](const Field& f) {
    if (f.number == kMetadataKey) return reader.Text(f, &key);
    return f.number == kMetadataValue ? reader.Text(f, &value) : Status();
  }));
  if (key == "location") external->location = value;
  if (key != "offset" && key != "length") return Status();
  const int64_t number = ParseWholeNumber(value, kMax);
  (key == "offset" ? external->offset : external->length) = number;
  if (number >= 0) return Status();
  return Corruption("external data of %s '%s'", key.c_str(),
                    Printable(value).c_str());
}

// Sets the place of a tensor with elements in another file. If no length is
// given, it is the length of the shape, so the shape must be set.
Status PlaceOutside(const ExternalData& external, OnnxTensor* tensor) {
  tensor->elements = OnnxElements::kInOnePiece;
  tensor->location = external.location;
  tensor->offset = external.offset;
  tensor->bytes = external.length >= 0
                      ? external.length
                      : StoredBytes(tensor->shape, tensor->storage);
  if (!tensor->location.empty()) return Status();
  return Corruption("'%s' is in another file, without its name",
                    Printable(tensor->name).c_str());
}

// Checks that `bytes`, the length of the tensor's data, is the length of its
// elements.
Status CheckBytes(const OnnxTensor& tensor, int64_t bytes) {
  const bool read = tensor.unread.empty();
  const int64_t takes =
      StoredBytes(tensor.shape, read ? tensor.storage : Storage::kF64);
  if (takes >= 0 && (!read || takes == bytes)) return Status();
  return Corruption("'%s' of shape %s has %" PRId64
                    " bytes in one piece, and takes %" PRId64,
                    Printable(tensor.name).c_str(),
                    tensor.shape.ToString().c_str(), bytes, takes);
}

Status SetShape(const std::vector<int64_t>& dims, OnnxTensor* tensor) {
  const std::string name = Printable(tensor->name);
  if (dims.size() > Shape::kMaxRank) {
    return Corruption("'%s' has %zu dimensions", name.c_str(), dims.size());
  }
  for (const int64_t dim : dims) {
    if (dim < 0) return Corruption("'%s' has a negative size", name.c_str());
    tensor->shape.Append(dim);
  }
  return Status();
}

// The fields of a TensorProto that place its elements.
struct TensorFields {
  std::vector<int64_t> dims;
  uint64_t type = 0;
  bool is_external = false;
  ExternalData external;
  Field data, ints;  // ints: int32_data
  std::string doc;
};

Status ReadTensorFields(ProtobufReader* reader, std::string* name,
                        TensorFields* t) {
  return ForEachField(reader, [&](const Field& f) {
    const bool bytes = f.type == ProtobufType::kBytes;
    if (f.number == kDims) return reader->Ints(f, kMaxEntries, &t->dims);
    if (f.number == kTensorName) return reader->Text(f, name);
    const bool may_be_transposed =
        f.number == kTensorDoc &&
        f.end - f.begin == sizeof(kTransposedMark) - 1;
    if (may_be_transposed) return reader->Text(f, &t->doc);
    if (f.number == kExternalData && bytes) {
      return ReadExternalData(ProtobufReader(*reader, f), &t->external);
    }
    if (f.number == kDataType) t->type = f.value;
    if (f.number == kDataLocation) t->is_external = f.value != 0;
    const bool data = f.number == kRawData || f.number == kFloatData ||
                      f.number == kDoubleData;
    if (data && bytes && f.end > f.begin) t->data = f;
    if (f.number == kInt32Data && bytes) t->ints = f;
    return Status();
  });
}

Status AddTensor(OnnxTensor tensor, OnnxFileGraph* graph) {
  const std::string key = tensor.name;
  if (graph->tensors.emplace(key, std::move(tensor)).second) return Status();
  return Corruption("two tensors are called '%s'", Printable(key).c_str());
}

// Reads a tensor. `name` is the name of the node which gives it; empty if the
// tensor has a name of its own.
Status ReadTensor(ProtobufReader reader, const std::string& name,
                  OnnxFileGraph* graph) {
  OnnxTensor tensor;
  TensorFields fields;
  RINGLET_RETURN_IF_ERROR(ReadTensorFields(&reader, &tensor.name, &fields));
  if (!name.empty()) tensor.name = name;
  if (!StorageOfType(fields.type, &tensor.storage)) {
    tensor.unread = NameOfType(fields.type);
  }
  RINGLET_RETURN_IF_ERROR(SetShape(fields.dims, &tensor));
  const bool halves =
      tensor.storage == Storage::kF16 || tensor.storage == Storage::kBF16;
  const bool packed = halves && fields.data.end == fields.data.begin;
  if (packed) tensor.elements = OnnxElements::kInts;
  const Field& data = packed ? fields.ints : fields.data;
  tensor.offset = data.begin;
  tensor.bytes = data.end - data.begin;
  if (fields.is_external && tensor.unread.empty()) {
    RINGLET_RETURN_IF_ERROR(PlaceOutside(fields.external, &tensor));
  }
  int64_t bytes = tensor.bytes;
  if (tensor.elements == OnnxElements::kInts) {
    RINGLET_RETURN_IF_ERROR(reader.CountInts(data, &bytes));
    bytes *= 2;
  }
  RINGLET_RETURN_IF_ERROR(CheckBytes(tensor, bytes));
  if (fields.doc == kTransposedMark) graph->transposed.insert(tensor.name);
  return AddTensor(std::move(tensor), graph);
}

// Reads the value of a node Constant: a tensor, a number or a list of numbers.
Status ReadConstant(const ProtobufReader& reader, const std::string& name,
                    const ConstantValue& value, OnnxFileGraph* graph) {
  if (value.tensor.type == ProtobufType::kBytes) {
    return ReadTensor(ProtobufReader(reader, value.tensor), name, graph);
  }
  OnnxTensor tensor;
  tensor.name = name;
  const Floats& floats = value.floats;
  const bool is_list = value.attribute == "value_floats";
  if (!is_list && value.attribute != "value_float") {
    tensor.unread = "given by " +
                    (value.attribute.empty() ? "no value" : value.attribute) +
                    " of a node Constant";
    return AddTensor(std::move(tensor), graph);
  }
  if (!floats.in_one_piece || (!is_list && floats.count != 1)) {
    return Corruption("'%s': the floats of %s are not in one place",
                      Printable(name).c_str(), value.attribute.c_str());
  }
  if (is_list) tensor.shape.Append(floats.count);
  if (floats.are_fields) tensor.elements = OnnxElements::kFields;
  tensor.offset = floats.begin;
  tensor.bytes = floats.end - floats.begin;
  return AddTensor(std::move(tensor), graph);
}

Status ReadGraph(ProtobufReader reader, OnnxFileGraph* graph) {
  return ForEachField(&reader, [&](const Field& f) {
    if (f.type != ProtobufType::kBytes) return Status();
    if (graph->nodes.size() + graph->tensors.size() >= kMaxEntries) {
      return Corruption("more than %zu nodes and tensors", kMaxEntries);
    }
    if (f.number == kInitializer) {
      return ReadTensor(ProtobufReader(reader, f), "", graph);
    }
    if (f.number != kNode) return Status();
    OnnxFileGraph::Node node;
    ConstantValue value;
    RINGLET_RETURN_IF_ERROR(ReadNode(ProtobufReader(reader, f), &node, &value));
    if (node.op == "Constant") {
      return ReadConstant(reader, node.output, value, graph);
    }
    if (node.op == "ConstantOfShape" &&
        value.tensor.type == ProtobufType::kBytes) {
      OnnxFileGraph value_graph;
      RINGLET_RETURN_IF_ERROR(ReadTensor(ProtobufReader(reader, value.tensor),
                                         "value", &value_graph));
      node.filler =
          std::make_shared<OnnxTensor>(value_graph.tensors.at("value"));
    }
    graph->nodes.push_back(std::move(node));
    return Status();
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
