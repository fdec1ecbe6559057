// A file system in memory with the effects of power cuts and broken disks that
// POSIX allows:
// - what was written but not synced may be there in part, cut off within a
//   sector, or as zeros, under a file of any length in between;
// - changes of a folder that was not synced may be undone, in any order:
//   creations, renames and removals; a rename may leave both names;
// - after a failed sync the data are lost although the next sync says OK;
// - any operation fails on demand, once or from then on.

#ifndef RINGLET_TESTS_SUPPORT_SIMULATED_FILE_SYSTEM_H_
#define RINGLET_TESTS_SUPPORT_SIMULATED_FILE_SYSTEM_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/path.h"

namespace ringlet {

class SimulatedFileSystem : public FileSystem {
 public:
  // --- what tests do to it ---

  // Fails an operation once: the next for 1, the one after it for 2.
  void FailAfter(int64_t count, int error) {
    fail_at_ = operations_ + count;
    fail_with_ = error;
  }
  void FailNoMore() { fail_at_ = 0; }
  // Fails that operation and all later ones, as if the process were killed or
  // the power cut. A write may still do its first half.
  void HaltAfter(int64_t count) { halt_at_ = operations_ + count; }
  // Each write takes only this many bytes, or all with 0.
  void set_longest_write(size_t bytes) { longest_write_ = bytes; }
  // The limit of the bytes of all files together, or -1 without a limit.
  void set_capacity(int64_t bytes) { capacity_ = bytes; }
  int64_t operations() const { return operations_; }
  bool halted() const { return operations_ >= halt_at_; }
  // The operation that failed last: "sync d/ckpt-1.safetensors".
  const std::string& last_failed() const { return last_failed_; }

  // Ends every process without a power cut: nothing is lost.
  void Kill() {
    ++generation_;
    locked_.clear();
    fail_at_ = 0;
    halt_at_ = INT64_MAX;
  }
  // Cuts the power. `seed` chooses one of the states that may be left.
  void CutPower(uint64_t seed) {
    Kill();
    std::mt19937_64 random(seed);
    SettleNames(&random);
    for (auto& [path, inode] : names_) Settle(inode.get(), &random);
  }

  // The files that a process sees, durable or not.
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    for (const auto& [path, inode] : names_) paths.push_back(path);
    return paths;
  }
  // Returns null if there is no such file.
  std::string* Content(const std::string& path) {
    const auto found = names_.find(path);
    return found == names_.end() ? nullptr : &found->second->data;
  }

