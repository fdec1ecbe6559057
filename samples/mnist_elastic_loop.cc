// A user-defined training loop with workers that may be lost and come back: the
// final bits are those of an undisturbed run.
//
//   mnist_elastic_loop FOLDER    with train-images-idx3-ubyte.gz and its labels
//
// Two workers, of which either may be killed and is started again:
//
//   ringlet launch -n 2 --restart -- mnist_elastic_loop

#include "mnist_common.h"

using namespace ringlet;

namespace {

// Runs again after a loss, from where the loop says that it is.
Status Train(TrainingLoop* loop) {
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasEpoch()) {
    while (loop->HasStep()) RINGLET_RETURN_IF_ERROR(loop->Step());
    if (loop->chief()) {
      Print("Epoch: %d, accuracy: %.4f, train_loss: %.4f.\n",
            static_cast<int>(loop->epoch()), *loop->logs().Find("accuracy"),
            *loop->logs().Find("loss"));
    }
    RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
  }
  return loop->End();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/fashion-mnist-mini";
  constexpr int kPerWorkerBatch = 64;
  StrategyOptions cluster;
  cluster.min_workers = 1;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(cluster);

  Sequential model({Input({28, 28}), Reshape({28, 28, 1}),
                    Conv2D(32, 3, kRelu).KernelRegularizer(L2(1e-5f)),
                    Flatten(), Dense(128, kRelu).KernelRegularizer(L2(1e-5f)),
                    Dense(10)});
  model.Compile(RMSprop(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                {Accuracy()}, strategy);

  FitOptions options;
  options.epochs = 3;
  options.steps_per_epoch = 70;
  TrainingLoop loop(&model,
                    MnistDataset(folder, "train")
                        .Shuffle(/*seed=*/1)
                        .Repeat()
                        .Batch(kPerWorkerBatch * model.num_replicas()),
                    options);
  Status status;
  do {
    status = Train(&loop);
  } while (loop.Recover(&status));
  return ExitCode(status);
}
