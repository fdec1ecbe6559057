// OnnxGraph: collects nodes and constants of an ONNX model, and writes its
// file.
//
// Tensors are indices, and get their names when they are made. -1 is an omitted
// input of a node. Fields and numbers are from onnx.proto (opset 13, IR 7). A
// graph depends only on what was added, so the same model gives the same bytes
// on every machine.

#ifndef RINGLET_IO_EXPORT_ONNX_ONNX_GRAPH_H_
#define RINGLET_IO_EXPORT_ONNX_ONNX_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../../core/base/check.h"
#include "../../files/file_system.h"
#include "../../files/onnx_format.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// A few numbers: dimensions, axes, strides.
struct OnnxInts {
  static constexpr int kMax = Shape::kMaxRank + 2;

  OnnxInts() = default;
  OnnxInts(std::initializer_list<int64_t> numbers) {
    for (const int64_t n : numbers) Add(n);
  }
  void Add(int64_t n) {
    RINGLET_CHECK(count < kMax);
    values[count++] = n;
  }
  const int64_t* begin() const { return values; }
  const int64_t* end() const { return values + count; }

  int count = 0;
  int64_t values[kMax];
};

// An attribute of a node, for the call that adds it.
struct OnnxAttribute {
  OnnxAttribute(const char* n, int64_t value)
      : name(n), type(onnx_format::kTypeInt), i(value) {}
  OnnxAttribute(const char* n, int value) : OnnxAttribute(n, int64_t{value}) {}
  OnnxAttribute(const char* n, float value)
      : name(n), type(onnx_format::kTypeFloat), f(value) {}
  OnnxAttribute(const char* n, const char* value)
      : name(n), type(onnx_format::kTypeString), text(value) {}
  OnnxAttribute(const char* n, const OnnxInts& values)
      : name(n), type(onnx_format::kTypeInts), ints(&values) {}
  OnnxAttribute(const char* n, const std::vector<float>* values)
      : name(n), type(onnx_format::kTypeFloats), floats(values) {}
  OnnxAttribute(const char* n, const std::vector<const char*>* values)
      : name(n), type(onnx_format::kTypeStrings), texts(values) {}

  const char* name;
  onnx_format::AttributeType type;
  union {
    int64_t i;
    float f;
    const char* text;
    const OnnxInts* ints;
    const std::vector<float>* floats;
    const std::vector<const char*>* texts;
  };
};
using OnnxAttributes = std::initializer_list<OnnxAttribute>;

class OnnxGraph {
 public:
  // The layout of a weight's floats in the file: element (i, j, k) is i *
  // step[0] + j * step[1] + k * step[2] from the first.
  struct StridedLayout {
    int64_t count[3];
    int64_t step[3];
  };

  // Shapes of inputs and outputs omit the batch, which is open.
  int AddInput(const std::string& name, const Shape& shape);
  // A tensor may be several outputs; an input may be an output too.
  void AddOutput(const std::string& name, const Shape& shape, int tensor);
  // Adds a node and returns its output number `output`. The other outputs have
  // no name. The name of the node begins with `layer`. Omits inputs of -1 at
  // the end, and attributes without values.
  int AddNode(const char* op, const int* inputs, size_t count,
              OnnxAttributes attributes, const std::string& layer,
              int output = 0);
  // Returns output number `output` of the node that makes `tensor`.
  int OutputOfSameNode(int tensor, int output);
  // `floats` outlive the graph, or are from KeepFloats.
  int AddWeight(const std::string& name, const OnnxInts& dims,
                const float* floats, const StridedLayout& layout);
  int AddFloats(const std::string& name, const OnnxInts& dims,
                const float* values, int64_t count);
  int AddInts(const std::string& name, const int64_t* values, int64_t count);
  int AddInts(const std::string& name, const OnnxInts& values) {
    return AddInts(name, values.values, values.count);
  }
  // Keeps floats for AddWeight, at their address.
  void KeepFloats(std::vector<float> floats) { kept_ = std::move(floats); }

  // Writes the complete file or nothing, as AtomicFile does.
  Status Write(const std::string& name, const Metadata& metadata,
               FileSystem* files, const std::string& path) const;

 private:
  struct Node {
    const char* op;
    std::vector<int> inputs;
    std::vector<int> outputs;  // -1 without a name
    std::string attributes;
  };
  struct Constant {
    std::string head;   // the field, up to the data
    std::string bytes;  // the data; if empty, see floats
    const float* floats = nullptr;
    StridedLayout layout = {};
    uint64_t data_bytes() const;
  };

  struct Tensor {
    std::string name;
    bool may_rename;  // a node's output that has no output's name
  };

  int NewTensor(const std::string& name, bool may_rename);
  const std::string& NameOf(int tensor) const {
    return tensors_[static_cast<size_t>(tensor)].name;
  }
  int AddConstant(const std::string& name, int type, const OnnxInts& dims,
                  Constant* constant);
  std::string NodesAndName(const std::string& name) const;

  std::vector<float> kept_;
  std::vector<Tensor> tensors_;
  std::set<std::string> names_;
  std::vector<Node> nodes_;
  std::vector<Constant> constants_;
  std::string ends_;  // inputs and outputs, as in the file
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_ONNX_ONNX_GRAPH_H_
