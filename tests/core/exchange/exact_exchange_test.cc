// Contributions of replicas, assigned to workers that are threads: the sums
// have the same bits as with one worker that has all replicas.

#include "core/exchange/exact_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/thread_collective.h"
#include "core/base/solo_collective.h"

namespace ringlet {
namespace {

using Numbers = std::vector<float>;

// The gradients of six tensors, in 5 buckets, then the changes of two.
constexpr int64_t kSizes[] = {700, 1, 256, 257, 3000, 10, 30, 10};
constexpr int64_t kChanges = 30 + 10;

GridLayout Layout() {
  GridLayout layout;
  for (const int64_t size : kSizes) layout.Add(size);
  return layout;
}

// A step's contributions of all replicas.
using Step = std::vector<Numbers>;

// Made-up gradients. Each tensor has a magnitude of its own, which changes by a
// factor of 1e6 in some steps. Some tensors are zero, and so are some replicas'
// parts of a tensor.
Step MakeStep(int replicas, int step, uint32_t seed) {
  std::mt19937 random(seed * 1000 + static_cast<uint32_t>(step));
  std::normal_distribution<float> normal;
  Step contributions(static_cast<size_t>(replicas));
  const GridLayout layout = Layout();
  std::vector<double> size_of;
  for (int64_t t = 0; t < layout.tensors(); ++t) {
    double magnitude = std::exp2(static_cast<double>(t) * 5 - 20);
    switch (random() % 12) {
      case 0:
        if (step > 0) magnitude *= 1e6;
        break;
      case 1:
        if (step > 0) magnitude *= 1e-6;
        break;
      case 2:
        magnitude = 0;
    }
    size_of.push_back(magnitude);
  }
  for (Numbers& x : contributions) {
    x.resize(static_cast<size_t>(layout.numbers()));
    for (int64_t t = 0, at = 0; t < layout.tensors(); ++t) {
      const int64_t size = kSizes[t];
      const bool is_zero = random() % 8 == 0;  // this replica's part
      for (int64_t i = 0; i < size; ++i, ++at) {
        x[at] = is_zero ? 0 : static_cast<float>(size_of[t] * normal(random));
      }
    }
  }
  return contributions;
}

// A worker's memory and exchange.
class Worker {
 public:
  Worker(Collective* collective, int replicas)
      : collective_(*collective), replicas_(replicas), layout_(Layout()) {
    const auto numbers = static_cast<size_t>(layout_.numbers());
    gradients_.assign(numbers, 7);
    sums_.assign(numbers, -9);
    scales.assign(static_cast<size_t>(layout_.blocks()), kFinestScale);
    Open();
  }
  // Opens the exchange as after a resume, which keeps only the scales.
  void Open() {
    const int size = collective_.size(), rank = collective_.rank();
    first_ = rank * replicas_ / size;
    count_ = (rank + 1) * replicas_ / size - first_;
    const ExactSpans spans = {
        gradients_.data(), count_ > 1 ? sums_.data() : nullptr, scales.data()};
    exchange_ = MakeExactExchange(&collective_, replicas_, layout_, spans,
                                  kChanges, &timer_);
  }

  // Makes the passes of this worker's replicas in a step. Each worker calls
  // OnGradientsFinal at other places.
  void Passes(const Step& step) {
    std::mt19937 random(static_cast<uint32_t>(collective_.rank()));
    for (int k = 0; k < count_; ++k) {
      // From the last replica to the first: the order of the replicas must not
      // matter either.
      gradients_ = step[static_cast<size_t>(first_ + count_ - 1 - k)];
      exchange_->Begin(k, count_);
      for (int64_t at = layout_.numbers() - kChanges; at > 0;) {
        at -= std::min<int64_t>(at, static_cast<int64_t>(random() % 1500));
        exchange_->OnGradientsFinal(at);
      }
      exchange_->OnGradientsFinal(0);
    }
  }

  Status Train(const Step& step) {
    for (bool must_repeat = true; must_repeat;) {
      Passes(step);
      RINGLET_RETURN_IF_ERROR(exchange_->Finish(&must_repeat));
      repeats += must_repeat ? 1 : 0;
    }
    return Status();
  }
  GradientExchange* exchange() { return exchange_.get(); }
  const Numbers& sums() const { return gradients_; }

