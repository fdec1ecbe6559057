// With keep_others only the run that wrote a file replaces it (IsOwn). A
// failed save is tried in another folder before the fit ends with an error: the
// trained weights are only in memory.

#include "../../core/fit/fit_details.h"
#include "ringlet/checkpoint.h"

#include "../../core/base/text.h"
#include "../../core/fit/interrupts.h"
#include "../../core/fit/run_state.h"
#include "../files/path.h"
#include "../weights/safetensors.h"
#include "model_path.h"
#include "ringlet/collective.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// The metadata key of a model that is not finished.
constexpr char kInterruptedKey[] = "interrupted";
constexpr char kExtension[] = ".safetensors";

// Inserts `suffix` before ".safetensors", or appends it.
std::string WithSuffix(const std::string& path, const std::string& suffix) {
  const std::string stem = WithoutSuffix(path, kExtension);
  if (stem.empty() || stem == path) return path + suffix;
  return stem + suffix + kExtension;
}

bool IsThere(FileSystem* files, const std::string& path) {
  std::unique_ptr<File> file;
  return files->Open(path, &file).code() != Code::kNotFound;
}

bool IsOwn(FileSystem* files, const std::string& path,
           const Metadata& own_metadata) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return false;
  const Metadata& metadata = file.metadata();
  for (const auto& [key, value] : own_metadata) {
    const auto found = metadata.find(key);
    if (found == metadata.end() || found->second != value) return false;
  }
  return !own_metadata.empty() && metadata.count(kInterruptedKey) == 0;
}

// Returns the first name for `path` from *number on that is free, or that by
// IsOwn belongs to `own_metadata`, unless that is null. Number 0 is `path`
// itself. Sets *number to the number of the name. Returns the last name tried
// if none can be checked, as in a folder without permission.
std::string FirstFree(FileSystem* files, const std::string& path,
                      const Metadata* own_metadata, int* number) {
  constexpr int kMax = 100000;
  for (;; ++*number) {
    const std::string name =
        *number == 0 ? path : WithSuffix(path, "-" + std::to_string(*number));
    if (*number >= kMax || !IsThere(files, name)) return name;
    if (own_metadata != nullptr && IsOwn(files, name, *own_metadata))
      return name;
  }
}

class SaveWhenTrainedCallback final : public Callback {
 public:
  SaveWhenTrainedCallback(const std::string& path,
                          const SaveWhenTrainedOptions& options)
      : path_(path), options_(options) {}

  const char* name() const override { return "save_when_trained"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  // Only the chief needs a path. The option must be equal on all ranks, since
  // they save together.
  std::string Describe() const override {
    return std::string(name()) + ", when interrupted " +
           (options_.save_if_interrupted ? "too" : "not");
  }
  std::string SavesModelAs() const override {
    return options_.skip_if_saved ? "" : path_;
  }

  Status OnSetup(FitState& fit) override {
    begun_at_ = -1;
    fit.handles_signals |= options_.save_if_interrupted;
    return CheckModelName(path_);
  }

  Status OnTrainBegin(FitState& fit) override {
    begun_at_ = fit.model->iterations();
    return Status();
  }

  Status OnSavePoint(FitState& fit, bool) override {
    if (!fit.interrupted || !options_.save_if_interrupted ||
        AnyRestoresAfterLoss(*fit.callbacks)) {
      return Status();
    }
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    fit.details->saved_message = "the chief has saved the model";
    Status saved;
    if (fit.chief) saved = SaveInterrupted(&fit);
    // The other ranks wait for the chief's result, so that all ranks end
    // together.
    return ExchangeStatus(fit.model->collective(), saved);
  }

  // If another callback could not write its last file, adds to its error where
  // the model is.
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    if (path_.empty() || !fit.chief) return Status();
    const bool is_saved =
        options_.skip_if_saved && fit.details->saved.IsCurrent(fit.model);
    const bool is_rounded = options_.skip_if_saved &&
                            !fit.details->saved.path.empty() &&
                            fit.details->saved.checksums.empty();
    const std::string rounded = is_rounded ? fit.details->saved.path : "";
    if (!is_saved) RINGLET_RETURN_IF_ERROR(SaveTrained(fit));
    if (is_rounded) {
      Notice("note: the weights in %s are rounded; the exact model is in %s",
             rounded.c_str(), fit.details->saved.path.c_str());
    }
    if (is_saved && fit.details->saved.is_shared) SaveOwn(&fit);
    fit.save_error = fit.save_error.Annotate("the model is in %s instead",
                                             fit.details->saved.path.c_str());
    return Status();
  }

  // Saves the model so far when a lost worker ends the job. No rank waits for
  // another here, since any may be lost.
  void OnFitReturn(FitState& fit, const Status& status) override {
    KeepAfterLoss(&fit, status);
    begun_at_ = -1;  // the next fit may end before its OnSetup
  }

