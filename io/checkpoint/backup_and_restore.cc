// The chief has the directory; all ranks take part in every decision, since
// each one is a collective call: what the chief alone finds (a backup, an
// error) is broadcast before anybody acts on it. A save copies the state and is
// written by BackgroundSaver's thread; OnFitReturn waits for it before the
// directory is let go.

#include "saving_callbacks.h"

#include <cinttypes>
#include <vector>

#include "../../core/base/collective.h"
#include "../../core/base/message.h"
#include "../../core/base/text.h"
#include "../../core/fit/interrupts.h"
#include "../../core/fit/run_state.h"
#include "../../core/model/model.h"
#include "background_saver.h"
#include "backup_metadata.h"
#include "checkpoint_directory.h"
#include "checkpoint_list.h"
#include "safetensors.h"

namespace ringlet {
namespace {

constexpr char kBackupName[] = "backup";

// Of the newest backup in the folder; kNotFound where there is none.
Status OpenNewest(FileSystem* files, const std::string& directory,
                  SafetensorsReader* file) {
  CheckpointListing listing;
  NewestCheckpoint newest;  // that the run will resume from
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
    saver_.reset();
    ends_ = false;
    checkpoints_.reset();
    fit.takes_signals |= options_.save_before_preemption;
    Status opened;
    if (fit.chief) opened = Open(&checkpoints_);
    if (!opened.ok() && GoesOnWithout(fit, opened)) opened = Status();
    if (checkpoints_ != nullptr) StartSaver();
    return Share(fit, opened);
  }

  Status OnTrainBegin(FitState& fit) override {
    unsigned char loads = fit.chief && IsToBeLoaded(fit) ? 1 : 0;
    Collective* collective = fit.model->collective();
    RINGLET_RETURN_IF_ERROR(collective->Broadcast(&loads, 1, 0));
    if (loads == 0) {
      // So that the others can go back to it where all are lost.
      return collective->size() > 1 && !fit.lost ? Save(fit) : Status();
    }
    RunState state(&fit);
    Status loaded;
    fit.replacing = fit.chief;
    if (fit.chief) loaded = Load(fit, &state);
    RINGLET_RETURN_IF_ERROR(Share(fit, loaded));
    fit.replacing = true;
    RINGLET_RETURN_IF_ERROR(BroadcastState(collective, {&state}, 0));
    fit.replacing = fit.lost = fit.in_memory = false;
    fit.replaced = true;
    if (fit.chief) fit.restored_from = checkpoints_->latest();
    return Status();
  }

