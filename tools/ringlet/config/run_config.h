// RunConfig: the content of a RUN.json (docs/run.schema.json).
//
// Reading it opens the model's configuration and nothing else; data are opened
// by OpenData. Names, defaults and null are as in Keras. Relative paths are
// relative to the folder of RUN.json.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_RUN_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_RUN_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data_config.h"
#include "io/files/file_system.h"
#include "io/keras/compile_arguments.h"
#include "io/keras/field_log.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

struct FitConfig {
  int64_t batch_size = 32;  // the batch of one replica
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  int64_t steps_per_epoch = 0;  // 0 means the whole data
  bool shuffle = true;
  int64_t seed = 1;  // decides the order of the data and the initial weights
  int64_t threads = 1;
  bool recompute = false;
  std::optional<DTypePolicy> dtype_policy;
  double validation_split = 0;        // the end of train, if data has no other
  int64_t validation_batch_size = 0;  // 0 means batch_size
  int64_t validation_steps = 0;       // 0 means the whole data
  int64_t validation_freq = 1;
  std::vector<int64_t> validation_epochs;
  Verbose verbose = Verbose::kAuto;
  ClassWeights class_weight;
};

// For a job of several workers, which the environment describes
// (ringlet/strategy.h).
struct StrategyConfig {
  // The policy at the loss of a worker.
  enum class Policy : uint8_t {
    // With BackupAndRestore the other workers wait until it is back, and
    // continue. Without, as kFail.
    kWait,
    kFail,   // other workers end with exit code 75
    kShrink  // other workers continue, and it may join again
  };
  Policy policy = Policy::kWait;
  int64_t min_workers = 1;  // a job of fewer does not start, or ends
  bool cross_check = true;  // see FitOptions
  bool elastic() const { return policy == Policy::kShrink; }
  // True if RUN.json has no policy, no reduction and no field that excludes
  // shrink.
  bool may_shrink = false;
  void SetShrinkPolicy();
  StrategyOptions options;
};

struct RunConfig {
  bool seal_all = false;  // set by the caller: seal all models and backups
  // Set by the caller: the changes that --continue-with allows in a backup.
  bool other_optimizer = false, other_seed = false;
  // True if a callback's files are sealed; then the trained model is too.
  bool sealed = false;
  // `disk` reads sealed and plain files, and writes plain ones. `sealed_disk`
  // writes sealed ones. Both use the key of `strategy`. Declared before the
  // members that use them.
  std::shared_ptr<FileSystem> disk = SealedFiles("", /*seal=*/false);
  std::shared_ptr<FileSystem> sealed_disk = SealedFiles();
  FileSystem* files() const { return sealed ? sealed_disk.get() : disk.get(); }

  // The model, not compiled. Null if there is the path of a saved model.
  std::unique_ptr<Model> model;
  std::string saved_model;
  // Only for a saved model. Otherwise `model` has it.
  std::optional<LoraOptions> lora;
  bool has_compile = false;  // if not, it is compiled as the saved model was
  CompileArguments compile;
  DataConfig train, validation;
  FitConfig fit;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::vector<std::string> logs;         // files that callbacks write rows to
  std::vector<std::string> checkpoints;  // paths of ModelCheckpoints
  // The folder of BackupAndRestore; empty if there is none.
  std::string backup;
  std::string tensorboard;  // log_dir of TensorBoard; empty if there is none
  StrategyConfig strategy;
  // True if `strategy` was read, also if another part has an error.
  bool has_strategy = false;
};

// Errors begin with "<path>: ", and with the field's place.
Status ReadRunConfig(const std::string& path, RunConfig* config);

// Sets the policy shrink if RUN.json allows the choice, and the model and the
// number of workers do. Does not read a saved model.
void ChooseShrinkPolicy(int workers, RunConfig* config);

// The fields of its parts, with the paths of the parts: "data.train".
std::vector<FieldInfo> DescribeRun();

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_RUN_CONFIG_H_
