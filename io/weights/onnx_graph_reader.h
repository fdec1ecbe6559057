// Reads the parts of an ONNX file that are needed to find its weights.

#ifndef RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_
#define RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "../readers/storage.h"
#include "ringlet/status.h"

namespace ringlet {

// How a tensor's elements lie in the file.
enum class OnnxElements : uint8_t {
  kInOnePiece,
  kInts,   // F16 or BF16, each a number of int32_data
  kFields  // float32 with a byte before each, which begins its field
};

struct OnnxTensor : StoredTensor {
  // The name of the file with the elements, as in the model. Empty if the
  // elements are in the model's file.
  std::string location;
  OnnxElements elements = OnnxElements::kInOnePiece;
};

struct OnnxFileGraph {
  struct Node {
    std::string op, name, output;
    std::vector<std::string> inputs;
    std::vector<int64_t> perm;
    bool trans_a = false, trans_b = false,
         scales = false;               // attributes of a Gemm
    bool linear_before_reset = false;  // an attribute of a GRU
    // Attributes of a recurrent operator.
    std::string direction;
    bool clips = false, input_forget = false;
    std::vector<std::string> activations;
    std::vector<float> activation_alpha, activation_beta;
    // The number of a ConstantOfShape; null means 0.
    std::shared_ptr<const OnnxTensor> filler;
    int64_t axis = 0;
  };
  std::string producer;
  std::vector<Node> nodes;
  std::set<std::string> transposed;  // tensors that are marked so
  // Initializers and constants. Tensors of floats can be read.
  std::map<std::string, OnnxTensor> tensors;
};

// Errors begin with the place in the file. Other files are not opened: the
// ranges of tensors with a location are not checked.
Status ReadOnnxGraph(File* file, OnnxFileGraph* graph);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_
