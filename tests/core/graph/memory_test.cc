#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/model_weights.h"
#include "core/base/arena.h"
#include "core/base/poison.h"
#include "ringlet/compute.h"
#include "ringlet/model.h"

// Counts what the library allocates. BLIS takes its packing buffers from malloc
// and is not seen here; it keeps them.
static std::atomic<long> allocations{0};
static std::atomic<size_t> allocated_bytes{0};

// Not inline: the compiler would report free() on memory of new.
__attribute__((noinline)) void* operator new(size_t bytes) {
  ++allocations;
  allocated_bytes += bytes;
  void* p = std::malloc(bytes);
  if (p == nullptr) std::abort();
  return p;
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace ringlet {
namespace {

TEST(ArenaTest, Arena_Counting_PlacesAsTheRealOne) {
  Arena counting;
  EXPECT_EQ(counting.Allocate<float>(3), nullptr);
  EXPECT_EQ(counting.Allocate<double>(100), nullptr);
  EXPECT_EQ(counting.used(), 64u + 832u);
  alignas(64) unsigned char memory[1024];
  Arena arena(memory, sizeof(memory));
  EXPECT_EQ(reinterpret_cast<unsigned char*>(arena.Allocate<float>(3)), memory);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(arena.Allocate<double>(100)),
            memory + 64);
  EXPECT_EQ(arena.used(), counting.used());
}

TEST(LifetimePlanTest, Buffers_LivingTogether_ShareNoByte) {
  const Philox random(9, 9);
  for (uint64_t round = 0; round < 200; ++round) {
    LifetimePlan plan;
    struct B {
      size_t bytes;
      int first, last;
    };
    std::vector<B> buffers;
    size_t sum = 0;
    for (uint64_t i = 0; i < 20; ++i) {
      const Philox::Block r = random.At(round * 20 + i);
      const int first = static_cast<int>(r[1] % 15);
      buffers.push_back(
          {r[0] % 1000, first, first + static_cast<int>(r[2] % 6)});
      plan.Add(buffers[i].bytes, buffers[i].first, buffers[i].last);
      sum += Arena::RoundUp(buffers[i].bytes);
    }
    const size_t total = plan.Place();
    EXPECT_LE(total, sum);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(plan.offset(i) % Arena::kAlignment, 0u);
      ASSERT_LE(plan.offset(i) + buffers[i].bytes, total);
      for (int j = 0; j < i; ++j) {
        const bool together = buffers[i].first <= buffers[j].last &&
                              buffers[j].first <= buffers[i].last;
        const bool apart =
            plan.offset(i) + buffers[i].bytes <= plan.offset(j) ||
            plan.offset(j) + buffers[j].bytes <= plan.offset(i);
        ASSERT_TRUE(!together || apart || buffers[i].bytes == 0 ||
                    buffers[j].bytes == 0);
      }
    }
  }
}

TEST(LifetimePlanTest, Place_ChainOfFive_TakesTwoBuffers) {
  LifetimePlan plan;
  for (int i = 0; i < 5; ++i) plan.Add(640, i, i + 1);
  EXPECT_EQ(plan.Place(), 1280u);
}

TEST(ThreadPoolTest, Run_ManyRounds_CallsEveryThreadOncePerRound) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> calls(threads);
    for (int round = 0; round < 2000; ++round) {
      pool.Run([&](int t) { ++calls[t]; });
    }
    for (int count : calls) EXPECT_EQ(count, 2000);
  }
}

TEST(ThreadPoolTest, Split_AnySize_CoversEverythingOnce) {
  for (int64_t n : {0, 1, 7, 48, 100}) {
    for (int parts : {1, 2, 3, 8}) {
      for (int64_t grain : {1, 16}) {
        int64_t at = 0;
        for (int p = 0; p < parts; ++p) {
          const Range r = Split(n, parts, p, grain);
          EXPECT_EQ(r.begin, at);
          at = r.end;
        }
        EXPECT_EQ(at, n);
      }
    }
  }
}

