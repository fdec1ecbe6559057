// Loop: the one thread that owns libuv's loop and every handle on it.
//
// Internal to net/. Other threads only Post. Signals are blocked in this
// thread, so they reach the program's own, and a write to a closed connection
// is an error code and nothing else.

#ifndef RINGLET_NET_RING_LOOP_H_
#define RINGLET_NET_RING_LOOP_H_

#include <uv.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "../../core/base/check.h"
#include "../../core/base/status.h"
#include "../../core/base/thread.h"

namespace ringlet {

// libuv's error as a Status: its number, and ": <its text>" after the message.
Status UvError(int uv_error, const char* format, ...) RINGLET_PRINTF(2, 3);

class Loop {
 public:
  static Status Open(std::unique_ptr<Loop>* out);
  // Runs what was posted, then ends the thread. All handles of others must be
  // closed or closing; one left open is a broken invariant.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs `work` on the loop's thread, in the order of posting. From any thread.
  // Work that captures at most two words is posted without an allocation.
  void Post(std::function<void()> work);

  // Whoever waits for what the loop's thread would do may do it himself, where
  // that is free: between TryEnter() and Leave() he has the loop, as its thread
  // otherwise has. He makes no handle, and leaves soon while wanted(). Only
  // after AdmitGuests().
  bool TryEnter();
  void Enter() { turn_.lock(); }
  void Leave();
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }

  // By whoever has the loop; idempotent.
  void AdmitGuests();

  // What follows only on the loop's thread.
  void AssertInLoop() const { RINGLET_CHECK(thread_.IsCurrent()); }
  uv_loop_t* uv() { return &loop_; }

 private:
  Loop() = default;
  void Run();
  void Drain();

  uv_loop_t loop_;
  uv_async_t wake_;
  std::mutex turn_;  // of whoever has the loop
  bool guests_ = false;
  std::atomic<bool> wanted_{false};  // by its thread
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;   // guarded by mutex_
  std::vector<std::function<void()>> running_;  // of the loop's thread
  Thread thread_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_LOOP_H_
