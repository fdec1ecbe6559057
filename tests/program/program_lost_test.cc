// ringlet train with several workers, of which some are lost, stopped or
// restarted.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/eventually.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

// A worker may exit before the chief has reported the saved job. The launcher
// then takes its restart back.
bool NoneStartsAgain(const std::string& text) {
  const size_t planned = text.find("it is started again");
  return planned == std::string::npos ||
         text.find("is not started again", planned) != std::string::npos;
}

// The disk of the checkpoints has room for two models. The job saves its model
// elsewhere, so no worker is started again; the next start has a larger disk.
TEST_F(ProgramTest, LaunchRestart_LastSaveFailed_NextStartWritesTheFile) {
  const std::string disk = folder_ / "c";
  std::filesystem::create_directory(disk);
  if (unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", disk.c_str(), "tmpfs", 0, "size=192k") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  const std::string checkpoint = R"("callbacks": [
    {"class_name": "ModelCheckpoint",
     "config": {"filepath": "c/{epoch}-{val_loss:.2f}.safetensors"}})";
  const auto launch = [&](const std::string& option) {
    return Run({"launch", "-n", "2", "--restart", "--",
                Program("tools/ringlet/ringlet"), "train", "run.json",
                "--epochs", "3", option});
  };
  WriteRun("\"callbacks\": []", checkpoint + "]");
  EXPECT_EQ(launch("--no-save"), 1);
  EXPECT_TRUE(NoneStartsAgain(err_)) << err_;
  WriteRun("\"callbacks\": []", checkpoint + R"(,
    {"class_name": "BackupAndRestore", "config": {"backup_dir": "backup"}}])");
  const auto models = [&] {
    const std::filesystem::directory_iterator files(disk);
    return std::distance(begin(files), end(files));
  };
  EXPECT_EQ(launch("--no-shuffle"), 1);
  EXPECT_TRUE(Contains(err_,
                       "the model is in run.safetensors instead: "
                       "ModelCheckpoint could not write its last file"));
  EXPECT_TRUE(NoneStartsAgain(err_)) << err_;
  EXPECT_EQ(models(), 2);
  EXPECT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  EXPECT_EQ(Run({"train", "run.json", "--epochs", "3", "--no-shuffle"}), 0)
      << err_;
  EXPECT_FALSE(Contains(out_, "Epoch"));
  EXPECT_EQ(models(), 3);
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

// A worker is stopped, and the other workers finish without it. In the first
// job it stays stopped. In the second it runs again, and would wait for workers
// that have ended.
TEST_F(ProgramTest, ElasticJob_WorkerIsStopped_EndsWithoutIt) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 1000}, "callbacks": [],
  "strategy": {"policy": "shrink", "min_workers": 2, "timeout": 4})");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](const std::string& name, const char* grace) {
    return Strings{"launch", "-n", "3",           "--restart",  "--grace",
                   grace,    "--", program,       "train",      "run.json",
                   "--save", name, "--log-steps", name + ".csv"};
  };
  ASSERT_EQ(Run(job("whole", "5")), 0) << err_;
  for (const bool wakes : {false, true}) {
    const std::string name = wakes ? "woken" : "stopped";
    SCOPED_TRACE(name);
    Start(job(name, wakes ? "5" : "1"));
    ASSERT_TRUE(Eventually([&] {
      return Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 100;
    }));
    const std::vector<pid_t> workers = FindWorkers(child_);
    ASSERT_EQ(workers.size(), 3u);
    kill(workers[1], SIGSTOP);
    if (wakes) {
      ASSERT_TRUE(Eventually([&] { return FindWorkers(child_).size() < 3; }));
      kill(workers[1], SIGCONT);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(
        Contains(err_, "worker 1 is stopped: the others have finished"));
    EXPECT_TRUE(
        Contains((out_ + err_), "present workers, once they are 2 or more"))
        << err_;
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
  }
}

