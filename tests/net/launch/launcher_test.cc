#include "net/launch/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/map_environment.h"
#include "../../support/temp_folder.h"
#include "core/base/key_file.h"
#include "launched_job.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

// --- what a worker is given --------------------------------------------------

TEST_F(LauncherTest, TfConfig_OfEachWorker_HasItsTaskInOneCluster) {
  EXPECT_EQ(RunScript(3, "echo \"$TF_CONFIG\""), 0);
  std::vector<Address> first;
  for (int i = 0; i < 3; ++i) {
    const Strings lines = Of("[" + std::to_string(i) + "] ", out());
    ASSERT_EQ(lines.size(), 1u);
    ClusterConfig config;
    ASSERT_OK(ClusterFromEnvironment(MapEnvironment({{"TF_CONFIG", lines[0]}}),
                                     &config));
    EXPECT_EQ(config.worker, i);
    EXPECT_EQ(config.world_size, 3);
    EXPECT_EQ(config.task_type, "worker");
    if (i == 0) first = config.addresses;
    EXPECT_EQ(config.addresses, first);
    EXPECT_EQ(config.addresses[0].host, "127.0.0.1");
  }
}

TEST_F(LauncherTest, Worker_Started_HasEmptyInputAndTheEnvironment) {
  EXPECT_EQ(RunScript(1,
                      "cat; echo $FOLDER; set -- $(env | grep -c TF_CONFIG=)"
                      "; echo $1"),
            0);
  EXPECT_EQ(Of("[0] ", out()), (Strings{folder_.path(), "1"}));
}

// A file descriptor's path in /proc, so the key is in no file system.
TEST_F(LauncherTest, Key_OfAJob_IsThereForItsWorkersAlone) {
  setenv(kLauncherKeyVariable, "another launcher's", 1);
  EXPECT_EQ(RunScript(2,
                      "env | grep -c LAUNCHER_KEY; echo $RINGLET_LAUNCHER_KEY; "
                      "stat -Lc %a $RINGLET_LAUNCHER_KEY; "
                      "grep -v \"#\" $RINGLET_LAUNCHER_KEY"),
            0);
  unsetenv(kLauncherKeyVariable);
  const Strings lines = Of("[0] ", out());
  ASSERT_EQ(lines.size(), 4u) << out();
  EXPECT_EQ(lines[0], "1");
  EXPECT_EQ(lines[1].compare(0, 6, "/proc/"), 0);
  EXPECT_EQ(lines[2], "600");
  EXPECT_EQ(lines[3].size(), 44u);
  EXPECT_EQ(Of("[1] ", out()), lines);
  EXPECT_FALSE(std::filesystem::exists(lines[1]));  // gone with the job
  EXPECT_EQ(RunScript(1, "grep -v \"#\" $RINGLET_LAUNCHER_KEY"), 0);
  EXPECT_NE(Of("[0] ", out()), Strings{lines[3]});  // another job's key
}

#ifdef RINGLET_SECURE
// The system has no memory for the key: here no file may have bytes.
TEST_F(LauncherTest, Key_CannotBeMade_IsAWarning) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer needs a file of its own";
#endif
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  Start({"-n", "1", "--", "sh", "-c", "echo key=$RINGLET_LAUNCHER_KEY"},
        ends[1], ends[1]);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(Wait(), 0);
  close(ends[1]);
  char printed[4096] = {};
  EXPECT_GT(read(ends[0], printed, sizeof(printed) - 1), 0);
  close(ends[0]);
  EXPECT_EQ(Of("[0] ", printed), Strings{"key="}) << printed;
  EXPECT_TRUE(Contains(printed, "[launcher] warning: no key could be made"));
}
#endif

// --- exit codes --------------------------------------------------------------

TEST_F(LauncherTest, ExitCode_SeveralFail_IsTheFirstFailures) {
  EXPECT_EQ(RunScript(3, "case $i in 1) exit 3;; 2) " +
                             Until("grep -q 'worker 1 ended' $FOLDER/err") +
                             "exit 4;; esac"),
            3);
  EXPECT_EQ(Of("[launcher] ", err()).size(), 1u) << err();
  EXPECT_TRUE(Contains(err(), "worker 1 ended with exit code 3"));
}

TEST_F(LauncherTest, ExitCode_WorkerIsKilled_Is128AndTheSignal) {
  EXPECT_EQ(RunScript(2, "[ $i = 0 ] || kill -9 $$"), 128 + SIGKILL);
  EXPECT_TRUE(Contains(err(), "worker 1 was ended by signal 9"));
}

