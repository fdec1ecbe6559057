// Adds the layers of a model to an ONNX graph.

#ifndef RINGLET_IO_EXPORT_ONNX_ONNX_LAYERS_H_
#define RINGLET_IO_EXPORT_ONNX_ONNX_LAYERS_H_

#include "onnx_graph.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

// Adds the compiled model's inputs, layers and outputs, with a final softmax if
// `softmax`. The graph refers to the model's weights.
Status AddModel(Model* model, bool softmax, OnnxGraph* graph);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_ONNX_ONNX_LAYERS_H_
