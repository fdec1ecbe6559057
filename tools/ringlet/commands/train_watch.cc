// The effects of a Watcher (io/watch/watcher.h) on a run: the folder of
// data.train, the model's file of --save and, beside it, the state's file.

#include "train_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "../config/run_config.h"
#include "core/base/text.h"
#include "core/fit/interrupts.h"
#include "core/fit/run_state.h"
#include "io/checkpoint/model_path.h"
#include "io/files/path.h"
#include "io/logs/service_notifier.h"
#include "io/readers/files/class_names.h"
#include "io/readers/files/picture_list.h"
#include "io/watch/watcher.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// The metadata of the model's file with the id of its round.
constexpr char kRoundOfModel[] = "watch_round";

// The name of a file below a folder, as its path has it.
std::string Below(const std::string& folder, const std::string& path) {
  return path.substr(folder.size() + 1);
}

int64_t NanosOf(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

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
  explicit RunEnvironment(const WatchedRun& run) : run_(run) {}

  // Reads RUN.json and the model's file, and checks what can be checked before
  // there are examples.
  Status Open(WatchOptions* options);
  Status LoadState(WatchState* state);
  const std::string& installed() const { return installed_; }
  const std::string& directory() const { return directory_; }

  Status List(const std::function<void(const WatchedFile&)>& each) override;
  Status Check(const WatchedFile& file) override;
  Status Save(WatchState* state) override {
    return SaveWatchState(FileSystem::Posix(), StatePath(), state);
  }
  Status Train(const WatchRound& round, WatchScores* scores) override;
  Status Install(const WatchRound& round) override;
  int64_t MonotonicNanos() override {
    return Clock::System()->MonotonicNanos();
  }
  void Log(const std::string& line) override {
    Print("%s", line.c_str());
    NotifyService("STATUS=" + line);
  }
  void Note(const std::string& line) override { Notice("%s", line.c_str()); }

 private:
  std::string StatePath() const { return run_.model + ".watch"; }
  const std::vector<std::string>& classes() const {
    return config_.train.pictures.options.class_names;
  }
  bool has_file() const { return IsFile(run_.model); }
  Status TakeInstalled();
  Status MakeModelOfRound();
  Status CheckFits();
  std::string BackupPath(const WatchRound& round) const;
  void RemoveBackups(const std::string& kept);
  Status Fit(const WatchRound& round, const Dataset& data, FitOptions options);
  Status Evaluate(const Dataset& data, Logs* logs);
  std::shared_ptr<const FileList> Listed(
      const std::vector<WatchedFile>& a,
      const std::vector<WatchedFile>& b = {}) const;
  void NoteOtherFolders();

  const WatchedRun run_;
  RunConfig config_;
  std::string directory_;      // without a slash at its end
  std::string configuration_;  // of the model, as RUN.json has it; "": saved
  // Of RUN.json; `config_` has those of the model's file, once there is one.
  std::string saved_model_;
  std::optional<LoraOptions> lora_;
  bool has_compile_ = false;
  std::string installed_;        // the id of the round of the model's file
  int64_t seed_ = 0;             // fit.seed
  bool has_weights_ = false;     // training begins with trained weights
  std::set<std::string> noted_;  // folders that are no classes
  // Held while the watch runs: one process for a model.
  std::unique_ptr<File> lock_file_;
  std::unique_ptr<HeldLock> lock_;
};

