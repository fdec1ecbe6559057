#include "io/logs/service_notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../../support/fake_clock.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

std::vector<std::string> g_sent;

void Record(const std::string& message) { g_sent.push_back(message); }

TEST(ServiceNotifierTest, Status_ManySteps_IsSentOnceASecond) {
  g_sent.clear();
  FakeClock clock;
  ServiceNotifier notifier(Record, &clock);
  FitState fit;
  fit.epochs = 2;
  fit.steps_per_epoch = 3;
  Logs logs;
  logs.Set("loss", 0.5);
  for (; fit.step < 3; ++fit.step) {
    ASSERT_TRUE(notifier.OnTrainBatchEnd(fit, logs).ok());
    clock.Advance(0.5);
  }
  clock.Advance(0.5);
  ASSERT_TRUE(notifier.OnTestBatchEnd(fit).ok());
  notifier.OnFitReturn(fit, Status());
  EXPECT_EQ(
      g_sent,
      (std::vector<std::string>{
          "WATCHDOG=1\nSTATUS=epoch 1 of 2, step 1 of 3, loss 0.5",
          "WATCHDOG=1\nSTATUS=epoch 1 of 2, step 3 of 3, loss 0.5",
          "WATCHDOG=1\nSTATUS=epoch 1 of 2, validation", "STATUS=trained"}));
}

// A socket as systemd has it.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                          name.size())),
              0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  // The next datagram; "" if there is none.
  std::string Take() {
    char text[256];
    const ssize_t n = recv(fd_, text, sizeof(text), MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
  }

 private:
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM, 0);
};

TEST(NotifyServiceTest, Send_Path_GetsTheMessage) {
  const TempFolder folder;
  NotifySocket systemd(folder.path() + "/notify");
  NotifyService("READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyServiceTest, Send_AbstractName_GetsTheMessage) {
  NotifySocket systemd("@ringlet-notify-test-" + std::to_string(getpid()));
  NotifyService("READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyServiceTest, Send_ReaderDoesNotRead_DoesNotWait) {
  const TempFolder folder;
  NotifySocket systemd(folder.path() + "/notify");
  for (int i = 0; i < 5000; ++i) NotifyService("WATCHDOG=1");
  EXPECT_EQ(systemd.Take(), "WATCHDOG=1");
}

TEST(NotifyServiceTest, Send_WrongNames_AreIgnored) {
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("relative"),
        std::string("/missing/socket"), "/" + std::string(200, 'x')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    NotifyService("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace ringlet
