// Requests to end a fit that some ranks make and others do not.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

constexpr int kRanks = 3;

enum class Where {
  kTrainBegin,
  kEpochBegin,
  kBatchBegin,
  kBatchEnd,
  kTestBatchEnd,
  kEpochEnd,
  kCount
};
enum class What { kStops, kInterrupts, kSetsSignal, kRaises, kCount };

struct Request {
  Where where = Where::kBatchEnd;
  What what = What::kStops;
  int64_t from = 0;  // the least number of steps before the request
};

// Makes its request once, if it has one, and records the step.
class StopRequester final : public Callback {
 public:
  StopRequester(const Request* request, bool handles_signals)
      : request_(request), handles_signals_(handles_signals) {}

  const char* name() const override { return "requests"; }
  Status OnSetup(FitState& fit) override {
    fit.handles_signals = handles_signals_;
    return Status();
  }
  Status OnTrainBegin(FitState& fit) override {
    return At(Where::kTrainBegin, fit);
  }
  Status OnEpochBegin(FitState& fit) override {
    return At(Where::kEpochBegin, fit);
  }
  // On all ranks or on none, as StepLogger opens its file.
  Status OnTrainBatchBegin(FitState& fit) override {
    RINGLET_RETURN_IF_ERROR(fit.model->collective()->Barrier());
    return At(Where::kBatchBegin, fit);
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    trained_.push_back(WeightsOf(fit.model));
    return At(Where::kBatchEnd, fit);
  }
  Status OnTestBatchEnd(FitState& fit) override {
    return At(Where::kTestBatchEnd, fit);
  }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    return At(Where::kEpochEnd, fit);
  }
  // All ranks act on an interruption together, or on none.
  Status OnSavePoint(FitState& fit, bool) override {
    std::vector<unsigned char> all(kRanks);
    const unsigned char mine = fit.interrupted ? 1 : 0;
    RINGLET_RETURN_IF_ERROR(
        fit.model->collective()->AllGather(&mine, 1, all.data()));
    EXPECT_EQ(std::count(all.begin(), all.end(), mine), kRanks);
    return Status();
  }

  int64_t made_at() const { return made_at_; }  // -1 if no request was made
  // Called after each step.
  const std::vector<std::vector<float>>& trained() const { return trained_; }

 private:
  Status At(Where where, FitState& fit) {
    const int64_t now = fit.model->iterations();
    if (request_ == nullptr || made_at_ >= 0 || request_->where != where ||
        now < request_->from) {
      return Status();
    }
    made_at_ = now;
    switch (request_->what) {
      case What::kStops:
        fit.stop_training = 1;
        break;
      case What::kSetsSignal:
        fit.signal = SIGTERM;
        [[fallthrough]];
      case What::kInterrupts:
        fit.interrupted = true;
        break;
      default:
        raise(SIGTERM);
    }
    return Status();
  }

  const Request* const request_;
  const bool handles_signals_;
  int64_t made_at_ = -1;
  std::vector<std::vector<float>> trained_;
};

struct Ended {
  Status status;
  int64_t steps = 0, made_at = -1;
  std::vector<float> weights;
  std::vector<std::vector<float>> trained;
};

// Fits two epochs of five steps. With `short_data` the data end in the second
// epoch. `requests` has each rank's request, null for a rank without one.
std::vector<Ended> FitRanks(const std::vector<const Request*>& requests,
                            bool validates, bool short_data) {
  const bool raises =
      std::any_of(requests.begin(), requests.end(), [](const Request* w) {
        return w != nullptr && w->what == What::kRaises;
      });
  std::vector<Ended> ranks(kRanks);
  RunRanks(kRanks, [&](Collective* collective) {
    const int rank = collective->rank();
    auto model = TinyModel(Adam(0.01f), 0.2f, CompileOptions(collective));
    FitOptions options = Quiet(2);
    options.steps_per_epoch = short_data ? 3 : 0;
    options.prefetch = false;
    options.check_replicas_every = 2;
    if (validates) options.validation_data = Points(20, 9).Batch(10);
    const auto callback =
        std::make_shared<StopRequester>(requests[rank], raises);
    options.callbacks = {callback};
    Ended& ended = ranks[rank];
    ended.status = model->Fit(Points(40).Batch(8), options).status();
    ended.steps = model->iterations();
    ended.made_at = callback->made_at();
    ended.weights = WeightsOf(model.get());
    ended.trained = callback->trained();
  });
  return ranks;
}

Request Draw(std::mt19937* random, What end) {
  const auto draw = [&](int n) { return static_cast<int>((*random)() % n); };
  Request request;
  request.where = static_cast<Where>(draw(static_cast<int>(Where::kCount)));
  request.what = static_cast<What>(draw(static_cast<int>(end)));
  request.from = draw(10);
  return request;
}

