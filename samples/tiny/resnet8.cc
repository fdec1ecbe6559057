// ResNet-8 of MLPerf Tiny: one of ten classes, seen on 32x32 pixels.
//
//   tiny_resnet8 [FOLDER [EPOCHS]]    with images32_*.npy of make_data.py

#include "tiny_common.h"

using namespace ringlet;
using Node = Functional::Node;

int main(int argc, char** argv) {
  const TinyArguments arguments(argc, argv);
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();

  Functional model;
  const auto convolution = [&](Node x, int filters, int size, int strides) {
    return model.Add(Conv2D(filters, size)
                         .Strides(strides)
                         .Padding(kSame)
                         .KernelInitializer(HeNormal())
                         .KernelRegularizer(L2(1e-4f)),
                     {x});
  };
  const auto normalize = [&](Node x) {
    return model.Add(BatchNormalization(), {x});
  };
  const auto relu = [&](Node x) { return model.Add(ReLU(), {x}); };

  Node x = model.Add(Input({32, 32, 3}));
  x = relu(normalize(convolution(x, 16, 3, 1)));
  for (const int filters : {16, 32, 64}) {
    const int strides = filters == 16 ? 1 : 2;
    Node y = relu(normalize(convolution(x, filters, 3, strides)));
    y = normalize(convolution(y, filters, 3, 1));
    if (strides > 1) x = convolution(x, filters, 1, strides);
    x = relu(model.Add(Add(), {x, y}));
  }
  x = model.Add(Flatten(), {model.Add(AveragePooling2D(8), {x})});
  model.Add(Dense(10, kSoftmax).KernelInitializer(HeNormal()), {x});

  model.Compile(Adam(ExponentialDecay(0.001f, 1563, 0.99f, /*staircase=*/true)),
                SparseCategoricalCrossentropy(), {Accuracy()}, strategy);
  FitOptions options;
  options.epochs = arguments.epochs > 0 ? arguments.epochs : 500;
  options.validation_data = arguments.Data("images32_test").Batch(32);
  return ExitCode(model.Fit(
      arguments.Data("images32_train").Shuffle(/*seed=*/1).Batch(32), options));
}
