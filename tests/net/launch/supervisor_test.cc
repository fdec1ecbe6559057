#include "net/launch/supervisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "net/launch/line_splitter.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

LaunchOptions Options(int workers, bool restart) {
  LaunchOptions options;
  options.workers = workers;
  options.restart = restart;
  return options;
}

TEST(SupervisorTest, Job_AllWorkersEndWell_IsDoneWithZero) {
  const LaunchOptions options = Options(2, /*restart=*/false);
  Supervisor supervisor(options);
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_FALSE(supervisor.done());
    EXPECT_TRUE(supervisor.OnExit(worker, 0).notices.empty());
    EXPECT_FALSE(supervisor.OnEnded(worker, 0).new_deadline);
  }
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 0);
}

TEST(SupervisorTest, Failure_OthersRunOn_GoThroughEveryStage) {
  LaunchOptions options = Options(3, /*restart=*/false);
  options.grace_seconds = 7;
  Supervisor supervisor(options);
  Supervisor::Actions actions = supervisor.OnExit(1, 4);
  EXPECT_EQ(actions.notices,
            Strings{"worker 1 ended with exit code 4; waiting for the others "
                    "to end, then stopping them"});
  EXPECT_EQ(actions.signal, 0);
  EXPECT_EQ(actions.deadline, 7);
  EXPECT_TRUE(supervisor.OnEnded(1, 4).notices.empty());
  actions = supervisor.OnDeadline();
  EXPECT_EQ(actions.signal, SIGTERM);
  EXPECT_EQ(actions.deadline, 7);
  actions = supervisor.OnDeadline();
  EXPECT_EQ(actions.signal, SIGKILL);
  EXPECT_TRUE(actions.new_deadline);
  EXPECT_LT(actions.deadline, 0);
  EXPECT_FALSE(actions.drop_output);
  for (int worker : {0, 2}) {
    supervisor.OnExit(worker, 128 + SIGKILL);
    supervisor.OnEnded(worker, 128 + SIGKILL);
  }
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 4);
}

TEST(SupervisorTest, BackOff_EveryRestart_DoublesUpToItsLimit) {
  LaunchOptions options = Options(1, /*restart=*/true);
  options.max_restarts = 5;
  options.backoff_seconds = 2;
  options.max_backoff_seconds = 10;
  Supervisor supervisor(options);
  for (const double expected : {2., 4., 8., 10., 10.}) {
    EXPECT_FALSE(supervisor.OnExit(0, 1).new_deadline);
    EXPECT_EQ(supervisor.OnEnded(0, 1).restart_after, expected);
    supervisor.OnRestart(0);
  }
  EXPECT_EQ(supervisor.OnExit(0, 9).notices,
            Strings{"worker 0 ended with exit code 9; no restart of it is left "
                    "(--max-restarts 5)"});
  EXPECT_LT(supervisor.OnEnded(0, 9).restart_after, 0);
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 9);
}

TEST(SupervisorTest, Restarts_RunOfHealthySeconds_CountFromZero) {
  LaunchOptions options = Options(1, /*restart=*/true);
  options.max_restarts = 2;
  options.healthy_seconds = 60;
  options.backoff_seconds = 1;
  Supervisor supervisor(options);
  const struct {
    double ran, restart_after;
  } runs[] = {{1, 1}, {59, 2}, {60, 1}, {5, 2}, {3600, 1}, {1, 2}, {2, -1}};
  for (const auto& run : runs) {
    supervisor.OnExit(0, 1, run.ran);
    EXPECT_EQ(supervisor.OnEnded(0, 1).restart_after, run.restart_after);
    supervisor.OnRestart(0);
  }
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 1);
}

