// "Custom training loop with Keras and MultiWorkerMirroredStrategy", for one
// worker: a CheckpointManager in a user-defined loop.
//
//   mnist_checkpoint FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// Each run continues after the newest checkpoint in ./checkpoints:
//
// restored checkpoints/ckpt-1.safetensors
// Epoch: 1, accuracy: 0.8587, train_loss: 0.4200.

#include "mnist_common.h"

using namespace ringlet;

// Where the loop is, saved with the model.
struct Position : public Saveable {
  int64_t epoch = 0;
  DataPosition data;
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back({"loop/epoch", DType::kInt64, {}, &epoch});
    spans->push_back({"loop/pass", DType::kInt64, {}, &data.pass});
    spans->push_back({"loop/used", DType::kInt64, {}, &data.used});
  }
};

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  constexpr int kEpochs = 3, kStepsPerEpoch = 70;

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}), Conv2D(32, 3, kRelu),
                    Flatten(), Dense(128, kRelu), Dense(10)});
  model.Compile(RMSprop(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()});

  Position at;
  CheckpointManager checkpoints(
      {model.weights_state(), model.optimizer_state(), &at}, "checkpoints");
  std::string restored;
  Status status = checkpoints.RestoreOrInitialize(&restored);
  if (!status.ok()) return ExitCode(status);
  if (!restored.empty()) Print("restored %s\n", restored.c_str());

  LoaderOptions loading;
  loading.start = at.data;
  std::unique_ptr<BatchLoader> batches;
  status = model.OpenLoader(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Repeat().Batch(64),
      loading, &batches);

  while (at.epoch < kEpochs && status.ok()) {
    std::vector<MetricState> epoch(model.num_metric_states());
    for (int step = 0; step < kStepsPerEpoch && status.ok(); ++step) {
      Batch batch;
      status = batches->Next(&batch);
      if (status.ok()) status = model.TrainStep(batch);
      if (status.ok()) AddMetrics(model.step_metrics(), &epoch);
      at.data = batch.next;
    }
    if (!status.ok()) break;
    Print("Epoch: %d, accuracy: %.4f, train_loss: %.4f.\n",
          static_cast<int>(at.epoch), model.metric_value(1, epoch.data()),
          model.metric_value(0, epoch.data()));
    ++at.epoch;
    status = checkpoints.Save();
  }
  return ExitCode(status);
}
