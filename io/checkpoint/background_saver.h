// BackgroundSaver: checkpoints written by another thread.
//
// The training thread waits only for the copy of the state. The next save waits
// until the save in flight has finished.

#ifndef RINGLET_IO_CHECKPOINT_BACKGROUND_SAVER_H_
#define RINGLET_IO_CHECKPOINT_BACKGROUND_SAVER_H_

#include <condition_variable>
#include <functional>
#include <mutex>

#include "../../core/base/thread.h"
#include "checkpoint_directory.h"
#include "snapshot.h"

namespace ringlet {

class BackgroundSaver {
 public:
  // `directory` outlives the saver, which alone uses it until Wait(). `done` is
  // called with each save on the saver's thread.
  BackgroundSaver(CheckpointDirectory* directory,
                  std::function<void(const Status&)> done);
  ~BackgroundSaver();

  // Waits for the previous save, copies `state`, and returns. Fails only if the
  // copy fails or no thread can be created.
  Status Start(Saveable* state, const Metadata& metadata);
  // Waits until no save is in flight.
  void Wait();

 private:
  void Loop();

  CheckpointDirectory* const directory_;
  const std::function<void(const Status&)> done_;
  Snapshot snapshot_;
  Metadata metadata_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, stop_ = false;
  Thread thread_;  // the thread runs from the first save on
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_BACKGROUND_SAVER_H_
