#include "background_saver.h"

#include <utility>

namespace ringlet {

BackgroundSaver::BackgroundSaver(CheckpointDirectory* directory,
                                 std::function<void(const Status&)> done)
    : directory_(directory), done_(std::move(done)) {}

BackgroundSaver::~BackgroundSaver() {
  Wait();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.Join();
}

Status BackgroundSaver::Start(Saveable* state, const Metadata& metadata) {
  Wait();
  if (!thread_.joinable()) {
    RINGLET_RETURN_IF_ERROR(
        thread_.Start("for writing backups", [this] { Loop(); }));
  }
  RINGLET_RETURN_IF_ERROR(snapshot_.Take(state));
  metadata_ = metadata;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
  return Status();
}

void BackgroundSaver::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void BackgroundSaver::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (stop_) return;
    lock.unlock();
    done_(directory_->Save({&snapshot_}, metadata_));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ringlet
