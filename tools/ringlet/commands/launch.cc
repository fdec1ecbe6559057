// ringlet launch: several workers on this machine, one command.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "../command_line.h"
#include "../run/launch_files.h"
#include "commands.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "net/launch/launcher.h"
#include "ringlet/compute.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Starts N workers of one job on this machine, or one on each of other hosts:
processes of COMMAND, each with its own TF_CONFIG. The lines of their output
begin with "[0] ", "[1] " and so on. Ctrl-C and SIGTERM are passed on. No
process is left behind.
)";

constexpr char kMore[] = R"(
Exit code: 0 if all workers ended with 0; otherwise that of the worker that
failed first (128 + signal if it was killed). If RUN.json lets `ringlet train`
continue without it ("policy": "shrink"), its code does not count, and a line
names it. 2 for wrong usage, 127 if COMMAND
is not found, 126 if it cannot be run. A worker that ends with 2, a wrong
configuration, is not started again.

With --hosts each host needs the program, this folder with its files, a key
(RINGLET_KEY_FILE, the same path on each host) and an ssh login without a
password. Workers there are stopped by SIGTERM, also if the connection breaks.

With --print nothing is started. The file is to be looked at: names of images,
folders and the key's place are examples (docs/porting.md).

Example: ringlet launch -n 2 -- ringlet train RUN.json
ringlet launch --hosts hosts -- ringlet train RUN.json
ringlet launch --print slurm -n 4 -- ringlet train RUN.json > job.sh
)";

// A shell's exit codes for a command that cannot be run.
int LaunchExitCode(const Result<int>& result) {
  if (result.ok()) return result.value();
  const int code = ExitCode(result);
  switch (result.status().os_error()) {
    case ENOENT:
      return 127;
    case EACCES:
    case ENOEXEC:
      return 126;
    default:
      return code;
  }
}

// True for ringlet train; the lines of other commands are not read.
bool IsTrain(const std::vector<std::string>& command) {
  const std::string& program = command[0];
  return program.substr(program.rfind('/') + 1) == "ringlet" &&
         command.size() > 1 && command[1] == "train";
}

TrainSettingsForLaunch LineOf(const std::vector<std::string>& command,
                              int workers) {
  if (!IsTrain(command)) return {};
  return ReadTrainSettings({command.begin() + 2, command.end()}, workers);
}

// The other workers continue while a worker is started again.
void AddShrink(std::vector<std::string>* command) {
  const char* const shrink = "--shrink";
  if (!IsTrain(*command)) return;
  if (std::find(command->begin(), command->end(), shrink) == command->end()) {
    command->insert(command->begin() + 2, shrink);
  }
}

// No worker ends with success before the model is saved. A worker that misses
// the end must be stopped before it continues alone: it would overwrite the
// model and the logs.
void SetLossOptions(const TrainSettingsForLaunch& train,
                    LaunchOptions* options) {
  if (!IsTrain(options->command)) return;
  options->end_together = options->restart || train.min_workers > 0;
  options->min_workers = train.min_workers;
  if (train.waits_seconds > 0) {
    options->others_grace_seconds =
        std::min(options->others_grace_seconds, 0.4 * train.waits_seconds);
  }
}

// `threads` of each worker.
void WarnOfFewCores(const LaunchOptions& options, int64_t threads) {
  const int cores = UsableCores();
  if (threads < 1 || options.workers * threads <= cores) return;
  Notice("warning: %d workers with %" PRId64
         " %s each compute on %d %s: they take turns, and no step is "
         "done before the last of them",
         options.workers, threads, threads == 1 ? "thread" : "threads", cores,
         cores == 1 ? "core" : "cores");
}

struct ElsewhereFlags {
  std::string print, hosts;  // the values of --print and --hosts
  int64_t workers = 0;       // the value of -n, 0 if it is not given
  bool given() const { return !print.empty() || !hosts.empty(); }
};

Status ReadJob(const ElsewhereFlags& flags,
               const std::vector<std::string>& command, JobToLaunch* job) {
  job->command = command;
  char folder[4096];
  job->folder = getcwd(folder, sizeof(folder)) != nullptr ? folder : ".";
  int64_t workers = flags.workers;
  if (!flags.hosts.empty()) {
    constexpr int64_t kMostBytes = 1 << 20;
    std::string text;
    RINGLET_RETURN_IF_ERROR(
        ReadWholeFile(PosixFiles(), flags.hosts, kMostBytes, &text));
    RINGLET_RETURN_IF_ERROR(ReadHosts(text, flags.hosts, &job->hosts));
    const auto hosts = static_cast<int64_t>(job->hosts.size());
    if (workers != 0 && workers != hosts) {
      return InvalidArgument(
          "-n: is %lld, but %s has %lld hosts, a worker each; leave -n out",
          static_cast<long long>(workers), flags.hosts.c_str(),
          static_cast<long long>(hosts));
    }
    workers = hosts;
  }
  if (workers == 0) {
    return InvalidArgument("-n is missing: how many workers?");
  }
  job->workers = static_cast<int>(workers);
  return Status();
}

