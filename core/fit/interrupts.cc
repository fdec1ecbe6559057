#include "interrupts.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <mutex>

#include "../base/events.h"
#include "../base/notice_now.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Signals that would end the process without saving: a line to a closed reader
// (Ctrl-C also ends the `tee` behind a pipe), a file beyond its limit. The
// causing call fails instead.
constexpr int kFailures[] = {SIGPIPE, SIGXFSZ};

// These variables are global, since a signal handler gets no other argument
// than the signal.
std::atomic<int> g_signal{0};
std::atomic<bool> g_prints{false};
static_assert(std::atomic<int>::is_always_lock_free);

// An Event would allocate memory. The signals' numbers have one or two digits.
void RecordSignal(int number) {
  EventSink* const sink = g_events;
  if (sink == nullptr) return;
  char fields[] = "\"event\":\"signal\",\"signal\":00";
  size_t end = sizeof(fields) - 3;
  if (number > 9) fields[end++] = static_cast<char>('0' + number / 10);
  fields[end++] = static_cast<char>('0' + number % 10);
  sink->Write(fields, end);
}

void HandleSignal(int number) {
  const int error = errno;
  RecordSignal(number);
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, number)) {
    // The signal is delivered after this handler has returned.
    std::signal(number, SIG_DFL);
    raise(number);
  } else if (g_prints) {
    NoticeNow(
        "interrupted: the step will be finished, and what was trained will be "
        "saved; a second signal ends it immediately\n");
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

Interrupts::Interrupts(bool prints) {
  Handlers& h = handlers();
  const std::lock_guard<std::mutex> lock(h.mutex);
  if (h.users++ > 0) {
    if (prints) g_prints = true;
    return;
  }
  g_signal = 0;
  g_prints = prints;
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
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

void Interrupts::CopySignal(FitState* fit) {
  if (g_signal == 0) return;
  fit->interrupted = true;
  fit->signal = g_signal;
}

}  // namespace ringlet