// The examples of every model below.
struct Data {
  std::vector<unsigned char> x;
  std::vector<unsigned char> y;
  Dataset dataset;
  explicit Data(const Shape& shape, int64_t n = 50) {
    const Philox random(4, 4);
    x.resize(static_cast<size_t>(n * shape.elements()));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<unsigned char>(random.At(i)[0]);
    }
    for (int64_t i = 0; i < n; ++i) {
      y.push_back(static_cast<unsigned char>(i % 3));
    }
    dataset = Dataset(MemorySource({DType::kUint8, shape}, x.data(),
                                   {DType::kUint8, {}}, y.data(), n))
                  .Map(Scale(1 / 255.f))
                  .Shuffle(3)
                  .Repeat();
  }
};

std::vector<std::unique_ptr<Model>> Models() {
  std::vector<std::unique_ptr<Model>> models;
  const auto add = [&](std::initializer_list<Layer> layers) {
    models.emplace_back(new Sequential(layers));
  };
  add({Input({8, 8, 2}), Flatten(), Dense(3)});
  add({Input({8, 8, 2}), Conv2D(4, 3, kRelu), MaxPooling2D(2), Flatten(),
       Dense(3, kSoftmax)});
  add({Input({8, 8, 2}), Conv2D(5, 3, kTanh).Padding(kSame),
       AveragePooling2D(2), Dropout(0.3f), Conv2D(2, 1), ReLU(), Flatten(),
       Dense(7, kSigmoid), Dense(3)});
  add({Input({8, 8, 2}), ZeroPadding2D(), DepthwiseConv2D(3, kRelu),
       SeparableConv2D(5, 3, kTanh), Conv2D(4, 1, kRelu), Permute({2, 1, 3}),
       GlobalMaxPooling2D(), Dense(3)});
  auto graph = std::make_unique<Functional>();
  const int x = graph->Add(Input({8, 8, 2}));
  const int a = graph->Add(Conv2D(2, 3, kRelu).Padding(kSame), {x});
  const int b = graph->Add(Conv2D(2, 3).Padding(kSame), {a});
  const int sum = graph->Add(Add(), {a, b});
  const int both = graph->Add(Concatenate(), {sum, a});
  graph->Add(Dense(3), {graph->Add(Flatten(), {both})});
  models.push_back(std::move(graph));
  return models;
}

TEST(ModelMemoryTest, BytesNeeded_AnyModel_IsWhatIsUsedToTheByte) {
  for (int threads : {1, 3}) {
    for (const auto& model : Models()) {
      for (int64_t batch : {1, 6, 17}) {
        CompileOptions options;
        options.threads = threads;
        model->Compile(Adam(), SparseCategoricalCrossentropy(kFromLogits),
                       {Accuracy()}, options);
        ASSERT_OK(model->status());
        const size_t needed = model->BytesNeeded(batch);
        ASSERT_OK(model->Reserve(batch, /*training=*/true));
        EXPECT_EQ(model->BytesUsed(), needed);
      }
    }
  }
}

