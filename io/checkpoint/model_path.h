// The names of models' files, and what prevents that a model is saved.

#ifndef RINGLET_IO_CHECKPOINT_MODEL_PATH_H_
#define RINGLET_IO_CHECKPOINT_MODEL_PATH_H_

#include <string>

#include "../files/file_system.h"
#include "ringlet/model.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// The ending of `path` in small letters, such as ".keras", if it belongs to
// another format; empty if `path` may be a model of ringlet.
std::string ForeignEnding(const std::string& path);

// kInvalidArgument for a name of another program's format, such as "m.keras",
// "m.h5", "m.pt" and "m.onnx". All other names are valid.
Status CheckModelName(const std::string& path);

// kInvalidArgument if SaveModel refuses the model, since it could not be built
// from a file: the message names the custom layer, loss or metric, and an
// alternative.
Status CheckSaveModel(const Model& model, bool include_optimizer);

// kInvalidArgument if the file at `path` is known to be no model: data, a
// RUN.json, a log, or another program's file. A file that ends in
// ".safetensors" is a model by its name, also if it is damaged.
Status CheckReplaceable(FileSystem* files, const std::string& path);

// The first name of "m.safetensors" (`path`), "m-1.safetensors",
// "m-2.safetensors" and so on that is free. The name of a finished model's file
// with all of `own_metadata` in its metadata counts as free.
std::string FirstFreePath(FileSystem* files, const std::string& path,
                          const Metadata& own_metadata);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_MODEL_PATH_H_
