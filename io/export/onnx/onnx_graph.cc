// Writes the file from front to back, without a copy of the weights. The shapes
// determine all lengths that precede the bytes that they count.

#include "onnx_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../../../core/base/byte_order.h"
#include "../../../core/base/float16.h"
#include "../../files/atomic_file.h"
#include "../../files/onnx_format.h"
#include "../../files/protobuf.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

using namespace onnx_format;  // only numbers

constexpr int64_t kOpset = 13, kIr = 7;
constexpr uint64_t kMaxBytes =
    INT32_MAX;  // the longest message that all readers take

std::string Field(int field, const std::string& bytes) {
  std::string out;
  PutBytes(&out, field, bytes);
  return out;
}

std::string IntField(int field, int64_t value) {
  std::string out;
  PutInt(&out, field, value);
  return out;
}

std::string Attribute(const OnnxAttribute& a) {
  std::string fields = Field(kAttributeName, a.name);
  switch (a.type) {
    case kTypeFloat:
      PutFloat(&fields, kFloat, a.f);
      break;
    case kTypeInt:
      PutInt(&fields, kInt, a.i);
      break;
    case kTypeString:
      PutBytes(&fields, kString, a.text);
      break;
    case kTypeFloats:
      for (const float number : *a.floats) PutFloat(&fields, kFloats, number);
      break;
    case kTypeInts:
      for (const int64_t n : *a.ints) PutInt(&fields, kInts, n);
      break;
    case kTypeStrings:
      for (const char* text : *a.texts) PutBytes(&fields, kStrings, text);
      break;
  }
  PutInt(&fields, kAttributeType, a.type);
  return fields;
}

// Writes an input or output of the graph.
std::string ValueInfo(const std::string& name, const Shape& shape) {
  std::string dims = Field(kDim, Field(kDimParam, "batch"));
  for (int i = 0; i < shape.rank(); ++i) {
    PutBytes(&dims, kDim, IntField(kDimValue, shape[i]));
  }
  const std::string type = IntField(kElemType, kFloat32) + Field(kShape, dims);
  return Field(kValueName, name) + Field(kValueType, Field(kTensorType, type));
}

// Writes floats to a file, little-endian.
class FloatWriter {
 public:
  explicit FloatWriter(File* file) : file_(file), floats_(kBufferFloats) {}

  // Adds `count` floats with a distance of `step`.
  Status Add(const float* from, int64_t count, int64_t step) {
    for (int64_t done = 0; done < count;) {
      const int64_t n = std::min(kBufferFloats - size_, count - done);
      float* const to = floats_.data() + size_;
      if (step == 1) {
        std::copy_n(from + done, n, to);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = from[(done + i) * step];
      }
      done += n;
      size_ += n;
      if (size_ == kBufferFloats) RINGLET_RETURN_IF_ERROR(Flush());
    }
    return Status();
  }
  Status Flush() {
    const auto count = static_cast<size_t>(std::exchange(size_, 0));
    SwapToLittle(floats_.data(), sizeof(float), count);
    return file_->Write(floats_.data(), sizeof(float) * count);
  }

 private:
  static constexpr int64_t kBufferFloats = 1 << 15;

  File* const file_;
  std::vector<float> floats_;
  int64_t size_ = 0;
};

Status WriteFloats(const float* floats, const OnnxGraph::StridedLayout& layout,
                   FloatWriter* writer) {
  for (int64_t i = 0; i < layout.count[0]; ++i) {
    for (int64_t j = 0; j < layout.count[1]; ++j) {
      RINGLET_RETURN_IF_ERROR(
          writer->Add(floats + i * layout.step[0] + j * layout.step[1],
                      layout.count[2], layout.step[2]));
    }
  }
  return writer->Flush();
}

}  // namespace

uint64_t OnnxGraph::Constant::data_bytes() const {
  if (floats == nullptr) return bytes.size();
  return sizeof(float) *
         static_cast<uint64_t>(layout.count[0] * layout.count[1] *
                               layout.count[2]);
}

// The name; with a number after it if another tensor has the name.
int OnnxGraph::NewTensor(const std::string& name, bool may_rename) {
  std::string unique = name;
  for (int i = 1; !names_.insert(unique).second; ++i) {
    unique = name + "_" + std::to_string(i);
  }
  tensors_.push_back({unique, may_rename});
  return static_cast<int>(tensors_.size()) - 1;
}

int OnnxGraph::AddInput(const std::string& name, const Shape& shape) {
  const int tensor = NewTensor(name, /*may_rename=*/false);
  PutBytes(&ends_, kInput, ValueInfo(NameOf(tensor), shape));
  return tensor;
}

void OnnxGraph::AddOutput(const std::string& name, const Shape& shape,
                          int tensor) {
  const int output = NewTensor(name, /*may_rename=*/false);
  Tensor& node_output = tensors_[static_cast<size_t>(tensor)];
  if (node_output.may_rename) {
    node_output = {NameOf(output), /*may_rename=*/false};
  } else {
    nodes_.push_back({"Identity", {tensor}, {output}, ""});
  }
  PutBytes(&ends_, kOutput, ValueInfo(NameOf(output), shape));
}

