#include "net/launch/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/eventually.h"
#include "../../support/expect_ok.h"
#include "../../support/map_environment.h"
#include "../../support/temp_folder.h"
#include "core/base/key_file.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

// In a worker's script: its index.
const char kIndex[] = "i=${TF_CONFIG##*index\\\": }; i=${i%%\\}*}; ";

// For a worker's script: waits until the shell command `test` succeeds.
std::string Until(const std::string& test) {
  return "until " + test + "; do sleep 0.01; done; ";
}

// Waits until the pipe takes nothing more. The number of unread bytes does not
// tell: the pages of a full pipe may be partly filled.
void AwaitFullPipe(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_TRUE(Eventually([&] {
    pollfd pipe = {writer, POLLOUT, 0};
    return poll(&pipe, 1, /*timeout=*/0) == 0;
  }));
  close(writer);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Those that begin with `prefix`, without it, in their order.
std::vector<std::string> Of(const std::string& prefix,
                            const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : Lines(text)) {
    if (line.compare(0, prefix.size(), prefix) == 0) {
      lines.push_back(line.substr(prefix.size()));
    }
  }
  return lines;
}

// Alive and not a zombie.
bool Alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(in, stat)) return false;
  const size_t at = stat.rfind(')');
  return at != std::string::npos && stat[at + 2] != 'Z';
}

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

class LauncherTest : public testing::Test {
 protected:
  ~LauncherTest() override {
    if (launcher_ > 0) {
      kill(launcher_, SIGKILL);
      waitpid(launcher_, nullptr, 0);
    }
  }

  void Start(const Strings& arguments, int stdout_fd = -1, int stderr_fd = -1) {
    Strings all = {
        EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet",
        "launch"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : all) argv.push_back(text.data());
    argv.push_back(nullptr);
    const std::string out = folder_ / "out", err = folder_ / "err";
    launcher_ = fork();
    ASSERT_GE(launcher_, 0);
    if (launcher_ == 0) {
      const rlimit files = {open_files_, open_files_};
      if (open_files_ > 0) setrlimit(RLIMIT_NOFILE, &files);
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(stdout_fd >= 0 ? stdout_fd : open(out.c_str(), flags, 0600), 1);
      dup2(stderr_fd >= 0 ? stderr_fd : open(err.c_str(), flags, 0600), 2);
      signal(SIGHUP, ignore_hangup_ ? SIG_IGN : SIG_DFL);  // not as inherited
      setenv("FOLDER", folder_.path().c_str(), 1);
      setenv("TF_CONFIG", "not for the workers", 1);
      execv(argv[0], argv.data());
      _exit(99);
    }
  }

  // The exit code; 1000 + signal where it was killed.
  int Wait() {
    int status = 0;
    const bool ended = Eventually(
        [&] { return waitpid(launcher_, &status, WNOHANG) == launcher_; });
    EXPECT_TRUE(ended) << "the launcher does not end";
    if (!ended) return -1;
    launcher_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int Run(const Strings& arguments) {
    Start(arguments);
    return Wait();
  }

  int RunScript(int workers, const std::string& script, Strings options = {}) {
    StartScript(workers, script, options);
    return Wait();
  }
  void StartScript(int workers, const std::string& script, Strings options = {},
                   int stdout_fd = -1, int stderr_fd = -1) {
    Strings all = {"-n", std::to_string(workers)};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "sh", "-c", kIndex + script});
    Start(all, stdout_fd, stderr_fd);
  }

  std::string out() const { return ReadWhole(folder_ / "out"); }
  // Without the warning of a machine of few cores.
  std::string err() const {
    const std::string all = ReadWhole(folder_ / "err");
    const bool warns = all.compare(0, 9, "warning: ") == 0;
    return warns ? all.substr(all.find('\n') + 1) : all;
  }

  // The process ids that workers wrote with `echo $! >> $FOLDER/pids`.
  std::vector<pid_t> Pids(size_t expected) {
    std::vector<pid_t> pids;
    EXPECT_TRUE(Eventually([&] {
      pids.clear();
      std::ifstream in(folder_ / "pids");
      for (pid_t pid; in >> pid;) pids.push_back(pid);
      return pids.size() >= expected;
    })) << err();
    return pids;
  }

  void KillLauncher() {
    kill(launcher_, SIGKILL);
    EXPECT_EQ(Wait(), 1000 + SIGKILL);
  }

  // True if any process has the launcher's variable FOLDER, and so belongs to
  // this test.
  bool AnyWithThisFolder() const {
    const std::string variable =
        std::string(1, '\0') + "FOLDER=" + folder_.path() + '\0';
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string all = '\0' + ReadWhole(entry.path() / "environ");
      if (all.find(variable) != std::string::npos) return true;
    }
    return false;
  }

  void ExpectGone(const std::vector<pid_t>& pids) {
    for (pid_t pid : pids) {
      EXPECT_TRUE(Eventually([&] { return !Alive(pid); })) << pid;
      if (Alive(pid)) kill(pid, SIGKILL);
    }
  }

  TempFolder folder_;
  pid_t launcher_ = 0;
  bool ignore_hangup_ = false;
  rlim_t open_files_ = 0;  // the limit of the next launcher; 0: unchanged
};

