// FileSystem: the seam through which ringlet reaches the disk.
//
// Public. The product uses Posix(); tests use one in memory that cuts the
// power, tears writes and fails any call. What is promised is what POSIX
// promises: written data survive a power cut after File::Sync, names after
// SyncDirectory of the folder that holds them, and a rename is seen whole or
// not at all. Every call names its path in its error. One object may be used
// by several threads, one File by one at a time.

#ifndef RINGLET_IO_FILES_FILE_SYSTEM_H_
#define RINGLET_IO_FILES_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

// Holds a folder or a file; its destructor lets go, as does the process's end.
class HeldLock {
 public:
  virtual ~HeldLock() = default;
};

// An open file. Its destructor closes it.
class File {
 public:
  virtual ~File() = default;

  // Appends all of `data`; goes on after short writes and EINTR.
  Status Write(const void* data, size_t bytes);
  // Exactly `bytes` from `offset` on. kCorruption where the file ends before.
  Status Read(int64_t offset, void* data, size_t bytes);

  // Appends some of `data`: *written > 0 unless there is an error.
  virtual Status WriteSome(const void* data, size_t bytes, size_t* written) = 0;
  // Up to `bytes`; *got = 0 only at the end.
  virtual Status ReadSome(int64_t offset, void* data, size_t bytes,
                          size_t* got) = 0;
  // Reserves the file's first `bytes`, so that writing them cannot run out of
  // space. OK, without effect, where the disk's format cannot.
  virtual Status Preallocate(int64_t bytes) = 0;
  // Until what was written is on the disk. After an error nothing is known
  // about it, and to ask again proves nothing: write a new file.
  virtual Status Sync() = 0;
  // An error of a pipe or a terminal, which has none.
  virtual Status Size(int64_t* bytes) = 0;
  // The file's first `bytes` stay, and what is written next follows them. Of
  // what OpenLog opened.
  virtual Status Truncate(int64_t bytes) = 0;
  // Never waits: kAlreadyExists where another holder (in this process too) has
  // the file. A null lock where the disk's format has no locks. Of what
  // OpenLog opened; it may outlive the File. This one locks nothing.
  virtual Status Lock(std::unique_ptr<HeldLock>* lock);
  // Reports what the destructor could not; no other call may follow.
  virtual Status Close() = 0;
  virtual const std::string& path() const = 0;
  // It was sealed (SealedFiles), so nobody without the key has written it.
  virtual bool sealed() const { return false; }
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new file to write, of the mode that the umask leaves of 0666.
  // kAlreadyExists where `path` is there.
  virtual Status Create(const std::string& path,
                        std::unique_ptr<File>* file) = 0;
  // As Create, for what others need not read: mode 0600 at most. This one makes
  // no difference.
  virtual Status CreatePrivate(const std::string& path,
                               std::unique_ptr<File>* file);
  // To read. kNotFound where it is not there.
  virtual Status Open(const std::string& path, std::unique_ptr<File>* file) = 0;
  // To write at the end and to read: made where it is not there, and emptied
  // where not `append`. kInvalidArgument for a link to a file: what it leads to
  // may not be a log. A link to a terminal or a pipe, as /dev/stdout is,
  // passes.
  virtual Status OpenLog(const std::string& path, bool append,
                         std::unique_ptr<File>* file) = 0;
  // Takes the place of a file `to` that is there.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // As Rename, but kAlreadyExists where `to` is there. This one looks before it
  // renames, so a file that comes between is lost; Posix() loses none.
  virtual Status RenameNew(const std::string& from, const std::string& to);
  // Gives `path` the group and the permissions of the file `of`, where that is
  // there, and its owner's to read and write; where the group cannot be given,
  // none of its permissions that others have not. kInvalidArgument where `of`
  // is no file that may be replaced: a folder, a device, a pipe. This one does
  // nothing.
  virtual Status TakeMode(const std::string& path, const std::string& of);
  // New files are sealed (SealedFiles).
  virtual bool seals() const { return false; }
  virtual Status Remove(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Names within `path`, sorted, without "." and "..".
  virtual Status List(const std::string& path,
                      std::vector<std::string>* names) = 0;
  // With its parents; OK where it is there.
  virtual Status MakeDirectory(const std::string& path) = 0;
  // Never waits: kAlreadyExists, with the folder and the process that holds
  // it, where another holder (in this process too) has it. Leaves a file
  // named kLockName in the folder.
  virtual Status LockDirectory(const std::string& path,
                               std::unique_ptr<HeldLock>* lock) = 0;
  // Never waits: kAlreadyExists where another holder has the file `path`. A
  // null lock where the disk's format has no locks.
  virtual Status LockFile(const std::string& path,
                          std::unique_ptr<HeldLock>* lock) = 0;

  static constexpr const char* kLockName = ".lock";
  static FileSystem* Posix();  // lives for ever
};

// "." of "a", "/" of "/a", "b" of "b/a".
std::string FolderOf(const std::string& path);
// "a" of "b/a".
std::string FileNameOf(const std::string& path);

// Of a file to read, from errno: names the path, and where it is relative and
// not there the folder that it is relative to.
Status CannotOpen(int error, const std::string& path);

// The whole of a file that may have at most `limit` bytes.
Status ReadWholeFile(FileSystem* files, const std::string& path, int64_t limit,
                     std::string* bytes);

// Makes a file appear whole or not at all: writes under a temporary name
// beside `path`, and Commit() syncs, renames and syncs the folder. Dropped
// without Commit(), or where that fails before the rename, it leaves nothing.
// A file that it replaces hands its permissions on.
class AtomicFile {
 public:
  ~AtomicFile();
  // Reserves `bytes`. Removes what an interrupted writer of `path` left; of
  // two that write at the same time the last to commit has `path`. A private
  // file is FileSystem::CreatePrivate's.
  Status Open(FileSystem* files, const std::string& path, int64_t bytes,
              bool is_private = false);
  File* file() { return file_.get(); }
  // Before Commit, which takes no time then: what was written is on the disk.
  Status Finish();
  // OK: the file is durable. *renamed tells (where not null) whether `path` is
  // the new file, which an error of the last step leaves so. Not `replace`:
  // kAlreadyExists where a file is at `path` by now.
  Status Commit(bool* renamed = nullptr, bool replace = true);

  // The name that `name` is a temporary name of; "" where it is none.
  static std::string TargetOf(const std::string& name);

 private:
  Status RemoveLeft();
  Status CreateTemporary(bool is_private);

  FileSystem* files_ = nullptr;
  std::string path_, temporary_;    // temporary_ is "" where there is none
  std::unique_ptr<HeldLock> lock_;  // of temporary_, while it has that name
  std::unique_ptr<File> file_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_SYSTEM_H_
