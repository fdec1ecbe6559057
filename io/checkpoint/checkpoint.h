// Checkpoints: state saved to one file so that no crash loses it.
//
// Public. Names of spans are names of tensors; the file is a safetensors file
// with ringlet's profile (docs/checkpoint_format.md). checkpoint_manager.h
// has what a run needs beyond one file.

#ifndef RINGLET_IO_CHECKPOINT_CHECKPOINT_H_
#define RINGLET_IO_CHECKPOINT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "../../core/base/saveable.h"
#include "../../core/base/status.h"
#include "../data/storage.h"
#include "../files/file_system.h"

namespace ringlet {

using Saveables = std::vector<Saveable*>;  // not owned

struct SaveOptions {
  // How float32 spans of the model (names that begin with "model/") are
  // stored: kF32, or kF16 or kBF16 for half the size and less precision.
  Storage weights = Storage::kF32;
  FileSystem* files = FileSystem::Posix();
  bool replace = true;  // false: kAlreadyExists where `path` is there
};

// Writes every span of `state`. Metadata keys `format` and `format_version`
// are ringlet's own. OK: it is durable. An error leaves the file that was at
// `path` before, but for one of the very last step, which leaves the new one;
// *replaced (where not null) tells.
Status SaveCheckpoint(const std::string& path, const Saveables& state,
                      const Metadata& metadata = {},
                      const SaveOptions& options = {},
                      bool* replaced = nullptr);

struct LoadOptions {
  // Tensors that `state` does not have may be in the file: for the weights out
  // of a checkpoint of a whole run.
  bool ignore_others = false;
  // Takes a plain safetensors file too, in which damage cannot be seen.
  bool accept_unverified = false;
  FileSystem* files = FileSystem::Posix();
};

struct LoadedCheckpoint {
  Metadata metadata;
  bool verified = false;  // by checksums
};

// Reads the file into the spans of `state`, which must be the file's tensors
// by name, dtype and shape (F16 and BF16 go into float32), then calls
// StateLoaded of each. All is checked, checksums too, before the first span is
// overwritten; kInvalidArgument names the first difference, kCorruption what
// is damaged. Where the disk fails after that the message says so, and the
// spans are undefined. `loaded` may be null.
Status LoadCheckpoint(const std::string& path, const Saveables& state,
                      const LoadOptions& options = {},
                      LoadedCheckpoint* loaded = nullptr);

// Every byte of a ringlet checkpoint against its checksums.
Status VerifyCheckpoint(const std::string& path,
                        FileSystem* files = FileSystem::Posix());

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_CHECKPOINT_H_
