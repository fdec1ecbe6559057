// Rounds without some replicas, which were not sampled, are absent or are late;
// and data that only one worker has.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/replica_step.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "../../support/work_clock.h"
#include "core/data/dataset_parts.h"
#include "core/exchange/availability.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// The key is the step before the round.
using Rounds = std::map<int64_t, std::vector<int>>;

// Records for each round which replicas took part in it. The record is the same
// on all ranks.
class RoundRecorder final : public Callback {
 public:
  const char* name() const override { return "notes_rounds"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    const int64_t step = fit.model->iterations() - fit.steps_taken;
    rounds[step] = fit.round_replicas;
    return Status();
  }
  Rounds rounds;
};

// In each round a random present_of_four / 4 of the replicas are present, by
// the seed.
class RandomPresence {
 public:
  explicit RandomPresence(uint64_t seed, uint32_t present_of_four = 2)
      : random_(seed, 1), present_of_four_(present_of_four) {}
  Presence operator()(int64_t step, int replica) const {
    const auto at = static_cast<uint64_t>(step * 1000 + replica);
    return random_.At(at)[0] % 4 < present_of_four_ ? Presence::kPresent
                                                    : Presence::kAbsent;
  }

 private:
  const Philox random_;
  const uint32_t present_of_four_;
};

// Exactly the replicas of a recorded run are present.
class RecordedPresence {
 public:
  explicit RecordedPresence(Rounds rounds) : rounds_(std::move(rounds)) {}
  Presence operator()(int64_t step, int replica) const {
    const auto round = rounds_.find(step);
    if (round == rounds_.end()) return Presence::kAbsent;
    const std::vector<int>& replicas = round->second;
    return std::count(replicas.begin(), replicas.end(), replica) > 0
               ? Presence::kPresent
               : Presence::kAbsent;
  }

 private:
  const Rounds rounds_;
};

struct Job {
  int replicas = 100;
  int64_t examples = 1500, batch = 300, epochs = 3;
  uint64_t seed = 1;
  LocalUpdates local;
  Optimizer optimizer = Adam(0.01f);
  AutoShardPolicy policy = AutoShardPolicy::kData;
  float dropout = 0.1f;
  Availability availability;
};

struct Trained {
  Status status;
  std::vector<float> weights;
  Rounds rounds;
  std::vector<double> losses;
  bool operator==(const Trained& o) const {
    return weights == o.weights && rounds == o.rounds && losses == o.losses;
  }
};

std::unique_ptr<Sequential> ModelOf(const Job& job,
                                    const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(16, kTanh));
  if (job.dropout > 0) model->Add(Dropout(job.dropout));
  model->Add(BatchNormalization(0.8f));
  model->Add(Dense(3));
  model->Compile(job.optimizer, SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  SimulatedReplicas::Set(job.availability, model.get());
  return model;
}

Trained TrainOn(const Job& job, const Dataset& data, Collective* collective,
                Clock* clock = Clock::System()) {
  CompileOptions options(collective);
  options.clock = clock;
  options.replicas = job.replicas;
  options.seed = job.seed;
  options.local = job.local;
  const auto model = ModelOf(job, options);
  const auto notes = std::make_shared<RoundRecorder>();
  FitOptions fit = Quiet(job.epochs);
  fit.callbacks = {notes};
  fit.prefetch = collective == nullptr;
  const Result<History> history = model->Fit(data, fit);
  Trained trained;
  trained.status = history.status();
  trained.rounds = notes->rounds;
  if (!history.ok()) return trained;
  trained.weights = WeightsOf(model.get());
  for (const Logs& logs : history->logs) {
    const double loss = *logs.Find("loss");
    trained.losses.push_back(std::isnan(loss) ? -1 : loss);  // no example
  }
  return trained;
}

Dataset DataOf(const Job& job) {
  return Points(job.examples).AutoShard(job.policy).Shuffle(5).Batch(job.batch);
}

Trained Train(const Job& job, int workers) {
  if (workers == 1) {
    Trained trained = TrainOn(job, DataOf(job), nullptr);
    EXPECT_OK(trained.status);
    return trained;
  }
  std::vector<Trained> all(static_cast<size_t>(workers));
  RunRanks(workers, [&](Collective* collective) {
    all[static_cast<size_t>(collective->rank())] =
        TrainOn(job, DataOf(job), collective);
  });
  for (const Trained& each : all) {
    EXPECT_OK(each.status);
    EXPECT_TRUE(each == all[0]);
  }
  return all[0];
}

