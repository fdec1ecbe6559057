// Each class of callback has a row in kMakers, and a function that reads its
// fields and makes it. For docs/reference.md, DescribeCallbacks calls the same
// functions on fields without values. So a maker must accept defaults and an
// empty path, and may only store them before the fit.

#include "callback_config.h"

#include <cmath>
#include <limits>

#include "column_fields.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/keras/keras_json.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 40;
constexpr double kMaxNumber = 1e300;
constexpr Interval kAny = {-kMaxNumber, kMaxNumber};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Made = std::shared_ptr<Callback>;

constexpr Named<MonitorMode> kModes[] = {{"auto", MonitorMode::kAuto},
                                         {"min", MonitorMode::kMin},
                                         {"max", MonitorMode::kMax}};

void ReadVerbose(FieldReader* fields, int* verbose) {
  int64_t number = *verbose;
  fields->Int("verbose", 0, 2, &number);
  *verbose = static_cast<int>(number);
}

// The folder of a callback's files, and the config with their disks.
struct Place {
  const std::string& folder;
  RunConfig* config;
};

std::string RequiredPath(const char* key, FieldReader* fields,
                         const Place& place) {
  std::string path;
  fields->Require(key);
  ReadPath(key, place.folder, fields, &path, "a path");
  return path;
}

// Reads the field "sealed" of a callback that saves.
FileSystem* ReadSealed(FieldReader* fields, const Place& place) {
  bool sealed = false;
  fields->Bool("sealed", &sealed);
  sealed |= place.config->seal_all;
  place.config->sealed |= sealed;
  return sealed ? place.config->sealed_disk.get() : place.config->disk.get();
}

// "epoch", or a number of batches; `batch` is "\"batch\", " where that is 1.
void ReadFrequency(FieldReader* fields, const char* key, const char* batch,
                   int64_t* batches) {
  const std::string takes =
      std::string("\"epoch\", ") + batch + "or a number of batches from 1 on";
  const Json json = fields->Take(key, takes, "\"epoch\"");
  if (!json || json.text() == "epoch") return;
  if (*batch != '\0' && json.text() == "batch") {
    *batches = 1;
  } else if (!json.ToInt64(batches) || *batches < 1) {
    fields->MustBe(key, takes);
  }
}

Made ReadEarlyStopping(FieldReader* fields, const Place&) {
  EarlyStoppingOptions o;
  fields->String("monitor", &o.monitor);
  fields->Double("min_delta", kAny, &o.min_delta);
  fields->Int("patience", 0, kMaxCount, &o.patience);
  ReadVerbose(fields, &o.verbose);
  fields->Choice("mode", kModes, &o.mode);
  double baseline = kNone;
  fields->DoubleOrNull("baseline", kAny, &baseline);
  if (!std::isnan(baseline)) o.baseline = baseline;
  fields->Bool("restore_best_weights", &o.restore_best_weights);
  fields->Int("start_from_epoch", 0, kMaxCount, &o.start_from_epoch);
  return EarlyStopping(o);
}

Made ReadReduceLROnPlateau(FieldReader* fields, const Place&) {
  ReduceLROnPlateauOptions o;
  fields->String("monitor", &o.monitor);
  fields->Double("factor", kFractionBelow1, &o.factor);
  fields->Int("patience", 0, kMaxCount, &o.patience);
  ReadVerbose(fields, &o.verbose);
  fields->Choice("mode", kModes, &o.mode);
  fields->Double("min_delta", kAny, &o.min_delta);
  fields->Int("cooldown", 0, kMaxCount, &o.cooldown);
  fields->Double("min_lr", {0, kMaxNumber}, &o.min_lr);
  return ReduceLROnPlateau(o);
}

Made ReadCSVLogger(FieldReader* fields, const Place& place) {
  const std::string filename = RequiredPath("filename", fields, place);
  char separator = ',';
  bool append = false;
  fields->Character("separator", &separator);
  fields->Bool("append", &append);
  return CSVLogger(filename, separator, append);
}

Made ReadTerminateOnNaN(FieldReader* fields, const Place&) {
  bool raise_error = false;
  fields->Bool("raise_error", &raise_error);
  return TerminateOnNaN(raise_error);
}

Made ReadBackupAndRestore(FieldReader* fields, const Place& place) {
  BackupAndRestoreOptions o;
  const std::string backup_dir = RequiredPath("backup_dir", fields, place);
  ReadFrequency(fields, "save_freq", "", &o.save_freq);
  fields->Bool("double_checkpoint", &o.double_checkpoint);
  fields->Bool("delete_checkpoint", &o.delete_checkpoint);
  fields->Bool("save_before_preemption", &o.save_before_preemption);
  o.other_optimizer = place.config->other_optimizer;
  o.other_seed = place.config->other_seed;
  o.files = ReadSealed(fields, place);
  return BackupAndRestore(backup_dir, o);
}

