// CheckpointDirectory: the numbered checkpoints of one run.
//
// The files are <directory>/<name>-<n>.safetensors. The text file `checkpoint`
// lists them in TensorFlow's format. The list is a hint: the verified files in
// the directory decide. A directory has one writer, and one thread at a time
// may use this object.

#ifndef RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "ringlet/checkpoint.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

struct CheckpointDirectoryOptions {
  std::string checkpoint_name = "ckpt";
  int max_to_keep = 0;  // zero means all
  // Keeps one checkpoint of each such interval forever, beside max_to_keep;
  // zero means none.
  double keep_checkpoint_every_n_hours = 0;
  Storage weights = Storage::kF32;
  FileSystem* files = PosixFiles();
  Clock* clock = Clock::System();
  // Called with problems that need no action of the caller; by default
  // "warning: ..." on stderr.
  std::function<void(const std::string&)> warn;
};

class CheckpointDirectory {
 public:
  // Creates the directory and locks it until the destructor. Removes temporary
  // files of killed writers, and finds the newest checkpoint that verifies.
  // Newer checkpoints that do not verify are renamed to *.bad, with a warning.
  //   kAlreadyExists  another process, which the message names, has locked the
  //                   directory
  //   kCorruption     there are checkpoints, and none verifies; no file is
  //                   changed
  static Status Open(const std::string& directory,
                     const CheckpointDirectoryOptions& options,
                     std::unique_ptr<CheckpointDirectory>* out);

  // Writes a checkpoint with the next number, or with `number` if it is > 0.
  // After OK it is durable and is latest(), and older ones beyond max_to_keep
  // are removed. After an error latest() is unchanged, and the next Save works
  // if the cause is gone. Errors after the file is durable (in the list, or in
  // the removal of old files) give only a warning, and the next Save repeats
  // these steps.
  Status Save(const Saveables& state, const Metadata& metadata,
              int64_t number = 0);

  // Removes the files that were set aside, then all checkpoints, the newest one
  // last, then the list. The next run starts from the beginning.
  Status Clear();

  const std::string& directory() const { return directory_; }
  // The path of the newest durable checkpoint; empty if there is none.
  std::string latest() const;
  int64_t latest_number() const { return latest_; }  // 0 if there is none
  // The paths of the checkpoints that max_to_keep counts, oldest first.
  std::vector<std::string> checkpoints() const;

 private:
  struct Kept {
    int64_t number;
    double seconds;  // the time of the save, since 1970
  };

  CheckpointDirectory(const std::string& directory,
                      const CheckpointDirectoryOptions& options);
  Status Recover();
  void AdoptState(const std::vector<int64_t>& found);
  void Keep(int64_t number);
  void Prune();
  Status WriteState();
  std::string PathOf(int64_t number) const;
  double Now() const;
  void Warn(const std::string& message) const;

  const std::string directory_;
  CheckpointDirectoryOptions options_;
  std::unique_ptr<HeldLock> lock_;
  std::vector<Kept> kept_;  // the kept checkpoints, in the order of saving
  int64_t latest_ = 0;
  int64_t last_number_ = 0;  // the highest ever seen
  double last_preserved_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
