// LauncherTest: a job of shell commands, its lines and its processes.

#ifndef RINGLET_TESTS_NET_LAUNCH_LAUNCHED_JOB_H_
#define RINGLET_TESTS_NET_LAUNCH_LAUNCHED_JOB_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/eventually.h"
#include "../../support/temp_folder.h"

namespace ringlet {

using Strings = std::vector<std::string>;

// In a worker's script: its index.
const char kIndex[] = "i=${TF_CONFIG##*index\\\": }; i=${i%%\\}*}; ";

// For a worker's script: waits until the shell command `test` succeeds.
inline std::string Until(const std::string& test) {
  return "until " + test + "; do sleep 0.01; done; ";
}

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Returns the lines that begin with `prefix`, without it, in their order.
inline std::vector<std::string> Of(const std::string& prefix,
                                   const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : Lines(text)) {
    if (line.compare(0, prefix.size(), prefix) == 0) {
      lines.push_back(line.substr(prefix.size()));
    }
  }
  return lines;
}

// The state of a process as in /proc/PID/stat: 'T' is stopped, 'Z' a zombie. 0:
// there is no such process.
inline char ProcessState(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(in, stat)) return 0;
  const size_t at = stat.rfind(')');
  return at == std::string::npos ? 0 : stat[at + 2];
}

// Alive and not a zombie.
inline bool Alive(pid_t pid) {
  const char state = ProcessState(pid);
  return state != 0 && state != 'Z';
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

  // Waits for the end and returns the exit code, or 1000 + the signal that
  // killed the process.
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
  rlim_t open_files_ = 0;  // the limit of the next launcher, 0 for no change
};

// Counts its runs in $FOLDER/runs<i>.
const char kCount[] =
    "echo >> $FOLDER/runs$i; n=$(wc -l < $FOLDER/runs$i); n=$((n)); ";

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_LAUNCH_LAUNCHED_JOB_H_
