// ReplicaBalancer: the replicas follow the times that the workers measure
// (docs/membership.md).

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/slow_layer.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

class AfterStep final : public Callback {
 public:
  explicit AfterStep(std::function<void(FitState&)> callback)
      : callback_(std::move(callback)) {}
  const char* name() const override { return "after step"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    callback_(fit);
    return Status();
  }

 private:
  const std::function<void(FitState&)> callback_;
};

// Runs `work` on two workers of a job at the same time. The process of worker 0
// ends in its collective call number `last_call_of_worker_0`.
void RunTwoWorkers(int last_call_of_worker_0,
                   const std::function<void(int, ElasticCollective*)>& work) {
  ElasticJob job;
  RunWorkers(&job, 2, [&](int w) {
    ElasticCollective collective(&job, w,
                                 w == 0 ? last_call_of_worker_0 : kNever);
    work(w, &collective);
  });
}

constexpr int kTrainedSteps = 96;

// Trains kTrainedSteps steps of 8 replicas on two workers. Worker w needs
// millis[w] for a replica and trains on data[w]. Returns how many replicas each
// worker has computed.
std::vector<int> Trained(const std::vector<int>& millis,
                         const std::vector<Dataset>& data,
                         bool prefetch = true) {
  std::vector<int> trained(2);
  RunTwoWorkers(kNever, [&](int w, ElasticCollective* collective) {
    const auto at = static_cast<size_t>(w);
    const auto slow = std::make_shared<SlowLayer>(millis[at]);
    const auto model = SlowModel(slow, ExactSums(collective, 8));
    FitOptions fit = Quiet(1);
    fit.steps_per_epoch = kTrainedSteps;
    fit.prefetch = prefetch;
    EXPECT_OK(model->Fit(data[at], fit).status());
    trained[at] = slow->trained();
  });
  return trained;
}

// Worker 0 is slow. With a batch of 10 examples the last three of the eight
// replicas have no example, and take no time. If the balancer does not count
// these, worker 0 has at most 4 replicas for 32 steps, and at most 3 after
// that.
TEST(ReplicaBalancerTest, Times_ReplicasWithoutExamples_AreNotMeasured) {
  for (const int64_t batch : {10, 16}) {
    SCOPED_TRACE(batch);
    const Dataset data = Points(203).Shuffle(3).Repeat().Batch(batch);
    EXPECT_LT(Trained({8, 2}, {data, data})[0], 32 * 4 + 64 * 3);
  }
}

// The last batch of nine examples gives each replica of worker 0 two examples,
// and the replica of worker 1 one example.
TEST(ReplicaBalancerTest, Assignment_ShortLastBatch_Stays) {
  RunTwoWorkers(kNever, [&](int, ElasticCollective* collective) {
    const auto slow = std::make_shared<SlowLayer>(4);
    slow->SetMillisPerExample(/*per_example=*/true);
    const auto model = SlowModel(slow, ExactSums(collective, 8));
    int before = 0;
    FitOptions fit = Quiet(4);
    fit.check_replicas_every = 100;  // no check is among these steps
    fit.callbacks = {std::make_shared<AfterStep>([&](FitState& state) {
      const int now = slow->trained() - before;
      before = slow->trained();
      const int64_t step = state.model->iterations();
      if (step > 1 && step % 4 != 0) {  // the first is made again
        EXPECT_EQ(now, 4) << step;
      }
    })};
    EXPECT_OK(model->Fit(Points(129).Shuffle(3).Batch(40), fit).status());
  });
}

class SlowSource final : public Source {
 public:
  SlowSource(std::shared_ptr<const Source> source, int millis)
      : source_(std::const_pointer_cast<Source>(source)), millis_(millis) {}
  ExampleSpec x() const override { return source_->x(); }
  ExampleSpec y() const override { return source_->y(); }
  int64_t size() const override { return source_->size(); }
  std::string name() const override { return source_->name(); }
  Status Read(const int64_t* indices, int count, void* x, void* y) override {
    WorkClock::PassMillis(millis_);
    return source_->Read(indices, count, x, y);
  }