  std::vector<uint8_t> scales;
  int repeats = 0;  // the times that all passes were repeated

 private:
  Collective& collective_;
  const int replicas_;
  const GridLayout layout_;
  const StepTimer timer_;
  Numbers gradients_;
  Numbers sums_;
  int first_ = 0, count_ = 0;
  std::unique_ptr<GradientExchange> exchange_;
};

// The result of a run: all sums, and the scales at its end.
struct Result {
  std::vector<Numbers> sums;
  std::vector<uint8_t> scales;
};

bool SameBits(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void RunOn(int workers, const std::vector<Step>& steps, Result* result,
           size_t resume_at = 0) {
  std::mutex mutex;
  const int replicas = static_cast<int>(steps[0].size());
  RunRanks(workers, [&](Collective* collective) {
    Worker worker(collective, replicas);
    Result mine;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (resume_at > 0 && i == resume_at) worker.Open();
      ASSERT_OK(worker.Train(steps[i]));
      mine.sums.push_back(worker.sums());
    }
    mine.scales = worker.scales;
    if (workers < replicas) {
      EXPECT_GT(worker.repeats, 0);  // the first step
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (collective->rank() == 0) *result = mine;
    // Ranks that end before rank 0 are not compared with it.
    if (result->sums.empty()) return;
    EXPECT_EQ(mine.scales, result->scales);
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_TRUE(SameBits(mine.sums[i], result->sums[i])) << i;
    }
  });
}

std::vector<Step> MakeSteps(int replicas, int count, uint32_t seed) {
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) steps.push_back(MakeStep(replicas, i, seed));
  return steps;
}

TEST(ExactExchangeTest, Sums_AnyAssignment_HaveTheSameBits) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    for (const int replicas : {2, 3, 4, 7}) {
      const std::vector<Step> steps = MakeSteps(replicas, 8, seed);
      Result alone;
      RunOn(1, steps, &alone);
      ASSERT_EQ(alone.sums.size(), steps.size());
      for (int workers = 2; workers <= std::min(replicas, 4); ++workers) {
        SCOPED_TRACE(testing::Message() << replicas << " replicas on "
                                        << workers << ", seed " << seed);
        Result shared;
        RunOn(workers, steps, &shared);
        ASSERT_EQ(shared.sums.size(), steps.size());
        for (size_t i = 0; i < steps.size(); ++i) {
          EXPECT_TRUE(SameBits(shared.sums[i], alone.sums[i])) << i;
        }
        EXPECT_EQ(shared.scales, alone.scales);
      }
    }
  }
}

// Each of the R contributions is rounded by half a unit at most. Then the sum
// is rounded to a float. A block's unit is the greatest of three: 2^-23 of its
// greatest sum in the step before, 2^-29 of the tensor's greatest sum then, and
// 2^-29 R of the block's greatest contribution in this step.
TEST(ExactExchangeTest, Sums_AnyBlock_AreWithinTheirUnits) {
  constexpr int kReplicas = 4;
  const std::vector<Step> steps = MakeSteps(kReplicas, 12, 77);
  const GridLayout layout = Layout();
  SoloCollective solo;
  Worker worker(&solo, kReplicas);
  for (const Step& step : steps) {
    std::vector<uint8_t> before = worker.scales;
    ASSERT_OK(worker.Train(step));
    layout.ForEach(
        0, layout.numbers(), [&](int64_t b, int64_t from, int64_t to) {
          double greatest = 0;
          for (const Numbers& x : step) {
            for (int64_t i = from; i < to; ++i) {
              greatest = std::fmax(greatest, std::fabs(double{x[i]}));
            }
          }
          const double unit = std::fmax(std::ldexp(1.0, before[b] - 126),
                                        std::ldexp(greatest, -27));
          for (int64_t i = from; i < to; ++i) {
            double sum = 0;
            for (const Numbers& x : step) sum += x[i];
            ASSERT_NEAR(worker.sums()[i], sum,
                        kReplicas * unit / 2 + std::fabs(sum) * 0x1p-23)
                << i;
          }
        });
  }
}

