// Fiber: code that may wait, in a simulation that may not. It is a thread that
// runs only between Resume and Yield, and the simulation stops meanwhile.

#ifndef RINGLET_TESTS_NET_RING_SIM_FIBER_H_
#define RINGLET_TESTS_NET_RING_SIM_FIBER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace ringlet {
namespace sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body) {
    thread_ = std::thread([this, body = std::move(body)] {
      Await(/*inside=*/true);
      body();
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
      inside_ = false;
      changed_.notify_all();
    });
  }
  // Destroy it after the body has returned.
  ~Fiber() { thread_.join(); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The simulation calls it: runs the body until it yields or returns.
  void Resume() { Switch(/*inside=*/true); }
  // The body calls it: runs the simulation until it calls Resume.
  void Yield() { Switch(/*inside=*/false); }
  // The simulation calls it: true if the body has returned.
  bool done() const { return done_; }

 private:
  void Switch(bool inside) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      inside_ = inside;
      changed_.notify_all();
    }
    Await(!inside);
  }
  void Await(bool inside) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return inside_ == inside; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool inside_ = false, done_ = false;
  std::thread thread_;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_FIBER_H_
