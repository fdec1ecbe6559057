// RunConfig: what a RUN.json asks for (docs/run.schema.json).
//
// Internal to tools/ringlet/. Reading it opens the model's configuration and
// nothing else; data are opened by OpenData. Names, defaults and null are
// Keras's. Relative paths are relative to the folder of RUN.json.

#ifndef RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/data/dataset.h"
#include "core/fit/callback.h"
#include "core/fit/fit.h"
#include "core/model/model.h"
#include "io/keras/field_log.h"
#include "net/strategy/strategy.h"

namespace ringlet {

// One of three forms; the paths of the other two are empty.
struct DataConfig {
  std::string images, labels;  // IDX
  bool in_memory = true;       // false: examples are read when asked for
  std::string x, y;            // NPY
  std::string csv;
  int64_t csv_values = 0;  // not 0: CsvOptions::values
  std::string label_name;  // column of the CSV's label …
  int64_t label_column = -1;
  std::optional<bool> header;  // none: told from the first line
  char separator = ',';
  Scale scale;
  AutoShardPolicy policy = AutoShardPolicy::kAuto;
  bool empty() const { return images.empty() && x.empty() && csv.empty(); }
};

struct FitConfig {
  int64_t batch_size = 32;  // of one worker
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  int64_t steps_per_epoch = 0;  // 0: the whole data
  bool shuffle = true;
  int64_t seed = 1;  // of the order of the data and of initial weights
  int64_t threads = 1;
  double validation_split = 0;  // of train, its end; where data has no other
  int64_t validation_batch_size = 0;  // 0: batch_size
  int64_t validation_steps = 0;       // 0: the whole data
  int64_t validation_freq = 1;
  std::vector<int64_t> validation_epochs;
  Verbose verbose = Verbose::kAuto;
};

// For a job of several workers, which the environment says
// (net/cluster/cluster.h).
struct StrategyConfig {
  // What happens when a worker is lost. kWait: with BackupAndRestore the others
  // wait until it is back and go on from the backup; without, as kFail: they
  // end with exit code 75.
  enum class Policy : uint8_t { kWait, kFail };
  Policy policy = Policy::kWait;
  int64_t min_workers = 1;  // a job of fewer is refused
  StrategyOptions options;
};

struct RunConfig {
  // To be compiled; or null, and the path of a saved model.
  std::unique_ptr<Model> model;
  std::string saved_model;
  bool has_compile = false;  // else a saved model goes on as it was compiled
  Optimizer optimizer;
  Loss loss;
  std::vector<Metric> metrics;
  DataConfig train, validation;
  FitConfig fit;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::vector<std::string> logs;  // files that callbacks write rows to
  StrategyConfig strategy;
};

// Errors begin with "<path>: ", and with the field's place.
Status ReadRunConfig(const std::string& path, RunConfig* config);

// The fields of its parts, and the paths of those: "data.train".
std::vector<FieldInfo> DescribeRun();

// The examples, scaled, not yet in batches.
Dataset OpenData(const DataConfig& data);

// From a folder: "data/x.npy" and "/tmp/run" give "/tmp/run/data/x.npy".
std::string PathIn(const std::string& folder, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_CONFIG_H_
