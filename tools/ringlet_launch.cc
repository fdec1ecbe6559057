// ringlet-launch: several workers on this machine, one command.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/status.h"
#include "net/launcher.h"

namespace {

constexpr char kUsage[] =
    "usage: ringlet-launch -n N [options] [--] COMMAND [ARGUMENTS]\n";
constexpr char kHelp[] =
    "\n"
    "Starts N workers of one job on this machine: N processes of COMMAND, "
    "each\n"
    "with a TF_CONFIG of its own. Their output appears line by line behind\n"
    "\"[0] \", \"[1] \" and so on. Ctrl-C and SIGTERM are passed on.\n"
    "\n"
    "  -n, --workers N       how many workers (1 to 256)\n"
    "  --restart             start a failed worker again\n"
    "  --max-restarts N      each at most N times (3)\n"
    "  --backoff SECONDS     before the first restart (0.5), then twice that,\n"
    "                        up to 30\n"
    "  --grace SECONDS       for the workers to end before they are killed, "
    "and\n"
    "                        before they are told to after one failed (5)\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code: 0 where all workers ended with 0; otherwise that of the "
    "worker\n"
    "that failed first (128 + signal where it was killed). 2 for wrong usage,\n"
    "127 where COMMAND is not found, 126 where it cannot be run.\n"
    "\n"
    "Example: ringlet-launch -n 2 -- ./mnist_multi_worker\n";

int UsageError(const char* what, const char* subject) {
  std::fprintf(stderr, "ringlet-launch: %s%s\n%sTry ringlet-launch --help\n",
               what, subject, kUsage);
  return 2;
}

bool ParseNumber(const char* text, double* value) {
  if (text == nullptr || *text == '\0') return false;
  char* end = nullptr;
  *value = std::strtod(text, &end);
  return *end == '\0' && *value >= 0 && *value <= 1e6;
}

bool ParseCount(const char* text, int* value) {
  double number = 0;
  if (text == nullptr || std::strspn(text, "0123456789") != std::strlen(text) ||
      !ParseNumber(text, &number)) {
    return false;
  }
  *value = static_cast<int>(number);
  return true;
}

int Report(const ringlet::Result<int>& result) {
  if (result.ok()) return result.value();
  const int code = ringlet::ExitCode(result);
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

}  // namespace

int main(int argc, char** argv) {
  ringlet::LaunchOptions options;
  options.workers = 0;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--") {
      ++i;
      break;
    }
    if (flag == "-h" || flag == "--help") {
      std::printf("%s%s", kUsage, kHelp);
      return 0;
    }
    if (flag == "--restart") {
      options.restart = true;
      continue;
    }
    bool good;
    if (flag == "-n" || flag == "--workers") {
      good = ParseCount(value, &options.workers) && options.workers >= 1 &&
             options.workers <= ringlet::kMaxLocalWorkers;
    } else if (flag == "--max-restarts") {
      good = ParseCount(value, &options.max_restarts);
    } else if (flag == "--backoff") {
      good = ParseNumber(value, &options.backoff_seconds);
    } else if (flag == "--grace") {
      good = ParseNumber(value, &options.grace_seconds);
    } else {
      return UsageError("unknown option ", flag.c_str());
    }
    if (!good) {
      return UsageError(
          ("wrong number for " + flag + (value != nullptr ? ": " : "")).c_str(),
          value != nullptr ? value : "");
    }
    ++i;
  }
  if (options.workers == 0) return UsageError("-n is missing", "");
  options.command.assign(argv + i, argv + argc);
  if (options.command.empty()) return UsageError("COMMAND is missing", "");
  return Report(ringlet::Launch(options));
}
