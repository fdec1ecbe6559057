#include "interrupts.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <mutex>

#include "../base/message.h"
#include "../base/trail.h"

namespace ringlet {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// What else would end the process with nothing saved: a line for a reader that
// has left (Ctrl-C ends the `tee` behind a pipe too), a file beyond its limit.
// The call that causes one fails instead.
constexpr int kFailures[] = {SIGPIPE, SIGXFSZ};

// The process's: a signal has no other place to leave its mark.
std::atomic<int> g_signal{0};
std::atomic<bool> g_says{false};
static_assert(std::atomic<int>::is_always_lock_free);

void Handle(int number) {
  const int error = errno;
  TrailEvent event;
  event.kind = TrailKind::kSignal;
  event.code = number;
  NoteEvent(event);
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, number)) {
    // Delivered once this handler has returned.
    std::signal(number, SIG_DFL);
    raise(number);
  } else if (g_says) {
    NoticeNow(
        "interrupted: the step is finished, and what was trained is saved; a "
        "second signal ends at once\n");
  }
  errno = error;
}

struct Handlers {
  std::mutex mutex;
  int users = 0;
  struct sigaction before[std::size(kSignals)];
  struct sigaction before_failures[std::size(kFailures)];
};

Handlers& handlers() {
  static Handlers* const handlers = new Handlers;
  return *handlers;
}

}  // namespace

Interrupts::Interrupts(bool says) {
  Handlers& h = handlers();
  const std::lock_guard<std::mutex> lock(h.mutex);
  if (h.users++ > 0) {
    if (says) g_says = true;
    return;
  }
  g_signal = 0;
  g_says = says;
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &h.before[i]);
    if (h.before[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  for (size_t i = 0; i < std::size(kFailures); ++i) {
    sigaction(kFailures[i], nullptr, &h.before_failures[i]);
    if (h.before_failures[i].sa_handler != SIG_DFL) continue;
    sigaction(kFailures[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  Handlers& h = handlers();
  const std::lock_guard<std::mutex> lock(h.mutex);
  if (--h.users > 0) return;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &h.before[i], nullptr);
  }
  for (size_t i = 0; i < std::size(kFailures); ++i) {
    sigaction(kFailures[i], &h.before_failures[i], nullptr);
  }
}

void Interrupts::Note(FitState* fit) {
  if (g_signal == 0) return;
  fit->interrupted = true;
  fit->signal = g_signal;
}

}  // namespace ringlet
