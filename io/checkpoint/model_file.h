// Whole models, and their weights alone, as one file each: Keras's save,
// load_model, save_weights and load_weights.
//
// Public. The files are those of docs/checkpoint_format.md. A model's file has
// in its metadata `model`, the configuration as model_json.h writes it,
// `compile`, {"optimizer", "loss", "metrics"} as compile_json.h writes them,
// and `seed`; its tensors are the weights, the optimizer's slots, iterations
// and learning rate. In a job of several workers the chief saves, and every
// rank loads a copy of the file.

#ifndef RINGLET_IO_CHECKPOINT_MODEL_FILE_H_
#define RINGLET_IO_CHECKPOINT_MODEL_FILE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../../core/model/model.h"
#include "checkpoint.h"

namespace ringlet {

struct SaveModelOptions {
  // False: configuration and weights alone, of a model to be compiled anew.
  bool include_optimizer = true;
  // kF16 and kBF16 halve the file; training then goes on from rounded weights.
  Storage weights = Storage::kF32;
  Metadata metadata;  // of the caller's own, beside the keys above
  FileSystem* files = FileSystem::Posix();  // a SealedFiles seals
  bool replace = true;         // false: kAlreadyExists where `path` is there
  SaveGuard* guard = nullptr;  // as SaveOptions has it
};

// kInvalidArgument where the model cannot be built again from a file: it names
// the custom layer, loss or metric, and says what to do instead.
Status CheckSaveModel(const Model& model, bool include_optimizer = true);

// Of a compiled model that CheckSaveModel lets pass. OK: it is durable. An
// error leaves the file that was at `path` before, as SaveCheckpoint does.
Status SaveModel(Model* model, const std::string& path,
                 const SaveModelOptions& options = {});

// kInvalidArgument where a file of this name would be taken for one of another
// program's format ("m.keras", "m.h5", "m.pt", "m.onnx" …), which nobody would
// find in it. Any other name will do.
Status CheckModelName(const std::string& path);

// Builds, compiles and restores, so that training goes on with the bits it
// would have had without the save. options.seed is not used: the file's is. A
// file without `compile` gives a model that is to be compiled, and begins with
// the file's weights. *model is replaced only where all is well. kCorruption
// says what is damaged; kInvalidArgument what does not fit.
Status LoadModel(const std::string& path, std::unique_ptr<Model>* model,
                 const CompileOptions& options = {},
                 FileSystem* files = FileSystem::Posix());

// The weights of a compiled model, without the rest.
Status SaveWeights(Model* model, const std::string& path,
                   const SaveOptions& options = {});

// How a file from elsewhere names its weights, and how they lie in it.
enum class WeightsLayout : uint8_t {
  // "dense/kernel" or "model/dense/kernel", as they lie here. Of a file that is
  // not ringlet's also as Keras and TensorFlow name them, with a number behind
  // or groups before them: "dense/kernel:0", "sequential/dense/kernel",
  // "dense/dense/kernel:0"; "kernel:0" where one layer has a kernel; and arrays
  // without names, arr_0 and so on, in the order of model.get_weights(). Of
  // models within models the names may lack those of the outer ones, or have
  // more of them: "conv2d/kernel" is "body/conv2d/kernel" here and the other
  // way
  // around. What could be two weights, or of two, is an error that names both.
  kKeras,
  // A state_dict of PyTorch: "fc.weight" and "fc.bias" are kernel and bias of
  // the Dense or Conv2D "fc". Where no layer has a module's name, the layers
  // with weights take the modules in order: that of an npz file, or, as
  // safetensors files keep none, the names' natural one ("2" before "10";
  // refused where modules of one shape differ in more than digits).
  //
  // Linear (units, inputs) becomes (inputs, units), Conv2d (filters, channels,
  // height, width) becomes (height, width, channels, filters), Conv1d alike; of
  // as many groups as channels it is a DepthwiseConv2D, (filters, 1, height,
  // width). A SeparableConv2D "s" is the modules "s.depthwise" and
  // "s.pointwise", or two in order. The inputs of a Dense after a Flatten of
  // (height, width, channels) are turned from PyTorch's (channels, height,
  // width), also behind Dropout, Activation and Add. What a Reshape to more
  // than one dimension makes of channels is not.
  kTorch,
};

struct LoadWeightsOptions {
  WeightsLayout layout = WeightsLayout::kKeras;
  // Takes the layers that both have, whatever else either has: to begin with
  // some layers of another model. Of arrays without names, as many as there
  // are, from the first.
  bool by_name = false;
  // Leaves layers as they are whose weights are missing or differ in shape,
  // instead of failing.
  bool skip_mismatch = false;
  FileSystem* files = FileSystem::Posix();
  // Called with what was passed over, and of a file that cannot be verified; by
  // default "warning: ..." on stderr.
  std::function<void(const std::string&)> warn;
};

// Weights as "dense/kernel".
struct WeightsReport {
  bool verified = false;                // by checksums
  std::vector<std::string> loaded;      // in the model's order
  std::vector<std::string> missing;     // in the model, not in the file
  std::vector<std::string> unexpected;  // in the file, not in the model
  // "dense/kernel: F32 (2, 16) in the file, F32 (2, 8) here"
  std::vector<std::string> mismatched;
  // They would fit, but a layer is loaded whole or not at all.
  std::vector<std::string> skipped;
};

// By layer's and weight's name, in whatever order the two have them. Takes
// every file of ringlet that holds weights, a run's checkpoint too, npz files
// (npz.h), and plain safetensors files and ONNX models, in which damage cannot
// be seen; see WeightsLayout. Of ONNX it is kTorch, in the order of the graph.
// All is checked, checksums too, before the first weight is overwritten.
// Numbers of other types are rounded to float32; one beyond it is an error.
// *report (may be null) is filled in where the weights do not fit as well. The
// optimizer's state stays.
Status LoadWeights(Model* model, const std::string& path,
                   const LoadWeightsOptions& options = {},
                   WeightsReport* report = nullptr);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_MODEL_FILE_H_
