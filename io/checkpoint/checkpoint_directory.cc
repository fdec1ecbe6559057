// A crash at any point must leave the newest checkpoint that verified. So a
// file is made durable first, then the list. Only then older files are removed
// (Prune). An entry in the list counts only if its file exists. lock_ makes
// this process the only writer.

#include "checkpoint_directory.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "../../core/base/check.h"
#include "../../core/base/stable_sort.h"
#include "../files/atomic_file.h"
#include "checkpoint_list.h"
#include "ringlet/status.h"

namespace ringlet {

namespace {

constexpr int64_t kMaxStateBytes = 16 << 20;

Status CheckName(const std::string& name) {
  for (const char c : name) {
    if (c == '/' || c == '"' || static_cast<unsigned char>(c) < 0x20) {
      return InvalidArgument(
          "checkpoint_name '%s': may not hold '/', quotes "
          "or control characters",
          name.c_str());
    }
  }
  return name.empty() ? InvalidArgument("checkpoint_name is empty") : Status();
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(
    const std::string& directory, const CheckpointDirectoryOptions& options)
    : directory_(directory), options_(options) {}

Status CheckpointDirectory::Open(const std::string& directory,
                                 const CheckpointDirectoryOptions& options,
                                 std::unique_ptr<CheckpointDirectory>* out) {
  if (directory.empty()) {
    return InvalidArgument("the directory for checkpoints is empty (\"\")");
  }
  if (options.max_to_keep < 0 || options.keep_checkpoint_every_n_hours < 0) {
    return InvalidArgument(
        "%s: max_to_keep and keep_checkpoint_every_n_hours "
        "may not be negative",
        directory.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckName(options.checkpoint_name));
  std::unique_ptr<CheckpointDirectory> opened(
      new CheckpointDirectory(directory, options));
  RINGLET_RETURN_IF_ERROR(options.files->MakeFolder(directory));
  RINGLET_RETURN_IF_ERROR(options.files->LockFolder(directory, &opened->lock_));
  RINGLET_RETURN_IF_ERROR(opened->Recover());
  *out = std::move(opened);
  return Status();
}

Status CheckpointDirectory::Recover() {
  FileSystem* const files = options_.files;
  CheckpointListing listing;
  NewestCheckpoint newest;
  RINGLET_RETURN_IF_ERROR(
      ListCheckpoints(files, directory_, options_.checkpoint_name, &listing));
  for (const std::string& name : listing.temporary_files) {
    const Status status = files->Remove(directory_ + "/" + name);
    if (!status.ok()) Warn(status.message());
  }
  RINGLET_RETURN_IF_ERROR(FindNewestCheckpoint(
      files, directory_, options_.checkpoint_name, listing, &newest));
  for (const auto& [number, why] : newest.damaged) {
    const std::string path = PathOf(number);
    const Status status = files->Rename(path, path + kBadCheckpointSuffix);
    Warn(std::string(why.message()) + ". Using an older checkpoint; " +
         (status.ok() ? "this one is now " + path + kBadCheckpointSuffix
                      : std::string(status.message())));
  }
  latest_ = newest.number;
  last_number_ = listing.highest;
  listing.numbers.resize(listing.numbers.size() - newest.damaged.size());
  AdoptState(listing.numbers);
  return Status();
}

// Decides which of the found files max_to_keep counts. With
// keep_checkpoint_every_n_hours a file that the list lacks was preserved if the
// list has a newer one.
void CheckpointDirectory::AdoptState(const std::vector<int64_t>& found) {
  const double now = Now();
  CheckpointState state;
  std::string text;
  const Status read =
      ReadWholeFile(options_.files, directory_ + "/" + kCheckpointStateName,
                    kMaxStateBytes, &text);
  const bool parsed = read.ok() && CheckpointState::Parse(text, &state);
  if (!parsed && read.code() != Code::kNotFound) {
    Warn(directory_ + "/" + kCheckpointStateName +
         ": cannot be used; using the files in the directory instead");
    state = CheckpointState();
  }
  last_preserved_ = parsed ? state.last_preserved : now - 1;
  if (last_preserved_ > now) {
    Warn(directory_ + ": the clock was set back by " +
         CheckpointState::TimestampText(last_preserved_ - now) +
         " s since the last checkpoint");
    last_preserved_ = now;
  }
  int64_t newest_listed = 0;
  for (size_t i = 0; i < state.paths.size(); ++i) {
    const int64_t number =
        CheckpointNumber(state.paths[i], options_.checkpoint_name);
    newest_listed = std::max(newest_listed, number);
    if (std::binary_search(found.begin(), found.end(), number)) {
      kept_.push_back({number, std::min(state.seconds[i], now)});
    }
  }
  size_t unlisted_to_skip = 0;
  if (!parsed && options_.keep_checkpoint_every_n_hours > 0 &&
      found.size() > static_cast<size_t>(options_.max_to_keep)) {
    unlisted_to_skip = found.size() - options_.max_to_keep;
  }
  for (size_t i = unlisted_to_skip; i < found.size(); ++i) {
    const bool listed =
        std::any_of(kept_.begin(), kept_.end(),
                    [&](const Kept& k) { return k.number == found[i]; });
    const bool preserved =
        options_.keep_checkpoint_every_n_hours > 0 && found[i] < newest_listed;
    if (!listed && !preserved) kept_.push_back({found[i], now});
  }
  StableSort(&kept_,
             [](const Kept& a, const Kept& b) { return a.number < b.number; });
}

Status CheckpointDirectory::Save(const Saveables& state,
                                 const Metadata& metadata, int64_t number) {
  if (number == 0) number = last_number_ + 1;
  if (number < std::max<int64_t>(latest_, 1) ||
      number >= kMaxCheckpointNumber) {
    return InvalidArgument("%s: checkpoint number %" PRId64
                           " is below the latest, %" PRId64 ", or too large",
                           directory_.c_str(), number, latest_);
  }
  const std::string path = PathOf(number);
  bool replaced = false;
  const Status saved = SaveCheckpoint(
      path, state, metadata, {options_.weights, options_.files}, &replaced);
  if (replaced) Keep(number);
  RINGLET_RETURN_IF_ERROR(saved);
  latest_ = number;
  Prune();
  return Status();
}

void CheckpointDirectory::Keep(int64_t number) {
  last_number_ = std::max(last_number_, number);
  const auto same = [number](const Kept& k) { return k.number == number; };
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), same), kept_.end());
  kept_.push_back({number, std::max(Now(), last_preserved_)});
}

// Chooses the files to remove, writes the list of the remaining files, and then
// removes the chosen files. A crash in between leaves a file too many, never a
// file too few.
void CheckpointDirectory::Prune() {
  std::vector<Kept> swept;
  const size_t max_kept = static_cast<size_t>(options_.max_to_keep);
  const double apart = options_.keep_checkpoint_every_n_hours * 3600;
  while (max_kept > 0 && kept_.size() > max_kept) {
    const Kept oldest = kept_.front();
    kept_.erase(kept_.begin());
    if (apart > 0 && oldest.seconds - apart >= last_preserved_) {
      last_preserved_ = oldest.seconds;
    } else {
      swept.push_back(oldest);
    }
  }
  const Status listed = WriteState();
  if (!listed.ok()) Warn(listed.message());
  for (auto s = swept.rbegin(); s != swept.rend(); ++s) {
    RINGLET_CHECK(s->number != latest_);
    const Status removed = options_.files->Remove(PathOf(s->number));
    if (removed.ok() || removed.code() == Code::kNotFound) continue;
    Warn(removed.message());
    kept_.insert(kept_.begin(), *s);  // tried again later
  }
}

Status CheckpointDirectory::Clear() {
  FileSystem* const files = options_.files;
  CheckpointListing listing;
  RINGLET_RETURN_IF_ERROR(
      ListCheckpoints(files, directory_, options_.checkpoint_name, &listing));
  for (const std::string& name : listing.set_aside) {
    const Status removed = files->Remove(directory_ + "/" + name);
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  // Makes the removal durable before checkpoints are removed. Otherwise a crash
  // could leave only a bad file.
  if (!listing.set_aside.empty()) {
    RINGLET_RETURN_IF_ERROR(files->SyncFolder(directory_));
  }
  while (!kept_.empty()) {
    const Status removed = files->Remove(PathOf(kept_.front().number));
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
    kept_.erase(kept_.begin());
  }
  latest_ = 0;
  const Status removed = files->Remove(directory_ + "/" + kCheckpointStateName);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  return files->SyncFolder(directory_);
}

Status CheckpointDirectory::WriteState() {
  CheckpointState state;
  state.latest = CheckpointFileName(options_.checkpoint_name, latest_);
  for (const Kept& kept : kept_) {
    state.paths.push_back(
        CheckpointFileName(options_.checkpoint_name, kept.number));
    state.seconds.push_back(kept.seconds);
  }
  state.last_preserved = last_preserved_;
  return WriteWholeFile(options_.files, directory_ + "/" + kCheckpointStateName,
                        state.ToText());
}

std::string CheckpointDirectory::latest() const {
  return latest_ == 0 ? "" : PathOf(latest_);
}

std::vector<std::string> CheckpointDirectory::checkpoints() const {
  std::vector<std::string> paths;
  for (const Kept& kept : kept_) paths.push_back(PathOf(kept.number));
  return paths;
}

std::string CheckpointDirectory::PathOf(int64_t number) const {
  return directory_ + "/" +
         CheckpointFileName(options_.checkpoint_name, number);
}

double CheckpointDirectory::Now() const {
  return static_cast<double>(options_.clock->WallNanos()) * 1e-9;
}

void CheckpointDirectory::Warn(const std::string& message) const {
  if (options_.warn) {
    options_.warn(message);
  } else {
    Notice("warning: %s", message.c_str());
  }
}

}  // namespace ringlet