// --- output ---

TEST_F(LauncherTest, Output_ThreeWorkers_HasTheIndexBeforeEachLine) {
  EXPECT_EQ(RunScript(3, "echo one $i; echo; printf 'a\\tb\\nlast'"), 0);
  for (int i = 0; i < 3; ++i) {
    const std::string index = std::to_string(i);
    EXPECT_EQ(Of("[" + index + "] ", out()),
              (Strings{"one " + index, "", "a\tb", "last"}));
  }
  EXPECT_EQ(Lines(out()).size(), 12u);
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, Output_StdoutAndStderr_StayApart) {
  EXPECT_EQ(
      RunScript(2, "echo out $i; echo err $i >&2; echo dev > /dev/stderr"), 0);
  EXPECT_EQ(Of("[0] ", out()), Strings{"out 0"});
  EXPECT_EQ(Of("[1] ", out()), Strings{"out 1"});
  EXPECT_EQ(Of("[0] ", err()), (Strings{"err 0", "dev"}));
  EXPECT_EQ(Of("[1] ", err()), (Strings{"err 1", "dev"}));
}

TEST_F(LauncherTest, Line_WrittenInPieces_IsOneLine) {
  EXPECT_EQ(
      RunScript(2, "for p in a b c; do printf $p; sleep 0.05; done; echo"), 0);
  EXPECT_EQ(Of("[0] ", out()), Strings{"abc"});
  EXPECT_EQ(Of("[1] ", out()), Strings{"abc"});
}

TEST_F(LauncherTest, Lines_ManyOfThreeWorkers_AreNeitherLostNorMixed) {
  EXPECT_EQ(RunScript(3, "seq -f \"$i-%.0f\" 1 40000"), 0);
  for (const char* index : {"0", "1", "2"}) {
    const Strings lines = Of(std::string("[") + index + "] ", out());
    ASSERT_EQ(lines.size(), 40000u);
    for (size_t k = 0; k < lines.size(); ++k) {
      ASSERT_EQ(lines[k], index + ("-" + std::to_string(k + 1)));
    }
  }
  EXPECT_EQ(Lines(out()).size(), 120000u);
}

TEST_F(LauncherTest, Line_Endless_IsCutInPieces) {
  EXPECT_EQ(RunScript(1, "head -c 200000 /dev/zero | tr '\\0' x"), 0);
  const Strings pieces = Of("[0] ", out());
  ASSERT_EQ(pieces.size(), 4u);
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  EXPECT_EQ(joined, std::string(200000, 'x'));
}

TEST_F(LauncherTest, Output_ReaderIsSlow_IsWhole) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Start({"-n", "2", "--", "seq", "1", "200000"}, ends[1]);
  close(ends[1]);
  std::string all;
  char buffer[65536];
  AwaitFullPipe(ends[0]);
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    all.append(buffer, static_cast<size_t>(n));
    if (all.size() < 600000) AwaitFullPipe(ends[0]);
  }
  close(ends[0]);
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(Of("[0] ", all).size(), 200000u);
  EXPECT_EQ(Of("[1] ", all).size(), 200000u);
}