TEST_F(ProgramTest, ElasticJobWithoutRestart_WorkerIsLost_EndsWithZero) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 1000}, "callbacks": [],
  "strategy": {"policy": "shrink", "timeout": 4})");
  for (const int signal : {SIGKILL, SIGSTOP}) {
    SCOPED_TRACE(signal);
    const std::string log = signal == SIGKILL ? "killed.csv" : "stopped.csv";
    Start({"launch", "-n", "3", "--grace", "1", "--",
           Program("tools/ringlet/ringlet"), "train", "run.json", "--save",
           "m.safetensors", "--log-steps", log});
    ASSERT_TRUE(Eventually(
        [&] { return Lines(ReadWhole(folder_ / log)).size() > 100; }));
    const std::vector<pid_t> workers = FindWorkers(child_);
    ASSERT_EQ(workers.size(), 3u);
    kill(workers[2], signal);
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(Contains(
        err_, signal == SIGKILL
                  ? "worker 2 was ended by signal 9; the others continue"
                  : "worker 2 is stopped: the others have finished"))
        << err_;
    EXPECT_TRUE(std::filesystem::remove(folder_ / "m.safetensors"));
  }
}

// time   event                                         expected
// row 100  worker 0, the chief, is stopped with its lock
// then     worker 1 trains alone to the end            its log is beside, and
//                                                      its model is saved
// end      worker 0 wakes up and trains alone; it is   all rows are in the two
//          killed after the grace of 1.5 s             logs; the model stays
TEST_F(ProgramTest, ElasticJob_StoppedChiefWakesAtTheEnd_NothingIsLost) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           R"("steps_per_epoch": 4000}, "strategy": {"timeout": 4},
  "callbacks": [{"class_name": "ModelCheckpoint",
                 "config": {"filepath": "best.safetensors"}}])");
  const std::string program = Program("tools/ringlet/ringlet");
  Start({"launch", "-n", "2", "--restart", "--grace", "1.5", "--", program,
         "train", "run.json", "--log-steps", "steps.csv", "--save",
         "end.safetensors"});
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 100; }));
  const std::vector<pid_t> workers = FindWorkers(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[0], SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return FindWorkers(child_).size() < 2; }));
  const std::string model = ReadWhole(folder_ / "end.safetensors");
  EXPECT_FALSE(model.empty());
  kill(workers[0], SIGCONT);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(ReadWhole(folder_ / "end.safetensors") == model);
  std::map<std::string, std::string> rows;  // key: epoch and step
  for (const char* const log : {"steps.csv", "steps.worker-1.csv"}) {
    for (const std::string& row : Lines(ReadWhole(folder_ / log))) {
      const std::string step = row.substr(0, row.find(',', row.find(',') + 1));
      EXPECT_EQ(rows.insert({step, row}).first->second, row) << log;
    }
  }
  EXPECT_EQ(rows.size(), 8001u);
}

// A worker is lost more often than --max-restarts allows.
TEST_F(ProgramTest, ElasticJob_WorkerWithoutARestartLeft_ContinuesWithoutIt) {
  WriteRun("\"steps_per_epoch\": 3", "\"steps_per_epoch\": 300");
  const std::string program = Program("tools/ringlet/ringlet");
  const auto job = [&](const std::string& name) {
    return Strings{"launch",         "-n",       "3",      "--restart",
                   "--max-restarts", "0",        "--",     program,
                   "train",          "run.json", "--save", name};
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  stdout_fd_ = ends[1];
  Start(job("without"));
  close(ends[1]);
  std::string lines;
  char next;
  while (lines.find("Epoch 2/2\n") == std::string::npos) {
    ASSERT_EQ(read(ends[0], &next, 1), 1) << lines;
    lines += next;
  }
  const std::vector<pid_t> workers = FindWorkers(child_);
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], SIGKILL);
  while (read(ends[0], &next, 1) == 1) {
  }
  close(ends[0]);
  stdout_fd_ = -1;
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(
      Contains(err_,
               "worker 1 was ended by signal 9; no restart of it is left "
               "(--max-restarts 0); the others continue without it"));
  EXPECT_EQ(Run({"diff", "whole", "without"}), 0) << out_;
}

class LostWorkerTest : public ProgramTest,
                       public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, LostWorkerTest,
                         testing::Values("", ", \"replicas\": 5",
                                         ", \"mode\": \"local\", "
                                         "\"local_steps\": 3"));

