#include "ringlet/export.h"

#include "../lowering.h"
#include "onnx_layers.h"

namespace ringlet {

Status ExportOnnx(Model* model, const std::string& path,
                  const ExportOnnxOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckHasWeights(*model, path));
  OnnxGraph graph;
  RINGLET_RETURN_IF_ERROR(
      AddModel(model, options.softmax, &graph).Annotate("%s", path.c_str()));
  return graph.Write(model->name(), options.metadata, options.files, path);
}

}  // namespace ringlet
