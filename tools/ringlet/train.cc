// ringlet train: a RUN.json from data to a trained model.

#include <cinttypes>
#include <cstdlib>
#include <utility>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "core/base/message.h"
#include "core/base/text.h"
#include "core/fit/fit.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/save_when_trained.h"
#include "io/events/csv_logger.h"
#include "io/files/file_system.h"
#include "net/cluster/cluster.h"
#include "net/strategy/strategy.h"
#include "run.h"
#include "run_config.h"
#include "run_digest.h"

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
  std::string save, log_steps;
  bool no_save = false;
  void AddAll(CommandLine* flags);
};

void TrainFlags::AddAll(CommandLine* flags) {
  fit.AddAll(flags);
  init.Add(flags,
           "begin with the weights of this file: safetensors or\n"
           "npz");
  flags->Text("--save", "MODEL", &save,
              "write the trained model to this file, instead of\n"
              "<name of RUN>.safetensors in the current folder");
  flags->Switch("--no-save", &no_save, "write no model");
  flags->Text("--log-steps", "FILE.csv", &log_steps,
              "a row a step: epoch, step, loss, metrics, exactly");
}

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

// What the chief keeps of a run, and where.
struct Keeping {
  std::string path;  // "": nothing, where --no-save says so
  SaveWhenTrainedOptions options;
  std::string said;  // of it at the start
};

// "run" of "a/run.json".
std::string NameOfRun(const std::string& path) {
  const std::string name = FileNameOf(path);
  const std::string stem = WithoutSuffix(name, ".json");
  return stem.empty() ? name : stem;
}

