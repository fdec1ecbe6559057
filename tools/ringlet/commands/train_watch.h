// ringlet train --watch: trains again as a folder grows.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_TRAIN_WATCH_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_TRAIN_WATCH_H_

#include <cstdint>
#include <string>

#include "../command_line.h"
#include "../run/run.h"
#include "ringlet/status.h"

namespace ringlet {

struct WatchFlags {
  bool on = false;
  // -1 if not given.
  int64_t round_examples = -1, replay = -1;
  double round_minutes = -1, scan_seconds = -1;
  void AddAll(CommandLine* flags);
  // Returns an error if another flag of these is given without --watch.
  Status Check() const;
};

// The other flags of `ringlet train` that --watch takes.
struct WatchedRun {
  std::string path;   // the path of RUN.json
  std::string model;  // the value of --save
  FitFlags fit;
  InitFlags init;
  bool sealed = false;
};

// Runs until a signal (kCancelled: the same command continues) or an error.
Status TrainWatched(const WatchedRun& run, const WatchFlags& flags);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_TRAIN_WATCH_H_
