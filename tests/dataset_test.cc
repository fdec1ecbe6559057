#include "core/dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "core/batch_loader.h"

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

// The examples of the batch at `at`, as rank `rank` sees it.
Indices Part(const Dataset& d, const DataPosition& at, int rank, int world) {
  const BatchPlan plan = d.Plan(at, rank, world);
  Indices part;
  for (int64_t i = 0; i < plan.count; ++i) {
    part.push_back(d.ExampleAt(at, plan.first + i));
  }
  return part;
}

// All batches of one rank from the beginning to the first end.
std::vector<Indices> Batches(const Dataset& d, int rank = 0, int world = 1) {
  EXPECT_TRUE(d.status().ok()) << d.status().message();
  std::vector<Indices> batches;
  DataPosition at;
  for (bool last = false; !last;) {
    const BatchPlan plan = d.Plan(at, rank, world);
    batches.push_back(Part(d, at, rank, world));
    at = plan.next;
    last = plan.last;
  }
  return batches;
}

using Lists = std::vector<Indices>;

TEST(DatasetTest, BatchesEndShortOrAreDropped) {
  EXPECT_EQ(Batches(Numbers(5).Batch(2)), (Lists{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(Batches(Numbers(5).Batch(2, true)), (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(Batches(Numbers(4).Batch(2, true)), (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(Numbers(5).Batch(2).steps(), 3);
  EXPECT_EQ(Numbers(5).Batch(2, true).steps(), 2);
}

TEST(DatasetTest, RepeatBeforeBatchCrossesPassesAndAfterItDoesNot) {
  EXPECT_EQ(Batches(Numbers(3).Repeat(2).Batch(2)),
            (Lists{{0, 1}, {2, 0}, {1, 2}}));
  EXPECT_EQ(Batches(Numbers(3).Batch(2).Repeat(2)),
            (Lists{{0, 1}, {2}, {0, 1}, {2}}));
  EXPECT_EQ(Batches(Numbers(3).Repeat(3).Batch(2, true)),
            (Lists{{0, 1}, {2, 0}, {1, 2}, {0, 1}}));
  EXPECT_EQ(Batches(Numbers(3).Batch(2, true).Repeat(2)),
            (Lists{{0, 1}, {0, 1}}));
  for (const Dataset& d :
       {Numbers(3).Repeat(2).Batch(2), Numbers(3).Batch(2).Repeat(2),
        Numbers(3).Repeat(3).Batch(2, true),
        Numbers(3).Batch(2, true).Repeat(2), Numbers(7).Batch(3)}) {
    EXPECT_EQ(d.steps(), static_cast<int64_t>(Batches(d).size()));
  }
  EXPECT_EQ(Numbers(3).Repeat().Batch(2).steps(), -1);
}

TEST(DatasetTest, AfterTheEndTheDataBeginAnew) {
  const Dataset d = Numbers(5).Batch(2, true).Shuffle(1);
  DataPosition at;
  for (int i = 0; i < 2; ++i) at = d.Plan(at, 0, 1).next;
  EXPECT_EQ(at, (DataPosition{1, 0}));
}

// keras-semantics: the rebatching rules of tf.distribute.
TEST(DatasetTest, GlobalBatchesAreCutAsTensorFlowCutsThem) {
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

TEST(DatasetTest, SkipTakeAndShardChooseExamples) {
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

// Whatever the worlds, and when they change in the middle of a pass.
TEST(DatasetTest, EveryExampleIsUsedOnceAPass) {
  for (int64_t n : {1, 2, 3, 5, 64, 101, 1000}) {
    for (int64_t batch : {1, 4, 7, 64}) {
      const Dataset d = Numbers(n).Shuffle(7).Repeat().Batch(batch);
      std::vector<std::multiset<int64_t>> passes(4);
      DataPosition at;
      for (int step = 0; at.pass < 3; ++step) {
        const int world = 1 + step % 5;
        for (int rank = 0; rank < world; ++rank) {
          const BatchPlan plan = d.Plan(at, rank, world);
          for (int64_t i = 0; i < plan.count; ++i) {
            const int64_t pass =
                at.pass + (at.used + plan.first + i) / n;
            if (pass < 4) passes[pass].insert(d.ExampleAt(at, plan.first + i));
          }
        }
        at = d.Plan(at, 0, world).next;
      }
      for (int pass = 0; pass < 3; ++pass) {
        ASSERT_EQ(static_cast<int64_t>(passes[pass].size()), n);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(passes[pass].count(i), 1u);
      }
    }
  }
}

TEST(DatasetTest, ShufflesDifferWithSeedAndPassAndRepeat) {
  const auto order = [](uint64_t seed, int64_t pass) {
    Indices v;
    for (int64_t i = 0; i < 100; ++i) v.push_back(Permute(seed, pass, 100, i));
    return v;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Each example at each place equally often: chi-squared over seeds.
TEST(DatasetTest, ShufflesAreFair) {
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

TEST(DatasetTest, TheFirstErrorIsKept) {
  const auto code = [](const Dataset& d) { return d.status().code(); };
  EXPECT_EQ(code(Numbers(5).Batch(0)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(2).Batch(2)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat(0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Shard(0, 0).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Take(-1).Batch(1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Shuffle(1).Take(2).Batch(1)),
            Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(6, true)), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Batch(6, true).Repeat()), Code::kInvalidArgument);
  EXPECT_EQ(code(Numbers(5).Repeat().Batch(6, true)), Code::kOk);
  EXPECT_EQ(code(Dataset()), Code::kInvalidArgument);
  const Status first = Numbers(5).Batch(0).Shard(0, 0).status();
  EXPECT_NE(std::strstr(first.message(), "Batch(0)"), nullptr);
}

TEST(DatasetTest, ConcatenatedSourcesReadAsOne) {
  const auto a = Numbers(3).source(), b = Numbers(2).source();
  const Dataset d = Concatenate({a, b});
  EXPECT_EQ(d.size(), 5);
  EXPECT_EQ(d.source()->FileStarts(), (Indices{0, 3}));
  const int64_t index[] = {4, 0, 2, 3};
  int32_t x[4], y[4];
  ASSERT_TRUE(d.source()->Read(index, 4, x, y).ok());
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[2], 2);
  EXPECT_EQ(y[3], 0);
}

// --- BatchLoader ----------------------------------------------------------

struct Buffers {
  std::vector<float> x[2];
  std::vector<int32_t> y[2];
  BatchLoader::Options For(const Dataset& d, int world = 1) {
    BatchLoader::Options o;
    o.dataset = d;
    o.world = world;
    o.x_shape = d.source()->x().shape;
    for (int s = 0; s < 2; ++s) {
      x[s].assign(static_cast<size_t>(d.LargestPart(world) *
                                      o.x_shape.elements()),
                  -1);
      y[s].assign(static_cast<size_t>(d.LargestPart(world)), -1);
      o.x[s] = x[s].data();
      o.y[s] = y[s].data();
    }
    return o;
  }
};

TEST(BatchLoaderTest, BackgroundGivesTheSameBatches) {
  const Dataset d =
      Numbers(23).Map(Scale(2, 1)).Shuffle(4).Repeat(2).Batch(5);
  std::vector<std::vector<float>> seen[2];
  for (int background = 0; background < 2; ++background) {
    Buffers buffers;
    BatchLoader::Options options = buffers.For(d);
    options.background = background == 1;
    std::unique_ptr<BatchLoader> loader;
    ASSERT_TRUE(BatchLoader::Open(options, &loader).ok());
    for (int i = 0; i < 25; ++i) {
      Batch b;
      ASSERT_TRUE(loader->Next(&b).ok());
      seen[background].emplace_back(b.x, b.x + b.count);
      for (int64_t k = 0; k < b.count; ++k) {
        EXPECT_EQ(b.x[k], 2 * static_cast<const int32_t*>(b.y)[k] + 1);
      }
      EXPECT_EQ(b.last, i % 10 == 9) << i;
    }
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(BatchLoaderTest, ResumesAtAPosition) {
  const Dataset d = Numbers(23).Shuffle(4).Repeat().Batch(5);
  Buffers one, two;
  std::unique_ptr<BatchLoader> whole, rest;
  ASSERT_TRUE(BatchLoader::Open(one.For(d), &whole).ok());
  Batch a, b;
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(whole->Next(&a).ok());
  BatchLoader::Options options = two.For(d);
  options.start = a.next;
  ASSERT_TRUE(BatchLoader::Open(options, &rest).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(whole->Next(&a).ok());
    ASSERT_TRUE(rest->Next(&b).ok());
    EXPECT_TRUE(std::equal(a.x, a.x + a.count, b.x));
  }
}

Status FirstError(const Dataset& d, int64_t classes, bool floats = false) {
  Buffers buffers;
  BatchLoader::Options options = buffers.For(d);
  options.num_classes = classes;
  options.classes = !floats;
  std::unique_ptr<BatchLoader> loader;
  const Status opened = BatchLoader::Open(options, &loader);
  if (!opened.ok()) return opened;
  for (int i = 0; i < 10; ++i) {
    Batch b;
    const Status s = loader->Next(&b);
    if (!s.ok()) {
      EXPECT_EQ(loader->Next(&b).code(), s.code());  // it stays
      return s;
    }
  }
  return Status();
}

TEST(BatchLoaderTest, LabelsOutsideTheClassesAreNamed) {
  EXPECT_TRUE(FirstError(Numbers(10).Batch(4), 10).ok());
  const Status s = FirstError(Numbers(10).Batch(4), 9);
  EXPECT_EQ(s.code(), Code::kCorruption);
  EXPECT_STREQ(s.message(),
               "memory: example 9: label 9 is not a class number from 0 to 8; "
               "give the model's last layer more units or mend the labels");
  static const float halves[] = {1, 0.5f};
  const Dataset d(MemorySource({DType::kFloat32, {1}}, halves,
                               {DType::kFloat32, {}}, halves, 2));
  EXPECT_NE(std::strstr(FirstError(d.Batch(2), 3).message(), "example 1"),
            nullptr);
  EXPECT_TRUE(FirstError(d.Batch(2), 0, true).ok());
}

TEST(BatchLoaderTest, NaNInTheDataIsNamed) {
  static const float x[] = {1, 2, 3, NAN, 5, 6};
  static const float y[] = {0, INFINITY, 1};
  const Dataset bad_x(MemorySource({DType::kFloat32, {2}}, x,
                                   {DType::kFloat32, {}}, y, 3));
  EXPECT_NE(std::strstr(FirstError(bad_x.Skip(1).Batch(1), 3).message(),
                        "example 1, value 1 is nan"),
            nullptr);
  const Dataset bad_y(MemorySource({DType::kFloat32, {1}}, x,
                                   {DType::kFloat32, {}}, y, 3));
  EXPECT_NE(std::strstr(FirstError(bad_y.Batch(2), 0, true).message(),
                        "example 1: target inf"),
            nullptr);
}

TEST(BatchLoaderTest, ShapesThatDoNotFitAreRefusedAtOnce) {
  Buffers buffers;
  const Dataset d = Numbers(10).Batch(4);
  std::unique_ptr<BatchLoader> loader;
  BatchLoader::Options options = buffers.For(d);
  options.x_shape = {2};
  EXPECT_EQ(BatchLoader::Open(options, &loader).code(),
            Code::kInvalidArgument);
  options = buffers.For(d);
  options.targets = 10;
  options.classes = false;
  EXPECT_NE(std::strstr(BatchLoader::Open(options, &loader).message(),
                        "SparseCategoricalCrossentropy"),
            nullptr);
  options = buffers.For(d);
  options.start = {0, 10};
  EXPECT_FALSE(BatchLoader::Open(options, &loader).ok());
}

}  // namespace
}  // namespace ringlet
