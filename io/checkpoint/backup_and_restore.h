// BackupAndRestore: a fit that is interrupted goes on where it was.
//
// Public. Keras's callback, with the resume at the step that TensorFlow's has,
// and exact: weights, optimizer, data position, random state, running metrics
// and every callback's state. A resumed run ends with the bits of the
// undisturbed one.
//
//   options.callbacks = {BackupAndRestore("backup")};
//   options.callbacks = {BackupAndRestore("backup", SaveEvery(30))};
//
// In a job of several workers all of them give the callback; the chief alone
// reads and writes, and the others take its state. Where a worker is lost, the
// others wait for it to be started again, without a restart of their own, and
// it takes the state from their memory. The backup serves where all were lost.

#ifndef RINGLET_IO_CHECKPOINT_BACKUP_AND_RESTORE_H_
#define RINGLET_IO_CHECKPOINT_BACKUP_AND_RESTORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../../core/base/clock.h"
#include "../../core/fit/callback.h"
#include "../files/file_system.h"

namespace ringlet {

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
  FileSystem* files = FileSystem::Posix();
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

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_BACKUP_AND_RESTORE_H_
