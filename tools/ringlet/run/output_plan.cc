#include "output_plan.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/base/text.h"
#include "io/checkpoint/model_path.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/watch/watch_state.h"
#include "ringlet/files.h"
#include "run_digest.h"

namespace ringlet {
namespace {

std::string FolderOfVariable(const char* variable, const char* default_folder) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : default_folder;
}

// The path of the first callback that saves the whole model.
std::string SavedByCallbacks(const RunConfig& config) {
  for (const auto& callback : config.callbacks) {
    const std::string path = callback->SavesModelAs();
    if (!path.empty()) return path;
  }
  return "";
}

// Checks that a file of `bytes` can be written at the model's place. Leaves no
// file.
Status CheckCanWrite(const OutputPlan& output, int64_t bytes) {
  const bool named = !output.options.keep_others;
  const char* const option = named ? "--save" : "the trained model";
  Status writable = CheckWritable(option, output.path);
  if (writable.ok()) {
    AtomicFile file;  // dropped
    writable =
        file.Open(PosixFiles(), output.path, bytes).Annotate("%s", option);
  }
  if (writable.ok() || named) return writable;
  return Error(writable.code(),
               "%s; --save MODEL writes it to another place, --no-save nowhere",
               writable.message());
}

// Checks that ModelCheckpoint can write `path`. With fields in the folder's
// name, checks the folder before the first field. A missing folder counts as
// its first parent that exists.
Status CheckCheckpointFolder(const std::string& path) {
  std::string folder = FolderOf(path.substr(0, path.find('{')));
  while (access(folder.c_str(), F_OK) != 0 && errno == ENOENT &&
         folder != FolderOf(folder)) {
    folder = FolderOf(folder);
  }
  if (!IsFolder(folder)) return Status();  // the callback reports it
  AtomicFile file;                         // dropped
  const Status status =
      file.Open(PosixFiles(), folder + "/" + FileNameOf(path), 0);
  // A disk that is full now may have room later.
  if (status.ok() || status.code() == Code::kResourceExhausted) return Status();
  return Error(status.code() == Code::kNotFound ? Code::kIo : status.code(),
               "ModelCheckpoint %s: nothing can be written in %s: %s",
               path.c_str(), folder.c_str(), status.message());
}

// A model that a running `train --watch` replaces is not an output of another
// run.
Status LockOutWatch(const std::string& path, OutputPlan* output) {
  std::unique_ptr<HeldLock> lock;
  const Status locked = PosixFiles()->LockFile(WatchLockPath(path), &lock);
  output->watch_lock = std::move(lock);
  if (locked.code() != Code::kAlreadyExists) return Status();
  return Error(Code::kAlreadyExists,
               "--save %s: a running `train --watch` replaces this model; give "
               "another name, or stop it (the next one trains the new model "
               "further)",
               path.c_str());
}

}  // namespace

std::string NameOfRun(const std::string& path) {
  const std::string name = FileNameOf(path);
  const std::string stem = WithoutSuffix(name, ".json");
  return stem.empty() ? name : stem;
}

Status PlanOutput(const std::string& run, const RunConfig& config,
                  const SaveFlags& flags, bool chief, OutputPlan* output) {
  output->options.save_if_interrupted = !flags.no_save;
  output->options.files = config.files();
  output->writes = chief && !flags.no_save;
  output->options.fallback_folder = FolderOfVariable("TMPDIR", "/tmp");
  // If the chief is lost another worker saves.
  if (!chief && !flags.no_save) {
    output->path =
        flags.path.empty() ? NameOfRun(run) + ".safetensors" : flags.path;
  }
  if (!chief) return Status();
  if (flags.no_save) {
    output->start_message = "no model is saved (--no-save)";
    return Status();
  }
  if (!flags.path.empty()) {
    output->path = flags.path;
    output->start_message = "the trained model goes to " + flags.path;
    RINGLET_RETURN_IF_ERROR(LockOutWatch(flags.path, output));
    return CheckCanWrite(*output, /*bytes=*/0);
  }
  output->path = NameOfRun(run) + ".safetensors";
  output->options.keep_others = true;
  const std::string saved = SavedByCallbacks(config);
  if (!saved.empty()) {
    RINGLET_RETURN_IF_ERROR(CheckCheckpointFolder(saved));
    output->options.skip_if_saved = true;
    output->start_message =
        "ModelCheckpoint saves the model as " + saved +
        "; if training ends with another model, or in an elastic job, "
        "the model goes to " +
        output->path;
  }
  return CheckCanWrite(*output, /*bytes=*/0);
}

// A file with the default name has its run's digest. Only for such a file are
// the data read to compute it.
Status NameOutput(const RunConfig& config, const InitFlags& init,
                  const RunData& data, int replicas, OutputPlan* output) {
  if (!output->writes) return Status();
  // Roughly the file's size, so that a full disk is reported before training.
  const MemoryPlan plan = config.model->PlanMemory(1);
  RINGLET_RETURN_IF_ERROR(
      CheckCanWrite(*output, static_cast<int64_t>(plan.weights + plan.slots)));
  if (!output->options.keep_others) return Status();
  std::string digest;
  RINGLET_RETURN_IF_ERROR(RunDigest(config, init, data, replicas, &digest));
  output->options.metadata = {{"run", digest}};
  if (output->options.skip_if_saved) return Status();
  const std::string path =
      FirstFreePath(config.files(), output->path, output->options.metadata);
  output->start_message = "the trained model goes to " + path;
  if (path != output->path) {
    output->start_message += ", for " + output->path + " is of another run";
  }
  output->start_message += " (--save MODEL: another name; --no-save: none)";
  return Status();
}

}  // namespace ringlet
