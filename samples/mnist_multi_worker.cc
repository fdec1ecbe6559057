// "Multi-worker training with Keras": the same program on every worker.
//
//   mnist_multi_worker FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// In two terminals, or on two boards with their own addresses:
//
//   TF_CONFIG='{"cluster": {"worker": ["localhost:12345", "localhost:23456"]},
//               "task": {"type": "worker", "index": 0}}' mnist_multi_worker
//   TF_CONFIG='{"cluster": {"worker": ["localhost:12345", "localhost:23456"]},
//               "task": {"type": "worker", "index": 1}}' mnist_multi_worker
//
// or with both in one: ringlet launch -n 2 -- mnist_multi_worker

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  constexpr int kPerWorkerBatch = 64;

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, strategy);

  FitOptions options;
  options.epochs = 3;
  options.steps_per_epoch = 70;
  return ExitCode(
      model.Fit(MnistDataset(folder, "train")
                    .Shuffle(/*seed=*/1)
                    .Repeat()
                    .Batch(kPerWorkerBatch * strategy.num_workers()),
                options));
}
