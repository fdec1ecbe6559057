// WrappedDisk: the disk, as a base for file systems of tests that change a call
// or two.

#ifndef RINGLET_TESTS_SUPPORT_WRAPPED_DISK_H_
#define RINGLET_TESTS_SUPPORT_WRAPPED_DISK_H_

#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"

namespace ringlet {

class WrappedDisk : public FileSystem {
 public:
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    return Posix()->Create(path, file);
  }
  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    return Posix()->Open(path, file);
  }
  Status OpenLog(const std::string& path, bool append,
                 std::unique_ptr<File>* file) override {
    return Posix()->OpenLog(path, append, file);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return Posix()->Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    return Posix()->Remove(path);
  }
  Status SyncDirectory(const std::string& path) override {
    return Posix()->SyncDirectory(path);
  }
  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    return Posix()->List(path, names);
  }
  Status MakeDirectory(const std::string& path) override {
    return Posix()->MakeDirectory(path);
  }
  Status LockDirectory(const std::string& path,
                       std::unique_ptr<HeldLock>* lock) override {
    return Posix()->LockDirectory(path, lock);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    return Posix()->LockFile(path, lock);
  }
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_WRAPPED_DISK_H_