std::string Folder(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// Of the callbacks the first that saves the whole model.
std::string SavedByCallbacks(const RunConfig& config) {
  for (const auto& callback : config.callbacks) {
    const std::string path = callback->SavesModelAs();
    if (!path.empty()) return path;
  }
  return "";
}

// That a file of `bytes` can be written where the model is to go.
Status CheckRoom(const Keeping& keeping, int64_t bytes) {
  if (keeping.options.unless_saved) return Status();
  const bool named = !keeping.options.spare_others;
  const char* const what = named ? "--save" : "the trained model";
  Status writable = CheckWritable(what, keeping.path);
  if (writable.ok()) {
    AtomicFile file;  // dropped
    writable = file.Open(FileSystem::Posix(), keeping.path, bytes)
                   .Annotate("%s", what);
  }
  if (writable.ok() || named) return writable;
  return Error(writable.code(),
               "%s; --save MODEL writes it to another place, --no-save nowhere",
               writable.message());
}

// Before the data are read; the name alone may change then.
Status PlanKeeping(const std::string& run, const RunConfig& config,
                   const TrainFlags& flags, bool chief, Keeping* keeping) {
  keeping->options.when_interrupted = !flags.no_save;
  if (!chief) return Status();
  if (flags.no_save) {
    keeping->said = "no model is saved (--no-save)";
    return Status();
  }
  keeping->options.elsewhere = Folder("TMPDIR", "/tmp");
  if (!flags.save.empty()) {
    keeping->path = flags.save;
    keeping->said = "the trained model goes to " + flags.save;
    return CheckRoom(*keeping, /*bytes=*/0);
  }
  keeping->path = NameOfRun(run) + ".safetensors";
  keeping->options.spare_others = true;
  const std::string saved = SavedByCallbacks(config);
  if (!saved.empty()) {
    keeping->options.unless_saved = true;
    keeping->said = "ModelCheckpoint saves the model as " + saved;
    return Status();
  }
  return CheckRoom(*keeping, /*bytes=*/0);
}

// A model's file of the default name carries which run it is of, so that the
// same run replaces it and no other does. Only then are the data read for it.
Status NameKeeping(const RunConfig& config, const InitFlags& init,
                   const RunData& data, int world, Keeping* keeping) {
  if (keeping->path.empty()) return Status();
  // About the file's size: a full disk is told before hours of training.
  const MemoryPlan plan = config.model->PlanMemory(1);
  RINGLET_RETURN_IF_ERROR(
      CheckRoom(*keeping, static_cast<int64_t>(plan.weights + plan.slots)));
  if (!keeping->options.spare_others) return Status();
  std::string digest;
  RINGLET_RETURN_IF_ERROR(RunDigest(config, init, data, world, &digest));
  keeping->options.metadata = {{"run", digest}};
  if (keeping->options.unless_saved) return Status();
  const std::string path = PathBesideOthers(FileSystem::Posix(), keeping->path,
                                            keeping->options.metadata);
  keeping->said = "the trained model goes to " + path;
  if (path != keeping->path) {
    keeping->said += ", for " + keeping->path + " is of another run";
  }
  keeping->said += " (--save MODEL: another name; --no-save: none)";
  return Status();
}

// Where the model is in the end.
class NotesSavedModel final : public Callback {
 public:
  const char* name() const override { return "notes_saved_model"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    path_ = fit.saved_model;
    return Status();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
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
  if (!flags.log_steps.empty()) {
    options.callbacks.push_back(StepLogger(flags.log_steps));
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
std::string Beginning(const std::string& path, const FitConfig& fit,
                      int world) {
  std::string text = path + ": " + Count(fit.epochs, "epoch");
  if (fit.steps_per_epoch > 0) {
    text += " of " + Count(fit.steps_per_epoch, "step");
  }
  text += ", batch size " + std::to_string(fit.batch_size);
  if (world > 1) text += " on each of " + Count(world, "worker");
  return text + ", " + Count(fit.threads, "thread");
}

std::string AboutData(const RunData& data) {
  std::string text = Count(data.train.size(), "example");
  if (data.validation.empty()) return text;
  return text + ", " + std::to_string(data.validation.size()) + " to validate";
}

// A word of a shell's line.
std::string Quoted(const std::string& word) {
  if (word[0] == '-') return Quoted("./" + word);  // no flag
  const std::string plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+,:@";
  if (word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string HowToUse(const std::string& run, const RunConfig& config,
                     const std::string& model) {
  return "the model is in " + model + "; to use it: ringlet evaluate " +
         Quoted(model) + " --data " + Quoted(run) +
         (config.validation.empty() ? " --part train" : "");
}

// A run that one worker has read and found nothing wrong with.
struct Prepared {
  RunConfig config;
  bool read = false;  // the configuration
  RunData data;
  Keeping keeping;
  bool says = false;  // this worker tells of the job
};

// Nothing that the run is made of is overwritten.
Status CheckOutputs(const std::string& path, const TrainFlags& flags,
                    const RunConfig& config) {
  std::vector<std::pair<const char*, std::string>> outputs = {
      {"--save", flags.save}, {"--log-steps", flags.log_steps}};
  for (const std::string& log : config.logs)
    outputs.push_back({"the log", log});
  for (const auto& [what, file] : outputs) {
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
  RINGLET_RETURN_IF_ERROR(CheckModelName(flags.save).Annotate("--save"));
  RunConfig& config = run->config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  run->read = true;
  flags.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(CheckCluster(path, config.strategy, cluster));
  RINGLET_RETURN_IF_ERROR(CheckOutputs(path, flags, config));
  RINGLET_RETURN_IF_ERROR(
      PlanKeeping(path, config, flags, cluster.is_chief, &run->keeping));
  if (cluster.is_chief) {
    RINGLET_RETURN_IF_ERROR(CheckWritable("--log-steps", flags.log_steps));
  }
  run->says = cluster.is_chief && config.fit.verbose != Verbose::kSilent;
  if (run->says) {
    Print("%s", Beginning(path, config.fit, cluster.world_size).c_str());
  }
  RINGLET_RETURN_IF_ERROR(
      MakeModel(&config, flags.init, nullptr).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(OpenRunData(config, cluster.world_size, &run->data)
                              .Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(NameKeeping(config, flags.init, run->data,
                                      cluster.world_size, &run->keeping));
  if (run->says) {
    Print("%s; %s", AboutData(run->data).c_str(), run->keeping.said.c_str());
  }
  return Status();
}

Status FitAndTell(const std::string& path, const TrainFlags& flags,
                  const Prepared& run, bool chief) {
  FitOptions options = OptionsOf(run.config, run.data, flags, run.keeping);
  const auto notes = std::make_shared<NotesSavedModel>();
  options.callbacks.push_back(notes);
  const Status trained =
      run.config.model->Fit(run.data.train, options).status();
  if (trained.code() == Code::kInterrupted && chief) {
    return Interrupted(
        trained.os_error(),
        "%s; --init takes the weights of a file, and the callback "
        "BackupAndRestore lets the same command go on where it was",
        trained.message());
  }
  if (trained.ok() && run.says && !notes->path().empty()) {
    Print("%s", HowToUse(path, run.config, notes->path()).c_str());
  }
  return trained;
}

// The strategy goes on to tell the other workers of an error once this has
// returned: print the error first.
Status Train(const std::string& path, const TrainFlags& flags,
             MultiWorkerMirroredStrategy* strategy) {
  Prepared run;
  ClusterConfig cluster;
  RINGLET_RETURN_IF_ERROR(
      ClusterFromEnvironment(Environment::Process(), &cluster));
  const Status prepared = Prepare(path, flags, cluster, &run);
  StrategyOptions& options = run.config.strategy.options;
  if (!prepared.ok()) {
    if (!run.read) options.job.clear();  // whatever the others call it
    *strategy =
        MultiWorkerMirroredStrategy::Withdrawn(cluster, options, prepared);
    return prepared;
  }
  *strategy = MultiWorkerMirroredStrategy::FromCluster(cluster, options);
  RINGLET_RETURN_IF_ERROR(strategy->status());
  if (strategy->num_workers() > 1) {
    const Status made =
        MakeModel(&run.config, flags.init, strategy->collective());
    if (!made.ok()) strategy->collective()->Abort(made);
    RINGLET_RETURN_IF_ERROR(made);
  }
  return FitAndTell(path, flags, run, cluster.is_chief);
}

// What it printed is wrong with its flags. The others wait for it.
MultiWorkerMirroredStrategy RefusedFlags() {
  ClusterConfig cluster;
  ClusterFromEnvironment(Environment::Process(), &cluster).IgnoreError();
  StrategyOptions options;
  options.job.clear();  // whatever RUN.json calls it
  return MultiWorkerMirroredStrategy::Withdrawn(
      cluster, options, InvalidArgument("its flags are wrong; it says which"));
}

}  // namespace

int64_t TrainThreads(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  RunConfig config;
  if (!flags.Accepts(line, 1, 1) ||
      !ReadRunConfig(flags.arguments()[0], &config).ok()) {
    return 1;
  }
  values.fit.Apply(&config.fit);
  return config.fit.threads;
}

int TrainCommand(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  int code = 0;
  MultiWorkerMirroredStrategy strategy;  // outlives the model
  bool right = flags.Parse(line, 1, 1, &code);
  if (right && values.no_save && !values.save.empty()) {
    code = flags.UsageError(
        InvalidArgument("--save and --no-save do not go together"));
    right = false;
  }
  if (!right) {
    if (code != 0) strategy = RefusedFlags();
    return code;
  }
  return InputExitCode(Train(flags.arguments()[0], values, &strategy));
}

}  // namespace ringlet
