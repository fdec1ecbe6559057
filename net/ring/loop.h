// Loop: the one thread that owns libuv's loop and every handle on it.
//
// Internal to net/. Other threads only Post. Signals are blocked in this
// thread, so they reach the program's own, and a write to a closed connection
// is an error code and nothing else.

#ifndef RINGLET_NET_RING_LOOP_H_
#define RINGLET_NET_RING_LOOP_H_

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

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

  // What follows only on the loop's thread.
  void AssertInLoop() const { RINGLET_CHECK(thread_.IsCurrent()); }
  uv_loop_t* uv() { return &loop_; }

 private:
  Loop() = default;
  void Run();
  void Drain();

  uv_loop_t loop_;
  uv_async_t wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;   // guarded by mutex_
  std::vector<std::function<void()>> running_;  // of the loop's thread
  Thread thread_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_LOOP_H_
