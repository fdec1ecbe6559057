// The training step of the tutorials' model, for tools/bench.py.
//
//   step_bench        reads one command a line from stdin, answers with a line:
//     gemm            GFLOP/s of one 512 x 512 x 512 product on one thread
//     step T          milliseconds of a training step, batch 64, T threads
//     train NET B T   milliseconds of a training step of a network of
//                     bench_networks.h, batch B, T threads; then the
//                     milliseconds of the caller's processor time
//     predict NET B T milliseconds of a forward pass without training, and of
//                     the caller's processor time
//     export NET FOLDER  writes FOLDER/NET.onnx and FOLDER/NET.c
//     read csv|npy|idx FILE  milliseconds until all its examples can be used
//     pieces NET B T  of that "name phase milliseconds", in one line
//     layers T        "name phase milliseconds" for each piece, in one line
//     bytes           of the model's memory at batch 64
//     save FOLDER     milliseconds of: the copy that a save pauses for, memcpy
//                     of as much, a save until it is durable, a plain write
//                     and fsync of as much, a load; and the megabytes of it
//
// With a TF_CONFIG it is a worker, with a batch of 64 of its own; `step_bench
// exact` sums exactly.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/compute/gemm.h"
#include "io/checkpoint/snapshot.h"
#include "io/files/file_system.h"
#include "ringlet/collective.h"
#include "ringlet/compute.h"
#include "ringlet/ringlet.h"
#include "support/bench_networks.h"

namespace ringlet {
namespace {

double Milliseconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-6; }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double GemmRate() {
  constexpr int64_t kSize = 512;
  static std::vector<float> a(kSize * kSize, 0.5f), b(a), c(a);
  const auto matrix = [](const std::vector<float>& m) {
    return RowMajor(m.data(), kSize, kSize);
  };
  const int64_t begin = Clock::System()->MonotonicNanos();
  Gemm(matrix(a), matrix(b), /*add=*/false, RowMajor(c.data(), kSize, kSize));
  const int64_t end = Clock::System()->MonotonicNanos();
  return 2.0 * kSize * kSize * kSize / static_cast<double>(end - begin);
}

// Milliseconds from a file to a data set; the label is a CSV file's last
// column.
double ReadTime(const std::string& kind, const std::string& path) {
  const int64_t begin = Clock::System()->MonotonicNanos();
  const Dataset file = kind == "csv"   ? CsvDataset(path)
                       : kind == "npy" ? NpyDataset(path)
                                       : IdxDataset(path);
  const Dataset dataset = file.Batch(32);
  if (!dataset.status().ok()) std::exit(ExitCode(dataset.status()));
  return Milliseconds(Clock::System()->MonotonicNanos() - begin);
}

class Layers final : public StepObserver {
 public:
  void OnPart(const char* what, const char* phase, int64_t begin,
              int64_t end) override {
    times_[std::string(what) + " " + phase].push_back(
        Milliseconds(end - begin));
  }
  void Print() const {
    for (const auto& entry : times_) {
      std::printf("%s %.3f ", entry.first.c_str(), Median(entry.second));
    }
    std::printf("\n");
  }

 private:
  std::map<std::string, std::vector<double>> times_;
};

// A model at work on noise, which takes as long as images.
class Trainer {
 public:
  Trainer(const std::string& network, int64_t batch, int threads,
          const MultiWorkerMirroredStrategy& strategy)
      : batch_(batch),
        x_size_(static_cast<size_t>(BenchShape(network).elements())),
        model_(BenchNetwork(network)) {
    const Shape labels = BenchLabels(network);
    labels_.resize(static_cast<size_t>(kExamples * labels.elements()));
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = i % 10;
    CompileOptions options = strategy;
    options.threads = threads;
    model_.Compile(network == "tutorial" ? SGD(0.001f) : Adam(0.0003f),
                   SparseCategoricalCrossentropy(kFromLogits), {Accuracy()},
                   options);
    Check(model_.OpenLoader(
        Noise(network, labels).Repeat().Batch(batch * strategy.num_workers()),
        {}, &loader_));
  }

  struct Times {
    double wall, processor;  // milliseconds; of the caller's thread
  };
  Times Step() {
    Batch batch;
    Check(loader_->Next(&batch));
    return Measured([&] { Check(model_.TrainStep(batch)); });
  }

  Times Predict() {
    x_.resize(static_cast<size_t>(batch_) * x_size_, 0.5f);
    return Measured(
        [&] { Check(model_.Forward(x_.data(), batch_, /*training=*/false)); });
  }

  void Export(const std::string& path) {
    Check(ExportOnnx(&model_, path + ".onnx"));
    Check(ExportC(&model_, path + ".c"));
  }

  void PrintLayers() {
    Layers layers;
    model_.set_observer(&layers);
    for (int i = 0; i < 20; ++i) Step();
    model_.set_observer(nullptr);
    layers.Print();
  }

  size_t Bytes() const { return model_.BytesUsed(); }

