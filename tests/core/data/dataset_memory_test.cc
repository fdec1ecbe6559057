// Dataset::Memory: the order of a block shuffle, and the buffer of a loader.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "core/data/dataset_loader.h"
#include "core/data/dataset_parts.h"
#include "core/data/permutation.h"
#include "core/data/shuffle_blocks.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

using Indices = std::vector<int64_t>;

// Records the examples that are read. Example i has the value i in each of its
// numbers.
class RecordingSource final : public Source {
 public:
  RecordingSource(int64_t size, int64_t values, std::string path = "")
      : size_(size), values_(values), path_(std::move(path)) {}
  int64_t size() const override { return size_; }
  ExampleSpec x() const override { return {DType::kFloat32, {values_}}; }
  ExampleSpec y() const override { return {DType::kInt32, {}}; }
  std::string name() const override { return "recording"; }
  std::string ExamplePath(int64_t) const override { return path_; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < count; ++i) {
      read.push_back(index[i]);
      if (index[i] == bad) return Corruption("recording: example %d", 17);
      for (int64_t j = 0; j < values_ && x != nullptr; ++j) {
        static_cast<float*>(x)[i * values_ + j] = static_cast<float>(index[i]);
      }
      if (y != nullptr) {
        static_cast<int32_t*>(y)[i] = static_cast<int32_t>(index[i]);
      }
    }
    reads.push_back(count);
    return Status();
  }

  Indices read;
  std::vector<int> reads;
  int64_t bad = -1;

 private:
  std::mutex mutex_;
  const int64_t size_, values_;
  const std::string path_;
};

// --- the order -------------------------------------------------------------

TEST(ShuffleBlocks, ExampleAt_AnySizes_IsAPermutationOfWholeBlocks) {
  for (const int64_t memory : {40'000, 300'000}) {
    for (const int64_t bytes : {1, 8, 400, 3140}) {
      const ShuffleBlocks blocks(memory, bytes, /*has_file_per_example=*/false,
                                 1);
      const int64_t block = blocks.block(), group = blocks.group();
      ASSERT_GE(block, 1);
      ASSERT_EQ(group % block, 0);
      ASSERT_LE(block * bytes, 64 << 10);
      ASSERT_LE((group + block) * (bytes + ShuffleBlocks::kListBytes),
                std::max(memory, 2 * bytes));
      for (const int64_t n : {int64_t{1}, group - 1, group, group + 1,
                              3 * group + block / 2, 5 * group + block * 3}) {
        if (n < 1) continue;
        Indices order(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
          order[static_cast<size_t>(i)] = blocks.ExampleAt(7, 3, n, i);
        }
        Indices sorted = order;
        std::sort(sorted.begin(), sorted.end());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(sorted[static_cast<size_t>(i)], i)
              << memory << " " << bytes << " " << n;
        }
        if (!blocks.divides(n)) continue;
        // A group has only few stretches of consecutive examples.
        for (int64_t first = 0; first < n; first += group) {
          std::set<int64_t> group_examples(
              order.begin() + first,
              order.begin() + std::min(n, first + group));
          int64_t stretches = 0;
          for (const int64_t i : group_examples)
            stretches += group_examples.count(i - 1) == 0;
          // (One block may have the last example and the first.)
          EXPECT_LE(stretches, group / block + 1);
        }
      }
    }
  }
}

