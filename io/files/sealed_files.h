// SealedFiles: files that only who has the key can read, or change unseen.
//
// Public. A FileSystem above another one, for models and backups on disks that
// may be stolen. It stands where any FileSystem does:
//
//   SealedFiles sealed("job.key");  // outlives what uses it
//   SaveModelOptions options;
//   options.files = &sealed;
//   SaveModel(&model, "m.safetensors", options);
//
// Files that are not sealed are read as they are. A file is sealed whole: what
// Create made ends with its first Sync or Close, and is not written to after
// that. Logs (OpenLog) go on from run to run and are not sealed. The format is
// in docs/security.md; names, lengths and times of files are not hidden, and an
// older file of the same key in a newer one's place is not told from it.

#ifndef RINGLET_IO_FILES_SEALED_FILES_H_
#define RINGLET_IO_FILES_SEALED_FILES_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "file_system.h"

namespace ringlet {

struct JobKeys;

class SealedFiles final : public FileSystem {
 public:
  // The key is read when it is first needed: of `key_file`, or where that is ""
  // of the file that RINGLET_KEY_FILE names. Of two keys in it the first seals,
  // and either opens. Not `seal`: new files are plain.
  explicit SealedFiles(std::string key_file = "", bool seal = true,
                       FileSystem* below = Posix());
  ~SealedFiles() override;

  // Whether new files can be sealed: that the key is there, and a key.
  Status CheckKey();

  // A file without the key, or of another one: kUnimplemented. A damaged one:
  // kCorruption, here or where the damage is read.
  Status Open(const std::string& path, std::unique_ptr<File>* file) override;
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    return Make(path, /*is_private=*/false, file);
  }
  Status CreatePrivate(const std::string& path,
                       std::unique_ptr<File>* file) override {
    return Make(path, /*is_private=*/true, file);
  }

  Status OpenLog(const std::string& path, bool append,
                 std::unique_ptr<File>* file) override {
    return below_->OpenLog(path, append, file);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return below_->Rename(from, to);
  }
  Status RenameNew(const std::string& from, const std::string& to) override {
    return below_->RenameNew(from, to);
  }
  Status TakeMode(const std::string& path, const std::string& of) override {
    return below_->TakeMode(path, of);
  }
  bool seals() const override { return seal_; }
  Status Remove(const std::string& path) override {
    return below_->Remove(path);
  }
  Status SyncDirectory(const std::string& path) override {
    return below_->SyncDirectory(path);
  }
  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    return below_->List(path, names);
  }
  Status MakeDirectory(const std::string& path) override {
    return below_->MakeDirectory(path);
  }
  Status LockDirectory(const std::string& path,
                       std::unique_ptr<HeldLock>* lock) override {
    return below_->LockDirectory(path, lock);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    return below_->LockFile(path, lock);
  }

 private:
  Status Keys(std::shared_ptr<const JobKeys>* keys);
  Status Make(const std::string& path, bool is_private,
              std::unique_ptr<File>* file);

  const std::string key_file_;
  const bool seal_;
  FileSystem* const below_;
  std::mutex mutex_;  // guards keys_
  std::shared_ptr<const JobKeys> keys_;
};

// Whether a file that begins with these 8 bytes is sealed.
bool IsSealed(const void* first_bytes);
// The error of a reader that was given such a file.
Status NeedsKey(const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_SEALED_FILES_H_
