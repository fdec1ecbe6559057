// Launch: several workers on this machine, started and watched together.
//
// Internal to net/ and tools/. Each worker is one process of the same command
// with a TF_CONFIG of its own: 127.0.0.1 with a free port for each, task
// {"worker", i}. What they print appears line by line behind "[i] ", as it
// comes, stdout and stderr kept apart; they read nothing (/dev/null). Where
// stdout is a terminal, worker 0's is one too: the line that it has begun, such
// as a progress bar, stands last. Each leads a session and process group of its
// own, and a signal to it goes to the whole group, so that a worker may be a
// shell script.
//
// The job ends when every worker has ended with 0, or
// - when one fails and is not restarted: the others have `grace_seconds` to
//   end by themselves, then get SIGTERM, and after as long again SIGKILL;
// - on SIGINT, SIGTERM or SIGHUP: it is passed on, and SIGKILL follows after
//   `grace_seconds`, or at a second such signal.
//
// The job has a key of its own (core/base/key_file.h), made for it and gone
// with it, in memory that the workers alone can open: it stands in no
// environment, argument or file. Where RINGLET_KEY_FILE names one, they take
// that.
//
// No process is left behind: what remains of a worker's group is killed when
// the worker has ended, and if the launcher itself dies, of SIGKILL too, a
// small guard process kills every group (on Linux the kernel kills the workers
// as well). On Linux that goes for a process that left the group by setsid as
// well: orphans come to the launcher, which is their subreaper, and are killed
// when their worker, known by TF_CONFIG in their environment, or else the job
// has ended; the guard knows them by TF_CONFIG. Children that this process had
// before are not touched, nor others of its own session.

#ifndef RINGLET_NET_LAUNCH_LAUNCHER_H_
#define RINGLET_NET_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

constexpr int kMaxLocalWorkers = 256;

struct LaunchOptions {
  std::vector<std::string> command;  // program (by PATH) and its arguments
  int workers = 1;                   // 1..kMaxLocalWorkers
  // A failed worker (exit code not 0, or killed) is started again, but for exit
  // code 2, a wrong configuration (core/base/status.h): each at most
  // `max_restarts` times, with the same TF_CONFIG, after `backoff_seconds`,
  // doubling up to `max_backoff_seconds`.
  bool restart = false;
  int max_restarts = 3;
  double backoff_seconds = 0.5;
  double max_backoff_seconds = 30;
  // One that ends with 0, or has said before that its work is done
  // (tell_launcher.h), has finished the work of all. From then on none is
  // started again and the others, of which one may stand still or may not know,
  // have `grace_seconds` to end, one at least, or `late_seconds` where that is
  // less. No code counts any more of one that was started again, that is
  // killed, or that says 75, run again. But one that has said that it is done
  // has `done_seconds` more to put away what it needed, and its code counts.
  bool end_together = false;
  double grace_seconds = 5;
  // The grace of those others where it is shorter: after twice that long one of
  // them may go on alone, and write over what the work has left.
  double late_seconds = 86400;
  double done_seconds = 600;
  // Where the lines go. A slow reader slows the workers down.
  int stdout_fd = 1;
  int stderr_fd = 2;
};

// Returns when no worker is left. The value is the exit code of the worker
// that failed first and was not restarted (128 + signal where it was killed),
// 0 where none failed. An error where the job could not be started:
// kInvalidArgument (options), or what the OS said about the command, kNotFound
// where there is no such program.
//
// Handles SIGINT, SIGTERM, SIGHUP and SIGCHLD while it runs and leaves the
// first three at their defaults: one call at a time in a process.
Result<int> Launch(const LaunchOptions& options);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_LAUNCHER_H_
