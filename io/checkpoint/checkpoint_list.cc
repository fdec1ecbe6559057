// Names are parsed strictly: a file with a number in another notation is not a
// checkpoint, and stays. If this machine cannot verify a file, for lack of
// memory or permissions, that is an error. An older checkpoint is chosen only
// if the newer file itself is damaged.

#include "checkpoint_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "../../core/base/json.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "../files/atomic_file.h"
#include "ringlet/checkpoint.h"

namespace ringlet {

namespace {

constexpr char kSuffix[] = ".safetensors";

// True for errors of the file, not of this machine's present state.
bool IsDamagedFile(const Status& status) {
  return status.code() == Code::kCorruption || status.code() == Code::kIo ||
         status.code() == Code::kInvalidArgument;
}

Status VerifyPatiently(FileSystem* files, const std::string& path) {
  const Status first = VerifyCheckpoint(path, files);
  if (first.ok() || !IsDamagedFile(first)) return first;
  // The error may have been temporary.
  return VerifyCheckpoint(path, files);
}

// std::from_chars for doubles needs tables of 31 kB (core/base/number_text.h).
bool ParseSeconds(const std::string& text, double* seconds) {
  Json json;
  if (!Json::Parse(text, "seconds", &json).ok() || !json.is_number()) {
    return false;
  }
  *seconds = json.number();
  return std::isfinite(*seconds);
}

}  // namespace

std::string CheckpointFileName(const std::string& name, int64_t number) {
  return name + "-" + std::to_string(number) + kSuffix;
}

int64_t CheckpointNumber(const std::string& file_name,
                         const std::string& name) {
  if (!StartsWith(file_name, name + "-")) return 0;
  int64_t number = 0;
  std::from_chars(file_name.data() + name.size() + 1,
                  file_name.data() + file_name.size(), number);
  // Each number has one name, and a greater number always remains.
  const bool valid = number > 0 && number < kMaxCheckpointNumber &&
                     CheckpointFileName(name, number) == file_name;
  return valid ? number : 0;
}

Status ListCheckpoints(FileSystem* files, const std::string& directory,
                       const std::string& name, CheckpointListing* listing) {
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(files->List(directory, &names));
  for (const std::string& entry : names) {
    const std::string target = AtomicFile::TargetOf(entry);
    const int64_t number = CheckpointNumber(entry, name);
    if (number > 0) {
      listing->numbers.push_back(number);
    } else if (target == kCheckpointStateName ||
               CheckpointNumber(target, name) > 0) {
      listing->temporary_files.push_back(entry);
    } else if (EndsWith(entry, kBadCheckpointSuffix)) {
      const int64_t bad =
          CheckpointNumber(WithoutSuffix(entry, kBadCheckpointSuffix), name);
      if (bad == 0) continue;
      listing->set_aside.push_back(entry);
      listing->highest = std::max(listing->highest, bad);
    }
  }
  std::sort(listing->numbers.begin(), listing->numbers.end());
  if (!listing->numbers.empty()) {
    listing->highest = std::max(listing->highest, listing->numbers.back());
  }
  return Status();
}

Status FindNewestCheckpoint(FileSystem* files, const std::string& directory,
                            const std::string& name,
                            const CheckpointListing& listing,
                            NewestCheckpoint* newest) {
  const std::vector<int64_t>& numbers = listing.numbers;
  for (auto n = numbers.rbegin(); n != numbers.rend(); ++n) {
    const Status status =
        VerifyPatiently(files, directory + "/" + CheckpointFileName(name, *n));
    if (status.ok()) {
      newest->number = *n;
      return Status();
    }
    if (!IsDamagedFile(status)) return status;
    newest->damaged.emplace_back(*n, status);
  }
  constexpr char kAdvice[] =
      "Bring one back from a copy, or empty the directory to start again";
  if (!newest->damaged.empty()) {
    return Corruption(
        "%s: has %zu checkpoints, none of which can be used: %s. "
        "%s",
        directory.c_str(), newest->damaged.size(),
        newest->damaged.front().second.message(), kAdvice);
  }
  if (!listing.set_aside.empty()) {
    return Corruption("%s: has only a damaged checkpoint, %s. %s",
                      directory.c_str(), listing.set_aside.front().c_str(),
                      kAdvice);
  }
  return Status();
}

std::string CheckpointState::TimestampText(double seconds) {
  return ShortestText(seconds);
}

std::string CheckpointState::ToText() const {
  const auto quoted = [](const std::string& path) {
    return ": \"" + path + "\"\n";
  };
  std::string text = "model_checkpoint_path" + quoted(latest);
  for (const std::string& path : paths) {
    text += "all_model_checkpoint_paths" + quoted(path);
  }
  for (const double saved : seconds) {
    text += "all_model_checkpoint_timestamps: " + TimestampText(saved) + "\n";
  }
  return text + "last_preserved_timestamp: " + TimestampText(last_preserved) +
         "\n";
}

bool CheckpointState::Parse(const std::string& text, CheckpointState* state) {
  std::string_view rest = text;
  for (std::string line; TakeLine(&rest, &line);) {
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

Status LatestCheckpoint(const std::string& directory, std::string* path,
                        const std::string& checkpoint_name, FileSystem* files) {
  path->clear();
  constexpr int kTries = 100;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    CheckpointListing listing;
    NewestCheckpoint newest;
    status = ListCheckpoints(files, directory, checkpoint_name, &listing);
    if (status.code() == Code::kNotFound) return Status();
    RINGLET_RETURN_IF_ERROR(status);
    status = FindNewestCheckpoint(files, directory, checkpoint_name, listing,
                                  &newest);
    // A writer has removed the file after the listing. Then there is a newer
    // file.
    if (status.code() == Code::kNotFound) continue;
    RINGLET_RETURN_IF_ERROR(status);
    if (newest.number > 0) {
      *path =
          directory + "/" + CheckpointFileName(checkpoint_name, newest.number);
    }
    return Status();
  }
  return status;
}

}  // namespace ringlet
