// ringlet: trains neural networks on small machines. See ringlet --help.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands/commands.h"
#include "core/base/notice_now.h"
#include "core/compute/gemm.h"
#include "io/keras/keras_json.h"
#include "io/pictures/picture.h"
#include "left_out_features.h"
#include "ringlet/ringlet.h"
#include "ringlet/status.h"

namespace {

struct Command {
  const char* name;
  const char* about;
  int (*run)(const std::vector<std::string>& line);
  // The command continues when the reader of its output has ended.
  bool outlives_reader = false;
};

constexpr Command kCommands[] = {
    {"train", "train the model of a RUN.json", ringlet::TrainCommand,
     /*outlives_reader=*/true},
    {"evaluate", "compute loss and metrics of a saved model",
     ringlet::EvaluateCommand},
    {"predict", "write outputs of a saved model", ringlet::PredictCommand},
    {"launch", "start several workers on this machine", ringlet::LaunchCommand,
     /*outlives_reader=*/true},
    {"keygen", "make a key for a job or for sealed files",
     ringlet::KeygenCommand},
    {"top", "show where the running trainings are", ringlet::TopCommand},
    {"relay", "connect workers that can only dial out", ringlet::RelayCommand,
     /*outlives_reader=*/true},
    {"init", "write a RUN.json for a table", ringlet::InitCommand},
    {"plan", "compute memory and work of a step", ringlet::PlanCommand},
    {"doctor", "check this worker's host and its links, before a job",
     ringlet::DoctorCommand},
    {"verify", "print a digest of the first steps, to compare machines",
     ringlet::VerifyCommand},
    {"audit", "prove that each example was used once in each pass",
     ringlet::AuditCommand},
    {"summary", "show the layers of a RUN.json or a saved model",
     ringlet::SummaryCommand},
    {"inspect", "show and verify a file", ringlet::InspectCommand},
    {"report", "write a page with curves and events of a run",
     ringlet::ReportCommand},
    {"diff", "compare two files", ringlet::DiffCommand},
    {"export", "write a model or weights for other programs",
     ringlet::ExportCommand},
    {"gather", "average what boards have learnt", ringlet::GatherCommand},
};

void PrintHelp() {
  std::printf("usage: ringlet COMMAND [flags] [arguments]\n\n");
  for (const Command& command : kCommands) {
    std::printf("  %-10s %s\n", command.name, command.about);
  }
  std::printf(
      "\n"
      "  -h, --help    this text; for a command: ringlet COMMAND --help\n"
      "  --version     version and build; --verbose: the kernels too\n"
      "\n"
      "Exit codes:\n"
      "    0  done\n"
      "    1  failed, or a file is damaged\n"
      "    2  wrong flags, configuration or input; a file is missing\n"
      "    3  the workers' weights differ, or a machine computes wrong "
      "numbers:\n"
      "       run again without the named machine, to continue from the "
      "backup\n"
      "   75  stopped with its state saved, or a worker was lost: run the "
      "same\n"
      "       command again to continue\n"
      "  128  + the signal that stopped it (130: Ctrl-C)\n"
      "An error is one line on stderr that begins with \"error: \".\n");
}

int PrintVersion(bool verbose) {
  const ringlet::Status kernels = ringlet::CheckKernelsVariable();
  if (!kernels.ok()) return ExitCode(kernels);
  std::printf("ringlet %s\n", RINGLET_VERSION);
  std::printf("matrix products: %s\n", ringlet::ChosenKernelSetName());
  if (verbose) {
    std::printf("  of %s (RINGLET_KERNELS); %s\n",
                ringlet::KernelSetNamesOfCpu().c_str(),
                ringlet::ArithmeticClassName());
  }
  std::printf("data: IDX, NPY, CSV, each plain or .gz, and NPZ\n");
  if (std::strstr(RINGLET_LEFT_OUT, "pictures") == nullptr) {
    std::printf("pictures: PNG, BMP, PNM%s\n",
                ringlet::ReadsJpeg() ? ", JPEG" : "; without JPEG (-Djpeg)");
  }
  std::printf("models: Keras configuration (JSON), safetensors, npz\n");
  std::printf("jobs: TF_CONFIG, torchrun, MPI, Slurm, Kubernetes; launch\n");
  std::printf("pointers: %zu bits\n", 8 * sizeof(void*));
  if (*RINGLET_LEFT_OUT != '\0') {
    std::printf("without: %s (meson's -Dfeatures)\n", RINGLET_LEFT_OUT);
  }
  return 0;
}

int UsageError(const ringlet::Status& status) {
  return ExitCode(
      ringlet::InvalidArgument("%s (see 'ringlet --help')", status.message()));
}

int RunCommand(const std::vector<std::string>& line) {
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
      if (command.outlives_reader) std::signal(SIGPIPE, SIG_IGN);
      return command.run({line.begin() + 1, line.end()});
    }
    known.push_back(command.name);
  }
  return UsageError(word[0] == '-'
                        ? UnknownName("", "flag", word, {"--help", "--version"})
                        : UnknownName("", "command", word, known));
}

// Called without free memory; allocates nothing.
[[noreturn]] void OutOfMemory() {
  ringlet::NoticeNow(
      "error: no memory; see 'ringlet plan', raise the limit, or read the data "
      "from disk (in_memory)\n");
  _exit(1);
}

// Without this the next opened file would get the number of a closed stream
// (`>&-`), and the output. Writes to the replacement fail.
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
  const int code = RunCommand({argv + (argc > 0), argv + argc});
  if (ringlet::FlushStdout()) return code;
  ringlet::Notice("error: stdout cannot be written");
  return code != 0 ? code : 1;
}
