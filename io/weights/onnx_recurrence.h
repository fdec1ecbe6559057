// A recurrent operator of an ONNX model, and the layer that may have its
// weights: both must compute the same.

#ifndef RINGLET_IO_WEIGHTS_ONNX_RECURRENCE_H_
#define RINGLET_IO_WEIGHTS_ONNX_RECURRENCE_H_

#include <string>
#include <vector>

#include "onnx_graph_reader.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// One direction of a node.
struct OnnxRecurrence {
  std::string node;
  bool backward = false;
  // The steps may be in reverse order before the node.
  bool time_may_be_reversed = false;
  bool resets_before = false;  // a GRU, before the state's product
  // The node's initial states are values of the graph. Otherwise they are
  // zeros.
  bool has_states = false;
  // Names of Keras, or of ONNX with their numbers: "tanh", "Elu(0.5, 0)".
  std::vector<std::string> activations;
};

// Fills in the node's attributes. `gates` are the gates of its operator. An
// error names the node and an attribute that no layer has.
Status ReadOnnxRecurrence(const OnnxFileGraph::Node& node, int gates,
                          bool backward, OnnxRecurrence* recurrence);

// Checks that the layer of this node of the model, a recurrent one, computes
// the same from the same weights.
Status CheckRecurrence(const OnnxRecurrence& recurrence, const Model& model,
                       int node);

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_ONNX_RECURRENCE_H_
