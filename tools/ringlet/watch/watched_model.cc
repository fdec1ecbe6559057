#include "watched_model.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

// The metadata of the model's file with the id of its round.
constexpr char kRoundOfModel[] = "watch_round";

std::string TextOf(const Json& value) {
  if (value.is_string()) return "\"" + Printable(value.text()) + "\"";
  if (value.is_number()) return ShortestText(value.number());
  if (value.kind() == Json::Kind::kBool) {
    return value.as_bool() ? "true" : "false";
  }
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  return value ? value.type_name() : "missing";
}

// True for what may differ in a model that was trained before: names, initial
// weights, and numbers that are adapted to data.
bool MayDiffer(const std::string& key) {
  return key == "name" || key == "mean" || key == "variance" ||
         EndsWith(key, "initializer");
}

// Returns "config.layers[1].config.units: is 32, but 64"; empty for equal
// models.
std::string FirstDifference(const Json& a, const Json& b,
                            const std::string& where) {
  const bool is_list = a.is_array() && b.is_array() && a.size() == b.size();
  if (!is_list && !(a.is_object() && b.is_object())) {
    return TextOf(a) == TextOf(b)
               ? ""
               : where + ": is " + TextOf(a) + ", but " + TextOf(b);
  }
  int index = 0;
  Json of_b = b.first();
  for (Json of_a = a.first(); of_a; of_a = of_a.next()) {
    const std::string key = of_a.key();
    if (!is_list && MayDiffer(key)) continue;
    const std::string found =
        is_list ? FirstDifference(of_a, of_b,
                                  where + "[" + std::to_string(index++) + "]")
                : FirstDifference(of_a, b[key.c_str()], where + "." + key);
    if (!found.empty()) return found;
    if (is_list) of_b = of_b.next();
  }
  return "";
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

// True for the name of a round's backup: `begin` and the 16 digits of a round's
// id. Other folders are the user's.
bool IsBackupName(const std::string& name, const std::string& begin) {
  return StartsWith(name, begin) && name.size() == begin.size() + 16 &&
         name.find_first_not_of("0123456789abcdef", begin.size()) ==
             std::string::npos;
}

// Removes from *files the files that are not in `data`, since `data` leaves out
// the files that cannot be read.
void KeepFilesOf(const Dataset& data, const std::string& folder,
                 std::vector<WatchedFile>* files) {
  const Source& source = *data.source();
  std::set<std::string> paths;
  for (int64_t i = 0; i < source.size(); ++i) {
    paths.insert(source.ExamplePath(i));
  }
  const auto is_left_out = [&](const WatchedFile& file) {
    return paths.count(folder + "/" + file.path) == 0;
  };
  files->erase(std::remove_if(files->begin(), files->end(), is_left_out),
               files->end());
}

int ReplicasOf(const RunConfig& config) {
  return std::max(1, config.strategy.options.replicas);
}

}  // namespace

bool WatchedModel::has_file() const { return IsFile(path_); }

Status WatchedModel::Open(const std::string& path, const InitFlags& init,
                          std::unique_ptr<RunConfig> config) {
  path_ = path;
  init_ = init;
  config_ = std::move(config);
  seed_ = config_->fit.seed;
  saved_model_ = config_->saved_model;
  lora_ = config_->lora;
  has_compile_ = config_->has_compile;
  config_->validation = config_->train;  // apart from the files
  if (config_->model != nullptr) configuration_ = ToJson(*config_->model);
  RINGLET_RETURN_IF_ERROR(ReadInstalled());
  RINGLET_RETURN_IF_ERROR(Make());
  RINGLET_RETURN_IF_ERROR(ModelFromJson(ToJson(*config_->model), &layers_));
  return CheckSameLayers();
}

Status WatchedModel::ReadInstalled() {
  if (!has_file()) return Status();
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(config_->disk.get(), path_));
  const auto found = file.metadata().find(kRoundOfModel);
  if (found != file.metadata().end()) installed_ = found->second;
  return Status();
}

Status WatchedModel::CheckSameLayers() const {
  if (!has_file() || configuration_.empty()) return Status();
  constexpr int kDepth = 128;
  Json run, file;
  RINGLET_RETURN_IF_ERROR(Json::Parse(configuration_, "model", &run, kDepth));
  RINGLET_RETURN_IF_ERROR(
      Json::Parse(ToJson(*config_->model), "model", &file, kDepth));
  const std::string difference = FirstDifference(run, file, "model");
  if (difference.empty()) return Status();
  return InvalidArgument(
      "%s in %s, which --watch trains further; give the model of the file, or "
      "another --save, or remove both the file and %s to begin with this model",
      difference.c_str(), path_.c_str(), WatchStatePath(path_).c_str());
}