TEST_P(LostWorkerTest, Job_WorkerIsKilled_EndsWithTheBitsOfOneThatLostNone) {
  WriteRun(
      "\"steps_per_epoch\": 3},\n  \"callbacks\": []",
      std::string(
          R"("steps_per_epoch": 600}, "strategy": {"policy": "wait", "timeout": 20)") +
          GetParam() + R"(},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  const std::string program =
      EnvironmentOr("RINGLET_BUILD", "build") + "/tools/ringlet/ringlet";
  const auto job = [&](const std::string& name) {
    return Strings{"launch", "-n", "2",           "--restart",  "--backoff",
                   "0.01",   "--", program,       "train",      "run.json",
                   "--save", name, "--log-steps", name + ".csv"};
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  for (const size_t lost : {0, 1}) {
    const std::string name = "lost" + std::to_string(lost);
    SCOPED_TRACE(name);
    Start(job(name));
    ASSERT_TRUE(Eventually([&] {
      return Lines(ReadWhole(folder_ / (name + ".csv"))).size() > 35;
    }));
    const std::vector<pid_t> workers = FindWorkers(child_);
    if (workers.size() == 2) kill(workers[lost], SIGKILL);
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
    EXPECT_TRUE(Contains(out_, "[0] continues at epoch "));
    EXPECT_TRUE(Contains(out_, " of 600, from the memory of the workers\n"));
    EXPECT_EQ(Run({"diff", "whole", name}), 0) << out_;
    EXPECT_TRUE(ReadWhole(folder_ / "whole.csv") ==
                ReadWhole(folder_ / (name + ".csv")));
  }
}

// The chief or the other worker is killed in its second epoch, in a job with
// steps or with rounds.
TEST_P(LostWorkerTest, Loss_WithoutBackup_TheModelSoFarIsSaved) {
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 100000}, "callbacks": [],
  "strategy": {"timeout": 20)") +
               GetParam() + "}");
  for (const size_t lost : {0, 1}) {
    SCOPED_TRACE(lost);
    Start({"launch", "-n", "2", "--", Program("tools/ringlet/ringlet"), "train",
           "run.json", "--save", "m.safetensors", "--log-steps", "steps.csv"});
    ASSERT_TRUE(Eventually(
        [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 20; }));
    const std::vector<pid_t> workers = FindWorkers(child_);
    ASSERT_EQ(workers.size(), 2u);
    kill(workers[lost], SIGKILL);
    EXPECT_NE(Wait(), 0);
    const std::string model = "m-interrupted.safetensors";
    const std::string lines = out_ + err_;
    for (const std::string& expected :
         {"worker " + std::to_string(lost) + " was lost after epoch 1, step ",
          "the model so far is in " + model,
          std::string("With the callback BackupAndRestore the other")}) {
      EXPECT_TRUE(Contains(lines, expected));
    }
    EXPECT_EQ(Run({"evaluate", model, "--data", "run.json"}), 0) << err_;
    std::filesystem::remove(folder_ / model);
    std::filesystem::remove(folder_ / "steps.csv");
  }
}

// How the job begins with a saved file, what happens when a worker is lost, and
// which worker that is.
struct LoadedJob {
  const char* name;
  bool compiles, inits;  // "compile" in RUN.json; --init
  const char* policy;
  size_t lost;
};
std::ostream& operator<<(std::ostream& out, const LoadedJob& job) {
  return out << job.name << ", " << job.policy << ", worker " << job.lost;
}
std::vector<LoadedJob> LoadedJobs() {
  std::vector<LoadedJob> jobs;
  for (const char* policy : {"wait", "shrink"}) {
    for (const size_t lost : {0, 1}) {
      jobs.push_back({"model", false, false, policy, lost});
      jobs.push_back({"model and compile", true, false, policy, lost});
      jobs.push_back({"model and init", false, true, policy, lost});
    }
  }
  return jobs;
}

class LoadedJobTest : public ProgramTest,
                      public testing::WithParamInterface<LoadedJob> {};
INSTANTIATE_TEST_SUITE_P(FormsAndPolicies, LoadedJobTest,
                         testing::ValuesIn(LoadedJobs()));

