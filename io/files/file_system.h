// FileSystem: the interface through which ringlet uses the disk.

#ifndef RINGLET_IO_FILES_FILE_SYSTEM_H_
#define RINGLET_IO_FILES_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/files.h"
#include "ringlet/status.h"

namespace ringlet {

// A lock on a folder or a file, until its destructor or the process's end.
class HeldLock {
 public:
  virtual ~HeldLock() = default;
};

// Two equal versions are the same file without a write in between.
struct FileVersion {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;
  int64_t written_ns = 0;  // the time of the last write, since 1970
};

// An open file. Its destructor closes it.
class File {
 public:
  virtual ~File() = default;

  // Appends all of `data`; continues after short writes and EINTR.
  Status Write(const void* data, size_t bytes);
  // Reads exactly `bytes`; kCorruption if the file ends earlier.
  Status Read(int64_t offset, void* data, size_t bytes);

  // Appends a part of `data`. Without an error *written > 0.
  virtual Status WriteSome(const void* data, size_t bytes, size_t* written) = 0;
  // Waits until a full pipe accepts more bytes; false if it stays full. The
  // default does not wait.
  virtual bool WaitWritable(int milliseconds);
  // Reads up to `bytes`; *got = 0 only at the end.
  virtual Status ReadSome(int64_t offset, void* data, size_t bytes,
                          size_t* got) = 0;
  // Reserves space for the file's first `bytes`, if the disk's format can.
  virtual Status Preallocate(int64_t bytes) = 0;
  // Waits until the written data are on the disk. After an error their state is
  // unknown, and a second Sync does not help: write a new file.
  virtual Status Sync() = 0;
  // The file's number, unique until the machine restarts. Zero if unknown.
  virtual int64_t Identity();
  // Fails for a pipe or a terminal, which has no size.
  virtual Status Size(int64_t* bytes) = 0;
  // Fails as Size. The default has the size alone.
  virtual Status Version(FileVersion* version);
  // Keeps the file's first `bytes`; the next write follows them. Files of
  // OpenLog only.
  virtual Status Truncate(int64_t bytes) = 0;
  // Never waits: kAlreadyExists if the file is locked, also by this process. A
  // null lock if the disk's format has none, and by default. The lock may
  // outlive the File. Files of OpenLog only.
  virtual Status Lock(std::unique_ptr<HeldLock>* lock);
  // Reports errors of closing, which the destructor cannot. The last call.
  virtual Status Close() = 0;
  virtual const std::string& path() const = 0;
  // True if the file is sealed (SealedFiles).
  virtual bool sealed() const { return false; }
};

// Written data survive a power cut after File::Sync, names after SyncFolder of
// their folder, and a rename is atomic. The error of every call names its path.
// Several threads may use one FileSystem; one thread at a time may use a File.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file to write, with mode 0666 less the umask. kAlreadyExists if
  // `path` exists.
  virtual Status Create(const std::string& path,
                        std::unique_ptr<File>* file) = 0;
  // The same with mode 0600 at most. The default calls Create.
  virtual Status CreatePrivate(const std::string& path,
                               std::unique_ptr<File>* file);
  // Opens a file to read. kNotFound if it does not exist.
  virtual Status Open(const std::string& path, std::unique_ptr<File>* file) = 0;
  // Opens or creates a file to append and to read, and empties it unless
  // `append`. kInvalidArgument for a link to a file. Writes to a pipe never
  // wait: if it is full, the error is EAGAIN.
  virtual Status OpenLog(const std::string& path, bool append,
                         std::unique_ptr<File>* file) = 0;
  // Replaces an existing file `to`.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // kAlreadyExists if `to` exists. The default checks before it renames;
  // PosixFiles() does both in one step where the system can.
  virtual Status RenameNew(const std::string& from, const std::string& to);
  // Gives `path` the group and the permissions of the file `source`, if that
  // exists and belongs to this user. kInvalidArgument if `source` is not a
  // plain file. The default does nothing.
  virtual Status CopyMode(const std::string& path, const std::string& source);
  // True if new files are sealed (SealedFiles).
  virtual bool seals() const { return false; }
  // Returns an error if SealedFiles has no key, or an invalid one.
  virtual Status CheckKey() { return Status(); }
  // Removes a file. A path that ends in '/' names an empty folder.
  virtual Status Remove(const std::string& path) = 0;
  virtual Status SyncFolder(const std::string& path) = 0;
  // Call it after Rename or RenameNew to `path`, so that the name survives a
  // power cut. The default syncs the folder.
  virtual Status SyncName(const std::string& path);
  // Lists the names in `path`, sorted, without "." and "..".
  virtual Status List(const std::string& path,
                      std::vector<std::string>* names) = 0;
  // Creates the folder and its parents; OK if it exists.
  virtual Status MakeFolder(const std::string& path) = 0;
  // Never waits: kAlreadyExists names the folder and the process that has
  // locked it, maybe this one. Leaves a file named kLockName in the folder.
  virtual Status LockFolder(const std::string& path,
                            std::unique_ptr<HeldLock>* lock) = 0;
  // Never waits: kAlreadyExists if the file is locked. A null lock if the
  // disk's format has none.
  virtual Status LockFile(const std::string& path,
                          std::unique_ptr<HeldLock>* lock) = 0;

  static constexpr const char* kLockName = ".lock";
};

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_SYSTEM_H_