TEST_F(LauncherTest, Output_ReaderDoesNotRead_DoesNotHoldTheLauncher) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Start({"-n", "2", "--grace", "0.2", "--", "sh", "-c",
         "echo $$ >> $FOLDER/pids; exec yes"},
        ends[1]);
  close(ends[1]);
  const std::vector<pid_t> pids = Pids(2);
  AwaitFullPipe(ends[0]);
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
  close(ends[0]);
  ExpectGone(pids);
}

// The reader leaves as `| head -n 1` does, of stdout or of both outputs.
TEST_F(LauncherTest, Output_ReaderLeavesAfterALine_WorkersContinue) {
  for (const bool both : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string gate = folder_ / (both ? "gate-2" : "gate-1");
    ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
    StartScript(1,
                "echo first; cat " + gate +
                    "; echo second; "
                    "echo third >&2; echo done > " +
                    gate + ".done",
                {}, ends[1], both ? ends[1] : -1);
    close(ends[1]);
    char first;
    ASSERT_EQ(read(ends[0], &first, 1), 1);
    close(ends[0]);
    close(open(gate.c_str(), O_WRONLY | O_CLOEXEC));  // opens the gate
    EXPECT_EQ(Wait(), 0) << err();
    EXPECT_EQ(ReadWhole(gate + ".done"), "done\n");
    if (both) continue;
    EXPECT_EQ(Of("[0] ", err()), Strings{"third"});
  }
}

TEST_F(LauncherTest, Output_CannotBeWritten_IsAnErrorAfterTheJob) {
  for (const int code : {0, 7}) {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    std::filesystem::remove(folder_ / "done");
    StartScript(1,
                "echo lost; echo kept >&2; echo done > $FOLDER/done; exit " +
                    std::to_string(code),
                {}, full);
    close(full);
    EXPECT_EQ(Wait(), code == 0 ? 1 : code);
    EXPECT_EQ(ReadWhole(folder_ / "done"), "done\n");
    EXPECT_EQ(Of("[0] ", err()), Strings{"kept"});
    EXPECT_EQ(Of("error: stdout cannot be written", err()).size(), 1u) << err();
  }
}

TEST_F(LauncherTest, Worker_LauncherIgnoresSigpipe_HasTheDefault) {
  EXPECT_EQ(RunScript(1, "(yes; echo $? >&2) | head -n 1"), 0);
  EXPECT_EQ(Of("[0] ", err()), Strings{std::to_string(128 + SIGPIPE)});
}

// --- what a worker is given ---

TEST_F(LauncherTest, TfConfig_OfEachWorker_IsItsOwnTaskOfOneCluster) {
  EXPECT_EQ(RunScript(3, "echo \"$TF_CONFIG\""), 0);
  std::vector<Address> first;
  for (int i = 0; i < 3; ++i) {
    const Strings lines = Of("[" + std::to_string(i) + "] ", out());
    ASSERT_EQ(lines.size(), 1u);
    ClusterConfig config;
    ASSERT_OK(ClusterFromEnvironment(MapEnvironment({{"TF_CONFIG", lines[0]}}),
                                     &config));
    EXPECT_EQ(config.rank, i);
    EXPECT_EQ(config.world_size, 3);
    EXPECT_EQ(config.task_type, "worker");
    if (i == 0) first = config.addresses;
    EXPECT_EQ(config.addresses, first);
    EXPECT_EQ(config.addresses[0].host, "127.0.0.1");
  }
}

TEST_F(LauncherTest, Worker_Started_ReadsNothingAndKeepsTheEnvironment) {
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
  EXPECT_NE(Of("[0] ", out()), Strings{lines[3]});  // another job's
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
  char said[4096] = {};
  EXPECT_GT(read(ends[0], said, sizeof(said) - 1), 0);
  close(ends[0]);
  EXPECT_EQ(Of("[0] ", said), Strings{"key="}) << said;
  EXPECT_TRUE(Contains(said, "[launcher] warning: no key could be made"));
}
#endif

// --- exit codes ---

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
  for (const auto& [arguments, says] : cases) {
    SCOPED_TRACE(says);
    EXPECT_EQ(Run(arguments), 2);
    EXPECT_TRUE(Contains(err(), says));
    EXPECT_EQ(Lines(err()).size(), 1u) << err();
    EXPECT_TRUE(Contains(err(), "(see 'ringlet launch --help')"));
    EXPECT_EQ(out(), "");
  }
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_TRUE(Contains(out(), "--restart"));
}

