// Every rank decides from the logs whether to save, since any may become the
// chief; what the chief has decided is done, and ranks go on only once all know
// whether its write went well. Paths are tried with made-up values when the fit
// begins, so that a name that cannot be formatted costs no training.

#include "saving_callbacks.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <vector>

#include "../../core/base/message.h"
#include "../../core/base/text.h"
#include "../../core/fit/evaluation.h"
#include "../../core/fit/monitor.h"
#include "../../core/model/model.h"
#include "format_path.h"
#include "model_file.h"
#include "run_mark.h"

namespace ringlet {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class ModelCheckpointCallback final : public Callback {
 public:
  ModelCheckpointCallback(const std::string& filepath,
                          const ModelCheckpointOptions& options)
      : filepath_(filepath),
        options_(options),
        best_(options.initial_value_threshold) {}

  const char* name() const override { return "model_checkpoint"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    RINGLET_RETURN_IF_ERROR(CheckFilepath());
    if (options_.save_freq < 0) {
      return InvalidArgument(
          "save_freq must be a number of batches >= 1, or 0 for \"epoch\"; it "
          "is %" PRId64,
          options_.save_freq);
    }
    if (!options_.save_weights_only) {
      RINGLET_RETURN_IF_ERROR(CheckSaveModel(*fit.model));
    }
    RINGLET_RETURN_IF_ERROR(CheckNames(fit));
    // As Keras's it keeps its best and its count from one fit to the next.
    if (!options_.save_best_only) return Status();
    return monitor_.Setup(*fit.model, options_.monitor, options_.mode,
                          /*min_delta=*/0);
  }

  // What will stand in the way of a file whose name is known is told now.
  Status OnTrainBegin(FitState& fit) override {
    RINGLET_RETURN_IF_ERROR(CountAttempt(fit));
    RINGLET_RETURN_IF_ERROR(SaveAgain(fit));
    const std::string folder = FolderOf(filepath_);
    if (!fit.chief || folder.find('{') != std::string::npos) return Status();
    Status made = options_.files->MakeDirectory(folder);
    if (made.ok() && one_name()) made = CheckNoFolder(filepath_);
    return made.ok() ? made : Failed(fit, made, filepath_);
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    if (options_.save_freq == 0) return Status();
    batches_since_ += fit.steps_taken;
    if (batches_since_ < options_.save_freq) return Status();
    batches_since_ = 0;
    return Save(fit, logs, fit.step + 1);
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (options_.save_freq != 0) return Status();
    return Save(fit, *logs, /*batch=*/0);
  }

  void OnFitReturn(FitState& fit, const Status& status) override {
    if (!status.ok()) return;
    ++fits_;
    ended_at_ = fit.model->iterations();
    named_ = fit.HasNamed();
  }