 private:
  const std::shared_ptr<Source> source_;
  const int millis_;
};

TEST(ReplicaBalancerTest, Worker_ReadsSlowly_GetsFewerReplicas) {
  const Dataset quick = Points(203);
  const Dataset slow(std::make_shared<SlowSource>(quick.source(), 8));
  const auto batches = [](const Dataset& data) {
    return data.Shuffle(3).Repeat().Batch(40);
  };
  // The source reads on the computing thread and passes that thread's time.
  EXPECT_LE(
      Trained({1, 4}, {batches(slow), batches(quick)}, /*prefetch=*/false)[0],
      kTrainedSteps * 4);
}

// The assignment follows within kSettles steps, and back.
TEST(ReplicaBalancerTest, Worker_SlowForAWhile_GetsFewerReplicasMeanwhile) {
  constexpr int kSlowFrom = 50, kSlowTo = 90, kSteps = 140, kSettles = 12;
  int slow_ones = 0, others = 0;
  RunTwoWorkers(kNever, [&](int w, ElasticCollective* collective) {
    const auto slow = std::make_shared<SlowLayer>(2);
    const auto model = SlowModel(slow, ExactSums(collective, 8));
    FitOptions fit = Quiet(1);
    fit.steps_per_epoch = kSteps;
    int before = 0;
    fit.callbacks = {std::make_shared<AfterStep>([&](FitState& state) {
      const int64_t step = state.model->iterations();
      const int now = slow->trained() - before;
      before = slow->trained();
      if (w == 0) return;
      if (step == kSlowFrom) slow->set_millis(10);
      if (step == kSlowTo) slow->set_millis(2);
      if (step > kSlowFrom + kSettles && step <= kSlowTo) slow_ones += now;
      if (step > kSlowTo + kSettles) others += now;
    })};
    EXPECT_OK(
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit).status());
  });
  EXPECT_LT(slow_ones, 5 * (kSlowTo - kSlowFrom - kSettles) / 2);
  EXPECT_GT(others, 3 * (kSteps - kSlowTo - kSettles));
}

constexpr int kSteps = 80;

// Trains kSteps steps of 8 replicas on two workers. The second worker takes ten
// times as long for a replica from step `from` to `to`. Returns how many
// replicas it computed in each step. *printed gets all lines of stderr.
std::vector<int> TrainedInSpell(int64_t from, int64_t to,
                                std::string* printed) {
  std::vector<int> trained;
  FILE* const out = std::fopen("/dev/null", "w");
  testing::internal::CaptureStderr();
  RunTwoWorkers(kNever, [&](int w, ElasticCollective* collective) {
    const auto layer = std::make_shared<SlowLayer>(1);
    const auto model = SlowModel(layer, ExactSums(collective, 8));
    FitOptions fit = Quiet(1);
    fit.verbose = Verbose::kLine;
    fit.out = out;
    fit.steps_per_epoch = kSteps;
    fit.check_replicas_every = 100;  // no check is among these steps
    int before = 0;
    fit.callbacks = {std::make_shared<AfterStep>([&](FitState& state) {
      if (w == 0) return;
      const int64_t step = state.model->iterations();
      trained.push_back(layer->trained() - before);
      before = layer->trained();
      layer->set_millis(step >= from && step < to ? 10 : 1);
    })};
    EXPECT_OK(
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit).status());
  });
  *printed = testing::internal::GetCapturedStderr();
  std::fclose(out);
  return trained;
}

