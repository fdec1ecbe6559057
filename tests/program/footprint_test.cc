// Measures the program's memory under a limit, its threads and its descriptors.
// docs/porting.md has the table.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../support/contains.h"
#include "../support/expect_ok.h"
#include "../support/temp_folder.h"
#include "../support/tiny_networks.h"
#include "io/files/file_system.h"
#include "io/readers/arrays/idx.h"
#include "io/weights/safetensors.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

// A sanitizer takes many times the memory, and threads of its own.
bool Sanitized() {
  return EnvironmentOr("RINGLET_TEST_FLAGS", "").find("sanitize") !=
         std::string::npos;
}

// A RUN.json beside plain IDX files.
const char kRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 28, 28]}},
    @LAYERS@
    {"class_name": "Dense", "config": {"units": 10}}]}},
  "compile": {"optimizer": "@OPTIMIZER@",
    "loss": {"class_name": "SparseCategoricalCrossentropy",
             "config": {"from_logits": true}},
    "metrics": ["accuracy"]},
  "data": {
    "train": {"images": "train-images", "labels": "train-labels",
              "in_memory": false, "scale": 0.00392156862745098},
    "validation": {"images": "t10k-images", "labels": "t10k-labels",
                   "in_memory": false, "scale": 0.00392156862745098}},
  "fit": {"batch_size": 16, "epochs": @EPOCHS@, "steps_per_epoch": 4,
          "validation_steps": 2}
})";

const char kSmall[] =
    R"({"class_name": "Flatten"},
       {"class_name": "Dense", "config": {"units": 32}},)";
const char kTutorial[] =
    R"({"class_name": "Reshape", "config": {"target_shape": [28, 28, 1]}},
       {"class_name": "Conv2D",
        "config": {"filters": 32, "kernel_size": 3, "activation": "relu"}},
       {"class_name": "Flatten"},
       {"class_name": "Dense", "config": {"units": 128}},)";

void Replace(std::string* text, const std::string& from,
             const std::string& to) {
  const size_t at = text->find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text->replace(at, from.size(), to);
}

// Writes the content of a compressed IDX file as a plain one.
void WritePlain(const std::string& from, const std::string& to) {
  NpyArray array;
  ASSERT_OK(ReadIdx(from, &array));
  ASSERT_EQ(array.dtype, DType::kUint8);
  std::string bytes = {0, 0, 8, static_cast<char>(array.shape.rank())};
  for (int i = 0; i < array.shape.rank(); ++i) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(array.shape[i] >> shift & 255);
    }
  }
  bytes.append(array.data.begin(), array.data.end());
  WriteWhole(to, bytes);
}

// /proc may list a closed descriptor beside one that was opened later. It lists
// a joined thread until the kernel has removed the thread.
constexpr size_t kChanging = 4;

// How often each number was seen.
class Looks {
 public:
  void Add(size_t number) { ++looks_[number]; }
  size_t most() const { return looks_.empty() ? 0 : looks_.rbegin()->first; }
  size_t usual() const {
    const auto usual = std::max_element(
        looks_.begin(), looks_.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    return usual == looks_.end() ? 0 : usual->first;
  }

 private:
  std::map<size_t, int> looks_;
};

// The threads and descriptors of a process, read from /proc.
struct Held {
  Looks threads, descriptors;
};

size_t Entries(const std::string& folder) {
  std::error_code gone;
  size_t count = 0;
  for (std::filesystem::directory_iterator at(folder, gone), end;
       !gone && at != end; at.increment(gone)) {
    ++count;
  }
  return count;
}

// Returns the command of a process in /proc, for example "ringlet launch" or
// "fashion_mnist".
std::string CommandOf(const std::string& process) {
  std::string line = ReadWhole(process + "/cmdline");
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::istringstream list(ReadWhole("/proc/" + std::to_string(parent) +
                                    "/task/" + std::to_string(parent) +
                                    "/children"));
  std::vector<pid_t> children;
  for (pid_t child; list >> child;) children.push_back(child);
  return children;
}

class FootprintTest : public testing::Test {
 protected:
  void SetUp() override {
    // Meson makes malloc fill its memory, so that all of it becomes resident.
    unsetenv("MALLOC_PERTURB_");
    const std::string data =
        EnvironmentOr("RINGLET_SOURCE", ".") + "/data/fashion-mnist-mini/";
    WritePlain(data + "train-images-idx3-ubyte.gz", folder_ / "train-images");
    WritePlain(data + "train-labels-idx1-ubyte.gz", folder_ / "train-labels");
    WritePlain(data + "t10k-images-idx3-ubyte.gz", folder_ / "t10k-images");
    WritePlain(data + "t10k-labels-idx1-ubyte.gz", folder_ / "t10k-labels");
  }
  ~FootprintTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  void WriteRun(const char* layers, const char* optimizer, int epochs) {
    std::string text = kRun;
    Replace(&text, "@LAYERS@", layers);
    Replace(&text, "@OPTIMIZER@", optimizer);
    Replace(&text, "@EPOCHS@", std::to_string(epochs));
    WriteWhole(folder_ / "run.json", text);
  }