TEST(SupervisorTest, ElasticJob_WorkerWithoutARestartLeft_ContinuesWithoutIt) {
  LaunchOptions options = Options(3, /*restart=*/true);
  options.end_together = true;
  options.max_restarts = 1;
  options.min_workers = 2;
  for (const bool another : {false, true}) {
    Supervisor supervisor(options);
    const auto lose = [&](int worker) {
      const Strings notices = supervisor.OnExit(worker, 128 + SIGKILL).notices;
      if (supervisor.OnEnded(worker, 128 + SIGKILL).restart_after >= 0) {
        supervisor.OnRestart(worker);
      }
      return notices;
    };
    EXPECT_TRUE(lose(1).empty());
    EXPECT_EQ(
        lose(1),
        Strings{"worker 1 was ended by signal 9; no restart of it is left "
                "(--max-restarts 1); the others continue without it"});
    if (another) {
      EXPECT_TRUE(lose(0).empty());
      EXPECT_EQ(lose(0),
                Strings{"worker 0 was ended by signal 9; no restart of it is "
                        "left (--max-restarts 1); waiting for the others to "
                        "end, then stopping them"});
      EXPECT_EQ(supervisor.OnDeadline().signal, SIGTERM);
    } else {
      supervisor.OnExit(0, 0);
      supervisor.OnEnded(0, 0);
    }
    EXPECT_FALSE(supervisor.done());
    supervisor.OnExit(2, 0);
    supervisor.OnEnded(2, 0);
    EXPECT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.exit_code(), another ? 128 + SIGKILL : 0);
  }
}

TEST(SupervisorTest, ElasticJobWithoutRestart_WorkerIsKilled_EndsWithZero) {
  LaunchOptions options = Options(3, /*restart=*/false);
  options.end_together = true;
  options.min_workers = 1;
  for (const bool complete : {false, true}) {
    Supervisor supervisor(options);
    const Supervisor::Actions lost = supervisor.OnExit(1, 128 + SIGKILL);
    EXPECT_EQ(lost.notices, Strings{"worker 1 was ended by signal 9; the "
                                    "others continue without it"});
    EXPECT_FALSE(lost.new_deadline);
    EXPECT_LT(supervisor.OnEnded(1, 128 + SIGKILL).restart_after, 0);
    for (const int worker : {0, 2}) {
      supervisor.OnExit(worker, complete ? 0 : 75);
      supervisor.OnEnded(worker, complete ? 0 : 75);
    }
    EXPECT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.exit_code(), complete ? 0 : 75);
  }
}

// A worker under SIGSTOP ends by SIGKILL alone.
TEST(SupervisorTest, ElasticJobWithoutRestart_WorkerIsStopped_IsKilled) {
  LaunchOptions options = Options(2, /*restart=*/false);
  options.end_together = true;
  options.min_workers = 1;
  Supervisor supervisor(options);
  EXPECT_GE(supervisor.OnExit(0, 0).deadline, 0);
  supervisor.OnEnded(0, 0);
  EXPECT_EQ(supervisor.OnDeadline().signal, SIGTERM);
  EXPECT_EQ(supervisor.OnDeadline().signal, SIGKILL);
  supervisor.OnExit(1, 128 + SIGKILL);
  supervisor.OnEnded(1, 128 + SIGKILL);
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 0);
}

// For example, RUN.json was changed after the start. In a first run the
// configuration is wrong for all workers.
TEST(SupervisorTest, ElasticJob_WrongConfigurationOfARestart_GoesOnWithoutIt) {
  LaunchOptions options = Options(2, /*restart=*/true);
  options.min_workers = 1;
  for (const bool restarted : {false, true}) {
    Supervisor supervisor(options);
    if (restarted) {
      supervisor.OnExit(1, 75);
      EXPECT_GE(supervisor.OnEnded(1, 75).restart_after, 0);
      supervisor.OnRestart(1);
    }
    const Supervisor::Actions actions = supervisor.OnExit(1, 2);
    EXPECT_EQ(actions.new_deadline, !restarted);
    if (restarted) {
      EXPECT_EQ(actions.notices, Strings{"worker 1 ended with exit code 2; the "
                                         "others continue without it"});
    }
    supervisor.OnEnded(1, 2);
    supervisor.OnExit(0, 0);
    supervisor.OnEnded(0, 0);
    EXPECT_EQ(supervisor.exit_code(), restarted ? 0 : 2);
  }
}

TEST(SupervisorTest, Restart_WrongConfiguration_DoesNotFollow) {
  const LaunchOptions options = Options(1, /*restart=*/true);
  Supervisor supervisor(options);
  supervisor.OnExit(0, 2);
  EXPECT_LT(supervisor.OnEnded(0, 2).restart_after, 0);
  EXPECT_EQ(supervisor.exit_code(), 2);
}

TEST(SupervisorTest, Failure_AnotherAwaitsItsRestart_CancelsIt) {
  const LaunchOptions options = Options(2, /*restart=*/true);
  Supervisor supervisor(options);
  supervisor.OnExit(0, 5);
  EXPECT_GE(supervisor.OnEnded(0, 5).restart_after, 0);
  const Supervisor::Actions actions = supervisor.OnExit(1, 2);
  EXPECT_EQ(actions.cancelled, std::vector<int>{0});
  EXPECT_FALSE(supervisor.done());
  supervisor.OnEnded(1, 2);
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 2);
}

