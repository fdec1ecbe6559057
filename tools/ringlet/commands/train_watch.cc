// The effects of a Watcher (io/watch/watcher.h) on a run: the folder of
// data.train, the model's file of --save and, beside it, the state's file.

#include "train_watch.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <memory>
#include <thread>
#include <utility>

#include "../config/run_config.h"
#include "../watch/watched_folder.h"
#include "../watch/watched_model.h"
#include "core/base/time_units.h"
#include "core/fit/interrupts.h"
#include "core/fit/run_state.h"
#include "io/checkpoint/model_path.h"
#include "io/logs/service_notifier.h"
#include "io/watch/watcher.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

Status CheckData(const RunConfig& config) {
  const PictureConfig& pictures = config.train.pictures;
  if (pictures.directory.empty()) {
    return InvalidArgument(
        "data.train: --watch takes a \"directory\" of pictures or an "
        "\"audio_directory\", with a folder for each class");
  }
  if (pictures.options.class_names.empty()) {
    return InvalidArgument(
        "data.train: has no \"class_names\", but with --watch a class may get "
        "its folder later; give the names of all classes");
  }
  if (!pictures.splits() &&
      pictures.options.subset != ImageOptions::Subset::kTraining) {
    return InvalidArgument(
        "data.train: has no \"validation_split\"; --watch needs the part of "
        "the files that is held out, to compare two models on it");
  }
  if (pictures.label_mode == ImageOptions::LabelMode::kNone) {
    return InvalidArgument(
        "data.train.label_mode: is null, but --watch trains on classes");
  }
  return Status();
}

Status CheckCallbacks(const RunConfig& config, const std::string& model) {
  if (AnyRestoresAfterLoss(config.callbacks)) {
    return InvalidArgument(
        "callbacks: BackupAndRestore: --watch has a state of its own; leave it "
        "out");
  }
  for (const auto& callback : config.callbacks) {
    const std::string saved = callback->SavesModelAs();
    if (saved == model || (!saved.empty() && NameOneFile(saved, model))) {
      return InvalidArgument(
          "ModelCheckpoint %s: is the model of --save, which --watch replaces "
          "only by one that is not worse; give another name",
          saved.c_str());
    }
  }
  return Status();
}

class RunEnvironment final : public WatchEnvironment {
 public:
  // Reads RUN.json and the model's file, and checks what can be checked before
  // there are examples.
  Status Open(const WatchedRun& run, WatchOptions* options);
  Status LoadState(WatchState* state);
  const std::string& installed() const { return model_.installed(); }
  const std::string& directory() const { return folder_.path(); }

  Status List(const std::function<void(const WatchedFile&)>& each) override {
    return folder_.List(each);
  }
  Status Check(const WatchedFile& file) override {
    return folder_.Check(file, model_.layers());
  }
  Status Save(WatchState* state) override {
    return SaveWatchState(PosixFiles(), state_path_, state);
  }
  Status Train(WatchRound* round, WatchScores* scores) override {
    return model_.Train(folder_, round, scores);
  }
  Status Install(const WatchRound& round) override {
    return model_.Install(round);
  }
  int64_t MonotonicNanos() override {
    return Clock::System()->MonotonicNanos();
  }
  void Log(const std::string& line) override {
    Print("%s", line.c_str());
    NotifyService("STATUS=" + line);
  }
  void Note(const std::string& line) override { Notice("%s", line.c_str()); }

 private:
  std::string state_path_;
  WatchedFolder folder_;
  WatchedModel model_;
  // Held while the watch runs: one process for a model.
  std::unique_ptr<File> lock_file_;
  std::unique_ptr<HeldLock> lock_;
};

Status RunEnvironment::Open(const WatchedRun& run, WatchOptions* options) {
  const char* const path = run.path.c_str();
  state_path_ = WatchStatePath(run.model);
  auto owned = std::make_unique<RunConfig>();
  RunConfig& config = *owned;
  config.seal_all = config.sealed = run.sealed;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run.path, &config));
  if (config.sealed) RINGLET_RETURN_IF_ERROR(config.sealed_disk->CheckKey());
  run.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(CheckData(config).Annotate("%s", path));
  RINGLET_RETURN_IF_ERROR(
      CheckCallbacks(config, run.model).Annotate("%s", path));
  const PictureConfig& data = config.train.pictures;
  options->seed = data.options.seed;
  options->validation_split = data.options.validation_split;
  folder_ = WatchedFolder(data);
  RINGLET_RETURN_IF_ERROR(CheckWritable("--save", run.model));
  RINGLET_RETURN_IF_ERROR(PosixFiles()->OpenLog(WatchLockPath(run.model),
                                                /*append=*/true, &lock_file_));
  RINGLET_RETURN_IF_ERROR(lock_file_->Lock(&lock_).Annotate("--watch"));
  RINGLET_RETURN_IF_ERROR(
      model_.Open(run.model, run.init, std::move(owned)).Annotate("%s", path));
  return folder_.CheckFits(model_.model()).Annotate("%s", path);
}

