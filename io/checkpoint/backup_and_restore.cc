// The chief has locked the directory. All ranks take part in every decision,
// since each decision is a collective call. The chief broadcasts what it found
// (a backup, an error) before any rank acts on them. A save copies the state,
// and BackgroundSaver's thread writes the copy. OnFitReturn waits for it before
// the directory is unlocked.

#include "ringlet/checkpoint.h"

#include <algorithm>
#include <cinttypes>
#include <utility>
#include <vector>

#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/data/dataset_parts.h"
#include "../../core/fit/fit_details.h"
#include "../../core/fit/interrupts.h"
#include "../../core/fit/run_state.h"
#include "../../core/model/model_parts.h"
#include "../weights/normalizations.h"
#include "../weights/safetensors.h"
#include "background_saver.h"
#include "backup_metadata.h"
#include "checkpoint_directory.h"
#include "checkpoint_list.h"
#include "resumed_state.h"
#include "ringlet/collective.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kBackupName[] = "backup";

// Opens the newest backup in the folder; kNotFound if there is none.
Status OpenNewest(FileSystem* files, const std::string& directory,
                  SafetensorsReader* file) {
  CheckpointListing listing;
  NewestCheckpoint newest;  // the run will resume from it
  RINGLET_RETURN_IF_ERROR(
      ListCheckpoints(files, directory, kBackupName, &listing));
  RINGLET_RETURN_IF_ERROR(
      FindNewestCheckpoint(files, directory, kBackupName, listing, &newest));
  if (newest.number == 0) {
    return Error(Code::kNotFound, "%s: no backup", directory.c_str());
  }
  return file->Open(
      files, directory + "/" + CheckpointFileName(kBackupName, newest.number));
}

class BackupAndRestoreCallback final : public Callback {
 public:
  BackupAndRestoreCallback(const std::string& directory,
                           const BackupAndRestoreOptions& options)
      : directory_(directory), options_(options) {}

  const char* name() const override { return "backup_and_restore"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    if (directory_.empty()) {
      return InvalidArgument("Empty `backup_dir` argument passed");
    }
    if (options_.save_freq < 0) {
      return InvalidArgument(
          "save_freq must be a number of steps >= 1, or 0 "
          "for \"epoch\"; it is %" PRId64,
          options_.save_freq);
    }
    steps_since_ = 0;
    counted_epoch_ = counted_step_ = -1;
    if (!fit.details->after_loss) own_rate_ = *SetRateOf(fit.model);
    saver_.reset();
    ends_ = false;
    checkpoints_.reset();
    fit.handles_signals |= options_.save_before_preemption;
    Status opened;
    if (fit.chief) opened = Open(&checkpoints_);
    if (!opened.ok() && MayContinueWithout(fit, opened)) {
      WarnOfNoBackups(opened);
      opened = Status();
    }
    if (checkpoints_ != nullptr) StartSaver();
    return ExchangeUnlessJoining(fit, opened);
  }

