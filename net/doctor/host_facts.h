// Facts about this host, for the checks of host_checks.h.

#ifndef RINGLET_NET_DOCTOR_HOST_FACTS_H_
#define RINGLET_NET_DOCTOR_HOST_FACTS_H_

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "../transport/detached_thread.h"
#include "host_checks.h"

namespace ringlet {

CpuFacts ObserveCpu(int64_t threads);
// All but `needed`.
MemoryFacts ObserveMemory();

// The largest packet on the route to the address, as the system knows it; 0 if
// unknown. Nothing is sent.
int64_t PacketBytesTo(const sockaddr_storage& to);

// Writes 1 MB to the folder, which may take long. Leaves no file, unless the
// process ends first. DiskFacts explains `use` and `needed`.
DiskFacts ObserveDisk(const std::string& folder, const std::string& use,
                      uint64_t needed);

// A value that a thread computes. The thread may outlive this object: a slow
// disk does not delay the caller.
template <typename T>
class Observed {
 public:
  explicit Observed(std::function<T()> observe)
      : state_(std::make_shared<State>()) {
    StartDetachedThread([state = state_, observe = std::move(observe)] {
      T value = observe();
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->value = std::move(value);
      state->changed.notify_all();
    });
  }
  // Waits for it, at most `seconds`. Empty if it is not there yet.
  std::optional<T> Wait(double seconds) const {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait_for(
        lock, std::chrono::duration<double>(std::max(0., seconds)),
        [this] { return state_->value.has_value(); });
    return state_->value;
  }

 private:
  struct State {
    std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_HOST_FACTS_H_
