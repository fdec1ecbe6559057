// A worker of a job on different machines. It trains the tutorials' model for
// some steps.
//
//   mixed_worker FOLDER DATA STEPS    TF_CONFIG has its index
//
// Writes FOLDER/final.<rank>.safetensors: weights and optimizer.

#include <cstdlib>

#include "ringlet/ringlet.h"
#include "samples/mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  StrategyOptions cluster;
  cluster.timeout_seconds = 120;  // an emulated worker is slow
  cluster.start_timeout_seconds = 120;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(cluster);

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dropout(0.2f), Dense(128, kRelu), Dense(10)});
  model.Compile(Adam(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, strategy);
  FitOptions options;
  options.steps_per_epoch = std::atoi(argv[3]);
  constexpr int kPerWorkerBatch = 8;
  const auto history =
      model.Fit(MnistDataset(argv[2], "train")
                    .Shuffle(/*seed=*/1)
                    .Repeat()
                    .Batch(kPerWorkerBatch * strategy.num_workers()),
                options);
  if (!history.ok()) return ExitCode(history);
  return ExitCode(
      SaveCheckpoint(std::string(argv[1]) + "/final." +
                         std::to_string(strategy.worker()) + ".safetensors",
                     {model.weights_state(), model.optimizer_state()}));
}
