#include "file_system.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>

#include "../../core/base/check.h"
#include "open_error.h"
#include "path.h"

namespace ringlet {

Status File::Write(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    size_t written = 0;
    const Status status = WriteSome(at, bytes, &written);
    if (!status.ok() && status.os_error() != EINTR) return status;
    RINGLET_CHECK(written <= bytes);
    at += written;
    bytes -= written;
  }
  return Status();
}

int64_t File::Identity() { return 0; }

Status File::Version(FileVersion* version) {
  *version = FileVersion();
  return Size(&version->bytes);
}

bool File::WaitWritable(int /*milliseconds*/) { return false; }

Status File::Read(int64_t offset, void* data, size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    size_t got = 0;
    const Status status = ReadSome(offset, to, bytes, &got);
    if (status.os_error() == EINTR) continue;
    RINGLET_RETURN_IF_ERROR(status);
    if (got == 0) {
      return Corruption("%s: ends at offset %" PRId64 ", %zu bytes early",
                        path().c_str(), offset, bytes);
    }
    offset += static_cast<int64_t>(got);
    to += got;
    bytes -= got;
  }
  return Status();
}

Status File::Lock(std::unique_ptr<HeldLock>* lock) {
  lock->reset();
  return Status();
}

Status FileSystem::CreatePrivate(const std::string& path,
                                 std::unique_ptr<File>* file) {
  return Create(path, file);
}

Status FileSystem::RenameNew(const std::string& from, const std::string& to) {
  std::unique_ptr<File> file;
  if (Open(to, &file).code() != Code::kNotFound) {
    return OsError(EEXIST, "%s: renaming to %s", from.c_str(), to.c_str());
  }
  return Rename(from, to);
}

Status FileSystem::SyncName(const std::string& path) {
  return SyncFolder(FolderOf(path));
}

Status FileSystem::CopyMode(const std::string&, const std::string&) {
  return Status();
}

Status OpenError(int error, const std::string& path) {
  char folder[PATH_MAX];
  if (error != ENOENT || path.empty() || path[0] == '/' ||
      getcwd(folder, sizeof(folder)) == nullptr) {
    return OsError(error, "%s", path.c_str());
  }
  return OsError(error, "%s, from the current folder %s", path.c_str(), folder);
}

}  // namespace ringlet