Status RunEnvironment::Open(WatchOptions* options) {
  config_.seal_all = config_.sealed = run_.sealed;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run_.path, &config_));
  if (config_.sealed) {
    RINGLET_RETURN_IF_ERROR(config_.sealed_disk->CheckKey());
  }
  run_.fit.Apply(&config_.fit);
  RINGLET_RETURN_IF_ERROR(CheckData(config_).Annotate("%s", run_.path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      CheckCallbacks(config_, run_.model).Annotate("%s", run_.path.c_str()));
  PictureConfig& train = config_.train.pictures;
  PictureConfig& validation = config_.validation.pictures;
  directory_ = train.directory;
  while (directory_.size() > 1 && directory_.back() == '/') {
    directory_.pop_back();
  }
  if (!IsFolder(directory_)) {
    return NotFound("%s: data.train: there is no folder %s", run_.path.c_str(),
                    directory_.c_str());
  }
  options->seed = train.options.seed;
  options->validation_split = train.options.validation_split;
  // The Watcher divides the files.
  config_.validation = config_.train;
  for (PictureConfig* part : {&train, &validation}) {
    part->options.subset = ImageOptions::Subset::kAll;
    part->options.validation_split = 0;
    part->options.skip_damaged = true;
  }
  seed_ = config_.fit.seed;
  saved_model_ = config_.saved_model;
  lora_ = config_.lora;
  has_compile_ = config_.has_compile;
  if (config_.model != nullptr) configuration_ = ToJson(*config_.model);
  RINGLET_RETURN_IF_ERROR(CheckWritable("--save", run_.model));
  RINGLET_RETURN_IF_ERROR(FileSystem::Posix()->OpenLog(
      StatePath() + ".lock", /*append=*/true, &lock_file_));
  RINGLET_RETURN_IF_ERROR(lock_file_->Lock(&lock_).Annotate("--watch"));
  RINGLET_RETURN_IF_ERROR(TakeInstalled());
  RINGLET_RETURN_IF_ERROR(MakeModelOfRound().Annotate("%s", run_.path.c_str()));
  return CheckFits().Annotate("%s", run_.path.c_str());
}

// Checks the data's fields against the model, as if there were no file yet.
Status RunEnvironment::CheckFits() {
  PictureConfig none = config_.train.pictures;
  none.listed = Listed({});
  const Dataset data =
      OpenPictures(none, "", CsvOptions(), *config_.model, /*targets=*/true);
  if (data.source() == nullptr) return data.status().Annotate("data.train");
  if (none.is_sound && data.source()->SamplingRate() == 0) {
    return InvalidArgument(
        "data.train: has no \"sampling_rate\"; with --watch it cannot be that "
        "of the first file");
  }
  const DataDescription* const before = config_.model->data_description();
  if (before == nullptr || before->classes.empty() ||
      before->classes == classes()) {
    return Status();
  }
  return InvalidArgument(
      "data.train.class_names: are %s, but the model was trained with %s; give "
      "them in the model's order",
      ListNames(classes()).c_str(), ListNames(before->classes).c_str());
}

// Reads the id in the model's file, if there is one.
Status RunEnvironment::TakeInstalled() {
  installed_.clear();
  if (!has_file()) return Status();
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(config_.disk.get(), run_.model));
  const auto found = file.metadata().find(kRoundOfModel);
  if (found != file.metadata().end()) installed_ = found->second;
  return Status();
}

Status RunEnvironment::LoadState(WatchState* state) {
  const Status loaded = LoadWatchState(FileSystem::Posix(), StatePath(), state);
  return loaded.code() == Code::kNotFound ? Status() : loaded;
}

// --- the folder --------------------------------------------------------------

void RunEnvironment::NoteOtherFolders() {
  std::vector<std::string> names;
  FileSystem::Posix()->List(directory_, &names).IgnoreError();
  for (const std::string& name : names) {
    const bool is_class =
        std::count(classes().begin(), classes().end(), name) > 0;
    if (name[0] == '.' || is_class || noted_.size() >= 1000 ||
        !IsFolder(directory_ + "/" + name) || !noted_.insert(name).second) {
      continue;
    }
    Notice("note: %s/%s: is none of \"class_names\"; its files are left out",
           directory_.c_str(), Printable(name).c_str());
  }
}