TEST_P(LoadedJobTest, Worker_KilledAndRestarted_EndsWithTheSameBits) {
  const LoadedJob& how = GetParam();
  WriteRun("\"fit\": {", "\"fit\": {\"seed\": 7, ");
  ASSERT_EQ(Run({"train", "run.json", "--save", "weights"}), 0) << err_;
  WriteRun("\"steps_per_epoch\": 3},\n  \"callbacks\": []",
           std::string(R"("steps_per_epoch": 400}, "strategy": {"policy": ")") +
               how.policy + R"(", "timeout": 20},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 30}}])");
  ASSERT_EQ(
      Run({"train", "run.json", "--steps-per-epoch", "3", "--save", "first"}),
      0)
      << err_;
  std::string run = ReadWhole(folder_ / "run.json");
  const size_t begin = run.find(how.compiles ? "  \"compile\"" : "  \"data\"");
  run = "{\"model\": \"first\",\n" + run.substr(begin);
  WriteWhole(folder_ / "run.json", run);
  const auto job = [&](const std::string& name) {
    Strings line = {
        "launch",      "-n",         "2",      "--restart",
        "--backoff",   "0.01",       "--",     Program("tools/ringlet/ringlet"),
        "train",       "run.json",   "--save", name,
        "--log-steps", name + ".csv"};
    if (how.inits) line.insert(line.end(), {"--init", "weights"});
    return line;
  };
  ASSERT_EQ(Run(job("whole")), 0) << err_;
  Start(job("lost"));
  ASSERT_TRUE(Eventually(
      [&] { return Lines(ReadWhole(folder_ / "lost.csv")).size() > 35; }));
  const std::vector<pid_t> workers = FindWorkers(child_);
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[how.lost], SIGKILL);
  EXPECT_EQ(Wait(), 0) << err_;
  EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
  EXPECT_EQ(Run({"diff", "whole", "lost"}), 0) << out_;
}

// The backup has three replicas, and two workers load it.
TEST_F(ProgramTest, LaunchRestart_WorkerIsKilled_OthersContinue) {
  const std::string more =
      R"("steps_per_epoch": 20}, "strategy": {"timeout": 4, "start_timeout": 100},
  "callbacks": [{"class_name": "BackupAndRestore",
                 "config": {"backup_dir": "backup", "save_freq": 5,
                            "delete_checkpoint": false}}])";
  const std::string before = "\"steps_per_epoch\": 3},\n  \"callbacks\": []";
  const std::string program = Program("tools/ringlet/ringlet");
  const auto job = [&](const char* workers, const std::string& epochs,
                       const std::string& backoff, const std::string& model) {
    return Strings{"launch",      "-n",        workers,    "--restart",
                   "--backoff",   backoff,     "--",       program,
                   "train",       "run.json",  "--save",   model,
                   "--log-steps", "steps.csv", "--epochs", epochs};
  };
  WriteRun(before, more);
  Strings waits = job("3", "1", "1", "first");
  waits.erase(waits.begin() + 3);  // --restart
  ASSERT_EQ(Run(waits), 0) << err_;
  std::filesystem::copy(folder_ / "backup", folder_ / "backup1");
  std::string undisturbed;
  // The worker is back in time, or when the other workers have ended: none
  // waits so long for it.
  for (const char* backoff : {"", "0.1", "10000"}) {
    SCOPED_TRACE(backoff);
    std::filesystem::remove_all(std::string(folder_ / "backup"));
    std::filesystem::copy(folder_ / "backup1", folder_ / "backup");
    std::filesystem::remove(std::string(folder_ / "steps.csv"));
    std::filesystem::remove(std::string(folder_ / "model"));
    const bool kills = *backoff != '\0';
    Start(job("2", "40", kills ? backoff : "1", "model"));
    if (kills) {
      ASSERT_TRUE(Eventually(
          [&] { return Lines(ReadWhole(folder_ / "steps.csv")).size() > 60; }));
      const std::vector<pid_t> workers = FindWorkers(child_);
      ASSERT_EQ(workers.size(), 2u);
      kill(workers[0], SIGKILL);
    }
    EXPECT_EQ(Wait(), 0) << err_;
    EXPECT_TRUE(Contains(out_, "of each of 3 replicas on 2 workers"));
    ASSERT_TRUE(std::filesystem::exists(std::string(folder_ / "model")));
    if (!kills) {
      undisturbed = ReadWhole(folder_ / "model");
      continue;
    }
    EXPECT_TRUE(Contains(err_, "was ended by signal 9"));
    EXPECT_TRUE(
        Contains(out_, " workers that may leave and join (exact sums), "));
    EXPECT_TRUE(Contains(out_ + err_, "continuing with the present workers"));
    EXPECT_TRUE(ReadWhole(folder_ / "model") == undisturbed);
  }
  // An explicit choice is kept.
  for (const char* expected :
       {R"("policy": "fail")", R"("reduction": "ring")"}) {
    SCOPED_TRACE(expected);
    WriteRun("\"callbacks\": []",
             std::string("\"strategy\": {\"timeout\": 20, ") + expected + "}");
    EXPECT_EQ(Run({"launch", "-n", "2", "--restart", "--", program, "train",
                   "run.json", "--no-save", "--epochs", "1"}),
              0)
        << err_;
    EXPECT_FALSE(Contains(out_, "may leave and join"));
  }
}

