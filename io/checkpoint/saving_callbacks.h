// Callbacks that save: BackupAndRestore, ModelCheckpoint, SaveWhenTrained.
//
// Public. The first so that a fit that is interrupted goes on where it was, the
// second after epochs or batches, the third when a fit has ended. Each is
// called on every rank of a job, and the chief alone saves.

#ifndef RINGLET_IO_CHECKPOINT_SAVING_CALLBACKS_H_
#define RINGLET_IO_CHECKPOINT_SAVING_CALLBACKS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "../../core/base/clock.h"
#include "../../core/base/saveable.h"
#include "../../core/fit/callback.h"
#include "../files/file_system.h"

namespace ringlet {

// BackupAndRestore: Keras's callback, with the resume at the step that
// TensorFlow's has, and exact: weights, optimizer, data position, random state,
// running metrics and every callback's state. A resumed run ends with the bits
// of the undisturbed one.
//
//   options.callbacks = {BackupAndRestore("backup")};
//   options.callbacks = {BackupAndRestore("backup", SaveEvery(30))};
//
// In a job of several workers all of them give the callback; the chief alone
// reads and writes, and the others take its state. Where a worker is lost, the
// others wait for it to be started again, without a restart of their own, and
// it takes the state from their memory. The backup serves where all were lost.

struct BackupAndRestoreOptions {
  // 0: after every epoch ("epoch"). N: after every N steps, counted across
  // epochs.
  int64_t save_freq = 0;
  // Keeps the backup before the newest one too.
  bool double_checkpoint = false;
  // Removes the backup once training has completed, and only then.
  bool delete_checkpoint = true;
  // SIGTERM, SIGINT and SIGHUP save at the next end of a step and end the fit
  // with kCancelled (exit code 75: run again to go on; where that save fails,
  // from the backup before, or, where there is none, with the save's error). A
  // second one kills.
  bool save_before_preemption = true;
  // Training pauses for a copy of the state alone, which another thread
  // writes. False: it waits for the disk, and the memory is saved.
  bool background = true;
  // While the save before is still being written: false waits for it, true
  // leaves this one out, with a warning.
  bool skip_when_busy = false;
  FileSystem* files = FileSystem::Posix();  // a SealedFiles seals
  Clock* clock = Clock::System();
};

// Save frequencies, as save_freq = "epoch" or a number has them.
inline BackupAndRestoreOptions SaveEveryEpoch() { return {}; }
inline BackupAndRestoreOptions SaveEvery(int64_t steps) {
  BackupAndRestoreOptions options;
  options.save_freq = steps;
  return options;
}

// A backup that cannot be written is a warning on stderr: training goes on,
// the backup before it stays, and the next one is tried. One that cannot be
// read, is of another model or of a later epoch than the fit's last is an error
// of Fit: it never starts from zero beside a backup. One of other data (their
// number, order, batches or steps an epoch) is a warning, and an error where
// its position lies outside of the data.
std::shared_ptr<Callback> BackupAndRestore(
    const std::string& backup_dir, const BackupAndRestoreOptions& options = {});

// The replicas of the run that the newest backup is of; 0: there is none, or it
// cannot be read, of which the fit will tell.
int ReplicasOfBackup(const std::string& backup_dir,
                     FileSystem* files = FileSystem::Posix());

// ModelCheckpoint: saves the model, or its weights. Keras's callback; options,
// rules and messages are those of Keras 3's callbacks/model_checkpoint.py. It
// writes on the training thread: what it says it saved is durable. Only
// BackupAndRestore saves in the background.
//
//   ModelCheckpointOptions best;
//   best.save_best_only = true;
//   options.callbacks = {
//       ModelCheckpoint("run/{epoch:02d}-{val_loss:.2f}.safetensors", best)};

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
// In an elastic job that the network has parted, each part has a chief. Of a
// file whose name has no fields, on one disk for all, the one that is behind
// leaves what the other has saved at a later step (a note says so); what was
// saved where a machine that computes wrong was not named yet (docs/
// membership.md) is replaced by those who have named it. A run that begins, or
// goes on from a backup, replaces whatever is there.
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

// SaveWhenTrained: the whole model in one file. Without it, or another callback
// that saves, what was trained goes with the process. A fit that SIGINT
// (Ctrl-C), SIGTERM or SIGHUP interrupts finishes its step and saves the model
// that it has by then.
//
//   options.callbacks = {SaveWhenTrained("mnist.safetensors")};

struct SaveWhenTrainedOptions {
  Metadata metadata;  // of the caller's own, beside SaveModel's
  // A file at `path` that has not all of `metadata` is another's, and is not
  // replaced: see PathBesideOthers.
  bool spare_others = false;
  // Nothing is written where another callback has saved the whole model.
  bool unless_saved = false;
  // A signal ends the fit after its step, with kInterrupted (exit code 128 +
  // the signal). The model is then in "<path>-interrupted.safetensors", or the
  // next name that is not taken, with `interrupted`, the last step, among its
  // metadata. With BackupAndRestore nothing is written: its backup goes on. A
  // second signal ends the process at once. False: signals stay as they are.
  bool when_interrupted = true;
  // Where the file cannot be written: a folder to try instead, under a name
  // that is not taken; the fit ends with the error, which says so. "": none.
  std::string elsewhere;
  FileSystem* files = FileSystem::Posix();
};

// Writes `path` at the end of a fit, before it has completed, so give it behind
// callbacks that change the weights there. Called on every rank; the chief
// saves. An empty path writes nothing.
std::shared_ptr<Callback> SaveWhenTrained(
    const std::string& path, const SaveWhenTrainedOptions& options = {});

// `path`, or the first of "m-1.safetensors", "m-2.safetensors" … that is not
// there, or is a finished model's file with all of `own` among its metadata.
std::string PathBesideOthers(FileSystem* files, const std::string& path,
                             const Metadata& own);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_SAVING_CALLBACKS_H_