  void Save(const std::string& folder) {
    const Saveables state = {model_.weights_state(), model_.optimizer_state()};
    const size_t bytes = static_cast<size_t>(model_.num_weights()) * 4;
    copy_.resize(bytes);
    const double memcpy_ms =
        Timed([&] { std::memcpy(copy_.data(), model_.weights(), bytes); });
    const double pause = Timed([&] { Check(snapshot_.Take(state[0])); });
    const std::string path = folder + "/bench.safetensors";
    const double durable = Timed([&] { Check(SaveCheckpoint(path, state)); });
    const double load = Timed([&] { Check(LoadCheckpoint(path, state)); });
    const double plain = Timed([&] {
      std::unique_ptr<File> file;
      FileSystem* files = PosixFiles();
      files->Remove(folder + "/plain").IgnoreError();
      Check(files->Create(folder + "/plain", &file));
      Check(file->Write(copy_.data(), bytes));
      Check(file->Sync());
    });
    std::printf("%.3f %.3f %.3f %.3f %.3f %.3f\n", pause, memcpy_ms, durable,
                plain, load, static_cast<double>(bytes) * 1e-6);
  }

 private:
  static constexpr int64_t kExamples = 1024;

  static int64_t ProcessorNanos() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{1000000000} * time.tv_sec + time.tv_nsec;
  }
  Dataset Noise(const std::string& network, const Shape& labels) {
    const Shape shape = BenchShape(network);
    const auto n = static_cast<size_t>(kExamples * shape.elements());
    const int numbers = BenchNumbers(network);
    const Philox random(1, 0);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t drawn = random.At(i)[0];
      if (numbers > 0) {
        numbers_.push_back(static_cast<int32_t>(drawn) & 0x7fffffff);
        numbers_.back() %= numbers;
      } else {
        images_.push_back(static_cast<unsigned char>(drawn));
      }
    }
    const ExampleSpec y = {DType::kUint8, labels};
    if (numbers > 0) {
      return Dataset(MemorySource({DType::kInt32, shape}, numbers_.data(), y,
                                  labels_.data(), kExamples));
    }
    return Dataset(MemorySource({DType::kUint8, shape}, images_.data(), y,
                                labels_.data(), kExamples))
        .Map(Scale(1 / 255.f));
  }
  static void Check(const Status& status) {
    if (!status.ok()) std::exit(ExitCode(status));
  }
  template <typename Work>
  static Times Measured(const Work& work) {
    const int64_t begin = Clock::System()->MonotonicNanos(),
                  used = ProcessorNanos();
    work();
    return {Milliseconds(Clock::System()->MonotonicNanos() - begin),
            Milliseconds(ProcessorNanos() - used)};
  }
  template <typename Work>
  static double Timed(const Work& work) {
    return Measured(work).wall;
  }

  const int64_t batch_;
  const size_t x_size_;
  std::vector<float> x_;
  std::vector<unsigned char> images_, labels_;
  std::vector<int32_t> numbers_;
  Functional model_;
  std::unique_ptr<BatchLoader> loader_;
  Snapshot snapshot_;
  std::vector<char> copy_;
};

// The trainer that a command refers to.
struct Run {
  std::string network = "tutorial";
  int64_t batch = 64;
  int threads = 1;
  bool operator<(const Run& other) const {
    return std::tie(network, batch, threads) <
           std::tie(other.network, other.batch, other.threads);
  }
};

// The words behind the command. False where they are missing.
bool ReadRun(const std::string& command, Run* run, std::string* folder) {
  char text[256] = "";
  if (command == "save") {
    if (std::scanf("%255s", text) != 1) return false;
    *folder = text;
    return true;
  }
  if (command == "bytes") return true;
  if (command == "export") {
    char to[256] = "";
    if (std::scanf("%255s %255s", text, to) != 2) return false;
    run->network = text;
    *folder = to;
    return true;
  }
  if (command == "train" || command == "predict" || command == "pieces") {
    long long batch = 0;
    if (std::scanf("%255s %lld", text, &batch) != 2) return false;
    run->network = text;
    run->batch = batch;
  }
  return std::scanf("%d", &run->threads) == 1;
}

int Main(bool exact) {
  StrategyOptions options;
  if (exact) options.reduction = Reduction::kExact;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(options);
  std::map<Run, std::unique_ptr<Trainer>> trainers;
  char word[16] = "";
  while (std::scanf("%15s", word) == 1) {
    const std::string command = word;
    Run run;
    std::string folder;
    if (command == "gemm" || command == "read") {
      char kind[8] = "", path[256] = "";
      if (command == "read" && std::scanf("%7s %255s", kind, path) != 2) {
        return 2;
      }
      std::printf("%.3f\n", kind[0] != 0 ? ReadTime(kind, path) : GemmRate());
      std::fflush(stdout);
      continue;
    }
    if (!ReadRun(command, &run, &folder)) return 2;
    std::unique_ptr<Trainer>& trainer = trainers[run];
    if (trainer == nullptr) {
      trainer = std::make_unique<Trainer>(run.network, run.batch, run.threads,
                                          strategy);
      for (int i = 0; i < 5; ++i) trainer->Step();
    }
    const bool predicts = command == "predict";
    if (predicts || command == "step" || command == "train") {
      // Three steps first, so that caches are filled and processors awake.
      Trainer::Times times = {};
      for (int i = 0; i < 4; ++i) {
        times = predicts ? trainer->Predict() : trainer->Step();
      }
      std::printf("%.4f", times.wall);
      if (command != "step") std::printf(" %.4f", times.processor);
      std::printf("\n");
    } else if (command == "export") {
      trainer->Export(folder + "/" + run.network);
      std::printf("exported\n");
    } else if (command == "save") {
      trainer->Save(folder);
    } else if (command == "bytes") {
      std::printf("%zu\n", trainer->Bytes());
    } else {
      trainer->PrintLayers();
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ringlet

int main(int argc, char** argv) {
  return ringlet::Main(argc > 1 && std::strcmp(argv[1], "exact") == 0);
}
