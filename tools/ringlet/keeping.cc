#include "keeping.h"

#include <cstdlib>

#include "core/base/text.h"
#include "io/files/file_system.h"
#include "run_digest.h"

namespace ringlet {
namespace {

// "run" of "a/run.json".
std::string NameOfRun(const std::string& path) {
  const std::string name = FileNameOf(path);
  const std::string stem = WithoutSuffix(name, ".json");
  return stem.empty() ? name : stem;
}

std::string Folder(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// Of the callbacks the first that saves the whole model.
std::string SavedByCallbacks(const RunConfig& config) {
  for (const auto& callback : config.callbacks) {
    const std::string path = callback->SavesModelAs();
    if (!path.empty()) return path;
  }
  return "";
}

// That a file of `bytes` can be written where the model is to go.
Status CheckRoom(const Keeping& keeping, int64_t bytes) {
  if (keeping.options.unless_saved) return Status();
  const bool named = !keeping.options.spare_others;
  const char* const what = named ? "--save" : "the trained model";
  Status writable = CheckWritable(what, keeping.path);
  if (writable.ok()) {
    AtomicFile file;  // dropped
    writable = file.Open(FileSystem::Posix(), keeping.path, bytes)
                   .Annotate("%s", what);
  }
  if (writable.ok() || named) return writable;
  return Error(writable.code(),
               "%s; --save MODEL writes it to another place, --no-save nowhere",
               writable.message());
}

}  // namespace

Status PlanKeeping(const std::string& run, const RunConfig& config,
                   const KeepFlags& flags, bool chief, Keeping* keeping) {
  keeping->options.when_interrupted = !flags.no_save;
  keeping->options.files = config.files();
  if (!chief) return Status();
  if (flags.no_save) {
    keeping->said = "no model is saved (--no-save)";
    return Status();
  }
  keeping->options.elsewhere = Folder("TMPDIR", "/tmp");
  if (!flags.save.empty()) {
    keeping->path = flags.save;
    keeping->said = "the trained model goes to " + flags.save;
    return CheckRoom(*keeping, /*bytes=*/0);
  }
  keeping->path = NameOfRun(run) + ".safetensors";
  keeping->options.spare_others = true;
  const std::string saved = SavedByCallbacks(config);
  if (!saved.empty()) {
    keeping->options.unless_saved = true;
    keeping->said = "ModelCheckpoint saves the model as " + saved;
    return Status();
  }
  return CheckRoom(*keeping, /*bytes=*/0);
}

// A file of the default name carries which run it is of. Only for it are the
// data read to know that.
Status NameKeeping(const RunConfig& config, const InitFlags& init,
                   const RunData& data, int replicas, Keeping* keeping) {
  if (keeping->path.empty()) return Status();
  // About the file's size: a full disk is told before hours of training.
  const MemoryPlan plan = config.model->PlanMemory(1);
  RINGLET_RETURN_IF_ERROR(
      CheckRoom(*keeping, static_cast<int64_t>(plan.weights + plan.slots)));
  if (!keeping->options.spare_others) return Status();
  std::string digest;
  RINGLET_RETURN_IF_ERROR(RunDigest(config, init, data, replicas, &digest));
  keeping->options.metadata = {{"run", digest}};
  if (keeping->options.unless_saved) return Status();
  const std::string path = PathBesideOthers(config.files(), keeping->path,
                                            keeping->options.metadata);
  keeping->said = "the trained model goes to " + path;
  if (path != keeping->path) {
    keeping->said += ", for " + keeping->path + " is of another run";
  }
  keeping->said += " (--save MODEL: another name; --no-save: none)";
  return Status();
}

}  // namespace ringlet
