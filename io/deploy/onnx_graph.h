// OnnxGraph: nodes and constants of an ONNX model in the making, and its file.
//
// Internal to io/deploy. Tensors are numbers, which get their names when they
// are made; -1 is an input that a node goes without. Fields and numbers are
// those of onnx.proto (opset 13, IR 7). What a graph says depends on nothing
// but what was added, so that the same model gives the same bytes on every
// machine.

#ifndef RINGLET_IO_DEPLOY_ONNX_GRAPH_H_
#define RINGLET_IO_DEPLOY_ONNX_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "../../core/base/check.h"
#include "../../core/base/saveable.h"
#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "../files/file_system.h"

namespace ringlet {

// A few numbers: dimensions, axes, strides.
struct OnnxInts {
  static constexpr int kMost = Shape::kMaxRank + 2;

  OnnxInts() = default;
  OnnxInts(std::initializer_list<int64_t> numbers) {
    for (const int64_t n : numbers) Add(n);
  }
  void Add(int64_t n) {
    RINGLET_CHECK(count < kMost);
    values[count++] = n;
  }
  const int64_t* begin() const { return values; }
  const int64_t* end() const { return values + count; }

  int count = 0;
  int64_t values[kMost];
};

// Of a node, for the call that adds it.
struct OnnxAttribute {
  OnnxAttribute(const char* n, int64_t value) : name(n), type(2), i(value) {}
  OnnxAttribute(const char* n, int value) : OnnxAttribute(n, int64_t{value}) {}
  OnnxAttribute(const char* n, float value) : name(n), type(1), f(value) {}
  OnnxAttribute(const char* n, const char* value)
      : name(n), type(3), text(value) {}
  OnnxAttribute(const char* n, const OnnxInts& values)
      : name(n), type(7), ints(&values) {}

  const char* name;
  int type;  // AttributeProto.AttributeType
  union {
    int64_t i;
    float f;
    const char* text;
    const OnnxInts* ints;
  };
};
using OnnxAttributes = std::initializer_list<OnnxAttribute>;

class OnnxGraph {
 public:
  // The order in which a weight's floats stand in the file: element (i, j, k)
  // is i * step[0] + j * step[1] + k * step[2] from the first.
  struct Order {
    int64_t count[3];
    int64_t step[3];
  };

  // Shapes of inputs and outputs leave out the batch, which stays open.
  int AddInput(const std::string& name, const Shape& shape);
  // A tensor may be several outputs, an input too.
  void AddOutput(const std::string& name, const Shape& shape, int tensor);
  // Its one output; `layer` is what its name begins with. Inputs of -1 at the
  // end are left out.
  int AddNode(const char* op, const int* inputs, size_t count,
              OnnxAttributes attributes, const std::string& layer);
  // `floats` outlive the graph.
  int AddWeight(const std::string& name, const OnnxInts& dims,
                const float* floats, const Order& order);
  int AddFloats(const std::string& name, const OnnxInts& dims,
                const float* values, int64_t count);
  int AddInts(const std::string& name, const OnnxInts& values);

  // Whole or not at all, as AtomicFile has it.
  Status Write(const std::string& name, const Metadata& metadata,
               FileSystem* files, const std::string& path) const;

 private:
  struct Node {
    const char* op;
    std::vector<int> inputs;
    int output;
    std::string attributes;
  };
  struct Constant {
    std::string head;   // the field, up to the data
    std::string bytes;  // the data, or …
    const float* floats = nullptr;
    Order order = {};
    uint64_t data_bytes() const;
  };

  struct Tensor {
    std::string name;
    bool may_rename;  // a node's, that no output has named
  };

  int NewTensor(const std::string& name, bool may_rename);
  const std::string& NameOf(int tensor) const {
    return tensors_[static_cast<size_t>(tensor)].name;
  }
  int AddConstant(const std::string& name, int type, const OnnxInts& dims,
                  Constant* constant);
  std::string NodesAndName(const std::string& name) const;

  std::vector<Tensor> tensors_;
  std::set<std::string> names_;
  std::vector<Node> nodes_;
  std::vector<Constant> constants_;
  std::string ends_;  // inputs and outputs, as they stand in the file
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_ONNX_GRAPH_H_