// 100 clients, half of them away at any time, 20 drawn a round: the bits are a
// function of (seed, schedule) alone.
TEST(FederatedTest, Rounds_OneSeedAndSchedule_HaveTheSameBits) {
  const RandomPresence half(3);
  Job job;
  job.local.steps = 2;
  job.local.participation = 20;
  job.availability = half;
  const Trained first = Train(job, 1);
  ASSERT_EQ(first.rounds.size(), 9u);
  std::set<int> ever;
  for (const auto& [step, replicas] : first.rounds) {
    EXPECT_EQ(replicas.size(), 20u);
    for (const int replica : replicas) {
      EXPECT_EQ(half(step, replica), Presence::kPresent);
      ever.insert(replica);
    }
  }
  EXPECT_GT(ever.size(), 60u);
  const int workers[] = {1, 2, 3, 7};
  for (int repeat = 0; repeat < 20; ++repeat) {
    SCOPED_TRACE(repeat);
    EXPECT_TRUE(Train(job, workers[repeat % 4]) == first);
  }
  const RandomPresence other(4);
  job.availability = other;
  EXPECT_NE(Train(job, 1).weights, first.weights);
  job.availability = half;
  job.seed = 2;
  EXPECT_NE(Train(job, 1).rounds, first.rounds);
}

// All replicas are present, so only the sampling decides.
TEST(FederatedTest, Sample_ManyRounds_ChoosesReplicasEquallyOften) {
  Job job;
  job.replicas = 10;
  job.batch = 10;
  job.examples = 1000;
  job.local.steps = 1;
  job.local.participation = 3;
  const Trained trained = Train(job, 1);
  ASSERT_EQ(trained.rounds.size(), 300u);
  std::map<int, int> times;
  for (const auto& round : trained.rounds) {
    for (const int replica : round.second) ++times[replica];
  }
  // 90 of 300 on the average, with a deviation of 8.
  for (int r = 0; r < 10; ++r) EXPECT_NEAR(times[r], 90, 40) << r;
}

// A round is the mean over its replicas by the examples that they have seen,
// where these are unequal, or none.
class Mean {
 public:
  Mean(const Job& job, const Dataset& data)
      : job_(job), data_(data), model_(ModelOf(job, {})) {
    const std::vector<float> first = WeightsOf(model_.get());
    weights_.assign(first.begin(), first.end());
    momentum_.assign(weights_.size(), 0);
  }

  std::vector<double> Of(const Rounds& rounds) {
    const int64_t steps = data_.steps(job_.replicas);
    for (int64_t step = 0; step < job_.epochs * steps;) {
      const int64_t left = steps - step % steps;
      const int64_t round = std::min(job_.local.steps, left);
      Round(rounds.at(step), round);
      step += round;
    }
    return weights_;
  }

 private:
  static constexpr size_t kState = 32;

  void Round(const std::vector<int>& replicas, int64_t steps) {
    std::vector<double> sum(weights_.size(), 0);
    double all_examples = 0;
    DataPosition end = at_;
    for (int64_t s = 0; s < steps; ++s) {
      end = data_.parts().Plan(end, 0, job_.replicas).next;
    }
    for (const int r : replicas) {
      std::copy(weights_.begin(), weights_.end(), model_->weights());
      model_->Compile(job_.optimizer,
                      SparseCategoricalCrossentropy(kFromLogits), {});
      DataPosition at = at_;
      double examples = 0;
      for (int64_t s = 0; s < steps; ++s) examples += Step(r, &at);
      all_examples += examples;
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += examples * (weights_[i] - double{model_->weights()[i]});
      }
    }
    at_ = end;
    for (size_t i = 0; i < sum.size(); ++i) {
      const double d = all_examples > 0 ? sum[i] / all_examples : 0;
      if (i >= sum.size() - kState) {
        weights_[i] -= d;
        continue;
      }
      const double mu = double{job_.local.momentum};
      momentum_[i] = mu * momentum_[i] + d;
      weights_[i] -= double{job_.local.learning_rate} * (d + mu * momentum_[i]);
    }
  }

  double Step(int r, DataPosition* at) {
    return TrainPart(model_.get(), data_, r, job_.replicas, at);
  }

  const Job job_;
  const Dataset data_;
  const std::unique_ptr<Sequential> model_;
  std::vector<double> weights_, momentum_;
  DataPosition at_;
};

