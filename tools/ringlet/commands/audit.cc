// ringlet audit: checks that each example was used once in each pass.

#include <string>
#include <vector>

#include "../command_line.h"
#include "commands.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "io/logs/example_audit.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Proves by the logs of `ringlet train --log-examples` that a run took every step,
and used each example once in each pass over the data, also if workers were lost
and came back. If the workers have their own disks, give the logs of all.
)";

constexpr char kMore[] = R"(
Exit code 1, with the reason: a step is in no log, two logs have other examples
for a step, an example is used twice in a pass, or a pass lacks some.

Example: ringlet audit board0/examples.csv board1/examples.csv
)";

constexpr int64_t kMaxBytes = int64_t{1} << 30;

}  // namespace

int AuditCommand(const std::vector<std::string>& line) {
  CommandLine flags("audit", "LOG.csv...", kAbout, kMore);
  int code = 0;
  if (!flags.Parse(line, 1, SIZE_MAX, &code)) return code;
  ExampleAudit audit;
  for (const std::string& path : flags.arguments()) {
    std::string text;
    Status status = ReadWholeFile(PosixFiles(), path, kMaxBytes, &text);
    if (status.ok()) status = audit.Add(path, text);
    if (!status.ok()) return InputExitCode(status);
  }
  std::string proof;
  const Status status = audit.Finish(&proof);
  if (!status.ok()) return InputExitCode(status);
  Print("%s", proof.c_str());
  return 0;
}

}  // namespace ringlet
