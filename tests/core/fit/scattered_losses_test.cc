// Elastic jobs whose rounds scatter their state (sparse changes, overlap) and
// whose workers are lost, come and differ in speed: the final bits are those of
// a run that nothing disturbed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/rounds_reference.h"
#include "../../support/slow_layer.h"
#include "../../support/temp_folder.h"
#include "io/checkpoint/saving_callbacks.h"

namespace ringlet {
namespace {

using Delta = LocalUpdates::Delta;
constexpr int kNever = 1 << 30;

// Sparse changes; overlap; both.
LocalUpdates Way(int number, int64_t steps) {
  LocalUpdates local;
  local.steps = steps;
  if (number != 1) local.delta = Delta::kSparse;
  local.overlap = number != 0;
  return local;
}

CompileOptions Elastic(Collective* collective, const RoundsJob& job) {
  CompileOptions options(collective);
  options.reduction = Reduction::kExact;
  options.replicas = job.replicas;
  options.local = job.local;
  options.threads = job.threads;
  return options;
}

struct Trained {
  Status status;
  uint64_t digest = 0;
  double loss = 0, validation = 0;
};

void ExpectSame(const Trained& run, const Trained& undisturbed) {
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.digest, undisturbed.digest);
  if (run.loss == 0) return;  // it came when all was done
  EXPECT_EQ(run.loss, undisturbed.loss);
  EXPECT_EQ(run.validation, undisturbed.validation);
}

Trained Fit(Model* model, const Dataset& data, FitOptions fit) {
  Trained run;
  fit.validation_data = Points(23, 9).Batch(10);
  const Result<History> history = model->Fit(data, fit);
  run.status = history.status();
  run.digest = model->weights_digest();
  if (!history.ok() || history->logs.empty()) return run;
  run.loss = *history->logs.back().Find("loss");
  run.validation = *history->logs.back().Find("val_loss");
  return run;
}

Trained Train(const RoundsJob& job, Collective* collective) {
  FitOptions fit = Quiet(job.epochs);
  fit.callbacks = job.callbacks;
  return Fit(ModelOf(job, Elastic(collective, job)).get(), DataOf(job), fit);
}

// Six batches an epoch, of which the last is short.
RoundsJob Job(int way, int64_t steps) {
  RoundsJob job;
  job.replicas = 5;
  job.local = Way(way, steps);
  if (steps == 3) job.batch = 22;  // a replica of the last one has nothing
  return job;
}

const Trained& Undisturbed(int way, int64_t steps) {
  static std::map<std::pair<int, int64_t>, Trained> runs;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  Trained& run = runs[{way, steps}];
  if (run.digest == 0) run = Train(Job(way, steps), nullptr);
  return run;
}

void RunWorkers(int workers,
                const std::function<void(ElasticJob*, int)>& live) {
  ElasticJob job;
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) job.Arrive(w);  // none begins alone
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] { live(&job, w); });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- losses at drawn moments --------------------------------------------

struct Drawn {
  explicit Drawn(unsigned seed) : random(seed) {
    way = static_cast<int>(random() % 3);
    steps = 1 + static_cast<int64_t>(random() % 4);
    workers = 2 + static_cast<int>(random() % 3);
    stays = static_cast<int>(random() % static_cast<unsigned>(workers));
    save_freq = random() % 2 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 7);
    threads = 1 + static_cast<int>(random() % 2);
    for (int w = 0; w < workers; ++w) seeds.push_back(random());
  }
  std::mt19937 random;
  int way, workers, stays, threads;
  int64_t steps, save_freq;  // 0: without backups
  std::vector<unsigned> seeds;
};

// Worker w, which dies and comes back a few times, with a disk of its own.
void Live(ElasticJob* elastic, int w, const Drawn& drawn, bool one_stays,
          std::atomic<int>* deaths) {
  std::mt19937 random(drawn.seeds[static_cast<size_t>(w)]);
  const TempFolder folder;
  RoundsJob job = Job(drawn.way, drawn.steps);
  job.threads = drawn.threads;
  int lives =
      one_stays && w == drawn.stays ? 0 : static_cast<int>(random() % 4);
  for (;;) {
    const int dies =
        lives-- > 0 ? 1 + static_cast<int>(random() % 300) : kNever;
    elastic->Arrive(w);
    ElasticCollective collective(elastic, w, dies);
    job.callbacks.clear();
    if (drawn.save_freq > 0) {
      BackupAndRestoreOptions saving;
      saving.save_freq = drawn.save_freq;
      job.callbacks = {BackupAndRestore(folder.path(), saving)};
    }
    const Trained run = Train(job, &collective);
    if (collective.dead()) {
      ++*deaths;
      continue;
    }
    // Without one that stays nobody may have the state any more.
    if (one_stays || run.status.ok()) {
      ExpectSame(run, Undisturbed(drawn.way, drawn.steps));
    }
    return;
  }
}

