// The demo: trains the tutorials' model on Fashion-MNIST to the end, alone or
// as several workers, and evaluates it on the test images.
//
//   fashion_mnist FOLDER    with the four IDX files of Fashion-MNIST
//
// test accuracy: 0.9045    (60,000 images, 3 epochs)

#include <algorithm>

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  CompileOptions compile = strategy;
  compile.threads = std::max(1, UsableCores() / strategy.num_workers());
  model.Compile(Adam(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, compile);
  if (strategy.is_chief()) Print("%s", model.Summary().c_str());

  FitOptions options;
  options.epochs = 3;
  const auto history = model.Fit(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Batch(64), options);
  if (!history.ok()) return ExitCode(history);

  const auto logs = model.Evaluate(MnistDataset(folder, "t10k").Batch(64));
  if (!logs.ok()) return ExitCode(logs);
  if (strategy.is_chief()) {
    Print("test accuracy: %.4f\n", *logs->Find("accuracy"));
  }
  return 0;
}
