// ServiceNotifier: a callback that tells systemd how a service's training goes.
//
// Internal. The protocol is sd_notify(3)'s: datagrams of lines such as
// "READY=1" to the socket that NOTIFY_SOCKET names.

#ifndef RINGLET_IO_LOGS_SERVICE_NOTIFIER_H_
#define RINGLET_IO_LOGS_SERVICE_NOTIFIER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/collective.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

// Sends `message` to systemd. Without NOTIFY_SOCKET nothing is sent. It never
// waits, and it ignores an error: the training does not depend on it.
void NotifyService(const std::string& message);

// Sends the position and the loss as the service's status, and with it the sign
// of life for WatchdogSec=, after steps and batches of a validation. A worker
// that waits for a lost one sends none.
class ServiceNotifier final : public Callback {
 public:
  using Send = void (*)(const std::string& message);

  // Calls `send` at most once a second. `clock` outlives it.
  explicit ServiceNotifier(Send send = NotifyService,
                           Clock* clock = Clock::System())
      : send_(send), clock_(clock) {}

  const char* name() const override { return "service_notifier"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override;
  Status OnTestBatchEnd(FitState& fit) override;
  void OnFitReturn(FitState& fit, const Status& status) override;

 private:
  // If a second has passed since the last status, returns true and counts a
  // status as sent now: the caller sends it.
  bool MarkSentIfDue();
  void SendStatus(const std::string& status) {
    send_("WATCHDOG=1\nSTATUS=" + status);
  }

  const Send send_;
  Clock* const clock_;
  bool has_sent_ = false;
  int64_t last_sent_ = 0;  // a time
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_SERVICE_NOTIFIER_H_