TEST(SupervisorTest, Signal_SentTwice_IsPassedOnAndThenKills) {
  const LaunchOptions options = Options(2, /*restart=*/true);
  Supervisor supervisor(options);
  Supervisor::Actions actions = supervisor.OnSignal(SIGHUP);
  EXPECT_EQ(actions.signal, SIGHUP);
  EXPECT_EQ(actions.deadline, options.grace_seconds);
  actions = supervisor.OnSignal(SIGINT);
  EXPECT_EQ(actions.signal, SIGKILL);
  EXPECT_TRUE(actions.drop_output);
}

TEST(SupervisorTest, Start_OneCannotBeStarted_KillsTheRest) {
  const LaunchOptions options = Options(3, /*restart=*/true);
  Supervisor supervisor(options);
  EXPECT_EQ(supervisor.OnCannotStart(1).signal, SIGKILL);
  supervisor.OnEnded(1, 127);
  EXPECT_FALSE(supervisor.done());
  supervisor.OnExit(0, 128 + SIGKILL);
  supervisor.OnEnded(0, 128 + SIGKILL);
  EXPECT_TRUE(supervisor.done());
}

TEST(SupervisorTest, EndTogether_FirstEndsWell_FinishesTheWorkOfAll) {
  LaunchOptions options = Options(4, /*restart=*/true);
  options.end_together = true;
  Supervisor supervisor(options);
  const auto lose = [&](int worker) {
    supervisor.OnExit(worker, 128 + SIGKILL);
    return supervisor.OnEnded(worker, 128 + SIGKILL).restart_after >= 0;
  };
  EXPECT_TRUE(lose(1));
  supervisor.OnRestart(1);  // worker 1 waits for the other workers
  EXPECT_TRUE(lose(2));
  Supervisor::Actions actions = supervisor.OnExit(0, 0);
  EXPECT_EQ(actions.cancelled, std::vector<int>{2});
  EXPECT_EQ(actions.notices, Strings{"worker 2 is not started again: the "
                                     "others have finished the job"});
  EXPECT_EQ(actions.signal, 0);
  EXPECT_EQ(actions.deadline, options.grace_seconds);
  supervisor.OnEnded(0, 0);
  EXPECT_FALSE(lose(3));
  EXPECT_EQ(supervisor.OnDeadline().signal, SIGTERM);
  EXPECT_TRUE(supervisor.OnExit(1, 128 + SIGTERM).notices.empty());
  supervisor.OnEnded(1, 128 + SIGTERM);
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 0);
}

// A worker that took part to the end, and then fails, is reported as a failure.
TEST(SupervisorTest, Worker_FailsAfterTheWorkIsDone_IsReported) {
  LaunchOptions options = Options(2, /*restart=*/true);
  options.end_together = true;
  Supervisor supervisor(options);
  EXPECT_EQ(supervisor.OnExit(0, 0).deadline, options.grace_seconds);
  supervisor.OnEnded(0, 0);
  EXPECT_EQ(supervisor.OnExit(1, 1).notices,
            Strings{"worker 1 ended with exit code 1"});
  const Supervisor::Actions actions = supervisor.OnEnded(1, 1);
  EXPECT_LT(actions.restart_after, 0);
  EXPECT_TRUE(actions.notices.empty());
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 1);
}

// The other workers have ended well, and it must still tidy up.
TEST(SupervisorTest, Worker_Finishes_HasTimeWithoutGrace) {
  LaunchOptions options = Options(2, /*restart=*/true);
  options.end_together = true;
  options.grace_seconds = 0;
  Supervisor supervisor(options);
  EXPECT_EQ(supervisor.OnExit(1, 0).deadline, 1);
  EXPECT_EQ(supervisor.OnDeadline().deadline, 1);
  EXPECT_EQ(Supervisor(options).OnSignal(SIGTERM).deadline, 0);
}

