// SaveWhenTrained: the whole model in one file when a fit has ended.
//
// Public. Without it, or another callback that saves, what was trained goes
// with the process. A fit that SIGINT (Ctrl-C), SIGTERM or SIGHUP interrupts
// finishes its step and saves the model that it has by then.
//
//   options.callbacks = {SaveWhenTrained("mnist.safetensors")};

#ifndef RINGLET_IO_CHECKPOINT_SAVE_WHEN_TRAINED_H_
#define RINGLET_IO_CHECKPOINT_SAVE_WHEN_TRAINED_H_

#include <memory>
#include <string>

#include "../../core/fit/callback.h"
#include "../data/storage.h"
#include "../files/file_system.h"

namespace ringlet {

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

#endif  // RINGLET_IO_CHECKPOINT_SAVE_WHEN_TRAINED_H_
