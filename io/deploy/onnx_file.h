// A trained model as an ONNX file, for ONNX Runtime, OpenCV and their like.
//
// Public. docs/deploy.md says how the file is used.

#ifndef RINGLET_IO_DEPLOY_ONNX_FILE_H_
#define RINGLET_IO_DEPLOY_ONNX_FILE_H_

#include <string>

#include "../../core/base/saveable.h"
#include "../../core/base/status.h"
#include "../../core/model/model.h"
#include "../files/file_system.h"

namespace ringlet {

struct ExportOnnxOptions {
  // Puts a softmax behind a model that ends in logits.
  bool softmax = false;
  Metadata metadata;  // of the caller's own: metadata_props
  FileSystem* files = FileSystem::Posix();
};

// Writes a compiled model as it predicts, in opset 13 (IR 7), where OK durably.
// Input and output have Keras's names, those of their layers, and shapes,
// channels last, with an open batch. The same model gives the same bytes on
// every machine. kInvalidArgument names the layer that ONNX has no operators
// for; an error leaves the file that was at `path` before.
Status ExportOnnx(Model* model, const std::string& path,
                  const ExportOnnxOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_ONNX_FILE_H_
