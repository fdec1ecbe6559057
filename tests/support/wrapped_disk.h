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
    return PosixFiles()->Create(path, file);
  }
  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    return PosixFiles()->Open(path, file);
  }
  Status OpenLog(const std::string& path, bool append,
                 std::unique_ptr<File>* file) override {
    return PosixFiles()->OpenLog(path, append, file);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return PosixFiles()->Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    return PosixFiles()->Remove(path);
  }
  Status SyncFolder(const std::string& path) override {
    return PosixFiles()->SyncFolder(path);
  }
  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    return PosixFiles()->List(path, names);
  }
  Status MakeFolder(const std::string& path) override {
    return PosixFiles()->MakeFolder(path);
  }
  Status LockFolder(const std::string& path,
                    std::unique_ptr<HeldLock>* lock) override {
    return PosixFiles()->LockFolder(path, lock);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    return PosixFiles()->LockFile(path, lock);
  }
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_WRAPPED_DISK_H_