  // --- FileSystem ---

  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    RINGLET_RETURN_IF_ERROR(Operate("create", path));
    if (folders_.count(FolderOf(path)) == 0) return Failed(ENOENT, path);
    if (names_.count(path) != 0) return Failed(EEXIST, path);
    auto inode = std::make_shared<Inode>();
    names_[path] = inode;
    pending_.push_back({path, "", inode});
    *file = std::make_unique<SimulatedFile>(this, path, inode);
    return Status();
  }

  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    RINGLET_RETURN_IF_ERROR(Operate("open", path));
    const auto found = names_.find(path);
    if (found == names_.end()) return Failed(ENOENT, path);
    *file = std::make_unique<SimulatedFile>(this, path, found->second);
    return Status();
  }

  Status OpenLog(const std::string& path, bool append,
                 std::unique_ptr<File>* file) override {
    RINGLET_RETURN_IF_ERROR(Operate("open", path));
    if (folders_.count(FolderOf(path)) == 0) return Failed(ENOENT, path);
    auto& inode = names_[path];
    if (inode == nullptr) {
      inode = std::make_shared<Inode>();
      pending_.push_back({path, "", inode});
    }
    if (!append) inode->data.clear();
    auto log = std::make_unique<SimulatedFile>(this, path, inode);
    log->GoToEnd();
    *file = std::move(log);
    return Status();
  }

  Status Rename(const std::string& from, const std::string& to) override {
    RINGLET_RETURN_IF_ERROR(Operate("rename", from));
    const auto found = names_.find(from);
    if (found == names_.end()) return Failed(ENOENT, from);
    const std::shared_ptr<Inode> inode = found->second;
    names_.erase(found);
    names_[to] = inode;
    pending_.push_back({to, from, inode});
    return Status();
  }

  Status Remove(const std::string& path) override {
    RINGLET_RETURN_IF_ERROR(Operate("remove", path));
    if (names_.erase(path) == 0) return Failed(ENOENT, path);
    pending_.push_back({path, "", nullptr});
    return Status();
  }

  Status SyncFolder(const std::string& path) override {
    RINGLET_RETURN_IF_ERROR(Operate("sync directory", path));
    std::vector<Change> others;
    for (const Change& change : pending_) {
      if (FolderOf(change.path) == path) {
        Apply(change, &durable_names_, /*whole=*/true);
      } else {
        others.push_back(change);
      }
    }
    pending_ = others;
    return Status();
  }

  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    RINGLET_RETURN_IF_ERROR(Operate("list", path));
    names->clear();
    if (folders_.count(path) == 0) return Failed(ENOENT, path);
    for (const auto& [name, inode] : names_) {
      if (FolderOf(name) == path) names->push_back(FileNameOf(name));
    }
    return Status();
  }

  Status MakeFolder(const std::string& path) override {
    RINGLET_RETURN_IF_ERROR(Operate("make directory", path));
    folders_.insert(path);
    return Status();
  }

  Status LockFolder(const std::string& path,
                    std::unique_ptr<HeldLock>* lock) override {
    RINGLET_RETURN_IF_ERROR(Operate("lock", path));
    if (!locked_.insert(path).second) {
      return Error(Code::kAlreadyExists,
                   "%s: is locked by another process, or twice by this one",
                   path.c_str());
    }
    *lock = std::make_unique<Lock>(this, path);
    return Status();
  }

  // There is one process at a time, so no other can hold the lock.
  Status LockFile(const std::string&,
                  std::unique_ptr<HeldLock>* lock) override {
    lock->reset();
    return Status();
  }

 protected:
  // Called before each operation. If the disk is halted in this call, the
  // operation fails.
  virtual void Delay() {}

 private:
  struct Inode {
    std::string data;     // the data that processes see
    std::string durable;  // the data after a power cut
    bool lost = false;    // a sync failed: data never become durable
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  // `path` becomes `inode`, or is removed if that is null. `from`, if not
  // empty, is removed.
  struct Change {
    std::string path, from;
    std::shared_ptr<Inode> inode;
  };

  class Lock final : public HeldLock {
   public:
    Lock(SimulatedFileSystem* files, const std::string& path)
        : files_(files), path_(path), generation_(files->generation_) {}
    ~Lock() override {
      if (generation_ == files_->generation_) files_->locked_.erase(path_);
    }

   private:
    SimulatedFileSystem* const files_;
    const std::string path_;
    const int generation_;
  };

  class SimulatedFile final : public File {
   public:
    SimulatedFile(SimulatedFileSystem* files, const std::string& path,
                  const std::shared_ptr<Inode>& inode)
        : files_(files),
          path_(path),
          inode_(inode),
          generation_(files->generation_) {}

    Status WriteSome(const void* data, size_t bytes, size_t* written) override {
      *written = 0;
      if (files_->longest_write_ > 0) {
        bytes = std::min(bytes, files_->longest_write_);
      }
      const bool running = !files_->halted();
      const Status status = Operate("write");
      if (!status.ok()) bytes = running ? bytes / 2 : 0;
      if (position_ + bytes > inode_->data.size()) {
        RINGLET_RETURN_IF_ERROR(Extend(position_ + bytes));
      }
      if (bytes > 0) std::memcpy(&inode_->data[position_], data, bytes);
      if (!status.ok() && status.os_error() != EINTR) return status;
      if (status.os_error() == EINTR) return status;
      position_ += bytes;
      *written = bytes;
      return Status();
    }

    Status ReadSome(int64_t offset, void* data, size_t bytes,
                    size_t* bytes_read) override {
      *bytes_read = 0;
      RINGLET_RETURN_IF_ERROR(Operate("read"));
      const size_t size = inode_->data.size();
      const size_t at = std::min(static_cast<size_t>(offset), size);
      *bytes_read = std::min(bytes, size - at);
      if (*bytes_read > 0)
        std::memcpy(data, inode_->data.data() + at, *bytes_read);
      return Status();
    }

    Status Preallocate(int64_t bytes) override {
      RINGLET_RETURN_IF_ERROR(Operate("preallocate"));
      const size_t size = static_cast<size_t>(bytes);
      return size > inode_->data.size() ? Extend(size) : Status();
    }

    Status Sync() override {
      const Status status = Operate("sync");
      if (!status.ok()) inode_->lost = true;
      RINGLET_RETURN_IF_ERROR(status);
      if (!inode_->lost) inode_->durable = inode_->data;
      return Status();
    }

    Status Size(int64_t* bytes) override {
      RINGLET_RETURN_IF_ERROR(Operate("size"));
      *bytes = static_cast<int64_t>(inode_->data.size());
      return Status();
    }

    Status Truncate(int64_t bytes) override {
      RINGLET_RETURN_IF_ERROR(Operate("truncate"));
      inode_->data.resize(static_cast<size_t>(bytes));
      GoToEnd();
      return Status();
    }

    Status Close() override { return Operate("close"); }
    void GoToEnd() { position_ = inode_->data.size(); }
    const std::string& path() const override { return path_; }

   private:
    Status Operate(const char* what) {
      if (generation_ != files_->generation_) return files_->Failed(EIO, path_);
      return files_->Operate(what, path_);
    }
    Status Extend(size_t size) {
      const int64_t more = static_cast<int64_t>(size - inode_->data.size());
      if (files_->capacity_ >= 0 && files_->Used() + more > files_->capacity_) {
        return files_->Failed(ENOSPC, path_);
      }
      inode_->data.resize(size);
      return Status();
    }

    SimulatedFileSystem* const files_;
    const std::string path_;
    const std::shared_ptr<Inode> inode_;
    const int generation_;
    size_t position_ = 0;
  };

  static Status Failed(int error, const std::string& path) {
    return OsError(error, "%s", path.c_str());
  }

  Status Operate(const char* what, const std::string& path) {
    Delay();
    ++operations_;
    if (operations_ < halt_at_ && operations_ != fail_at_) return Status();
    last_failed_ = std::string(what) + " " + path;
    return OsError(operations_ == fail_at_ ? fail_with_ : EIO, "%s: %s",
                   path.c_str(), what);
  }

  int64_t Used() const {
    int64_t used = 0;
    for (const auto& [path, inode] : names_) {
      used += static_cast<int64_t>(inode->data.size());
    }
    return used;
  }

  static void Apply(const Change& change, Names* names, bool whole) {
    if (change.inode == nullptr) {
      names->erase(change.path);
      return;
    }
    (*names)[change.path] = change.inode;
    const auto from = names->find(change.from);
    if (whole && from != names->end() && from->second == change.inode) {
      names->erase(from);
    }
  }

  // Journals keep the order of changes; other formats need not.
  void SettleNames(std::mt19937_64* random) {
    const uint64_t mode = (*random)() % 4;
    const size_t prefix = (*random)() % (pending_.size() + 1);
    for (size_t i = 0; i < pending_.size(); ++i) {
      const bool applied = mode == 0   ? true
                           : mode == 1 ? i < prefix
                                       : (*random)() % 2 == 0;
      if (applied) Apply(pending_[i], &durable_names_, (*random)() % 8 != 0);
    }
    pending_.clear();
    names_ = durable_names_;
  }

  static void Settle(Inode* inode, std::mt19937_64* random) {
    const std::string& now = inode->data;
    std::string old = inode->durable;
    const bool written_back = (*random)() % 4 == 0;
    if (written_back && !inode->lost) {
      old = now;
    } else if (now != old) {
      const size_t low = std::min(now.size(), old.size());
      const size_t high = std::max(now.size(), old.size());
      const uint64_t pick = (*random)() % 4;
      const size_t size = pick == 0   ? low
                          : pick == 1 ? high
                                      : low + (*random)() % (high - low + 1);
      old.resize(size);
      const size_t sector = (*random)() % 2 == 0 ? 512 : 64;
      for (size_t at = 0; at < size; at += sector) {
        const size_t end = std::min({at + sector, size, now.size()});
        if (at >= end) break;
        const uint64_t fate = (*random)() % 4;  // old, new, mixed, zeros
        const size_t cut = fate == 2 ? at + (*random)() % (end - at + 1) : end;
        for (size_t i = at; i < end; ++i) {
          if (fate == 3) old[i] = '\0';
          if ((fate == 1 || fate == 2) && i < cut) old[i] = now[i];
        }
      }
    }
    inode->data = inode->durable = old;
    inode->lost = false;
  }

  Names names_, durable_names_;
  std::vector<Change> pending_;
  std::set<std::string> folders_, locked_;
  int generation_ = 0;
  int64_t operations_ = 0;
  int64_t fail_at_ = 0;
  int64_t halt_at_ = INT64_MAX;
  int fail_with_ = 0;
  size_t longest_write_ = 0;
  int64_t capacity_ = -1;
  std::string last_failed_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SIMULATED_FILE_SYSTEM_H_
