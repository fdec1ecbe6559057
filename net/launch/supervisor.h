// Supervisor: which workers of a job are started again, how a job is ended, and
// its exit code (launcher.h has the rules).
//
// Pure: no process, no clock. Each event returns the actions to take now. A
// worker is named by its number in the job's list.

#ifndef RINGLET_NET_LAUNCH_SUPERVISOR_H_
#define RINGLET_NET_LAUNCH_SUPERVISOR_H_

#include <string>
#include <vector>

#include "launcher.h"

namespace ringlet {

class Supervisor {
 public:
  struct Actions {
    std::vector<std::string> notices;  // lines for the user
    // Not negative: after this many seconds start the event's worker again, and
    // call OnRestart.
    double restart_after = -1;
    std::vector<int> cancelled;  // restarts that are cancelled
    int signal = 0;              // sent to every process that `spared` lacks
    std::vector<int> spared;     // workers that get no signal
    // Replaces the last deadline. Not negative: call OnDeadline after this many
    // seconds.
    bool new_deadline = false;
    double deadline = -1;
    bool drop_output = false;  // do not wait for its readers
  };

  // Every worker is about to be started, in order.
  explicit Supervisor(const LaunchOptions& options);

  // Call it if `worker` cannot be started at the first start: no later worker
  // is started. With -1 no worker is started.
  Actions OnCannotStart(int worker);
  // Call it when the process of `worker` has exited after `ran_seconds`; output
  // may follow.
  Actions OnExit(int worker, int code, double ran_seconds = 0);
  // Call it when the worker's output has ended: after OnExit, or if it could
  // not be started.
  Actions OnEnded(int worker, int code);
  void OnRestart(int worker);
  // Call it when the worker reports that its work is done.
  void OnDone(int worker, Actions* actions);
  Actions OnSignal(int signal);
  Actions OnDeadline();

  bool done() const;  // no worker is left
  // The exit code of the worker that failed first and was not restarted; zero
  // if no worker did.
  int exit_code() const { return exit_code_; }

 private:
  // The stages of ending a job, in their order.
  enum class Phase { kRunning, kGrace, kTerminate, kKill };
  struct WorkerState {
    bool waiting = false;  // it waits for its restart
    bool done = false;
    bool reported_end = false;  // it has reported that its work is done
    bool given_up = false;      // the other workers continue without it
    bool restarted = false;     // it was restarted at least once
    // Restarts since the last healthy run (launcher.h).
    int restarts = 0;
    int code = 0;  // the exit code of the last run
  };

  WorkerState& StateOf(int worker) {
    return states_[static_cast<size_t>(worker)];
  }
  const WorkerState& StateOf(int worker) const {
    return states_[static_cast<size_t>(worker)];
  }
  // The part of a notice for a worker without a restart left, or "".
  std::string NoRestartText(int code) const;
  bool MayRestart(int worker, int code) const;
  // Ends a job in which all workers end together. `first` is the first worker
  // that has done its work. `has_exited` is true if the process of this worker
  // has also exited.
  void FinishJob(int first, bool has_exited, Actions* actions);
  // The workers that are left, and have sent or not sent a report that their
  // work is done.
  enum class Report { kSent, kNotSent };
  std::vector<int> WorkersLeft(Report report) const;
  void WaitForReported(Actions* actions);
  bool ExitCodeCounts(const WorkerState& state, int code) const;
  // True if the job continues without this worker, which has no restart left.
  bool MayContinueWithout(int worker, int code) const;
  void GiveUp(int worker, int code, Actions* actions);
  void FailJob(int worker, int code, Actions* actions);
  // Cancels the worker's pending restart. False if none was pending.
  bool CancelRestart(size_t worker, Actions* actions);
  void EnterPhase(Phase phase, int signal, Actions* actions);

  const LaunchOptions& options_;     // outlive this
  std::vector<WorkerState> states_;  // the state of each worker
  Phase phase_ = Phase::kRunning;
  bool signalled_ = false, finished_ = false;
  bool overdue_ = false;  // a worker that has reported its end has no time left
  int exit_code_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_SUPERVISOR_H_