// Trains inside a block of exactly BytesNeeded, between two guards.
TEST(ModelMemoryTest, CallersBlock_OfBytesNeeded_IsEnoughAndNotExceeded) {
  const int64_t batch = 6;
  for (const auto& model : Models()) {
    model->Compile(RMSprop(0.001f, 0.9f, 0.5f, 1e-7f, /*centered=*/true),
                   SparseCategoricalCrossentropy(kFromLogits));
    const size_t needed = model->BytesNeeded(batch);
    const size_t guard = 4096;
    unsigned char* memory = static_cast<unsigned char*>(
        std::aligned_alloc(64, (needed + 2 * guard + 63) / 64 * 64));
    std::fill_n(memory, needed + 2 * guard, 0xA5);
    CompileOptions options;
    options.memory = memory + guard;
    options.memory_bytes = needed;
    model->Compile(RMSprop(0.001f, 0.9f, 0.5f, 1e-7f, /*centered=*/true),
                   SparseCategoricalCrossentropy(kFromLogits), {}, options);
    ASSERT_OK(model->status());
    const Data data(model->input_shape());
    {
      std::unique_ptr<BatchLoader> loader;
      ASSERT_OK(model->OpenLoader(data.dataset.Batch(batch), {}, &loader));
      for (int step = 0; step < 3; ++step) {
        Batch b;
        ASSERT_OK(loader->Next(&b));
        ASSERT_OK(model->TrainStep(b));
      }
    }
    for (size_t i = 0; i < guard; ++i) {
      ASSERT_EQ(memory[i], 0xA5);
      ASSERT_EQ(memory[guard + needed + i], 0xA5);
    }
    options.memory_bytes = needed - 1;
    model->Compile(RMSprop(0.001f, 0.9f, 0.5f, 1e-7f, /*centered=*/true),
                   SparseCategoricalCrossentropy(kFromLogits), {}, options);
    const Status small = model->Reserve(batch, /*training=*/true);
    EXPECT_EQ(small.code(), Code::kResourceExhausted);
    // The model must not use the block after it is freed.
    model->Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
    std::free(memory);
  }
}

// A larger batch may take less memory, because its buffers are placed
// otherwise. Its memory still suffices for smaller batches, in any order of the
// calls.
TEST(ModelMemoryTest, Reserve_SmallerBatch_FitsTheMemoryOfALargerOne) {
  int found = 0;
  for (const int64_t hidden : {88, 119}) {
    Functional model;
    const int x = model.Add(Input({hidden == 88 ? 519 : 430}));
    const int y = model.Add(Dense(hidden, kRelu), {x});
    model.Add(Dense(10), {model.Add(Concatenate(), {y, x})});
    const Loss loss = SparseCategoricalCrossentropy(kFromLogits);
    model.Compile(SGD(), loss);
    for (int64_t batch = 2; batch <= 260; ++batch) {
      CompileOptions options;
      options.memory_limit = model.BytesNeeded(batch);
      if (options.memory_limit >= model.BytesNeeded(batch - 1)) continue;
      ++found;
      model.Compile(SGD(), loss, {}, options);
      for (const bool training : {false, true}) {
        const Status s = model.Reserve(batch - 1, training);
        ASSERT_OK(s) << batch;
        EXPECT_LE(model.BytesUsed(), options.memory_limit);
      }
      EXPECT_OK(model.Reserve(batch, /*training=*/true));
      const size_t kept = model.PlanMemory(batch).kept();
      options.memory_limit = kept + (options.memory_limit - kept) / 2;
      model.Compile(SGD(), loss, {}, options);
      EXPECT_FALSE(model.Reserve(batch - 1, /*training=*/true).ok());
      model.Compile(SGD(), loss);
    }
  }
  EXPECT_GT(found, 0);
}

// A step that does not fit is refused after some plans, not after one for each
// larger batch.
TEST(ModelMemoryTest, Reserve_TooLittleMemory_FailsSoon) {
  Sequential model({Input({8, 8, 4})});
  for (int i = 0; i < 8; ++i) {
    model.Add(Conv2D(4, 3).Padding(kSame));
    model.Add(BatchNormalization());
    model.Add(ReLU());
  }
  model.Add(Flatten());
  const int64_t batch = 1000;
  CompileOptions options;
  options.recompute = true;
  model.Compile(SGD(), MeanSquaredError(), {}, options);
  // Processor time, which does not depend on the load of the machine.
  std::clock_t begin = std::clock();
  size_t needed = 0;
  for (int i = 0; i < 10; ++i) needed = model.BytesNeeded(batch);
  const std::clock_t ten_plans = std::clock() - begin + 1;
  for (const size_t percent : {60, 90, 99}) {
    options.memory_limit = needed / 100 * percent;
    model.Compile(SGD(), MeanSquaredError(), {}, options);
    begin = std::clock();
    EXPECT_FALSE(model.Reserve(batch, /*training=*/true).ok());
    EXPECT_LT(std::clock() - begin, 30 * ten_plans) << percent;
  }
}