// Files of such sizes, of which each replica has one.
Dataset FilesOf(const std::vector<int64_t>& sizes) {
  std::vector<std::shared_ptr<Source>> files;
  for (size_t i = 0; i < sizes.size(); ++i) {
    files.push_back(Points(sizes[i], 20 + i).source());
  }
  return Concatenate(files);
}

// The bound between weights in float32 and a model in double. Without fused
// multiply-adds the distance is about 2e-4; a mean that ignores the numbers of
// examples gives 1e-2 and more.
constexpr double kClose = 1e-3;

double Distance(const std::vector<float>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::fabs(double{a[i]} - b[i]) / (1 + fabs(b[i])));
  }
  return most;
}

TEST(FederatedTest, Mean_ReplicasOfUnevenSizes_WeighsByExamples) {
  Job job;
  job.replicas = 5;
  job.batch = 20;
  job.dropout = 0;
  job.local.delta = LocalUpdates::Delta::kFloat32;
  job.local.steps = 3;
  const RandomPresence most(9, 3);
  const Dataset files = FilesOf({90, 7, 41, 3, 12, 5, 1})
                            .AutoShard(AutoShardPolicy::kFile)
                            .Shuffle(5)
                            .Batch(job.batch);
  const Dataset whole = Points(203).Shuffle(5).Batch(job.batch);
  const Dataset off =
      Points(33).AutoShard(AutoShardPolicy::kOff).Shuffle(5).Batch(job.batch);
  for (const Dataset& data : {files, whole, off}) {
    for (const int drawn : {0, 2, 5}) {
      SCOPED_TRACE(drawn);
      job.local.participation = drawn;
      job.availability = drawn == 5 ? Availability(most) : nullptr;
      const Trained trained = TrainOn(job, data, nullptr);
      ASSERT_OK(trained.status);
      EXPECT_LT(Distance(trained.weights, Mean(job, data).Of(trained.rounds)),
                kClose);
    }
  }
}

// Without a deadline only the schedule makes replicas late. A late replica is
// not replaced by another.
Presence LateByTurns(int64_t step, int replica) {
  return (step / 2 + replica) % 3 == 0 ? Presence::kLate : Presence::kPresent;
}

TEST(FederatedTest, LateReplicas_QuorumIsMet_AreNotInTheMean) {
  Job job;
  job.replicas = 12;
  job.examples = job.batch = 120;
  job.local.steps = 2;
  job.epochs = 6;
  job.availability = LateByTurns;
  job.local.quorum = 8;
  const Trained trained = Train(job, 1);
  for (const auto& round : trained.rounds) EXPECT_EQ(round.second.size(), 8u);
  EXPECT_TRUE(Train(job, 3) == trained);
  const RecordedPresence recorded(trained.rounds);
  job.availability = recorded;
  EXPECT_TRUE(Train(job, 1) == trained);
  // A round that has no quorum waits for all that were drawn.
  job.availability = LateByTurns;
  job.local.quorum = 9;
  const Trained all = Train(job, 1);
  job.availability = nullptr;
  EXPECT_EQ(all.weights, Train(job, 2).weights);
  EXPECT_NE(all.weights, trained.weights);
}

TEST(FederatedTest, RoundDeadline_NoReplicaMeetsIt_IsNone) {
  Job job;
  job.replicas = 6;
  job.local.steps = 2;
  job.batch = 30;
  job.examples = 150;
  const Trained without = Train(job, 2);
  job.local.quorum = 2;
  job.local.round_deadline_seconds = 1e-9;
  EXPECT_TRUE(Train(job, 1) == without);
  EXPECT_TRUE(Train(job, 2) == without);
}

// A source that takes 60 ms on WorkClock for the examples from `first` on.
class SlowFrom final : public Source {
 public:
  SlowFrom(std::shared_ptr<Source> source, int64_t first)
      : source_(std::move(source)), first_(first) {}
  std::string name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  ExampleSpec x() const override { return source_->x(); }
  ExampleSpec y() const override { return source_->y(); }
  Status Read(const int64_t* indices, int count, void* x, void* y) override {
    if (count > 0 && *std::max_element(indices, indices + count) >= first_) {
      WorkClock::PassMillis(60);
    }
    return source_->Read(indices, count, x, y);
  }