 private:
  void KeepAfterLoss(FitState* state, const Status& status) const {
    FitState& fit = *state;
    const bool ends = status.code() == Code::kPeerLost &&
                      !fit.model->collective()->elastic() &&
                      !AnyRestoresAfterLoss(*fit.callbacks);
    const bool has_steps =
        begun_at_ >= 0 && fit.model->iterations() > begun_at_;
    if (!ends || !has_steps || !options_.save_if_interrupted || path_.empty()) {
      return;
    }
    // The first rank that is not known to be lost.
    const int saver = status.rank() == 0 ? 1 : 0;
    if (fit.model->collective()->rank() != saver) return;
    // The file may be on the lost chief's disk.
    if (fit.chief && fit.details->saved.IsCurrent(fit.model)) {
      fit.details->saved_message =
          "the model so far is in " + fit.details->saved.path;
      return;
    }
    const Status saved = SaveInterrupted(&fit);
    if (!saved.ok()) fit.details->saved_message = saved.message();
  }

  // Saves at *path, or at a name beside it.
  Status SaveAt(FitState* fit, std::string* path) const {
    const Status saved =
        options_.keep_others
            ? SaveBeside(fit->model, options_.metadata, &options_.metadata,
                         path)
            : Save(fit->model, *path, options_.metadata, /*replace=*/true);
    if (saved.ok())
      fit->details->saved.Record(fit->model, *path, Storage::kF32);
    return saved;
  }

  // Called if the model is in another callback's file too.
  void SaveOwn(FitState* fit) const {
    std::string path = path_;
    const Status saved = SaveAt(fit, &path);
    if (saved.ok()) return;
    Notice(
        "warning: %s; the model is in %s, which another part of the job may "
        "replace while that part still trains",
        saved.message(), fit->details->saved.path.c_str());
  }

  Status SaveTrained(FitState& fit) {
    std::string path = path_;
    const Status saved = SaveAt(&fit, &path);
    return saved.ok() || AnyRestoresAfterLoss(*fit.callbacks)
               ? saved
               : SaveElsewhere(&fit, path, options_.metadata, saved, nullptr);
  }

  Status Save(Model* model, const std::string& path, const Metadata& metadata,
              bool replace) const {
    SaveModelOptions saving;
    saving.replace = replace;
    saving.metadata = metadata;
    saving.files = options_.files;
    const Status saved = SaveModel(model, path, saving);
    // The folder was removed, which does not mean that the input is wrong.
    return saved.code() == Code::kNotFound
               ? Error(Code::kIo, "%s", saved.message())
               : saved;
  }

  // Saves at *path or, if another run's file is there, at the next name, and
  // sets *path to it. Another process may take the name at the same time, and
  // the name of a dangling link looks free.
  Status SaveBeside(Model* model, const Metadata& metadata,
                    const Metadata* own_metadata, std::string* path) const {
    constexpr int kTries = 100;
    const std::string first = *path;
    Status saved;
    for (int i = 0, number = 0; i < kTries; ++i) {
      *path = FirstFree(options_.files, first, own_metadata, &number);
      const bool replace = own_metadata != nullptr &&
                           IsOwn(options_.files, *path, *own_metadata);
      saved = Save(model, *path, metadata, replace);
      if (saved.code() != Code::kAlreadyExists) break;
      // The file that is there now may be this run's own.
      if (!IsThere(options_.files, *path)) ++number;
    }
    if (!saved.ok()) *path = first;
    return saved;
  }

  // `error` is the failure at `path`. Adds the new place of the model to it.
  // *kept (may be null) becomes true if the model was saved.
  Status SaveElsewhere(FitState* fit, const std::string& path,
                       const Metadata& metadata, const Status& error,
                       bool* kept) const {
    if (options_.fallback_folder.empty()) return error;
    // The name may have been too long.
    constexpr size_t kMax = 128;
    std::string name = FileNameOf(path);
    if (name.size() > kMax) name.erase(0, name.size() - kMax);
    std::string other = options_.fallback_folder + "/" + name;
    const Status saved = SaveBeside(fit->model, metadata, nullptr, &other);
    if (!saved.ok()) {
      return error.Annotate(
          "the model is lost, because %s could not be written either",
          other.c_str());
    }
    fit->details->saved.Record(fit->model, other, Storage::kF32);
    if (kept != nullptr) *kept = true;
    return error.Annotate("the model is in %s instead", other.c_str());
  }

  Status SaveInterrupted(FitState* fit) const {
    fit->details->saved_message.clear();
    if (path_.empty()) return Status();
    Metadata metadata = options_.metadata;
    metadata[kInterruptedKey] = fit->LastStep();
    std::string path = WithSuffix(path_, "-interrupted");
    Status saved = SaveBeside(fit->model, metadata, nullptr, &path);
    if (saved.ok()) {
      fit->details->saved.Record(fit->model, path, Storage::kF32);
      fit->details->saved_message = "the model so far is in " + path;
      return Status();
    }
    bool kept = false;
    saved = SaveElsewhere(fit, path, metadata, saved, &kept);
    if (!kept) {
      return saved.Annotate("interrupted after %s", fit->LastStep().c_str());
    }
    fit->details->saved_message = saved.message();
    return Status();
  }

  const std::string path_;
  const SaveWhenTrainedOptions options_;
  int64_t begun_at_ = -1;  // the model's steps before this fit, -1 if not begun
};

}  // namespace

std::string FirstFreePath(FileSystem* files, const std::string& path,
                          const Metadata& own_metadata) {
  int number = 0;
  return FirstFree(files, path, &own_metadata, &number);
}

std::shared_ptr<Callback> SaveWhenTrained(
    const std::string& path, const SaveWhenTrainedOptions& options) {
  return std::make_shared<SaveWhenTrainedCallback>(path, options);
}

}  // namespace ringlet
