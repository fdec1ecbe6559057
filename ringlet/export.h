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
  // The prefix of functions: "keyword" gives keyword_predict. Letters, digits
  // and '_'.
  std::string name = "model";
  // The functions take values as in the files of the training data, and apply
  // the model's DataDescription, which must be set. With a TableEncoding `in`
  // has a number for each column: the index of a category, or NaN for a missing
  // value.
  bool with_preprocessing = false;
  // Adds model_anomaly_score for an autoencoder.
  ReconstructionError anomaly_score = ReconstructionError::kNone;
  // If not empty, the file computes with int8, with the ranges of outputs for
  // the first 512 examples (docs/deploy.md).
  Dataset calibration;
  // If not empty, the data of the Int8Report.
  Dataset test;
  // If not 0, the file also trains the layers that Compile trains, with the
  // optimizer and the loss, in steps of at most this number of examples
  // (docs/deploy.md). With `calibration` too, the layers before the first
  // trained one compute with int8, and the others with floats.
  int64_t train_batch = 0;
  // Weights of these layers that the file does not train: "dense/kernel".
  std::vector<std::string> frozen_weights;
  FileSystem* files = PosixFiles();
};

// Loss and metrics on options.test. Empty for a file that trains.
struct Int8Report {
  Logs before, after;
};

// Writes a compiled model as C99, and a header file beside it, such as model.h.
// Of libm the file needs only expf and tanhf, and for layers that read sound
// also sqrtf, powf, logf and atan2f. docs/deploy.md explains the functions.
//
//   int model_predict(const float* in, float* out);
//
// predicts one example, channels last, and returns 0. Several inputs or outputs
// have their layers' names (in_image, out_kind). With preprocessing of a table
// it returns 1 for a value that has no encoding.
//
// The text is the same on every machine; with int8, on every machine of a class
// of arithmetic (docs/one_result.md). kInvalidArgument names a layer that
// cannot be exported to C or int8. After an error the earlier files are
// unchanged. A header file that is not ringlet's is never replaced.
Status ExportC(Model* model, const std::string& path,
               const ExportCOptions& options = {},
               Int8Report* report = nullptr);

// --- ONNX --------------------------------------------------------------------

struct ExportOnnxOptions {
  // Appends a softmax, for logits.
  bool softmax = false;
  Metadata metadata;  // entries for metadata_props
  FileSystem* files = PosixFiles();
};

// Writes a compiled model as a file of opset 13 (IR 7), which is durable after
// OK. Inputs and outputs have their layers' names and Keras's shapes, channels
// last, with an open batch. Every machine writes the same bytes.
// kInvalidArgument names a layer without ONNX operators. After an error the
// earlier file is unchanged.
Status ExportOnnx(Model* model, const std::string& path,
                  const ExportOnnxOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_EXPORT_H_