 private:
  const std::shared_ptr<Source> source_;
  const int64_t first_;
};

// Any replicas may be late. A record of the replicas in the mean suffices to
// repeat the run.
TEST(FederatedTest, Rounds_ReplicasWereLate_AreComputedAgainFromTheirNotes) {
  Job job;
  job.replicas = 4;
  job.batch = 40;
  job.examples = 160;
  job.local.steps = 2;
  job.local.quorum = 1;
  job.local.round_deadline_seconds = 0.05;
  const Dataset plain = Points(160).Batch(40);
  const Dataset slow(std::make_shared<SlowFrom>(Points(160).source(), 155));
  Trained late[2];
  RunRanks(2, [&](Collective* collective) {
    late[collective->rank()] =
        TrainOn(job, slow.Batch(40), collective, WorkClock::Get());
  });
  ASSERT_OK(late[0].status);
  EXPECT_TRUE(late[0] == late[1]);
  bool missed = false;
  for (const auto& round : late[0].rounds) missed |= round.second.size() < 4;
  EXPECT_TRUE(missed);
  const RecordedPresence recorded(late[0].rounds);
  job.availability = recorded;
  job.local.round_deadline_seconds = 0;
  EXPECT_TRUE(TrainOn(job, plain, nullptr) == late[0]);
}

// Returns the chief's messages of a fit.
std::string ChiefOutput(Job job, const Dataset& data,
                        Clock* clock = Clock::System()) {
  CompileOptions options;
  options.clock = clock;
  options.replicas = job.replicas;
  options.local = job.local;
  const auto model = ModelOf(job, options);
  FitOptions fit;
  fit.verbose = Verbose::kLine;
  fit.prefetch = false;
  FILE* const nowhere = fopen("/dev/null", "w");
  fit.out = nowhere;
  testing::internal::CaptureStderr();
  EXPECT_OK(model->Fit(data, fit).status());
  fclose(nowhere);
  return testing::internal::GetCapturedStderr();
}

TEST(FederatedTest, Round_BelowTheQuorum_IsNotedAsComputedAgain) {
  Job job;
  job.replicas = 4;
  job.local.steps = 2;
  job.local.quorum = 4;
  job.local.round_deadline_seconds = 1e-9;
  const Dataset data = Points(80).Batch(40);
  const std::string printed = ChiefOutput(job, data);
  EXPECT_TRUE(
      Contains(printed,
               "note: epoch 1, step 1: 4 of the round's 4 replicas were "
               "late, which left fewer than 4 (quorum): the round was "
               "computed again, and waited for all"));
  job.local.round_deadline_seconds = 1e6;
  EXPECT_EQ(ChiefOutput(job, data), "");
}

// Replicas of one process compute one after another, and each has its time.
TEST(FederatedTest, RoundDeadline_ReplicasOfOneProcess_CountsForEach) {
  Job job;
  job.replicas = 8;
  job.local.steps = 2;
  job.local.quorum = 1;
  job.local.round_deadline_seconds = 0.8;
  const Dataset slow(std::make_shared<SlowFrom>(Points(160).source(), 0));
  EXPECT_EQ(ChiefOutput(job, slow.Batch(80), WorkClock::Get()), "");
}

