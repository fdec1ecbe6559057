// The deep autoencoder of MLPerf Tiny: a machine that sounds as ever is given
// back with a small error, another with a large one.
//
//   tiny_autoencoder [FOLDER [EPOCHS]]    with hum_*.npy of make_data.py

#include "tiny_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const TinyArguments arguments(argc, argv);
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  const auto sounds = [&](const std::string& part) {
    const std::string path = arguments.folder + "/hum_" + part + ".npy";
    return NpyDataset(path, path);
  };

  Sequential model({Input({640})});
  for (const int units : {128, 128, 128, 128, 8, 128, 128, 128, 128}) {
    model.Add(Dense(units));
    model.Add(BatchNormalization());
    model.Add(ReLU());
  }
  model.Add(Dense(640));

  model.Compile(Adam(), MeanSquaredError(), {}, strategy);
  FitOptions options;
  options.epochs = arguments.epochs > 0 ? arguments.epochs : 100;
  options.validation_data = sounds("test").Batch(512);
  return ExitCode(
      model.Fit(sounds("train").Shuffle(/*seed=*/1).Batch(512), options));
}