  // `prepare` runs in the child, before the program does.
  void Start(Strings arguments, const std::function<bool()>& prepare) {
    arguments.insert(
        arguments.begin(),
        EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet");
    std::vector<char*> argv;
    for (std::string& text : arguments) argv.push_back(text.data());
    argv.push_back(nullptr);
    const std::string out = folder_ / "out";
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ != 0) return;
    // Closes the test's own descriptors in the child.
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    const int file = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(file, 1);
    dup2(file, 2);
    close(file);
    if (chdir(folder_.path().c_str()) != 0 || !prepare()) _exit(98);
    unsetenv("TF_CONFIG");
    execv(argv[0], argv.data());
    _exit(99);
  }

  // The exit code; 1000 + the signal. *peak_kb: the largest resident size.
  int Wait(long* peak_kb = nullptr) {
    int status = 0;
    rusage usage = {};
    EXPECT_EQ(wait4(child_, &status, 0, &usage), child_);
    child_ = 0;
    if (peak_kb != nullptr) *peak_kb = usage.ru_maxrss;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int TrainIn(rlim_t megabytes, long* peak_kb = nullptr) {
    Start({"train", "run.json"}, [=] {
      const rlimit limit = {megabytes << 20, megabytes << 20};
      return setrlimit(RLIMIT_AS, &limit) == 0;
    });
    return Wait(peak_kb);
  }

  // Looks at the program and all it starts until it ends or is stopped.
  std::map<std::string, Held> Watch(int seconds) {
    std::map<std::string, Held> held;
    const auto look = [&](pid_t process, const std::string& kind) {
      const std::string folder = "/proc/" + std::to_string(process);
      held[kind].threads.Add(Entries(folder + "/task"));
      held[kind].descriptors.Add(Entries(folder + "/fd"));
    };
    for (int i = 0; i < seconds * 200 && waitpid(child_, nullptr, WNOHANG) == 0;
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::string own = CommandOf("/proc/" + std::to_string(child_));
      // The child has not called exec yet.
      if (own.find("/ringlet ") == std::string::npos) continue;
      look(child_,
           own.find(" launch ") != std::string::npos ? "launcher" : "alone");
      for (pid_t child : ChildrenOf(child_)) {
        const std::string command = CommandOf("/proc/" + std::to_string(child));
        // Between fork and exec a worker still looks like the launcher.
        if (command.find(" launch ") != std::string::npos) continue;
        look(child, "worker");
      }
    }
    if (waitpid(child_, nullptr, WNOHANG) != 0) child_ = 0;
    return held;
  }

  TempFolder folder_;
  pid_t child_ = 0;
};

TEST_F(FootprintTest, Train_SmallModel_FitsIn64MegabytesOfAddresses) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  WriteRun(kSmall, "adam", 2);
  long peak = 0;
  EXPECT_EQ(TrainIn(64, &peak), 0) << ReadWhole(folder_ / "out");
  RecordProperty("peak_kb", static_cast<int>(peak));
  std::printf("largest resident size: %ld kB\n", peak);
}

TEST_F(FootprintTest, Train_TutorialsModel_FitsIn96MegabytesOfAddresses) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  for (const char* optimizer : {"sgd", "adam"}) {
    WriteRun(kTutorial, optimizer, 2);
    long peak = 0;
    EXPECT_EQ(TrainIn(96, &peak), 0) << ReadWhole(folder_ / "out");
    std::printf("%s: largest resident size: %ld kB\n", optimizer, peak);
  }
}

// The bytes of all tensors of a saved model.
std::string TensorsOf(const std::string& path) {
  SafetensorsReader file;
  const Status opened = file.Open(PosixFiles(), path);
  EXPECT_OK(opened);
  std::string all;
  for (const StoredTensor& tensor : file.tensors()) {
    std::string elements(static_cast<size_t>(tensor.bytes), '\0');
    EXPECT_OK(file.Read(tensor, elements.data())) << tensor.name;
    all += tensor.name + elements;
  }
  return all;
}

