// Reads the parts of an ONNX file that are needed to find its weights.

#ifndef RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_
#define RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../readers/storage.h"
#include "ringlet/files.h"
#include "ringlet/status.h"

namespace ringlet {

struct OnnxFileGraph {
  struct Node {
    std::string op, name, output;
    std::vector<std::string> inputs;
    std::vector<int64_t> perm;
    bool trans_a = false, trans_b = false, scales = false;  // of a Gemm
  };
  std::string producer;
  std::vector<Node> nodes;
  std::set<std::string> transposed;             // tensors that are marked so
  std::map<std::string, StoredTensor> tensors;  // those of floats can be read
};

// Errors begin with the place in the file.
Status ReadOnnxGraph(File* file, OnnxFileGraph* graph);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_GRAPH_READER_H_
