// A fit with everything in it, for backup_test to kill.
//
//   backup_runner FOLDER OPTIMIZER SAVE_FREQ     SAVE_FREQ 0 is "epoch"
//
// Writes FOLDER/log.csv and, once it has completed, FOLDER/final.safetensors.

#include <cstdlib>
#include <cstring>

#include "ringlet.h"
#include "support/tiny_model.h"

using namespace ringlet;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = argv[1];
  Optimizer optimizer = SGD(0.05f, 0.9f);
  if (std::strcmp(argv[2], "rmsprop") == 0) optimizer = RMSprop(0.003f);
  if (std::strcmp(argv[2], "adam") == 0) optimizer = Adam(0.01f);
  auto model = TinyModel(optimizer, /*dropout=*/0.2f);

  FitOptions options;
  options.epochs = 6;
  options.steps_per_epoch = 40;
  options.verbose = Verbose::kSilent;
  options.validation_data = Points(50, 9).Batch(20);
  EarlyStoppingOptions stopping;
  stopping.patience = 2;
  stopping.restore_best_weights = true;
  BackupAndRestoreOptions backup;
  backup.save_freq = std::atoi(argv[3]);
  options.callbacks = {EarlyStopping(stopping), CSVLogger(folder + "/log.csv"),
                       BackupAndRestore(folder + "/backup", backup)};
  const auto history =
      model->Fit(Points(300).Shuffle(4).Repeat().Batch(13), options);
  if (!history.ok()) return ExitCode(history);
  return ExitCode(
      SaveCheckpoint(folder + "/final.safetensors",
                     {model->weights_state(), model->optimizer_state()}));
}