void ExpectOutlives(unsigned first, bool one_stays) {
  const char* const more = std::getenv("RINGLET_ELASTIC_SEEDS");
  const unsigned seeds =
      more != nullptr ? static_cast<unsigned>(std::atoi(more)) : 30;
  std::atomic<int> deaths{0};
  for (unsigned seed = first; seed < first + seeds; ++seed) {
    if (testing::Test::HasFailure()) break;
    const Drawn drawn(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", way " +
                 std::to_string(drawn.way) + ", rounds of " +
                 std::to_string(drawn.steps));
    RunWorkers(drawn.workers, [&](ElasticJob* job, int w) {
      Live(job, w, drawn, one_stays, &deaths);
    });
  }
  EXPECT_GT(deaths, 20);
}

TEST(ScatteredLossesTest, WorkersDieAndReturn) {
  ExpectOutlives(/*first=*/1, /*one_stays=*/true);
}

TEST(ScatteredLossesTest, AllMayDieAndNoBitIsWrong) {
  ExpectOutlives(/*first=*/100001, /*one_stays=*/false);
}

// --- what is done again -------------------------------------------------

class Stops final : public Callback {
 public:
  explicit Stops(int64_t step) : step_(step) {}
  const char* name() const override { return "stops"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (fit.step >= step_) fit.stop_training = 1;
    return Status();
  }

 private:
  const int64_t step_;
};

// The steps that its worker began, and what happens where one does.
class AtSteps final : public Callback {
 public:
  explicit AtSteps(std::function<void(int64_t)> what)
      : what_(std::move(what)) {}
  const char* name() const override { return "at_steps"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    const int64_t step = fit.model->iterations();
    began.push_back(step);
    what_(step);
    return Status();
  }
  std::vector<int64_t> began;

 private:
  const std::function<void(int64_t)> what_;
};

// Epochs of 60 steps, in rounds of two: what a worker began from when on a
// worker was lost or came, once they went on.
struct Again {
  int64_t lost = -1, from = -1;
};
Again WhereTheyGoOn(int way, int64_t save_freq, int64_t at, bool dies) {
  Again again;
  RoundsJob job;
  job.replicas = 3;
  job.local = Way(way, 2);
  const Dataset data = DataOf(job).Repeat();
  const auto train = [&](Collective* collective,
                         std::vector<std::shared_ptr<Callback>> callbacks) {
    FitOptions fit = Quiet(2);
    fit.steps_per_epoch = 60;
    fit.callbacks = std::move(callbacks);
    return Fit(ModelOf(job, Elastic(collective, job)).get(), data, fit);
  };
  const Trained undisturbed = train(nullptr, {});
  std::atomic<bool> comes{false};
  RunWorkers(2, [&](ElasticJob* elastic, int w) {
    if (!dies && w == 1) elastic->Leave(1);
    while (!dies && w == 1 && !comes) std::this_thread::yield();
    if (!dies && w == 1) elastic->Arrive(1);
    ElasticCollective collective(elastic, w, kNever);
    const TempFolder folder;
    const auto steps = std::make_shared<AtSteps>([&](int64_t step) {
      if (step != at) return;
      if (dies && w == 1) collective.DieInNextCall();
      if (dies || w == 1 || comes.exchange(true)) return;
      while (!elastic->visited()) std::this_thread::yield();
    });
    std::vector<std::shared_ptr<Callback>> callbacks = {steps};
    if (save_freq > 0) {
      BackupAndRestoreOptions saving;
      saving.save_freq = save_freq;
      callbacks.push_back(BackupAndRestore(folder.path(), saving));
    }
    const Trained run = train(&collective, callbacks);
    if (dies && w == 1) return;
    ExpectSame(run, undisturbed);
    if (w == 1) return;
    const auto last = std::find(steps->began.begin(), steps->began.end(), at);
    if (last == steps->began.end() || last + 1 == steps->began.end()) return;
    again.lost = *last;
    again.from = last[1];
  });
  return again;
}