  Status OnSavePoint(FitState& fit, bool epoch_ended) override {
    bool due = fit.interrupted;
    if (options_.save_freq == 0) {
      due |= epoch_ended;
    } else if (!epoch_ended && !IsCounted(fit)) {
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
    return Corruption("callback/backup_and_restore/steps_since is negative");
  }

 private:
  // Where a validation is broken off its step's end comes a second time.
  bool IsCounted(const FitState& fit) {
    const bool is = counted_epoch_ == fit.epoch && counted_step_ == fit.step;
    counted_epoch_ = fit.epoch;
    counted_step_ = fit.step;
    return is;
  }

  static void Warn(const Status& status, const char* what) {
    Notice("warning: %s: %s", what, status.message());
  }

  // One that comes to the run of others alone ends by its error; they do not
  // wait for it.
  static Status Share(const FitState& fit, const Status& mine) {
    if (fit.comes && !mine.ok()) return mine;
    return ShareStatus(fit.model->collective(), mine);
  }

  // Where others have the state of an elastic job: the folder is held by a
  // chief that stands still, or by that of the other part of the job; or the
  // disk of one that takes the role over cannot be used.
  static bool GoesOnWithout(const FitState& fit, const Status& opened) {
    const bool held = opened.code() == Code::kAlreadyExists;
    if (!fit.model->collective()->elastic() ||
        !(fit.goes_on || (fit.comes && held))) {
      return false;
    }
    Warn(opened, held ? "no backups are written until that one lets go of it"
                      : "no backups are written until that can be used");
    return true;
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

  // What this worker saved while it was the chief of an elastic job, or one
  // that held its folder to the end: not what is of another run, nor what the
  // chief has in the same directory.
  void RemoveLeft(const FitState& fit) const {
    SafetensorsReader file;
    Status status = OpenNewest(options_.files, directory_, &file);
    if (!status.ok() || !IsSameRun(file.metadata(), fit)) return;
    std::unique_ptr<CheckpointDirectory> left;
    status = Open(&left);
    if (status.code() == Code::kAlreadyExists && !fit.chief) return;
    if (status.ok()) status = left->Clear();
    if (status.ok()) return;
    Warn(status, fit.chief
                     ? "a backup stays, from which another run would go on"
                     : "a backup of when this worker was the chief stays");
  }

  // The newest backup, rather than what a worker has in memory. That is as new
  // or newer, but for a job that was parted: the part of a chief that comes
  // back may have gone further; with a wrong worker's numbers, perhaps, where
  // it did not hear that one named.
  bool IsToBeLoaded(const FitState& fit) const {
    if (checkpoints_ == nullptr || checkpoints_->latest().empty()) return false;
    if (!fit.in_memory) return true;
    // What it saved before is in the memory too.
    if (!fit.comes || fit.HasNamed()) return false;
    SafetensorsReader file;
    if (!file.Open(options_.files, checkpoints_->latest()).ok()) return false;
    return IsFurther(file.metadata(), fit);
  }

  // On the saver's thread, where there is one.
  void Saved(const Status& saved) {
    saved_ = saved;
    if (saved.ok() || ends_) return;
    Warn(saved,
         "no backup was written; training goes on, and the backup "
         "before stays");
  }

  // What the fit ends with where it was interrupted and saved_ is an error. It
  // can be resumed only where there is something to resume.
  Status NotSaved() const {
    const std::string before =
        checkpoints_ == nullptr ? "" : checkpoints_->latest();
    if (before.empty()) {
      return saved_.Annotate(
          "interrupted, and no backup was written, nor is there one before");
    }
    return Error(Code::kCancelled,
                 "interrupted, and no backup was written: %s. Run again to go "
                 "on from %s",
                 saved_.message(), before.c_str());
  }

  // A plain one in a sealed one's place whoever can write to the disk could
  // have put there; and what is sealed no longer its owner may have forgotten.
  void WarnOfSealing(const std::string& path) const {
    std::unique_ptr<File> file;
    const bool seals = options_.files->seals();
    if (!options_.files->Open(path, &file).ok() || file->sealed() == seals) {
      return;
    }
    Notice("warning: %s is %s. Training goes on from there", path.c_str(),
           seals ? "not sealed, as this run's backups are: whoever can write "
                   "there may have made it"
                 : "sealed, and this run's backups are not (--sealed, "
                   "\"sealed\": true): whoever gets this disk can read them");
  }

  Status Load(const FitState& fit, RunState* state) {
    const std::string path = checkpoints_->latest();
    LoadOptions options;
    options.files = options_.files;
    WarnOfSealing(path);
    Status loaded = CheckRun(options_.files, path, fit);
    if (loaded.ok()) loaded = LoadCheckpoint(path, {state}, options);
    if (loaded.ok() && fit.dataset != nullptr) {
      loaded = fit.dataset->CheckStart(fit.position, fit.model->num_replicas());
    }
    RINGLET_RETURN_IF_ERROR(loaded.Annotate(
        "%s cannot be resumed (remove it to start anew)", directory_.c_str()));
    if (fit.epoch < fit.epochs || (fit.epoch == fit.epochs && fit.step == 0)) {
      return Status();
    }
    return InvalidArgument("%s is of epoch %" PRId64 ", step %" PRId64
                           ", but the fit ends with epoch %" PRId64,
                           path.c_str(), fit.epoch + 1, fit.step + 1,
                           fit.epochs);
  }

  Status Save(FitState& fit) {
    RINGLET_RETURN_IF_ERROR(fit.model->CheckReplicas());
    RINGLET_RETURN_IF_ERROR(fit.model->GatherState());
    if (!fit.chief) return Status();
    if (fit.interrupted) {
      if (saver_ != nullptr) saver_->Wait();  // it may be looking at ends_
      ends_ = true;
    }
    if (checkpoints_ == nullptr) {
      saved_ = Open(&checkpoints_);
      if (!saved_.ok()) return ends_ ? NotSaved() : Status();
      Notice("note: backups are written to %s again", directory_.c_str());
      StartSaver();
    }
    RunState state(&fit);
    const Metadata metadata = DescribeRun(fit);
    if (saver_ == nullptr) {
      Saved(checkpoints_->Save({&state}, metadata));
      return ends_ && !saved_.ok() ? NotSaved() : Status();
    }
    if (options_.skip_when_busy && !fit.interrupted && saver_->busy()) {
      Notice(
          "warning: %s: the backup before is still being written; "
          "this one, of step %" PRId64 ", is left out",
          directory_.c_str(), fit.model->iterations());
      return Status();
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
  bool ends_ = false;  // the save is the last, for the fit was interrupted
  Status saved_;       // how the last save went; the saver's while it is busy
  // The saver uses the directory, and goes first.
  std::unique_ptr<CheckpointDirectory> checkpoints_;
  std::unique_ptr<BackgroundSaver> saver_;
};

}  // namespace

int ReplicasOfBackup(const std::string& backup_dir, FileSystem* files) {
  SafetensorsReader file;
  const Status status = OpenNewest(files, backup_dir, &file);
  return status.ok() ? ReplicasOf(file.metadata()) : 0;
}

std::shared_ptr<Callback> BackupAndRestore(
    const std::string& backup_dir, const BackupAndRestoreOptions& options) {
  return std::make_shared<BackupAndRestoreCallback>(backup_dir, options);
}

}  // namespace ringlet