  Status OnTrainBegin(FitState& fit) override {
    if (fit.chief) PrintNormalizationsLeftOut(*fit.model, directory_.c_str());
    unsigned char loads = fit.chief && IsToBeLoaded(fit) ? 1 : 0;
    Collective* collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(collective->Broadcast(&loads, 1, 0));
    if (loads == 0) {
      // If all workers are lost, the job continues from this backup.
      const bool has_state = fit.details->source != RestoreSource::kMissing;
      return collective->size() > 1 && has_state ? Save(fit) : Status();
    }
    RunState state(&fit);
    Status loaded;
    if (fit.chief) {
      fit.details->source = RestoreSource::kLoading;
      loaded = Load(&fit);
    }
    RINGLET_RETURN_IF_ERROR(ExchangeUnlessJoining(fit, loaded));
    fit.details->source = RestoreSource::kLoading;
    RINGLET_RETURN_IF_ERROR(BroadcastState(collective, {&state}, 0));
    fit.details->source = RestoreSource::kBackup;
    if (fit.chief) fit.details->restored_from = checkpoints_->latest();
    return Status();
  }

  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    bool due = fit.interrupted;
    if (options_.save_freq == 0) {
      due |= epoch_ended;
    } else if (!epoch_ended && !MarkCounted(fit)) {
      steps_since_ += fit.steps_taken;
      if (steps_since_ >= options_.save_freq) {
        due = true;
        steps_since_ = 0;
      }
    }
    return due ? Save(fit) : Status();
  }

  void OnFitReturn(FitState& fit, const Status& status) override {
    if (saver_ != nullptr) saver_->Wait();
    const bool removes = status.ok() && options_.delete_checkpoint;
    const bool holds = checkpoints_ != nullptr;
    if (removes && holds) {
      const Status removed = checkpoints_->Clear();
      if (!removed.ok()) Warn(removed, "the backup could not be removed");
    }
    saver_.reset();
    checkpoints_.reset();
    if (removes && !holds && fit.model->collective()->elastic()) {
      RemoveLeft(fit);
    }
  }

  bool RestoresAfterLoss() const override { return true; }
  std::string Describe() const override {
    return std::string(name()) + ", save_freq " +
           (options_.save_freq == 0 ? "epoch"
                                    : std::to_string(options_.save_freq));
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back({"callback/backup_and_restore/steps_since",
                      DType::kInt64,
                      {},
                      &steps_since_});
  }
  Status StateLoaded() override {
    if (steps_since_ >= 0) return Status();
    return Corruption(
        "callback/backup_and_restore/steps_since is negative: %" PRId64,
        steps_since_);
  }

 private:
  // Returns true if the step was counted before: after an interrupted
  // validation the end of its step comes a second time.
  bool MarkCounted(const FitState& fit) {
    const bool already_counted =
        counted_epoch_ == fit.epoch && counted_step_ == fit.step;
    counted_epoch_ = fit.epoch;
    counted_step_ = fit.step;
    return already_counted;
  }

  static void Warn(const Status& status, const char* action) {
    Notice("warning: %s: %s", action, status.message());
  }

  // An error of a joining worker ends only this worker; the other workers do
  // not wait.
  static Status ExchangeUnlessJoining(const FitState& fit,
                                      const Status& status) {
    if (fit.details->is_joining && !status.ok()) return status;
    return ExchangeStatus(fit.model->collective(), status);
  }

  // True if the fit continues without backups: an elastic job has its state in
  // memory. Another chief may have locked the folder, such as a stopped one or
  // the folder of another partition. Or a new chief's disk cannot be used.
  static bool MayContinueWithout(const FitState& fit, const Status& opened) {
    return fit.model->collective()->elastic() &&
           (fit.details->after_loss ||
            (fit.details->is_joining && IsLocked(opened)));
  }
  static bool IsLocked(const Status& opened) {
    return opened.code() == Code::kAlreadyExists;
  }
  static void WarnOfNoBackups(const Status& opened) {
    Warn(opened, IsLocked(opened)
                     ? "no backups are written until that process releases it"
                     : "no backups are written until it can be used");
  }

  Status Open(std::unique_ptr<CheckpointDirectory>* out) const {
    CheckpointDirectoryOptions options;
    options.checkpoint_name = kBackupName;
    options.max_to_keep = options_.double_checkpoint ? 2 : 1;
    options.files = options_.files;
    options.clock = options_.clock;
    return CheckpointDirectory::Open(directory_, options, out);
  }

  void StartSaver() {
    if (!options_.background) return;
    saver_ = std::make_unique<BackgroundSaver>(
        checkpoints_.get(), [this](const Status& saved) { Saved(saved); });
  }

  // Removes the backup that this worker saved while it was the chief of an
  // elastic job. The chief also tries to remove the backup of an earlier chief
  // that kept the folder locked. A backup of another run stays, and so does
  // the present chief's in the same directory.
  void RemoveLeft(const FitState& fit) const {
    SafetensorsReader file;
    Status status = OpenNewest(options_.files, directory_, &file);
    if (!status.ok() || !IsSameRun(file.metadata(), fit)) return;
    std::unique_ptr<CheckpointDirectory> left;
    status = Open(&left);
    if (status.code() == Code::kAlreadyExists && !fit.chief) return;
    if (status.ok()) status = left->Clear();
    if (status.ok()) return;
    Warn(status,
         fit.chief
             ? "a backup remains, from which another run would continue"
             : "a backup from the time when this worker was the chief remains");
  }

  // A backup is loaded only if no worker has a valid state in memory. The
  // backup may have a later step of a single worker, which no other worker has
  // checked.
  bool IsToBeLoaded(const FitState& fit) const {
    return !fit.details->in_memory() && checkpoints_ != nullptr &&
           !checkpoints_->latest().empty();
  }

  // Called on the saver's thread, if there is one.
  void Saved(const Status& saved) {
    saved_ = saved;
    if (saved.ok() || ends_) return;
    Warn(
        saved,
        "no backup was written; training continues, and the last backup stays");
  }

  // Returns the result of an interrupted fit after its save has failed. The run
  // can be resumed only if there is an earlier backup.
  Status NotSaved() const {
    const std::string before =
        checkpoints_ == nullptr ? "" : checkpoints_->latest();
    if (before.empty()) {
      return saved_.Annotate(
          "interrupted, and no backup was written; there is no earlier one");
    }
    return Error(Code::kCancelled,
                 "interrupted, and no backup was written: %s. Run again to "
                 "continue from %s",
                 saved_.message(), before.c_str());
  }

  // Any program with access to the disk can replace a sealed file with a plain
  // one. A sealed file in a run without sealing may be an oversight.
  void WarnOfSealing(const std::string& path) const {
    std::unique_ptr<File> file;
    const bool seals = options_.files->seals();
    if (!options_.files->Open(path, &file).ok() || file->sealed() == seals) {
      return;
    }
    Notice("warning: %s is %s. Training continues from it", path.c_str(),
           seals
               ? "not sealed, as this run's backups are: anyone who can write "
                 "there may have made it"
               : "sealed, and this run's backups are not (--sealed, "
                 "\"sealed\": true): anyone who gets this disk can read them");
  }

  Status Load(FitState* state) {
    FitState& fit = *state;
    const std::string path = checkpoints_->latest();
    WarnOfSealing(path);
    const AllowedChanges allowed = {options_.other_optimizer,
                                    options_.other_seed};
    Status loaded = CheckRun(options_.files, path, fit, allowed);
    if (loaded.ok()) loaded = LoadState(path, state);
    if (loaded.ok()) loaded = KeepOwnRate(path, fit.model);
    if (loaded.ok() && fit.dataset != nullptr) {
      loaded = fit.dataset->parts().CheckStart(fit.position,
                                               fit.model->num_replicas());
    }
    RINGLET_RETURN_IF_ERROR(CannotResume(path, loaded));
    if (fit.epoch < fit.epochs || (fit.epoch == fit.epochs && fit.step == 0)) {
      return Status();
    }
    return InvalidArgument("%s is of epoch %" PRId64 ", step %" PRId64
                           ", but the fit ends with epoch %" PRId64,
                           path.c_str(), fit.epoch + 1, fit.step + 1,
                           fit.epochs);
  }

  Status LoadState(const std::string& path, FitState* fit) const {
    SafetensorsReader file;
    RINGLET_RETURN_IF_ERROR(file.Open(options_.files, path));
    ResumedState state(fit);
    state.Match(file);
    LoadOptions options;
    options.files = options_.files;
    options.ignored = state.others();
    RINGLET_RETURN_IF_ERROR(LoadCheckpoint(path, {&state}, options));
    // A run that a callback had stopped continues if the callbacks have
    // changed.
    if (state.callbacks_differ() && fit->step == 0) fit->stop_training = 0;
    for (const std::string& note : state.notes()) {
      Notice("note: %s: %s", path.c_str(), note.c_str());
    }
    return Status();
  }

  // The rate of SetLearningRate. Below 0 the optimizer's own rate is used.
  static float* SetRateOf(Model* model) {
    std::vector<StateSpan> spans;
    model->optimizer_state()->AppendState(&spans);
    const auto rate = std::find_if(
        spans.begin(), spans.end(),
        [](const StateSpan& s) { return s.name == kLearningRateName; });
    return static_cast<float*>(rate->data);
  }

  // A rate that a callback had set belongs to the optimizer of that run.
  Status KeepOwnRate(const std::string& path, Model* model) const {
    SafetensorsReader file;
    RINGLET_RETURN_IF_ERROR(file.Open(options_.files, path));
    if (!IsOfAnotherOptimizer(file.metadata(), *model)) return Status();
    const float before = std::exchange(*SetRateOf(model), own_rate_);
    if (before < 0) return Status();
    Notice(
        "note: %s: it has a learning rate of %g that was set while the run "
        "trained. This run has another optimizer, so its own rate of %g holds",
        path.c_str(), double{before}, double{model->LearningRate()});
    return Status();
  }

  // The weights of another run's backup can still be loaded with --init.
  Status CannotResume(const std::string& path, const Status& why) const {
    if (why.code() != Code::kInvalidArgument) {
      return why.Annotate("%s cannot be resumed (remove it to start again)",
                          directory_.c_str());
    }
    return InvalidArgument(
        "%s cannot be resumed: %s. To begin with its weights, give another "
        "backup_dir and --init %s (in C++ LoadWeights). To start again, remove "
        "%s",
        directory_.c_str(), why.message(), path.c_str(), directory_.c_str());
  }

  Status Save(FitState& fit) {
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    RINGLET_RETURN_IF_ERROR(
        ModelParts(fit.model).local_trainer().GatherRoundState());
    if (!fit.chief) return Status();
    if (fit.interrupted) {
      if (saver_ != nullptr) saver_->Wait();  // it may read ends_
      ends_ = true;
    }
    if (checkpoints_ == nullptr) {
      saved_ = Open(&checkpoints_);
      if (!saved_.ok()) return ends_ ? NotSaved() : Status();
      Notice("note: backups are written to %s again", directory_.c_str());
      StartSaver();
    }
    RunState state(&fit);
    const Metadata metadata = RunMetadata(&fit);
    if (saver_ == nullptr) {
      Saved(checkpoints_->Save({&state}, metadata));
      return ends_ && !saved_.ok() ? NotSaved() : Status();
    }
    const Status copied = saver_->Start(&state, metadata);
    if (!copied.ok()) Saved(copied);
    if (!ends_) return Status();
    saver_->Wait();
    return saved_.ok() ? Status() : NotSaved();
  }

  const std::string directory_;
  const BackupAndRestoreOptions options_;
  int64_t steps_since_ = 0;
  int64_t counted_epoch_ = -1, counted_step_ = -1;
  float own_rate_ = -1;  // the rate of SetLearningRate before the fit
  bool ends_ = false;    // this save is the last: the fit was interrupted
  Status saved_;  // the result of the last save; the saver's while it is busy
  // Declared after the directory that it uses, so that it is destroyed first.
  std::unique_ptr<CheckpointDirectory> checkpoints_;
  std::unique_ptr<BackgroundSaver> saver_;
};

}  // namespace

int ReplicasOfBackup(const std::string& backup_dir, FileSystem* files) {
  SafetensorsReader file;
  const Status status = OpenNewest(files, backup_dir, &file);
  return status.ok() ? SavedReplicas(file.metadata()) : 0;
}

std::shared_ptr<Callback> BackupAndRestore(
    const std::string& backup_dir, const BackupAndRestoreOptions& options) {
  return std::make_shared<BackupAndRestoreCallback>(backup_dir, options);
}

}  // namespace ringlet
