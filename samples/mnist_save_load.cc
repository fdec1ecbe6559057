// Trains, saves the whole model to one file, loads it, continues the training,
// and evaluates.
//
//   mnist_save_load FOLDER [FILE]    with the four IDX files
//
// saved mnist.safetensors after 140 steps
// loaded mnist.safetensors, with SGD at step 140
// test accuracy: 0.8250    (the small Fashion-MNIST of data/)

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  const std::string file = argc > 2 ? argv[2] : "mnist.safetensors";
  const Dataset train =
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Repeat().Batch(64);
  FitOptions options;
  options.epochs = 2;
  options.steps_per_epoch = 70;

  {
    Sequential model({Input({28, 28}), Reshape({28, 28, 1}),
                      Conv2D(32, 3, kRelu), Flatten(), Dense(128, kRelu),
                      Dense(10)});
    model.Compile(SGD(0.01f, 0.9f), SparseCategoricalCrossentropy(kFromLogits),
                  {Accuracy()});
    const auto history = model.Fit(train, options);
    if (!history.ok()) return ExitCode(history);
    const Status saved = SaveModel(&model, file);
    if (!saved.ok()) return ExitCode(saved);
    Print("saved %s after %d steps\n", file.c_str(),
          static_cast<int>(model.iterations()));
  }

  std::unique_ptr<Model> model;  // nothing of it is known here but the file
  const Status loaded = LoadModel(file, &model);
  if (!loaded.ok()) return ExitCode(loaded);
  Print("loaded %s, with %s at step %d\n", file.c_str(),
        model->optimizer().name(), static_cast<int>(model->iterations()));
  const auto history = model->Fit(train, options);
  if (!history.ok()) return ExitCode(history);

  const auto logs = model->Evaluate(MnistDataset(folder, "t10k").Batch(64));
  if (!logs.ok()) return ExitCode(logs);
  Print("test accuracy: %.4f\n", *logs->Find("accuracy"));
  return 0;
}
