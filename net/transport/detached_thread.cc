#include "detached_thread.h"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <utility>

namespace ringlet {

int StartDetachedThread(std::function<void()> body) {
  using Body = std::function<void()>;
  auto owned_body = std::make_unique<Body>(std::move(body));
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(
      &thread, &detached,
      [](void* argument) -> void* {
        const std::unique_ptr<Body> body(static_cast<Body*>(argument));
        (*body)();
        return nullptr;
      },
      owned_body.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&detached);
  if (error == 0)
    static_cast<void>(owned_body.release());  // the thread owns it now
  return error;
}

}  // namespace ringlet
