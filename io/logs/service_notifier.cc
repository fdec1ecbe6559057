#include "service_notifier.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "../../core/base/text.h"

namespace ringlet {
void NotifyService(const std::string& message) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  // A path, or "@" and the name of an abstract socket.
  const size_t length = name == nullptr ? 0 : std::strlen(name);
  if (length < 2 || length >= sizeof(address.sun_path)) return;
  if (name[0] != '/' && name[0] != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (fd < 0) return;
  (void)sendto(
      fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
      reinterpret_cast<const sockaddr*>(&address),
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

bool ServiceNotifier::MarkSentIfDue() {
  constexpr int64_t kNanosASecond = 1000000000;
  const int64_t now = clock_->MonotonicNanos();
  if (has_sent_ && now - last_sent_ < kNanosASecond) return false;
  has_sent_ = true;
  last_sent_ = now;
  return true;
}

Status ServiceNotifier::OnTrainBatchEnd(FitState& fit, const Logs& logs) {
  if (!MarkSentIfDue()) return Status();
  std::string text = fit.NextStep();  // the step that ends here
  if (const double* const loss = logs.Find("loss")) {
    text += FormatText(", loss %.4g", *loss);
  }
  SendStatus(text);
  return Status();
}

Status ServiceNotifier::OnTestBatchEnd(FitState& fit) {
  if (!MarkSentIfDue()) return Status();
  SendStatus("epoch " + std::to_string(fit.epoch + 1) + ", validation");
  return Status();
}

void ServiceNotifier::OnFitReturn(FitState&, const Status& status) {
  // After a loss the fit may go on: it then sends again.
  if (status.code() == Code::kPeerLost) {
    send_("STATUS=a worker was lost");
  } else {
    send_(status.ok() ? "STATUS=trained" : "STATUS=training has ended early");
  }
}

}  // namespace ringlet