// The slow steps pass step 32, after which more times are measured than a
// worker keeps (WorkerThroughput::kKept). Most kept times are still from fast
// steps, but the worker keeps a slow worker's assignment.
TEST(ReplicaBalancerTest, Assignment_SlowBeyondTheKeptTimes_DoesNotMoveBack) {
  constexpr size_t kSlowFrom = 20, kSlowTo = 40;
  constexpr size_t kFoundSlow = 6;   // steps until the replicas have moved
  constexpr size_t kFoundFast = 10;  // the same after the slow steps
  std::string printed;
  const std::vector<int> trained = TrainedInSpell(kSlowFrom, kSlowTo, &printed);
  ASSERT_EQ(trained.size(), size_t{kSteps});
  for (size_t step = kSlowFrom + kFoundSlow; step < kSlowTo; ++step) {
    EXPECT_EQ(trained[step], 1) << step;
  }
  for (size_t step = kSlowTo + kFoundFast; step < kSteps; ++step) {
    EXPECT_EQ(trained[step], 4) << step;
  }
}

// The replicas have moved back before the last line is printed.
TEST(ReplicaBalancerTest, LastLine_ReplicasMovedBack_HasThePresentAssignment) {
  std::string printed;
  const std::vector<int> trained = TrainedInSpell(5, 12, &printed);
  ASSERT_EQ(trained.size(), size_t{kSteps});
  EXPECT_EQ(trained[12], 1);
  EXPECT_EQ(trained.back(), 4);
  const size_t last = printed.rfind("note: from epoch 1, step ");
  ASSERT_NE(last, std::string::npos) << printed;
  EXPECT_NE(printed.find("the workers compute 4, 4 replicas", last),
            std::string::npos)
      << printed;
}

// Counts the gathers of one number from each rank.
class GatherCounter final : public Collective {
 public:
  explicit GatherCounter(ElasticCollective* in) : in_(*in) {}
  int rank() const override { return in_.rank(); }
  int size() const override { return in_.size(); }
  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    return in_.StartAllReduce(data, count, ticket);
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return in_.StartAllReduceInts(data, count, ticket);
  }
  Status Wait(Ticket ticket) override { return in_.Wait(ticket); }
  Status Broadcast(void* data, size_t bytes, int root) override {
    return in_.Broadcast(data, bytes, root);
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    gathers_ += bytes == sizeof(int64_t) ? 1 : 0;
    return in_.AllGather(in, bytes, out);
  }
  Status Barrier() override { return in_.Barrier(); }
  Status Reform() override { return in_.Reform(); }
  bool elastic() const override { return true; }
  int gathers() const { return gathers_; }

 private:
  ElasticCollective& in_;
  int gathers_ = 0;
};

// Every step's report has the times of the steps. In rounds of few steps the
// times are noise: they are gathered once in 32 steps, however short the rounds
// are. After longer rounds they are gathered each time. At the start there is
// one more gather, soon after the first round.
TEST(ReplicaBalancerTest, Times_ShortRounds_AreGatheredOnceIn32Steps) {
  const auto count_gathers = [](int64_t local_steps, int replicas) {
    int counted = 0;
    RunTwoWorkers(kNever, [&](int w, ElasticCollective* elastic) {
      GatherCounter collective(elastic);
      CompileOptions options = ExactSums(&collective, replicas, local_steps);
      const auto model = TinyModel(Adam(0.01f), 0.2f, options);
      FitOptions fit = Quiet(2);
      fit.steps_per_epoch = 100;
      EXPECT_OK(
          model->Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit).status());
      if (w == 0) counted = collective.gathers();
    });
    return counted;
  };
  // In 200 steps there are seven gathers: after the first round that ends at or
  // beyond step 4, and at or beyond each multiple of 32. The first round of all
  // is not measured, so none follows it, nor the last round. So rounds of 30
  // and of 50 steps have fewer.
  for (const auto& [local_steps, wanted] :
       {std::pair{0, 0}, {1, 7}, {3, 7}, {30, 5}, {50, 2}}) {
    SCOPED_TRACE(local_steps);
    EXPECT_EQ(count_gathers(local_steps, 8) - count_gathers(local_steps, 2),
              wanted);
  }
}

