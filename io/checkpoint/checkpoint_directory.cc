#include "checkpoint_directory.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "../../core/base/message.h"
#include "../../core/base/text.h"

namespace ringlet {

namespace {

constexpr char kSuffix[] = ".safetensors";
constexpr char kBadSuffix[] = ".bad";
constexpr char kStateName[] = "checkpoint";
constexpr int64_t kMostStateBytes = 16 << 20;
constexpr int64_t kMostNumber = int64_t{1} << 53;

std::string FileName(const std::string& name, int64_t number) {
  return name + "-" + std::to_string(number) + kSuffix;
}

// 7 of "ckpt-7.safetensors"; 0 of any other name.
int64_t NumberOf(const std::string& file_name, const std::string& name) {
  if (!StartsWith(file_name, name + "-")) return 0;
  int64_t number = 0;
  std::from_chars(file_name.data() + name.size() + 1,
                  file_name.data() + file_name.size(), number);
  // One number has one name, and there is always a next one.
  const bool valid =
      number > 0 && number < kMostNumber && FileName(name, number) == file_name;
  return valid ? number : 0;
}

struct Listing {
  std::vector<int64_t> numbers;   // ascending
  std::vector<std::string> bad;   // names of files set aside
  std::vector<std::string> left;  // names of temporary files
  int64_t highest = 0;            // of numbers and bad
};

Status ListDirectory(FileSystem* files, const std::string& directory,
                     const std::string& name, Listing* listing) {
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(files->List(directory, &names));
  const size_t bad_bytes = sizeof(kBadSuffix) - 1;
  for (const std::string& entry : names) {
    const std::string target = AtomicFile::TargetOf(entry);
    const int64_t number = NumberOf(entry, name);
    if (number > 0) {
      listing->numbers.push_back(number);
    } else if (target == kStateName || NumberOf(target, name) > 0) {
      listing->left.push_back(entry);
    } else if (entry.size() > bad_bytes) {
      const size_t stem = entry.size() - bad_bytes;
      const int64_t bad = NumberOf(entry.substr(0, stem), name);
      if (bad == 0 || entry.compare(stem, bad_bytes, kBadSuffix) != 0) continue;
      listing->bad.push_back(entry);
      listing->highest = std::max(listing->highest, bad);
    }
  }
  std::sort(listing->numbers.begin(), listing->numbers.end());
  if (!listing->numbers.empty()) {
    listing->highest = std::max(listing->highest, listing->numbers.back());
  }
  return Status();
}

// What says something about the file, not about this machine at this moment.
bool IsFilesFault(const Status& status) {
  return status.code() == Code::kCorruption || status.code() == Code::kIo ||
         status.code() == Code::kInvalidArgument;
}

Status VerifyPatiently(FileSystem* files, const std::string& path) {
  const Status first = VerifyCheckpoint(path, files);
  if (first.ok() || !IsFilesFault(first)) return first;
  // A disk that failed once may answer now.
  return VerifyCheckpoint(path, files);
}

struct Newest {
  int64_t number = 0;
  std::vector<std::pair<int64_t, Status>> bad;  // the newer ones
};

// The newest of `listing` that verifies, or an error that names what is wrong
// with the newest.
Status FindNewest(FileSystem* files, const std::string& directory,
                  const std::string& name, const Listing& listing,
                  Newest* newest) {
  const std::vector<int64_t>& numbers = listing.numbers;
  for (auto n = numbers.rbegin(); n != numbers.rend(); ++n) {
    const Status status =
        VerifyPatiently(files, directory + "/" + FileName(name, *n));
    if (status.ok()) {
      newest->number = *n;
      return Status();
    }
    if (!IsFilesFault(status)) return status;
    newest->bad.emplace_back(*n, status);
  }
  constexpr char kAdvice[] =
      "Bring one back from a copy, or empty the directory to start anew";
  if (!newest->bad.empty()) {
    return Corruption(
        "%s: has %zu checkpoints, none of which can be used: %s. "
        "%s",
        directory.c_str(), newest->bad.size(),
        newest->bad.front().second.message(), kAdvice);
  }
  if (!listing.bad.empty()) {
    return Corruption("%s: has only a damaged checkpoint, %s. %s",
                      directory.c_str(), listing.bad.front().c_str(), kAdvice);
  }
  return Status();
}

// The text form of TensorFlow's CheckpointState.
struct StateFile {
  std::vector<std::string> paths;  // relative, oldest first
  std::vector<double> seconds;
  double last_preserved = 0;
};

std::string SecondsText(double seconds) {
  char text[64];
  return std::string(text,
                     std::to_chars(text, text + sizeof(text), seconds).ptr);
}

bool ParseSeconds(const std::string& text, double* seconds) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *seconds);
  return result.ec == std::errc() && result.ptr == end;
}

// Unknown keys pass; false where a line is none of the format.
bool ParseState(const std::string& text, StateFile* state) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) return false;
    const std::string key = line.substr(0, colon);
    const std::string value = line.substr(colon + 2);
    double seconds = 0;
    if (key == "all_model_checkpoint_paths") {
      if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
        return false;
      }
      state->paths.push_back(value.substr(1, value.size() - 2));
    } else if (key == "all_model_checkpoint_timestamps") {
      if (!ParseSeconds(value, &seconds)) return false;
      state->seconds.push_back(seconds);
    } else if (key == "last_preserved_timestamp") {
      if (!ParseSeconds(value, &state->last_preserved)) return false;
    }
  }
  return state->seconds.size() == state->paths.size();
}

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

