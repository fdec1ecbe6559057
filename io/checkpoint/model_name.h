// The names of model files.
//
// Internal to io/checkpoint.

#ifndef RINGLET_IO_CHECKPOINT_MODEL_NAME_H_
#define RINGLET_IO_CHECKPOINT_MODEL_NAME_H_

#include <string>

namespace ringlet {

// The ending of `path` in small letters, if it is that of another format than
// a model's: ".keras". "": it is not.
std::string ForeignEnding(const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_MODEL_NAME_H_
