// An exit is reported twice: OnExit when the process has ended, and OnEnded
// once its output was read too. A phase only advances, from kRunning to kKill.
// exit_code_ is the first that counts (ExitCodeCounts).

#include "supervisor.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "../../core/base/text.h"

namespace ringlet {

namespace {

// Exit codes.
constexpr int kWrongConfiguration = 2;
constexpr int kRunAgain = 75;

std::string EndText(int worker, int code) {
  return "worker " + std::to_string(worker) +
         (code > 128 && code < 255
              ? " was ended by signal " + std::to_string(code - 128)
              : " ended with exit code " + std::to_string(code));
}

void AddNotice(size_t worker, const char* text, Supervisor::Actions* actions) {
  actions->notices.push_back("worker " + std::to_string(worker) + text);
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options)
    : options_(options), states_(static_cast<size_t>(options.workers)) {}

bool Supervisor::done() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](const WorkerState& state) { return state.done; });
}

std::string Supervisor::NoRestartText(int code) const {
  if (!options_.restart || code == kWrongConfiguration) return "";
  return "; no restart of it is left (--max-restarts " +
         std::to_string(options_.max_restarts) + ")";
}

bool Supervisor::MayRestart(int worker, int code) const {
  return phase_ == Phase::kRunning && options_.restart && !finished_ &&
         code != kWrongConfiguration &&
         StateOf(worker).restarts < options_.max_restarts;
}

Supervisor::Actions Supervisor::OnCannotStart(int worker) {
  for (int i = worker + 1; i < options_.workers; ++i) {
    StateOf(i).done = true;
  }
  Actions actions;
  EnterPhase(Phase::kKill, SIGKILL, &actions);
  return actions;
}

Supervisor::Actions Supervisor::OnExit(int worker, int code,
                                       double ran_seconds) {
  Actions actions;
  if (ran_seconds >= options_.healthy_seconds) StateOf(worker).restarts = 0;
  if (code == 0) {
    FinishJob(worker, /*has_exited=*/true, &actions);
  } else if (!MayRestart(worker, code)) {
    GiveUp(worker, code, &actions);
  }
  return actions;
}

bool Supervisor::MayContinueWithout(int worker, int code) const {
  // In a first run a wrong configuration is wrong for all workers.
  if (code == kWrongConfiguration && !StateOf(worker).restarted) return false;
  const auto remaining = std::count_if(
      states_.begin(), states_.end(), [&](const WorkerState& other) {
        return &other != &StateOf(worker) && !other.done && !other.given_up;
      });
  return phase_ == Phase::kRunning && !finished_ && options_.min_workers > 0 &&
         remaining >= options_.min_workers;
}

void Supervisor::GiveUp(int worker, int code, Actions* actions) {
  if (StateOf(worker).given_up) return;
  if (!MayContinueWithout(worker, code)) return FailJob(worker, code, actions);
  StateOf(worker).given_up = true;
  actions->notices.push_back(EndText(worker, code) + NoRestartText(code) +
                             "; the others continue without it");
}

void Supervisor::FinishJob(int first, bool has_exited, Actions* actions) {
  if (phase_ != Phase::kRunning || !options_.end_together || finished_) return;
  finished_ = true;
  bool late = !has_exited;  // some are still to end
  for (size_t i = 0; i < states_.size(); ++i) {
    const WorkerState& state = states_[i];
    if (state.done || &state == &StateOf(first)) continue;
    late |= !state.waiting;
    if (!CancelRestart(i, actions)) continue;
    AddNotice(i, " is not started again: the others have finished the job",
              actions);
  }
  if (late) EnterPhase(Phase::kGrace, 0, actions);
}

void Supervisor::OnDone(int worker, Actions* actions) {
  if (worker < 0 || worker >= options_.workers || StateOf(worker).done) return;
  StateOf(worker).reported_end = true;
  FinishJob(worker, /*has_exited=*/false, actions);
}

std::vector<int> Supervisor::WorkersLeft(Report report) const {
  std::vector<int> remaining;
  for (size_t i = 0; i < states_.size(); ++i) {
    const Report worker_report =
        states_[i].reported_end ? Report::kSent : Report::kNotSent;
    if (states_[i].done || worker_report != report) continue;
    remaining.push_back(static_cast<int>(i));
  }
  return remaining;
}

