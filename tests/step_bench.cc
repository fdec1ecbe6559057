// The training step of the tutorials' model, asked for by tools/bench.py.
//
//   step_bench        reads one command a line from stdin, answers with a line:
//     gemm            GFLOP/s of one 512 x 512 x 512 product on one thread
//     step T          milliseconds of a training step, batch 64, T threads
//     layers T        "name phase milliseconds" for each piece, in one line
//     bytes           of the model's memory at batch 64
//     save FOLDER     milliseconds of: the copy that a save pauses for, memcpy
//                     of as much, a save until it is durable, a plain write
//                     and fsync of as much, a load; and the megabytes of it
//
// With a TF_CONFIG it is a worker, with a batch of 64 of its own.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/compute/gemm.h"
#include "io/checkpoint/snapshot.h"
#include "ringlet.h"

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
  Gemm(1, matrix(a), matrix(b), 0, RowMajor(c.data(), kSize, kSize));
  const int64_t end = Clock::System()->MonotonicNanos();
  return 2.0 * kSize * kSize * kSize / static_cast<double>(end - begin);
}

class Layers final : public StepObserver {
 public:
  void Piece(const char* what, const char* phase, int64_t begin,
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
  Trainer(int threads, const MultiWorkerMirroredStrategy& strategy)
      : images_(1024 * 784),
        labels_(1024),
        model_({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                Flatten(), Dense(128, kRelu), Dense(10)}) {
    const Philox random(1, 0);
    for (size_t i = 0; i < images_.size(); ++i) {
      images_[i] = static_cast<unsigned char>(random.At(i)[0]);
    }
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = i % 10;
    CompileOptions options = strategy;
    options.threads = threads;
    model_.Compile(SGD(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                   {Accuracy()}, options);
    Check(model_.OpenLoader(
        Dataset(MemorySource({DType::kUint8, {28, 28}}, images_.data(),
                             {DType::kUint8, {}}, labels_.data(), 1024))
            .Map(Scale(1 / 255.f))
            .Repeat()
            .Batch(64 * strategy.num_workers()),
        {}, &loader_));
  }

  double Step() {
    Batch batch;
    Check(loader_->Next(&batch));
    const int64_t begin = Clock::System()->MonotonicNanos();
    Check(model_.TrainStep(batch));
    return Milliseconds(Clock::System()->MonotonicNanos() - begin);
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
      FileSystem* files = FileSystem::Posix();
      files->Remove(folder + "/plain").IgnoreError();
      Check(files->Create(folder + "/plain", &file));
      Check(file->Write(copy_.data(), bytes));
      Check(file->Sync());
    });
    std::printf("%.3f %.3f %.3f %.3f %.3f %.3f\n", pause, memcpy_ms, durable,
                plain, load, static_cast<double>(bytes) * 1e-6);
  }

 private:
  static void Check(const Status& status) {
    if (!status.ok()) std::exit(ExitCode(status));
  }
  template <typename Work>
  static double Timed(const Work& work) {
    const int64_t begin = Clock::System()->MonotonicNanos();
    work();
    return Milliseconds(Clock::System()->MonotonicNanos() - begin);
  }

  std::vector<unsigned char> images_, labels_;
  Sequential model_;
  std::unique_ptr<BatchLoader> loader_;
  Snapshot snapshot_;
  std::vector<char> copy_;
};

int Main() {
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  std::map<int, std::unique_ptr<Trainer>> trainers;
  char word[16] = "";
  while (std::scanf("%15s", word) == 1) {
    if (std::strcmp(word, "gemm") == 0) {
      std::printf("%.3f\n", GemmRate());
    } else {
      int threads = 1;
      char folder[256] = "";
      if (std::strcmp(word, "save") == 0) {
        if (std::scanf("%255s", folder) != 1) return 2;
      } else if (std::strcmp(word, "bytes") != 0 &&
                 std::scanf("%d", &threads) != 1) {
        return 2;
      }
      std::unique_ptr<Trainer>& trainer = trainers[threads];
      if (trainer == nullptr) {
        trainer = std::make_unique<Trainer>(threads, strategy);
        for (int i = 0; i < 5; ++i) trainer->Step();
      }
      if (std::strcmp(word, "step") == 0) {
        // As in a training that goes on: caches filled, processors awake.
        for (int i = 0; i < 3; ++i) trainer->Step();
        std::printf("%.4f\n", trainer->Step());
      } else if (folder[0] != '\0') {
        trainer->Save(folder);
      } else if (std::strcmp(word, "layers") == 0) {
        trainer->PrintLayers();
      } else {
        std::printf("%zu\n", trainer->Bytes());
      }
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ringlet

int main() { return ringlet::Main(); }