// A worker was stalled while the other workers finished, and was never
// restarted. It would wait for them and end with 75, or train the rest alone.
TEST(SupervisorTest, Worker_DoesNotKnowOfTheEnd_IsStopped) {
  LaunchOptions options = Options(3, /*restart=*/true);
  options.end_together = true;
  for (const int code : {75, 128 + SIGTERM, 128 + SIGKILL, 1}) {
    Supervisor supervisor(options);
    supervisor.OnExit(0, 0);
    supervisor.OnEnded(0, 0);
    supervisor.OnExit(1, 0);
    supervisor.OnEnded(1, 0);
    const Supervisor::Actions actions = supervisor.OnDeadline();
    EXPECT_EQ(actions.signal, SIGTERM);
    EXPECT_EQ(actions.notices,
              Strings{"worker 2 is stopped: the others have finished the job"});
    EXPECT_EQ(supervisor.OnDeadline().signal, SIGKILL);
    supervisor.OnExit(2, code);
    EXPECT_LT(supervisor.OnEnded(2, code).restart_after, 0);
    EXPECT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.exit_code(), 0);
  }
  Supervisor supervisor(options);
  supervisor.OnExit(0, 0);
  supervisor.OnEnded(0, 0);
  // Both waited for the other workers in vain.
  for (const int worker : {1, 2}) {
    supervisor.OnExit(worker, 75);
    supervisor.OnEnded(worker, 75);
  }
  EXPECT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.exit_code(), 0);
}

// The other workers are stopped before one of them continues alone and
// overwrites the results.
TEST(SupervisorTest, Worker_LateWithLessToWaitFor_HasAShorterGrace) {
  for (const double late : {0.25, 100.0}) {
    LaunchOptions options = Options(2, /*restart=*/true);
    options.end_together = true;
    options.others_grace_seconds = late;
    const double grace = std::min(late, options.grace_seconds);
    Supervisor supervisor(options);
    EXPECT_EQ(supervisor.OnExit(0, 0).deadline, grace);
    EXPECT_EQ(supervisor.OnDeadline().deadline, grace);
    EXPECT_EQ(supervisor.OnDeadline().signal, SIGKILL);
  }
  LaunchOptions options = Options(2, /*restart=*/true);
  options.end_together = true;
  options.others_grace_seconds = 0.25;
  Supervisor failed(options);  // no worker has finished the job
  EXPECT_EQ(failed.OnExit(0, 2).deadline, options.grace_seconds);
}

// A worker may still write its last backup when all others have ended.
TEST(SupervisorTest, Worker_ReportedItsEnd_IsLeftAlone) {
  LaunchOptions options = Options(3, /*restart=*/true);
  options.end_together = true;
  options.report_grace_seconds = 60;
  const Strings has_time = {
      "worker 0 has finished the job, and still writes or removes its last "
      "backup; it has 60 s"};
  for (const bool stands_still : {false, true}) {
    Supervisor supervisor(options);
    Supervisor::Actions actions;
    supervisor.OnDone(0, &actions);
    EXPECT_EQ(actions.deadline, options.grace_seconds);
    if (stands_still) {  // worker 1, while worker 2 ends
      supervisor.OnExit(2, 0);
      supervisor.OnEnded(2, 0);
      actions = supervisor.OnDeadline();
      EXPECT_EQ(actions.signal, SIGTERM);
      EXPECT_EQ(actions.spared, std::vector<int>{0});
      actions = supervisor.OnDeadline();
      EXPECT_EQ(actions.signal, SIGKILL);
      EXPECT_EQ(actions.spared, std::vector<int>{0});
      EXPECT_EQ(actions.notices, has_time);
      EXPECT_EQ(actions.deadline, 60);
      supervisor.OnExit(1, 128 + SIGKILL);
      supervisor.OnEnded(1, 128 + SIGKILL);
    } else {
      for (const int worker : {1, 2}) {
        supervisor.OnExit(worker, 0);
        supervisor.OnEnded(worker, 0);
      }
      actions = supervisor.OnDeadline();
      EXPECT_EQ(actions.signal, 0);
      EXPECT_EQ(actions.notices, has_time);
      EXPECT_EQ(actions.deadline, 60);
    }
    Supervisor late = supervisor;
    supervisor.OnExit(0, 0);
    supervisor.OnEnded(0, 0);
    EXPECT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.exit_code(), 0);
    // A time that is over ends it, and is no success.
    actions = late.OnDeadline();
    EXPECT_TRUE(actions.spared.empty());
    EXPECT_EQ(actions.signal, stands_still ? SIGKILL : SIGTERM);
    late.OnExit(0, 128 + SIGKILL);
    late.OnEnded(0, 128 + SIGKILL);
    EXPECT_TRUE(late.done());
    EXPECT_EQ(late.exit_code(), 128 + SIGKILL);
  }
}

