// The state has room for the largest number of files, and one record of fixed
// size each. The chief makes the record and broadcasts it, so all ranks keep
// equal lists although only the chief sees the files. The lists come from
// backups too: Remove trusts a path only if name and checksum fit.

#include "kept_files.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "../../core/base/crc32c.h"
#include "../../core/base/text.h"
#include "../files/path.h"

namespace ringlet {
namespace {

// The end of a file has the checksums of its tensors. This many bytes have the
// checksums of a thousand tensors.
constexpr int64_t kTailBytes = 4096;

constexpr size_t kCheckBytes = 16;  // the length of Check's text

std::string RecordOf(const std::string& path, const std::string& check,
                     bool is_best) {
  return (is_best ? "b " : "- ") + check + " " + path;
}

}  // namespace

// The best file is kept besides the `max_kept` newest. The size of the state
// does not depend on `max_kept`, so that a run may resume with a different one.
KeptFiles::KeptFiles(int max_kept, std::string pattern, FileSystem* files)
    : most_(static_cast<size_t>(std::clamp(max_kept, 0, kMax))),
      pattern_(std::move(pattern)),
      files_(*files),
      state_(most_ == 0 ? 0 : (kMax + 1) * kRecord) {}

Status KeptFiles::Add(const std::string& path, bool is_best, bool is_chief,
                      Collective* collective) {
  if (most_ == 0) return Status();
  char record[kRecord] = {};
  if (is_chief) {
    std::string check;
    const Status read = Check(path, &check);
    const std::string text = RecordOf(path, check, is_best);
    if (read.ok() && text.size() < kRecord) {
      std::memcpy(record, text.data(), text.size());
    } else {
      Notice("warning: %s will not be removed when it is old: %s", path.c_str(),
             read.ok() ? "its name is long" : read.message());
    }
  }
  RINGLET_RETURN_IF_ERROR(
      collective->Broadcast(record, sizeof(record), /*root=*/0));
  record[kRecord - 1] = '\0';
  const std::string text = record;
  if (text.size() < kCheckBytes + 3) return Status();
  std::vector<Written> too_old;
  RecordFile({text.substr(kCheckBytes + 3), text.substr(2, kCheckBytes),
              text[0] == 'b'},
             &too_old);
  WriteState();
  for (const Written& written : too_old) {
    if (is_chief) Remove(written);
  }
  return Status();
}

void KeptFiles::RecordFile(const Written& written,
                           std::vector<Written>* too_old) {
  const auto same = [&](const Written& earlier) {
    return earlier.path == written.path;
  };
  written_.erase(std::remove_if(written_.begin(), written_.end(), same),
                 written_.end());
  for (Written& earlier : written_) earlier.is_best &= !written.is_best;
  written_.push_back(written);
  for (size_t i = 0; written_.size() > most_ && i + 1 < written_.size();) {
    if (written_[i].is_best) {
      ++i;
      continue;
    }
    too_old->push_back(written_[i]);
    written_.erase(written_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void KeptFiles::Remove(const Written& written) const {
  std::string check;
  Status status = Check(written.path, &check);
  if (status.code() == Code::kNotFound) return;
  if (status.ok() && (check != written.check || !FitsPattern(written.path))) {
    Notice("note: %s is not the file that ModelCheckpoint wrote, and stays",
           written.path.c_str());
    return;
  }
  if (status.ok()) status = files_.Remove(written.path);
  if (status.ok()) return RemoveEmptyFolders(written.path);
  if (status.code() == Code::kNotFound) return;
  Notice("warning: an old file of ModelCheckpoint stays: %s", status.message());
}

Status KeptFiles::Check(const std::string& path, std::string* check) const {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files_.Open(path, &file));
  int64_t bytes = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&bytes));
  const int64_t begin = std::max<int64_t>(bytes - kTailBytes, 0);
  std::vector<unsigned char> tail(static_cast<size_t>(bytes - begin));
  RINGLET_RETURN_IF_ERROR(file->Read(begin, tail.data(), tail.size()));
  *check = HexText(static_cast<uint64_t>(bytes) << 32 |
                   Crc32c(tail.data(), tail.size()));
  return Status();
}

// Removes the empty folders that the pattern's fields have named.
void KeptFiles::RemoveEmptyFolders(const std::string& path) const {
  const size_t fixed = FixedFolders();
  for (std::string folder = FolderOf(path); folder.size() > fixed;
       folder = FolderOf(folder)) {
    if (!files_.Remove(folder + "/").ok()) return;
  }
}

// The length of the pattern's folders that have no field.
size_t KeptFiles::FixedFolders() const {
  return pattern_.substr(0, pattern_.find('{')).rfind('/') + 1;
}

// A path fits if it begins with the text before the pattern's first field, and
// ends with the text after its last. The part between must not lead out of the
// folder ("..").
bool KeptFiles::FitsPattern(const std::string& path) const {
  const size_t first = pattern_.find('{'), last = pattern_.rfind('}');
  if (first == std::string::npos || last == std::string::npos) {
    return path == pattern_;
  }
  return StartsWith(path, pattern_.substr(0, first)) &&
         EndsWith(path, pattern_.substr(last + 1)) &&
         ("/" + path.substr(FixedFolders())).find("/../") == std::string::npos;
}

// --- the state ---------------------------------------------------------------

void KeptFiles::WriteState() {
  std::fill(state_.begin(), state_.end(), static_cast<unsigned char>(0));
  unsigned char* at = state_.data();
  for (const Written& file : written_) {
    const std::string text = RecordOf(file.path, file.check, file.is_best);
    std::copy(text.begin(), text.end(), at);
    at += kRecord;
  }
}

void KeptFiles::AppendState(const std::string& name,
                            std::vector<StateSpan>* spans) {
  if (state_.empty()) return;
  spans->push_back({name,
                    DType::kUint8,
                    {static_cast<int64_t>(state_.size())},
                    state_.data(),
                    /*optional=*/true});
}

Status KeptFiles::StateLoaded() {
  written_.clear();
  bool has_best = false;
  for (size_t i = 0; i < state_.size(); i += kRecord) {
    const auto* const begin = reinterpret_cast<const char*>(&state_[i]);
    const std::string text(begin, strnlen(begin, kRecord));
    if (text.empty()) break;
    const bool is_best = text[0] == 'b';
    if (text.size() < kCheckBytes + 4 || text.size() == kRecord ||
        (is_best && has_best)) {
      return Corruption("the list of ModelCheckpoint's files is damaged");
    }
    written_.push_back(
        {text.substr(kCheckBytes + 3), text.substr(2, kCheckBytes), is_best});
    has_best |= is_best;
  }
  return Status();
}

}  // namespace ringlet