// Each worker has its own data. Two are lost, and one joins again.
TEST(FederatedTest, OwnExamples_WorkersLeaveAndReturn_GiveTheSimulatedBits) {
  const std::vector<int64_t> sizes = {60, 25, 100, 40};
  Job job;
  job.replicas = 4;
  job.batch = 40;
  job.epochs = 5;
  job.local.steps = 2;
  job.local.quorum = 1;
  ElasticJob elastic;
  std::mutex mutex;
  Rounds rounds;
  std::vector<Trained> last(4);
  const auto run_worker = [&](int worker, int last_call) {
    ElasticCollective collective(&elastic, worker, last_call);
    Job own = job;
    const Dataset data = Dataset(Points(sizes[worker], 20 + worker).source())
                             .AutoShard(AutoShardPolicy::kOff)
                             .OwnExamples(sizes)
                             .Shuffle(5)
                             .Batch(job.batch);
    const Trained trained = TrainOn(own, data, &collective);
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& round : trained.rounds) {
      // A lost worker may have made rounds that the other workers made again.
      if (!trained.status.ok()) continue;
      const auto known = rounds.insert(round).first;
      EXPECT_EQ(known->second, round.second);
    }
    last[static_cast<size_t>(worker)] = trained;
  };
  RunWorkers(&elastic, 4, [&](int worker) {
    run_worker(worker, worker == 2 ? 160 : worker == 3 ? 230 : kNever);
    if (worker != 2) return;
    elastic.Arrive(2);
    run_worker(2, kNever);
  });
  std::set<size_t> counts;
  for (const auto& round : rounds) counts.insert(round.second.size());
  EXPECT_GE(counts.size(), 2u);
  for (const int worker : {0, 1, 2}) {
    const Trained& trained = last[static_cast<size_t>(worker)];
    ASSERT_OK(trained.status);
    EXPECT_EQ(trained.weights, last[0].weights);
  }
  // One process has all files, and takes part as recorded.
  const RecordedPresence recorded(last[0].rounds);
  job.availability = recorded;
  std::vector<std::shared_ptr<Source>> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(Points(sizes[i], 20 + i).source());
  }
  const Trained simulated = TrainOn(job,
                                    Concatenate(files)
                                        .AutoShard(AutoShardPolicy::kFile)
                                        .Shuffle(5)
                                        .Batch(job.batch),
                                    nullptr);
  ASSERT_OK(simulated.status);
  EXPECT_EQ(simulated.weights, last[0].weights);
}

// Takes a worker to other jobs, between two rounds.
class JobSwitcher final : public Callback {
 public:
  explicit JobSwitcher(std::function<void(int64_t)> goes)
      : goes_(std::move(goes)) {}
  const char* name() const override { return "goes"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    goes_(fit.model->iterations());
    return Status();
  }

 private:
  const std::function<void(int64_t)> goes_;
};

// A part with enough workers makes rounds of its own: no machine is at fault.
// The part that is behind takes the other's state.
TEST(FederatedTest, Parts_TrainedApart_JoinAndEndWithOneState) {
  ElasticJob together, apart;
  std::atomic<bool> waits{false};
  Job job;
  job.replicas = 3;
  job.local.steps = 2;
  job.local.quorum = 1;
  std::vector<Trained> all(3);
  const auto run_worker = [&](int worker) {
    ElasticCollective collective(&together, worker);
    CompileOptions options(&collective);
    options.replicas = job.replicas;
    options.local = job.local;
    const auto model = ModelOf(job, options);
    FitOptions fit = Quiet(2);
    int gone = 0;  // any round may be begun a second time
    fit.callbacks = {std::make_shared<JobSwitcher>([&](int64_t step) {
      if (worker == 0 && step == 220 && gone++ == 0) {
        waits = true;
        while (!together.has_joiner()) std::this_thread::yield();
      } else if (worker == 2 && step == 60 && gone == 0) {
        ++gone;
        collective.MoveTo(&apart);
      } else if (worker == 2 && step == 240 && gone == 1) {
        ++gone;
        while (!waits) std::this_thread::yield();
        collective.MoveTo(&together);
      }
    })};
    fit.prefetch = false;
    Trained& trained = all[static_cast<size_t>(worker)];
    trained.status = model->Fit(Points(900).Shuffle(5).Batch(6), fit).status();
    trained.weights = WeightsOf(model.get());
  };
  RunWorkers(&together, 3, [&](int worker) { run_worker(worker); });
  for (const Trained& each : all) {
    EXPECT_OK(each.status);
    EXPECT_EQ(each.weights, all[0].weights);
  }
}

// Counts what is read.
class ReadCounter final : public Source {
 public:
  explicit ReadCounter(std::shared_ptr<Source> source)
      : source_(std::move(source)) {}
  std::string name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  ExampleSpec x() const override { return source_->x(); }
  ExampleSpec y() const override { return source_->y(); }
  std::vector<int64_t> FileStarts() const override {
    return source_->FileStarts();
  }
  Status Read(const int64_t* indices, int count, void* x, void* y) override {
    examples += count;
    return source_->Read(indices, count, x, y);
  }
  int64_t examples = 0;

