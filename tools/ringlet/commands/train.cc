// ringlet train: a RUN.json from data to a trained model.
//
// The order must not change. All errors that this worker can find alone
// (PrepareRun: flags, fields, outputs, model, data) are found before it
// connects to the other workers. Withdrawn then reports them to the other
// workers, which would otherwise wait. Only then does FromCluster wait; with a
// collective the model is made a second time, so that Compile compares the
// ranks. The strategy outlives the model, and the error is printed before the
// strategy's end, which may take 5 s.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/evaluator.h"
#include "../run/events.h"
#include "../run/output_plan.h"
#include "../run/run.h"
#include "../run/standard_input.h"
#include "../run/training_status.h"
#include "commands.h"
#include "core/base/text.h"
#include "core/fit/fit_details.h"
#include "core/fit/run_state.h"
#include "io/checkpoint/model_path.h"
#include "io/logs/service_notifier.h"
#include "net/launch/done_report.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"
#include "train_watch.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Trains the model of RUN.json on its data. A flag overrides a field of the
file.
)";

constexpr char kMore[] = R"(
RUN.json has model, compile, data, fit, callbacks and strategy, with Keras's
names: see docs/run.schema.json and the examples in samples/. The model is saved
to the file of --save, by the callback ModelCheckpoint, or to <name of
RUN>.safetensors. A file of another run is not replaced: the next free name is
taken. After Ctrl-C, SIGTERM or SIGHUP the program finishes the step and saves.
With the callback BackupAndRestore the same command continues there (exit code
75). Without it the model is in <name>-interrupted.safetensors (exit code 128 +
the signal: 130 for Ctrl-C). A second signal ends the program immediately.
)";

struct TrainFlags {
  FitFlags fit;
  InitFlags init;
  SaveFlags save;
  std::string log_steps;
  bool log_digests = false;
  std::string log_examples;
  std::string events;
  bool no_events = false;
  std::string continue_with;
  std::string status;
  bool insecure = false, sealed = false, shrink = false;
  WatchFlags watch;
  // Returns an error if flags do not go together.
  Status Check() const;
  void AddAll(CommandLine* flags);
};

void TrainFlags::AddAll(CommandLine* flags) {
  fit.AddAll(flags);
  init.Add(flags,
           "begin with the weights of this file: safetensors,\n"
           "npz, ONNX, or a model.json of TensorFlow.js;\n"
           "in a folder: its newest model");
  flags->Text("--save", "MODEL", &save.path,
              "write the trained model to this file, instead of\n"
              "<name of RUN>.safetensors in the current folder");
  flags->Switch("--no-save", &save.no_save, "write no model");
  flags->Text("--log-steps", "FILE.csv", &log_steps,
              "write a row per step: epoch, step, loss, metrics");
  flags->Switch("--log-digests", &log_digests,
                "with --log-steps: also write a digest of the weights");
  flags->Text("--log-examples", "FILE.csv", &log_examples,
              "write a row per step: the numbers of its examples,\n"
              "for `ringlet audit`");
  flags->Text("--status", "ADDRESS", &status,
              "tell over HTTP where the training is: at a\n"
              "port of 127.0.0.1, or at host:port or *:port with\n"
              "the token in RINGLET_STATUS_TOKEN");
  flags->Text("--events", "FILE", &events,
              "write an event log for `ringlet inspect`; a job of\n"
              "several workers writes one beside --save's model:\n"
              "MODEL.worker-0.events and so on");
  flags->Switch("--no-events", &no_events, "write no event log");
  flags->Text("--continue-with", "CHANGE", &continue_with,
              "continue from the backup of a run with another\n"
              "optimizer or seed: optimizer, seed or\n"
              "optimizer,seed");
  flags->Switch("--shrink", &shrink,
                "continue without a lost worker, if RUN.json gives\n"
                "neither policy nor reduction; for one shared disk");
  flags->Switch("--sealed", &sealed,
                "encrypt models and backups: they can be read only\n"
                "with the key (ringlet keygen)");
  flags->Switch("--insecure", &insecure,
                "allow workers without a key (ringlet keygen), if no\n"
                "other machine can reach their network");
  watch.AddAll(flags);
}