  std::string SavesModelAs() const override {
    return options_.save_weights_only ? "" : filepath_;
  }
  std::string Describe() const override {
    std::string text = std::string(name()) + ", save_freq ";
    text +=
        options_.save_freq == 0 ? "epoch" : std::to_string(options_.save_freq);
    if (!options_.save_best_only) return text;
    return text + ", save_best_only by " + options_.monitor + ", mode " +
           std::to_string(static_cast<int>(options_.mode));
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"callback/model_checkpoint/best", DType::kFloat64, {}, &best_});
    spans->push_back({"callback/model_checkpoint/batches_since",
                      DType::kInt64,
                      {},
                      &batches_since_});
  }
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"callback/model_checkpoint/attempt", DType::kInt64, {}, &attempt_});
    spans->push_back(
        {"callback/model_checkpoint/fits", DType::kInt64, {}, &fits_});
  }
  Status StateLoaded() override {
    if (batches_since_ >= 0) return Status();
    return Corruption("callback/model_checkpoint/batches_since is negative");
  }

 private:
  // What a loss may have cut off behind the last step.
  Status SaveAgain(FitState& fit) {
    const bool due = fit.in_memory && options_.save_freq > 0 &&
                     batches_since_ == 0 && fit.step > 0;
    if (!due) return Status();
    Logs logs;
    SetEpochMetrics(*fit.model, fit.metrics, &logs);
    return Save(fit, logs, fit.step);
  }
  // A file whose name is always the same, in a job that may come to be in
  // parts: who takes the state from others' memory is of their run.
  Status CountAttempt(const FitState& fit) {
    Collective* const collective = fit.model->collective();
    if (!collective->elastic()) {
      attempt_ = 0;  // of a fit before
      return Status();
    }
    if (fit.in_memory) {
      RINGLET_RETURN_IF_ERROR(JoinRun(fit));
    } else {
      RINGLET_RETURN_IF_ERROR(CountRun(fit));
    }
    counted_ = attempt_;
    return Status();
  }
  // Another fit, after one that has ended well, is of the same run: parts of a
  // job begin it each by itself, and where one is lost meanwhile once more. Not
  // of another model, or of one that was compiled anew: what a mark has of
  // workers is of the steps, and the verdicts, of one.
  Status CountRun(const FitState& fit) {
    Collective* const collective = fit.model->collective();
    const bool goes_on =
        fit.model->iterations() == ended_at_ && (fit.HasNamed() || !named_);
    const bool another = goes_on && counted_ == attempt_;
    const int64_t mine[] = {another ? attempt_ : 0, fits_};
    std::vector<int64_t> runs(2 * static_cast<size_t>(collective->size()));
    RINGLET_RETURN_IF_ERROR(
        GatherNumbers(collective, mine, sizeof(int64_t), 2, runs.data()));
    bool same = runs[0] > 0;
    for (size_t i = 2; i < runs.size(); ++i) same &= runs[i] == runs[i - 2];
    if (same) return Status();
    // On whatever disk: any of them may become the chief.
    std::vector<RunMark> all;
    RINGLET_RETURN_IF_ERROR(GatherMarks(collective, Mark(), &all));
    attempt_ = MostAttempts(all) + 1;
    fits_ = 0;  // those before may be of some ranks alone
    return Status();
  }
  // Where a loss has cut off the count of those who came, here or on those
  // whose state it has then, it is done as they meet anew, though nobody comes.
  Status JoinRun(const FitState& fit) {
    const bool counted = !fit.comes && counted_ == attempt_;
    if (!counted) counted_ = -1;
    return CountComers(
        fit.model->collective(), counted,
        MarkOf(fit, attempt_, fits_, fit.step), [this] { return Mark(); },
        &attempt_);
  }
  // Paths are a worker's own: what calls the collective does not ask for it.
  bool one_name() const { return filepath_.find('{') == std::string::npos; }
  RunMark Mark() const {
    return one_name() ? MarkAt(options_.files, filepath_) : RunMark();
  }
  bool marks() const { return attempt_ > 0 && one_name(); }

  Status CheckFilepath() const {
    if (!options_.save_weights_only) {
      RINGLET_RETURN_IF_ERROR(CheckModelName(filepath_));
    }
    const char* suffix =
        options_.save_weights_only ? ".weights.safetensors" : ".safetensors";
    if (!EndsWith(filepath_, suffix)) {
      return InvalidArgument(
          "The filepath provided must end in `%s`%s. Received: filepath=%s",
          suffix,
          options_.save_weights_only ? " when `save_weights_only=True`" : "",
          filepath_.c_str());
    }
    return CheckPathFormat(filepath_);
  }

  // Tries the path with the names that the logs will have, as far as these can
  // be known now.
  Status CheckNames(const FitState& fit) const {
    const bool on_batch = options_.save_freq > 0;
    Logs logs;
    SetMetrics(fit, "", &logs);
    if (!on_batch) {
      std::vector<std::string> names;
      for (const auto& callback : *fit.callbacks) {
        if (callback.get() == this) break;
        if (!callback->NamesInLogs(&names)) return Status();
      }
      for (const std::string& name : names) logs.Set(name, 1);
    }
    std::string path;
    Logs validated = logs;
    if (!on_batch) SetMetrics(fit, "val_", &validated);
    const int64_t batch = on_batch ? 1 : 0;
    RINGLET_RETURN_IF_ERROR(PathOf(fit, validated, batch, &path));
    if (fit.validation == Validation::kAfterEveryEpoch ||
        PathOf(fit, logs, batch, &path).ok()) {
      return Status();
    }
    return InvalidArgument(
        "Failed to format this callback filepath: \"%s\". Reason: a name that "
        "begins with val_ needs validation %s",
        filepath_.c_str(),
        fit.validation == Validation::kNever
            ? "data, and there are none"
            : "after every epoch, and validation_freq leaves out some");
  }

  static void SetMetrics(const FitState& fit, const std::string& prefix,
                         Logs* logs) {
    for (int i = 0; i < fit.model->num_metrics(); ++i) {
      logs->Set(prefix + fit.model->metric_name(i), 1);
    }
  }

  // `batch`: the one that has ended, from 1 on; 0: an epoch has.
  Status PathOf(const FitState& fit, const Logs& logs, int64_t batch,
                std::string* path) const {
    std::vector<PathField> fields;
    fields.push_back({"epoch", true, fit.epoch + 1, 0});
    if (batch > 0) fields.push_back({"batch", true, batch, 0});
    for (const auto& [key, value] : logs.entries()) {
      fields.push_back({key, false, 0, value});
    }
    return FormatPath(filepath_, fields, path);
  }

  // Whether to save now; *best is the best once that is done.
  bool Due(const FitState& fit, const Logs& logs, const std::string& path,
           double* best) const {
    *best = best_;
    const int64_t number = fit.epoch + 1;
    const bool says = options_.verbose > 0 && fit.chief;
    const char* monitor = options_.monitor.c_str();
    if (!options_.save_best_only) {
      if (says) {
        Print("\nEpoch %" PRId64 ": saving model to %s\n", number,
              path.c_str());
      }
      return true;
    }
    const double* value = logs.Find(options_.monitor);
    if (value == nullptr) {
      if (fit.chief) {
        Notice("warning: Can save best model only with %s available.", monitor);
      }
      return true;
    }
    char before[64] = "None";
    if (!std::isnan(best_)) {
      std::snprintf(before, sizeof(before), "%.5f", best_);
    }
    if (!monitor_.Improves(*value, best_)) {
      if (says) {
        Print("\nEpoch %" PRId64 ": %s did not improve from %s\n", number,
              monitor, before);
      }
      return false;
    }
    if (says) {
      Print("\nEpoch %" PRId64
            ": %s improved from %s to %.5f, saving model to %s\n",
            number, monitor, before, *value, path.c_str());
    }
    *best = *value;
    return true;
  }

  // Every rank decides, so that another may become the chief; what the chief
  // has decided is done.
  Status Save(FitState& fit, const Logs& logs, int64_t batch) {
    ended_at_ = -1;
    std::string path;
    RINGLET_RETURN_IF_ERROR(PathOf(fit, logs, batch, &path));
    double best = kNone;
    Collective* const collective = fit.model->collective();
    unsigned char due = Due(fit, logs, path, &best) ? 1 : 0;
    RINGLET_RETURN_IF_ERROR(collective->Broadcast(&due, 1, /*root=*/0));
    if (due == 0) return Status();
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    unsigned char saved = 0;
    if (fit.chief) {
      const RunMark mark =
          MarkOf(fit, attempt_, fits_, batch > 0 ? batch : fit.step);
      LaterStays guard(options_.files, path, mark);
      const Status written = Write(fit.model, path, mark, &guard);
      if (!written.ok()) {
        RINGLET_RETURN_IF_ERROR(Failed(fit, written, path));
      }
      saved = written.ok() ? 1 : 0;
      if (guard.kept()) {
        Notice(
            "note: %s stays: this job, or another part of it, has saved it %s",
            path.c_str(), guard.when());
      } else if (written.ok() && options_.verbose > 0) {
        Print("\nEpoch %" PRId64 ": finished saving model to %s\n",
              fit.epoch + 1, path.c_str());
      }
    }
    // All decide alike the next time too.
    RINGLET_RETURN_IF_ERROR(collective->Broadcast(&saved, 1, /*root=*/0));
    if (saved == 0) return Status();
    if (!options_.save_weights_only) fit.saved_model = path;
    best_ = best;
    return BroadcastNumbers(collective, &best_, sizeof(best_), 1, /*root=*/0);
  }

  Status Write(Model* model, const std::string& path, const RunMark& mark,
               SaveGuard* guard) const {
    RINGLET_RETURN_IF_ERROR(options_.files->MakeDirectory(FolderOf(path)));
    Metadata metadata;
    if (marks()) {
      AddMark(mark, &metadata);
    } else {
      guard = nullptr;
    }
    if (options_.save_weights_only) {
      SaveOptions saving;
      saving.weights = options_.weights;
      saving.files = options_.files;
      saving.guard = guard;
      return SaveCheckpoint(path, {model->weights_state()}, metadata, saving);
    }
    SaveModelOptions saving;
    saving.weights = options_.weights;
    saving.files = options_.files;
    saving.guard = guard;
    saving.metadata = metadata;
    return SaveModel(model, path, saving);
  }

  Status CheckNoFolder(const std::string& path) const {
    std::vector<std::string> names;
    if (!options_.files->List(path, &names).ok()) return Status();
    return InvalidArgument(
        "Please specify a non-directory filepath for ModelCheckpoint. "
        "Filepath used is an existing directory: %s",
        path.c_str());
  }

  // What space or a repair may cure is no reason to stop, nor is the disk of a
  // worker that becomes the chief of an elastic job.
  Status Failed(const FitState& fit, const Status& status,
                const std::string& path) const {
    if (!fit.goes_on || !fit.model->collective()->elastic()) {
      RINGLET_RETURN_IF_ERROR(CheckNoFolder(path));
      if (status.code() == Code::kInvalidArgument) return status;
    }
    Notice("warning: the model was not saved; training goes on: %s",
           status.message());
    return Status();
  }

  const std::string filepath_;
  const ModelCheckpointOptions options_;
  Monitor monitor_;
  double best_;
  int64_t batches_since_ = 0;
  int64_t attempt_ = 0;  // RunMark's; 0: the job is not elastic
  int64_t fits_ = 0;     // of it that have ended well
  // After which steps the last one has, if the next has saved nothing, and
  // whether a worker was named by then.
  int64_t ended_at_ = -1;
  bool named_ = false;
  int64_t counted_ = -1;  // in which this worker's file was counted
};

}  // namespace

std::shared_ptr<Callback> ModelCheckpoint(
    const std::string& filepath, const ModelCheckpointOptions& options) {
  return std::make_shared<ModelCheckpointCallback>(filepath, options);
}

}  // namespace ringlet
