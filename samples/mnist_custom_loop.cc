// The loop of "Custom training loop with Keras and
// MultiWorkerMirroredStrategy", for one worker: RMSprop, an L2 penalty, and the
// step spelled out.
//
//   mnist_custom_loop FOLDER    with train-images-idx3-ubyte.gz and its labels

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  constexpr int kEpochs = 3, kStepsPerEpoch = 70;

  Sequential model(
      {Input({28, 28}), Reshape({28, 28, 1}),
       Conv2D(32, 3, kRelu).KernelRegularizer(L2(1e-5f)), Flatten(),
       Dense(128, kRelu).KernelRegularizer(L2(1e-5f)), Dense(10)});
  model.Compile(RMSprop(0.001f), SparseCategoricalCrossentropy(kFromLogits));

  std::unique_ptr<BatchLoader> batches;
  Status status = model.OpenLoader(
      MnistDataset(folder, "train").Shuffle(/*seed=*/1).Repeat().Batch(64), {},
      &batches);

  for (int epoch = 0; epoch < kEpochs && status.ok(); ++epoch) {
    double total_loss = 0;
    MetricState accuracy;
    for (int step = 0; step < kStepsPerEpoch && status.ok(); ++step) {
      Batch batch;
      double loss = 0;
      status = batches->Next(&batch);
      if (status.ok()) status = model.Forward(batch.x, batch.count, true);
      if (status.ok()) status = model.ComputeLoss(batch, &loss);
      if (status.ok()) status = model.Backward();
      if (status.ok()) status = model.ApplyGradients();
      if (!status.ok()) break;
      total_loss += loss;
      UpdateMetric(SparseCategoricalAccuracy(), model.output_shape(),
                   batch.count, model.output(), batch.y, &accuracy);
    }
    if (!status.ok()) break;
    std::printf("Epoch: %d, accuracy: %.4f, train_loss: %.4f.\n", epoch,
                accuracy.Result(), total_loss / kStepsPerEpoch);
  }
  return ExitCode(status);
}