// With overlap an epoch begins with nothing that a worker alone has; so does
// where a backup was made. Rounds that have sent four times as much as a gather
// takes are followed by one: here 23 of int8 changes, and of sparse ones
// none.
TEST(ScatteredLossesTest, TheyGoBackToWhereAllHadTheState) {
  EXPECT_EQ(WhereTheyGoOn(/*way=*/1, 0, /*at=*/70, true).from, 60);
  EXPECT_EQ(WhereTheyGoOn(/*way=*/0, 0, /*at=*/20, true).from, 0);
  for (const int way : {0, 1, 2}) {
    EXPECT_EQ(WhereTheyGoOn(way, 10, /*at=*/78, true).from, 70) << way;
  }
  const int64_t gathered = WhereTheyGoOn(/*way=*/1, 0, /*at=*/118, true).from;
  EXPECT_GT(gathered, 60 + 2 * 20);
  EXPECT_LE(gathered, 60 + 2 * 26);
}

// Nothing, where one comes and none is lost: the step that it came in.
TEST(ScatteredLossesTest, WhoComesCostsNoRound) {
  for (const int way : {0, 1, 2}) {
    const Again again = WhereTheyGoOn(way, 0, /*at=*/78, false);
    EXPECT_GE(again.from, 78) << way;
    EXPECT_LE(again.from, 80) << way;
  }
}

// Worker 0 wishes to stop, and gives a round up for it; worker 1 dies in any
// call of that one or of those before. Who has gone back stops where it wishes
// that, and not before.
TEST(ScatteredLossesTest, ALossInARoundThatIsGivenUp) {
  for (const int way : {0, 1, 2}) {
    RoundsJob stopped = Job(way, 1);
    stopped.epochs = 1;
    stopped.callbacks = {std::make_shared<Stops>(2)};
    const Trained undisturbed = Train(stopped, nullptr);
    for (int dies = 1; dies < 200 && !HasFailure(); ++dies) {
      SCOPED_TRACE("way " + std::to_string(way) + ", call " +
                   std::to_string(dies));
      std::atomic<bool> dead{false};
      RunWorkers(2, [&](ElasticJob* elastic, int w) {
        ElasticCollective collective(elastic, w, w == 1 ? dies : kNever);
        RoundsJob job = Job(way, 1);
        job.epochs = 1;
        job.callbacks = {std::make_shared<Stops>(w == 0 ? 2 : kNever)};
        const Trained run = Train(job, &collective);
        if (w == 1) dead = collective.dead();
        if (w == 0) ExpectSame(run, undisturbed);
      });
      if (!dead) break;
    }
  }
}

// --- shares by speed ----------------------------------------------------

TEST(ScatteredLossesTest, SharesFollowTheSpeedsAndChangeNoNumber) {
  for (const int way : {0, 1, 2}) {
    SCOPED_TRACE(way);
    RoundsJob job;
    job.replicas = 8;
    job.local = Way(way, 7);
    const auto train = [&](Collective* collective, int millis, int* trained) {
      const auto slow = std::make_shared<SlowLayer>(millis);
      const auto model = SlowModel(slow, Elastic(collective, job));
      FitOptions fit = Quiet(2);
      fit.steps_per_epoch = 50;
      const Trained run = Fit(model.get(), DataOf(job).Repeat(), fit);
      *trained = slow->trained();
      return run;
    };
    int all = 0;
    const Trained alone = train(nullptr, 0, &all);
    for (const int dies : {kNever, 200}) {
      if (way < 2 && dies != kNever) continue;
      SCOPED_TRACE("call " + std::to_string(dies));
      int trained[3] = {};
      RunWorkers(3, [&](ElasticJob* elastic, int w) {
        ElasticCollective collective(elastic, w, w == 2 ? dies : kNever);
        const Trained run = train(&collective, w == 1 ? 6 : 1, &trained[w]);
        if (!collective.dead()) ExpectSame(run, alone);
      });
      EXPECT_LT(trained[1] * 10, trained[0] * 9);
    }
  }
}

}  // namespace
}  // namespace ringlet
