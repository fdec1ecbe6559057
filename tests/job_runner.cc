// A worker of a small job, for job_test to kill.
//
//   job_runner FOLDER [backup] [timeout=SECONDS]  TF_CONFIG says which worker
//
// Writes FOLDER/pid.<rank>, after every step FOLDER/step.<rank>, and at the end
// FOLDER/final.<rank>.safetensors.

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "ringlet.h"
#include "temp_folder.h"
#include "tiny_model.h"

using namespace ringlet;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1];
  StrategyOptions cluster;
  cluster.timeout_seconds = 1;
  bool backup = false;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "backup") == 0) backup = true;
    if (std::strncmp(argv[i], "timeout=", 8) == 0)
      cluster.timeout_seconds = std::atof(argv[i] + 8);
  }
  cluster.start_timeout_seconds = 60;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(cluster);
  const std::string rank = std::to_string(strategy.rank());
  WriteWhole(folder + "/pid." + rank, std::to_string(getpid()));
  auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, strategy);

  FitOptions options;
  options.epochs = 4;
  options.steps_per_epoch = 40;
  LambdaCallbackOptions lambda;
  lambda.on_train_batch_end = [&](int64_t, const Logs&) {
    WriteWhole(folder + "/step." + rank, std::to_string(model->iterations()));
    usleep(5000);
  };
  options.callbacks = {LambdaCallback(lambda), CSVLogger(folder + "/log.csv")};
  if (backup)
    options.callbacks.push_back(
        BackupAndRestore(folder + "/backup", SaveEvery(7)));
  const auto history =
      model->Fit(Points(300).Shuffle(4).Repeat().Batch(13), options);
  if (!history.ok()) return ExitCode(history);
  return ExitCode(
      SaveCheckpoint(folder + "/final." + rank + ".safetensors",
                     {model->weights_state(), model->optimizer_state()}));
}