Status RunEnvironment::LoadState(WatchState* state) {
  const Status loaded = LoadWatchState(PosixFiles(), state_path_, state);
  const bool is_new = loaded.code() == Code::kNotFound;
  if (!is_new) RINGLET_RETURN_IF_ERROR(loaded);
  if (model_.has_file()) {
    state->has_model = true;
  } else if (is_new) {
    Notice(
        "note: --save: neither the model nor %s is there yet: round 1 begins "
        "with the model of RUN.json; if they are on a disk, is it mounted?",
        state_path_.c_str());
  }
  return Status();
}

// --- the loop ----------------------------------------------------------------

// The signal that came; 0 if there is none.
int SignalSoFar() {
  FitState fit;
  Interrupts::CopySignal(&fit);
  return fit.interrupted ? fit.signal : 0;
}

// Returns early after a signal. The service manager hears that the process
// runs.
void Wait(double seconds) {
  constexpr int64_t kPieceNanos = 100000000, kPiecesASecond = 10;
  Clock* const clock = Clock::System();
  const auto nanos = Nanos(std::min(seconds, 1e6));
  const int64_t end = clock->MonotonicNanos() + nanos;
  for (int64_t piece = 0; SignalSoFar() == 0; ++piece) {
    if (piece % kPiecesASecond == 0) NotifyService("WATCHDOG=1");
    const int64_t remaining = end - clock->MonotonicNanos();
    if (remaining <= 0) return;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(remaining, kPieceNanos)));
  }
}

Status Stopped(const Watcher& watcher) {
  if (watcher.is_idle()) {
    return Error(Code::kCancelled,
                 "stopped by a signal after round %" PRId64
                 "; the same command continues",
                 watcher.state().round);
  }
  return Error(Code::kCancelled,
               "stopped by a signal in round %" PRId64
               "; the same command continues it",
               watcher.state().round);
}

}  // namespace

Status TrainWatched(const WatchedRun& run, const WatchFlags& flags) {
  ClusterConfig cluster;
  RINGLET_RETURN_IF_ERROR(
      ClusterFromEnvironment(ProcessEnvironment(), &cluster));
  if (cluster.world_size > 1 || cluster.is_evaluator) {
    return InvalidArgument(
        "--watch: trains with one worker, but the environment (TF_CONFIG or "
        "its like) names a job of several; leave it out");
  }
  WatchOptions options;
  if (flags.round_examples >= 0) options.round_examples = flags.round_examples;
  if (flags.replay >= 0) options.replay = flags.replay;
  if (flags.scan_seconds >= 0) options.scan_seconds = flags.scan_seconds;
  options.round_seconds =
      60 * (flags.round_minutes >= 0 ? flags.round_minutes : 60);
  const Interrupts interrupts(/*prints=*/false);
  RunEnvironment environment;
  RINGLET_RETURN_IF_ERROR(environment.Open(run, &options));
  WatchState state;
  state.settings = options.SettingsChecksum();
  RINGLET_RETURN_IF_ERROR(environment.LoadState(&state));
  NotifyService("READY=1");
  Print("%s: watches %s: a round for %" PRId64
        " new examples; the model's file is %s",
        run.path.c_str(), environment.directory().c_str(),
        options.round_examples, run.model.c_str());
  Watcher watcher(options, std::move(state), environment.installed(),
                  &environment);
  // After a signal a model that is trained is still decided and written.
  double seconds = 0;
  while (SignalSoFar() == 0 || (watcher.is_deciding() && seconds == 0)) {
    const Status status = watcher.Step(&seconds);
    if (status.code() == Code::kCancelled) break;
    RINGLET_RETURN_IF_ERROR(status);
    if (seconds > 0) Wait(seconds);
  }
  return Stopped(watcher);
}

}  // namespace ringlet
