// ExportC: a trained model as a C file, for microcontrollers. ExportOnnx: as an
// ONNX file, for ONNX Runtime, OpenCV and others. docs/deploy.md explains the
// use of the files.

#ifndef RINGLET_EXPORT_H_
#define RINGLET_EXPORT_H_

#include <string>

#include "dataset.h"
#include "files.h"
#include "fit.h"
#include "model.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// --- C -----------------------------------------------------------------------

// The error of an autoencoder's output, as a mean over the example's values.
enum class ReconstructionError : uint8_t { kNone, kSquared, kAbsolute };

struct ExportCOptions {
  // Appends a softmax, for a model with logits as output.
  bool softmax = false;
  // The prefix of the functions' names, so that a program can have several
  // models: "keyword" gives keyword_predict. Letters, digits and '_'.
  std::string name = "model";
  // The functions take values as the files of the training data have them, and
  // apply the model's DataDescription, which must be set. For a table with a
  // TableEncoding `in` has a number for each column: of a column of text the
  // index of its category, and NaN for a missing value.
  bool with_preprocessing = false;
  // Adds model_anomaly_score for an autoencoder.
  ReconstructionError anomaly_score = ReconstructionError::kNone;
  // Not empty: the file computes with int8, with the ranges of the layers'
  // outputs for the first 512 of these (docs/deploy.md).
  Dataset calibration;
  // Not empty: the data of the report.
  Dataset test;
  FileSystem* files = PosixFiles();
};

// Loss and metrics on options.test, for the model and for its int8 file.
struct Int8Report {
  Logs before, after;
};

// Writes a compiled model for prediction as C99, which needs only expf and
// tanhf, and a header file beside it, such as model.h, which declares all
// functions. docs/deploy.md explains them.
//
//   int model_predict(const float* in, float* out);
//
// predicts one example, channels last, and returns 0. With several inputs or
// outputs the arguments have the layers' names (in_image, out_kind). With
// preprocessing of a table it returns 1 for a value that has no encoding.
//
// One model gives one text on every machine; with int8, on every machine of one
// class of arithmetic (docs/one_result.md). kInvalidArgument names a layer
// without C or int8. After an error the earlier files are unchanged. Only a
// header file of ringlet is ever replaced.
Status ExportC(Model* model, const std::string& path,
               const ExportCOptions& options = {},
               Int8Report* report = nullptr);

// --- ONNX --------------------------------------------------------------------

struct ExportOnnxOptions {
  // Appends a softmax, for a model with logits as output.
  bool softmax = false;
  Metadata metadata;  // the caller's: metadata_props
  FileSystem* files = PosixFiles();
};

// Writes a compiled model for prediction, in opset 13 (IR 7). After OK the file
// is durable. Inputs and outputs have their layers' names, and Keras's shapes,
// channels last, with an open batch. The same model gives the same bytes on
// every machine. kInvalidArgument names a layer without ONNX operators. After
// an error the earlier file at `path` is unchanged.
Status ExportOnnx(Model* model, const std::string& path,
                  const ExportOnnxOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_EXPORT_H_
