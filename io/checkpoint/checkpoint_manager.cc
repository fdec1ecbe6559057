#include "ringlet/checkpoint.h"

#include "checkpoint_directory.h"

namespace ringlet {

CheckpointManager::CheckpointManager(const Saveables& state,
                                     const std::string& directory,
                                     const CheckpointManagerOptions& options)
    : state_(state), directory_(directory), options_(options) {
  if (options.checkpoint_interval < 0 ||
      (options.checkpoint_interval > 0 && options.step_counter == nullptr)) {
    status_ = InvalidArgument(
        "%s: `step_counter` should be passed if `checkpoint_interval`, which "
        "may not be negative, is given",
        directory.c_str());
    return;
  }
  CheckpointDirectoryOptions opening;
  opening.checkpoint_name = options.checkpoint_name;
  opening.max_to_keep = options.max_to_keep;
  opening.keep_checkpoint_every_n_hours = options.keep_checkpoint_every_n_hours;
  opening.weights = options.weights;
  opening.files = options.files;
  opening.clock = options.clock;
  opening.warn = options.warn;
  status_ = CheckpointDirectory::Open(directory, opening, &checkpoints_);
}

CheckpointManager::~CheckpointManager() = default;

bool CheckpointManager::TooSoon(bool check_interval) const {
  if (options_.checkpoint_interval == 0 || !has_last_step_) return false;
  const int64_t step = *options_.step_counter;
  return step == last_step_ ||
         (check_interval && step < last_step_ + options_.checkpoint_interval);
}

Status CheckpointManager::Save(std::string* path, bool check_interval,
                               int64_t checkpoint_number) {
  if (path != nullptr) path->clear();
  RINGLET_RETURN_IF_ERROR(status_);
  if (TooSoon(check_interval)) return Status();
  RINGLET_RETURN_IF_ERROR(
      checkpoints_->Save(state_, options_.metadata, checkpoint_number));
  RememberStep();
  if (path != nullptr) *path = checkpoints_->latest();
  return Status();
}

Status CheckpointManager::RestoreOrInitialize(std::string* path) {
  if (path != nullptr) path->clear();
  RINGLET_RETURN_IF_ERROR(status_);
  const std::string latest = checkpoints_->latest();
  if (latest.empty()) return options_.init_fn ? options_.init_fn() : Status();
  LoadOptions loading;
  loading.files = options_.files;
  LoadedCheckpoint loaded;
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(latest, state_, loading, &loaded));
  restored_metadata_ = loaded.metadata;
  RememberStep();
  if (path != nullptr) *path = latest;
  return Status();
}

void CheckpointManager::RememberStep() {
  if (options_.checkpoint_interval == 0) return;
  has_last_step_ = true;
  last_step_ = *options_.step_counter;
}

std::string CheckpointManager::latest_checkpoint() const {
  return checkpoints_ == nullptr ? "" : checkpoints_->latest();
}

std::vector<std::string> CheckpointManager::checkpoints() const {
  return checkpoints_ == nullptr ? std::vector<std::string>()
                                 : checkpoints_->checkpoints();
}

}  // namespace ringlet
