// With spare_others no model that is there is replaced but by the run that
// wrote it (IsOwn). A save that fails is tried elsewhere before the fit ends
// with an error: the weights of a whole training are in memory only.

#include "saving_callbacks.h"

#include "../../core/base/collective.h"
#include "../../core/base/text.h"
#include "../../core/fit/interrupts.h"
#include "../../core/model/model.h"
#include "model_file.h"
#include "safetensors.h"

namespace ringlet {
namespace {

// Of the metadata of a model that is not finished.
constexpr char kInterruptedKey[] = "interrupted";
constexpr char kExtension[] = ".safetensors";

// Before the extension, where it has ours.
std::string WithSuffix(const std::string& path, const std::string& suffix) {
  const std::string stem = WithoutSuffix(path, kExtension);
  if (stem.empty() || stem == path) return path + suffix;
  return stem + suffix + kExtension;
}

bool IsThere(FileSystem* files, const std::string& path) {
  std::unique_ptr<File> file;
  return files->Open(path, &file).code() != Code::kNotFound;
}

bool IsOwn(FileSystem* files, const std::string& path, const Metadata& own) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return false;
  const Metadata& there = file.metadata();
  for (const auto& [key, value] : own) {
    const auto found = there.find(key);
    if (found == there.end() || found->second != value) return false;
  }
  return !own.empty() && there.count(kInterruptedKey) == 0;
}

// `path`, or from *number (0: `path` itself) on the first name beside it that
// is free, or `own` (null: none is); *number becomes its. Where nothing can be
// told of any name, as in a folder that may not be searched, the last that was
// tried.
std::string FirstFree(FileSystem* files, const std::string& path,
                      const Metadata* own, int* number) {
  constexpr int kMost = 100000;
  for (;; ++*number) {
    const std::string name =
        *number == 0 ? path : WithSuffix(path, "-" + std::to_string(*number));
    if (*number >= kMost || !IsThere(files, name)) return name;
    if (own != nullptr && IsOwn(files, name, *own)) return name;
  }
}

class SaveWhenTrainedCallback final : public Callback {
 public:
  SaveWhenTrainedCallback(const std::string& path,
                          const SaveWhenTrainedOptions& options)
      : path_(path), options_(options) {}

  const char* name() const override { return "save_when_trained"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  // The chief alone needs a path; that all save together they must agree on.
  std::string Describe() const override {
    return std::string(name()) + ", when interrupted " +
           (options_.when_interrupted ? "too" : "not");
  }
  std::string SavesModelAs() const override {
    return options_.unless_saved ? "" : path_;
  }

  Status OnSetup(FitState& fit) override {
    fit.takes_signals |= options_.when_interrupted;
    return CheckModelName(path_);
  }

  Status OnSavePoint(FitState& fit, bool) override {
    if (!fit.interrupted || !options_.when_interrupted ||
        AnyRestoresAfterLoss(*fit.callbacks)) {
      return Status();
    }
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    fit.kept = "the chief has saved the model";
    Status saved;
    if (fit.chief) saved = SaveInterrupted(&fit);
    // The others wait, so that the job ends as one.
    return ShareStatus(fit.model->collective(), saved);
  }

  Status OnTrainEnd(FitState& fit, const Logs&) override {
    if (path_.empty() || !fit.chief) return Status();
    if (options_.unless_saved && !fit.saved_model.empty()) return Status();
    std::string path = path_;
    const Status saved =
        options_.spare_others
            ? SaveBeside(fit.model, options_.metadata, &options_.metadata,
                         &path)
            : Save(fit.model, path, options_.metadata, /*replace=*/true);
    if (saved.ok()) fit.saved_model = path;
    return saved.ok() || AnyRestoresAfterLoss(*fit.callbacks)
               ? saved
               : SaveElsewhere(&fit, path, options_.metadata, saved, nullptr);
  }

 private:
  Status Save(Model* model, const std::string& path, const Metadata& metadata,
              bool replace) const {
    SaveModelOptions saving;
    saving.replace = replace;
    saving.metadata = metadata;
    saving.files = options_.files;
    const Status saved = SaveModel(model, path, saving);
    // Of a folder that went away: no wrong input.
    return saved.code() == Code::kNotFound
               ? Error(Code::kIo, "%s", saved.message())
               : saved;
  }

  // At *path or, where that is another's, beside it: *path becomes the name.
  // Another process may take a name at the same time, and a link to nothing has
  // one that looks free.
  Status SaveBeside(Model* model, const Metadata& metadata, const Metadata* own,
                    std::string* path) const {
    constexpr int kTries = 100;
    const std::string first = *path;
    Status saved;
    for (int i = 0, number = 0; i < kTries; ++i) {
      *path = FirstFree(options_.files, first, own, &number);
      const bool replace = own != nullptr && IsOwn(options_.files, *path, *own);
      saved = Save(model, *path, metadata, replace);
      if (saved.code() != Code::kAlreadyExists) break;
      // It may be this run's own by now.
      if (!IsThere(options_.files, *path)) ++number;
    }
    if (!saved.ok()) *path = first;
    return saved;
  }

  // `error` is why it is not at `path`; says where it is now. *kept (may be
  // null): whether it is anywhere.
  Status SaveElsewhere(FitState* fit, const std::string& path,
                       const Metadata& metadata, const Status& error,
                       bool* kept) const {
    if (options_.elsewhere.empty()) return error;
    // A name that is too long may be what was wrong.
    constexpr size_t kMost = 128;
    std::string name = FileNameOf(path);
    if (name.size() > kMost) name.erase(0, name.size() - kMost);
    std::string other = options_.elsewhere + "/" + name;
    const Status saved = SaveBeside(fit->model, metadata, nullptr, &other);
    if (!saved.ok()) {
      return error.Annotate(
          "the model is lost, for neither could %s be written", other.c_str());
    }
    fit->saved_model = other;
    if (kept != nullptr) *kept = true;
    return error.Annotate("the model is in %s instead", other.c_str());
  }

  Status SaveInterrupted(FitState* fit) const {
    fit->kept.clear();
    if (path_.empty()) return Status();
    Metadata metadata = options_.metadata;
    metadata[kInterruptedKey] = fit->LastStep();
    std::string path = WithSuffix(path_, "-interrupted");
    Status saved = SaveBeside(fit->model, metadata, nullptr, &path);
    if (saved.ok()) {
      fit->saved_model = path;
      fit->kept = "the model so far is in " + path;
      return Status();
    }
    bool kept = false;
    saved = SaveElsewhere(fit, path, metadata, saved, &kept);
    if (!kept) {
      return saved.Annotate("interrupted after %s", fit->LastStep().c_str());
    }
    fit->kept = saved.message();
    return Status();
  }

  const std::string path_;
  const SaveWhenTrainedOptions options_;
};

}  // namespace

std::string PathBesideOthers(FileSystem* files, const std::string& path,
                             const Metadata& own) {
  int number = 0;
  return FirstFree(files, path, &own, &number);
}

std::shared_ptr<Callback> SaveWhenTrained(
    const std::string& path, const SaveWhenTrainedOptions& options) {
  return std::make_shared<SaveWhenTrainedCallback>(path, options);
}

}  // namespace ringlet