// The message has the greatest users of memory, and a smaller batch if that
// helps.
TEST(ModelMemoryTest, Reserve_NoMemory_NamesWhatTakesIt) {
  if (kPoisons) GTEST_SKIP() << "AddressSanitizer ends a program that asks";
  for (const bool wide : {false, true}) {
    Sequential model({Input({28, 28, 1}),
                      Conv2D(2, 3)
                          .DilationRate(wide ? 1 : 200000)
                          .Padding(kSame)
                          .Name("far"),
                      Flatten(), Dense(1)});
    model.Compile(SGD(), MeanSquaredError());
    ASSERT_OK(model.status());
    const std::string message =
        model.Reserve(wide ? int64_t{1} << 33 : 2, /*training=*/true).message();
    EXPECT_TRUE(Contains(message, "of layer 'far' (Conv2D)"));
    EXPECT_EQ(message.find("use a smaller batch: one") != std::string::npos,
              wide)
        << message;
    EXPECT_EQ(message.find("no smaller batch would fit") == std::string::npos,
              wide)
        << message;
  }
}

TEST(ModelMemoryTest, Output_AfterReserveFoundNoMemory_IsNull) {
  if (kPoisons) GTEST_SKIP() << "AddressSanitizer ends a program that asks";
  Sequential model({Input({28, 28, 1}), Conv2D(2, 3), Flatten(), Dense(1)});
  model.Compile(SGD(), MeanSquaredError());
  const std::vector<float> x(28 * 28, 1.0f);
  ASSERT_OK(model.Forward(x.data(), 1, /*training=*/false));
  EXPECT_NE(model.output(), nullptr);
  const float before = *model.output();
  EXPECT_EQ(model.Reserve(int64_t{1} << 33, /*training=*/true).code(),
            Code::kResourceExhausted);
  EXPECT_EQ(model.output(), nullptr);
  ASSERT_OK(model.Forward(x.data(), 1, /*training=*/false));
  EXPECT_EQ(*model.output(), before);
  model.Compile(SGD(), MeanSquaredError());
  EXPECT_EQ(model.output(), nullptr);
}

// The bytes have 64 bits also if size_t has 32.
TEST(ModelMemoryTest, BytesNeeded_HugeBatch_IsCountedIn64Bits) {
  Sequential model({Input({28, 28, 1}), Conv2D(2, 3, kRelu).Name("conv"),
                    BatchNormalization(), Flatten(), Dense(3)});
  model.Compile(SGD(), MeanSquaredError());
  ASSERT_OK(model.status());
  uint64_t before = 0;
  for (int64_t batch = 1; batch <= int64_t{1} << 30; batch *= 2) {
    const uint64_t bytes = model.BytesNeeded(batch);
    EXPECT_GT(bytes, before) << batch;
    EXPECT_GT(bytes / 4, static_cast<uint64_t>(batch * (28 * 28 + 26 * 26 * 2)))
        << batch;
    before = bytes;
  }
}

// The bytes in use of the process's heap; 0 if they are unknown.
size_t HeapBytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

