// Every rank decides from the logs whether to save, since any rank may become
// the chief. The chief's decision is used. All ranks wait for the result of its
// write. Paths are formatted with made-up values when the fit begins, so that
// an invalid name is reported before training.

#include "ringlet/checkpoint.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <vector>

#include "../../core/base/collective_numbers.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "../../core/fit/evaluation.h"
#include "../../core/fit/fit_details.h"
#include "../../core/fit/monitor.h"
#include "../files/path.h"
#include "../weights/model_metadata.h"
#include "format_path.h"
#include "kept_files.h"
#include "model_path.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class ModelCheckpointCallback final : public Callback {
 public:
  ModelCheckpointCallback(const std::string& filepath,
                          const ModelCheckpointOptions& options)
      : filepath_(filepath),
        options_(WithImplied(options)),
        best_(options.initial_value_threshold),
        kept_(options.max_to_keep, filepath, options.files) {}

  const char* name() const override { return "model_checkpoint"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    if (!fit.details->after_loss) ForgetUnsaved();
    RINGLET_RETURN_IF_ERROR(CheckFilepath());
    if (options_.save_freq < 0) {
      return InvalidArgument(
          "save_freq must be a number of batches >= 1, or 0 for \"epoch\"; it "
          "is %" PRId64,
          options_.save_freq);
    }
    if (options_.max_to_keep < 0 || options_.max_to_keep > KeptFiles::kMax) {
      return InvalidArgument(
          "max_to_keep must be a number of files from 1 to %d, or 0 for all; "
          "it is %d",
          KeptFiles::kMax, options_.max_to_keep);
    }
    RINGLET_RETURN_IF_ERROR(CheckOwnNames(fit));
    if (!options_.save_weights_only) {
      RINGLET_RETURN_IF_ERROR(
          CheckSaveModel(*fit.model, /*include_optimizer=*/true));
    }
    RINGLET_RETURN_IF_ERROR(CheckNames(fit));
    // As in Keras the best value and the count are kept from one fit to the
    // next.
    if (!options_.save_best_only) return Status();
    const auto when = options_.save_freq == 0 ? Monitor::Logged::kAfterEpochs
                                              : Monitor::Logged::kAfterBatches;
    return monitor_.Setup(fit, *this, when, options_.monitor, options_.mode,
                          /*min_delta=*/0);
  }

  // Reports an obstacle to a file with a known name before training.
  Status OnTrainBegin(FitState& fit) override {
    const bool restored = fit.details->source == RestoreSource::kBackup;
    if (fit.details->in_memory() || restored)
      RINGLET_RETURN_IF_ERROR(SaveUnsaved(fit));
    RINGLET_RETURN_IF_ERROR(SaveAgain(fit));
    if (fit.chief) PrintForeignFormat();
    const std::string folder = FolderOf(filepath_);
    if (!fit.chief || folder.find('{') != std::string::npos) return Status();
    Status status = options_.files->MakeFolder(folder);
    if (status.ok() && one_name()) status = CheckNoFolder(filepath_);
    if (status.ok() && one_name()) {
      status = CheckReplaceable(options_.files, filepath_);
    }
    return status.ok() ? status : Failed(fit, status, filepath_);
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

  // Reports a last file that could not be written. If several callbacks have an
  // error, the first one is kept.
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    RINGLET_RETURN_IF_ERROR(SaveUnsaved(fit));
    if (unsaved_epoch() == 0 || !fit.chief || !fit.save_error.ok()) {
      return Status();
    }
    fit.save_error = why_.ok() ? NotWrittenBefore() : why_;
    return Status();
  }

  std::string SavesModelAs() const override {
    return options_.save_weights_only ? "" : filepath_;
  }
  std::string Identity() const override { return Describe() + filepath_; }
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
    // Backups of earlier versions lack it.
    spans->push_back({"callback/model_checkpoint/unsaved",
                      DType::kFloat64,
                      {static_cast<int64_t>(unsaved_.size())},
                      unsaved_.data(),
                      /*optional=*/true});
    kept_.AppendState("callback/model_checkpoint/kept", spans);
  }
  Status StateLoaded() override {
    if (batches_since_ < 0) {
      return Corruption(
          "callback/model_checkpoint/batches_since is negative: %" PRId64,
          batches_since_);
    }
    constexpr double kMaxCount = 9007199254740992;  // 2^53
    for (const size_t i : {kUnsavedEpoch, kUnsavedBatch, kUnsavedChecksum}) {
      if (unsaved_[i] >= 0 && unsaved_[i] <= kMaxCount) continue;
      return Corruption(
          "callback/model_checkpoint/unsaved is %g; it must be a count",
          unsaved_[i]);
    }
    return kept_.StateLoaded();
  }

 private:
  // The elements of unsaved_. The values of filepath_'s fields are last.
  enum : size_t {
    kUnsavedEpoch,     // from 1 on, 0 if the last save was written
    kUnsavedBatch,     // from 1 on, 0 if the save was of an epoch
    kUnsavedChecksum,  // a checksum of the weights that were to be saved
    kUnsavedBest,      // best_ after that save
    kUnsavedLogs,
  };
  // The number of values in the logs that are kept for the name of the file.
  // Fixed, since the state's shape must not depend on the logs.
  static constexpr size_t kMaxLogs = 16;

  static ModelCheckpointOptions WithImplied(ModelCheckpointOptions options) {
    options.save_weights_only |= options.save_trainable_only;
    return options;
  }

  int64_t unsaved_epoch() const {
    return static_cast<int64_t>(unsaved_[kUnsavedEpoch]);
  }

  void ForgetUnsaved() {
    unsaved_.fill(0);
    why_ = Status();
  }

  // Every rank records the failed save, since any rank may be the chief when
  // the fit ends.
  void RecordUnsaved(Model* model, const Logs& logs, int64_t epoch,
                     int64_t batch, double best) {
    unsaved_[kUnsavedEpoch] = static_cast<double>(epoch);
    unsaved_[kUnsavedBatch] = static_cast<double>(batch);
    unsaved_[kUnsavedChecksum] = WeightsChecksum(model);
    unsaved_[kUnsavedBest] = best;
    // The values in this worker's path come first, and then the other logs,
    // since the next chief's path may have different fields.
    size_t at = kUnsavedLogs;
    const auto append = [&](const std::string& name, double value) {
      if (at == unsaved_.size()) return;
      unsaved_[at++] = ChecksumOf(name);
      unsaved_[at++] = value;
    };
    for (const std::string& name : PathFieldNames(filepath_)) {
      if (const double* const value = logs.Find(name)) append(name, *value);
    }
    for (const auto& [name, value] : logs.entries()) append(name, value);
    std::fill(unsaved_.begin() + static_cast<std::ptrdiff_t>(at),
              unsaved_.end(), 0);
  }

  static double ChecksumOf(const std::string& name) {
    return Crc32c(name.data(), name.size());
  }

  // The logs of the failed save, as far as filepath_ has fields for them. False
  // if a value of a field is not known. The path of the worker that recorded
  // them may have different fields.
  bool UnsavedLogs(Logs* logs) const {
    bool has_all = true;
    for (const std::string& name : PathFieldNames(filepath_)) {
      if (name == "epoch" || name == "batch") continue;
      const double checksum = ChecksumOf(name);
      size_t at = kUnsavedLogs;
      while (at < unsaved_.size() && unsaved_[at] != checksum) at += 2;
      const bool has = at < unsaved_.size();
      logs->Set(name, has ? unsaved_[at + 1] : kNone);
      has_all &= has;
    }
    return has_all;
  }

  static double WeightsChecksum(Model* model) {
    std::vector<StateSpan> spans;
    model->weights_state()->AppendState(&spans);
    uint32_t checksum = 0;
    for (const StateSpan& span : spans) {
      checksum = Crc32c(span.data, span.bytes(), checksum);
    }
    return checksum;
  }

  // Writes the file that another chief, or the run before this one, could not
  // write, if the model still has the weights of that save. Its optimizer state
  // is the present one.
  Status SaveUnsaved(FitState& fit) {
    if (unsaved_epoch() == 0) return Status();
    Logs logs;
    const bool is_named = UnsavedLogs(&logs);
    const bool same = WeightsChecksum(fit.model) == unsaved_[kUnsavedChecksum];
    unsigned char due = why_.ok() && same && is_named ? 1 : 0;
    RINGLET_RETURN_IF_ERROR(
        fit.model->collective()->Broadcast(&due, 1, /*root=*/0));
    if (due == 0) return Status();
    return Write(fit, logs, unsaved_epoch(),
                 static_cast<int64_t>(unsaved_[kUnsavedBatch]),
                 unsaved_[kUnsavedBest]);
  }

  // Repeats the save after the last step, which a loss may have interrupted.
  Status SaveAgain(FitState& fit) {
    const bool due = fit.details->in_memory() && options_.save_freq > 0 &&
                     batches_since_ == 0 && fit.step > 0;
    if (!due) return Status();
    Logs logs;
    SetEpochMetrics(*fit.model, fit.metrics, &logs);
    return Save(fit, logs, fit.step);
  }
  // True if all saves have one name.
  bool one_name() const { return filepath_.find('{') == std::string::npos; }

  // A name like the name of data or a RUN.json is probably an oversight, and
  // commands would not take the file for a model.
  Status CheckFilepath() const {
    const std::string ending = ForeignEnding(filepath_);
    for (const char* data : {".csv", ".gz", ".json", ".npy", ".npz"}) {
      if (ending != data) continue;
      return InvalidArgument(
          "The filepath provided is the name of a file of data; `.safetensors` "
          "is the format that is written. Received: filepath=%s",
          filepath_.c_str());
    }
    const bool has_brace = filepath_.find("{{") != std::string::npos ||
                           filepath_.find("}}") != std::string::npos;
    if (options_.max_to_keep > 0 && has_brace) {
      return InvalidArgument(
          "With max_to_keep the filepath has no braces but those of its "
          "fields. Received: filepath=%s",
          filepath_.c_str());
    }
    return CheckPathFormat(filepath_);
  }

  // With max_to_keep it would remove the files of another callback.
  Status CheckOwnNames(const FitState& fit) const {
    if (options_.max_to_keep == 0 || fit.callbacks == nullptr) return Status();
    for (const auto& callback : *fit.callbacks) {
      if (callback.get() == this || callback->SavesModelAs() != filepath_) {
        continue;
      }
      return InvalidArgument(
          "two callbacks save models as \"%s\", and max_to_keep of one would "
          "remove the other's; give each its own filepath",
          filepath_.c_str());
    }
    return Status();
  }

  void PrintForeignFormat() const {
    const std::string ending = ForeignEnding(filepath_);
    if (ending.empty()) return;
    Notice(
        "note: ModelCheckpoint writes %s in ringlet's format (safetensors), "
        "which other programs for `%s` do not read",
        filepath_.c_str(), ending.c_str());
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
    RINGLET_RETURN_IF_ERROR(MakePath(1, validated, batch, &path));
    if (fit.validation == Validation::kAfterEveryEpoch ||
        MakePath(1, logs, batch, &path).ok()) {
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

  // `epoch` counts from 1. `batch`, from 1, is the batch that has ended, or 0
  // if the epoch has ended.
  Status MakePath(int64_t epoch, const Logs& logs, int64_t batch,
                  std::string* path) const {
    std::vector<PathField> fields;
    fields.push_back({"epoch", /*whole=*/true, epoch, 0});
    if (batch > 0) fields.push_back({"batch", /*whole=*/true, batch, 0});
    for (const auto& [key, value] : logs.entries()) {
      fields.push_back({key, /*whole=*/false, 0, value});
    }
    return FormatPath(filepath_, fields, path);
  }

  // Returns true if a save is due, and prints why. *best is the best value
  // after this save.
  bool PrintDecision(const FitState& fit, const Logs& logs,
                     const std::string& path, double* best) const {
    *best = best_;
    const int64_t number = fit.epoch + 1;
    const bool prints = options_.verbose > 0 && fit.chief;
    const char* monitor = options_.monitor.c_str();
    if (!options_.save_best_only) {
      if (prints) {
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
    const std::string before =
        std::isnan(best_) ? "None" : FormatText("%.5f", best_);
    if (!monitor_.Improves(*value, best_)) {
      if (prints) {
        Print("\nEpoch %" PRId64 ": %s did not improve from %s\n", number,
              monitor, before.c_str());
      }
      return false;
    }
    if (prints) {
      Print("\nEpoch %" PRId64
            ": %s improved from %s to %.5f, saving model to %s\n",
            number, monitor, before.c_str(), *value, path.c_str());
    }
    *best = *value;
    return true;
  }

  // Every rank decides, since any may become the chief. The chief's decision is
  // used.
  Status Save(FitState& fit, const Logs& logs, int64_t batch) {
    std::string path;
    RINGLET_RETURN_IF_ERROR(MakePath(fit.epoch + 1, logs, batch, &path));
    double best = kNone;
    unsigned char due = PrintDecision(fit, logs, path, &best) ? 1 : 0;
    RINGLET_RETURN_IF_ERROR(
        fit.model->collective()->Broadcast(&due, 1, /*root=*/0));
    if (due == 0) return Status();
    return Write(fit, logs, fit.epoch + 1, batch, best);
  }

  Status Write(FitState& fit, const Logs& logs, int64_t epoch, int64_t batch,
               double best) {
    std::string path;
    RINGLET_RETURN_IF_ERROR(MakePath(epoch, logs, batch, &path));
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    unsigned char saved = 0;
    if (fit.chief) {
      const Status written = WriteFile(fit.model, logs, best, path);
      if (!written.ok()) {
        RINGLET_RETURN_IF_ERROR(Failed(fit, written, path));
        why_ = NotWritten(epoch, written);
      }
      saved = written.ok() ? 1 : 0;
      if (written.ok() && options_.verbose > 0) {
        Print("\nEpoch %" PRId64 ": finished saving model to %s\n", epoch,
              path.c_str());
      }
    }
    // The broadcast keeps the next decisions of all ranks equal.
    Collective* const collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(collective->Broadcast(&saved, 1, /*root=*/0));
    if (saved == 0) {
      if (!fit.chief) why_ = Status();
      RecordUnsaved(fit.model, logs, epoch, batch, best);
      return Status();
    }
    unsaved_[kUnsavedEpoch] = 0;
    why_ = Status();
    if (!options_.save_weights_only) {
      fit.details->saved.Record(fit.model, path, options_.weights);
      fit.details->saved.is_shared = collective->elastic();
    } else if (path == fit.details->saved.path) {
      fit.details->saved.path.clear();  // another callback's file, now replaced
    }
    // A NaN is not yet a best value.
    const bool is_best =
        options_.save_best_only && !std::isnan(best) && best != best_;
    best_ = best;
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(collective, &best_, sizeof(best_), 1, /*root=*/0));
    return kept_.Add(path, is_best, fit.chief, collective);
  }

  // The monitor's value, which the logs of a save that is repeated may lack.
  Metadata MonitorOf(const Logs& logs, double best) const {
    const double* value = logs.Find(options_.monitor);
    if (value == nullptr && options_.save_best_only) value = &best;
    if (value == nullptr || !std::isfinite(*value)) return {};
    return {{kMonitorKey, options_.monitor},
            {kMonitorValueKey, ShortestText(*value)}};
  }

  Status WriteFile(Model* model, const Logs& logs, double best,
                   const std::string& path) const {
    RINGLET_RETURN_IF_ERROR(options_.files->MakeFolder(FolderOf(path)));
    RINGLET_RETURN_IF_ERROR(CheckReplaceable(options_.files, path));
    if (options_.save_weights_only) {
      SaveOptions saving;
      saving.weights = options_.weights;
      saving.files = options_.files;
      saving.trainable_only = options_.save_trainable_only;
      return SaveWeights(model, path, saving);
    }
    SaveModelOptions saving;
    saving.metadata = MonitorOf(logs, best);
    saving.weights = options_.weights;
    saving.files = options_.files;
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

  // Training continues after errors that free space or a repair may remove, and
  // after all errors of a new chief's disk in an elastic job.
  Status Failed(const FitState& fit, const Status& status,
                const std::string& path) const {
    if (!fit.details->after_loss || !fit.model->collective()->elastic()) {
      RINGLET_RETURN_IF_ERROR(CheckNoFolder(path));
      if (status.code() == Code::kInvalidArgument) return status;
    }
    Notice("warning: the model was not saved; training continues: %s",
           status.message());
    return Status();
  }

  // Returns the error that ends the fit. Its code means that a retry may
  // succeed.
  static Status NotWritten(int64_t epoch, const Status& status) {
    return Error(status.code() == Code::kResourceExhausted
                     ? Code::kResourceExhausted
                     : Code::kIo,
                 "ModelCheckpoint could not write its last file, in epoch "
                 "%" PRId64 ": %s",
                 epoch, status.message());
  }
  // Returns the error of a save that another process tried.
  Status NotWrittenBefore() const {
    return Error(Code::kIo,
                 "ModelCheckpoint could not write its last file, in epoch "
                 "%" PRId64
                 ", before this process continued the run. It cannot be "
                 "written now: the model has other weights, or the values in "
                 "its name are no longer known",
                 unsaved_epoch());
  }

  const std::string filepath_;
  const ModelCheckpointOptions options_;
  Monitor monitor_;
  double best_;
  int64_t batches_since_ = 0;
  // The save that failed last, until a later one is written. From kUnsavedLogs
  // on the checksum of a log's name and its value, in turn.
  std::array<double, kUnsavedLogs + 2 * kMaxLogs> unsaved_{};
  // The error of that save, if this process tried it.
  Status why_;
  KeptFiles kept_;
};

}  // namespace

std::shared_ptr<Callback> ModelCheckpoint(
    const std::string& filepath, const ModelCheckpointOptions& options) {
  return std::make_shared<ModelCheckpointCallback>(filepath, options);
}

}  // namespace ringlet
