#include "long_wait.h"

#include <mutex>
#include <utility>

namespace ringlet {
namespace {

std::mutex g_mutex;
std::function<void(const LongWait&)> g_listener;  // guarded by g_mutex

}  // namespace

void ReportLongWait(const LongWait& wait) {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (g_listener) g_listener(wait);
}

void SetLongWaitListener(std::function<void(const LongWait&)> listener) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_listener = std::move(listener);
}

}  // namespace ringlet
