// ringlet train: a RUN.json from data to a trained model.
//
// The order is what must not change. Everything that this worker can find wrong
// alone (Prepare: flags, fields, outputs, model, data) is found before it meets
// the others, and is then told to them by Withdrawn, or they would wait for it.
// Only then does FromCluster wait; with a collective the model is made a second
// time, so that Compile compares the ranks. The strategy outlives the model,
// and the error is printed before the strategy's end, which may take 5 s.

#include <algorithm>
#include <cinttypes>
#include <utility>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "core/base/message.h"
#include "core/base/text.h"
#include "core/fit/fit.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/saving_callbacks.h"
#include "io/events/loggers.h"
#include "keeping.h"
#include "net/cluster/cluster.h"
#include "net/launch/tell_launcher.h"
#include "net/strategy/strategy.h"
#include "run.h"
#include "run_config.h"
#include "trails.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Trains the model of RUN.json on its data. Flags go before its fields.
)";

constexpr char kMore[] = R"(
RUN.json has model, compile, data, fit, callbacks and strategy, with Keras's
names: see docs/run.schema.json and the examples in samples/. The model is saved
by --save, by the callback ModelCheckpoint, or as <name of RUN>.safetensors; a
file of another run is not replaced: the next free name is taken. Ctrl-C, SIGTERM
and SIGHUP finish the step and save: with the callback BackupAndRestore the same
command goes on there (exit code 75), without it the model is in
<name>-interrupted.safetensors (exit code 128 + the signal: 130 of Ctrl-C). The
second one ends at once.
)";

struct TrainFlags {
  FitFlags fit;
  InitFlags init;
  KeepFlags keep;
  std::string log_steps;
  bool log_digests = false;
  std::string log_examples;
  std::string trail;
  bool insecure = false, sealed = false, shrink = false;
  void AddAll(CommandLine* flags);
};

void TrainFlags::AddAll(CommandLine* flags) {
  fit.AddAll(flags);
  init.Add(flags,
           "begin with the weights of this file: safetensors,\n"
           "npz or ONNX");
  flags->Text("--save", "MODEL", &keep.save,
              "write the trained model to this file, instead of\n"
              "<name of RUN>.safetensors in the current folder");
  flags->Switch("--no-save", &keep.no_save, "write no model");
  flags->Text("--log-steps", "FILE.csv", &log_steps,
              "a row a step: epoch, step, loss, metrics, exactly");
  flags->Switch("--log-digests", &log_digests,
                "of --log-steps: also a digest of the weights after\n"
                "each step");
  flags->Text("--log-examples", "FILE.csv", &log_examples,
              "a row a step: the numbers of its examples, for\n"
              "`ringlet audit`");
  flags->Text("--trail", "FOLDER", &trail,
              "the last events of each worker, for `ringlet\n"
              "inspect` after its death: FOLDER/worker-0.trail …");
  flags->Switch("--shrink", &shrink,
                "go on without a lost worker where RUN.json gives\n"
                "neither policy nor reduction; workers on one disk");
  flags->Switch("--sealed", &sealed,
                "models and backups so that only who has the key\n"
                "(ringlet keygen) can read them");
  flags->Switch("--insecure", &insecure,
                "workers without a key (ringlet keygen), where nobody\n"
                "else can reach their network");
}

Status CheckCluster(const std::string& path, const StrategyConfig& strategy,
                    const ClusterConfig& cluster) {
  if (cluster.is_evaluator) {
    return InvalidArgument(
        "the environment makes this process an evaluator, which does not "
        "train; run ringlet evaluate");
  }
  const int replicas = strategy.options.replicas;
  if (replicas != 0 && replicas < cluster.world_size) {
    return InvalidArgument(
        "%s: strategy.replicas: is %d, but the environment (TF_CONFIG or its "
        "like) names %d workers, and each computes at least one replica; start "
        "fewer workers",
        path.c_str(), replicas, cluster.world_size);
  }
  if (cluster.world_size >= strategy.min_workers) return Status();
  return InvalidArgument(
      "%s: strategy.min_workers: is %" PRId64
      ", but the environment (TF_CONFIG or its like) names %d; start more, or "
      "ask for fewer",
      path.c_str(), strategy.min_workers, cluster.world_size);
}

