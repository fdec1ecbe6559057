#include "ringlet/files.h"

#include <utility>

#include "../../core/base/key_file.h"
#include "sealed_format.h"
#include "sealing.h"

namespace ringlet {

SealedFiles::SealedFiles(std::string key_file, bool seal, FileSystem* below)
    : key_file_(std::move(key_file)), seal_(seal), below_(below) {}
SealedFiles::~SealedFiles() = default;

Status SealedFiles::Keys(std::shared_ptr<const JobKeys>* keys) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RINGLET_RETURN_IF_ERROR(BeginSealing());
  if (keys_ == nullptr) RINGLET_RETURN_IF_ERROR(FindKeys(key_file_, &keys_));
  *keys = keys_;
  return Status();
}

Status SealedFiles::CheckKey() {
  std::shared_ptr<const JobKeys> keys;
  RINGLET_RETURN_IF_ERROR(Keys(&keys));
  if (keys != nullptr) return Status();
  return InvalidArgument(
      "files are to be sealed, and there is no key: make one (ringlet keygen "
      "--out job.key), and set RINGLET_KEY_FILE=job.key or strategy.key_file");
}

Status SealedFiles::Open(const std::string& path, std::unique_ptr<File>* file) {
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
  if (!found.ok()) {  // no fault of this file's, which is there
    return Error(Code::kUnimplemented, "%s: is sealed: %s", path.c_str(),
                 found.message());
  }
  if (keys == nullptr) return MissingKeyError(path);
  return Unseal(std::move(below), *keys, path, file);
}

Status SealedFiles::Make(const std::string& path, bool is_private,
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

Status SealedFiles::Create(const std::string& path,
                           std::unique_ptr<File>* file) {
  return Make(path, /*is_private=*/false, file);
}

Status SealedFiles::CreatePrivate(const std::string& path,
                                  std::unique_ptr<File>* file) {
  return Make(path, /*is_private=*/true, file);
}

Status SealedFiles::OpenLog(const std::string& path, bool append,
                            std::unique_ptr<File>* file) {
  return below_->OpenLog(path, append, file);
}

Status SealedFiles::Rename(const std::string& from, const std::string& to) {
  return below_->Rename(from, to);
}

Status SealedFiles::RenameNew(const std::string& from, const std::string& to) {
  return below_->RenameNew(from, to);
}

Status SealedFiles::CopyMode(const std::string& path,
                             const std::string& source) {
  return below_->CopyMode(path, source);
}

Status SealedFiles::Remove(const std::string& path) {
  return below_->Remove(path);
}

Status SealedFiles::SyncName(const std::string& path) {
  return below_->SyncName(path);
}

Status SealedFiles::SyncDirectory(const std::string& path) {
  return below_->SyncDirectory(path);
}

Status SealedFiles::List(const std::string& path,
                         std::vector<std::string>* names) {
  return below_->List(path, names);
}

Status SealedFiles::MakeDirectory(const std::string& path) {
  return below_->MakeDirectory(path);
}

Status SealedFiles::LockDirectory(const std::string& path,
                                  std::unique_ptr<HeldLock>* lock) {
  return below_->LockDirectory(path, lock);
}

Status SealedFiles::LockFile(const std::string& path,
                             std::unique_ptr<HeldLock>* lock) {
  return below_->LockFile(path, lock);
}

}  // namespace ringlet