TEST_F(LauncherTest, Failure_OthersEndWithinTheGrace_AreNotStopped) {
  EXPECT_EQ(RunScript(2,
                      "[ $i = 0 ] && exit 75; " +
                          Until("grep -q 'worker 0 ended' $FOLDER/err") +
                          "echo I saw it; exit 1",
                      {"--grace", "60"}),
            75);
  EXPECT_EQ(Of("[1] ", out()), Strings{"I saw it"});
}

TEST_F(LauncherTest, Failure_OthersDoNotEnd_AreStopped) {
  WriteWhole(folder_ / "pids", "");
  EXPECT_EQ(
      RunScript(3,
                "[ $i = 0 ] && { " + Until("[ $(wc -l < $FOLDER/pids) = 2 ]") +
                    "exit 9; }; trap 'echo term; exit 0' TERM; "
                    "echo $$ >> $FOLDER/pids; "
                    "while :; do sleep 0.05; done",
                {"--grace", "3"}),
      9);
  EXPECT_EQ(Of("[1] ", out()), Strings{"term"});
  EXPECT_EQ(Of("[2] ", out()), Strings{"term"});
  ExpectGone(Pids(2));
}

TEST_F(LauncherTest, Failure_OtherIgnoresSigterm_IsKilled) {
  EXPECT_EQ(RunScript(2,
                      "[ $i = 0 ] && { " + Until("[ -s $FOLDER/pids ]") +
                          "exit 9; }; trap '' TERM; "
                          "echo $$ >> $FOLDER/pids; "
                          "while :; do sleep 0.05; done",
                      {"--grace", "0.2"}),
            9);
  ExpectGone(Pids(1));
}

TEST_F(LauncherTest, ExitCode_CommandIsNotThere_Is127) {
  // A folder of PATH that this user may not read would make it 126.
  const std::string path = EnvironmentOr("PATH", "");
  setenv("PATH", "/usr/bin:/bin", 1);
  EXPECT_EQ(Run({"-n", "3", "--", "ringlet-no-such-command"}), 127);
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(Contains(err(), "cannot start 'ringlet-no-such-command'"));
  EXPECT_TRUE(Contains(err(), "No such file"));
  EXPECT_EQ(Lines(err()).size(), 1u) << err();
}

TEST_F(LauncherTest, ExitCode_CommandCannotRun_Is126) {
  WriteWhole(folder_ / "text", "not a program");
  EXPECT_EQ(Run({"-n", "1", folder_ / "text"}), 126);
  EXPECT_TRUE(Contains(err(), "ermission denied"));
}

TEST_F(LauncherTest, ExitCode_WrongUsage_Is2WithAnExplanation) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{}, "-n is missing"},
      {{"true"}, "-n is missing"},
      {{"-n"}, "-n is the last word; N must follow it"},
      {{"-n", "0", "true"}, "wrong number for -n: 0"},
      {{"-n", "-1", "true"}, "wrong number for -n: -1"},
      {{"-n", "257", "true"}, "wrong number for -n: 257"},
      {{"-n", "two", "true"}, "wrong number for -n: two"},
      {{"-n", "2.5", "true"}, "wrong number for -n: 2.5"},
      {{"-n", "99999999999999999999", "true"}, "wrong number for -n"},
      {{"-n", "2"}, "COMMAND is missing"},
      {{"-n", "2", "--"}, "COMMAND is missing"},
      {{"-n", "2", "--restrat", "true"},
       "unknown flag '--restrat'; the nearest known is '--restart'"},
      {{"-n", "2", "--grace", "soon", "true"},
       "wrong number for --grace: soon"},
      {{"-n", "2", "--grace", "-1", "true"}, "wrong number for --grace: -1"},
      {{"-n", "2", "--grace", "nan", "true"}, "wrong number for --grace: nan"},
      {{"-n", "2", "--backoff", "", "true"}, "wrong number for --backoff"},
      {{"-n", "2", "--max-restarts", "x", "true"},
       "wrong number for --max-restarts: x"},
  };
  for (const auto& [arguments, message] : cases) {
    SCOPED_TRACE(message);
    EXPECT_EQ(Run(arguments), 2);
    EXPECT_TRUE(Contains(err(), message));
    EXPECT_EQ(Lines(err()).size(), 1u) << err();
    EXPECT_TRUE(Contains(err(), "(see 'ringlet launch --help')"));
    EXPECT_EQ(out(), "");
  }
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_TRUE(Contains(out(), "--restart"));
}

