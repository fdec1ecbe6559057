// AtomicFile: the temporary name is unique among processes and threads, and its
// file is locked. So the files of interrupted writers are recognized by their
// free lock, and are removed. Commit syncs the file, renames it and syncs the
// folder; only then is it durable.

#include "atomic_file.h"

#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <vector>

#include "../../core/base/check.h"
#include "../../core/base/text.h"
#include "path.h"

namespace ringlet {

namespace {

constexpr char kTemporarySuffix[] = ".tmp";

// "<name>.<process>-<count>.tmp": no two writers share one.
std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + "." + std::to_string(getpid()) + "-" +
         std::to_string(count.fetch_add(1)) + kTemporarySuffix;
}

}  // namespace

Status ReadWholeFile(FileSystem* files, const std::string& path, int64_t limit,
                     std::string* bytes) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  int64_t size = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&size));
  if (size > limit) {
    return Corruption("%s: %" PRId64 " bytes, more than the %" PRId64
                      " that such a file may have",
                      path.c_str(), size, limit);
  }
  bytes->resize(static_cast<size_t>(size));
  return file->Read(0, &(*bytes)[0], bytes->size());
}

Status ReadUpTo(File* file, int64_t offset, size_t count, std::string* bytes) {
  bytes->resize(count);
  size_t done = 0;
  for (size_t got = 1; done < count && got > 0; done += got) {
    RINGLET_RETURN_IF_ERROR(file->ReadSome(offset + static_cast<int64_t>(done),
                                           &(*bytes)[done], count - done,
                                           &got));
  }
  bytes->resize(done);
  return Status();
}

std::string AtomicFile::TargetOf(const std::string& name) {
  if (!EndsWith(name, kTemporarySuffix)) return "";
  size_t at = name.size() - (sizeof(kTemporarySuffix) - 1);
  const auto digits_after = [&](char mark) {
    const size_t end = at;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
    if (at == end || at == 0 || name[at - 1] != mark) return false;
    --at;
    return true;
  };
  return digits_after('-') && digits_after('.') ? name.substr(0, at) : "";
}

AtomicFile::~AtomicFile() {
  file_.reset();
  if (!temporary_.empty()) files_->Remove(temporary_).IgnoreError();
}

Status AtomicFile::Open(FileSystem* files, const std::string& path,
                        int64_t bytes, bool is_private) {
  RINGLET_CHECK(file_ == nullptr);
  files_ = files;
  path_ = path;
  if (FileNameOf(path).empty()) {
    return InvalidArgument("'%s': is not a file's name", path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(RemoveLeft());
  RINGLET_RETURN_IF_ERROR(CreateTemporary(is_private));
  return file_->Preallocate(bytes);
}

// Keeps a temporary file that is locked, since its writer runs. Keeps also a
// file that cannot be opened, as another user's: its writer may run. A
// temporary file that cannot be removed does no harm: the new one has a
// different name.
Status AtomicFile::RemoveLeft() {
  const std::string folder = FolderOf(path_), name = FileNameOf(path_);
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(files_->List(folder, &names));
  for (const std::string& other : names) {
    if (TargetOf(other) != name) continue;
    const std::string leftover_path = folder + "/" + other;
    std::unique_ptr<HeldLock> lock;
    if (files_->LockFile(leftover_path, &lock).ok())
      files_->Remove(leftover_path).IgnoreError();
  }
  return Status();
}

// Until the file is locked, another writer may remove it as a leftover.
Status AtomicFile::CreateTemporary(bool is_private) {
  constexpr int kTries = 100;
  Status locked;
  for (int i = 0; i < kTries; ++i) {
    const std::string temporary = TemporaryName(path_);
    // A process of another machine with the same number has this name.
    locked = is_private ? files_->CreatePrivate(temporary, &file_)
                        : files_->Create(temporary, &file_);
    if (locked.code() == Code::kAlreadyExists) continue;
    RINGLET_RETURN_IF_ERROR(locked);
    temporary_ = temporary;
    locked = files_->LockFile(temporary, &lock_);
    if (locked.code() != Code::kAlreadyExists &&
        locked.code() != Code::kNotFound) {
      RINGLET_RETURN_IF_ERROR(locked);
      // The mode is set while the file is empty, so that its content is never
      // exposed.
      return files_->CopyMode(temporary, path_);
    }
    file_.reset();
    files_->Remove(temporary_).IgnoreError();
    temporary_.clear();
  }
  return locked;
}

Status AtomicFile::Commit(bool* renamed, bool replace) {
  if (renamed != nullptr) *renamed = false;
  Status written = file_->Sync();
  if (written.ok()) written = file_->Close();
  file_.reset();
  RINGLET_RETURN_IF_ERROR(written);
  RINGLET_RETURN_IF_ERROR(replace ? files_->Rename(temporary_, path_)
                                  : files_->RenameNew(temporary_, path_));
  temporary_.clear();
  lock_.reset();
  if (renamed != nullptr) *renamed = true;
  return files_->SyncName(path_);
}

Status WriteWholeFile(FileSystem* files, const std::string& path,
                      const std::string& bytes) {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(
      file.Open(files, path, static_cast<int64_t>(bytes.size())));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(bytes.data(), bytes.size()));
  return file.Commit();
}

}  // namespace ringlet