 private:
  const std::shared_ptr<Source> source_;
};

// Fewer replicas than the quorum have examples left, and none was late.
// Computing the round again would change nothing.
TEST(FederatedTest, Round_FewerThanTheQuorumHaveData_IsComputedOnce) {
  Job job;
  job.replicas = 3;
  job.batch = 20;
  job.local.steps = 2;
  job.local.quorum = 3;
  const std::shared_ptr<Source> files = FilesOf({90, 7, 41}).source();
  std::vector<int64_t> counts;
  std::vector<Trained> all;
  const RandomPresence everybody(1, 4);
  for (int i = 0; i < 3; ++i) {
    job.local.round_deadline_seconds = i == 1 ? 1e6 : 0;
    job.availability = i == 2 ? Availability(everybody) : nullptr;
    const auto counter = std::make_shared<ReadCounter>(files);
    all.push_back(TrainOn(job,
                          Dataset(counter)
                              .AutoShard(AutoShardPolicy::kFile)
                              .Shuffle(5)
                              .Batch(job.batch),
                          nullptr));
    ASSERT_OK(all[i].status);
    counts.push_back(counter->examples);
    EXPECT_TRUE(all[i] == all[0]);
  }
  // The batches read ahead at an epoch's end may be read or not.
  const int64_t ahead = job.epochs * job.batch;
  EXPECT_LE(std::abs(counts[1] - counts[0]), ahead);
  EXPECT_LE(std::abs(counts[2] - counts[0]), ahead);
  EXPECT_LT(ahead, counts[0] / 4);
}

// Shapes that users have: batches of 1, 100 and 128, a short last one, more
// replicas than examples, rounds longer than an epoch.
TEST(FederatedTest, Round_AnyShapeAndWorkers_IsTheMeanOfItsReplicas) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const Philox random(seed, 77);
    auto below = [&, at = uint64_t{0}](int n) mutable {
      return static_cast<int>(random.At(at++)[0] % static_cast<uint32_t>(n));
    };
    const int64_t batches[] = {1, 7, 100, 128};
    Job job;
    job.dropout = 0;
    job.replicas = 2 + below(5);
    job.batch = batches[below(4)];
    // The steps are few, so that rounding errors stay small; Adam enlarges
    // them.
    job.examples = 1 + below(job.batch == 1 ? 12 : job.batch == 7 ? 70 : 300);
    job.optimizer = SGD(0.05f);
    job.epochs = 2;
    job.local.delta = LocalUpdates::Delta::kFloat32;
    job.local.steps = 1 + below(6);
    job.local.participation = below(job.replicas + 1);
    const RandomPresence most(seed, 3);
    if (below(2) == 0) job.availability = most;
    if (below(3) == 0) job.policy = AutoShardPolicy::kOff;
    const Trained alone = Train(job, 1);
    SCOPED_TRACE(testing::Message()
                 << job.replicas << " replicas, " << job.examples
                 << " examples in batches of " << job.batch << ", rounds of "
                 << job.local.steps << ", participation "
                 << job.local.participation
                 << (job.policy == AutoShardPolicy::kOff ? ", off" : "")
                 << (job.availability != nullptr ? ", some away" : ""));
    EXPECT_LT(Distance(alone.weights, Mean(job, DataOf(job)).Of(alone.rounds)),
              kClose);
    EXPECT_TRUE(Train(job, 2) == alone);
    EXPECT_TRUE(Train(job, job.replicas) == alone);
  }
}

// Rounds of replicas without examples left, so no replica is recorded.
TEST(FederatedTest, Rounds_NoReplicaTookPart_AreComputedAgainFromTheirNotes) {
  Job job;
  job.replicas = 4;
  job.batch = 20;
  job.local.steps = 2;
  job.local.participation = 1;
  const Dataset files = FilesOf({90, 7, 41, 3})
                            .AutoShard(AutoShardPolicy::kFile)
                            .Shuffle(5)
                            .Batch(job.batch);
  const Trained trained = TrainOn(job, files, nullptr);
  ASSERT_OK(trained.status);
  int empty_rounds = 0, single_rounds = 0;
  for (const auto& round : trained.rounds) {
    ++(round.second.empty() ? empty_rounds : single_rounds);
  }
  EXPECT_GT(empty_rounds, 0);
  EXPECT_GT(single_rounds, 0);
  const RecordedPresence recorded(trained.rounds);
  job.availability = recorded;
  for (const int participation : {1, 0}) {
    job.local.participation = participation;
    const Trained again = TrainOn(job, files, nullptr);
    ASSERT_OK(again.status);
    // The grid of the changes depends on the number of replicas that may take
    // part, so with participation 0 the bits may differ.
    EXPECT_TRUE(participation == 0 || again == trained);
    EXPECT_EQ(again.rounds, trained.rounds);
  }
}