Status TrainFlags::Check() const {
  if (save.no_save && !save.path.empty()) {
    return InvalidArgument("--save and --no-save do not go together");
  }
  RINGLET_RETURN_IF_ERROR(watch.Check());
  if (!watch.on) return Status();
  if (save.path.empty()) {
    return InvalidArgument("--watch: needs --save, the model that it replaces");
  }
  const std::pair<const char*, bool> others[] = {
      {"--log-steps", !log_steps.empty()},
      {"--log-examples", !log_examples.empty()},
      {"--events", !events.empty()},
      {"--status", !status.empty()},
      {"--continue-with", !continue_with.empty()},
      {"--shrink", shrink}};
  for (const auto& [flag, is_present] : others) {
    if (is_present) return InvalidArgument("%s: is not for --watch", flag);
  }
  return Status();
}

Status CheckCluster(const std::string& path, const StrategyConfig& strategy,
                    const ClusterConfig& cluster) {
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

// Records the final place of the model, and whether this worker is then the
// chief: in an elastic job the chief may change. It is the first callback,
// since OnFitReturn of other callbacks may take long.
class SavedModelRecorder final : public Callback {
 public:
  const char* name() const override { return "saved_model_recorder"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    checkpoint_ = fit.details->saved.path;
    checksums_ = fit.details->saved.checksums;
    return Status();
  }
  void OnFitReturn(FitState& fit, const Status& status) override {
    path_ = fit.details->saved.path;
    differs_ = fit.details->saved.checksums != checksums_;
    finite_ = fit.details->saved.is_finite;
    chief_ = fit.chief;
    // If only the last save failed: with a backup of the end a restart can
    // write the model. Without one it would train again, so the work is
    // reported as done.
    const bool is_trained = !fit.save_error.ok() &&
                            status.code() != Code::kPeerLost &&
                            (fit.details->saved.IsCurrent(fit.model) ||
                             !AnyRestoresAfterLoss(*fit.callbacks));
    if (status.ok() || is_trained) {
      ReportDone(fit.model->collective()->worker());
    }
  }
  const std::string& path() const { return path_; }
  // ModelCheckpoint's newest file, if the fit ended with another model;
  // otherwise "".
  std::string checkpoint() const { return differs_ ? checkpoint_ : ""; }
  bool finite() const { return finite_; }
  bool chief() const { return chief_; }

 private:
  std::string path_, checkpoint_;
  std::vector<uint32_t> checksums_;
  bool differs_ = false;
  bool finite_ = true;
  bool chief_ = false;
};

FitOptions OptionsOf(const RunConfig& config, const RunData& data,
                     const TrainFlags& flags, const OutputPlan& output,
                     const std::shared_ptr<Callback>& end_report) {
  FitOptions options = MakeFitOptions(config, data);
  if (!flags.log_steps.empty()) {
    options.callbacks.push_back(StepLogger(flags.log_steps, flags.log_digests));
  }
  if (!flags.log_examples.empty()) {
    options.callbacks.push_back(ExampleLogger(flags.log_examples));
  }
  options.callbacks.push_back(EventLogger());
  // SaveWhenTrained comes after callbacks that restore the best weights. Every
  // rank has it, since all must have the same callbacks.
  options.callbacks.push_back(SaveWhenTrained(output.path, output.options));
  if (end_report != nullptr) options.callbacks.push_back(end_report);
  return options;
}

std::string CountText(int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// The first line, printed before long reads.
std::string LineBeforeReads(const std::string& path, const RunConfig& config,
                            int world, int replicas) {
  const FitConfig& fit = config.fit;
  std::string text = path + ": " + CountText(fit.epochs, "epoch");
  if (fit.steps_per_epoch > 0) {
    text += " of " + CountText(fit.steps_per_epoch, "step");
  }
  text += ", batch size " + std::to_string(fit.batch_size);
  if (replicas != world) {
    text += " of each of " + CountText(replicas, "replica") + " on " +
            CountText(world, "worker");
  } else if (world > 1) {
    text += " on each of " + CountText(world, "worker");
  }
  if (config.strategy.elastic())
    text += " that may leave and join (exact sums)";
  const LocalUpdates& local = config.strategy.options.local;
  if (local.enabled()) {
    text += local.steps == LocalUpdates::kAutoSteps
                ? ", rounds of local steps by the link"
                : ", rounds of " + CountText(local.steps, "local step");
  }
  return text + ", " + CountText(fit.threads, "thread");
}

std::string DataLine(const RunData& data) {
  std::string text = CountText(data.train.size(), "example");
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
         (config.validation.empty() && config.fit.validation_split == 0
              ? " --part train"
              : "");
}

// The last line for a model with weights that are not finite.
std::string NotFiniteWarning(const std::string& model) {
  return "the model in " + model +
         " is of no use: the training has diverged, and weights in it are not "
         "finite numbers; try a smaller learning rate, and look at the scale "
         "of the data";
}

// A run that this worker has read without an error.
struct Prepared {
  RunConfig config;
  RunData data;
  OutputPlan output;
  bool prints = false;               // this worker prints the run's messages
  int replicas = 0;                  // the replicas that this worker asks for
  std::shared_ptr<Callback> status;  // null if nothing shows it
  std::shared_ptr<Callback> end_report;  // null without an evaluator
};

// Fails if an output would overwrite an input of the run.
Status CheckOutputs(const std::string& path, const TrainFlags& flags,
                    const RunConfig& config) {
  std::vector<std::pair<const char*, std::string>> outputs = {
      {"--save", flags.save.path},
      {"--log-steps", flags.log_steps},
      {"--log-examples", flags.log_examples},
      {"--events", flags.events}};
  for (const std::string& log : config.logs)
    outputs.push_back({"the log", log});
  for (const auto& [option, file] : outputs) {
    for (const auto& [other, path_of_other] : outputs) {
      if (&path_of_other == &file) break;
      if (!file.empty() && !StartsWith(file, "/dev/") &&
          WouldBeOneFile(file, path_of_other)) {
        return InvalidArgument("%s and %s are one file, %s; give each its own",
                               other, option, file.c_str());
      }
    }
    for (const DataConfig* data : {&config.train, &config.validation}) {
      RINGLET_RETURN_IF_ERROR(CheckNotData(option, file, *data));
    }
    // --save may name the file of --init, to continue its training.
    if (std::strcmp(option, "--save") != 0) {
      RINGLET_RETURN_IF_ERROR(
          CheckNotRead(option, file, {flags.init.path, config.saved_model}));
    }
    if (!file.empty() && NameOneFile(file, path)) {
      return InvalidArgument("%s %s: holds the run itself; give another name",
                             option, file.c_str());
    }
  }
  if (!config.lora) return Status();
  // The trained model differs from the model that gets LoRA.
  RINGLET_RETURN_IF_ERROR(
      CheckNotRead("--save", flags.save.path, {config.saved_model}));
  for (const std::string& saved : config.checkpoints) {
    RINGLET_RETURN_IF_ERROR(
        CheckNotRead("ModelCheckpoint", saved, {config.saved_model}));
  }
  return Status();
}

Status ReadChanges(const std::string& flag, RunConfig* config) {
  std::string_view rest = flag;
  for (std::string change; TakeLine(&rest, &change, ',');) {
    if (change == "optimizer") {
      config->other_optimizer = true;
    } else if (change == "seed") {
      config->other_seed = true;
    } else {
      return InvalidArgument(
          "--continue-with: is '%s'; must be optimizer, seed, or both with a "
          "comma between them",
          Printable(flag).c_str());
    }
  }
  return Status();
}

// Reads RUN.json, and checks that the flags, the environment and the outputs
// fit it.
Status ReadRun(const std::string& path, const TrainFlags& flags,
               const ClusterConfig& cluster, Prepared* run) {
  RINGLET_RETURN_IF_ERROR(CheckModelName(flags.save.path).Annotate("--save"));
  if (flags.log_digests && flags.log_steps.empty()) {
    return InvalidArgument("--log-digests: needs --log-steps");
  }
  RunConfig& config = run->config;
  config.seal_all = config.sealed = flags.sealed;
  RINGLET_RETURN_IF_ERROR(ReadChanges(flags.continue_with, &config));
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  if (!flags.continue_with.empty() && !AnyRestoresAfterLoss(config.callbacks)) {
    return InvalidArgument(
        "--continue-with: continues from a backup, but %s has no callback "
        "BackupAndRestore; leave the flag out, or use --init to begin with the "
        "weights of a file",
        path.c_str());
  }
  if (flags.shrink) ChooseShrinkPolicy(cluster.world_size, &config);
  // Each worker may be the chief in the end.
  const bool may_save = cluster.is_chief || config.strategy.elastic();
  if (config.sealed && may_save) {
    RINGLET_RETURN_IF_ERROR(config.sealed_disk->CheckKey());
  }
  flags.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(CheckCluster(path, config.strategy, cluster));
  for (const auto& [part, data] :
       {std::pair("train", &config.train),
        std::pair("validation", &config.validation)}) {
    RINGLET_RETURN_IF_ERROR(CheckStandardInput(*data, cluster.world_size)
                                .Annotate("%s: data.%s", path.c_str(), part));
  }
  RINGLET_RETURN_IF_ERROR(CheckOutputs(path, flags, config));
  RINGLET_RETURN_IF_ERROR(
      PlanOutput(path, config, flags.save, may_save, &run->output));
  if (may_save) {
    RINGLET_RETURN_IF_ERROR(CheckWritable("--log-steps", flags.log_steps));
    RINGLET_RETURN_IF_ERROR(
        CheckWritable("--log-examples", flags.log_examples));
  }
  return Status();
}

// Finds all errors that one worker can find, before it waits for other workers.
Status PrepareRun(const std::string& path, const TrainFlags& flags,
                  const ClusterConfig& cluster, Prepared* run) {
  RINGLET_RETURN_IF_ERROR(ReadRun(path, flags, cluster, run));
  RunConfig& config = run->config;
  run->end_report = ReportEndToEvaluator(path, cluster, config);
  run->replicas = RequestedReplicas(config, cluster);
  const int replicas = std::max(run->replicas, cluster.world_size);
  run->prints = cluster.is_chief && config.fit.verbose != Verbose::kSilent;
  if (run->prints) {
    Print("%s",
          LineBeforeReads(path, config, cluster.world_size, replicas).c_str());
  }
  // First builds the model for one worker, to find its errors.
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, flags.init, nullptr,
                                    cluster.world_size == 1 ? replicas : 1)
                              .Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      OpenRunData(config, replicas, &run->data).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      NameOutput(config, flags.init, run->data, replicas, &run->output));
  if (cluster.is_chief) {
    RINGLET_RETURN_IF_ERROR(
        PrintOtherOrder(flags.init, *config.model, run->data.description));
  }
  if (run->prints) {
    Print("%s; %s", DataLine(run->data).c_str(),
          run->output.start_message.c_str());
  }
  return Status();
}