// Where the model is in the end, and whether this worker is the chief then: of
// an elastic job not always the one that was it at the start. The first of all
// callbacks, for what others do when a fit returns may take long.
class NotesSavedModel final : public Callback {
 public:
  const char* name() const override { return "notes_saved_model"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  void OnFitReturn(FitState& fit, const Status& status) override {
    path_ = fit.saved_model;
    chief_ = fit.chief;
    if (status.ok()) TellLauncher(fit.model->collective()->worker());
  }
  const std::string& path() const { return path_; }
  bool chief() const { return chief_; }

 private:
  std::string path_;
  bool chief_ = false;
};

FitOptions OptionsOf(const RunConfig& config, const RunData& data,
                     const TrainFlags& flags, const Keeping& keeping) {
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
  options.class_weight = config.fit.class_weight;
  options.cross_check = config.strategy.cross_check;
  if (!flags.log_steps.empty()) {
    options.callbacks.push_back(StepLogger(flags.log_steps, flags.log_digests));
  }
  if (!flags.log_examples.empty()) {
    options.callbacks.push_back(ExampleLogger(flags.log_examples));
  }
  // Behind those that bring back the best weights. On every rank, for all have
  // as many callbacks.
  options.callbacks.push_back(SaveWhenTrained(keeping.path, keeping.options));
  return options;
}

std::string Count(int64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// The first line, before anything is read that may take long.
std::string Beginning(const std::string& path, const RunConfig& config,
                      int world, int replicas) {
  const FitConfig& fit = config.fit;
  std::string text = path + ": " + Count(fit.epochs, "epoch");
  if (fit.steps_per_epoch > 0) {
    text += " of " + Count(fit.steps_per_epoch, "step");
  }
  text += ", batch size " + std::to_string(fit.batch_size);
  if (replicas != world) {
    text += " of each of " + Count(replicas, "replica") + " on " +
            Count(world, "worker");
  } else if (world > 1) {
    text += " on each of " + Count(world, "worker");
  }
  if (config.strategy.elastic()) text += " that may come and go (exact sums)";
  const LocalUpdates& local = config.strategy.options.local;
  if (local.on()) {
    text += local.steps == LocalUpdates::kAutoSteps
                ? ", rounds of local steps by the link"
                : ", rounds of " + Count(local.steps, "local step");
  }
  return text + ", " + Count(fit.threads, "thread");
}

std::string AboutData(const RunData& data) {
  std::string text = Count(data.train.size(), "example");
  if (data.validation.empty()) return text;
  return text + ", " + std::to_string(data.validation.size()) + " to validate";
}

std::string HowToUse(const std::string& run, const RunConfig& config,
                     const std::string& model) {
  const std::string& key_file = config.strategy.options.key_file;
  const std::string key = config.sealed && !key_file.empty()
                              ? "RINGLET_KEY_FILE=" + ShellWord(key_file) + " "
                              : "";
  return "the model is in " + model + "; to use it: " + key +
         "ringlet evaluate " + ShellWord(model) + " --data " + ShellWord(run) +
         (config.validation.empty() ? " --part train" : "");
}

// A run that one worker has read and found nothing wrong with.
struct Prepared {
  RunConfig config;
  RunData data;
  Keeping keeping;
  bool says = false;  // this worker tells of the job before it begins
  int replicas = 0;   // that this worker asks for
};

// Nothing that the run is made of is overwritten.
Status CheckOutputs(const std::string& path, const TrainFlags& flags,
                    const RunConfig& config) {
  std::vector<std::pair<const char*, std::string>> outputs = {
      {"--save", flags.keep.save},
      {"--log-steps", flags.log_steps},
      {"--log-examples", flags.log_examples}};
  for (const std::string& log : config.logs)
    outputs.push_back({"the log", log});
  for (const auto& [what, file] : outputs) {
    for (const auto& [other, path_of_other] : outputs) {
      if (&path_of_other == &file) break;
      const bool same =
          file == path_of_other || IsSameFile(file, path_of_other);
      if (!file.empty() && !StartsWith(file, "/dev/") && same) {
        return InvalidArgument("%s and %s are one file, %s; give each its own",
                               other, what, file.c_str());
      }
    }
    for (const DataConfig* data : {&config.train, &config.validation}) {
      RINGLET_RETURN_IF_ERROR(CheckNotData(what, file, *data));
    }
    if (!file.empty() && IsSameFile(file, path)) {
      return InvalidArgument("%s %s: holds the run itself; give another name",
                             what, file.c_str());
    }
  }
  return Status();
}

// All that one worker can see to be wrong is told before it waits for others.
Status Prepare(const std::string& path, const TrainFlags& flags,
               const ClusterConfig& cluster, Prepared* run) {
  RINGLET_RETURN_IF_ERROR(CheckModelName(flags.keep.save).Annotate("--save"));
  if (flags.log_digests && flags.log_steps.empty()) {
    return InvalidArgument("--log-digests: there is no --log-steps");
  }
  RunConfig& config = run->config;
  config.seal_all = config.sealed = flags.sealed;
  RINGLET_RETURN_IF_ERROR(ReadRunToTrain(path, &config));
  if (flags.shrink) ShrinkWhereItMay(cluster.world_size, &config);
  // Each may be the chief in the end.
  const bool keeps = cluster.is_chief || config.strategy.elastic();
  if (config.sealed && keeps) {
    RINGLET_RETURN_IF_ERROR(config.sealed_disk->CheckKey());
  }
  flags.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(CheckCluster(path, config.strategy, cluster));
  RINGLET_RETURN_IF_ERROR(CheckOutputs(path, flags, config));
  RINGLET_RETURN_IF_ERROR(
      PlanKeeping(path, config, flags.keep, keeps, &run->keeping));
  if (keeps) {
    RINGLET_RETURN_IF_ERROR(CheckWritable("--log-steps", flags.log_steps));
    RINGLET_RETURN_IF_ERROR(
        CheckWritable("--log-examples", flags.log_examples));
  }
  run->replicas = AskedReplicas(config, cluster);
  const int replicas = std::max(run->replicas, cluster.world_size);
  run->says = cluster.is_chief && config.fit.verbose != Verbose::kSilent;
  if (run->says) {
    Print("%s", Beginning(path, config, cluster.world_size, replicas).c_str());
  }
  // Of several workers one alone first, for what it can find wrong.
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, flags.init, nullptr,
                                    cluster.world_size == 1 ? replicas : 1)
                              .Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      OpenRunData(config, replicas, &run->data).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      NameKeeping(config, flags.init, run->data, replicas, &run->keeping));
  if (run->says) {
    Print("%s; %s", AboutData(run->data).c_str(), run->keeping.said.c_str());
  }
  return Status();
}