Status WatchedModel::Make() {
  const bool is_installed = has_file();
  has_weights_ = is_installed || !init_.path.empty() ||
                 (configuration_.empty() && !saved_model_.empty());
  config_->model.reset();
  config_->fit.seed = seed_;  // the seed of the initial weights
  // The file may have been removed since the last round.
  config_->saved_model = is_installed ? path_ : saved_model_;
  config_->has_compile = !is_installed && has_compile_;
  config_->lora = is_installed ? std::nullopt : lora_;
  if (!is_installed && !configuration_.empty()) {
    RINGLET_RETURN_IF_ERROR(ModelFromJson(configuration_, &config_->model));
  }
  return MakeModel(config_.get(), is_installed ? InitFlags() : init_, nullptr,
                   ReplicasOf(*config_));
}

Status WatchedModel::Evaluate(const Dataset& data, Logs* logs) {
  EvaluateOptions options;
  options.steps = config_->fit.validation_steps;
  options.verbose = Verbose::kSilent;
  Result<Logs> result = config_->model->Evaluate(data, options);
  RINGLET_RETURN_IF_ERROR(result.status());
  *logs = std::move(result).value();
  return Status();
}

std::string WatchedModel::BackupPath(const WatchRound& round) const {
  return path_ + ".round-" + round.id.substr(round.id.find(' ') + 1);
}

// Removes the backups of all rounds but the one with the path `kept`.
void WatchedModel::RemoveBackups(const std::string& kept) const {
  FileSystem* const disk = PosixFiles();
  const std::string folder = FolderOf(path_);
  const std::string begin = FileNameOf(path_) + ".round-";
  std::vector<std::string> names, files;
  disk->List(folder, &names).IgnoreError();
  for (const std::string& name : names) {
    const std::string path = PathIn(folder, name);
    if (!IsBackupName(name, begin) || path == kept || !IsFolder(path)) continue;
    disk->List(path, &files).IgnoreError();
    for (const std::string& file : files) {
      disk->Remove(path + "/" + file).IgnoreError();
    }
    disk->Remove(path + "/").IgnoreError();
  }
}

// A signal saves the round's state, with which a restart continues. A kill does
// not: the round begins again.
Status WatchedModel::Fit(const WatchRound& round, const Dataset& data,
                         FitOptions options) {
  const std::string backup = BackupPath(round);
  RemoveBackups(backup);
  const bool continues = IsFolder(backup);
  BackupAndRestoreOptions on_signal = SaveEvery(INT64_MAX);
  on_signal.background = false;
  on_signal.files = config_->files();
  options.callbacks.push_back(BackupAndRestore(backup, on_signal));
  const Status status = config_->model->Fit(data, options).status();
  const bool is_stopped = status.code() == Code::kCancelled;
  if (!is_stopped) RemoveBackups("");
  if (status.ok() || is_stopped || !continues) return status;
  // The files of the round may have changed meanwhile.
  return Error(Code::kUnavailable, "the stopped round cannot continue: %s",
               status.message());
}

Status WatchedModel::CheckIsThere(const WatchRound& round) const {
  if (!round.has_model || has_file()) return Status();
  return NotFound(
      "%s: is missing, but earlier rounds trained it; put it back (is its disk "
      "mounted?), or stop, remove %s and start again to begin with the model "
      "of RUN.json",
      path_.c_str(), WatchStatePath(path_).c_str());
}

Status WatchedModel::Train(const WatchedFolder& folder, WatchRound* round,
                           WatchScores* scores) {
  RINGLET_RETURN_IF_ERROR(CheckIsThere(*round));
  RINGLET_RETURN_IF_ERROR(Make());
  config_->train.pictures =
      folder.MakePictureConfig(round->fresh, round->replay);
  config_->validation.pictures = folder.MakePictureConfig(round->held_out);
  // Each round has a different order of its examples.
  config_->fit.seed = seed_ + round->number;
  RunData data;
  RINGLET_RETURN_IF_ERROR(OpenRunData(*config_, ReplicasOf(*config_), &data));
  for (auto* part : {&round->fresh, &round->replay}) {
    KeepFilesOf(data.train, folder.path(), part);
  }
  KeepFilesOf(data.validation, folder.path(), &round->held_out);
  config_->model->set_data_description(data.description);
  Logs before, after;
  scores->has_before = has_weights_;
  if (has_weights_) {
    RINGLET_RETURN_IF_ERROR(Evaluate(data.validation, &before));
    scores->before = *before.Find("loss");
  }
  FitOptions options = MakeFitOptions(*config_, data);
  // Only callbacks use it: the Watcher compares the models itself.
  if (config_->callbacks.empty()) options.validation_data = Dataset();
  RINGLET_RETURN_IF_ERROR(Fit(*round, data.train, std::move(options)));
  RINGLET_RETURN_IF_ERROR(Evaluate(data.validation, &after));
  scores->after = *after.Find("loss");
  scores->metrics = MetricsText(before, after);
  return Status();
}

Status WatchedModel::Install(const WatchRound& round) {
  RINGLET_RETURN_IF_ERROR(CheckIsThere(round));
  SaveModelOptions options;
  options.metadata = {{kRoundOfModel, round.id}};
  options.files = config_->files();
  return SaveModel(config_->model.get(), path_, options);
}

}  // namespace ringlet
