#include "ringlet/checkpoint.h"

#include "checkpoint_directory.h"

namespace ringlet {

struct CheckpointManager::Impl {
  bool TooSoon(bool check_interval) const;
  void RememberStep();

  const Saveables state;
  const std::string directory;
  const CheckpointManagerOptions options;
  Status status = {};
  std::unique_ptr<CheckpointDirectory> checkpoints = nullptr;
  Metadata restored_metadata = {};
  bool has_last_step = false;
  int64_t last_step = 0;
};

CheckpointManager::CheckpointManager(const Saveables& state,
                                     const std::string& directory,
                                     const CheckpointManagerOptions& options)
    : impl_(std::make_unique<Impl>(Impl{state, directory, options})) {
  Impl& m = *impl_;
  if (options.checkpoint_interval < 0 ||
      (options.checkpoint_interval > 0 && options.step_counter == nullptr)) {
    m.status = InvalidArgument(
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
  m.status = CheckpointDirectory::Open(directory, opening, &m.checkpoints);
}

CheckpointManager::~CheckpointManager() = default;

bool CheckpointManager::Impl::TooSoon(bool check_interval) const {
  if (options.checkpoint_interval == 0 || !has_last_step) return false;
  const int64_t step = *options.step_counter;
  return step == last_step ||
         (check_interval && step < last_step + options.checkpoint_interval);
}

Status CheckpointManager::Save(std::string* path, bool check_interval) {
  Impl& m = *impl_;
  if (path != nullptr) path->clear();
  RINGLET_RETURN_IF_ERROR(m.status);
  if (m.TooSoon(check_interval)) return Status();
  RINGLET_RETURN_IF_ERROR(m.checkpoints->Save(m.state, m.options.metadata));
  m.RememberStep();
  if (path != nullptr) *path = m.checkpoints->latest();
  return Status();
}

Status CheckpointManager::RestoreOrInitialize(std::string* path) {
  Impl& m = *impl_;
  if (path != nullptr) path->clear();
  RINGLET_RETURN_IF_ERROR(m.status);
  const std::string latest = m.checkpoints->latest();
  if (latest.empty()) return m.options.init_fn ? m.options.init_fn() : Status();
  LoadOptions loading;
  loading.files = m.options.files;
  LoadedCheckpoint loaded;
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(latest, m.state, loading, &loaded));
  m.restored_metadata = loaded.metadata;
  m.RememberStep();
  if (path != nullptr) *path = latest;
  return Status();
}

void CheckpointManager::Impl::RememberStep() {
  if (options.checkpoint_interval == 0) return;
  has_last_step = true;
  last_step = *options.step_counter;
}

const Status& CheckpointManager::status() const { return impl_->status; }
const std::string& CheckpointManager::directory() const {
  return impl_->directory;
}
const Metadata& CheckpointManager::restored_metadata() const {
  return impl_->restored_metadata;
}

std::string CheckpointManager::latest_checkpoint() const {
  return impl_->checkpoints == nullptr ? "" : impl_->checkpoints->latest();
}

std::vector<std::string> CheckpointManager::checkpoints() const {
  return impl_->checkpoints == nullptr ? std::vector<std::string>()
                                       : impl_->checkpoints->checkpoints();
}

}  // namespace ringlet
