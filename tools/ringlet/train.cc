// ringlet train: a RUN.json from data to a trained model.

#include <cinttypes>

#include "command_line.h"
#include "commands.h"
#include "core/fit.h"
#include "core/step_logger.h"
#include "io/model_file.h"
#include "net/cluster.h"
#include "net/strategy.h"
#include "run.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Trains the model of RUN.json on its data. Flags go before its fields.
)";

constexpr char kMore[] = R"(
RUN.json has model, compile, data, fit, callbacks and strategy, with Keras's
names: see docs/run.schema.json and the examples in samples/. With the callback
BackupAndRestore a run that was stopped goes on where it was: exit code 75 says
that its state is saved.
)";

struct TrainFlags {
  FitFlags fit;
  InitFlags init;
  std::string save, log_steps;
};

Status CheckCluster(const std::string& path, const StrategyConfig& strategy,
                    const ClusterConfig& cluster) {
  if (cluster.is_evaluator) {
    return InvalidArgument(
        "the environment makes this process an evaluator, which does not "
        "train; run ringlet evaluate");
  }
  if (cluster.world_size >= strategy.min_workers) return Status();
  return InvalidArgument(
      "%s: strategy.min_workers: is %" PRId64
      ", but the environment (TF_CONFIG or its like) names %d; start more, or "
      "ask for fewer",
      path.c_str(), strategy.min_workers, cluster.world_size);
}

// Saves before the fit has completed: where that fails a backup stays, and the
// same command tries again. On every rank, for all have as many callbacks.
class SaveAtEnd final : public Callback {
 public:
  explicit SaveAtEnd(const std::string& path) : path_(path) {}
  const char* name() const override { return "--save"; }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    if (path_.empty() || !fit.chief) return Status();
    return SaveModel(fit.model, path_);
  }

 private:
  const std::string path_;
};

FitOptions OptionsOf(const RunConfig& config, const RunData& data,
                     const TrainFlags& flags) {
  FitOptions options;
  options.epochs = config.fit.epochs;
  options.initial_epoch = config.fit.initial_epoch;
  options.steps_per_epoch = config.fit.steps_per_epoch;
  options.validation_data = data.validation;
  options.validation_steps = config.fit.validation_steps;
  options.validation_freq = config.fit.validation_freq;
  options.validation_epochs = config.fit.validation_epochs;
  options.callbacks = config.callbacks;
  options.verbose = config.fit.verbose;
  if (!flags.log_steps.empty()) {
    options.callbacks.push_back(StepLogger(flags.log_steps));
  }
  // Behind those that bring back the best weights.
  options.callbacks.push_back(std::make_shared<SaveAtEnd>(flags.save));
  return options;
}

// All that one worker can see to be wrong is told before it waits for others.
Status Prepare(const std::string& path, const TrainFlags& flags,
               const ClusterConfig& cluster, RunConfig* config, RunData* data) {
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, config));
  flags.fit.Apply(&config->fit);
  RINGLET_RETURN_IF_ERROR(CheckCluster(path, config->strategy, cluster));
  if (cluster.is_chief) {
    RINGLET_RETURN_IF_ERROR(CheckWritable("--save", flags.save));
    RINGLET_RETURN_IF_ERROR(CheckWritable("--log-steps", flags.log_steps));
  }
  RINGLET_RETURN_IF_ERROR(
      MakeModel(config, flags.init, nullptr).Annotate("%s", path.c_str()));
  return OpenRunData(*config, cluster.world_size, data)
      .Annotate("%s", path.c_str());
}

// The strategy goes on to tell the other workers of an error once this has
// returned: print the error first.
Status Train(const std::string& path, const TrainFlags& flags,
             MultiWorkerMirroredStrategy* strategy) {
  RunConfig config;
  RunData data;
  ClusterConfig cluster;
  RINGLET_RETURN_IF_ERROR(
      ClusterFromEnvironment(Environment::Process(), &cluster));
  const Status prepared = Prepare(path, flags, cluster, &config, &data);
  const StrategyOptions& options = config.strategy.options;
  if (!prepared.ok()) {
    *strategy =
        MultiWorkerMirroredStrategy::Withdrawn(cluster, options, prepared);
    return prepared;
  }
  *strategy = MultiWorkerMirroredStrategy::FromCluster(cluster, options);
  RINGLET_RETURN_IF_ERROR(strategy->status());
  if (strategy->num_workers() > 1) {
    const Status made = MakeModel(&config, flags.init, strategy->collective());
    if (!made.ok()) strategy->collective()->Abort(made);
    RINGLET_RETURN_IF_ERROR(made);
  }
  return config.model->Fit(data.train, OptionsOf(config, data, flags)).status();
}

// What it printed is wrong with its flags. The others wait for it.
MultiWorkerMirroredStrategy RefusedFlags() {
  ClusterConfig cluster;
  ClusterFromEnvironment(Environment::Process(), &cluster).IgnoreError();
  return MultiWorkerMirroredStrategy::Withdrawn(
      cluster, {}, InvalidArgument("its flags are wrong; it says which"));
}

}  // namespace

int TrainCommand(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.fit.AddAll(&flags);
  values.init.Add(&flags,
                  "begin with the weights of this file: safetensors or\n"
                  "npz");
  flags.Text("--save", "MODEL", &values.save,
             "write the trained model to this file");
  flags.Text("--log-steps", "FILE.csv", &values.log_steps,
             "a row a step: epoch, step, loss, metrics, exactly");
  int code = 0;
  MultiWorkerMirroredStrategy strategy;  // outlives the model
  if (!flags.Parse(line, 1, 1, &code)) {
    if (code != 0) strategy = RefusedFlags();
    return code;
  }
  return ExitCode(Train(flags.arguments()[0], values, &strategy));
}

}  // namespace ringlet
