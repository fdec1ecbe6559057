// ProgramTest: the program ringlet as a user runs it, real processes on the
// shipped data.

#ifndef RINGLET_TESTS_SUPPORT_PROGRAM_H_
#define RINGLET_TESTS_SUPPORT_PROGRAM_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "contains.h"
#include "temp_folder.h"

namespace ringlet {
using Strings = std::vector<std::string>;

inline Strings Lines(const std::string& text) {
  Strings lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A small model, quick to train; @DATA@ is the shipped data.
const char kRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 28, 28]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 8, "activation": "relu"}},
    {"class_name": "Dense", "config": {"units": 10}}]}},
  "compile": {"optimizer": "adam",
    "loss": {"class_name": "SparseCategoricalCrossentropy",
             "config": {"from_logits": true}},
    "metrics": ["accuracy"]},
  "data": {
    "train": {"images": "@DATA@/train-images-idx3-ubyte.gz",
              "labels": "@DATA@/train-labels-idx1-ubyte.gz",
              "scale": 0.00392156862745098},
    "validation": {"images": "@DATA@/t10k-images-idx3-ubyte.gz",
                   "labels": "@DATA@/t10k-labels-idx1-ubyte.gz",
                   "scale": 0.00392156862745098}},
  "fit": {"batch_size": 16, "epochs": 2, "steps_per_epoch": 3},
  "callbacks": []
})";

// The workers among the launcher's children, in the order of their ranks.
inline std::vector<pid_t> FindWorkers(pid_t launcher) {
  const std::string id = std::to_string(launcher);
  std::istringstream children(
      ReadWhole("/proc/" + id + "/task/" + id + "/children"));
  std::vector<pid_t> workers;
  for (pid_t child; children >> child;) {
    const std::string line =
        ReadWhole("/proc/" + std::to_string(child) + "/cmdline");
    const auto has = [&](const char* word) {  // true if the word is an argument
      return line.find('\0' + std::string(word) + '\0') != std::string::npos;
    };
    if (has("train") && !has("launch")) {
      workers.push_back(child);
    }
  }
  return workers;
}

class ProgramTest : public testing::Test {
 protected:
  ~ProgramTest() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void Start(const Strings& arguments,
             const std::string& program = "tools/ringlet/ringlet") {
    Strings all = {Program(program)};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : all) argv.push_back(text.data());
    argv.push_back(nullptr);
    const std::string out = logs_ / "out", err = logs_ / "err";
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(stdout_fd_ >= 0 ? stdout_fd_ : open(out.c_str(), flags, 0600), 1);
      dup2(stderr_fd_ >= 0 ? stderr_fd_ : open(err.c_str(), flags, 0600), 2);
      if (!stdin_.empty()) dup2(open(stdin_.c_str(), O_RDONLY), 0);
      const std::string& cwd = cwd_.empty() ? folder_.path() : cwd_;
      if (chdir(cwd.c_str()) != 0) _exit(98);
      unsetenv("TF_CONFIG");
      for (const auto& [name, value] : environment_) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      execv(argv[0], argv.data());
      _exit(99);
    }
  }

  // Returns the exit code, or 1000 + the signal that killed the program.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = 0;
    out_ = ReadWhole(logs_ / "out");
    err_ = ReadWhole(logs_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int Run(const Strings& arguments) {
    Start(arguments);
    return Wait();
  }

  static std::string Program(const std::string& name) {
    return EnvironmentOr("RINGLET_BUILD", "build") + "/" + name;
  }

  // Writes kRun with one change to run.json of the folder.
  void WriteRun(const std::string& from = "", const std::string& to = "") {
    std::string text = kRun;
    if (!from.empty()) text = Replaced(text, from, to);
    const std::string data =
        EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini";
    for (size_t at; (at = text.find("@DATA@")) != std::string::npos;) {
      text.replace(at, 6, data);
    }
    WriteWhole(folder_ / "run.json", text);
  }

  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             folder_.path(),
             std::filesystem::directory_options::skip_permission_denied)) {
      names.insert(entry.path().string());
    }
    return names;
  }

  // Expects that the command fails with this code and one line that has all of
  // `message_parts`, and writes no file but its event log. stdout has at most
  // the lines printed before training.
  void ExpectError(const Strings& arguments, int code,
                   const Strings& message_parts) {
    std::string shown;
    for (const std::string& argument : arguments) shown += " " + argument;
    SCOPED_TRACE(shown);
    const std::set<std::string> before = Files();
    EXPECT_EQ(Run(arguments), code) << err_;
    EXPECT_EQ(Lines(err_).size(), 1u) << err_;
    EXPECT_EQ(err_.compare(0, 7, "error: "), 0) << err_;
    for (const std::string& text : message_parts) {
      EXPECT_TRUE(Contains(err_, text));
    }
    EXPECT_LE(Lines(out_).size(), 2u) << out_;
    EXPECT_FALSE(Contains(out_, "Epoch"));
    for (const std::string& name : Files()) {
      const bool is_log = Contains(name, ".events");
      EXPECT_TRUE(is_log || before.count(name) > 0) << name;
    }
  }
  void ExpectRunError(const std::string& from, const std::string& to, int code,
                      const Strings& message_parts) {
    SCOPED_TRACE(to);
    WriteRun(from, to);
    ExpectError({"train", "run.json", "--save", "model", "--log-steps", "s"},
                code, message_parts);
  }

  TempFolder folder_, logs_;
  std::string cwd_;    // where programs run; "" means folder_
  std::string stdin_;  // a file; "" means the test's stdin
  std::vector<std::pair<std::string, std::string>> environment_;
  std::string out_, err_;
  pid_t child_ = 0;
  // If not negative, the descriptors for the output of the next programs.
  int stdout_fd_ = -1, stderr_fd_ = -1;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_PROGRAM_H_
