// "Dataset sharding and batch size" of "Multi-worker training with Keras":
// which worker trains on which examples.
//
//   mnist_sharding FOLDER [POLICY]    auto, file, data or off (the default, as
//                                     in the tutorial)
//
// As several workers, `ringlet launch -n 2 -- mnist_sharding FOLDER data`:
//
// [0] data: 16 steps a pass; worker 0 reads 1000 of 2000 examples
// [1] data: 16 steps a pass; worker 1 reads 1000 of 2000 examples
// [0] 16/16 - 0s - 30ms/step - accuracy: 0.6005 - loss: 1.1283

#include <map>
#include <memory>

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  const std::string name = argc > 2 ? argv[2] : "off";
  const std::map<std::string, AutoShardPolicy> policies = {
      {"auto", AutoShardPolicy::kAuto},
      {"file", AutoShardPolicy::kFile},
      {"data", AutoShardPolicy::kData},
      {"off", AutoShardPolicy::kOff}};
  if (policies.count(name) == 0) {
    return ExitCode(InvalidArgument("no policy '%s'", name.c_str()));
  }
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  const int workers = strategy.num_workers();

  const Dataset dataset = MnistDataset(folder, "train")
                              .Shuffle(/*seed=*/1)
                              .Batch(64 * workers)  // of the whole job
                              .AutoShard(policies.at(name));
  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(Adam(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, strategy);

  int64_t read = 0;
  {
    std::unique_ptr<BatchLoader> loader;
    Status status = model.OpenLoader(dataset, {}, &loader);
    for (Batch batch; status.ok() && !batch.last; read += batch.count) {
      status = loader->Next(&batch);
    }
    if (!status.ok()) return ExitCode(status);
  }
  Print("%s: %d steps a pass; worker %d reads %d of %d examples\n",
        name.c_str(), static_cast<int>(dataset.steps(workers)),
        strategy.worker(), static_cast<int>(read),
        static_cast<int>(dataset.size()));
  return ExitCode(model.Fit(dataset, {}));
}
