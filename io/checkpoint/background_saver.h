// BackgroundSaver: checkpoints written by another thread.
//
// Internal to io/. The training thread pauses for the copy alone. One save is
// in flight; the next waits for it.

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
  // `directory` outlives the saver, and nobody else uses it until Wait().
  // `done` is called with each save on the saver's thread.
  BackgroundSaver(CheckpointDirectory* directory,
                  std::function<void(const Status&)> done);
  ~BackgroundSaver();

  // Waits for the save before, copies `state`, and returns; an error of the
  // copy alone, or that there is no thread to be had.
  Status Start(Saveable* state, const Metadata& metadata);
  bool busy();
  // Until nothing is in flight.
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
  Thread thread_;  // from the first save on
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_BACKGROUND_SAVER_H_
