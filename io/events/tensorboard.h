// TensorBoard: the callback that writes what TensorBoard shows.
//
// Public. Options, tags and steps are those of Keras 3's
// callbacks/tensorboard.py. In log_dir/train and log_dir/validation an event
// file for each fit:
//
//   epoch_<name>, epoch_learning_rate       step = epoch, from 0
//   epoch_steps_per_second                  on request
//   batch_<name>, batch_steps_per_second    step = batch of the fit, from 1
//   evaluation_<name>_vs_iterations         step = iterations of the optimizer
//   <layer>/<weight>/histogram              step = epoch
//
// A resumed fit adds a file, and its steps go on. What was recorded is with the
// operating system before the step or epoch is saved, so a process that is
// killed leaves no gap; what it had recorded after the last save is there
// twice.
//
// Written by the chief only. batch_<name> is of the chief's part of the data,
// all else of the whole. A folder that cannot be written ends the fit before
// its first step, unless it is for want of space; a full disk, and a file that
// cannot be written later, is reported on stderr and the fit goes on. What is
// recorded before a file could be made is lost.
//
// Of Keras's options write_graph, write_images, embeddings_freq and
// profile_batch are not here; for the last see trace.h.

#ifndef RINGLET_IO_EVENTS_TENSORBOARD_H_
#define RINGLET_IO_EVENTS_TENSORBOARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../../core/base/clock.h"
#include "../../core/fit/callback.h"
#include "../files/file_system.h"

namespace ringlet {

struct TensorBoardOptions {
  // Keras's update_freq "epoch" and "batch".
  static constexpr int64_t kEpoch = 0;
  static constexpr int64_t kBatch = 1;

  std::string log_dir = "logs";
  int64_t histogram_freq = 0;  // every so many epochs; 0: none
  bool write_steps_per_second = false;
  int64_t update_freq = kEpoch;  // or every so many batches
  Clock* clock = Clock::System();
  FileSystem* files = FileSystem::Posix();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_TENSORBOARD_H_
