#include "io/logs/service_notifier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/notify_socket.h"
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
  fit.steps_per_epoch = 3;
  Logs logs;
  logs.Set("loss", 0.5);
  for (; fit.step < 3; ++fit.step) {
    ASSERT_OK(notifier.OnTrainBatchEnd(fit, logs));
    clock.Advance(0.5);
  }
  clock.Advance(0.5);
  ASSERT_OK(notifier.OnTestBatchEnd(fit));
  notifier.OnFitReturn(fit, Status());
  EXPECT_EQ(g_sent,
            (std::vector<std::string>{
                "WATCHDOG=1\nSTATUS=epoch 1, step 1 of 3, loss 0.5",
                "WATCHDOG=1\nSTATUS=epoch 1, step 3 of 3, loss 0.5",
                "WATCHDOG=1\nSTATUS=epoch 1, validation", "STATUS=trained"}));
}

// Sets NOTIFY_SOCKET while it exists.
class ServiceEnvironment {
 public:
  explicit ServiceEnvironment(const std::string& name) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~ServiceEnvironment() { unsetenv("NOTIFY_SOCKET"); }
  ServiceEnvironment(const ServiceEnvironment&) = delete;
  ServiceEnvironment& operator=(const ServiceEnvironment&) = delete;
};

TEST(NotifyServiceTest, Send_Path_GetsTheMessage) {
  const TempFolder folder;
  NotifySocket systemd(folder.path() + "/notify");
  const ServiceEnvironment environment(systemd.name());
  NotifyService("READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyServiceTest, Send_AbstractName_GetsTheMessage) {
  NotifySocket systemd("@ringlet-notify-test-" + std::to_string(getpid()));
  const ServiceEnvironment environment(systemd.name());
  NotifyService("READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyServiceTest, Send_ReaderDoesNotRead_DoesNotWait) {
  const TempFolder folder;
  NotifySocket systemd(folder.path() + "/notify");
  const ServiceEnvironment environment(systemd.name());
  for (int i = 0; i < 5000; ++i) NotifyService("WATCHDOG=1");
  EXPECT_EQ(systemd.Take(), "WATCHDOG=1");
}

TEST(NotifyServiceTest, Send_WrongNames_AreIgnored) {
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("relative"),
        std::string("/missing/socket"), "/" + std::string(200, 'x')}) {
    const ServiceEnvironment environment(name);
    NotifyService("READY=1");
  }
}

}  // namespace
}  // namespace ringlet
