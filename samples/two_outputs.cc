// A model of two inputs and two outputs: a garment's picture and a coarse one
// of 7x7 say its kind, and how large its number is.
//
//   two_outputs FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// Epoch 1/2
// 70/70 - 0s - 3ms/step - kind_accuracy: 0.4964 - kind_loss: 1.5118 -
//   loss: 1.6020 - number_loss: 0.1803   (in one line, and so on)

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";

  Functional model;
  const auto image = model.Add(Input({28, 28}).Name("image"));
  const auto again = model.Add(Input({28, 28}).Name("again"));
  const auto fine =
      model.Add(Dense(32, kRelu), {model.Add(Flatten(), {image})});
  const auto coarse = model.Add(
      Flatten(), {model.Add(AveragePooling2D(4),
                            {model.Add(Reshape({28, 28, 1}), {again})})});
  const auto both = model.Add(Concatenate(), {fine, coarse});
  const auto kind = model.Add(Dense(10, kSoftmax).Name("kind"), {both});
  const auto number = model.Add(Dense(1).Name("number"), {both});
  model.Outputs({kind, number});
  model.Compile(Adam(), {OutputLoss("kind", SparseCategoricalCrossentropy(),
                                    {Accuracy()}),
                         OutputLoss("number", MeanSquaredError(), {}, 0.5f)});

  const Dataset images =
      IdxDataset(folder + "/train-images-idx3-ubyte.gz").Map(Scale(1 / 255.f));
  const Dataset kinds = IdxDataset(folder + "/train-labels-idx1-ubyte.gz");
  FitOptions options;
  options.epochs = 2;
  options.steps_per_epoch = 70;
  return ExitCode(
      model.Fit(Zip({images, images}, {kinds, kinds.Map(Scale(0.1f))})
                    .Shuffle(/*seed=*/1)
                    .Repeat()
                    .Batch(64),
                options));
}
