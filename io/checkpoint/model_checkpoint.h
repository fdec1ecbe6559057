// ModelCheckpoint: saves the model, or its weights, after epochs or batches.
//
// Public. Keras's callback; options, rules and messages are those of Keras 3's
// callbacks/model_checkpoint.py. It writes on the training thread: what it says
// it saved is durable. Only BackupAndRestore saves in the background.
//
//   ModelCheckpointOptions best;
//   best.save_best_only = true;
//   options.callbacks = {
//       ModelCheckpoint("run/{epoch:02d}-{val_loss:.2f}.safetensors", best)};

#ifndef RINGLET_IO_CHECKPOINT_MODEL_CHECKPOINT_H_
#define RINGLET_IO_CHECKPOINT_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "../../core/fit/callback.h"
#include "../../core/fit/callbacks.h"
#include "../data/storage.h"
#include "../files/file_system.h"

namespace ringlet {

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  int verbose = 0;
  // Only what `monitor` says is better than all that was saved before. Where
  // the logs lack it: a warning, and it is saved.
  bool save_best_only = false;
  bool save_weights_only = false;
  MonitorMode mode = MonitorMode::kAuto;
  // 0: after every epoch ("epoch"). N: after every N batches, counted across
  // epochs.
  int64_t save_freq = 0;
  // What the first has to beat; NaN: nothing.
  double initial_value_threshold = std::numeric_limits<double>::quiet_NaN();
  Storage weights = Storage::kF32;
  FileSystem* files = FileSystem::Posix();
};

// `filepath` ends in ".safetensors" (".weights.safetensors" where only weights
// are saved), in place of Keras's ".keras" and ".weights.h5", and may name, as
// Python's str.format does, {epoch} and {batch} (from 1 on; the latter with
// save_freq N alone) and everything in the logs: {epoch:02d}, {loss:.2f},
// {loss:.2e}, {accuracy:.3g}; {loss} alone is the shortest that reads back.
// Folders that are missing are made. The file is what LoadModel, or
// LoadWeights, takes.
//
// Called on every rank; the chief saves. Its best lasts from one fit to the
// next, and is saved with a run by BackupAndRestore. A disk that is full, fails
// or may not be written is a warning on stderr: training goes on, the file
// before stays, and what was not saved is not the best. A filepath that can
// never be used (its text, or a directory of that name) is an error of
// Fit, before the first step where the names in the logs can be known then (see
// Callback::NamesInLogs).
std::shared_ptr<Callback> ModelCheckpoint(
    const std::string& filepath, const ModelCheckpointOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_MODEL_CHECKPOINT_H_