// Prints the file that starts the job elsewhere.
Status PrintFile(const std::string& kind, const JobToLaunch& job) {
  std::string text;
  RINGLET_RETURN_IF_ERROR(LaunchFile(kind, job, &text));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return Status();
}

// Runs a worker on each of the job's hosts.
Status RunByShell(JobToLaunch job, LaunchOptions options, int* code) {
  if (options.restart) {
    return InvalidArgument(
        "--restart: is for workers of this machine; on others a service "
        "manager restarts them (--print systemd)");
  }
  const char* const key = std::getenv("RINGLET_KEY_FILE");
  if (key != nullptr) job.key_file = key;
  job.grace_seconds = std::max(1.0, options.grace_seconds);
  options.workers = job.workers;
  SetLossOptions(LineOf(options.command, job.workers), &options);
  for (int worker = 0; worker < job.workers; ++worker) {
    options.remote.push_back(SshCommand(job, worker));
  }
  *code = LaunchExitCode(Launch(options));
  return Status();
}

int LaunchElsewhere(const ElsewhereFlags& flags, const LaunchOptions& options) {
  JobToLaunch job;
  int code = 0;
  Status status = ReadJob(flags, options.command, &job);
  if (status.ok()) {
    status = flags.print.empty() ? RunByShell(job, options, &code)
                                 : PrintFile(flags.print, job);
  }
  return status.ok() ? code : InputExitCode(status);
}

}  // namespace

int LaunchCommand(const std::vector<std::string>& line) {
  LaunchOptions options;
  ElsewhereFlags remote;
  int64_t& workers = remote.workers;
  int64_t max_restarts = options.max_restarts;
  CommandLine flags("launch", "[--] COMMAND [ARGUMENTS]", kAbout, kMore);
  flags.StopAtFirstArgument();
  flags.Int("-n, --workers", 1, kMaxLocalWorkers, &workers,
            "number of workers");
  flags.Switch("--restart", &options.restart,
               "start a failed worker again (not after exit code 2);\n"
               "meanwhile `ringlet train` continues (--shrink)");
  flags.Int("--max-restarts", 0, 1000000, &max_restarts,
            "restarts of one worker in a row (3); after them\n"
            "`ringlet train` continues without it if it may\n"
            "(--shrink), and any other job ends");
  flags.Number("--healthy", "SECONDS", 0, 1e9, &options.healthy_seconds,
               "a run of this length resets the count and the pause\n"
               "(600)");
  flags.Number("--backoff", "SECONDS", 0, 1e6, &options.backoff_seconds,
               "pause before the first restart (0.5); each further\npause is "
               "twice as long, up to 30");
  flags.Number("--grace", "SECONDS", 0, 1e6, &options.grace_seconds,
               "time for workers to end before they are killed, and\n"
               "before they are stopped after one has failed (5)");
  flags.Text("--hosts", "FILE", &remote.hosts,
             "run a worker on each host by ssh: FILE has a host, or\n"
             "host:port, a line");
  flags.Text("--print", "KIND", &remote.print,
             "start nothing: print the file that starts the job\n"
             "elsewhere: systemd, k8s, slurm, compose or ssh");
  int code = 0;
  if (!flags.Parse(line, 0, SIZE_MAX, &code)) return code;
  if (workers == 0 && !remote.given()) {
    return flags.UsageError(
        InvalidArgument("-n is missing: how many workers?"));
  }
  if (flags.arguments().empty()) {
    return flags.UsageError(
        InvalidArgument("COMMAND is missing: what should the workers run?"));
  }
  options.max_restarts = static_cast<int>(max_restarts);
  options.command = flags.arguments();
  if (remote.given()) return LaunchElsewhere(remote, options);
  options.workers = static_cast<int>(workers);
  if (options.restart) AddShrink(&options.command);
  const TrainSettingsForLaunch train = LineOf(options.command, options.workers);
  WarnOfFewCores(options, train.threads);
  SetLossOptions(train, &options);
  return LaunchExitCode(Launch(options));
}

}  // namespace ringlet
