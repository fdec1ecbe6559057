// Measures the depth of the stacks. Every thread of this program runs on a
// stack that was filled with a pattern, so the used part shows afterwards.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../support/expect_ok.h"
#include "../support/free_ports.h"
#include "../support/temp_folder.h"
#include "../support/threads.h"
#include "../support/tiny_model.h"
#include "core/base/thread.h"
#include "net/ring/ring_collective.h"
#include "ringlet/ringlet.h"

namespace {

constexpr unsigned char kPaint = 0xA5;

struct Stack {
  unsigned char* lowest;
  size_t bytes;

  // The bytes used, with the system's own data of the thread.
  size_t Used() const {
    const unsigned char* const end = lowest + bytes;
    const unsigned char* const first = std::find_if(
        lowest, lowest + bytes, [](unsigned char b) { return b != kPaint; });
    return static_cast<size_t>(end - first);
  }
};

std::mutex mutex;
std::vector<Stack>& Stacks() {
  static std::vector<Stack> stacks;
  return stacks;
}

}  // namespace

// Instead of the C library's, for all that is linked. Stacks are kept.
extern "C" int pthread_create(pthread_t* thread,  // NOLINT: its name
                              const pthread_attr_t* wanted,
                              void* (*body)(void*), void* argument) {
  using Create =
      int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create =
      reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  size_t bytes = size_t{1} << 20;
  if (wanted != nullptr) pthread_attr_getstacksize(wanted, &bytes);
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return EAGAIN;
  std::memset(place, kPaint, bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    Stacks().push_back({static_cast<unsigned char*>(place), bytes});
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, place, bytes);
  const int error = create(thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

namespace ringlet {
namespace {

// The deepest stack of those that are as large as the library's threads', or
// of the test's own.
size_t Deepest(bool by_library) {
  const std::lock_guard<std::mutex> lock(mutex);
  size_t most = 0;
  for (const Stack& stack : Stacks()) {
    if ((stack.bytes == Thread::kStackBytes) == by_library) {
      most = std::max(most, stack.Used());
    }
  }
  return most;
}

// Runs on a painted stack of the test's.
template <typename Work>
void OnItsOwnStack(const Work& work) {
  std::thread(work).join();
}

void TrainOneRank(int rank, const std::vector<std::string>& addresses,
                  const std::string& folder) {
  RingOptions ring;
  ring.worker = rank;
  ring.addresses = addresses;
  std::unique_ptr<RingCollective> collective;
  ASSERT_OK(RingCollective::Open(ring, &collective));
  CompileOptions compile(collective.get());
  compile.threads = 2;
  Sequential model({Input({2}), Dense(64), Reshape({8, 8, 1}),
                    Conv2D(8, 3, kRelu).Padding(kSame), MaxPooling2D(2),
                    Dropout(0.2f), Flatten(), Dense(128, kTanh), Dense(3)});
  model.Compile(Adam().GlobalClipNorm(1),
                SparseCategoricalCrossentropy(kFromLogits), {Accuracy()},
                compile);
  TensorBoardOptions logs;
  logs.log_dir = folder + "/logs" + std::to_string(rank);
  logs.histogram_freq = 1;
  FitOptions options = Quiet(2);
  options.verbose = Verbose::kLine;
  options.validation_data = Points(40, 2).Batch(20);
  options.callbacks = {
      BackupAndRestore(folder + "/backup", SaveEvery(2)),
      ModelCheckpoint(folder + "/best" + std::to_string(rank) + ".safetensors"),
      TensorBoard(logs),
      CSVLogger(folder + "/log" + std::to_string(rank) + ".csv"),
      EarlyStopping()};
  EXPECT_OK(model.Fit(Points(200).Shuffle(1).Batch(40), options).status());
}

TEST(StackTest, Threads_OfTheLibrary_UseAQuarterOfTheirStacks) {
  const TempFolder folder;
  const std::vector<std::string> addresses = FreeAddresses(3);
  RunThreads(3, [&](int r) { TrainOneRank(r, addresses, folder.path()); });
  const size_t library = Deepest(/*by_library=*/true),
               caller = Deepest(/*by_library=*/false);
  std::printf(
      "deepest: %zu bytes of the library's threads, %zu of the "
      "caller's\n",
      library, caller);
  EXPECT_GT(library, 0u);
  EXPECT_LE(library, Thread::kStackBytes / 4);
  EXPECT_LE(caller, size_t{256} << 10);
}

TEST(StackTest, Json_NestedTooDeeply_IsRefusedOnASmallStack) {
  const std::string deep(1 << 20, '[');
  std::string nested;
  for (int i = 0; i < 200000; ++i) nested += "{\"a\":";
  OnItsOwnStack([&] {
    std::unique_ptr<Model> model;
    EXPECT_FALSE(ModelFromJson(deep, &model).ok());
    EXPECT_FALSE(ModelFromJson(nested, &model).ok());
  });
  std::printf("deepest: %zu bytes\n", Deepest(/*by_library=*/false));
  EXPECT_LE(Deepest(/*by_library=*/false), size_t{512} << 10);
}

}  // namespace
}  // namespace ringlet
