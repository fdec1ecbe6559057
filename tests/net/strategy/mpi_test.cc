// Each rank of `mpirun -n N mpi_test`, N > 1: the collectives and training over
// MPI. In one process MPI begins and ends once, so all tests share one
// strategy.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/map_environment.h"
#include "../../support/tiny_model.h"
#include "ringlet/strategy.h"

namespace ringlet {
namespace {

using Variables = std::map<std::string, std::string>;

StrategyOptions OverMpi() {
  StrategyOptions options;
  options.communication.implementation = CommunicationImplementation::kMpi;
  options.communication.bytes_per_pack = 4096;
  return options;
}

const MultiWorkerMirroredStrategy& Strategy() {
  static const auto strategy =
      MultiWorkerMirroredStrategy::FromEnvironment(OverMpi());
  return strategy;
}

class MpiTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(Strategy().status());
    collective_ = Strategy().collective();
    ASSERT_NE(collective_, nullptr);
    ASSERT_GT(collective_->size(), 1) << "start this by mpirun -n 4";
  }
  Collective* collective_ = nullptr;
};

TEST_F(MpiTest, Ranks_OfTheStrategy_EqualThoseOfTheLauncher) {
  EXPECT_EQ(Strategy().rank(), collective_->rank());
  EXPECT_EQ(Strategy().num_workers(), collective_->size());
  EXPECT_EQ(Strategy().is_chief(), collective_->rank() == 0);
  EXPECT_EQ(collective_->bucket_bytes(), 4096u);
}

TEST_F(MpiTest, AllReduce_AnyLength_IsTheSumOfAllRanks) {
  const int size = collective_->size();
  for (const size_t n : {0, 1, 3, 1000, 100003}) {
    std::vector<float> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = (collective_->rank() + 1.f) * (i % 7);
    ASSERT_OK(collective_->AllReduce(v.data(), n));
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(v[i], size * (size + 1) / 2 * static_cast<float>(i % 7));
    }
  }
}

TEST_F(MpiTest, Operations_Several_MayBeAwaitedByTheLast) {
  std::vector<std::vector<float>> v(20, std::vector<float>(5000, 1));
  std::vector<Collective::Ticket> tickets(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    ASSERT_OK(
        collective_->StartAllReduce(v[i].data(), v[i].size(), &tickets[i]));
  }
  ASSERT_OK(collective_->Wait(tickets.back()));
  for (const auto& one : v) {
    EXPECT_EQ(one, std::vector<float>(5000, collective_->size()));
  }
  ASSERT_OK(collective_->Wait(tickets.front()));
  EXPECT_EQ(collective_->Wait(tickets.back() + 1).code(),
            Code::kInvalidArgument);
}

TEST_F(MpiTest, BroadcastAndAllGather_EveryRoot_ReachEveryRank) {
  const int size = collective_->size();
  for (int root = 0; root < size; ++root) {
    int value = collective_->rank();
    ASSERT_OK(collective_->Broadcast(&value, sizeof(value), root));
    EXPECT_EQ(value, root);
  }
  EXPECT_FALSE(collective_->Broadcast(nullptr, 0, size).ok());
  const int mine = 10 * collective_->rank();
  std::vector<int> all(size);
  ASSERT_OK(collective_->AllGather(&mine, sizeof(mine), all.data()));
  for (int r = 0; r < size; ++r) EXPECT_EQ(all[r], 10 * r);
  ASSERT_OK(collective_->AllGather(nullptr, 0, nullptr));
  ASSERT_OK(collective_->Barrier());
}

std::vector<double> Train(const CompileOptions& options,
                          std::vector<float>* weights) {
  const auto model = TinyModel(SGD(0.1f, 0.9f), 0, options);
  FitOptions fit = Quiet(8);
  fit.steps_per_epoch = 2;
  fit.check_replicas_every = 1;
  const auto history =
      model->Fit(Points(50).Shuffle(3).Repeat(20).Batch(15), fit);
  EXPECT_OK(history.status());
  *weights = WeightsOf(model.get());
  return history.ok() ? history->Values("loss") : std::vector<double>();
}

TEST_F(MpiTest, Training_SeveralWorkers_FollowsOneWithTheWholeBatch) {
  std::vector<float> weights, alone;
  const std::vector<double> losses = Train(Strategy(), &weights);
  CompileOptions options;
  const std::vector<double> expected = Train(options, &alone);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-4) << i;
  }
  std::vector<float> all(weights.size() * collective_->size());
  ASSERT_OK(collective_->AllGather(weights.data(),
                                   weights.size() * sizeof(float), all.data()));
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], weights[i % weights.size()]);
  }
}

TEST_F(MpiTest, TfConfig_ContradictsMpi_ErrorNamesIt) {
  const auto other = MultiWorkerMirroredStrategy::FromEnvironment(
      OverMpi(), MapEnvironment(Variables{
                     {"TF_CONFIG",
                      "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                      "\"task\": {\"type\": \"worker\", \"index\": 1}}"}}));
  EXPECT_EQ(other.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(other.status(), "worker 1 of 2"));
}

TEST_F(MpiTest, HalfPrecisionAndReform_OverMpi_AreRefused) {
  StrategyOptions options = OverMpi();
  options.communication.wire_dtype = WireDtype::kBfloat16;
  EXPECT_EQ(
      MultiWorkerMirroredStrategy::FromEnvironment(options).status().code(),
      Code::kInvalidArgument);
  EXPECT_EQ(collective_->Reform().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringlet
