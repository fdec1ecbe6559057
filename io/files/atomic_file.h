// AtomicFile: a file that is written as a whole. ReadWholeFile, ReadUpTo and
// WriteWholeFile.

#ifndef RINGLET_IO_FILES_ATOMIC_FILE_H_
#define RINGLET_IO_FILES_ATOMIC_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "file_system.h"
#include "ringlet/status.h"

namespace ringlet {

// Reads a whole file of at most `limit` bytes.
Status ReadWholeFile(FileSystem* files, const std::string& path, int64_t limit,
                     std::string* bytes);
// Reads `count` bytes from `offset` on, or less if the file ends there.
Status ReadUpTo(File* file, int64_t offset, size_t count, std::string* bytes);

// Writes a file atomically: to a temporary name beside `path`. Commit() syncs,
// renames and syncs the folder. Without it no file is left. The new file has
// the permissions of a replaced file of this user.
class AtomicFile {
 public:
  ~AtomicFile();
  // Reserves `bytes`. Removes the temporary files of interrupted writers of
  // `path`, as far as this user may. If two write at the same time, the file of
  // the last Commit stays. With `is_private` the file is made by
  // FileSystem::CreatePrivate.
  Status Open(FileSystem* files, const std::string& path, int64_t bytes,
              bool is_private = false);
  File* file() { return file_.get(); }
  // After OK the file is durable. *renamed (may be null) is true if `path` is
  // the new file, also after an error of the last step. With `replace` false:
  // kAlreadyExists if there is a file at `path` now.
  Status Commit(bool* renamed = nullptr, bool replace = true);

  // The final name of the temporary file `name`; empty if `name` is not one.
  static std::string TargetOf(const std::string& name);

 private:
  Status RemoveLeft();
  Status CreateTemporary(bool is_private);

  FileSystem* files_ = nullptr;
  std::string path_, temporary_;  // temporary_ is "" if there is none
  // Locks temporary_, while the file has that name.
  std::unique_ptr<HeldLock> lock_;
  std::unique_ptr<File> file_;
};

// Writes `bytes` by an AtomicFile.
Status WriteWholeFile(FileSystem* files, const std::string& path,
                      const std::string& bytes);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_ATOMIC_FILE_H_
