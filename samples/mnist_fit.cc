// The single-worker run of "Multi-worker training with Keras".
//
//   mnist_fit FOLDER    with train-images-idx3-ubyte.gz and the other three

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder =
      argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}),
                    Conv2D(32, 3, kRelu), Flatten(), Dense(128, kRelu),
                    Dense(10)});
  model.Compile(Adam(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});
  std::printf("%s", model.Summary().c_str());

  FitOptions options;
  options.epochs = 2;
  const auto history = model.Fit(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Batch(64), options);
  if (!history.ok()) return ExitCode(history);

  const auto logs = model.Evaluate(MnistDataset(folder, "t10k").Batch(64));
  if (!logs.ok()) return ExitCode(logs);
  std::printf("test accuracy: %.4f\n", *logs->Find("accuracy"));
  return 0;
}