// How fast a worker computes, and when it is lost.
struct WorkerScript {
  int millis_per_replica;
  int64_t lost_at = -1;         // the step; -1: never
  int millis_after_rejoin = 0;  // the time of a replica
};

// A fit of kReplicas replicas, of which one worker's are counted.
struct SpeedScene {
  std::vector<WorkerScript> workers;
  size_t counted;       // the worker with the counted replicas
  int64_t count_after;  // the step after which they are counted
  int64_t steps;        // the steps of the fit
  // The lost worker starts again, and the other workers wait for it after the
  // step in which it was lost.
  bool rejoins = false;
  int64_t local_steps = 0;  // the steps of a round; 0 without rounds
};

constexpr int kReplicas = 12;  // divided among three workers
constexpr double kEvenPart = kReplicas / 3.0;
constexpr double kSlowPart = 3;  // a worker known as slow has fewer

class SpeedJob {
 public:
  explicit SpeedJob(SpeedScene scene) : scene_(std::move(scene)) {}

  // Trains, and returns the mean replicas of the counted worker in a step.
  double MeanReplicas() {
    RunWorkers(&job_, static_cast<int>(scene_.workers.size()), [&](int w) {
      const WorkerScript& script = ScriptOf(w);
      RunProcess(w, script.millis_per_replica, script.lost_at);
      if (!IsLost(script) || !scene_.rejoins) return;
      job_.Arrive(w);
      is_back_ = true;
      RunProcess(w, script.millis_after_rejoin, /*lost_at=*/-1);
    });
    return static_cast<double>(replicas_) / steps_;
  }

 private:
  static bool IsLost(const WorkerScript& script) { return script.lost_at >= 0; }
  const WorkerScript& ScriptOf(int w) const {
    return scene_.workers[static_cast<size_t>(w)];
  }
  // The step after which the other workers wait for the lost worker.
  int64_t AwaitedAt() const {
    for (const WorkerScript& script : scene_.workers) {
      if (scene_.rejoins && IsLost(script)) return script.lost_at;
    }
    return kNever;
  }

  // One process of a worker; it is lost in step `lost_at`.
  void RunProcess(int w, int millis, int64_t lost_at) {
    ElasticCollective collective(&job_, w);
    const auto slow = std::make_shared<SlowLayer>(millis);
    const auto model =
        SlowModel(slow, ExactSums(&collective, kReplicas, scene_.local_steps));
    int before = 0;
    FitOptions fit = Quiet(1);
    fit.steps_per_epoch = scene_.steps;
    fit.callbacks = {std::make_shared<AfterStep>([&](FitState& state) {
      const int64_t step = state.model->iterations();
      if (!IsLost(ScriptOf(w)) && step > AwaitedAt()) AwaitReturn();
      if (step == lost_at) collective.EndInNextCall();
      if (w == static_cast<int>(scene_.counted) && step > scene_.count_after) {
        replicas_ += slow->trained() - before;
        steps_ += static_cast<int>(state.steps_taken);
      }
      before = slow->trained();
    })};
    const Result<History> history =
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(24), fit);
    EXPECT_EQ(history.ok(), lost_at < 0) << history.status().message();
  }
  void AwaitReturn() {
    while (!job_.has_joiner() && !is_back_) std::this_thread::yield();
  }

  const SpeedScene scene_;
  ElasticJob job_;
  std::atomic<int> replicas_{0}, steps_{0};  // counts of scene_.counted
  std::atomic<bool> is_back_{false};         // the lost worker
};

// A worker is lost in this step. It is beyond step 32, so the worker was
// measured, also in rounds.
constexpr int64_t kLostAt = 36;
// The steps after a join in which the joiner is measured. Times of steps need
// two measured steps. Rounds of four steps need two rounds, since the first is
// not measured.
constexpr int64_t kMeasured = 8;
// Fits end before step 64. There rounds compare their times in any case, and a
// joiner that was not measured soon would have few replicas too.
constexpr int64_t kBefore64 = 62;

