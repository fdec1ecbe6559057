// Launch: signals, killed launchers and processes that are left behind.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "../../support/eventually.h"
#include "../../support/temp_folder.h"
#include "launched_job.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream in("/proc/" + std::to_string(parent) + "/task/" +
                   std::to_string(parent) + "/children");
  for (pid_t child; in >> child;) children.push_back(child);
  return children;
}

// ringlet launch as a user runs it, its output in files. True if the programs
// run under an emulator of user space. There the orphans of a process do not
// become its children.
bool Emulated() {
  return EnvironmentOr("RINGLET_BUILD", "").find("/emulated") !=
         std::string::npos;
}

// --- signals -----------------------------------------------------------------

TEST_F(LauncherTest, Signal_IntTermOrHup_IsPassedOn) {
  for (const auto& [name, number] :
       {std::pair("INT", SIGINT), {"TERM", SIGTERM}, {"HUP", SIGHUP}}) {
    SCOPED_TRACE(name);
    StartScript(2,
                std::string("trap 'echo got ") + name + "; exit 5' " + name +
                    "; echo ready; while :; do sleep 0.05; done",
                {"--grace", "60"});
    ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 2; }));
    kill(launcher_, number);
    EXPECT_EQ(Wait(), 5);
    for (const char* prefix : {"[0] ", "[1] "}) {
      EXPECT_EQ(Of(prefix, out()),
                (Strings{"ready", std::string("got ") + name}));
    }
  }
}

TEST_F(LauncherTest, Signal_WorkersEndWell_JobEndsWell) {
  StartScript(2, "trap 'exit 0' INT; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 2; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(LauncherTest, Worker_IgnoresTheSignal_IsKilledAfterTheGrace) {
  StartScript(2, "trap '' INT; echo ready; while :; do sleep 0.05; done",
              {"--grace", "0.2"});
  ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 2; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Wait(), 128 + SIGKILL);
}

TEST_F(LauncherTest, Signal_Second_KillsImmediately) {
  StartScript(2,
              "trap 'echo deaf' INT; echo ready; while :; do sleep 0.05; "
              "done",
              {"--grace", "1000"});
  ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 2; }));
  kill(launcher_, SIGINT);
  ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 4; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Wait(), 128 + SIGKILL);
}

TEST_F(LauncherTest, Hangup_IgnoredByNohup_IsIgnored) {
  ignore_hangup_ = true;
  StartScript(1, "echo ready; " + Until("[ -e $FOLDER/sent ]") + "echo end");
  ASSERT_TRUE(Eventually([&] { return Lines(out()).size() == 1; }));
  kill(launcher_, SIGHUP);
  WriteWhole(folder_ / "sent", "");
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(Of("[0] ", out()), (Strings{"ready", "end"}));
}

TEST_F(LauncherTest, Signal_WorkerIsStopped_KillsItAfterTheGrace) {
  StartScript(1, "echo $$ >> $FOLDER/pids; kill -STOP $$", {"--grace", "0.2"});
  const std::vector<pid_t> pids = Pids(1);
  ASSERT_TRUE(Eventually([&] { return ProcessState(pids[0]) == 'T'; }));
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGKILL);
  ExpectGone(pids);
}

// --- nothing is left behind --------------------------------------------------

// Each worker has a child of its own; $FOLDER/pids has all.
const char kFamily[] =
    "sleep 1000 & echo $! >> $FOLDER/pids; echo $$ >> $FOLDER/pids; wait";

TEST_F(LauncherTest, Kill9_OfTheLauncher_LeavesNothing) {
  StartScript(3, kFamily);
  std::vector<pid_t> pids = Pids(6);
  for (pid_t child : ChildrenOf(launcher_)) pids.push_back(child);
  EXPECT_EQ(pids.size(), 10u);  // the workers again, and the guard
  KillLauncher();
  ExpectGone(pids);
}

TEST_F(LauncherTest, Kill9_DeafOrStoppedWorkers_LeavesNone) {
  StartScript(2,
              "trap '' TERM INT HUP; echo $$ >> $FOLDER/pids; "
              "[ $i = 0 ] && kill -STOP $$; while :; do sleep 0.05; done");
  const std::vector<pid_t> pids = Pids(2);
  ASSERT_TRUE(Eventually([&] {
    return ProcessState(pids[0]) == 'T' || ProcessState(pids[1]) == 'T';
  }));
  KillLauncher();
  ExpectGone(pids);
}

TEST_F(LauncherTest, Kill9_WorkersWithAnotherEnvironment_LeavesNone) {
  StartScript(2,
              "env -i sleep 1000 & echo $! >> $FOLDER/pids; "
              "echo $$ >> $FOLDER/pids; wait");
  const std::vector<pid_t> pids = Pids(4);
  KillLauncher();
  ExpectGone(pids);
}

// The launcher is killed with no, some and all of its children, and before and
// after some workers have run.
TEST_F(LauncherTest, Kill9_AtAnyMoment_LeavesNothing) {
  for (const size_t written : {0, 1, 3, 4}) {
    for (const size_t children : {0, 1, 2, 3, 4, 5}) {
      WriteWhole(folder_ / "pids", "");
      Start({"-n", "4", "--", "sh", "-c",
             "echo $$ >> $FOLDER/pids; exec sleep 1000"});
      EXPECT_TRUE(
          Eventually([&] { return ChildrenOf(launcher_).size() >= children; }));
      Pids(written);
      KillLauncher();
      EXPECT_TRUE(Eventually([&] { return !AnyWithThisFolder(); }));
    }
  }
}

