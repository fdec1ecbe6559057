// A fit with every callback and a backup, which backup_test kills.
//
//   backup_runner FOLDER OPTIMIZER SAVE_FREQ [MOMENT]   SAVE_FREQ 0 is "epoch"
//
//   kill=N   it is killed in the Nth call that its backups make of files
//   hold=N   after step N it writes FOLDER/held and waits until that is gone
//
// Writes FOLDER/log.csv and, once it has completed, FOLDER/final.safetensors
// and FOLDER/calls, the number of those calls.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "ringlet/ringlet.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "support/wrapped_disk.h"

using namespace ringlet;

namespace {

// Counts the calls that use files, one of which ends the process.
class Calls {
 public:
  explicit Calls(int last) : last_(last) {}
  // True in the last one.
  bool Count() { return ++count_ == last_; }
  int count() const { return count_; }

 private:
  const int last_;  // 0: none
  std::atomic<int> count_{0};
};

class DeadlyFile final : public File {
 public:
  DeadlyFile(std::unique_ptr<File> file, Calls* calls)
      : file_(std::move(file)), calls_(*calls) {}
  Status WriteSome(const void* data, size_t bytes, size_t* written) override {
    if (calls_.Count()) {
      file_->WriteSome(data, (bytes + 1) / 2, written).IgnoreError();
      raise(SIGKILL);
    }
    return file_->WriteSome(data, bytes, written);
  }
  Status ReadSome(int64_t offset, void* data, size_t bytes,
                  size_t* bytes_read) override {
    return file_->ReadSome(offset, data, bytes, bytes_read);
  }
  Status Preallocate(int64_t bytes) override {
    return file_->Preallocate(bytes);
  }
  Status Sync() override {
    if (calls_.Count()) raise(SIGKILL);
    return file_->Sync();
  }
  Status Size(int64_t* bytes) override { return file_->Size(bytes); }
  Status Truncate(int64_t bytes) override { return file_->Truncate(bytes); }
  Status Lock(std::unique_ptr<HeldLock>* lock) override {
    return file_->Lock(lock);
  }
  Status Close() override { return file_->Close(); }
  const std::string& path() const override { return file_->path(); }

 private:
  const std::unique_ptr<File> file_;
  Calls& calls_;
};

class CrashingDisk final : public WrappedDisk {
 public:
  explicit CrashingDisk(Calls* calls) : calls_(*calls) {}
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    if (calls_.Count()) raise(SIGKILL);
    RINGLET_RETURN_IF_ERROR(WrappedDisk::Create(path, file));
    *file = std::make_unique<DeadlyFile>(std::move(*file), &calls_);
    return Status();
  }
  Status Rename(const std::string& from, const std::string& to) override {
    if (calls_.Count()) raise(SIGKILL);
    return WrappedDisk::Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    if (calls_.Count()) raise(SIGKILL);
    return WrappedDisk::Remove(path);
  }
  Status SyncFolder(const std::string& path) override {
    if (calls_.Count()) raise(SIGKILL);
    return WrappedDisk::SyncFolder(path);
  }
  Status MakeFolder(const std::string& path) override {
    if (calls_.Count()) raise(SIGKILL);
    return WrappedDisk::MakeFolder(path);
  }

 private:
  Calls& calls_;
};

// N of "NAME=N"; 0 if the argument has another name.
int ArgumentNumber(const char* argument, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(argument, name, length) == 0
             ? std::atoi(argument + length)
             : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const char* const moment = argc > 4 ? argv[4] : "";
  const std::string folder = argv[1];
  Optimizer optimizer = SGD(0.05f, 0.9f);
  if (std::strcmp(argv[2], "rmsprop") == 0) optimizer = RMSprop(0.003f);
  if (std::strcmp(argv[2], "adam") == 0) optimizer = Adam(0.01f);
  auto model = TinyModel(optimizer, /*dropout=*/0.2f);

  FitOptions options;
  options.epochs = 6;
  options.steps_per_epoch = 40;
  options.verbose = Verbose::kSilent;
  options.validation_data = Points(50, 9).Batch(20);
  EarlyStoppingOptions stopping;
  stopping.patience = 2;
  stopping.restore_best_weights = true;
  BackupAndRestoreOptions backup;
  backup.save_freq = std::atoi(argv[3]);
  Calls calls(ArgumentNumber(moment, "kill="));
  CrashingDisk disk(&calls);
  backup.files = &disk;
  const int held_at = ArgumentNumber(moment, "hold=");
  LambdaCallbackOptions lambda;
  lambda.on_train_batch_end = [&](int64_t, const Logs&) {
    if (model->iterations() != held_at) return;
    const std::string held = folder + "/held";
    WriteWhole(held, "");
    for (int i = 0; i < 60000 && access(held.c_str(), F_OK) == 0; ++i) {
      usleep(5000);
    }
  };
  options.callbacks = {EarlyStopping(stopping), CSVLogger(folder + "/log.csv"),
                       LambdaCallback(lambda),
                       BackupAndRestore(folder + "/backup", backup)};
  const auto history =
      model->Fit(Points(300).Shuffle(4).Repeat().Batch(13), options);
  if (!history.ok()) return ExitCode(history);
  WriteWhole(folder + "/calls", std::to_string(calls.count()));
  return ExitCode(
      SaveCheckpoint(folder + "/final.safetensors",
                     {model->weights_state(), model->optimizer_state()}));
}
