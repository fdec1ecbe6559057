// ringlet: trains neural networks on small machines. See ringlet --help.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "core/base/message.h"
#include "core/base/status.h"
#include "core/compute/gemm.h"
#include "io/keras/keras_json.h"
#include "ringlet.h"

namespace {

struct Command {
  const char* name;
  const char* about;
  int (*run)(const std::vector<std::string>& line);
};

constexpr Command kCommands[] = {
    {"train", "train the model of a RUN.json", ringlet::TrainCommand},
    {"evaluate", "loss and metrics of a saved model", ringlet::EvaluateCommand},
    {"predict", "outputs of a saved model", ringlet::PredictCommand},
    {"launch", "start several workers on this machine", ringlet::LaunchCommand},
    {"keygen", "a new key, for a job or for sealed files",
     ringlet::KeygenCommand},
    {"relay", "where workers meet that can only dial out",
     ringlet::RelayCommand},
    {"plan", "memory and work of a step of a RUN.json", ringlet::PlanCommand},
    {"verify", "a digest of the first steps, to compare machines",
     ringlet::VerifyCommand},
    {"audit", "each example used once in each pass, by a run's logs",
     ringlet::AuditCommand},
    {"summary", "layers of a RUN.json or a saved model",
     ringlet::SummaryCommand},
    {"inspect", "show and verify a file, or say what it is",
     ringlet::InspectCommand},
    {"diff", "compare two files", ringlet::DiffCommand},
    {"export", "a model, or weights, for other programs",
     ringlet::ExportCommand},
};

void PrintHelp() {
  std::printf("usage: ringlet COMMAND [flags] [arguments]\n\n");
  for (const Command& command : kCommands) {
    std::printf("  %-10s %s\n", command.name, command.about);
  }
  std::printf(
      "\n"
      "  -h, --help    this text; of a command: ringlet COMMAND --help\n"
      "  --version     version and what is built in; --verbose: kernels too\n"
      "\n"
      "Exit codes: 0 done; 1 failure, or a damaged file; 2 wrong flags,\n"
      "configuration or input, also one that is missing or of another kind;\n"
      "3 the workers' weights differ, or a machine computes other numbers "
      "than\n"
      "the others: run again, without one that is named, to go on from the "
      "backup;\n75 stopped with its state saved, or a worker was lost: run the "
      "same command\nagain to go on; 128 + a signal: stopped by it (130: "
      "Ctrl-C).\n"
      "What is wrong is told on stderr, in one line that begins with "
      "\"error: \".\n");
}

int PrintVersion(bool verbose) {
  const ringlet::Status kernels = ringlet::CheckGemmKernels();
  if (!kernels.ok()) return ExitCode(kernels);
  std::printf("ringlet %s\n", RINGLET_VERSION);
  std::printf("matrix products: %s\n", ringlet::GemmKernels());
  if (verbose) {
    std::printf("  of %s (RINGLET_KERNELS); %s\n",
                ringlet::GemmKernelsOfCpu().c_str(), ringlet::GemmArithmetic());
  }
  std::printf("data: IDX, NPY, CSV, each plain or .gz\n");
  std::printf("models: Keras configuration (JSON), safetensors, npz\n");
  std::printf("jobs: TF_CONFIG, torchrun, MPI, Slurm, Kubernetes; launch\n");
  std::printf("pointers: %zu bits\n", 8 * sizeof(void*));
  return 0;
}

int UsageError(const ringlet::Status& status) {
  return ExitCode(
      ringlet::InvalidArgument("%s (see 'ringlet --help')", status.message()));
}

int Run(const std::vector<std::string>& line) {
  using namespace ringlet;
  if (line.empty()) {
    return UsageError(InvalidArgument("COMMAND is missing"));
  }
  const std::string& word = line[0];
  if (word == "-h" || word == "--help" || word == "help") {
    PrintHelp();
    return 0;
  }
  if (word == "--version") {
    return PrintVersion(line.size() > 1 && line[1] == "--verbose");
  }
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (word == command.name) {
      return command.run({line.begin() + 1, line.end()});
    }
    known.push_back(command.name);
  }
  return UsageError(word[0] == '-'
                        ? UnknownName("", "flag", word, {"--help", "--version"})
                        : UnknownName("", "command", word, known));
}

// Where the system has no memory left; nothing more is allocated.
[[noreturn]] void OutOfMemory() {
  ringlet::NoticeNow(
      "error: no memory; see 'ringlet plan', raise the limit, or read the data "
      "from disk (in_memory)\n");
  _exit(1);
}

// A stream that is closed (`>&-`) would be the next file that is opened, which
// what is printed would go into. Writing to what takes its place fails.
void HoldStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) _exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  // A file beyond `ulimit -f` is an error of its write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(OutOfMemory);
  const int code = Run({argv + (argc > 0), argv + argc});
  if (ringlet::StdoutIsWritten()) return code;
  ringlet::Notice("error: stdout cannot be written");
  return code != 0 ? code : 1;
}