Status FitAndTell(const std::string& path, const TrainFlags& flags,
                  const Prepared& run) {
  FitOptions options = OptionsOf(run.config, run.data, flags, run.keeping);
  const auto notes = std::make_shared<NotesSavedModel>();
  options.callbacks.insert(options.callbacks.begin(), notes);
  const Status trained =
      run.config.model->Fit(run.data.train, options).status();
  if (trained.code() == Code::kInterrupted && notes->chief()) {
    return Interrupted(
        trained.os_error(),
        "%s; --init takes the weights of a file, and the callback "
        "BackupAndRestore lets the same command go on where it was",
        trained.message());
  }
  const bool says =
      notes->chief() && run.config.fit.verbose != Verbose::kSilent;
  if (trained.ok() && says && !notes->path().empty()) {
    Print("%s", HowToUse(path, run.config, notes->path()).c_str());
  }
  return trained;
}

// The strategy goes on to tell the other workers of an error once this has
// returned: print the error first.
Status Train(const std::string& path, const TrainFlags& flags,
             std::unique_ptr<Trail>* trail,
             MultiWorkerMirroredStrategy* strategy) {
  Prepared run;
  ClusterConfig cluster;
  RINGLET_RETURN_IF_ERROR(
      ClusterFromEnvironment(Environment::Process(), &cluster));
  Status prepared = OpenTrail(flags.trail, cluster, trail);
  if (prepared.ok()) prepared = Prepare(path, flags, cluster, &run);
  StrategyOptions& options = run.config.strategy.options;
  // What the others call the job is not known then, and to tell them without a
  // key, where they may have one, would tell everybody. (At a relay they are
  // found by a name alone, so it is this one.)
  if (!run.config.knows_strategy && options.relay.empty()) options.job.clear();
  options.insecure = options.insecure || flags.insecure;
  if (!prepared.ok()) {
    *strategy =
        MultiWorkerMirroredStrategy::Withdrawn(cluster, options, prepared);
    return prepared;
  }
  *strategy = MultiWorkerMirroredStrategy::FromCluster(cluster, options);
  RINGLET_RETURN_IF_ERROR(strategy->status());
  if (strategy->num_workers() > 1) {
    const Status made = MakeModel(&run.config, flags.init,
                                  strategy->collective(), run.replicas);
    if (!made.ok()) strategy->collective()->Abort(made);
    RINGLET_RETURN_IF_ERROR(made);
    run.data.Batch(run.config.fit, run.config.model->num_replicas());
  }
  return FitAndTell(path, flags, run);
}

// What it printed is wrong with its flags. The others wait for it.
MultiWorkerMirroredStrategy RefusedFlags(bool insecure) {
  ClusterConfig cluster;
  ClusterFromEnvironment(Environment::Process(), &cluster).IgnoreError();
  StrategyOptions options;
  options.job.clear();  // whatever RUN.json says
  options.insecure = insecure;
  return MultiWorkerMirroredStrategy::Withdrawn(
      cluster, options, InvalidArgument("its flags are wrong; it says which"));
}

}  // namespace

TrainLine ReadTrainLine(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  RunConfig config;
  const bool right = flags.Accepts(line, 1, 1) &&
                     ReadRunConfig(flags.arguments()[0], &config).ok();
  if (!right) return {};
  values.fit.Apply(&config.fit);
  const StrategyOptions& s = config.strategy.options;
  return {config.fit.threads,  // at a start, and where it was lost meanwhile
          std::min(s.start_timeout_seconds, s.timeout_seconds / 2)};
}

int TrainCommand(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  int code = 0;
  std::unique_ptr<Trail> trail;          // outlives the strategy
  MultiWorkerMirroredStrategy strategy;  // outlives the model
  bool right = flags.Parse(line, 1, 1, &code);
  if (right && values.keep.no_save && !values.keep.save.empty()) {
    code = flags.UsageError(
        InvalidArgument("--save and --no-save do not go together"));
    right = false;
  }
  if (!right) {
    if (code != 0) strategy = RefusedFlags(values.insecure);
    return code;
  }
  const Status trained = Train(flags.arguments()[0], values, &trail, &strategy);
  code = InputExitCode(trained);
  // The program says so once this has returned.
  if (code == 0 && !StdoutIsWritten()) code = 1;
  if (trail != nullptr) trail->Ends(trained, code);
  return code;
}

}  // namespace ringlet