Made ReadTensorBoard(FieldReader* fields, const Place& place) {
  TensorBoardOptions o;
  fields->Text("log_dir", "a path", &o.log_dir);
  o.log_dir = PathIn(place.folder, o.log_dir);
  place.config->tensorboard = o.log_dir;
  fields->Int("histogram_freq", 0, kMaxCount, &o.histogram_freq);
  fields->Bool("write_steps_per_second", &o.write_steps_per_second);
  ReadFrequency(fields, "update_freq", "\"batch\", ", &o.update_freq);
  fields->Ignore({"write_graph"});
  fields->OnlyBool("write_images", false);
  fields->OnlyNumber("profile_batch", 0);
  fields->OnlyNumber("embeddings_freq", 0);
  fields->OnlyNull({"embeddings_metadata"});
  return TensorBoard(o);
}

Made ReadModelCheckpoint(FieldReader* fields, const Place& place) {
  ModelCheckpointOptions o;
  const std::string filepath = RequiredPath("filepath", fields, place);
  fields->String("monitor", &o.monitor);
  ReadVerbose(fields, &o.verbose);
  fields->Bool("save_best_only", &o.save_best_only);
  fields->Bool("save_weights_only", &o.save_weights_only);
  fields->Bool("save_trainable_only", &o.save_trainable_only);
  fields->Choice("mode", kModes, &o.mode);
  ReadFrequency(fields, "save_freq", "", &o.save_freq);
  fields->DoubleOrNull("initial_value_threshold", kAny,
                       &o.initial_value_threshold);
  int64_t max_to_keep = 0;
  fields->Int("max_to_keep", 0, 100, &max_to_keep);
  o.max_to_keep = static_cast<int>(max_to_keep);
  o.files = ReadSealed(fields, place);
  return ModelCheckpoint(filepath, o);
}

struct Maker {
  Made (*make)(FieldReader* fields, const Place& place);
  const char* refusal;  // where `make` is null
};

constexpr Named<Maker> kMakers[] = {
    {"EarlyStopping", {ReadEarlyStopping, ""}},
    {"ReduceLROnPlateau", {ReadReduceLROnPlateau, ""}},
    {"ModelCheckpoint", {ReadModelCheckpoint, ""}},
    {"CSVLogger", {ReadCSVLogger, ""}},
    {"TerminateOnNaN", {ReadTerminateOnNaN, ""}},
    {"BackupAndRestore", {ReadBackupAndRestore, ""}},
    {"TensorBoard", {ReadTensorBoard, ""}},
    {"LearningRateScheduler",
     {nullptr,
      "it calls a function, which JSON cannot hold; give the optimizer a "
      "schedule as its learning_rate (ExponentialDecay, CosineDecay, "
      "PiecewiseConstantDecay)"}},
    {"LambdaCallback",
     {nullptr, "it calls functions, which JSON cannot hold; leave it out"}},
};

Status ReadCallback(const Json& json, const std::string& path,
                    const Place& place, Made* made) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  Maker maker{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kMakers, object.path, "callback", object.name, &maker));
  if (maker.make == nullptr) {
    return InvalidArgument("%s: is \"%s\"; %s", object.path.c_str(),
                           object.name.c_str(), maker.refusal);
  }
  const std::string config_path =
      object.config_path.empty() ? path : object.config_path;
  FieldReader fields(object.config, config_path);
  *made = maker.make(&fields, place);
  return fields.Finish();
}

}  // namespace

std::vector<ClassInfo> DescribeCallbacks() {
  RunConfig config;
  std::vector<ClassInfo> classes =
      Describe(kMakers, [&](const KerasObject& object) {
        FieldReader fields(object.config, "");
        Maker maker{};
        (void)Choose(kMakers, "", "callback", object.name, &maker);
        if (maker.make != nullptr) (void)maker.make(&fields, {".", &config});
      });
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i].refusal = kMakers[i].value.refusal;
  }
  return classes;
}

Status ReadCallbacks(const Json& json, const std::string& path,
                     const std::string& folder, RunConfig* config) {
  if (!json || json.kind() == Json::Kind::kNull) return Status();
  if (!json.is_array()) {
    return InvalidArgument("%s: is %s; must be a list", path.c_str(),
                           Show(json).c_str());
  }
  int64_t i = 0;
  for (Json m = json.first(); m; m = m.next()) {
    Made made;
    RINGLET_RETURN_IF_ERROR(
        ReadCallback(m, JoinPath(path, i++), {folder, config}, &made));
    config->callbacks.push_back(made);
  }
  return Status();
}

}  // namespace ringlet