// A replica is present only in the first of each three steps.
Presence Seldom(int64_t step, int) {
  return step % 3 == 0 ? Presence::kPresent : Presence::kAbsent;
}

std::unique_ptr<Sequential> OfTwoReplicasSeldom() {
  CompileOptions options;
  options.replicas = 2;
  options.local.steps = 1;
  auto model = ModelOf(Job(), options);
  SimulatedReplicas::Set(Seldom, model.get());
  return model;
}

// An epoch without a participant has no loss, and so not the best one.
TEST(FederatedTest, Epoch_NoReplicaTookPart_IsNotTheBest) {
  const auto model = OfTwoReplicasSeldom();
  EarlyStoppingOptions stop;
  stop.monitor = "loss";
  stop.patience = 100;
  stop.restore_best_weights = true;
  std::map<int64_t, std::vector<float>> weights;  // key: the epoch
  LambdaCallbackOptions notes;
  notes.on_epoch_end = [&](int64_t epoch, const Logs&) {
    weights[epoch] = WeightsOf(model.get());
  };
  FitOptions fit = Quiet(9);
  fit.verbose = Verbose::kLine;
  FILE* const nowhere = fopen("/dev/null", "w");
  fit.out = nowhere;
  fit.steps_per_epoch = 1;
  fit.callbacks = {LambdaCallback(notes), EarlyStopping(stop),
                   TerminateOnNaN()};
  testing::internal::CaptureStderr();
  const auto history =
      model->Fit(Points(160).Shuffle(5).Repeat().Batch(40), fit);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  fclose(nowhere);
  ASSERT_OK(history.status());
  const std::vector<double> losses = history->Values("loss");
  ASSERT_EQ(losses.size(), 9u);
  int64_t best = 0;
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    const double loss = losses[static_cast<size_t>(epoch)];
    EXPECT_EQ(std::isnan(loss), epoch % 3 != 0) << epoch;
    if (loss < losses[static_cast<size_t>(best)]) best = epoch;
  }
  EXPECT_EQ(WeightsOf(model.get()), weights[best]);
}

// An epoch that has had no participant yet has no metrics. That is no
// divergence.
TEST(FederatedTest, Round_NoReplicaTookPart_HasNoMetrics) {
  const auto model = OfTwoReplicasSeldom();
  std::vector<bool> none;  // one for each step
  LambdaCallbackOptions notes;
  notes.on_train_batch_end = [&](int64_t, const Logs& logs) {
    none.push_back(std::isnan(*logs.Find("loss")));
    EXPECT_EQ(std::isnan(*logs.Find("accuracy")), none.back());
  };
  FitOptions fit = Quiet(3);
  fit.steps_per_epoch = 2;
  fit.callbacks = {LambdaCallback(notes), TerminateOnNaN()};
  ASSERT_OK(
      model->Fit(Points(160).Shuffle(5).Repeat().Batch(40), fit).status());
  const std::vector<bool> empty_rounds = {false, false, true,
                                          false, true,  true};
  EXPECT_EQ(none, empty_rounds);
  // A user-defined loop gives the same. (The model's steps continue: 6 to 11.)
  const Dataset data = Points(160).Shuffle(5).Repeat().Batch(40);
  fit.callbacks.clear();
  none.clear();
  TrainingLoop loop(model.get(), data, fit);
  ASSERT_OK(loop.Begin());
  while (loop.HasEpoch()) {
    while (loop.HasStep()) {
      ASSERT_OK(loop.Step());
      none.push_back(std::isnan(*loop.logs().Find("loss")));
    }
    ASSERT_OK(loop.EndEpoch());
  }
  ASSERT_OK(loop.End());
  EXPECT_EQ(none, empty_rounds);
}

