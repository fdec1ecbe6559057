// Checkpoints: state saved to one file so that no crash loses it.
//
// Public. Names of spans are names of tensors; the file is a safetensors file
// with ringlet's profile (docs/checkpoint_format.md). CheckpointManager keeps
// the numbered ones of a run.

#ifndef RINGLET_IO_CHECKPOINT_CHECKPOINT_H_
#define RINGLET_IO_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/clock.h"
#include "../../core/base/saveable.h"
#include "../../core/base/status.h"
#include "../files/file_system.h"

namespace ringlet {

using Saveables = std::vector<Saveable*>;  // not owned

// Of a save: asked before it begins, and again when the new file is written,
// just before that takes the place of the one at its path.
class SaveGuard {
 public:
  // That one stays; the save ends well, and has replaced nothing.
  virtual bool Keeps() = 0;

 protected:
  ~SaveGuard() = default;
};

struct SaveOptions {
  // How float32 spans of the model (names that begin with "model/") are
  // stored: kF32, or kF16 or kBF16 for half the size and less precision.
  Storage weights = Storage::kF32;
  FileSystem* files = FileSystem::Posix();  // a SealedFiles seals
  bool replace = true;         // false: kAlreadyExists where `path` is there
  SaveGuard* guard = nullptr;  // null: nothing stays. Not owned
};

// Writes every span of `state` to a file that its owner alone may read, or
// those who may read the one that it replaces. Metadata keys `format` and
// `format_version` are ringlet's own. OK: it is durable. An error leaves the
// file that was at `path` before, but for one of the very last step, which
// leaves the new one; *replaced (where not null) tells.
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

// The newest checkpoint in `directory` that verifies; "" where there is none.
// An error where there are some and none verifies. Only looks: no lock, and
// nothing is set aside; another process may be writing there.
Status LatestCheckpoint(const std::string& directory, std::string* path,
                        const std::string& checkpoint_name = "ckpt",
                        FileSystem* files = FileSystem::Posix());

struct CheckpointManagerOptions {
  int max_to_keep = 5;  // > 0, or kKeepAll for TensorFlow's None
  double keep_checkpoint_every_n_hours = 0;
  std::string checkpoint_name = "ckpt";
  // With an interval: Save does nothing until *step_counter has moved on by
  // that much since the last save or restore. Not owned.
  const int64_t* step_counter = nullptr;
  int64_t checkpoint_interval = 0;
  // Called by RestoreOrInitialize where there is nothing to restore.
  std::function<Status()> init_fn;
  Metadata metadata;  // of every save
  Storage weights = Storage::kF32;
  FileSystem* files = FileSystem::Posix();
  Clock* clock = Clock::System();
  std::function<void(const std::string&)> warn;
};

class CheckpointDirectory;

// tf.train.CheckpointManager: the numbered checkpoints of one run, with the
// names and the semantics that users of TensorFlow know: the files
// <directory>/<name>-<n>.safetensors, one writer at a time, and the text file
// `checkpoint` that lists them. Save returns when the file is durable. Not safe
// from several threads at once.
//
// The constructor makes the directory and locks it until this object dies,
// removes temporary files that a killed writer left, and finds the newest
// checkpoint that verifies; newer ones that do not are renamed to *.bad, with a
// warning. Its error is kept in status(), and every call returns it:
// kAlreadyExists names the process that holds the directory, kCorruption says
// that there are checkpoints and none verifies; nothing is touched then.
class CheckpointManager {
 public:
  static constexpr int kKeepAll = 0;

  CheckpointManager(const Saveables& state, const std::string& directory,
                    const CheckpointManagerOptions& options = {});
  ~CheckpointManager();
  const Status& status() const { return status_; }

  // *path is the new checkpoint, "" where the interval says not yet. With
  // check_interval false it saves unless the step is that of the last save.
  Status Save(std::string* path = nullptr, bool check_interval = true,
              int64_t checkpoint_number = 0);
  // Restores latest_checkpoint() or, where there is none, calls init_fn and
  // leaves *path "".
  Status RestoreOrInitialize(std::string* path = nullptr);

  std::string latest_checkpoint() const;  // "" where there is none
  std::vector<std::string> checkpoints() const;
  int64_t checkpoint_interval() const { return options_.checkpoint_interval; }
  const std::string& directory() const { return directory_; }
  // Of the checkpoint that was restored.
  const Metadata& restored_metadata() const { return restored_metadata_; }

 private:
  bool TooSoon(bool check_interval) const;
  void RememberStep();

  const Saveables state_;
  const std::string directory_;
  const CheckpointManagerOptions options_;
  Status status_;
  std::unique_ptr<CheckpointDirectory> checkpoints_;
  Metadata restored_metadata_;
  bool has_last_step_ = false;
  int64_t last_step_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_CHECKPOINT_H_