// No other worker runs: it is alone in its job, or the other workers have been
// lost.
TEST(SupervisorTest, Worker_ReportedItsEndAndIsTheLast_HasNoMoreTime) {
  for (const int workers : {1, 2}) {
    LaunchOptions options = Options(workers, /*restart=*/true);
    options.end_together = true;
    options.report_grace_seconds = 60;
    Supervisor supervisor(options);
    Supervisor::Actions actions;
    if (workers == 2) {
      supervisor.OnExit(1, 128 + SIGKILL);
      EXPECT_GE(supervisor.OnEnded(1, 128 + SIGKILL).restart_after, 0);
    }
    supervisor.OnDone(0, &actions);
    EXPECT_EQ(actions.cancelled.size(), static_cast<size_t>(workers - 1));
    EXPECT_EQ(actions.deadline, options.grace_seconds);
    EXPECT_EQ(supervisor.OnDeadline().deadline, 60);
    EXPECT_EQ(supervisor.OnDeadline().signal, SIGTERM);
    EXPECT_EQ(supervisor.OnDeadline().signal, SIGKILL);
    supervisor.OnExit(0, 128 + SIGKILL);
    supervisor.OnEnded(0, 128 + SIGKILL);
    EXPECT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.exit_code(), 128 + SIGKILL);
  }
}

// A stop of the job stops that worker too. If the worker fails, the job is no
// success.
TEST(SupervisorTest, Worker_ReportedItsEnd_Counts) {
  LaunchOptions options = Options(2, /*restart=*/true);
  options.end_together = true;
  for (const bool signal : {false, true}) {
    Supervisor supervisor(options);
    Supervisor::Actions actions;
    supervisor.OnDone(0, &actions);
    supervisor.OnExit(1, 0);
    supervisor.OnEnded(1, 0);
    if (signal) {
      actions = supervisor.OnSignal(SIGINT);
      EXPECT_EQ(actions.signal, SIGINT);
      EXPECT_TRUE(actions.spared.empty());
      EXPECT_EQ(supervisor.OnDeadline().signal, SIGKILL);
    }
    const int code = signal ? 128 + SIGINT : 1;
    supervisor.OnExit(0, code);
    EXPECT_LT(supervisor.OnEnded(0, code).restart_after, 0);
    EXPECT_EQ(supervisor.exit_code(), code);
  }
}

// A job as its launcher runs it: which workers run, and which wait for a
// restart. Each event applies the supervisor's actions, and checks them.
class JobModel {
 public:
  // The stages of ending a job, in their order.
  enum class Stage {
    kRunning,    // no worker has ended the job
    kGrace,      // the other workers have time to end by themselves
    kTerminate,  // the workers have received SIGTERM
    kKill,       // the workers are killed
  };

  explicit JobModel(const LaunchOptions& options)
      : options_(options),
        supervisor_(options_),
        starts_(static_cast<size_t>(options.workers), 1) {
    for (int i = 0; i < options.workers; ++i) running_.insert(i);
  }

  const Supervisor& supervisor() const { return supervisor_; }
  const std::set<int>& running() const { return running_; }
  const std::set<int>& waiting() const { return waiting_; }
  // How often each worker was started.
  const std::vector<int>& starts() const { return starts_; }
  // The exit code of the first worker that failed, or 0 if none did.
  int first_code() const { return first_code_; }
  bool has_deadline() const { return stage_ > Stage::kRunning && !is_last_; }

  void ExitWorker(int worker, int code) {
    running_.erase(worker);
    Apply(supervisor_.OnExit(worker, code), worker);
    Apply(supervisor_.OnEnded(worker, code), worker);
    if (code != 0 && first_code_ == 0) first_code_ = code;
  }
  void RestartWorker(int worker) {
    waiting_.erase(worker);
    supervisor_.OnRestart(worker);
    running_.insert(worker);
    ++starts_[static_cast<size_t>(worker)];
  }
  void ReportDone(int worker) {
    Supervisor::Actions actions;
    supervisor_.OnDone(worker, &actions);
    Apply(actions, /*worker=*/-1);
  }
  void PassDeadline() { Apply(supervisor_.OnDeadline(), /*worker=*/-1); }
  void SendSignal() { Apply(supervisor_.OnSignal(SIGTERM), /*worker=*/-1); }

