// Starts workers of a command on this machine, as `ringlet launch` does:
//
//   launch WORKERS COMMAND [ARGUMENTS]
//
// For `make demo`, so that it need not build the program first.

#include <cstdlib>

#include "net/launch/launcher.h"

int main(int argc, char** argv) {
  ringlet::LaunchOptions options;
  options.workers = argc > 1 ? std::atoi(argv[1]) : 0;
  options.command.assign(argv + (argc > 2 ? 2 : argc), argv + argc);
  const ringlet::Result<int> result = ringlet::Launch(options);
  return result.ok() ? result.value() : ExitCode(result);
}