// Gives the workers that have reported their end report_grace_seconds, once.
void Supervisor::WaitForReported(Actions* actions) {
  overdue_ = true;
  actions->new_deadline = true;
  actions->deadline = options_.report_grace_seconds;
  for (const int worker : WorkersLeft(Report::kSent)) {
    actions->notices.push_back("worker " + std::to_string(worker) +
                               " has finished the job, and still writes or "
                               "removes its last backup; it has " +
                               FormatText("%g", options_.report_grace_seconds) +
                               " s");
  }
}

bool Supervisor::ExitCodeCounts(const WorkerState& state, int code) const {
  if (!finished_ || state.reported_end) return true;
  return phase_ == Phase::kGrace && !state.restarted && code <= 128 &&
         code != kRunAgain;
}

Supervisor::Actions Supervisor::OnEnded(int worker, int code) {
  WorkerState& ended = StateOf(worker);
  Actions actions;
  if (code == 0) {
    ended.done = true;
  } else if (!MayRestart(worker, code)) {
    GiveUp(worker, code, &actions);
    ended.done = true;
  } else {
    actions.restart_after =
        std::min(std::ldexp(options_.backoff_seconds, ended.restarts),
                 options_.max_backoff_seconds);
    ++ended.restarts;
    ended.waiting = ended.restarted = true;
    ended.code = code;
    actions.notices.push_back(
        EndText(worker, code) + "; it is started again in " +
        FormatText("%g", actions.restart_after) + " s (restart " +
        std::to_string(ended.restarts) + " of " +
        std::to_string(options_.max_restarts) + ")");
  }
  return actions;
}

void Supervisor::OnRestart(int worker) {
  StateOf(worker).waiting = StateOf(worker).reported_end = false;
}

void Supervisor::FailJob(int worker, int code, Actions* actions) {
  if (!ExitCodeCounts(StateOf(worker), code)) return;
  const bool first = exit_code_ == 0;
  if (first) exit_code_ = code;
  if (finished_ && first) actions->notices.push_back(EndText(worker, code));
  if (phase_ != Phase::kRunning) return;
  const bool others = std::any_of(
      states_.begin(), states_.end(), [&](const WorkerState& other) {
        return &other != &StateOf(worker) && !other.done;
      });
  actions->notices.push_back(
      EndText(worker, code) + NoRestartText(code) +
      (others ? "; waiting for the others to end, then stopping them" : ""));
  EnterPhase(Phase::kGrace, 0, actions);
}

bool Supervisor::CancelRestart(size_t worker, Actions* actions) {
  WorkerState& late = states_[worker];
  if (!late.waiting) return false;
  late.waiting = false;
  late.done = true;
  actions->cancelled.push_back(static_cast<int>(worker));
  return true;
}

void Supervisor::EnterPhase(Phase phase, int signal, Actions* actions) {
  phase_ = phase;
  actions->signal = signal;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!CancelRestart(i, actions)) continue;
    // As the job ends, only the exit code matters.
    FailJob(static_cast<int>(i), states_[i].code, actions);
  }
  actions->new_deadline = true;
  double grace = options_.grace_seconds;
  if (finished_)
    grace = std::min(std::max(grace, 1.0), options_.others_grace_seconds);
  actions->deadline = phase == Phase::kKill ? -1 : grace;
  if (finished_ && !signalled_ && !overdue_ && signal != 0) {
    actions->spared = WorkersLeft(Report::kSent);
    if (phase == Phase::kKill && !actions->spared.empty())
      WaitForReported(actions);
  }
  // After a second signal the output is dropped instead of waiting for its
  // reader.
  actions->drop_output = phase == Phase::kKill && signalled_;
}

Supervisor::Actions Supervisor::OnDeadline() {
  Actions actions;
  const std::vector<int> late = WorkersLeft(Report::kNotSent);
  if (finished_ && !overdue_ && !signalled_ && late.empty()) {
    WaitForReported(&actions);
  } else if (phase_ == Phase::kGrace) {
    for (size_t i = 0; finished_ && i < late.size(); ++i) {
      AddNotice(static_cast<size_t>(late[i]),
                " is stopped: the others have finished the job", &actions);
    }
    EnterPhase(Phase::kTerminate, SIGTERM, &actions);
  } else {
    EnterPhase(Phase::kKill, SIGKILL, &actions);
  }
  return actions;
}

Supervisor::Actions Supervisor::OnSignal(int signal) {
  Actions actions;
  if (signalled_ || phase_ == Phase::kKill) {
    signalled_ = true;
    EnterPhase(Phase::kKill, SIGKILL, &actions);
  } else {
    signalled_ = true;
    EnterPhase(Phase::kTerminate, signal, &actions);
  }
  return actions;
}

}  // namespace ringlet