// Any ranks request a stop, for any reason. All leave after one and the same
// step, at most one step after the request. The bits equal the bits of a run
// that continues.
TEST(StopRequestsTest, Request_AnyKindOnAnyRanks_AllLeaveAfterTheSameStep) {
  testing::internal::CaptureStderr();  // notes of ended data and of signals
  Ended undisturbed[2][2];
  for (const bool validates : {false, true}) {
    for (const bool short_data : {false, true}) {
      undisturbed[validates][short_data] = FitRanks(
          std::vector<const Request*>(kRanks), validates, short_data)[0];
    }
  }
  RandomCases cases("RINGLET_STOPS", {}, /*part=*/1, /*share=*/0.5);
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    std::mt19937 random(static_cast<unsigned>(cases.number()));
    // One request of some ranks, or one of each. A second signal would end the
    // process.
    const bool same = random() % 2 == 0;
    const Request common = Draw(&random, What::kCount);
    const bool one = same && common.what == What::kRaises;
    const unsigned who =
        one ? 1u << random() % kRanks : 1 + random() % ((1u << kRanks) - 1);
    std::vector<Request> requests(kRanks, common);
    std::vector<const Request*> made(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      if (!same) requests[r] = Draw(&random, What::kRaises);
      if (random() % 2 == 0) requests[r].from = common.from;
      if ((who >> r & 1) != 0) made[r] = &requests[r];
    }
    const bool validates = random() % 2 == 0, short_data = random() % 3 == 0;
    const Ended& whole = undisturbed[validates][short_data];
    ASSERT_OK(whole.status);

    const std::vector<Ended> ranks = FitRanks(made, validates, short_data);
    const int64_t steps = ranks[0].steps;
    int64_t first = whole.steps;
    for (const Ended& rank : ranks) {
      EXPECT_EQ(rank.status.code(), ranks[0].status.code())
          << rank.status.message() << "; " << ranks[0].status.message();
      const Code code = rank.status.code();
      EXPECT_TRUE(code == Code::kOk || code == Code::kCancelled ||
                  code == Code::kInterrupted)
          << rank.status.message();
      EXPECT_EQ(rank.steps, steps);
      EXPECT_EQ(rank.weights, ranks[0].weights);
      if (rank.made_at >= 0) first = std::min(first, rank.made_at);
    }
    EXPECT_GE(steps, first);
    // A request that is made before a step's update may take effect after that
    // step.
    const bool at_end = same && common.where >= Where::kBatchEnd;
    EXPECT_LE(steps, std::min(whole.steps, first + (at_end ? 0 : 1)));
    if (steps == 0) continue;
    EXPECT_EQ(ranks[0].weights, whole.trained[static_cast<size_t>(steps - 1)]);
  }
  testing::internal::GetCapturedStderr();
}

// The data behind the step after which all ranks stop are not read, and no
// layer gets them.
TEST(StopRequestsTest, Stop_DataAfterItUnreadable_DoesNotFail) {
  class EndsAt final : public Source {
   public:
    explicit EndsAt(int64_t end) : end_(end) {}
    int64_t size() const override { return points_->size(); }
    ExampleSpec x() const override { return points_->x(); }
    ExampleSpec y() const override { return points_->y(); }
    std::string name() const override { return "ends"; }
    Status Read(const int64_t* index, int count, void* x, void* y) override {
      if (count > 0 && *std::max_element(index, index + count) >= end_) {
        return Error(Code::kIo, "no more points");
      }
      return points_->Read(index, count, x, y);
    }

   private:
    const std::shared_ptr<Source> points_ = Points(40).source();
    const int64_t end_;
  };
  for (const What what : {What::kStops, What::kInterrupts}) {
    RunRanks(kRanks, [&](Collective* collective) {
      auto model = TinyModel(SGD(0.1f), 0, CompileOptions(collective));
      const Request request = {Where::kBatchEnd, what, 3};
      FitOptions options = Quiet(2);
      options.prefetch = false;
      options.callbacks = {
          std::make_shared<StopRequester>(&request, /*handles_signals=*/false)};
      const Dataset data(std::make_shared<EndsAt>(24));
      const Status status = model->Fit(data.Batch(8), options).status();
      EXPECT_EQ(status.code(),
                what == What::kStops ? Code::kOk : Code::kCancelled)
          << status.message();
      EXPECT_EQ(model->iterations(), 3);
    });
  }
}

// A callback sets a number that is no signal. The fit stops all the same.
TEST(StopRequestsTest, Signal_InvalidNumber_StopsTheFitNotTheProcess) {
  for (const int number : {-1, 32, 40, 63, 1 << 20}) {
    class StopSetter final : public Callback {
     public:
      explicit StopSetter(int number) : number_(number) {}
      const char* name() const override { return "sets"; }
      Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
        const Collective& ranks = *fit.model->collective();
        if (ranks.rank() != ranks.size() - 1) return Status();
        fit.interrupted = true;
        fit.signal = number_;
        return Status();
      }

     private:
      const int number_;
    };
    for (const int size : {1, kRanks}) {
      RunRanks(size, [&](Collective* collective) {
        auto model = TinyModel(SGD(0.1f), 0, CompileOptions(collective));
        FitOptions options = Quiet(2);
        options.callbacks = {std::make_shared<StopSetter>(number)};
        const Status status = model->Fit(Points(40).Batch(8), options).status();
        EXPECT_EQ(status.code(), Code::kCancelled) << status.message();
        EXPECT_EQ(model->iterations(), 1);
      });
    }
  }
}

// A request travels in data that every step sends.
TEST(StopRequestsTest, Step_NoRequest_SendsNothingMore) {
  const auto calls = [](int64_t steps) {
    int64_t made = 0;
    RunRanks(kRanks, [&](Collective* collective) {
      auto model = TinyModel(SGD(0.1f), 0, CompileOptions(collective));
      FitOptions options = Quiet(1);
      options.steps_per_epoch = steps;
      options.check_replicas_every = 0;
      EXPECT_OK(model->Fit(Points(40).Repeat().Batch(8), options));
      if (collective->rank() == 0) {
        made = static_cast<ThreadCollective*>(collective)->calls();
      }
    });
    return made;
  };
  // The model's gradients are one bucket, and the report is a gather.
  EXPECT_EQ(calls(9) - calls(4), 5 * 2);
}

}  // namespace
}  // namespace ringlet