Status RunEnvironment::List(
    const std::function<void(const WatchedFile&)>& each) {
  if (!IsFolder(directory_)) {
    return NotFound("%s: the folder is gone", directory_.c_str());
  }
  NoteOtherFolders();
  const MediaKind& kind =
      config_.train.pictures.is_sound ? kSoundFiles : kPictureFiles;
  for (size_t i = 0; i < classes().size(); ++i) {
    const std::string folder = directory_ + "/" + classes()[i];
    // Its name may be no folder's: "..".
    if (classes()[i].find('/') != std::string::npos || classes()[i] == ".." ||
        !IsFolder(folder)) {
      continue;
    }
    RINGLET_RETURN_IF_ERROR(
        ForEachFile(kind, folder, [&](const std::string& path) {
          struct stat about;
          if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) {
            return;
          }
          each({Below(directory_, path), static_cast<int32_t>(i),
                int64_t{about.st_size}, NanosOf(about.st_mtim),
                NanosOf(about.st_ctim)});
        }));
  }
  return Status();
}

std::shared_ptr<const FileList> RunEnvironment::Listed(
    const std::vector<WatchedFile>& a,
    const std::vector<WatchedFile>& b) const {
  std::vector<const WatchedFile*> files;
  for (const auto* part : {&a, &b}) {
    for (const WatchedFile& file : *part) files.push_back(&file);
  }
  std::sort(files.begin(), files.end(),
            [](const auto* x, const auto* y) { return x->path < y->path; });
  auto list = std::make_shared<FileList>();
  list->classes = classes();
  for (const WatchedFile* file : files) {
    list->paths.push_back(directory_ + "/" + file->path);
    list->labels.push_back(file->label);
  }
  return list;
}

// Decodes the file, as training will.
Status RunEnvironment::Check(const WatchedFile& file) {
  PictureConfig one = config_.train.pictures;
  one.listed = Listed({file});
  one.options.in_memory = true;
  one.options.skip_damaged = false;
  return OpenPictures(one, "", CsvOptions(), *config_.model, /*targets=*/true)
      .Batch(1)
      .status();
}

// --- a round -----------------------------------------------------------------

// Makes the installed model, or the one that the first round begins with.
Status RunEnvironment::MakeModelOfRound() {
  const bool is_installed = has_file();
  has_weights_ = is_installed || !run_.init.path.empty() ||
                 (configuration_.empty() && !saved_model_.empty());
  config_.model.reset();
  config_.fit.seed = seed_;  // of the initial weights
  // (The file may have been removed since the last round.)
  config_.saved_model = is_installed ? run_.model : saved_model_;
  config_.has_compile = !is_installed && has_compile_;
  config_.lora = is_installed ? std::nullopt : lora_;
  if (!is_installed && !configuration_.empty()) {
    RINGLET_RETURN_IF_ERROR(ModelFromJson(configuration_, &config_.model));
  }
  const int replicas = std::max(1, config_.strategy.options.replicas);
  return MakeModel(&config_, is_installed ? InitFlags() : run_.init, nullptr,
                   replicas);
}

Status RunEnvironment::Evaluate(const Dataset& data, Logs* logs) {
  EvaluateOptions options;
  options.steps = config_.fit.validation_steps;
  options.verbose = Verbose::kSilent;
  Result<Logs> result = config_.model->Evaluate(data, options);
  RINGLET_RETURN_IF_ERROR(result.status());
  *logs = std::move(result).value();
  return Status();
}

std::string MetricsText(const Logs& before, const Logs& after) {
  std::string text;
  for (const auto& [name, value] : after.entries()) {
    if (name == "loss") continue;
    char line[64];
    const double* const old = before.Find(name);
    if (old != nullptr) {
      std::snprintf(line, sizeof(line), " %.4f -> %.4f", *old, value);
    } else {
      std::snprintf(line, sizeof(line), " %.4f", value);
    }
    text += ", val_" + name + line;
  }
  return text;
}

std::string RunEnvironment::BackupPath(const WatchRound& round) const {
  return run_.model + ".round-" + round.id.substr(round.id.find(' ') + 1);
}

