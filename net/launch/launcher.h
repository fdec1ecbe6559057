// Launch: several workers on this machine, started and watched together.
//
// Each worker is one process of the same command with its own TF_CONFIG:
// 127.0.0.1 with a free port for each, task {"worker", i}. The launcher prints
// each line of worker i after "[i] ", when it arrives, to stdout or stderr as
// the worker did. Workers read from /dev/null. If stdout is a terminal, worker
// 0 has a terminal too. Its unfinished line, as a progress bar, is then the
// last line. Each worker leads its own session and process group. A signal to
// it goes to the whole group, so a worker may be a shell script.
//
// The job ends when every worker has ended with exit code 0. It also ends
// - when a worker fails and is not restarted. The other workers have
//   `grace_seconds` to end, then get SIGTERM, and after as long again SIGKILL;
// - on SIGINT, SIGTERM or SIGHUP. The workers get it too. SIGKILL follows after
//   `grace_seconds`, or at a second such signal.
//
// The launcher makes a key for the job (core/base/key_file.h). It is in memory
// that only the workers can open, in no environment, argument or file, and ends
// with the job. If RINGLET_KEY_FILE names a key, the workers use that one.
//
// No process is left behind. When a worker has ended, the launcher kills the
// rest of its group. If the launcher itself ends, also by SIGKILL, a small
// guard process kills every group. On Linux the kernel then kills the workers
// too. Processes that left their group by setsid are killed on Linux alone:
// they become children of the launcher, which is their subreaper. It kills them
// when their worker has ended, or the job if the worker is not known. TF_CONFIG
// in their environment names the worker, also for the guard. Earlier children
// of this process, and other processes of its session, are not killed.

#ifndef RINGLET_NET_LAUNCH_LAUNCHER_H_
#define RINGLET_NET_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

constexpr int kMaxLocalWorkers = 256;

struct LaunchOptions {
  std::vector<std::string> command;  // program (by PATH) and its arguments
  int workers = 1;                   // 1..kMaxLocalWorkers
  // If not empty, a command for each worker, in place of `command`, which runs
  // it elsewhere. The end of its stdin asks it to stop, in place of a signal
  // other than SIGKILL.
  std::vector<std::vector<std::string>> remote;
  // A failed worker (exit code not 0, or killed) is started again with the same
  // TF_CONFIG, at most `max_restarts` times in a row. Exit code 2, a wrong
  // configuration (ringlet/status.h), is not restarted. The pause before a
  // restart is `backoff_seconds`, and doubles up to `max_backoff_seconds`.
  // After a run of `healthy_seconds` the worker's next failure counts as its
  // first.
  bool restart = false;
  int max_restarts = 3;
  double healthy_seconds = 600;
  double backoff_seconds = 0.5;
  double max_backoff_seconds = 30;
  // If not 0, a failed worker without a restart does not end the job while this
  // many workers are left. Its exit code does not count then. Exit code 2 of
  // its first run ends the job all the same.
  int min_workers = 0;
  // A worker that ends with 0, or has reported that its work is done
  // (done_report.h), has finished the work of all. From then on no worker is
  // started again. One of the other workers may be stopped, or may have missed
  // the end. They have `grace_seconds` to end, at least one second, or
  // `others_grace_seconds` if that is less. The exit code of a worker no longer
  // counts if it was started again, is killed, or is 75 (run again). A worker
  // that has reported its end has `report_grace_seconds` more to save its
  // files, and its exit code counts.
  bool end_together = false;
  double grace_seconds = 5;
  // The grace of the other workers, if it is shorter than grace_seconds. After
  // twice this time one of the other workers may continue alone, and overwrite
  // the results.
  double others_grace_seconds = 86400;
  double report_grace_seconds = 600;
  // The descriptors for the workers' lines. A slow reader slows the workers
  // down. If the reader has left (`| head`, Ctrl-C at `| tee`), lines are
  // dropped and the job continues.
  int stdout_fd = 1;
  int stderr_fd = 2;
};

// Returns when no worker is left. The value is the exit code of the worker
// that failed first and was not restarted (128 + signal if it was killed), or 0
// if none failed. It is an error if the job could not be started:
// kInvalidArgument for wrong options, kNotFound if there is no such program, or
// another error of the OS. If no worker failed but lines could not be written,
// as on a full disk, it is the error of the OS.
//
// Handles SIGINT, SIGTERM, SIGHUP and SIGCHLD while it runs and leaves the
// first three at their defaults: one call at a time in a process. SIGPIPE and
// SIGXFSZ are ignored until it returns, and handled as before afterwards.
Result<int> Launch(const LaunchOptions& options);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_LAUNCHER_H_