// Files of 72 MB. Shuffled examples come from all parts of them.
TEST_F(FootprintTest, Train_DataLargerThanTheMemory_HasTheBitsInMemory) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  constexpr int64_t kRows = 280000, kValues = 64;
  std::vector<float> x(kRows * kValues);
  std::vector<unsigned char> y(kRows);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 7919 % 10007) / 1000;
  }
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<unsigned char>(i * i % 4);
  }
  ASSERT_OK(
      WriteNpy(folder_ / "x.npy", DType::kFloat32, {kRows, kValues}, x.data()));
  ASSERT_OK(WriteNpy(folder_ / "y.npy", DType::kUint8, {kRows}, y.data()));
  std::string csv;
  for (size_t row = 0; csv.size() < (72 << 20); ++row) {
    for (size_t i = 0; i < kValues; ++i) {
      csv += std::to_string((row * kValues + i) * 7919 % 10007) + ",";
    }
    csv += "k" + std::to_string(row * row % 4) + "\n";
  }
  WriteWhole(folder_ / "d.csv", csv);
  for (const char* data :
       {R"("x": "x.npy", "y": "y.npy")", R"("csv": "d.csv", "scale": 0.001)"}) {
    SCOPED_TRACE(data);
    const auto train = [&](const char* in_memory, const char* model,
                           rlim_t megabytes) {
      WriteWhole(folder_ / "run.json", std::string(R"({
        "model": {"class_name": "Sequential", "config": {"layers": [
          {"class_name": "InputLayer", "config": {"batch_shape": [null, 64]}},
          {"class_name": "Dense", "config": {"units": 4}}]}},
        "compile": {"optimizer": "adam", "loss": {"class_name":
          "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
        "data": {"train": {"in_memory": )") +
                                           in_memory + ", " + data + R"(}},
        "fit": {"batch_size": 32, "steps_per_epoch": 40, "epochs": 2,
                "validation_split": 0.001}})");
      Start({"train", "run.json", "--save", model}, [=] {
        const rlimit limit = {megabytes << 20, megabytes << 20};
        return megabytes == 0 || setrlimit(RLIMIT_AS, &limit) == 0;
      });
      return Wait();
    };
    EXPECT_EQ(train("true", "none", 64), 1) << ReadWhole(folder_ / "out");
    ASSERT_EQ(train("true", "memory", 0), 0) << ReadWhole(folder_ / "out");
    ASSERT_EQ(train("false", "disk", 64), 0) << ReadWhole(folder_ / "out");
    EXPECT_TRUE(TensorsOf(folder_ / "memory") == TensorsOf(folder_ / "disk"));
    EXPECT_GT(TensorsOf(folder_ / "disk").size(), 64u * 4 * 4);
  }
}

// The benchmark has the same batches.
TEST_F(FootprintTest, Train_TinyNetworks_FitIn64Megabytes) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  for (const TinyNetwork& network : kTinyNetworks) {
    SCOPED_TRACE(network.name);
    WriteTinyRun(network, network.batch, folder_.path());
    WriteWhole(
        folder_ / "run.json",
        std::regex_replace(ReadWhole(folder_ / "run.json"),
                           std::regex("\"epochs\": \\d+"), "\"epochs\": 2"));
    long peak = 0;
    EXPECT_EQ(TrainIn(64, &peak), 0) << ReadWhole(folder_ / "out");
    EXPECT_LT(peak, 64 << 10);
    std::printf("%s: largest resident size: %ld kB\n", network.name, peak);
  }
}

// A memory cgroup of this test, of version 2 or 1; path() is empty where the
// system does not let it be made.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(size_t bytes) {
    std::istringstream lines(ReadWhole("/proc/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("0::", 0) == 0) {
        Make("/sys/fs/cgroup" + line.substr(3), "memory.max", bytes);
      } else if (const size_t at = line.find(":memory:");
                 at != std::string::npos) {
        Make("/sys/fs/cgroup/memory" + line.substr(at + 8),
             "memory.limit_in_bytes", bytes);
      }
      if (!path_.empty()) return;
    }
  }
  ~MemoryCgroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

  // Writes the calling process, which is a fresh child, into it.
  bool Enter() const {
    const int file =
        open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    const bool done = file >= 0 && write(file, "0", 1) == 1;
    close(file);
    return done;
  }
  long Peak() const {
    for (const char* name : {"/memory.peak", "/memory.max_usage_in_bytes"}) {
      const std::string text = ReadWhole(path_ + name);
      if (!text.empty()) return std::atol(text.c_str()) / 1024;
    }
    return -1;
  }

 private:
  void Make(const std::string& parent, const char* limit, size_t bytes) {
    const std::string folder = parent + "/ringlet-" + std::to_string(getpid());
    if (mkdir(folder.c_str(), 0700) != 0) return;
    const int file = open((folder + "/" + limit).c_str(), O_WRONLY);
    const std::string text = std::to_string(bytes);
    const bool set = file >= 0 && write(file, text.data(), text.size()) ==
                                      static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    if (set) {
      path_ = folder;
    } else {
      rmdir(folder.c_str());
    }
  }

  std::string path_;
};

