// Loop: the one thread that owns libuv's loop and every handle on it.
//
// Other threads only Post. Signals are blocked in this thread, so the program's
// threads get them. A write to a closed connection returns an error and raises
// no signal.

#ifndef RINGLET_NET_TRANSPORT_LOOP_H_
#define RINGLET_NET_TRANSPORT_LOOP_H_

#include <uv.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "../../core/base/check.h"
#include "../../core/base/thread.h"
#include "ringlet/status.h"

namespace ringlet {

// TCP probes a silent connection, for example to a relay, after this many
// seconds. The connection ends if the host is gone or a router has forgotten
// it.
constexpr unsigned kKeepAliveSeconds = 30;

// The time of the monotonic clock of uv timers.
inline int64_t UvNanos() { return static_cast<int64_t>(uv_hrtime()); }

// A uv_timer_t, uv_tcp_t or other handle as libuv's functions of any handle
// take it.
template <typename T>
uv_handle_t* AsHandle(T* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
}

// libuv's error as a Status: its number, and ": <its text>" after the message.
Status UvError(int uv_error, const char* format, ...) RINGLET_PRINTF(2, 3);

// As uv_loop_init, but returns an error if descriptors are lacking. libuv would
// abort the process then, here and in the first uv_signal_init. So call
// uv_signal_init directly after this, if it is needed.
Status InitLoop(uv_loop_t* loop);

// The number of files and connections that this process may still open, at most
// `max_count`. *limit is the limit of all ("ulimit -n").
int SpareDescriptors(int max_count, int64_t* limit);

class Loop {
 public:
  static Status Open(std::unique_ptr<Loop>* out);
  // Runs what was posted, then ends the thread. All handles of its users must
  // be closed or closing; an open handle is a broken invariant.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs `work` on the loop's thread, in the order of posting. From any thread.
  // Work that captures at most two words is posted without an allocation.
  void Post(std::function<void()> work);

  // A thread that waits for the loop's thread may do its work while that thread
  // is idle. Between TryEnter() and Leave() it owns the loop, as the loop's
  // thread otherwise does. It creates no handle, and leaves soon after
  // loop_thread_waits() is true. Only after AllowOtherThreads().
  bool TryEnter();
  void Enter() { turn_.lock(); }
  void Leave();
  bool loop_thread_waits() const {
    return loop_thread_waits_.load(std::memory_order_relaxed);
  }

  // Called by the owner of the loop; idempotent.
  void AllowOtherThreads();

  // The functions below are for the loop's thread only.
  void AssertInLoop() const { RINGLET_CHECK(thread_.IsCurrent()); }
  uv_loop_t* uv() { return &loop_; }

 private:
  Loop() = default;
  void Run();
  void Drain();

  uv_loop_t loop_;
  uv_async_t wake_;
  std::mutex turn_;  // held by the owner of the loop
  bool allows_other_threads_ = false;
  // True if the loop's thread waits to enter the loop.
  std::atomic<bool> loop_thread_waits_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;   // guarded by mutex_
  std::vector<std::function<void()>> running_;  // used by the loop's thread
  Thread thread_;
};

// Runs `work` on the loop's thread, and waits until it calls its argument.
template <typename Work>
void RunOnLoop(Loop* loop, const Work& work) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  loop->Post([&] {
    work([&] {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
      changed.notify_all();
    });
  });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return done; });
}

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_LOOP_H_