Status FitAndReport(const std::string& path, const TrainFlags& flags,
                    const Prepared& run) {
  FitOptions options =
      OptionsOf(run.config, run.data, flags, run.output, run.end_report);
  if (run.status != nullptr) options.callbacks.push_back(run.status);
  const auto recorder = std::make_shared<SavedModelRecorder>();
  options.callbacks.insert(options.callbacks.begin(), recorder);
  const Status trained =
      run.config.model->Fit(run.data.train, options).status();
  if (trained.code() == Code::kInterrupted && recorder->chief()) {
    return Interrupted(
        trained.os_error(),
        "%s; --init takes the weights of a file, and the callback "
        "BackupAndRestore lets the same command continue the run",
        trained.message());
  }
  const bool prints =
      recorder->chief() && run.config.fit.verbose != Verbose::kSilent;
  if (trained.ok() && prints && !recorder->path().empty()) {
    if (!recorder->checkpoint().empty()) {
      Print(
          "ModelCheckpoint's newest file is %s; training ended with another "
          "state",
          recorder->checkpoint().c_str());
    }
    const std::string last = recorder->finite()
                                 ? HowToUse(path, run.config, recorder->path())
                                 : NotFiniteWarning(recorder->path());
    Print("%s", last.c_str());
  }
  return trained;
}

