// Supervisor: which workers of a job are started again, how a job is ended, and
// its exit code (launcher.h has the rules).
//
// Internal to net/. Pure: no process, no clock. Each event returns what is to
// be done at once.

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
    // Not negative: start the event's worker again after so many seconds, and
    // call OnRestart then.
    double restart_after = -1;
    std::vector<int> cancelled;  // restarts that are not to come
    int signal = 0;              // to every process …
    std::vector<int> spared;     // … but these
    // The deadline before this is void; not negative: call OnDeadline after
    // so many seconds.
    bool new_deadline = false;
    double deadline = -1;
    bool drop_output = false;  // do not wait for its readers
  };

  // Every worker is about to be started, in order.
  explicit Supervisor(const LaunchOptions& options);

  // At the first start: this one cannot be, and those behind it are not.
  Actions OnCannotStart(int worker);
  // Its process has exited; its output may still come.
  Actions OnExit(int worker, int code);
  // Nothing more comes of it: after OnExit, or where it could not be started.
  Actions OnEnded(int worker, int code);
  void OnRestart(int worker);
  // It says that its work is done.
  void OnDone(int worker, Actions* actions);
  Actions OnSignal(int signal);
  Actions OnDeadline();

  bool done() const;  // no worker is left
  // Of the worker that failed first and was not restarted; 0: none did.
  int exit_code() const { return exit_code_; }

 private:
  // The stages of ending a job, in their order.
  enum class Phase { kRunning, kLeaveAlone, kTerminate, kKill };
  struct Worker {
    bool waiting = false;  // for its restart
    bool done = false;
    bool told = false;  // that its work is done
    int restarts = 0;
    int code = 0;  // of the last run
  };

  Worker& At(int worker) { return workers_[static_cast<size_t>(worker)]; }
  bool MayRestart(int worker, int code);
  // By the first whose work is done, where they end together. `ended`: so has
  // its process.
  void Finish(int first, bool ended, Actions* actions);
  // Of those that are left, those that have told so, or have not.
  std::vector<int> Left(bool told) const;
  void WaitForTold(Actions* actions);
  bool Counts(const Worker& worker, int code) const;
  void Fail(int worker, int code, Actions* actions);
  // Its restart; whether it waited for one.
  bool Cancel(size_t worker, Actions* actions);
  void Enter(Phase phase, int signal, Actions* actions);

  const LaunchOptions& options_;  // outlive this
  std::vector<Worker> workers_;
  Phase phase_ = Phase::kRunning;
  bool signalled_ = false, finished_ = false;
  bool overdue_ = false;  // who has told has no more time after this deadline
  int exit_code_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_SUPERVISOR_H_
