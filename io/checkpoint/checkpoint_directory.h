// CheckpointDirectory: the numbered checkpoints of one run.
//
// Internal to io/. The files <directory>/<name>-<n>.safetensors, one writer at
// a time, and the text file `checkpoint` that lists them as TensorFlow's does.
// That list is a hint: what is found in the directory and verifies is true. Not
// safe from several threads at once.

#ifndef RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/clock.h"
#include "../../core/base/status.h"
#include "../files/file_system.h"
#include "checkpoint.h"

namespace ringlet {

struct CheckpointDirectoryOptions {
  std::string checkpoint_name = "ckpt";
  int max_to_keep = 0;  // 0: all
  // One every so many hours is kept for ever, beside max_to_keep; 0: none.
  double keep_checkpoint_every_n_hours = 0;
  Storage weights = Storage::kF32;
  FileSystem* files = FileSystem::Posix();
  Clock* clock = Clock::System();
  // Called with what the caller need not act on; by default "warning: ..." on
  // stderr.
  std::function<void(const std::string&)> warn;
};

class CheckpointDirectory {
 public:
  // Makes the directory, locks it until this object dies, removes temporary
  // files that a killed writer left, and finds the newest checkpoint that
  // verifies; newer ones that do not are renamed to *.bad, with a warning.
  // kAlreadyExists names the process that holds the directory. kCorruption
  // where there are checkpoints and none verifies: nothing is touched then.
  static Status Open(const std::string& directory,
                     const CheckpointDirectoryOptions& options,
                     std::unique_ptr<CheckpointDirectory>* out);

  // Writes the next number. OK: it is durable, older ones beyond max_to_keep
  // are gone, and it is latest(). An error leaves latest() as it was, and the
  // next Save works if the cause has gone. Trouble after it became durable
  // (listing it, removing old ones) is only warned of, and made good by the
  // next Save. `number` > 0 asks for that number instead of the next.
  Status Save(const Saveables& state, const Metadata& metadata,
              int64_t number = 0);

  // Removes what was set aside, then all checkpoints, the newest one last, then
  // the list: whoever comes next begins anew.
  Status Clear();

  const std::string& directory() const { return directory_; }
  // The path of the newest durable checkpoint; "" where there is none.
  std::string latest() const;
  int64_t latest_number() const { return latest_; }  // 0 where there is none
  // The paths of what max_to_keep counts, oldest first.
  std::vector<std::string> checkpoints() const;

 private:
  struct Kept {
    int64_t number;
    double seconds;  // when it was saved, since 1970
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
  std::vector<Kept> kept_;  // in the order they were saved in
  int64_t latest_ = 0;
  int64_t last_number_ = 0;  // the highest ever seen
  double last_preserved_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
