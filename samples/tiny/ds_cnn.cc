// DS-CNN of MLPerf Tiny: one of twelve words, said within a second.
//
//   tiny_ds_cnn [FOLDER [EPOCHS]]    with words_*.npy of make_data.py

#include "tiny_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const TinyArguments arguments(argc, argv);
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  const Regularizer decay = L2(1e-4f);

  Sequential model({Input({49, 10, 1})});
  const auto add = [&](Layer convolution) {
    model.Add(convolution.Padding(kSame));
    model.Add(BatchNormalization());
    model.Add(ReLU());
  };
  add(Conv2D(64, 10, 4).Strides(2).KernelRegularizer(decay));
  model.Add(Dropout(0.2f));
  for (int block = 0; block < 4; ++block) {
    add(DepthwiseConv2D(3).DepthwiseRegularizer(decay));
    add(Conv2D(64, 1).KernelRegularizer(decay));
  }
  model.Add(Dropout(0.4f));
  model.Add(AveragePooling2D(25, 5));
  model.Add(Flatten());
  model.Add(Dense(12, kSoftmax));

  model.Compile(Adam(0.0005f), SparseCategoricalCrossentropy(), {Accuracy()},
                strategy);
  FitOptions options;
  options.epochs = arguments.epochs > 0 ? arguments.epochs : 36;
  options.validation_data = arguments.Data("words_test").Batch(100);
  return ExitCode(model.Fit(
      arguments.Data("words_train").Shuffle(/*seed=*/1).Batch(100), options));
}
