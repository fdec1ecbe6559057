#include "thread.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "check.h"
#include "status.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RINGLET_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGLET_SANITIZED
#endif

namespace ringlet {
namespace {

void* Main(void* body) {
  (*static_cast<std::function<void()>*>(body))();
  return nullptr;
}

// Less is refused, with the thread-local data of the whole program on top.
size_t StackBytes() {
#ifdef RINGLET_SANITIZED
  return size_t{8} << 20;  // its frames are many times as large
#else
  const long least = sysconf(_SC_THREAD_STACK_MIN);
  return std::max(Thread::kStackBytes, least > 0 ? 2 * size_t(least) : 0);
#endif
}

}  // namespace

Thread::~Thread() { Join(); }

Status Thread::Start(const char* what, std::function<void()> body) {
  RINGLET_CHECK(!started_);
  body_ = std::move(body);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    error = pthread_attr_setstacksize(&attributes, StackBytes());
    if (error == 0) {
      error = pthread_create(&thread_, &attributes, Main, &body_);
    }
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) {
    return ResourceExhausted(
        "no thread %s: %s; raise the limit of memory, processes or tasks", what,
        ErrnoText(error).c_str());
  }
  started_ = true;
  return Status();
}

void Thread::Join() {
  if (!started_) return;
  RINGLET_CHECK(pthread_join(thread_, nullptr) == 0);
  started_ = false;
}

int UsableCores() {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) == 0) {
    return std::max(1, CPU_COUNT(&usable));
  }
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace ringlet