TEST_F(FootprintTest, Train_InAMemoryCgroup_BothModelsFit) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  const struct {
    const char* layers;
    const char* optimizer;
    size_t megabytes;
  } cases[] = {
      {kSmall, "adam", 64}, {kTutorial, "sgd", 96}, {kTutorial, "adam", 96}};
  for (const auto& c : cases) {
    const MemoryCgroup group(c.megabytes << 20);
    if (group.path().empty()) {
      GTEST_SKIP() << "no memory cgroup can be made here";
    }
    WriteRun(c.layers, c.optimizer, 2);
    Start({"train", "run.json"}, [&] { return group.Enter(); });
    EXPECT_EQ(Wait(), 0) << ReadWhole(folder_ / "out");
    std::printf("%zu MB, %s: at most %ld kB, pages of files included\n",
                c.megabytes, c.optimizer, group.Peak());
  }
}

TEST_F(FootprintTest, Train_AnyMemoryLimit_EndsOrReportsOutOfMemory) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer takes more";
  WriteRun(kTutorial, "sgd", 1);
  int trained = 0, refused = 0;
  // Below, the system's loader may not find room for the libraries.
  for (rlim_t megabytes = 20; megabytes <= 56; megabytes += 3) {
    SCOPED_TRACE(std::to_string(megabytes) + " MB");
    const int code = TrainIn(megabytes);
    const std::string out = ReadWhole(folder_ / "out");
    if (code == 0) {
      ++trained;
    } else if (code == 127) {  // the loader has printed its own error
      continue;
    } else {
      ++refused;
      EXPECT_EQ(code, 1) << out;
      EXPECT_TRUE(Contains(out, "error: "));
      EXPECT_TRUE(out.find("no memory") != std::string::npos ||
                  out.find("no thread") != std::string::npos ||
                  out.find("Cannot allocate memory") != std::string::npos)
          << out;
    }
  }
  EXPECT_GT(trained, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(FootprintTest, Train_Alone_ThreadsAndDescriptorsEqualTheTable) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer has threads of its own";
  WriteRun(kSmall, "adam", 500);
  Start({"train", "run.json"}, [] { return true; });
  const Held alone = Watch(20)["alone"];
  std::printf("alone: %zu threads, %zu descriptors\n", alone.threads.usual(),
              alone.descriptors.usual());
  EXPECT_EQ(alone.threads.usual(), 2u);
  // A thread reads an epoch's batches ahead. That of the epoch before may still
  // be listed.
  EXPECT_LE(alone.threads.most(), 2u + 1);
  // Three standard descriptors, the descriptor for `ringlet top`, and the
  // images of training and of validation.
  EXPECT_EQ(alone.descriptors.usual(), 6u);
}

TEST_F(FootprintTest, Job_ThreeWorkers_ThreadsAndDescriptorsEqualTheTable) {
  if (Sanitized()) GTEST_SKIP() << "a sanitizer has threads of its own";
  WriteRun(kSmall, "adam", 100);
  Start({"launch", "-n", "3", "--",
         EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet",
         "train", "run.json"},
        [] { return true; });
  std::map<std::string, Held> held = Watch(20);
  for (const auto& [kind, most] : held) {
    std::printf("%s: %zu threads, %zu descriptors, at most %zu and %zu\n",
                kind.c_str(), most.threads.usual(), most.descriptors.usual(),
                most.threads.most(), most.descriptors.most());
  }
  EXPECT_EQ(held["launcher"].threads.most(), 1u);
  // The job's key is among them.
  EXPECT_EQ(held["launcher"].descriptors.usual(), 12u + 2 * 3);
  EXPECT_LE(held["launcher"].descriptors.most(), 12u + 2 * 3 + 4 + kChanging);
  EXPECT_EQ(held["worker"].threads.usual(), 3u);
  EXPECT_LE(held["worker"].threads.most(), 3u + 1);
  // 12 and one a worker, two files, two more to each peer while connecting.
  EXPECT_EQ(held["worker"].descriptors.usual(), 12u + 3 + 2);
  EXPECT_LE(held["worker"].descriptors.most(), 12u + 3 + 2 + 2 * 2 + kChanging);
}

}  // namespace
}  // namespace ringlet