Status RunEvaluator(const std::string& path, TrainFlags flags,
                    const ClusterConfig& cluster) {
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  flags.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(flags.init.ChooseNewest());
  return EvaluateCheckpoints(path, cluster, flags.init, &config);
}

// After the return the strategy reports the error to the other workers: print
// the error first.
Status TrainRun(const std::string& path, TrainFlags flags,
                std::unique_ptr<EventLog>* log,
                MultiWorkerMirroredStrategy* strategy) {
  Prepared run;
  ClusterConfig cluster;
  RINGLET_RETURN_IF_ERROR(
      ClusterFromEnvironment(ProcessEnvironment(), &cluster));
  if (cluster.is_evaluator) return RunEvaluator(path, flags, cluster);
  const std::string events =
      flags.no_events ? ""
                      : EventLogPath(flags.events, flags.save.path, cluster);
  Status prepared =
      ShowTrainingStatus(path, cluster, flags.status, events, &run.status);
  if (prepared.ok()) {
    prepared = OpenEventLog(events, !flags.events.empty(), path, cluster, log);
  }
  if (prepared.ok()) prepared = flags.init.ChooseNewest();
  if (prepared.ok()) prepared = PrepareRun(path, flags, cluster, &run);
  StrategyOptions& options = run.config.strategy.options;
  // The job's name at the other workers is not known then. The other workers
  // may have a key, and anyone could read a message without one. (At a relay a
  // worker is found by the name alone, so it must be this one.)
  if (!run.config.has_strategy && options.relay.empty()) options.job.clear();
  options.insecure = options.insecure || flags.insecure;
  if (!prepared.ok()) {
    *strategy =
        MultiWorkerMirroredStrategy::Withdrawn(cluster, options, prepared);
    return prepared;
  }
  NotifyService(cluster.world_size == 1
                    ? "READY=1"
                    : "READY=1\nSTATUS=waiting for the other workers");
  *strategy = MultiWorkerMirroredStrategy::FromCluster(cluster, options);
  RINGLET_RETURN_IF_ERROR(strategy->status());
  if (strategy->num_workers() > 1) {
    const Status status = MakeModel(&run.config, flags.init,
                                    strategy->collective(), run.replicas);
    if (!status.ok()) strategy->collective()->Abort(status);
    RINGLET_RETURN_IF_ERROR(status);
    run.data.Batch(run.config.fit, run.config.model->num_replicas());
  }
  run.config.model->set_data_description(run.data.description);
  return FitAndReport(path, flags, run);
}