// `ulimit -n`: too few files are an error, at whatever point they are missing.
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

TEST_F(LauncherTest, Options_BehindTheCommand_AreItsOwn) {
  EXPECT_EQ(Run({"-n", "1", "echo", "-n", "--help"}), 0);
  EXPECT_EQ(out(), "[0] --help\n");
  EXPECT_EQ(Run({"-n", "1", "--", "echo", "--"}), 0);
  EXPECT_EQ(out(), "[0] --\n");
}

// --- a terminal ---

// A terminal for the launcher, read on a thread until no process has it open.
class Terminal {
 public:
  explicit Terminal(int columns) {
    main_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(grantpt(main_), 0);
    EXPECT_EQ(unlockpt(main_), 0);
    end_ = open(ptsname(main_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    termios raw;
    tcgetattr(end_, &raw);
    cfmakeraw(&raw);
    tcsetattr(end_, TCSANOW, &raw);
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = 24;
    ioctl(end_, TIOCSWINSZ, &size);
    reader_ = std::thread([this] {
      char buffer[4096];
      for (;;) {
        const ssize_t n = read(main_, buffer, sizeof(buffer));
        if (n <= 0) return;  // EIO: all ends are closed
        const std::lock_guard<std::mutex> lock(mutex_);
        shown_.append(buffer, static_cast<size_t>(n));
      }
    });
  }
  ~Terminal() {
    if (reader_.joinable()) Shown();
    close(main_);
  }
  int end() const { return end_; }
  // Waits until it has shown the text; false after five minutes.
  bool Shows(const std::string& text) {
    return Eventually([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return shown_.find(text) != std::string::npos;
    });
  }
  // All that was written, once the launcher has ended.
  std::string Shown() {
    close(end_);
    reader_.join();
    return shown_;
  }

 private:
  int main_ = -1, end_ = -1;
  std::mutex mutex_;  // guards shown_ while the reader runs
  std::string shown_;
  std::thread reader_;
};

// Returns the lines that a terminal shows after these bytes, with carriage
// returns, erasures and line feeds.
Strings Screen(const std::string& bytes) {
  Strings lines(1);
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(column);
      i += 2;
    } else if (bytes.compare(i, 4, "\x1b[0m") == 0) {
      i += 3;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
      lines.back()[column++] = bytes[i];
    }
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The chief draws as on a terminal of its own; lines of others, on stdout and
// stderr, stand whole above what it draws.
TEST_F(LauncherTest, Terminal_ChiefDrawsABar_IsShownBelowTheLines) {
  Terminal terminal(40);
  StartScript(
      2,
      "if [ $i = 0 ]; then [ -t 1 ] && echo a terminal; "
      "for n in 1 2 3 4; do "
      "printf '\\b\\b\\b\\rstep %s of 4 a b c d e f g h i j k l m n o p' $n; "
      "[ $n != 2 ] || " +
          Until("[ -e $FOLDER/lines ]") +
          "done; echo; echo end; "
          "else [ -t 1 ] || echo a pipe; " +
          Until("[ -e $FOLDER/step2 ]") + "echo line; echo error >&2; fi",
      {}, terminal.end(), terminal.end());
  EXPECT_TRUE(terminal.Shows("step 2 of 4"));
  WriteWhole(folder_ / "step2", "");
  EXPECT_TRUE(terminal.Shows("[1] line") && terminal.Shows("[1] error"));
  WriteWhole(folder_ / "lines", "");
  EXPECT_EQ(Wait(), 0);
  const std::string shown = terminal.Shown();
  const Strings screen = Screen(shown);
  const auto at = [&](const std::string& line) {
    return std::count(screen.begin(), screen.end(), line);
  };
  EXPECT_EQ(at("[0] a terminal"), 1) << shown;
  EXPECT_EQ(at("[1] a pipe"), 1) << shown;
  EXPECT_EQ(at("[1] line"), 1) << shown;
  EXPECT_EQ(at("[1] error"), 1) << shown;
  // Drawn on the way, cut to the terminal's width less one, and left in full.
  EXPECT_TRUE(
      Contains(shown, "[0] step 2 of 4 a b c d e f g h i j k l\x1b[0m"));
  EXPECT_EQ(at("[0] step 4 of 4 a b c d e f g h i j k l m n o p"), 1) << shown;
  EXPECT_EQ(screen.back(), "[0] end") << shown;
  EXPECT_LE(screen.size(), 7u) << shown;  // a warning of few cores among them
}

// The chief's unfinished line becomes a line when the chief is killed.
TEST_F(LauncherTest, Terminal_ChiefIsKilled_ItsLineIsWhole) {
  Terminal terminal(80);
  StartScript(
      1, "printf 'step 1'; " + Until("[ -e $FOLDER/shown ]") + "kill -9 $$", {},
      terminal.end(), terminal.end());
  EXPECT_TRUE(terminal.Shows("step 1"));
  WriteWhole(folder_ / "shown", "");
  EXPECT_EQ(Wait(), 128 + SIGKILL);
  const Strings screen = Screen(terminal.Shown());
  ASSERT_EQ(screen.size(), 2u);
  EXPECT_EQ(screen[0], "[0] step 1");
  EXPECT_EQ(screen[1], "[launcher] worker 0 was ended by signal 9");
}

TEST_F(LauncherTest, Terminal_ManyLines_NoneIsLost) {
  Terminal terminal(80);
  StartScript(2, "seq -f \"$i-%.0f\" 1 20000", {}, terminal.end());
  EXPECT_EQ(Wait(), 0);
  std::string shown;
  for (const std::string& line : Screen(terminal.Shown())) shown += line + "\n";
  for (const char* index : {"0", "1"}) {
    const Strings lines = Of("[" + std::string(index) + "] ", shown);
    ASSERT_EQ(lines.size(), 20000u);
    for (size_t n = 0; n < lines.size(); ++n) {
      ASSERT_EQ(lines[n], index + ("-" + std::to_string(n + 1)));
    }
  }
}

// Each line when it is made, also where the launcher's stdout is a pipe.
TEST_F(LauncherTest, Output_OneLineWritten_IsThereBeforeTheNext) {
  StartScript(2, "echo first; while [ ! -e $FOLDER/go ]; do sleep 0.01; done");
  EXPECT_TRUE(Eventually([&] { return Lines(out()).size() == 2; })) << out();
  WriteWhole(folder_ / "go", "");
  EXPECT_EQ(Wait(), 0);
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

// --- restarts ---

// Counts its runs in $FOLDER/runs<i>.
const char kCount[] =
    "echo >> $FOLDER/runs$i; n=$(wc -l < $FOLDER/runs$i); n=$((n)); ";

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

// --- signals ---

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
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGKILL);
  ExpectGone(pids);
}

// --- nothing is left behind ---

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
  for (pid_t pid : Pids(1)) kill(pid, SIGKILL);  // it asked to be on its own
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
                    Until("grep -q sleep /proc/$!/comm") +  // its own session
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

// --- the function ---

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
  const pid_t child = fork();  // in a session of its own, before
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

// Worker 1 has ended, and worker 0, which says that it is done, takes longer
// than the grace. If it does not say so, it is stopped.
TEST_F(LauncherTest, Worker_ReportedItsEnd_IsNotStopped) {
  for (const bool says : {true, false}) {
    SCOPED_TRACE(says);
    const std::string program = folder_ / "ringlet";
    std::ofstream(program)
        << "#!/bin/sh\n"
        << kIndex << "test $i = 1 && { " << Until("[ -e $FOLDER/said ]")
        << "exit 0; }\n"
        << (says ? "printf '\\000' > /dev/fd/$RINGLET_LAUNCHER_PIPE\n" : "")
        << "echo > $FOLDER/said; sleep " << (says ? "3" : "1000")
        << "; echo ends\n";
    chmod(program.c_str(), 0700);
    std::filesystem::remove(std::string(folder_ / "said"));
    Start({"-n", "2", "--restart", "--grace", "1", "--", program, "train"});
    EXPECT_EQ(Wait(), 0) << err();
    EXPECT_EQ(Of("[0] ", out()), says ? Strings{"ends"} : Strings{}) << err();
  }
}

}  // namespace
}  // namespace ringlet
