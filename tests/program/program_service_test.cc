// ringlet train as a service of systemd.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "../support/contains.h"
#include "../support/notify_socket.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "core/base/text.h"

namespace ringlet {
namespace {

TEST_F(ProgramTest, Train_NotifySocket_GetsReadyProgressAndEnd) {
  WriteRun();
  NotifySocket systemd(logs_ / "notify");
  environment_ = {{"NOTIFY_SOCKET", systemd.name()}};
  ASSERT_EQ(Run({"train", "run.json", "--save", "w"}), 0) << err_;
  std::string messages;
  for (std::string text; !(text = systemd.Take()).empty();) {
    messages += text + "\n";
  }
  EXPECT_EQ(messages.find("READY=1\n"), 0u) << messages;
  EXPECT_TRUE(
      Contains(messages, "WATCHDOG=1\nSTATUS=epoch 1, step 1 of 3, loss "));
  EXPECT_TRUE(EndsWith(messages, "STATUS=trained\n")) << messages;
}

TEST_F(ProgramTest, Error_StderrGoesToTheJournal_HasTheLevel) {
  const std::string err = logs_ / "err";  // the program's stderr
  WriteWhole(err, "");
  struct stat file;
  ASSERT_EQ(stat(err.c_str(), &file), 0);
  environment_ = {{"JOURNAL_STREAM", std::to_string(file.st_dev) + ":" +
                                         std::to_string(file.st_ino)}};
  EXPECT_EQ(Run({"train", "missing.json"}), 2);
  EXPECT_EQ(err_.find("<3>error: missing.json"), 0u) << err_;
}

}  // namespace
}  // namespace ringlet