// The times of the earlier view are used: a slow worker has few replicas from
// the first step.
TEST(ReplicaBalancerTest, Assignment_AfterALoss_FollowsTheKnownTimes) {
  SpeedScene scene;
  scene.workers = {{8}, {2}, {2, kLostAt}};
  scene.counted = 0;
  scene.count_after = kLostAt;
  scene.steps = kBefore64;
  EXPECT_LT(SpeedJob(scene).MeanReplicas(), kEvenPart);
}

// The other workers have the joiner's earlier times from the first step, so it
// has few replicas in the five steps until it may be measured.
TEST(ReplicaBalancerTest, Joiner_KnownAsSlow_HasFewReplicas) {
  SpeedScene scene;
  scene.workers = {{2}, {2}, {8, kLostAt, /*millis_after_rejoin=*/8}};
  scene.counted = 2;
  scene.count_after = kLostAt;
  scene.steps = kLostAt + 5;
  scene.rejoins = true;
  EXPECT_LT(SpeedJob(scene).MeanReplicas(), kSlowPart);
}

// A worker that was fast is slow after it has joined again.
SpeedScene JoinerNowSlower() {
  SpeedScene scene;
  scene.workers = {{2}, {2}, {2, kLostAt, /*millis_after_rejoin=*/8}};
  scene.counted = 2;
  scene.count_after = kLostAt + kMeasured;
  scene.steps = kBefore64;
  scene.rejoins = true;
  return scene;
}

// The joiner has measured no step, and its speed may have changed. It is
// measured soon.
TEST(ReplicaBalancerTest, Joiner_NowSlower_IsMeasuredSoon) {
  EXPECT_LT(SpeedJob(JoinerNowSlower()).MeanReplicas(), kSlowPart);
}

// The first round after the join has as many steps, but is not measured.
TEST(ReplicaBalancerTest,
     Joiner_FirstRoundUnmeasured_IsMeasuredAfterTheSecond) {
  SpeedScene scene = JoinerNowSlower();
  scene.local_steps = 4;
  scene.steps = 60;  // whole rounds
  EXPECT_LT(SpeedJob(scene).MeanReplicas(), kSlowPart);
}

// Rounds compare times once in 32 steps. Without rounds each step does, so a
// join after a multiple of 32 steps makes no difference.
TEST(ReplicaBalancerTest, Joiner_ArrivesAtThe32ndStep_IsMeasuredSoon) {
  SpeedScene scene = JoinerNowSlower();
  scene.workers[2].lost_at = 32;
  scene.count_after = 32 + kMeasured;
  EXPECT_LT(SpeedJob(scene).MeanReplicas(), kSlowPart);
}

// Forms a larger view in Reform, and loses it in the same call.
class LostViewCollective final : public Collective {
 public:
  explicit LostViewCollective(Collective* in) : in_(in) {}
  int rank() const override { return grown_ ? 2 : in_->rank(); }
  int size() const override { return grown_ ? 3 : in_->size(); }
  size_t bucket_bytes() const override { return 256; }
  Status StartAllReduce(float*, size_t, Ticket*) override { return Lost(); }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return grown_ ? Lost() : in_->StartAllReduceInts(data, count, ticket);
  }
  Status Wait(Ticket ticket) override {
    return grown_ ? Lost() : in_->Wait(ticket);
  }
  Status Broadcast(void* data, size_t bytes, int root) override {
    return grown_ ? Lost() : in_->Broadcast(data, bytes, root);
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    return grown_ ? Lost() : in_->AllGather(in, bytes, out);
  }
  Status Barrier() override { return grown_ ? Lost() : in_->Barrier(); }
  void Abort(const Status& why) override {
    if (!grown_) in_->Abort(why);
  }
  Status Reform() override {
    grown_ = true;
    return Lost();
  }
  bool elastic() const override { return true; }

 private:
  static Status Lost() {
    return Error(Code::kDeadlineExceeded, "only 1 of 2 workers came");
  }

  Collective* const in_;
  bool grown_ = false;
};

