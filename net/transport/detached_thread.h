// StartDetachedThread: a thread that is never joined, for system calls that
// cannot be stopped.
//
// The thread handles no signals. It may outlive its caller, so the body must
// own the objects that it uses, as by a shared_ptr.

#ifndef RINGLET_NET_TRANSPORT_DETACHED_THREAD_H_
#define RINGLET_NET_TRANSPORT_DETACHED_THREAD_H_

#include <functional>

namespace ringlet {

// Runs `body` on a new thread. Returns 0, or the errno of pthread_create.
int StartDetachedThread(std::function<void()> body);

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_DETACHED_THREAD_H_
