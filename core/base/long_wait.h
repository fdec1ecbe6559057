// LongWait: a long wait of this process for other workers of its job, for
// the pages that show the training (docs/status.md).

#ifndef RINGLET_CORE_BASE_LONG_WAIT_H_
#define RINGLET_CORE_BASE_LONG_WAIT_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace ringlet {

struct LongWait {
  std::vector<int> workers;  // numbers in the job's list; empty without a wait
  int64_t since = 0;         // monotonic nanoseconds
};

// Reports the present wait to the listener of this process, if there is one.
// Any thread may call it.
void ReportLongWait(const LongWait& wait);

// Sets the listener; null removes it. After the return the previous listener is
// not called.
void SetLongWaitListener(std::function<void(const LongWait&)> listener);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_LONG_WAIT_H_