// Training allocates little besides the caller's block, and no more for a
// larger model. It needs descriptions of the layers, a batch as the file has
// it, and BLIS's own buffers.
TEST(ModelMemoryTest, Training_InTheCallersBlock_AllocatesLittleElse) {
  const int64_t batch = 6;
  for (const int units : {10, 3000}) {
    Sequential model({Input({8, 8, 2}), Conv2D(4, 3, kRelu), Flatten(),
                      Dense(units, kRelu), Dense(3)});
    const Loss loss = SparseCategoricalCrossentropy(kFromLogits);
    model.Compile(Adam(), loss);
    const size_t needed = model.BytesNeeded(batch);
    CompileOptions options;
    const std::unique_ptr<void, void (*)(void*)> memory(
        std::aligned_alloc(Arena::kAlignment, needed), std::free);
    options.memory = memory.get();
    options.memory_bytes = needed;
    const Data data(model.input_shape());
    // BLIS allocates its buffers in the first round, so only the second one is
    // measured.
    for (const bool measured : {false, true}) {
      const size_t heap = HeapBytes(), allocated = allocated_bytes;
      model.Compile(Adam(), loss, {Accuracy()}, options);
      ASSERT_OK(model.Reserve(batch, /*training=*/true));
      EXPECT_EQ(model.BytesUsed(), needed);
      std::unique_ptr<BatchLoader> loader;
      ASSERT_OK(model.OpenLoader(data.dataset.Batch(batch), {}, &loader));
      for (int step = 0; step < 3; ++step) {
        Batch b;
        ASSERT_OK(loader->Next(&b));
        ASSERT_OK(model.TrainStep(b));
      }
      if (!measured) continue;
      EXPECT_LT(allocated_bytes - allocated, size_t{64} << 10) << units;
      EXPECT_LT(static_cast<int64_t>(HeapBytes() - heap), int64_t{64} << 10)
          << units;
    }
    EXPECT_EQ(needed > size_t{5} << 20, units == 3000);
    model.Compile(SGD(), loss);  // off the block before it goes
  }
}

// Calls that would move or free the loader's memory are refused. The loader and
// the model continue as if there had been none.
TEST(ModelMemoryTest, Loader_Open_KeepsTheModelsMemory) {
  for (const bool background : {false, true}) {
    Sequential model({Input({8, 8, 2}), Flatten(), Dense(3)});
    const Loss loss = SparseCategoricalCrossentropy(kFromLogits);
    model.Compile(SGD(0.1f), loss);
    const Data data(model.input_shape());
    LoaderOptions options;
    options.background = background;
    std::unique_ptr<BatchLoader> loader, other;
    ASSERT_OK(model.OpenLoader(data.dataset.Batch(6), options, &loader));
    const size_t used = model.BytesUsed();
    Batch batch;
    const auto step = [&] {
      ASSERT_OK(loader->Next(&batch));
      ASSERT_OK(model.TrainStep(batch));
    };
    const auto ExpectRefused = [](const Status& s) {
      EXPECT_EQ(s.code(), Code::kInvalidArgument);
      EXPECT_NE(std::strstr(s.message(), "close the loader first"), nullptr)
          << s.message();
    };
    step();
    for (const int64_t size : {3, 6, 50}) {
      ExpectRefused(
          model.OpenLoader(data.dataset.Batch(size), options, &other));
      EXPECT_EQ(other, nullptr);
    }
    step();
    EXPECT_FALSE(model.Reserve(100, /*training=*/true).ok());
    step();
    EXPECT_FALSE(model.SetInitialWeights(std::vector<float>(1)).ok());
    const std::vector<float> before = WeightsOf(&model);
    model.Compile(Adam(), loss);
    ExpectRefused(model.status());
    EXPECT_TRUE(model.compiled());
    EXPECT_STREQ(model.optimizer().name(), "SGD");
    EXPECT_EQ(model.iterations(), 3);
    EXPECT_EQ(model.BytesUsed(), used);
    EXPECT_EQ(WeightsOf(&model), before);
    step();
    loader.reset();
    model.Compile(Adam(), loss);
    EXPECT_OK(model.status());
    EXPECT_STREQ(model.optimizer().name(), "Adam");
    ASSERT_OK(model.OpenLoader(data.dataset.Batch(50), options, &loader));
    step();
  }
}