// Labels that are names in its file, each file with classes of its own.
class Named final : public Source {
 public:
  Named(std::shared_ptr<Source> source, std::vector<std::string> names)
      : source_(std::move(source)), names_(std::move(names)) {}
  std::string name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  ExampleSpec x() const override { return source_->x(); }
  ExampleSpec y() const override { return source_->y(); }
  DataDescription Description() const override {
    DataDescription named;
    named.classes = names_;
    return named;
  }
  Status Read(const int64_t* indices, int count, void* x, void* y) override {
    return source_->Read(indices, count, x, y);
  }

 private:
  const std::shared_ptr<Source> source_;
  const std::vector<std::string> names_;
};

TEST(FederatedTest, ClassNames_OtherOnOneRank_AreRefused) {
  const auto printed_by = [](const std::vector<std::string>& of_1) {
    std::vector<std::string> all(2);
    RunRanks(2, [&](Collective* collective) {
      Job job;
      job.replicas = 2;
      job.epochs = 1;
      job.local.steps = 2;
      const std::vector<std::string> of_0 = {"bag", "coat", "shoe"};
      const Dataset data(std::make_shared<Named>(
          Points(40).source(), collective->rank() == 0 ? of_0 : of_1));
      all[static_cast<size_t>(collective->rank())] =
          TrainOn(job,
                  data.AutoShard(AutoShardPolicy::kOff)
                      .OwnExamples({40, 40})
                      .Batch(8),
                  collective)
              .status.message();
    });
    EXPECT_EQ(all[0], all[1]);
    return all[0];
  };
  EXPECT_EQ(printed_by({"bag", "coat", "shoe"}), "");
  EXPECT_TRUE(Contains(printed_by({"bag", "shirt", "shoe"}),
                       "the names of the classes is bag, shirt, shoe on rank "
                       "1, but bag, coat, shoe on rank 0"));
  EXPECT_TRUE(Contains(printed_by({}), "is none on rank 1"));
  EXPECT_TRUE(Contains(printed_by(std::vector<std::string>(2000, "long name")),
                       "the names of the classes"));
}

TEST(FederatedTest, Settings_ThatCannotWork_AreRefused) {
  const auto refused = [](const LocalUpdates& local) {
    Job job;
    job.replicas = 4;
    job.local = local;
    return std::string(TrainOn(job, DataOf(job), nullptr).status.message());
  };
  LocalUpdates on;
  on.steps = 2;
  LocalUpdates many = on, quorum = on, deadline = on, above = on;
  many.participation = 5;
  EXPECT_TRUE(Contains(refused(many), "participation 5 of 4 replicas"));
  quorum.quorum = 5;
  EXPECT_TRUE(Contains(refused(quorum), "quorum 5 of 4"));
  deadline.round_deadline_seconds = 1;
  EXPECT_TRUE(Contains(refused(deadline), "round_deadline without quorum"));
  above.participation = 2;
  above.quorum = 3;
  EXPECT_TRUE(Contains(refused(above), "quorum of 3"));
  Job job;
  job.replicas = 4;
  job.local.quorum = 3;
  const RandomPresence none(1, 0);
  job.availability = none;
  job.local.steps = 2;
  EXPECT_TRUE(Contains(TrainOn(job, DataOf(job), nullptr).status,
                       "0 of 4 replicas are present, and the quorum is 3"));
  const Dataset own = Points(40)
                          .AutoShard(AutoShardPolicy::kOff)
                          .OwnExamples({40, 30})
                          .Batch(10);
  Job two;
  two.replicas = 2;
  two.local.steps = 2;
  EXPECT_TRUE(
      Contains(TrainOn(two, own, nullptr).status, "start a worker for each"));
  // A worker that was started without the other workers.
  Job alone = two;
  alone.replicas = 1;
  EXPECT_TRUE(Contains(TrainOn(alone, own, nullptr).status,
                       "own examples of 2 workers for 1 replica;"));
  std::vector<std::string> messages(2);
  RunRanks(2, [&](Collective* collective) {
    messages[collective->rank()] =
        TrainOn(two, own, collective).status.message();
  });
  EXPECT_TRUE(
      Contains(messages[1], "40 examples, but replica 1's are to be 30"));
}

}  // namespace
}  // namespace ringlet
