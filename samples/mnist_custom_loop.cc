// "Custom training loop with Keras and MultiWorkerMirroredStrategy": RMSprop,
// an L2 penalty, and the step spelled out.
//
//   mnist_custom_loop FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// Alone, or as several workers: see mnist_multi_worker.cc.

#include "mnist_common.h"

using namespace ringlet;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  constexpr int kEpochs = 3, kStepsPerEpoch = 70, kPerWorkerBatch = 64;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}),
                    Conv2D(32, 3, kRelu).KernelRegularizer(L2(1e-5f)),
                    Flatten(), Dense(128, kRelu).KernelRegularizer(L2(1e-5f)),
                    Dense(10)});
  model.Compile(RMSprop(0.001f), SparseCategoricalCrossentropy(kFromLogits), {},
                strategy);

  std::unique_ptr<BatchLoader> batches;
  Status status =
      model.OpenLoader(MnistDataset(folder, "train")
                           .Shuffle(/*seed=*/1)
                           .Repeat()
                           .Batch(kPerWorkerBatch * strategy.num_workers()),
                       {}, &batches);

  for (int epoch = 0; epoch < kEpochs && status.ok(); ++epoch) {
    double sums[3] = {};  // loss, right answers, examples
    for (int step = 0; step < kStepsPerEpoch && status.ok(); ++step) {
      Batch batch;
      double loss = 0;  // this worker's share: L2 / N, and its examples
      status = batches->Next(&batch);
      if (status.ok())
        status = model.Forward(batch.x, batch.count, /*training=*/true);
      if (status.ok()) status = model.ComputeLoss(batch, &loss);
      if (status.ok()) status = model.Backward();  // sums over the workers
      if (status.ok()) status = model.ApplyGradients();
      MetricState accuracy;
      if (status.ok()) {
        status = UpdateMetric(SparseCategoricalAccuracy(), model.output_shape(),
                              batch.count, model.output(), batch.y, &accuracy);
      }
      sums[0] += loss;
      sums[1] += accuracy.total;
      sums[2] += accuracy.count;
    }
    if (status.ok()) status = SumOverRanks(model.collective(), sums, 3);
    if (!status.ok() || !strategy.is_chief()) continue;
    Print("Epoch: %d, accuracy: %.4f, train_loss: %.4f.\n", epoch,
          sums[1] / sums[2], sums[0] / kStepsPerEpoch);
  }
  return ExitCode(status);
}