// Under AddressSanitizer the memory that a step does not need at a time is
// poisoned, and all of it is usable when its owner gets it back. In other
// builds nothing is poisoned.
TEST(ModelMemoryTest, Memory_NotInUse_IsPoisoned) {
  const Loss loss = SparseCategoricalCrossentropy(kFromLogits);
  for (const bool destroyed : {true, false}) {
    auto model = std::make_unique<Sequential>();
    for (const Layer& layer : {Input({8, 8, 2}), Conv2D(5, 3, kRelu), Flatten(),
                               Dense(7, kTanh), Dense(3)}) {
      model->Add(layer);
    }
    model->Compile(Adam(), loss);
    CompileOptions options;
    options.memory_bytes = model->BytesNeeded(6);
    const std::unique_ptr<void, void (*)(void*)> memory(
        std::aligned_alloc(Arena::kAlignment, options.memory_bytes), std::free);
    options.memory = memory.get();
    model->Compile(Adam(), loss, {}, options);
    const size_t weights =
        static_cast<size_t>(model->num_weights()) * sizeof(float);
    ASSERT_NE(weights, Arena::RoundUp(weights));
    ASSERT_OK(model->Reserve(6, /*training=*/true));
    const char* const after_weights =
        reinterpret_cast<const char*>(model->weights()) + weights;
    EXPECT_EQ(IsPoisoned(after_weights, 1), kPoisons);
    EXPECT_FALSE(IsPoisoned(model->weights(), weights));
    const std::vector<float> x(6 * 128, 0.5f);
    for (const int64_t count : {6, 4}) {
      ASSERT_OK(model->Forward(x.data(), count, /*training=*/false));
      const size_t outputs = static_cast<size_t>(count) * 3;
      EXPECT_FALSE(IsPoisoned(model->output(), outputs * sizeof(float)));
      if (count == 4) {  // the row after them is not of this step
        EXPECT_EQ(IsPoisoned(model->output() + outputs, 1), kPoisons);
      }
    }
    if (destroyed) {
      model.reset();
    } else {
      model->Compile(Adam(), loss);
    }
    EXPECT_FALSE(IsPoisoned(memory.get(), options.memory_bytes));
  }
}

// The reading thread may be at work when the model goes.
TEST(ModelMemoryTest, Loader_ModelDestroyed_StillReads) {
  std::unique_ptr<BatchLoader> loader;
  Batch batch;
  const Data data({8, 8, 2});
  {
    Sequential model({Input({8, 8, 2}), Flatten(), Dense(3)});
    model.Compile(SGD(), SparseCategoricalCrossentropy(kFromLogits));
    ASSERT_OK(model.OpenLoader(data.dataset.Batch(6), {}, &loader));
    ASSERT_OK(loader->Next(&batch));
  }
  for (int i = 0; i < 3; ++i) ASSERT_OK(loader->Next(&batch));
  EXPECT_GE(batch.x[0], 0);
}

TEST(ModelMemoryTest, Steps_AfterTheFirst_AllocateNothing) {
  for (int threads : {1, 2}) {
    for (const auto& model : Models()) {
      CompileOptions options;
      options.threads = threads;
      for (const Optimizer& optimizer :
           {SGD(0.01f, 0.9f), Adam().GlobalClipNorm(1)}) {
        model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits),
                       {Accuracy()}, options);
        const Data data(model->input_shape());
        std::unique_ptr<BatchLoader> loader;
        ASSERT_OK(model->OpenLoader(data.dataset.Batch(6), {}, &loader));
        Batch batch;
        for (int step = 0; step < 2; ++step) {
          ASSERT_OK(loader->Next(&batch));
          ASSERT_OK(model->TrainStep(batch));
        }
        const long before = allocations;
        for (int step = 0; step < 20; ++step) {
          ASSERT_OK(loader->Next(&batch));
          ASSERT_OK(model->TrainStep(batch));
          ASSERT_OK(model->TestStep(batch));
        }
        EXPECT_EQ(allocations - before, 0);
      }
    }
  }
}

}  // namespace
}  // namespace ringlet

// This file replaces operator new by malloc, and libraries may have taken
// theirs before; AddressSanitizer need not pair them.
extern "C" const char* __asan_default_options() {  // NOLINT: its name
  return "alloc_dealloc_mismatch=0";
}