 private:
  static Stage StageOf(const Supervisor::Actions& actions) {
    if (actions.signal == SIGKILL) return Stage::kKill;
    return actions.signal != 0 ? Stage::kTerminate : Stage::kGrace;
  }

  void Apply(const Supervisor::Actions& actions, int worker) {
    for (const int each : actions.cancelled) {
      EXPECT_EQ(waiting_.erase(each), 1u);
    }
    if (actions.restart_after >= 0) {
      EXPECT_EQ(stage_, Stage::kRunning);
      waiting_.insert(worker);
    }
    if (actions.new_deadline) ApplyDeadline(actions);
  }

  void ApplyDeadline(const Supervisor::Actions& actions) {
    // Each of the three stages has one. Reports of a worker's end and signals
    // of the user give at most three more.
    constexpr int kMostDeadlines = 6;
    EXPECT_LE(++deadlines_, kMostDeadlines);
    const Stage stage = StageOf(actions);
    // Without a signal it is more time within the present stage.
    if (actions.signal != 0) {
      EXPECT_GE(stage, stage_);
    }
    is_last_ = actions.deadline < 0;
    if (is_last_) {
      EXPECT_EQ(stage, Stage::kKill);
    }
    stage_ = std::max(stage_, stage);
  }

  const LaunchOptions options_;
  Supervisor supervisor_;
  std::set<int> running_, waiting_;
  std::vector<int> starts_;
  Stage stage_ = Stage::kRunning;
  bool is_last_ = false;  // no deadline follows the present one
  int first_code_ = 0;
  int deadlines_ = 0;
};

// For any history: a job is done once all its workers have ended, each is
// started no more often than it may be, and stages never go back.
TEST(SupervisorTest, Job_AnyHistory_Ends) {
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    LaunchOptions options = Options(1 + below(4), below(2) == 1);
    options.max_restarts = below(3);
    options.end_together = below(2) == 1;
    options.min_workers = below(1 + options.workers);
    JobModel job(options);
    for (int step = 0; !job.supervisor().done(); ++step) {
      ASSERT_LT(step, 1000);
      const int event = below(10);
      if (event < 6 && !job.running().empty()) {
        const int worker =
            *std::next(job.running().begin(),
                       below(static_cast<int>(job.running().size())));
        job.ExitWorker(worker, below(3) == 0 ? 0 : 1 + below(150));
      } else if (event < 8 && !job.waiting().empty()) {
        job.RestartWorker(*job.waiting().begin());
      } else if (event == 7 && !job.running().empty()) {
        job.ReportDone(*job.running().begin());
      } else if (event == 8 && job.has_deadline()) {
        job.PassDeadline();
      } else if (event == 9 && below(20) == 0) {
        job.SendSignal();
      }
    }
    EXPECT_TRUE(job.running().empty() && job.waiting().empty());
    for (const int count : job.starts()) {
      EXPECT_LE(count, 1 + options.max_restarts);
    }
    if (!options.restart && !options.end_together && options.min_workers == 0) {
      EXPECT_EQ(job.supervisor().exit_code(), job.first_code());
    }
  }
}

TEST(LineSplitterTest, Feed_AnyPieces_GivesTheSameLines) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    std::string text, line;
    Strings expected;
    for (unsigned i = random() % 300; i > 0; --i) {
      const char c = "ab\n"[random() % 3];
      text += c;
      if (c == '\n') expected.push_back(line);
      line = c == '\n' ? "" : line + c;
    }
    if (!line.empty()) expected.push_back(line);
    LineSplitter splitter;
    Strings lines;
    for (size_t at = 0; at < text.size();) {
      const size_t bytes = std::min<size_t>(random() % 7, text.size() - at);
      splitter.Feed(text.data() + at, bytes, 1000, &lines);
      at += bytes;
    }
    splitter.End(&lines);
    EXPECT_EQ(lines, expected) << seed;
  }
}

TEST(LineSplitterTest, Feed_LineIsTooLong_IsCut) {
  LineSplitter splitter;
  Strings lines;
  splitter.Feed("abcdefg\nhi", 10, 3, &lines);
  EXPECT_EQ(lines, (Strings{"abc", "def", "g"}));
  splitter.End(&lines);
  EXPECT_EQ(lines.back(), "hi");
  splitter.End(&lines);
  EXPECT_EQ(lines.size(), 4u);
}

}  // namespace
}  // namespace ringlet