TEST(ShuffleBlocks, ExampleAt_AnotherSeedOrPass_GivesAnotherOrder) {
  const ShuffleBlocks blocks(100'000, 400, /*has_file_per_example=*/false, 1);
  const int64_t n = 4 * blocks.group() + 3;
  ASSERT_TRUE(blocks.divides(n));
  const auto order = [&](uint64_t seed, int64_t pass) {
    Indices pass_examples;
    for (int64_t i = 0; i < n; ++i) {
      pass_examples.push_back(blocks.ExampleAt(seed, pass, n, i));
    }
    return pass_examples;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
  // The groups of two passes have other examples.
  const Indices a = order(1, 0), b = order(1, 1);
  EXPECT_NE(std::set<int64_t>(a.begin(), a.begin() + blocks.group()),
            std::set<int64_t>(b.begin(), b.begin() + blocks.group()));
}

TEST(ShuffleBlocks, ExampleAt_AllInMemoryOrFilesApart_IsThePlainOrder) {
  const ShuffleBlocks apart(100'000, 400, /*has_file_per_example=*/true, 1);
  const ShuffleBlocks small(100'000, 400, /*has_file_per_example=*/false, 1);
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(apart.ExampleAt(5, 2, 1000, i), Permute(5, 2, 1000, i));
    EXPECT_EQ(small.ExampleAt(5, 2, 200, i), Permute(5, 2, 200, i));
  }
  EXPECT_FALSE(apart.divides(1000));
  EXPECT_FALSE(small.divides(small.group()));
  EXPECT_TRUE(small.divides(small.group() + 1));
}

// The order of docs/streaming.md, as a program in Python computes it. It must
// not change: a resumed run continues in it.
TEST(ShuffleBlocks, ExampleAt_SeedOne_IsTheDocumentedOrder) {
  const ShuffleBlocks blocks(20'000, 60, /*has_file_per_example=*/false, 1);
  EXPECT_EQ(blocks.examples(), 200);
  EXPECT_EQ(blocks.block(), 12);
  EXPECT_EQ(blocks.group(), 180);
  Indices first;
  for (int64_t i = 0; i < 8; ++i) {
    first.push_back(blocks.ExampleAt(1, 0, 1000, i));
  }
  EXPECT_EQ(first, (Indices{854, 441, 921, 235, 460, 437, 475, 723}));
  EXPECT_EQ(blocks.ExampleAt(1, 0, 1000, 500), 613);
  EXPECT_EQ(blocks.ExampleAt(1, 0, 1000, 999), 269);
}

// --- the buffer ------------------------------------------------------------

struct Setting {
  int rank = 0, world = 1, parts = 1;
  int64_t round = 1, steps = 0;
  bool background = true;
  DataPosition start = {};
};

// A loader with its buffers.
class Loaded {
 public:
  Loaded(const Dataset& data, const Setting& setting) {
    DatasetLoader::Options options;
    options.dataset = data;
    options.start = setting.start;
    options.cursor = {setting.rank, setting.world, setting.parts, setting.round,
                      setting.steps};
    options.background = setting.background;
    const Shape shape = data.source()->x().shape;
    options.x_shapes = {shape};
    options.outputs.resize(1);
    const auto most =
        static_cast<size_t>(data.parts().LargestPart(setting.world));
    x_.resize(most * static_cast<size_t>(shape.elements()));
    y_.resize(most);
    options.x = x_.data();
    options.y = y_.data();
    opened = DatasetLoader::Open(options, &loader);
  }
  // Returns the labels of the next batch, after checking its x.
  Indices Next() {
    const Status status = loader->Next(&batch);
    EXPECT_OK(status);
    const auto* const y = static_cast<const int32_t*>(batch.y);
    const size_t values = batch.count > 0 ? x_.size() / y_.size() : 1;
    for (int64_t i = 0; i < batch.count; ++i) {
      EXPECT_EQ(batch.x[static_cast<size_t>(i + 1) * values - 1],
                static_cast<float>(y[i]));
    }
    return status.ok() ? Indices(y, y + batch.count) : Indices();
  }

  Status opened;
  std::unique_ptr<BatchLoader> loader;
  Batch batch;

 private:
  std::vector<float> x_;
  std::vector<int32_t> y_;
};

// All batches of `steps` steps, from the plan.
std::vector<Indices> Planned(const Dataset& data, const Setting& setting,
                             int64_t steps) {
  std::vector<Indices> batches;
  BatchCursor::Options options = {setting.rank, setting.world, setting.parts,
                                  setting.round, setting.steps};
  BatchCursor cursor(setting.start, options);
  for (int64_t i = 0; i < steps; ++i) {
    const BatchPlan plan = cursor.Plan(data);
    Indices batch(static_cast<size_t>(plan.count));
    cursor.Examples(data, plan, batch.data());
    batches.push_back(batch);
    cursor.Advance(plan);
  }
  return batches;
}

TEST(ExampleBuffer, Next_AnyWorkersRoundsAndBatches_GivesThePlannedExamples) {
  for (const char* path : {"", "file"}) {
    for (const int64_t batch : {1, 32, 100}) {
      for (const bool shuffled : {true, false}) {
        for (const AutoShardPolicy policy :
             {AutoShardPolicy::kData, AutoShardPolicy::kOff}) {
          const auto source = std::make_shared<RecordingSource>(1003, 10, path);
          Dataset data = Dataset(source).Memory(16'000).AutoShard(policy);
          if (shuffled) data = data.Shuffle(3);
          data = data.Repeat().Batch(batch);
          for (const Setting& setting :
               {Setting{}, Setting{0, 3, 1}, Setting{2, 3, 1}, Setting{0, 3, 3},
                Setting{1, 3, 2, 4, 18}, Setting{0, 1, 1, 1, 0, false},
                Setting{0,
                        2,
                        2,
                        1,
                        0,
                        true,
                        {2, 7 * ((batch + 1) / 2) *
                                (policy == AutoShardPolicy::kOff ? 1 : 2) %
                                1003}}}) {
            const int64_t calls = setting.steps > 0 ? 36 : 50;
            Loaded loaded(data, setting);
            ASSERT_OK(loaded.opened);
            for (const Indices& expected : Planned(data, setting, calls)) {
              ASSERT_EQ(loaded.Next(), expected)
                  << path << " batch " << batch << " world " << setting.world;
            }
          }
        }
      }
    }
  }
}

TEST(ExampleBuffer, Next_OnePass_ReadsEachExampleOnceInLongPieces) {
  const auto source = std::make_shared<RecordingSource>(5000, 10);
  const Dataset data = Dataset(source).Memory(100'000).Shuffle(1).Batch(64);
  const ShuffleBlocks blocks(data.parts(), 1);
  ASSERT_TRUE(blocks.divides(5000));
  {
    Loaded loaded(data, {});
    ASSERT_OK(loaded.opened);
    for (int i = 0; i < 79; ++i) loaded.Next();
    EXPECT_TRUE(loaded.batch.last);
    EXPECT_EQ(loaded.batch.count, 5000 % 64);
  }
  Indices read = source->read;
  int64_t descents = 0;
  for (size_t i = 1; i < read.size(); ++i) descents += read[i] < read[i - 1];
  EXPECT_LE(descents, 5000 / blocks.group() + 1);
  EXPECT_LE(static_cast<int64_t>(source->reads.size()),
            5000 / blocks.block() + 2 * (5000 / blocks.group() + 1));
  std::sort(read.begin(), read.end());
  Indices all(5000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(read, all);
}

TEST(ExampleBuffer, Next_ThreeWorkers_EachReadsItsOwnExamples) {
  Indices read;
  for (int rank = 0; rank < 3; ++rank) {
    const auto source = std::make_shared<RecordingSource>(2000, 10);
    const Dataset data = Dataset(source).Memory(40'000).Shuffle(1).Batch(32);
    Loaded loaded(data, {rank, 3, 1});
    do loaded.Next();
    while (!loaded.batch.last);
    read.insert(read.end(), source->read.begin(), source->read.end());
  }
  std::sort(read.begin(), read.end());
  Indices all(2000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(read, all);
}

TEST(ExampleBuffer, RewindAndSkip_BetweenBatches_ContinueAtThePlan) {
  for (const bool background : {true, false}) {
    const auto source = std::make_shared<RecordingSource>(3000, 10);
    const Dataset data =
        Dataset(source).Memory(40'000).Shuffle(9).Repeat().Batch(30);
    const Setting setting{0, 1, 1, 1, 0, background};
    const std::vector<Indices> planned = Planned(data, setting, 300);
    Loaded loaded(data, setting);
    size_t at = 0;
    uint32_t drawn = 1;
    while (at < 280) {
      drawn = drawn * 1664525 + 1013904223;
      const int64_t steps = 1 + static_cast<int64_t>(drawn >> 30);
      int64_t examples = 0;
      if (drawn >> 28 & 1) {
        Batch batch;
        ASSERT_OK(loaded.loader->Skip(steps, &batch, &examples));
        EXPECT_EQ(examples, 30 * steps);
        at += static_cast<size_t>(steps);
      }
      ASSERT_EQ(loaded.Next(), planned[at]);
      if (drawn >> 27 & 1) {
        loaded.loader->RewindStep();
      } else {
        ++at;
      }
    }
  }
}

TEST(ExampleBuffer, Next_ErrorOfTheSource_ComesAtTheSameStep) {
  int64_t steps[2] = {};
  for (const bool background : {true, false}) {
    const auto source = std::make_shared<RecordingSource>(3000, 10);
    source->bad = 2222;
    const Dataset data = Dataset(source).Memory(40'000).Shuffle(9).Batch(30);
    const Setting setting{0, 1, 1, 1, 0, background};
    Loaded loaded(data, setting);
    Status status;
    int64_t* const taken = &steps[background ? 1 : 0];
    for (; status.ok(); ++*taken) status = loaded.loader->Next(&loaded.batch);
    EXPECT_STREQ(status.message(), "recording: example 17");
    EXPECT_EQ(loaded.loader->Next(&loaded.batch).code(), status.code());
  }
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GT(steps[0], 1);
}

TEST(ExampleBuffer, Next_MemoryForAllExamples_HasTheOrderOfShuffle) {
  const auto source = std::make_shared<RecordingSource>(500, 10);
  const Dataset plain = Dataset(source).Shuffle(2).Batch(32);
  Loaded a(plain, {});
  Loaded b(Dataset(source).Memory(1 << 20).Shuffle(2).Batch(32), {});
  for (int i = 0; i < 16; ++i) EXPECT_EQ(a.Next(), b.Next());
}

TEST(DatasetMemory, Status_LessThanABatch_NamesTheLeastMemory) {
  const auto source = std::make_shared<RecordingSource>(500, 10);
  EXPECT_OK(Dataset(source).Memory(84 * 32).Batch(32).status());
  EXPECT_STREQ(
      Dataset(source).Memory(84 * 32 - 1).Batch(32).status().message(),
      "recording: a memory of 2687 bytes holds 31 examples of 84 bytes, and a "
      "batch has 32; give at least 2688 bytes, or a smaller batch");
  EXPECT_STREQ(Dataset(source).Memory(0).Batch(1).status().message(),
               "Memory(0): must be at least 1");
}

}  // namespace
}  // namespace ringlet
