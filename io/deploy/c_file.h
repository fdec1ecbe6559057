// A trained model as one C file, for microcontrollers.
//
// Public. docs/deploy.md says how the file is used.

#ifndef RINGLET_IO_DEPLOY_C_FILE_H_
#define RINGLET_IO_DEPLOY_C_FILE_H_

#include <string>

#include "../../core/base/status.h"
#include "../../core/data/dataset.h"
#include "../../core/fit/callback.h"
#include "../../core/model/model.h"
#include "../files/file_system.h"

namespace ringlet {

struct ExportCOptions {
  // Puts a softmax behind a model that ends in logits.
  bool softmax = false;
  // Not empty: the file computes with int8, and so many of these examples say
  // from where to where the layers' outputs go; see docs/deploy.md.
  Dataset calibration;
  int64_t calibration_examples = 512;
  // Not empty: what the report is of.
  Dataset test;
  FileSystem* files = FileSystem::Posix();
};

// Loss and metrics on options.test, of the model and of its int8 file.
struct Int8Report {
  Logs before, after;
};

// Writes a compiled model as it predicts: C99 that needs nothing but expf and
// tanhf, with the weights as constants, static buffers that share bytes where
// they do not live at the same time, and
//
//   int model_predict(const float* in, float* out);
//
// of one example, channels last; it returns 0. The same model gives the same
// text on every machine; in int8, with the same calibration, on those of one
// class of arithmetic. kInvalidArgument names the layer that has no C, or no
// int8; an error leaves the file that was at `path` before.
Status ExportC(Model* model, const std::string& path,
               const ExportCOptions& options = {},
               Int8Report* report = nullptr);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_C_FILE_H_
