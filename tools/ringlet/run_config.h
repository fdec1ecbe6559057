// RunConfig: what a RUN.json asks for (docs/run.schema.json).
//
// Internal to tools/ringlet/. Reading it opens the model's configuration and
// nothing else; data are opened by OpenData. Names, defaults and null are
// Keras's. Relative paths are relative to the folder of RUN.json.

#ifndef RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/fit/callback.h"
#include "core/fit/fit.h"
#include "core/model/attendance.h"
#include "core/model/model.h"
#include "data_config.h"
#include "io/files/sealed_files.h"
#include "io/keras/compile_arguments.h"
#include "io/keras/field_log.h"
#include "net/strategy/strategy.h"

namespace ringlet {

struct FitConfig {
  int64_t batch_size = 32;  // of one replica
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  int64_t steps_per_epoch = 0;  // 0: the whole data
  bool shuffle = true;
  int64_t seed = 1;  // of the order of the data and of initial weights
  int64_t threads = 1;
  bool recompute = false;
  double validation_split = 0;  // of train, its end; where data has no other
  int64_t validation_batch_size = 0;  // 0: batch_size
  int64_t validation_steps = 0;       // 0: the whole data
  int64_t validation_freq = 1;
  std::vector<int64_t> validation_epochs;
  Verbose verbose = Verbose::kAuto;
  ClassWeights class_weight;
};

// For a job of several workers, which the environment says
// (net/cluster/cluster.h).
struct StrategyConfig {
  // What happens when a worker is lost. kWait: with BackupAndRestore the others
  // wait until it is back and go on from the backup; without, as kFail: they
  // end with exit code 75. kShrink: they go on, and let it in when it is back.
  enum class Policy : uint8_t { kWait, kFail, kShrink };
  Policy policy = Policy::kWait;
  int64_t min_workers = 1;  // a job of fewer is refused, or ends
  bool cross_check = true;  // see FitOptions
  bool elastic() const { return policy == Policy::kShrink; }
  // Neither policy nor reduction is given, nor what does not go with shrink.
  bool may_shrink = false;
  void Shrink();
  std::string attendance;  // a path; "": none
  StrategyOptions options;
};

struct RunConfig {
  bool seal_all = false;  // set before: all models and backups are
  bool sealed = false;    // one of them is, and so is the trained model
  // Of the key of `strategy`; both read what is sealed, and the second seals.
  // They outlive what is below.
  std::shared_ptr<SealedFiles> disk =
      std::make_shared<SealedFiles>("", /*seal=*/false);
  std::shared_ptr<SealedFiles> sealed_disk = std::make_shared<SealedFiles>();
  FileSystem* files() const { return sealed ? sealed_disk.get() : disk.get(); }

  // Of ReadRunToTrain; null: none. Outlives the model too.
  std::shared_ptr<const Attendance> attendance;

  // To be compiled; or null, and the path of a saved model.
  std::unique_ptr<Model> model;
  std::string saved_model;
  bool has_compile = false;  // else a saved model goes on as it was compiled
  CompileArguments compile;
  DataConfig train, validation;
  FitConfig fit;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::vector<std::string> logs;  // files that callbacks write rows to
  std::string backup;             // the folder of BackupAndRestore; "": none
  StrategyConfig strategy;
  bool knows_strategy = false;  // also where another part is wrong
};

// Errors begin with "<path>: ", and with the field's place.
Status ReadRunConfig(const std::string& path, RunConfig* config);
// The same for whoever trains: the attendance that it names is read too.
Status ReadRunToTrain(const std::string& path, RunConfig* config);

// Makes the policy shrink where RUN.json leaves the choice, and neither so many
// workers nor the model forbid it. A saved model is not looked into.
void ShrinkWhereItMay(int workers, RunConfig* config);

// The fields of its parts, and the paths of those: "data.train".
std::vector<FieldInfo> DescribeRun();

// From a folder: "data/x.npy" and "/tmp/run" give "/tmp/run/data/x.npy".
std::string PathIn(const std::string& folder, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_