Status Watch(const std::string& path, const TrainFlags& flags) {
  WatchedRun run;
  run.path = path;
  run.model = flags.save.path;
  run.fit = flags.fit;
  run.init = flags.init;
  run.sealed = flags.sealed;
  RINGLET_RETURN_IF_ERROR(CheckModelName(run.model).Annotate("--save"));
  RINGLET_RETURN_IF_ERROR(run.init.ChooseNewest());
  return TrainWatched(run, flags.watch);
}

// Reports to the waiting workers that this one's flags, which it has printed,
// are wrong.
MultiWorkerMirroredStrategy WithdrawForFlags(bool insecure) {
  ClusterConfig cluster;
  ClusterFromEnvironment(ProcessEnvironment(), &cluster).IgnoreError();
  StrategyOptions options;
  options.job.clear();  // whatever RUN.json says
  options.insecure = insecure;
  return MultiWorkerMirroredStrategy::Withdrawn(
      cluster, options, InvalidArgument("its flags are wrong; it says which"));
}

}  // namespace

TrainSettingsForLaunch ReadTrainSettings(const std::vector<std::string>& line,
                                         int workers) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  RunConfig config;
  const bool right = flags.Accepts(line, 1, 1) &&
                     ReadRunConfig(flags.arguments()[0], &config).ok();
  if (!right) return {};
  values.fit.Apply(&config.fit);
  if (values.shrink) ChooseShrinkPolicy(workers, &config);
  const StrategyOptions& s = config.strategy.options;
  TrainSettingsForLaunch train;
  train.threads = config.fit.threads;
  // The time that a worker waits at its start, or after it was lost.
  train.waits_seconds =
      std::min(s.start_timeout_seconds, s.timeout_seconds / 2);
  if (config.strategy.elastic()) {
    const int64_t min_workers =
        std::max<int64_t>(config.strategy.min_workers, 1);
    train.min_workers =
        static_cast<int>(std::min<int64_t>(min_workers, workers));
  }
  return train;
}

int TrainCommand(const std::vector<std::string>& line) {
  TrainFlags values;
  CommandLine flags("train", "RUN.json", kAbout, kMore);
  values.AddAll(&flags);
  int code = 0;
  std::unique_ptr<EventLog> log;         // outlives the strategy
  MultiWorkerMirroredStrategy strategy;  // outlives the model
  bool right = flags.Parse(line, 1, 1, &code);
  const Status together = right ? values.Check() : Status();
  if (!together.ok()) {
    code = flags.UsageError(together);
    right = false;
  }
  if (!right) {
    if (code != 0) strategy = WithdrawForFlags(values.insecure);
    return code;
  }
  const std::string& path = flags.arguments()[0];
  const Status trained = values.watch.on
                             ? Watch(path, values)
                             : TrainRun(path, values, &log, &strategy);
  code = InputExitCode(trained);
  // The caller reports an unwritable stdout.
  if (code == 0 && !FlushStdout()) code = 1;
  if (log != nullptr) log->SetResult(trained, code);
  return code;
}

}  // namespace ringlet
