// Each layer as nodes of ONNX.
//
// Internal to io/deploy.

#ifndef RINGLET_IO_DEPLOY_ONNX_LAYERS_H_
#define RINGLET_IO_DEPLOY_ONNX_LAYERS_H_

#include "../../core/base/status.h"
#include "../../core/model/model.h"
#include "onnx_graph.h"

namespace ringlet {

// The compiled model's inputs, layers and outputs, with a softmax behind these
// where asked for. The graph refers to the model's weights.
Status AddModel(Model* model, bool softmax, OnnxGraph* graph);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_ONNX_LAYERS_H_