TEST(ReplicaBalancerTest, EvaluateOrPredict_AfterAFailedReform_ReportsTheLoss) {
  RunTwoWorkers(
      /*last_call_of_worker_0=*/100, [&](int w, ElasticCollective* elastic) {
        LostViewCollective loses(elastic);
        Collective* const collective =
            w == 0 ? static_cast<Collective*>(elastic) : &loses;
        const auto model =
            TinyModel(Adam(0.01f), 0.2f, ExactSums(collective, 5));
        const Result<History> history =
            model->Fit(Points(203).Shuffle(3).Batch(40), Quiet(30));
        EXPECT_FALSE(history.ok());
        if (w == 0) return;
        const Dataset data = Points(61).Batch(16);
        EXPECT_EQ(model->Evaluate(data).status().code(), Code::kPeerLost);
        EXPECT_EQ(model->Predict(data).status().code(), Code::kPeerLost);
      });
}

class OnEnd final : public Callback {
 public:
  explicit OnEnd(std::function<void()> callback)
      : callback_(std::move(callback)) {}
  const char* name() const override { return "at the end"; }
  Status OnTrainEnd(FitState&, const Logs&) override {
    callback_();
    return Status();
  }

 private:
  const std::function<void()> callback_;
};

// No step follows, so there is no assignment to print.
TEST(ReplicaBalancerTest, AssignmentLine_LossAfterTheLastStep_IsNotPrinted) {
  ElasticJob job;
  testing::internal::CaptureStderr();
  FILE* const out = std::fopen("/dev/null", "w");
  RunWorkers(&job, 3, [&](int w) {
    ElasticCollective collective(&job, w);
    const auto slow = std::make_shared<SlowLayer>(w == 0 ? 8 : 2);
    const auto model = SlowModel(slow, ExactSums(&collective, 12));
    FitOptions fit = Quiet(1);
    fit.steps_per_epoch = 12;
    fit.verbose = Verbose::kLine;
    fit.out = out;
    fit.callbacks = {std::make_shared<OnEnd>([&, w] {
      if (w == 2) collective.EndInNextCall();
    })};
    const Result<History> history =
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(24), fit);
    EXPECT_EQ(history.ok(), w != 2) << history.status().message();
  });
  std::fclose(out);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(printed, "from epoch 1, step 4 on the workers compute"));
  EXPECT_FALSE(Contains(printed, "from epoch 2"));
}

TEST(ReplicaBalancerTest, StartLine_SecondFit_HasThePresentAssignment) {
  RunTwoWorkers(kNever, [&](int w, ElasticCollective* collective) {
    const auto slow = std::make_shared<SlowLayer>(w == 1 ? 8 : 2);
    const auto model = SlowModel(slow, ExactSums(collective, 8));
    for (int number = 0; number < 2; ++number) {
      FitOptions fit = Quiet(1);
      // The replicas are assigned after four steps.
      const int steps = number == 0 ? 33 : 20;
      fit.steps_per_epoch = steps;
      fit.verbose = Verbose::kLine;
      char* text = nullptr;
      size_t bytes = 0;
      fit.out = open_memstream(&text, &bytes);
      const int before = slow->trained();
      EXPECT_OK(
          model->Fit(Points(203).Shuffle(3).Repeat().Batch(40), fit).status());
      std::fclose(fit.out);
      const std::string printed(text, bytes);
      std::free(text);
      if (w == 0) continue;
      // The number of replicas of worker 1, of 5 examples each.
      const int each = (slow->trained() - before) / steps;
      EXPECT_TRUE(Contains(
          printed, number == 0
                       ? "trains 20 of 40"
                       : "trains " + std::to_string(5 * each) + " of 40"));
      EXPECT_LE(each, number == 0 ? 4 : 3);
    }
  });
}

}  // namespace
}  // namespace ringlet