#ifdef __linux__
TEST_F(LauncherTest, Kill9_GuardWasKilledToo_WorkersEnd) {
  StartScript(2, "echo $$ >> $FOLDER/pids; while :; do sleep 0.05; done");
  const std::vector<pid_t> pids = Pids(2);
  for (pid_t child : ChildrenOf(launcher_)) {
    if (child != pids[0] && child != pids[1]) kill(child, SIGKILL);
  }
  KillLauncher();
  ExpectGone(pids);
}
#endif

TEST_F(LauncherTest, Guard_WasKilled_JobContinues) {
  StartScript(1,
              std::string(kCount) +
                  "echo $$ >> $FOLDER/pids; "
                  "until [ -e $FOLDER/go ]; do sleep 0.05; done; [ $n = 2 ]",
              {"--restart", "--backoff", "0"});
  const std::vector<pid_t> pids = Pids(1);
  for (pid_t child : ChildrenOf(launcher_)) {
    if (child != pids[0]) kill(child, SIGKILL);
  }
  WriteWhole(folder_ / "go", "");
  EXPECT_EQ(Wait(), 0);
}

TEST_F(LauncherTest, Process_LeftInItsGroup_EndsWithItsWorker) {
  EXPECT_EQ(RunScript(2, "sleep 1000 & echo $! >> $FOLDER/pids"), 0);
  ExpectGone(Pids(2));
}

TEST_F(LauncherTest, Launcher_ProcessLeftTheGroup_IsNotHeldByIt) {
  EXPECT_EQ(RunScript(1,
                      "setsid sh -c 'echo $$ >> $FOLDER/pids; exec sleep 1000' "
                      "& until [ -e $FOLDER/pids ]; do sleep 0.05; done; "
                      "echo end",
                      {"--grace", "0.1"}),
            0);
  EXPECT_EQ(out(), "[0] end\n");
#ifndef __linux__
  // The launcher leaves a process with its own session.
  for (pid_t pid : Pids(1)) kill(pid, SIGKILL);
#endif
}

#ifdef __linux__

// Leaves its group, has a child, and loses its parent; one without a variable
// in its environment too.
const char kStrays[] =
    "(setsid sh -c 'sleep 1000 & echo $! >> $FOLDER/pids; "
    "echo $$ >> $FOLDER/pids; wait' &) & "
    "(setsid env -i sh -c \"setsid sleep 1000 & echo \\$! >> $FOLDER/pids; "
    "echo \\$\\$ >> $FOLDER/pids; wait\" &) & "
    "until [ $(cat $FOLDER/pids | wc -l) -ge 4 ]; do sleep 0.05; done; ";

TEST_F(LauncherTest, Process_LeftTheGroup_EndsWithTheJob) {
  if (Emulated()) GTEST_SKIP() << "an emulator does not adopt orphans";
  WriteWhole(folder_ / "pids", "");
  EXPECT_EQ(RunScript(1, kStrays, {"--grace", "0.3"}), 0);
  ExpectGone(Pids(4));
}

TEST_F(LauncherTest, Process_LeftTheGroup_EndsWithAFailedOrStoppedJob) {
  if (Emulated()) GTEST_SKIP() << "an emulator does not adopt orphans";
  WriteWhole(folder_ / "pids", "");
  EXPECT_EQ(RunScript(1, std::string(kStrays) + "exit 3", {"--grace", "0.3"}),
            3);
  ExpectGone(Pids(4));
  WriteWhole(folder_ / "pids", "");
  StartScript(1, std::string(kStrays) + "echo up; exec sleep 1000",
              {"--grace", "0.3"});
  ASSERT_TRUE(Eventually([&] { return out() == "[0] up\n"; }));
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
  ExpectGone(Pids(4));
}

TEST_F(LauncherTest, Process_LeftTheGroup_EndsBeforeItsWorkerRestarts) {
  if (Emulated()) GTEST_SKIP() << "an emulator does not adopt orphans";
  EXPECT_EQ(
      RunScript(2,
                std::string(kCount) +
                    "if [ $i$n = 11 ]; then setsid sleep 1000 & "
                    "echo $! >> $FOLDER/pids; " +
                    Until("grep -q sleep /proc/$!/comm") +  // a new session
                    "exit 7; fi; "
                    "if [ $i = 0 ]; then (setsid sleep 1000 & "
                    "echo $! > $FOLDER/mine); "
                    "until [ -e $FOLDER/over ]; do sleep 0.05; done; "
                    "kill -0 $(cat $FOLDER/mine) && echo mine lives; exit 0; "
                    "fi; kill -0 $(cat $FOLDER/pids) || echo gone; "
                    "echo > $FOLDER/over",
                {"--restart", "--backoff", "0.1"}),
      0);
  EXPECT_EQ(Of("[1] ", out()), Strings{"gone"});
  EXPECT_EQ(Of("[0] ", out()), Strings{"mine lives"});
}

TEST_F(LauncherTest, Kill9_ProcessesLeftTheGroup_LeavesNone) {
  StartScript(2,
              "setsid sh -c 'sleep 1000 & echo $! >> $FOLDER/pids; "
              "echo $$ >> $FOLDER/pids; wait' & wait");
  const std::vector<pid_t> pids = Pids(4);
  KillLauncher();
  ExpectGone(pids);
}

TEST_F(LauncherTest, Orphans_EndDuringTheJob_LeaveNoZombie) {
  StartScript(1,
              "for k in 1 2 3 4 5; do (setsid sh -c 'echo $$ >> $FOLDER/pids' "
              "&); done; echo up; exec sleep 1000");
  const std::vector<pid_t> pids = Pids(5);
  for (pid_t pid : pids) {
    EXPECT_TRUE(Eventually([&] { return kill(pid, 0) != 0; })) << pid;
  }
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
}

#endif

}  // namespace
}  // namespace ringlet
