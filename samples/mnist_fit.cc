// The single-worker run of "Multi-worker training with Keras".
//
//   mnist_fit FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// Epoch 1/3
// 70/70 - 1s - 13ms/step - accuracy: 0.1609 - loss: 2.2701   (and so on)

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(SGD(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});

  FitOptions options;
  options.epochs = 3;
  options.steps_per_epoch = 70;
  return ExitCode(model.Fit(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Repeat().Batch(64),
      options));
}