int OnnxGraph::AddNode(const char* op, const int* inputs, size_t count,
                       OnnxAttributes attributes, const std::string& layer,
                       int output) {
  while (count > 0 && inputs[count - 1] < 0) --count;
  std::string fields;
  for (const OnnxAttribute& a : attributes) {
    if (a.type == kTypeFloats && a.floats->empty()) continue;
    PutBytes(&fields, kAttribute, Attribute(a));
  }
  const int tensor = NewTensor(layer + "/" + op, /*may_rename=*/true);
  std::vector<int> outputs(static_cast<size_t>(output), -1);
  outputs.push_back(tensor);
  nodes_.push_back({op, {inputs, inputs + count}, std::move(outputs), fields});
  return tensor;
}

int OnnxGraph::OutputOfSameNode(int tensor, int output) {
  const auto number = static_cast<size_t>(output);
  for (Node& node : nodes_) {
    std::vector<int>& outputs = node.outputs;
    if (std::find(outputs.begin(), outputs.end(), tensor) == outputs.end()) {
      continue;
    }
    if (outputs.size() <= number) outputs.resize(number + 1, -1);
    if (outputs[number] < 0)
      outputs[number] = NewTensor(NameOf(tensor), /*may_rename=*/true);
    return outputs[number];
  }
  return -1;
}

int OnnxGraph::AddConstant(const std::string& name, int type,
                           const OnnxInts& dims, Constant* constant) {
  const int tensor = NewTensor(name, /*may_rename=*/false);
  std::string fields;
  for (const int64_t dim : dims) PutInt(&fields, kDims, dim);
  PutInt(&fields, kDataType, type);
  PutBytes(&fields, kTensorName, NameOf(tensor));
  const bool transposed =
      constant->floats != nullptr && constant->layout.count[0] > 1;
  if (transposed) PutBytes(&fields, kTensorDoc, kTransposedMark);
  const uint64_t data = constant->data_bytes();
  PutBytesHeader(&fields, kRawData, data);
  PutBytesHeader(&constant->head, kInitializer, fields.size() + data);
  constant->head += fields;
  constants_.push_back(std::move(*constant));
  return tensor;
}

int OnnxGraph::AddWeight(const std::string& name, const OnnxInts& dims,
                         const float* floats, const StridedLayout& layout) {
  Constant constant;
  constant.floats = floats;
  constant.layout = layout;
  return AddConstant(name, kFloat32, dims, &constant);
}

int OnnxGraph::AddFloats(const std::string& name, const OnnxInts& dims,
                         const float* values, int64_t count) {
  Constant constant;
  for (int64_t i = 0; i < count; ++i) {
    AppendLittle(BitsOfFloat(values[i]), &constant.bytes);
  }
  return AddConstant(name, kFloat32, dims, &constant);
}

int OnnxGraph::AddInts(const std::string& name, const int64_t* values,
                       int64_t count) {
  Constant constant;
  for (int64_t i = 0; i < count; ++i) {
    AppendLittle(static_cast<uint64_t>(values[i]), &constant.bytes);
  }
  return AddConstant(name, kInt64, {count}, &constant);
}

std::string OnnxGraph::NodesAndName(const std::string& name) const {
  std::string out;
  for (const Node& node : nodes_) {
    std::string fields;
    for (const int input : node.inputs) {
      PutBytes(&fields, kNodeInput, input < 0 ? "" : NameOf(input));
    }
    for (const int output : node.outputs) {
      PutBytes(&fields, kNodeOutput, output < 0 ? "" : NameOf(output));
    }
    PutBytes(&fields, kNodeName, NameOf(node.outputs.back()));
    PutBytes(&fields, kOpType, node.op);
    PutBytes(&out, kNode, fields + node.attributes);
  }
  PutBytes(&out, kGraphName, name);
  return out;
}

Status OnnxGraph::Write(const std::string& name, const Metadata& metadata,
                        FileSystem* files, const std::string& path) const {
  std::string head, tail = ends_;
  const std::string nodes = NodesAndName(name);
  uint64_t graph = nodes.size() + ends_.size();
  for (const Constant& constant : constants_) {
    graph += constant.head.size() + constant.data_bytes();
  }
  PutInt(&head, kIrVersion, kIr);
  PutBytes(&head, kProducerName, kRinglet);
  PutBytes(&head, kProducerVersion, RINGLET_VERSION);
  PutBytesHeader(&head, kGraph, graph);
  PutBytes(&tail, kOpsetImport, IntField(kOpsetVersion, kOpset));
  for (const auto& [key, value] : metadata) {
    PutBytes(&tail, kMetadata,
             Field(kMetadataKey, key) + Field(kMetadataValue, value));
  }
  const uint64_t bytes = head.size() + graph + tail.size() - ends_.size();
  if (bytes > kMaxBytes) {
    return InvalidArgument(
        "%s: the model would take %llu bytes, and ONNX has room for %llu in a "
        "file",
        path.c_str(), static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(kMaxBytes));
  }
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, static_cast<int64_t>(bytes)));
  FloatWriter writer(file.file());
  head += nodes;
  for (const Constant& constant : constants_) {
    head += constant.head;
    if (constant.floats == nullptr) {
      head += constant.bytes;
      continue;
    }
    RINGLET_RETURN_IF_ERROR(file.file()->Write(head.data(), head.size()));
    head.clear();
    RINGLET_RETURN_IF_ERROR(
        WriteFloats(constant.floats, constant.layout, &writer));
  }
  head += tail;
  RINGLET_RETURN_IF_ERROR(file.file()->Write(head.data(), head.size()));
  return file.Commit();
}

}  // namespace ringlet