// `ulimit -n`: too few files are an error, whichever call fails.
TEST_F(LauncherTest, OpenFiles_AnyLimit_WorkersRunOrAnErrorNamesIt) {
  bool refused = false, ran = false;
  for (open_files_ = 4; open_files_ <= 28; ++open_files_) {
    SCOPED_TRACE(open_files_);
    const int code = RunScript(2, "echo done", {"--restart"});
    ran = code == 0;
    if (ran) {
      EXPECT_EQ(Of("[0] ", out()), Strings{"done"});
    } else if (code != 127) {  // 127: its libraries could not be loaded
      refused = true;
      EXPECT_EQ(code, 1) << err();
      const Strings errors = Of("error: ", err());
      ASSERT_EQ(errors.size(), 1u) << err();
      EXPECT_TRUE(Contains(errors[0], "ulimit -n"));
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(ran);
}

TEST_F(LauncherTest, Options_BehindTheCommand_BelongToIt) {
  EXPECT_EQ(Run({"-n", "1", "echo", "-n", "--help"}), 0);
  EXPECT_EQ(out(), "[0] --help\n");
  EXPECT_EQ(Run({"-n", "1", "--", "echo", "--"}), 0);
  EXPECT_EQ(out(), "[0] --\n");
}

TEST_F(LauncherTest, Warning_MoreWorkersThanCores_IsGivenOnce) {
  const int cores = UsableCores();
  const auto warned = [&](int workers) {
    EXPECT_EQ(RunScript(workers, "true"), 0);
    return Of("warning: ", ReadWhole(folder_ / "err"));
  };
  EXPECT_EQ(warned(cores).size(), 0u);
  if (cores + 1 > 256) return;
  const Strings lines = warned(cores + 1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(
      Contains(lines[0], std::to_string(cores + 1) + " workers with 1 thread"));
}

TEST_F(LauncherTest, Restart_WorkerFails_StartsItWithTheSameTask) {
  EXPECT_EQ(RunScript(2,
                      std::string(kCount) +
                          "echo run $n; echo \"$TF_CONFIG\" >> $FOLDER/tf$i; "
                          "[ $i = 0 ] || [ $n = 3 ] || exit 7",
                      {"--restart", "--backoff", "0.01"}),
            0);
  EXPECT_EQ(Of("[0] ", out()), Strings{"run 1"});
  EXPECT_EQ(Of("[1] ", out()), (Strings{"run 1", "run 2", "run 3"}));
  const Strings tasks = Lines(ReadWhole(folder_ / "tf1"));
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(std::set<std::string>(tasks.begin(), tasks.end()).size(), 1u);
  EXPECT_EQ(Of("[launcher] worker 1 ended with exit code 7; it is started "
               "again in 0.0",
               err()),
            (Strings{"1 s (restart 1 of 3)", "2 s (restart 2 of 3)"}));
}

TEST_F(LauncherTest, Restart_WorkerIsKilled_StartsItAgain) {
  EXPECT_EQ(RunScript(1, std::string(kCount) + "[ $n = 2 ] || kill -9 $$",
                      {"--restart", "--backoff", "0"}),
            0);
}

TEST_F(LauncherTest, Restart_NoneIsLeft_FailureEndsTheJob) {
  EXPECT_EQ(
      RunScript(2,
                std::string(kCount) +
                    "[ $i = 0 ] && exec sleep 1000; echo run; exit $((n + 10))",
                {"--restart", "--backoff", "0.01", "--max-restarts", "2",
                 "--grace", "0.1"}),
      13);
  EXPECT_EQ(Of("[1] ", out()).size(), 3u);
}

TEST_F(LauncherTest, Restarts_EveryRunIsHealthy_HaveNoLimit) {
  EXPECT_EQ(RunScript(1, std::string(kCount) + "[ $n = 4 ] || exit 7",
                      {"--restart", "--backoff", "0", "--max-restarts", "1",
                       "--healthy", "0"}),
            0);
  EXPECT_EQ(Lines(ReadWhole(folder_ / "runs0")).size(), 4u);
}

// A wrong configuration is as wrong the next time.
TEST_F(LauncherTest, Restart_ExitCode2_EndsTheJob) {
  EXPECT_EQ(RunScript(2,
                      std::string(kCount) +
                          "echo run $n; [ $i = 1 ] || exec sleep 1000; "
                          "[ $n = 1 ] && exit 75; exit 2",
                      {"--restart", "--backoff", "0.01", "--grace", "0.1"}),
            2);
  EXPECT_EQ(Of("[1] ", out()), (Strings{"run 1", "run 2"}));
  EXPECT_TRUE(Contains(err(), "worker 1 ended with exit code 2; waiting"));
}

TEST_F(LauncherTest, Restart_NotAskedFor_NothingIsStartedAgain) {
  EXPECT_EQ(RunScript(1, "echo run; exit 7"), 7);
  EXPECT_EQ(out(), "[0] run\n");
}

TEST_F(LauncherTest, Restart_SignalDuringTheWait_EndsTheJob) {
  StartScript(2, "[ $i = 0 ] && exit 7; exec sleep 1000",
              {"--restart", "--backoff", "1000"});
  ASSERT_TRUE(Eventually(
      [&] { return err().find("started again") != std::string::npos; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Wait(), 7);
}

// --- the function ------------------------------------------------------------

TEST(LaunchTest, Options_Wrong_AreRefused) {
  const auto refused = [](const std::function<void(LaunchOptions*)>& spoil) {
    LaunchOptions options;
    options.command = {"true"};
    spoil(&options);
    const Result<int> result = Launch(options);
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_STRNE(result.status().message(), "");
  };
  refused([](LaunchOptions* o) { o->command.clear(); });
  refused([](LaunchOptions* o) { o->command = {""}; });
  refused([](LaunchOptions* o) { o->workers = 0; });
  refused([](LaunchOptions* o) { o->workers = -1; });
  refused([](LaunchOptions* o) { o->workers = kMaxLocalWorkers + 1; });
  refused([](LaunchOptions* o) { o->max_restarts = -1; });
  refused([](LaunchOptions* o) { o->grace_seconds = -1; });
  refused([](LaunchOptions* o) { o->backoff_seconds = 1e300; });
  refused([](LaunchOptions* o) { o->max_backoff_seconds = 0.0 / 0.0; });
}

#ifdef __linux__
TEST(LaunchTest, Launch_OtherChildrenOfTheCaller_AreLeftAlone) {
  const pid_t child = fork();  // a child from before, with its own session
  if (child == 0) {
    setsid();
    pause();
    _exit(0);
  }
  while (getsid(child) != child) std::this_thread::yield();
  const TempFolder folder;
  LaunchOptions options;
  options.command = {
      "sh", "-c",
      "cd " + folder.path() + "; echo > up; " + Until("[ -e forked ]")};
  pid_t meanwhile = 0;  // a child of another thread
  std::thread other([&] {
    EXPECT_TRUE(Eventually(
        [&] { return std::filesystem::exists(std::string(folder / "up")); }));
    meanwhile = fork();
    if (meanwhile == 0) {
      execlp("sleep", "sleep", "1000", static_cast<char*>(nullptr));
      _exit(1);
    }
    WriteWhole(folder / "forked", "");
  });
  EXPECT_EQ(Launch(options).value(), 0);
  other.join();
  for (pid_t pid : {child, meanwhile}) {
    EXPECT_TRUE(Alive(pid));
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
}
#endif

TEST(LaunchTest, Launch_AnyEnd_LeavesNoDescriptorAndNoChild) {
  const auto descriptors = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  };
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  LaunchOptions options;
  options.stdout_fd = options.stderr_fd = null;
  options.workers = 2;
  const auto codes = [&](const Strings& command) {
    options.command = command;
    return Launch(options);
  };
  // libuv keeps a pipe for its signals from its first loop on.
  EXPECT_EQ(codes({"true"}).value(), 0);
  const size_t before = descriptors();
  EXPECT_EQ(codes({"sh", "-c", "echo x; exit 6"}).value(), 6);
  EXPECT_EQ(codes({"/no/such/command"}).status().code(), Code::kNotFound);
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  close(null);
}

// Worker 1 has ended. Worker 0 has reported that its work is done, and takes
// longer than the grace. Without the report it is stopped.
TEST_F(LauncherTest, Worker_ReportedItsEnd_IsNotStopped) {
  for (const bool reports_done : {true, false}) {
    SCOPED_TRACE(reports_done);
    const std::string program = folder_ / "ringlet";
    std::ofstream(program)
        << "#!/bin/sh\n"
        << kIndex << "test $i = 1 && { " << Until("[ -e $FOLDER/said ]")
        << "exit 0; }\n"
        << (reports_done ? "printf '\\000' > /dev/fd/$RINGLET_LAUNCHER_PIPE\n"
                         : "")
        << "echo > $FOLDER/said; sleep " << (reports_done ? "3" : "1000")
        << "; echo ends\n";
    chmod(program.c_str(), 0700);
    std::filesystem::remove(std::string(folder_ / "said"));
    Start({"-n", "2", "--restart", "--grace", "1", "--", program, "train"});
    EXPECT_EQ(Wait(), 0) << err();
    EXPECT_EQ(Of("[0] ", out()), reports_done ? Strings{"ends"} : Strings{})
        << err();
  }
}

}  // namespace
}  // namespace ringlet
