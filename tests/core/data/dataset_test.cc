#include "ringlet/dataset.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "core/data/dataset_loader.h"
#include "core/data/dataset_parts.h"
#include "core/data/permutation.h"

namespace ringlet {
namespace {

Dataset Numbers(int64_t n) {
  static std::vector<int32_t> values = [] {
    std::vector<int32_t> v(100000);
    std::iota(v.begin(), v.end(), 0);
    return v;
  }();
  return Dataset(MemorySource({DType::kInt32, {1}}, values.data(),
                              {DType::kInt32, {}}, values.data(), n));
}

using Indices = std::vector<int64_t>;

// The examples of the batch at `at`, that rank `rank` gets.
Indices Part(const Dataset& d, const DataPosition& at, int rank, int world) {
  const BatchPlan plan = d.parts().Plan(at, rank, world);
  Indices part;
  for (int64_t i = 0; i < plan.count; ++i) {
    part.push_back(d.parts().ExampleAt(at, plan.first + i, rank, world));
  }
  return part;
}

// All batches of one rank from the beginning to the first end.
std::vector<Indices> Batches(const Dataset& d, int rank = 0, int world = 1) {
  EXPECT_OK(d.status());
  std::vector<Indices> batches;
  DataPosition at;
  for (bool last = false; !last;) {
    const BatchPlan plan = d.parts().Plan(at, rank, world);
    batches.push_back(Part(d, at, rank, world));
    at = plan.next;
    last = plan.last;
  }
  return batches;
}

using Lists = std::vector<Indices>;

TEST(DatasetTest, Batch_ShortRemainder_IsKeptOrDropped) {
  EXPECT_EQ(Batches(Numbers(5).Batch(2)), (Lists{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(Batches(Numbers(5).Batch(2, /*drop_remainder=*/true)),
            (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(Batches(Numbers(4).Batch(2, /*drop_remainder=*/true)),
            (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(Numbers(5).Batch(2).steps(1), 3);
  EXPECT_EQ(Numbers(5).Batch(2, /*drop_remainder=*/true).steps(1), 2);
}

TEST(DatasetTest, Repeat_BeforeBatchOrAfter_CrossesPassesOrDoesNot) {
  EXPECT_EQ(Batches(Numbers(3).Repeat(2).Batch(2)),
            (Lists{{0, 1}, {2, 0}, {1, 2}}));
  EXPECT_EQ(Batches(Numbers(3).Batch(2).Repeat(2)),
            (Lists{{0, 1}, {2}, {0, 1}, {2}}));
  EXPECT_EQ(Batches(Numbers(3).Repeat(3).Batch(2, /*drop_remainder=*/true)),
            (Lists{{0, 1}, {2, 0}, {1, 2}, {0, 1}}));
  EXPECT_EQ(Batches(Numbers(3).Batch(2, /*drop_remainder=*/true).Repeat(2)),
            (Lists{{0, 1}, {0, 1}}));
  for (const Dataset& d :
       {Numbers(3).Repeat(2).Batch(2), Numbers(3).Batch(2).Repeat(2),
        Numbers(3).Repeat(3).Batch(2, /*drop_remainder=*/true),
        Numbers(3).Batch(2, /*drop_remainder=*/true).Repeat(2),
        Numbers(7).Batch(3)}) {
    EXPECT_EQ(d.steps(1), static_cast<int64_t>(Batches(d).size()));
  }
  EXPECT_EQ(Numbers(3).Repeat().Batch(2).steps(1), -1);
}

TEST(DatasetTest, Data_AfterTheEnd_BeginAgain) {
  const Dataset d = Numbers(5).Batch(2, /*drop_remainder=*/true).Shuffle(1);
  DataPosition at;
  for (int i = 0; i < 2; ++i) at = d.parts().Plan(at, 0, 1).next;
  EXPECT_EQ(at, (DataPosition{1, 0}));
}

// The rebatching rules of tf.distribute.
TEST(DatasetTest, Batch_SeveralWorkers_IsCutAsInTensorFlow) {
  EXPECT_EQ(Batches(Numbers(12).Batch(4), 0, 2),
            (Lists{{0, 1}, {4, 5}, {8, 9}}));
  EXPECT_EQ(Batches(Numbers(12).Batch(4), 1, 2),
            (Lists{{2, 3}, {6, 7}, {10, 11}}));
  EXPECT_EQ(Batches(Numbers(6).Batch(4), 1, 2), (Lists{{2, 3}, {5}}));
  EXPECT_EQ(Batches(Numbers(4).Batch(4), 3, 5), (Lists{{3}}));
  EXPECT_EQ(Batches(Numbers(4).Batch(4), 4, 5), (Lists{{}}));
  EXPECT_EQ(Batches(Numbers(8).Batch(4), 1, 3), (Lists{{2, 3}, {6, 7}}));
  EXPECT_EQ(Batches(Numbers(8).Batch(4), 2, 3), (Lists{{}, {}}));
}

TEST(DatasetTest, SkipTakeAndShard_InAnyOrder_ChooseTheExamples) {
  EXPECT_EQ(Batches(Numbers(10).Skip(7).Batch(9)), (Lists{{7, 8, 9}}));
  EXPECT_EQ(Batches(Numbers(10).Take(2).Batch(9)), (Lists{{0, 1}}));
  EXPECT_EQ(Batches(Numbers(10).Shard(3, 1).Batch(9)), (Lists{{1, 4, 7}}));
  EXPECT_EQ(Batches(Numbers(10).Skip(1).Shard(2, 1).Shard(2, 0).Batch(9)),
            (Lists{{2, 6}}));
  EXPECT_EQ(Batches(Numbers(10).Shard(2, 0).Skip(1).Take(3).Batch(9)),
            (Lists{{2, 4, 6}}));
  EXPECT_EQ(Numbers(2).Shard(5, 3).Batch(1).status().code(),
            Code::kInvalidArgument);
}

TEST(DatasetTest, Map_CalledTwice_ScalesWhatTheFirstMade) {
  const Scale scale = Numbers(1).Map(Scale(2, 1)).Map(Scale(3, 5)).scale();
  EXPECT_EQ(scale.factor, 6);
  EXPECT_EQ(scale.offset, 8);  // 3 (2 x + 1) + 5
}

// --- AutoShardPolicy ------------------------------------------------------

// Numbers from 0 on, in files of these sizes.
Dataset Files(const Indices& sizes) {
  class Source final : public ringlet::Source {
   public:
    explicit Source(const Indices& sizes) {
      for (const int64_t size : sizes) {
        starts_.push_back(size_);
        size_ += size;
      }
    }
    int64_t size() const override { return size_; }
    ExampleSpec x() const override { return {DType::kFloat32, {1}}; }
    ExampleSpec y() const override { return {DType::kInt32, {}}; }
    std::string name() const override { return "files"; }
    Indices FileStarts() const override { return starts_; }
    Status Read(const int64_t*, int, void*, void*) override { return Status(); }

   private:
    Indices starts_;
    int64_t size_ = 0;
  };
  return Dataset(std::make_shared<Source>(sizes));
}

constexpr AutoShardPolicy kPolicies[] = {
    AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
    AutoShardPolicy::kOff};

TEST(AutoShardTest, DataPolicy_GlobalBatch_IsCutAsInTensorFlow) {
  for (const Dataset& d :
       {Files({6, 6}), Files({6, 6}).AutoShard(AutoShardPolicy::kData),
        Numbers(12).AutoShard(AutoShardPolicy::kAuto)}) {
    EXPECT_EQ(Batches(d.Batch(4), 0, 2), (Lists{{0, 1}, {4, 5}, {8, 9}}));
    EXPECT_EQ(Batches(d.Batch(4), 1, 2), (Lists{{2, 3}, {6, 7}, {10, 11}}));
  }
}

TEST(AutoShardTest, FilePolicy_SeveralFiles_AssignsAndRebatchesAsTensorFlow) {
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto}) {
    const Dataset d = Files({6, 6}).AutoShard(policy).Batch(4);
    EXPECT_EQ(Batches(d, 0, 2), (Lists{{0, 1}, {2, 3}, {4}, {5}}));
    EXPECT_EQ(Batches(d, 1, 2), (Lists{{6, 7}, {8, 9}, {10}, {11}}));
    // Files 0 and 2, and file 1.
    const Dataset three = Files({1, 2, 4}).AutoShard(policy).Batch(4);
    EXPECT_EQ(Batches(three, 0, 2), (Lists{{0, 3}, {4, 5}, {6}}));
    EXPECT_EQ(Batches(three, 1, 2), (Lists{{1}, {2}, {}}));
  }
}

// The remainders of TensorFlow's rebatching; each worker has a file of its own.
TEST(AutoShardTest, FilePolicy_BatchNotDivisible_IsCutIntoPiecesRoundedUp) {
  const auto first = [](int64_t n, int world) {
    return Batches(
        Files(Indices(world, n)).AutoShard(AutoShardPolicy::kFile).Batch(4), 0,
        world);
  };
  EXPECT_EQ(first(6, 2), (Lists{{0, 1}, {2, 3}, {4}, {5}}));
  EXPECT_EQ(first(4, 5), (Lists{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(first(8, 3), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(first(7, 3), (Lists{{0, 1}, {2, 3}, {4}, {5}, {6}}));
}

TEST(AutoShardTest, OffPolicy_TwoWorkers_EachHasAllTheData) {
  const Dataset d = Numbers(6).AutoShard(AutoShardPolicy::kOff).Batch(4);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(Batches(d, rank, 2), (Lists{{0, 1}, {2, 3}, {4}, {5}}));
  }
  EXPECT_EQ(d.parts().Plan({0, 0}, 0, 2).global_count, 4);
  EXPECT_EQ(d.parts().Plan({0, 6}, 0, 2).global_count, 2);
  EXPECT_NE(Batches(d.Shuffle(1), 0, 2), Batches(d.Shuffle(1), 1, 2));
}

TEST(AutoShardTest, AnyPolicy_OneWorker_HasAllTheData) {
  for (const auto policy : kPolicies) {
    for (const Dataset& d : {Files({5, 6}), Numbers(11)}) {
      const Dataset data =
          d.Shuffle(5).Repeat(2).Batch(4, /*drop_remainder=*/true);
      EXPECT_EQ(Batches(data.AutoShard(policy)), Batches(data));
    }
  }
}

TEST(AutoShardTest, FilePolicy_DropRemainder_EachWorkerDropsItsOwn) {
  const Dataset d = Files({6, 3})
                        .AutoShard(AutoShardPolicy::kFile)
                        .Batch(4, /*drop_remainder=*/true);
  EXPECT_EQ(Batches(d, 0, 2), (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(Batches(d, 1, 2), (Lists{{}, {}}));
  EXPECT_EQ(Files({3, 3})
                .AutoShard(AutoShardPolicy::kFile)
                .Batch(4, /*drop_remainder=*/true)
                .parts()
                .CheckStart({0, 0}, 2)
                .code(),
            Code::kInvalidArgument);
}

TEST(AutoShardTest, FilePolicy_SkipTakeOrShard_CountsFilesFirst) {
  const Dataset d = Files({3, 3, 4}).AutoShard(AutoShardPolicy::kFile);
  EXPECT_EQ(Batches(d.Skip(1).Take(7).Batch(8), 0, 2), (Lists{{1, 2}, {6, 7}}));
  EXPECT_EQ(Batches(d.Skip(1).Take(7).Batch(8), 1, 2), (Lists{{3, 4}, {5}}));
  EXPECT_EQ(Batches(d.Shard(2, 1).Batch(8), 0, 2), (Lists{{1, 7}, {9}}));
  EXPECT_EQ(Batches(d.Shard(2, 1).Batch(8), 1, 2), (Lists{{3}, {5}}));
}

TEST(AutoShardTest, FilePolicy_FewerFilesThanWorkers_IsRefusedWithAdvice) {
  const auto check = [](const Dataset& d, AutoShardPolicy policy, int world) {
    return d.AutoShard(policy).Batch(2).parts().CheckStart({0, 0}, world);
  };
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto}) {
    EXPECT_OK(check(Files({3, 3}), policy, 2));
    EXPECT_STREQ(
        check(Files({3, 3}), policy, 3).message(),
        "files: 2 files cannot be divided among 3 replicas; give at least one "
        "file for each, or take the policy DATA (auto_shard_policy), which "
        "divides the examples");
  }
  EXPECT_FALSE(check(Numbers(9), AutoShardPolicy::kFile, 2).ok());
  EXPECT_FALSE(check(Files({9}), AutoShardPolicy::kFile, 2).ok());
  EXPECT_OK(check(Files({9}), AutoShardPolicy::kAuto, 2));
  EXPECT_OK(check(Files({3, 3}), AutoShardPolicy::kData, 3));
  EXPECT_OK(check(Files({3, 3}), AutoShardPolicy::kOff, 3));
}

TEST(AutoShardTest, CheckStart_PositionOfNoStep_IsRefused) {
  const Dataset d = Files({6, 6}).AutoShard(AutoShardPolicy::kFile).Batch(4);
  EXPECT_OK(d.parts().CheckStart({5, 6}, 2));  // step 4 of 4
  EXPECT_FALSE(d.parts().CheckStart({0, 8}, 2).ok());
  EXPECT_FALSE(d.parts().CheckStart({0, 3}, 2).ok());
  EXPECT_FALSE(d.parts().CheckStart({0, -2}, 2).ok());
  EXPECT_FALSE(d.parts().CheckStart({-1, 0}, 2).ok());
}

// Counts the uses of each example in every pass, by rank, and compares the
// plans of all ranks on the way.
void Audit(const Dataset& d, int world, int64_t n, int passes, int64_t uses) {
  ASSERT_OK(d.parts().CheckStart({0, 0}, world));
  std::vector<std::vector<int>> used(passes + 1, std::vector<int>(n));
  DataPosition at;
  int64_t steps = 0;
  while (at.pass < passes) {
    ASSERT_OK(d.parts().CheckStart(at, world));
    const BatchPlan chief = d.parts().Plan(at, 0, world);
    int64_t sum = 0;
    for (int rank = 0; rank < world; ++rank) {
      const BatchPlan plan = d.parts().Plan(at, rank, world);
      ASSERT_EQ(plan.next, chief.next);
      ASSERT_EQ(plan.last, chief.last);
      ASSERT_EQ(plan.global_count, chief.global_count);
      ASSERT_LE(plan.count, d.parts().LargestPart(world));
      sum += plan.count;
      for (int64_t i = 0; i < plan.count; ++i) {
        const int64_t k = plan.first + i;
        // With kData a batch may cross the border of two passes.
        const int64_t pass =
            d.parts().policy == AutoShardPolicy::kData || world == 1
                ? at.pass + (at.used + k) / n
                : at.pass;
        const int64_t example = d.parts().ExampleAt(at, k, rank, world);
        ASSERT_TRUE(example >= 0 && example < n);
        ++used[std::min<int64_t>(pass, passes)][example];
      }
    }
    ASSERT_GE(sum, 1);
    ASSERT_EQ(sum, chief.global_count);
    ++steps;
    at = chief.next;
    ASSERT_EQ(chief.last, !d.parts().endless() && at.pass == passes);
  }
  if (!d.parts().endless()) {
    EXPECT_EQ(d.steps(world), steps);
  }
  for (int pass = 0; pass < passes; ++pass) {
    ASSERT_EQ(used[pass], std::vector<int>(n, static_cast<int>(uses)));
  }
}

TEST(AutoShardTest, AnyPolicy_AnyFilesAndWorkers_UsesEachExampleOnceAPass) {
  uint64_t number = 0;
  for (int world = 1; world <= 9; ++world) {
    for (const Indices& sizes :
         {Indices{7, 1, 12, 0, 3, 5, 2, 9, 4}, Indices(9, 5),
          Indices{1, 1, 1, 1, 1, 1, 1, 1, 61, 2, 3}}) {
      const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      for (const auto policy : kPolicies) {
        const int64_t uses =
            policy == AutoShardPolicy::kOff && world > 1 ? world : 1;
        for (const int64_t batch : {1, 4, 7, 64}) {
          if (!RunsCase(number++)) continue;
          const Dataset d = Files(sizes).AutoShard(policy);
          for (const Dataset& order : {d, d.Shuffle(3)}) {
            Audit(order.Batch(batch), world, n, 1, uses);
            Audit(order.Batch(batch).Repeat(3), world, n, 3, uses);
            Audit(order.Repeat(3).Batch(batch), world, n, 3, uses);
            Audit(order.Repeat().Batch(batch), world, n, 3, uses);
          }
          if (HasFatalFailure()) {
            FAIL() << "world " << world << ", policy "
                   << static_cast<int>(policy) << ", batch " << batch;
          }
        }
      }
    }
  }
}

TEST(AutoShardTest, FilePolicy_Shuffled_WorkerReadsItsOwnFilesOnly) {
  const Dataset d = Files({7, 1, 12, 3, 5})
                        .AutoShard(AutoShardPolicy::kFile)
                        .Shuffle(2)
                        .Batch(6);
  std::set<int64_t> seen;
  for (const Indices& batch : Batches(d, 1, 2)) {
    seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen, (std::set<int64_t>{7, 20, 21, 22}));
}

TEST(AutoShardTest, Shuffle_OwnData_DiffersByPassAndSeed) {
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kOff}) {
    const Dataset d = Files({40, 40}).AutoShard(policy);
    const auto part = [](const Dataset& data, int64_t pass) {
      return Part(data.Batch(60), {pass, 0}, 1, 2);
    };
    EXPECT_EQ(part(d.Shuffle(1), 0), part(d.Shuffle(1), 0));
    EXPECT_NE(part(d.Shuffle(1), 0), part(d.Shuffle(1), 1));
    EXPECT_NE(part(d.Shuffle(1), 0), part(d.Shuffle(2), 0));
  }
}

TEST(AutoShardTest, Source_FilesOutOfOrder_IsRefused) {
  EXPECT_EQ(Files({5, -2, 9}).Batch(1).status().code(), Code::kInvalidArgument);
}

// The number of ranks may change in the middle of a pass.
TEST(DatasetTest, Plan_WorldChangesInAPass_UsesEachExampleOnce) {
  for (int64_t n : {1, 2, 3, 5, 64, 101, 1000}) {
    for (int64_t batch : {1, 4, 7, 64}) {
      const Dataset d = Numbers(n).Shuffle(7).Repeat().Batch(batch);
      std::vector<std::multiset<int64_t>> passes(4);
      DataPosition at;
      for (int step = 0; at.pass < 3; ++step) {
        const int world = 1 + step % 5;
        for (int rank = 0; rank < world; ++rank) {
          const BatchPlan plan = d.parts().Plan(at, rank, world);
          for (int64_t i = 0; i < plan.count; ++i) {
            const int64_t pass = at.pass + (at.used + plan.first + i) / n;
            if (pass < 4)
              passes[pass].insert(
                  d.parts().ExampleAt(at, plan.first + i, rank, world));
          }
        }
        at = d.parts().Plan(at, 0, world).next;
      }
      for (int pass = 0; pass < 3; ++pass) {
        ASSERT_EQ(static_cast<int64_t>(passes[pass].size()), n);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(passes[pass].count(i), 1u);
      }
    }
  }
}

TEST(DatasetTest, Permute_OtherSeedOrPass_Differs) {
  const auto order = [](uint64_t seed, int64_t pass) {
    Indices v;
    for (int64_t i = 0; i < 100; ++i) v.push_back(Permute(seed, pass, 100, i));
    return v;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Each example is at each place equally often, by a chi-squared test over
// seeds.
TEST(DatasetTest, Permute_ManySeeds_IsUniform) {
  for (int64_t n : {2, 3, 5, 10}) {
    const int trials = 20000;
    std::vector<int> counts(static_cast<size_t>(n * n));
    for (int seed = 0; seed < trials; ++seed) {
      for (int64_t i = 0; i < n; ++i) {
        ++counts[static_cast<size_t>(
            i * n + Permute(static_cast<uint64_t>(seed), 0, n, i))];
      }
    }
    const double expected = static_cast<double>(trials) / n;
    double chi = 0;
    for (int c : counts) chi += (c - expected) * (c - expected) / expected;
    const double freedom = static_cast<double>((n - 1) * (n - 1));
    EXPECT_LT(chi, freedom + 6 * std::sqrt(2 * freedom) + 6) << n;
  }
}

TEST(DatasetTest, Counts_ProductBeyondInt64_AreRefusedOrEmpty) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Numbers(5).Repeat(kMax).Batch(2).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Numbers(5).Repeat(int64_t{1} << 58).Batch(2).status().code(),
            Code::kInvalidArgument);
  const Dataset many = Numbers(4).Repeat(int64_t{1} << 58).Batch(2);
  EXPECT_OK(many.status());
  EXPECT_EQ(many.steps(1), int64_t{1} << 59);
  EXPECT_FALSE(many.parts().CheckStart({kMax, 0}, 1).ok());

  const Dataset one = Numbers(5).Shard(kMax, 3).Shard(kMax, 0).Batch(2);
  EXPECT_EQ(Batches(one), (Lists{{3}}));
  EXPECT_EQ(Numbers(5).Shard(kMax, kMax - 1).Shard(kMax, 7).size(), 0);
}

TEST(DatasetTest, Status_InvalidCalls_KeepsTheFirstError) {
  const auto code = [](const Dataset& d) { return d.status().code(); };
  EXPECT_EQ(code(Numbers(5).Batch(0)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(2).Batch(2)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat(0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat(2).Repeat(3).Batch(1)),
            Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(int64_t{1} << 31)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Shard(0, 0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Take(-1).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Shuffle(1).Take(2).Batch(1)),
            Code::kInvalidArgument);
  // In tf.data these calls count batches, or the examples of several passes.
  EXPECT_EQ(code(Numbers(5).Batch(2).Take(2)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(2).Shard(2, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat(2).Skip(6).Batch(1)),
            Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(6, /*drop_remainder=*/true)),
            Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(6, /*drop_remainder=*/true).Repeat()),
            Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat().Batch(6, /*drop_remainder=*/true)),
            Code::kOk);
  EXPECT_EQ(code(Dataset()), Code::kInvalidArgument);
  const Status first = Numbers(5).Batch(0).Shard(0, 0).status();
  EXPECT_NE(std::strstr(first.message(), "Batch(0)"), nullptr);
}

TEST(DatasetTest, LargestPart_DataLessThanABatch_IsBoundedByTheData) {
  constexpr int64_t kBatch = 1 << 24;
  const Dataset d = Numbers(600);
  EXPECT_EQ(d.Batch(kBatch).parts().LargestPart(1), 600);
  EXPECT_EQ(d.Batch(kBatch).parts().LargestPart(7), 86);
  EXPECT_EQ(d.Batch(kBatch).Repeat().parts().LargestPart(1), 600);
  EXPECT_EQ(d.Repeat(3).Batch(kBatch).parts().LargestPart(4), 450);
  EXPECT_EQ(d.Repeat().Batch(kBatch).parts().LargestPart(4), kBatch / 4);
  EXPECT_EQ(d.Batch(64).parts().LargestPart(4), 16);
  const auto by = [](AutoShardPolicy policy) {
    return Files({6, 100, 1}).AutoShard(policy).Batch(kBatch);
  };
  EXPECT_EQ(by(AutoShardPolicy::kFile).parts().LargestPart(2), 50);
  EXPECT_EQ(by(AutoShardPolicy::kOff).parts().LargestPart(2), 54);
  EXPECT_EQ(by(AutoShardPolicy::kData).parts().LargestPart(2), 54);
  EXPECT_EQ(Numbers(5)
                .AutoShard(AutoShardPolicy::kOff)
                .OwnExamples({5, 40, 13})
                .Batch(kBatch)
                .parts()
                .LargestPart(3),
            14);
}

TEST(DatasetTest, Concatenate_TwoSources_ReadsAsOne) {
  const auto a = Numbers(3).source(), b = Numbers(2).source();
  const Dataset d = Concatenate({a, b});
  EXPECT_EQ(d.size(), 5);
  EXPECT_EQ(d.source()->FileStarts(), (Indices{0, 3}));
  const int64_t index[] = {4, 0, 2, 3};
  int32_t x[4], y[4];
  ASSERT_OK(d.source()->Read(index, 4, x, y));
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[2], 2);
  EXPECT_EQ(y[3], 0);
}

// Gives way to other threads in the middle of a read.
class YieldingSource final : public Source {
 public:
  int64_t size() const override { return 2; }
  ExampleSpec x() const override { return {DType::kInt32, {64}}; }
  ExampleSpec y() const override { return {DType::kInt32, {0}}; }
  std::string name() const override { return "yields"; }
  Status Read(const int64_t* index, int, void* x, void*) override {
    auto* const to = static_cast<int32_t*>(x);
    for (int i = 0; i < 64; ++i) {
      if (i % 16 == 0) std::this_thread::yield();
      to[i] = static_cast<int32_t>(*index);
    }
    return Status();
  }
};

TEST(DatasetTest, Zip_TwoThreadsRead_EachGetsItsOwnExample) {
  const Dataset part(std::make_shared<YieldingSource>());
  const std::shared_ptr<Source> source = Zip({part, part}, {part}).source();
  std::atomic<int> wrong{0};
  const auto read = [&](int64_t index) {
    std::vector<float> x(128);
    std::vector<double> y(64);
    for (int i = 0; i < 500; ++i) {
      if (!source->Read(&index, 1, x.data(), y.data()).ok()) ++wrong;
      for (const float value : x) wrong += value != static_cast<float>(index);
      for (const double value : y) wrong += value != static_cast<double>(index);
    }
  };
  std::thread other(read, 1);
  read(0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

// --- BatchLoader ----------------------------------------------------------

struct Buffers {
  std::vector<float> x;
  std::vector<int32_t> y;
  DatasetLoader::Options For(const Dataset& d, int world = 1) {
    DatasetLoader::Options o;
    o.dataset = d;
    o.cursor.world = world;
    o.x_shapes = {d.source()->x().shape};
    o.outputs.resize(1);
    x.assign(static_cast<size_t>(d.parts().LargestPart(world) *
                                 o.x_shapes[0].elements()),
             -1);
    y.assign(static_cast<size_t>(d.parts().LargestPart(world)), -1);
    o.x = x.data();
    o.y = y.data();
    return o;
  }
};

TEST(BatchLoaderTest, Next_InTheBackgroundOrNot_GivesTheSameBatches) {
  const Dataset d = Numbers(23).Map(Scale(2, 1)).Shuffle(4).Repeat(2).Batch(5);
  std::vector<std::vector<float>> seen[2];
  for (int background = 0; background < 2; ++background) {
    Buffers buffers;
    DatasetLoader::Options options = buffers.For(d);
    options.background = background == 1;
    std::unique_ptr<BatchLoader> loader;
    ASSERT_OK(DatasetLoader::Open(options, &loader));
    for (int i = 0; i < 25; ++i) {
      Batch b;
      ASSERT_OK(loader->Next(&b));
      seen[background].emplace_back(b.x, b.x + b.count);
      for (int64_t k = 0; k < b.count; ++k) {
        EXPECT_EQ(b.x[k], 2 * static_cast<const int32_t*>(b.y)[k] + 1);
      }
      EXPECT_EQ(b.last, i % 10 == 9) << i;
    }
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(BatchLoaderTest, Open_AtAPosition_ContinuesFromThere) {
  const Dataset d = Numbers(23).Shuffle(4).Repeat().Batch(5);
  Buffers one, two;
  std::unique_ptr<BatchLoader> whole, rest;
  ASSERT_OK(DatasetLoader::Open(one.For(d), &whole));
  Batch a, b;
  for (int i = 0; i < 7; ++i) ASSERT_OK(whole->Next(&a));
  DatasetLoader::Options options = two.For(d);
  options.start = a.next;
  ASSERT_OK(DatasetLoader::Open(options, &rest));
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK(whole->Next(&a));
    ASSERT_OK(rest->Next(&b));
    EXPECT_TRUE(std::equal(a.x, a.x + a.count, b.x));
  }
}

Status FirstError(const Dataset& d, int64_t classes, bool floats = false) {
  Buffers buffers;
  DatasetLoader::Options options = buffers.For(d);
  options.outputs[0].num_classes = classes;
  options.outputs[0].classes = !floats;
  std::unique_ptr<BatchLoader> loader;
  const Status opened = DatasetLoader::Open(options, &loader);
  if (!opened.ok()) return opened;
  for (int i = 0; i < 10; ++i) {
    Batch b;
    const Status s = loader->Next(&b);
    if (!s.ok()) {
      EXPECT_EQ(loader->Next(&b).code(), s.code());  // the error stays
      return s;
    }
  }
  return Status();
}

TEST(BatchLoaderTest, Next_WithoutExamples_ReadsTheLabels) {
  const Dataset numbers = Numbers(7);
  const Dataset both =
      Concatenate({numbers.source(), Numbers(3).source()}).Batch(10);
  int32_t y[10] = {};
  DatasetLoader::Options options;
  options.dataset = both;
  options.x_shapes = {Shape{1}};
  options.outputs.resize(1);
  options.read_examples = false;
  options.background = false;
  options.y = y;
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(DatasetLoader::Open(options, &loader));
  Batch batch;
  ASSERT_OK(loader->Next(&batch));
  EXPECT_EQ(batch.x, nullptr);
  EXPECT_EQ(static_cast<const int32_t*>(batch.y)[6], 6);
  EXPECT_EQ(static_cast<const int32_t*>(batch.y)[9], 2);
  double least = 0, largest = 0;
  // the range is unknown
  EXPECT_FALSE(both.source()->XRange(&least, &largest));
}

TEST(BatchLoaderTest, Next_LabelOutsideTheClasses_ErrorNamesIt) {
  EXPECT_OK(FirstError(Numbers(10).Batch(4), 10));
  const Status s = FirstError(Numbers(10).Batch(4), 9);
  EXPECT_EQ(s.code(), Code::kCorruption);
  EXPECT_STREQ(s.message(),
               "memory: example 9: label 9 is not a class number from 0 to 8; "
               "give the model's last layer more units, correct the labels, or "
               "leave them out by the loss's ignore_class");
  static const float halves[] = {1, 0.5f};
  const Dataset d(MemorySource({DType::kFloat32, {1}}, halves,
                               {DType::kFloat32, {}}, halves, 2));
  EXPECT_NE(std::strstr(FirstError(d.Batch(2), 3).message(), "example 1"),
            nullptr);
  EXPECT_OK(FirstError(d.Batch(2), 0, /*floats=*/true));
}

TEST(BatchLoaderTest, Next_DataNotFinite_ErrorNamesIt) {
  static const float x[] = {1, 2, 3, NAN, 5, 6};
  static const float y[] = {0, INFINITY, 1};
  const Dataset bad_x(
      MemorySource({DType::kFloat32, {2}}, x, {DType::kFloat32, {}}, y, 3));
  EXPECT_NE(std::strstr(FirstError(bad_x.Skip(1).Batch(1), 3).message(),
                        "example 1, value 1 is nan"),
            nullptr);
  const Dataset bad_y(
      MemorySource({DType::kFloat32, {1}}, x, {DType::kFloat32, {}}, y, 3));
  EXPECT_NE(
      std::strstr(FirstError(bad_y.Batch(2), 0, /*floats=*/true).message(),
                  "example 1: target inf"),
      nullptr);
}

TEST(BatchLoaderTest, Open_ShapesThatDoNotFit_IsRefused) {
  Buffers buffers;
  const Dataset d = Numbers(10).Batch(4);
  std::unique_ptr<BatchLoader> loader;
  DatasetLoader::Options options = buffers.For(d);
  options.x_shapes = {Shape{2}};
  EXPECT_EQ(DatasetLoader::Open(options, &loader).code(),
            Code::kInvalidArgument);
  options = buffers.For(d);
  options.outputs[0].count = 10;
  options.outputs[0].classes = false;
  EXPECT_NE(std::strstr(DatasetLoader::Open(options, &loader).message(),
                        "SparseCategoricalCrossentropy"),
            nullptr);
  options = buffers.For(d);
  options.start = {0, 10};
  EXPECT_FALSE(DatasetLoader::Open(options, &loader).ok());
}

}  // namespace
}  // namespace ringlet