// A worker of three is killed or stopped. The event logs report it afterwards.
class EventsOfLostTest : public ProgramTest,
                         public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(KilledOrStopped, EventsOfLostTest,
                         testing::Values(SIGKILL, SIGSTOP));

TEST_P(EventsOfLostTest, Report_LostWorker_NamesTheWaits) {
  WriteRun("\"steps_per_epoch\": 3}",
           R"("steps_per_epoch": 1000000}, "strategy": {"timeout": 4})");
  Start({"launch", "-n", "3", "--grace", "30", "--",
         Program("tools/ringlet/ringlet"), "train", "run.json", "--save",
         "m.safetensors"});
  const auto inspect = [&](const std::string& more) {
    const std::string file = logs_ / "inspected";
    const std::string line = Program("tools/ringlet/ringlet") + " inspect " +
                             more + " " + (folder_ / "m.worker-*.events") +
                             " > " + file + " 2>&1";
    return std::system(line.c_str()) == 0 ? ReadWhole(file) : "";
  };
  ASSERT_TRUE(Eventually(
      [&] { return CountOccurrences(inspect(""), "after step") == 3; }));
  std::vector<pid_t> workers = FindWorkers(child_);
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], GetParam());
  EXPECT_TRUE(Eventually([&] {
    const std::string report = inspect("");
    return report.find("ended with exit code", report.find("worker 2 (127")) !=
           std::string::npos;
  }));
  if (GetParam() == SIGSTOP) {
    // A worker writes its last line before its process ends.
    EXPECT_TRUE(Eventually([&] { return kill(workers[2], 0) != 0; }));
    kill(workers[1], SIGKILL);
  }
  const int code = Wait();  // the first worker to end has this code
  EXPECT_TRUE(code == 75 || (code == 137 && GetParam() == SIGKILL)) << err_;
  const std::string report = inspect("");
  std::vector<std::string> parts = {
      "worker 1 was lost: ", "ended with exit code 75 in step ",
      "its log ends here, "};
  // A worker with a closed connection is lost immediately, awaited or not.
  if (GetParam() == SIGSTOP) parts.push_back("waited for worker 1");
  for (const std::string& part : parts) {
    EXPECT_TRUE(Contains(report, part));
  }
  const size_t lost = report.find("worker 1 (127");
  EXPECT_EQ(report.find("its log ends here, "),
            report.find("its log ends here, ", lost))
      << report;
  const std::string events = inspect("--verbose");
  EXPECT_TRUE(Contains(events, "\"event\":\"view\",\"rank\":0,"));
  EXPECT_TRUE(Contains(events, "\"event\":\"loss\",\"lost\":[\"1\"],"));
  // A file that is empty, cut off or no log hides none of the other files.
  WriteWhole(folder_ / "empty.events", "");
  WriteWhole(folder_ / "cut.events",
             ReadWhole(folder_ / "m.worker-1.events").substr(0, 100));
  WriteWhole(folder_ / "old.trail", "RLTRAIL1" + std::string(100, '\0'));
  EXPECT_EQ(Run({"inspect", "empty.events", "cut.events", "run.json",
                 "old.trail", "m.worker-0.events"}),
            1);
  for (const char* file : {"empty.events: ", "run.json: "}) {
    EXPECT_TRUE(Contains(
        err_, std::string(file) + "is not the event log of a worker; skipped"));
  }
  EXPECT_TRUE(Contains(err_, "old.trail: is a trail, which this version"));
  EXPECT_TRUE(Contains(out_, "  1 damaged lines are skipped\n"));
  EXPECT_TRUE(Contains(out_, "\nworker 0 (127"));
  EXPECT_EQ(Run({"inspect", "--json", "m.worker-0.events"}), 2);
  ExpectError({"inspect", "old.trail"}, 2,
              {"old.trail: is a trail, which this version of ringlet no "
               "longer reads"});
}

}  // namespace
}  // namespace ringlet