Status LatestCheckpoint(const std::string& directory, std::string* path,
                        const std::string& checkpoint_name, FileSystem* files) {
  path->clear();
  constexpr int kTries = 100;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    Listing listing;
    Newest newest;
    status = ListDirectory(files, directory, checkpoint_name, &listing);
    if (status.code() == Code::kNotFound) return Status();
    RINGLET_RETURN_IF_ERROR(status);
    status = FindNewest(files, directory, checkpoint_name, listing, &newest);
    // A writer removed it behind the listing; then there is a newer one.
    if (status.code() == Code::kNotFound) continue;
    RINGLET_RETURN_IF_ERROR(status);
    if (newest.number > 0) {
      *path = directory + "/" + FileName(checkpoint_name, newest.number);
    }
    return Status();
  }
  return status;
}

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
  RINGLET_RETURN_IF_ERROR(options.files->MakeDirectory(directory));
  RINGLET_RETURN_IF_ERROR(
      options.files->LockDirectory(directory, &opened->lock_));
  RINGLET_RETURN_IF_ERROR(opened->Recover());
  *out = std::move(opened);
  return Status();
}

Status CheckpointDirectory::Recover() {
  FileSystem* const files = options_.files;
  Listing listing;
  Newest newest;
  RINGLET_RETURN_IF_ERROR(
      ListDirectory(files, directory_, options_.checkpoint_name, &listing));
  for (const std::string& name : listing.left) {
    const Status status = files->Remove(directory_ + "/" + name);
    if (!status.ok()) Warn(status.message());
  }
  RINGLET_RETURN_IF_ERROR(FindNewest(
      files, directory_, options_.checkpoint_name, listing, &newest));
  for (const auto& [number, why] : newest.bad) {
    const std::string path = PathOf(number);
    const Status status = files->Rename(path, path + kBadSuffix);
    Warn(std::string(why.message()) + ". Using an older checkpoint; " +
         (status.ok() ? "this one is now " + path + kBadSuffix
                      : std::string(status.message())));
  }
  latest_ = newest.number;
  last_number_ = listing.highest;
  listing.numbers.resize(listing.numbers.size() - newest.bad.size());
  AdoptState(listing.numbers);
  return Status();
}

// Decides which of the files that were found max_to_keep is to count. What the
// state file does not list although it lists a newer one was preserved by
// keep_checkpoint_every_n_hours, where that is asked for.
void CheckpointDirectory::AdoptState(const std::vector<int64_t>& found) {
  const double now = Now();
  StateFile state;
  std::string text;
  const Status read = ReadWholeFile(
      options_.files, directory_ + "/" + kStateName, kMostStateBytes, &text);
  const bool parsed = read.ok() && ParseState(text, &state);
  if (!parsed && read.code() != Code::kNotFound) {
    Warn(directory_ + "/" + kStateName +
         ": cannot be used; going by the files that are there");
    state = StateFile();
  }
  last_preserved_ = parsed ? state.last_preserved : now - 1;
  if (last_preserved_ > now) {
    Warn(directory_ + ": the clock was set back by " +
         SecondsText(last_preserved_ - now) + " s since the last checkpoint");
    last_preserved_ = now;
  }
  int64_t newest_listed = 0;
  for (size_t i = 0; i < state.paths.size(); ++i) {
    const int64_t number = NumberOf(state.paths[i], options_.checkpoint_name);
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
  std::sort(kept_.begin(), kept_.end(),
            [](const Kept& a, const Kept& b) { return a.number < b.number; });
}

Status CheckpointDirectory::Save(const Saveables& state,
                                 const Metadata& metadata, int64_t number) {
  if (number == 0) number = last_number_ + 1;
  if (number < std::max<int64_t>(latest_, 1) || number >= kMostNumber) {
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

// Decides what goes, lists what stays, removes. A crash between the two leaves
// a file too many, never one too few.
void CheckpointDirectory::Prune() {
  std::vector<Kept> swept;
  const size_t most = static_cast<size_t>(options_.max_to_keep);
  const double apart = options_.keep_checkpoint_every_n_hours * 3600;
  while (most > 0 && kept_.size() > most) {
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
    kept_.insert(kept_.begin(), *s);  // to be tried again
  }
}

Status CheckpointDirectory::Clear() {
  FileSystem* const files = options_.files;
  Listing listing;
  RINGLET_RETURN_IF_ERROR(
      ListDirectory(files, directory_, options_.checkpoint_name, &listing));
  for (const std::string& name : listing.bad) {
    const Status removed = files->Remove(directory_ + "/" + name);
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  // Were one to come back with no checkpoint beside it, it would be all there
  // is.
  if (!listing.bad.empty()) {
    RINGLET_RETURN_IF_ERROR(files->SyncDirectory(directory_));
  }
  while (!kept_.empty()) {
    const Status removed = files->Remove(PathOf(kept_.front().number));
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
    kept_.erase(kept_.begin());
  }
  latest_ = 0;
  const Status removed = files->Remove(directory_ + "/" + kStateName);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  return files->SyncDirectory(directory_);
}

Status CheckpointDirectory::WriteState() {
  const auto quoted = [this](int64_t number) {
    return ": \"" + FileName(options_.checkpoint_name, number) + "\"\n";
  };
  std::string text = "model_checkpoint_path" + quoted(latest_);
  for (const Kept& kept : kept_) {
    text += "all_model_checkpoint_paths" + quoted(kept.number);
  }
  for (const Kept& kept : kept_) {
    text +=
        "all_model_checkpoint_timestamps: " + SecondsText(kept.seconds) + "\n";
  }
  text += "last_preserved_timestamp: " + SecondsText(last_preserved_) + "\n";
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(options_.files,
                                    directory_ + "/" + kStateName,
                                    static_cast<int64_t>(text.size())));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(text.data(), text.size()));
  return file.Commit();
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
  return directory_ + "/" + FileName(options_.checkpoint_name, number);
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