TEST(ExactExchangeTest, Train_Resumed_HasTheBitsOfTheUndisturbedRun) {
  const std::vector<Step> steps = MakeSteps(3, 6, 5);
  Result whole, resumed;
  RunOn(3, steps, &whole);
  RunOn(3, steps, &resumed, /*resume_at=*/3);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_TRUE(SameBits(whole.sums[i], resumed.sums[i])) << i;
  }
  EXPECT_EQ(whole.scales, resumed.scales);
}

TEST(ExactExchangeTest, Sums_NotFiniteOnOneReplica_ReachAllWorkers) {
  std::vector<Step> steps = MakeSteps(4, 3, 9);
  // In the first step, in which all finite numbers are clamped.
  steps[0][1][3] = std::nanf("");
  steps[2][2][1200] = -std::numeric_limits<float>::infinity();
  const GridLayout layout = Layout();
  for (const int workers : {1, 2, 4}) {
    Result result;
    RunOn(workers, steps, &result);
    ASSERT_EQ(result.sums.size(), steps.size());
    layout.ForEach(0, layout.numbers(), [&](int64_t, int64_t from, int64_t to) {
      const bool first = from <= 3 && 3 < to;
      const bool third = from <= 1200 && 1200 < to;
      for (int64_t i = from; i < to; ++i) {
        ASSERT_EQ(std::isnan(result.sums[0][i]), first) << i;
        ASSERT_FALSE(std::isnan(result.sums[1][i])) << i;
        ASSERT_EQ(std::isnan(result.sums[2][i]), third) << i;
      }
    });
  }
}

// A step is dropped before its end, or after its repeat was requested.
TEST(ExactExchangeTest, Drop_StepGivenUp_ChangesNoOther) {
  const std::vector<Step> steps = MakeSteps(4, 4, 21);
  Result whole;
  RunOn(2, steps, &whole);
  RunRanks(2, [&](Collective* collective) {
    Worker worker(collective, 4);
    for (size_t i = 0; i < steps.size(); ++i) {
      worker.Passes(steps[i]);
      bool must_repeat = false;
      if (i == 0) {
        ASSERT_OK(worker.exchange()->Finish(&must_repeat));
      }
      EXPECT_EQ(must_repeat, i == 0);
      worker.exchange()->Drop();
      ASSERT_OK(worker.Train(steps[i]));
      EXPECT_TRUE(SameBits(worker.sums(), whole.sums[i])) << i;
      // No work is left.
      ASSERT_OK(worker.exchange()->Finish(&must_repeat));
      EXPECT_FALSE(must_repeat);
      EXPECT_TRUE(SameBits(worker.sums(), whole.sums[i])) << i;
    }
    EXPECT_EQ(worker.scales, whole.scales);
  });
}

// Every layer is frozen, so there are no gradients.
TEST(ExactExchangeTest, Finish_NoTrainedNumbers_HasNothingToSum) {
  const GridLayout nothing;
  RunRanks(2, [&](Collective* collective) {
    const StepTimer timer;
    const auto exchange = MakeExactExchange(collective, /*replicas=*/4, nothing,
                                            ExactSpans(), 0, &timer);
    for (int step = 0; step < 5; ++step) {
      for (int k = 0; k < 2; ++k) {
        exchange->Begin(k, 2);
        exchange->OnGradientsFinal(0);
      }
      bool must_repeat = true;
      ASSERT_OK(exchange->Finish(&must_repeat));
      EXPECT_FALSE(must_repeat);
    }
  });
}

TEST(ExactExchangeTest, Train_WorkerLost_LeavesTheScales) {
  const std::vector<Step> steps = MakeSteps(2, 2, 4);
  RunRanks(2, [&](Collective* collective) {
    Worker worker(collective, 2);
    ASSERT_OK(worker.Train(steps[0]));
    if (collective->rank() == 1) return;  // leaves
    const std::vector<uint8_t> before = worker.scales;
    EXPECT_EQ(worker.Train(steps[1]).code(), Code::kPeerLost);
    EXPECT_TRUE(worker.exchange()->failed());
    bool must_repeat = false;
    EXPECT_EQ(worker.exchange()->Finish(&must_repeat).code(), Code::kPeerLost);
    worker.exchange()->Drop();
    EXPECT_EQ(worker.scales, before);
  });
}

}  // namespace
}  // namespace ringlet
