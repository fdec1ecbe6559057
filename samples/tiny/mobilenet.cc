// MobileNetV1, a quarter as wide, of MLPerf Tiny: is a person (here: a shoe) to
// be seen on 96x96 pixels?
//
//   tiny_mobilenet [FOLDER [EPOCHS]]    with images96_*.npy of make_data.py

#include "tiny_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const TinyArguments arguments(argc, argv);
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();

  Sequential model({Input({96, 96, 3})});
  const auto add = [&](Layer layer) {
    model.Add(layer.Padding(kSame));
    model.Add(BatchNormalization());
    model.Add(ReLU());
  };
  const auto convolution = [&](int filters, int size, int strides) {
    add(Conv2D(filters, size)
            .Strides(strides)
            .KernelInitializer(HeNormal())
            .KernelRegularizer(L2(1e-4f)));
  };
  const auto separable = [&](int filters, int strides) {
    add(DepthwiseConv2D(3)
            .Strides(strides)
            .DepthwiseInitializer(HeNormal())
            .DepthwiseRegularizer(L2(1e-4f)));
    convolution(filters, 1, 1);
  };
  convolution(8, 3, 2);
  separable(16, 1);
  for (const int filters : {32, 64, 128}) {
    separable(filters, 2);
    const int more = filters == 128 ? 5 : 1;
    for (int i = 0; i < more; ++i) separable(filters, 1);
  }
  separable(256, 2);
  separable(256, 1);
  model.Add(AveragePooling2D(3));
  model.Add(Flatten());
  model.Add(Dense(2, kSoftmax));

  model.Compile(
      Adam(PiecewiseConstantDecay({62500, 93750}, {0.001f, 0.0005f, 0.00025f})),
      SparseCategoricalCrossentropy(), {Accuracy()}, strategy);
  FitOptions options;
  options.epochs = arguments.epochs > 0 ? arguments.epochs : 50;
  options.validation_data =
      arguments.Data("images96_test").Map(Scale(1 / 255.f)).Batch(32);
  return ExitCode(model.Fit(arguments.Data("images96_train")
                                .Map(Scale(1 / 255.f))
                                .Shuffle(/*seed=*/1)
                                .Batch(32),
                            options));
}
