#include "loop.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace ringlet {

Status UvError(int uv_error, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
#ifndef _WIN32
  if (uv_error < 0 && uv_error > -4000) {  // libuv negates errno
    return OsError(-uv_error, "%s", text);
  }
#endif
  return Error(Code::kIo, "%s: %s", text, uv_strerror(uv_error));
}

Status InitLoop(uv_loop_t* loop) {
  // libuv needs two pipes for signals, an epoll and an event descriptor.
  int ends[3][2];
  int num_pipes = 0;
  while (num_pipes < 3 && pipe(ends[num_pipes]) == 0) ++num_pipes;
  const int os_error = errno;
  for (int i = 0; i < num_pipes; ++i) {
    close(ends[i][0]);
    close(ends[i][1]);
  }
  if (num_pipes < 3) {
    return OsError(os_error,
                   "cannot make an event loop, which needs six descriptors");
  }
  const int error = uv_loop_init(loop);
  if (error != 0) return UvError(error, "cannot make an event loop");
  return Status();
}

int SpareDescriptors(int max_count, int64_t* limit) {
  rlimit system;
  if (getrlimit(RLIMIT_NOFILE, &system) != 0) {
    *limit = INT64_MAX;
    return max_count;
  }
  *limit = static_cast<int64_t>(std::min<rlim_t>(system.rlim_cur, INT64_MAX));
  int spare = 0;
  for (int64_t fd = 0; fd < *limit && spare < max_count; ++fd) {
    if (fcntl(static_cast<int>(fd), F_GETFD) < 0) ++spare;
  }
  return spare;
}

Status Loop::Open(std::unique_ptr<Loop>* out) {
  std::unique_ptr<Loop> loop(new Loop);
  RINGLET_RETURN_IF_ERROR(InitLoop(&loop->loop_));
  const int error = uv_async_init(
      &loop->loop_, &loop->wake_,
      [](uv_async_t* wake) { static_cast<Loop*>(wake->data)->Drain(); });
  if (error != 0) {
    uv_loop_close(&loop->loop_);
    return UvError(error, "cannot make an event loop");
  }
  loop->wake_.data = loop.get();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Loop* raw = loop.get();
  // thread_ is written before the loop can run anything that reads it.
  std::unique_lock<std::mutex> lock(loop->mutex_);
  const Status started =
      loop->thread_.Start("for the network", [raw] { raw->Run(); });
  lock.unlock();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) {
    uv_close(AsHandle(&loop->wake_), nullptr);
    uv_run(&loop->loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop->loop_);
    return started;
  }
  *out = std::move(loop);
  return Status();
}

Loop::~Loop() {
  if (!thread_.joinable()) return;
  Post([this] { uv_close(AsHandle(&wake_), nullptr); });
  thread_.Join();
  RINGLET_CHECK(uv_loop_close(&loop_) == 0);
}

void Loop::Post(std::function<void()> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  posted_.push_back(std::move(work));
  // Under the lock, so that the handle is not closed in between.
  uv_async_send(&wake_);
}

void Loop::Run() {
  { std::lock_guard<std::mutex> wait_for_open(mutex_); }
  std::unique_lock<std::mutex> turn(turn_);
  while (uv_run(&loop_,
                allows_other_threads_ ? UV_RUN_NOWAIT : UV_RUN_DEFAULT) != 0) {
    pollfd events = {uv_backend_fd(&loop_), POLLIN, 0};
    const int timeout = uv_backend_timeout(&loop_);
    turn.unlock();
    if (timeout != 0) poll(&events, 1, timeout);
    loop_thread_waits_.store(true, std::memory_order_relaxed);
    turn.lock();
    loop_thread_waits_.store(false, std::memory_order_relaxed);
  }
}

void Loop::AllowOtherThreads() {
  if (!allows_other_threads_) uv_stop(&loop_);
  allows_other_threads_ = true;
}

bool Loop::TryEnter() { return !loop_thread_waits() && turn_.try_lock(); }

// The loop's thread continues the work that another thread has begun.
void Loop::Leave() {
  const bool due = uv_backend_timeout(&loop_) == 0;
  turn_.unlock();
  if (due) uv_async_send(&wake_);
}

void Loop::Drain() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    running_.swap(posted_);
  }
  for (std::function<void()>& work : running_) work();
  running_.clear();
}

}  // namespace ringlet
