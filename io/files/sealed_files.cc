#include <mutex>
#include <utility>

#include "../../core/base/key_file.h"
#include "file_system.h"
#include "sealed_format.h"
#include "sealing.h"

namespace ringlet {
namespace {

class SealedFileSystem final : public FileSystem {
 public:
  SealedFileSystem(const std::string& key_file, bool seal, FileSystem* below)
      : key_file_(key_file), seal_(seal), below_(below) {}

  Status CheckKey() override {
    std::shared_ptr<const JobKeys> keys;
    RINGLET_RETURN_IF_ERROR(Keys(&keys));
    if (keys != nullptr) return Status();
    return InvalidArgument(
        "files are to be sealed, and there is no key: make one (ringlet keygen "
        "--out job.key), and set RINGLET_KEY_FILE=job.key or "
        "strategy.key_file");
  }

  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    std::unique_ptr<File> below;
    RINGLET_RETURN_IF_ERROR(below_->Open(path, &below));
    char magic[8];
    const Status read = below->Read(0, magic, sizeof(magic));
    const bool is_short = read.code() == Code::kCorruption;
    if (!is_short) RINGLET_RETURN_IF_ERROR(read);
    if (is_short || !IsSealed(magic)) {
      *file = std::move(below);  // its reader reports the error
      return Status();
    }
    std::shared_ptr<const JobKeys> keys;
    const Status found = Keys(&keys);
    if (!found.ok()) {  // no fault of this file, which is there
      return Error(Code::kUnimplemented, "%s: is sealed: %s", path.c_str(),
                   found.message());
    }
    if (keys == nullptr) return MissingKeyError(path);
    return Unseal(std::move(below), *keys, path, file);
  }

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

  Status CopyMode(const std::string& path, const std::string& source) override {
    return below_->CopyMode(path, source);
  }

  Status Remove(const std::string& path) override {
    return below_->Remove(path);
  }

  Status SyncName(const std::string& path) override {
    return below_->SyncName(path);
  }

  Status SyncFolder(const std::string& path) override {
    return below_->SyncFolder(path);
  }

  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    return below_->List(path, names);
  }

  Status MakeFolder(const std::string& path) override {
    return below_->MakeFolder(path);
  }

  Status LockFolder(const std::string& path,
                    std::unique_ptr<HeldLock>* lock) override {
    return below_->LockFolder(path, lock);
  }

  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    return below_->LockFile(path, lock);
  }

  bool seals() const override { return seal_; }

 private:
  Status Keys(std::shared_ptr<const JobKeys>* keys) {
    const std::lock_guard<std::mutex> lock(mutex_);
    RINGLET_RETURN_IF_ERROR(BeginSealing());
    if (keys_ == nullptr) RINGLET_RETURN_IF_ERROR(FindKeys(key_file_, &keys_));
    *keys = keys_;
    return Status();
  }

  Status Make(const std::string& path, bool is_private,
              std::unique_ptr<File>* file) {
    std::shared_ptr<const JobKeys> keys;
    if (seal_) {
      RINGLET_RETURN_IF_ERROR(CheckKey().Annotate("%s", path.c_str()));
      RINGLET_RETURN_IF_ERROR(Keys(&keys));
    }
    RINGLET_RETURN_IF_ERROR(is_private ? below_->CreatePrivate(path, file)
                                       : below_->Create(path, file));
    if (!seal_) return Status();
    const Status sealing = SealNew(*keys, file);
    if (sealing.ok()) return Status();
    file->reset();
    below_->Remove(path).IgnoreError();
    return sealing;
  }

  const std::string key_file_;
  const bool seal_;
  FileSystem* const below_;
  std::mutex mutex_;  // guards keys_
  std::shared_ptr<const JobKeys> keys_;
};

}  // namespace

// A file of Create is complete after its first Sync or Close.
std::shared_ptr<FileSystem> SealedFiles(const std::string& key_file, bool seal,
                                        FileSystem* below) {
  return std::make_shared<SealedFileSystem>(key_file, seal, below);
}

}  // namespace ringlet
