// "Fault tolerance" of "Multi-worker training with Keras": BackupAndRestore.
//
//   mnist_backup FOLDER          backs up after every epoch
//   mnist_backup FOLDER 30       backs up after every 30 steps
//
// Stop it with Ctrl-C, or kill it, and start it again: it continues where the
// backup in ./backup was made, and ends with the same weights. Ctrl-C makes one
// more backup first, and the exit code 75 says that the run can continue.

#include <cstdlib>

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 0;

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});

  FitOptions options;
  options.epochs = 3;
  options.steps_per_epoch = 70;
  options.callbacks = {BackupAndRestore(
      "backup", steps > 0 ? SaveEvery(steps) : SaveEveryEpoch())};
  const auto history = model.Fit(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Repeat().Batch(64),
      options);
  if (!history.ok()) return ExitCode(history);
  return ExitCode(SaveModel(&model, "mnist.safetensors"));
}