// Removes the backups of other rounds than `kept`: the path of one, or "".
void RunEnvironment::RemoveBackups(const std::string& kept) {
  FileSystem* const disk = FileSystem::Posix();
  const std::string folder = FolderOf(run_.model);
  const std::string begin = FileNameOf(run_.model) + ".round-";
  std::vector<std::string> names, files;
  disk->List(folder, &names).IgnoreError();
  for (const std::string& name : names) {
    const std::string path = PathIn(folder, name);
    if (!StartsWith(name, begin) || path == kept || !IsFolder(path)) continue;
    disk->List(path, &files).IgnoreError();
    for (const std::string& file : files) {
      disk->Remove(path + "/" + file).IgnoreError();
    }
    disk->Remove(path + "/").IgnoreError();
  }
}

// A signal saves the round's state, with which a restart continues. A kill does
// not: the round begins again.
Status RunEnvironment::Fit(const WatchRound& round, const Dataset& data,
                           FitOptions options) {
  const std::string backup = BackupPath(round);
  RemoveBackups(backup);
  const bool continues = IsFolder(backup);
  BackupAndRestoreOptions on_signal = SaveEvery(INT64_MAX);
  on_signal.background = false;
  on_signal.files = config_.files();
  options.callbacks.push_back(BackupAndRestore(backup, on_signal));
  const Status status = config_.model->Fit(data, options).status();
  const bool is_stopped = status.code() == Code::kCancelled;
  if (!is_stopped) RemoveBackups("");
  if (status.ok() || is_stopped || !continues) return status;
  // The files of the round may have changed meanwhile.
  return Error(Code::kUnavailable, "the stopped round cannot continue: %s",
               status.message());
}

Status RunEnvironment::Train(const WatchRound& round, WatchScores* scores) {
  RINGLET_RETURN_IF_ERROR(MakeModelOfRound());
  config_.train.pictures.listed = Listed(round.fresh, round.replay);
  config_.validation.pictures.listed = Listed(round.held_out);
  // Each round has another order of its examples.
  config_.fit.seed = seed_ + round.number;
  const int replicas = std::max(1, config_.strategy.options.replicas);
  RunData data;
  RINGLET_RETURN_IF_ERROR(OpenRunData(config_, replicas, &data));
  config_.model->set_data_description(data.description);
  Logs before, after;
  scores->has_before = has_weights_;
  if (has_weights_) {
    RINGLET_RETURN_IF_ERROR(Evaluate(data.validation, &before));
    scores->before = *before.Find("loss");
  }
  FitOptions options = FitOptionsOf(config_, data);
  // Only callbacks use it: the Watcher compares the models itself.
  if (config_.callbacks.empty()) options.validation_data = Dataset();
  RINGLET_RETURN_IF_ERROR(Fit(round, data.train, std::move(options)));
  RINGLET_RETURN_IF_ERROR(Evaluate(data.validation, &after));
  scores->after = *after.Find("loss");
  scores->metrics = MetricsText(before, after);
  return Status();
}

Status RunEnvironment::Install(const WatchRound& round) {
  SaveModelOptions options;
  options.metadata = {{kRoundOfModel, round.id}};
  options.files = config_.files();
  return SaveModel(config_.model.get(), run_.model, options);
}

// --- the loop ----------------------------------------------------------------

// The signal that came; 0: none.
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
  const auto nanos = static_cast<int64_t>(std::min(seconds, 1e6) * 1e9);
  const int64_t end = clock->MonotonicNanos() + nanos;
  for (int64_t piece = 0; SignalSoFar() == 0; ++piece) {
    if (piece % kPiecesASecond == 0) NotifyService("WATCHDOG=1");
    const int64_t left = end - clock->MonotonicNanos();
    if (left <= 0) return;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(left, kPieceNanos)));
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
  RunEnvironment environment(run);
  RINGLET_RETURN_IF_ERROR(environment.Open(&options));
  WatchState state;
  state.settings = Watcher::SettingsOf(options);
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
