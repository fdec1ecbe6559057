// The flags of --watch: in all builds, also in those without TrainWatched.

#include <cstdint>
#include <utility>

#include "train_watch.h"

namespace ringlet {

void WatchFlags::AddAll(CommandLine* flags) {
  flags->Switch("--watch", &on,
                "train again as data.train's folder grows; replace\n"
                "the model of --save by each one that is not worse\n"
                "(docs/watch.md)");
  flags->Int("--round-examples", 1, 1000000, &round_examples,
             "with --watch: a round begins with this many new\n"
             "examples (32)");
  flags->Number("--round-minutes", "MINUTES", 0, 1e6, &round_minutes,
                "with --watch: or after this time with fewer (60);\n"
                "0: never");
  flags->Int("--replay", 0, 1000000, &replay,
             "with --watch: the most earlier examples of a round,\n"
             "and the most held-out ones (1000)");
  flags->Number("--scan-seconds", "SECONDS", 0.01, 1e6, &scan_seconds,
                "with --watch: the time between two scans (2)");
}

Status WatchFlags::Check() const {
  if (on) return Status();
  const std::pair<const char*, double> others[] = {
      {"--round-examples", static_cast<double>(round_examples)},
      {"--round-minutes", round_minutes},
      {"--replay", static_cast<double>(replay)},
      {"--scan-seconds", scan_seconds}};
  for (const auto& [flag, value] : others) {
    if (value >= 0) return InvalidArgument("%s: needs --watch", flag);
  }
  return Status();
}

}  // namespace ringlet
