// The steps of all commands from a parsed RUN.json to a compiled model.
// MakeModel may be called twice, alone and with a collective: the second call
// compiles the model again, or loads it again. Each makes one Compile with the
// collective, and loads before the workers join: a joining worker makes no
// collective call that the other workers do not. OpenRunData reads every label,
// and every example if the source does not give their bounds: an error in the
// data is reported before the first step.

#include "run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../config/open_data.h"
#include "../data/data_match.h"
#include "core/base/json.h"
#include "core/base/same_file.h"
#include "core/base/text.h"
#include "core/data/dataset_parts.h"
#include "io/checkpoint/backup_metadata.h"
#include "io/checkpoint/data_description.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/keras/compile_arguments.h"
#include "io/logs/service_notifier.h"
#include "io/logs/timed_lines.h"
#include "io/readers/arrays/array_path.h"
#include "io/readers/files/class_names.h"
#include "io/weights/safetensors.h"
#include "model_files.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"
#include "standard_input.h"

namespace ringlet {

void FitFlags::AddStep(CommandLine* flags) {
  flags->Int("--batch-size", 1, int64_t{1} << 24, &batch_size,
             "examples per step of each worker");
  flags->Int("--threads", 1, 1024, &threads,
             "number of computing threads; it changes no result");
  flags->Switch("--recompute", &recompute,
                "compute activations again in the backward pass:\n"
                "less memory, more time, the same results");
  flags->Switch("--mixed-bfloat16", &mixed_bfloat16,
                "keep the layers' outputs as bfloat16: less memory, about\n"
                "the same time and accuracy, other results");
}

void FitFlags::AddAll(CommandLine* flags) {
  flags->Int("--epochs", 0, int64_t{1} << 40, &epochs, "number of epochs");
  flags->Int("--steps-per-epoch", 1, int64_t{1} << 40, &steps_per_epoch,
             "steps in an epoch, instead of the whole data");
  AddStep(flags);
  AddOrder(flags);
}

void FitFlags::AddOrder(CommandLine* flags) {
  flags->Int("--seed", 0, INT64_MAX, &seed,
             "seed of the initial weights and the data's order");
  flags->Switch("--no-shuffle", &no_shuffle, "keep the order of the data");
}

void FitFlags::Apply(FitConfig* fit) const {
  if (epochs >= 0) fit->epochs = epochs;
  if (steps_per_epoch >= 0) fit->steps_per_epoch = steps_per_epoch;
  if (batch_size >= 0) fit->batch_size = batch_size;
  if (seed >= 0) fit->seed = seed;
  if (threads >= 0) fit->threads = threads;
  if (no_shuffle) fit->shuffle = false;
  if (recompute) fit->recompute = true;
  if (mixed_bfloat16) fit->dtype_policy = DTypePolicy::kMixedBFloat16;
}

void InitFlags::Add(CommandLine* flags, const char* help) {
  flags->Text("--init", "WEIGHTS", &path, help);
  flags->Text("--init-layout", "NAME", &layout,
              "layout of these weights: keras (default), or torch\n"
              "for a state_dict: \"fc.weight\", (units, inputs)");
  flags->Switch("--by-name", &by_name,
                "with --init: load only layers that both have");
  flags->Switch("--skip-mismatch", &skip_mismatch,
                "with --init: skip layers with other shapes");
}

Status InitFlags::ChooseNewest() {
  const bool is_folder = IsFolder(path);
  if (!is_folder && (IsFile(path) || !HasPathFields(path))) return Status();
  // If the folder has an index, each of its other files has a part of the
  // weights.
  const std::string index =
      path + (EndsWith(path, "/") ? "" : "/") + "model.safetensors.index.json";
  if (is_folder && IsFile(index)) {
    Notice("note: --init %s: takes the files that %s names", path.c_str(),
           index.c_str());
    path = index;
    return Status();
  }
  std::vector<ModelFile> found;
  RINGLET_RETURN_IF_ERROR(
      ListModelFiles(CommandFileSystem(), path, &found).Annotate("--init"));
  if (found.empty()) {
    return InvalidArgument(
        "--init %s: there is no model and no safetensors file; name another "
        "folder, or a file",
        Printable(path).c_str());
  }
  const std::string newest = found.back().path;
  Notice("note: --init %s: takes %s, the newest of %zu", path.c_str(),
         newest.c_str(), found.size());
  path = newest;
  return Status();
}

namespace {

Status LoadInitialWeights(const InitFlags& init, FileSystem* files,
                          Model* model) {
  LoadWeightsOptions options;
  options.files = files;
  options.by_name = init.by_name;
  options.skip_mismatch = init.skip_mismatch;
  if (init.layout == "torch") options.layout = WeightsLayout::kTorch;
  WeightsReport report;
  RINGLET_RETURN_IF_ERROR(
      LoadWeights(model, init.path, options, &report).Annotate("--init"));
  if (!report.lora.empty()) {
    Notice(
        "note: --init %s: has no weights of LoRA; of %zu layers A keeps its "
        "values, and B is zeros",
        init.path.c_str(), report.lora.size() / 2);
  }
  return Status();
}

Status CheckLayout(const InitFlags& init) {
  if (init.path.empty() && (init.by_name || init.skip_mismatch)) {
    return InvalidArgument("%s: needs --init",
                           init.by_name ? "--by-name" : "--skip-mismatch");
  }
  if (init.layout.empty()) return Status();
  if (init.path.empty()) {
    return InvalidArgument("--init-layout %s: needs --init",
                           Printable(init.layout).c_str());
  }
  if (init.layout == "keras" || init.layout == "torch") return Status();
  return InvalidArgument("--init-layout %s: is neither keras nor torch",
                         Printable(init.layout).c_str());
}

Status DescriptionOfInitFile(const InitFlags& init, const Model& model,
                             std::optional<DataDescription>* description) {
  if (init.path.empty()) return Status();
  SafetensorsReader file;  // other formats have no description
  if (!file.Open(CommandFileSystem(), init.path).ok()) return Status();
  return ReadDataDescription(file, model, description);
}

std::vector<std::string> Sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

// True if every value of x is known to be a finite float32 after scaling; a
// scale is monotone.
bool ValuesFit(const Dataset& data) {
  double ends[2] = {};
  if (!data.source()->XRange(&ends[0], &ends[1])) return false;
  for (const double end : ends) {
    const float value = static_cast<float>(end) * data.scale().factor;
    if (!std::isfinite(value + data.scale().offset)) return false;
  }
  return true;
}

// Reads the data to the end, so that errors are reported before any output: all
// labels, and the examples in memory if their values are not known to fit. The
// step that reads a wrong value from disk ends the training. With a memory,
// targets of several values, such as windows, are not read either: they may be
// as many as the examples.
Status CheckExamples(Model* model, const Dataset& batches, bool in_memory,
                     const ClassWeights& class_weight = {}) {
  RINGLET_RETURN_IF_ERROR(batches.status());
  const bool has_many_targets = batches.source()->y().shape.elements() > 1;
  if (batches.parts().memory > 0 && has_many_targets) return Status();
  LoaderOptions options;
  options.class_weight = class_weight;
  options.background = false;
  options.examples = in_memory && !ValuesFit(batches);
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(batches, options, &loader));
  // The model is compiled for this worker alone, which reads all parts of a
  // batch.
  for (Batch batch; !batch.last;) {
    for (int part = 0; part < model->num_replicas(); ++part) {
      RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    }
  }
  return Status();
}

// If the data has groups, `share` is the part of the groups.
int64_t FirstValidationIndex(int64_t count, double share) {
  return static_cast<int64_t>(
      std::floor(static_cast<double>(count) * (1 - share)));
}

// The names of classes are from the training data, if these have names.
Status CheckSameClasses(const Dataset& train, const Dataset& validation) {
  const std::vector<std::string> a = train.source()->Description().classes,
                                 b = validation.source()->Description().classes;
  if (a == b) return Status();
  return InvalidArgument(
      "data: the labels of %s are %s, those of %s are %s; use one kind for "
      "both",
      train.source()->y_name().c_str(), a.empty() ? "numbers" : "names",
      validation.source()->y_name().c_str(), b.empty() ? "numbers" : "names");
}

// A forgotten scale of the validation data would show in no message.
Status CheckHasScale(const DataConfig& train, const DataConfig& validation) {
  const Scale scale = GivenScale(train).value_or(Scale());
  if (GivenScale(validation) || SameScale(scale, Scale())) return Status();
  return InvalidArgument(
      "data.validation: has no \"scale\", and data.train has one; give "
      "\"scale\": 1 if it needs none");
}

int64_t ValidationBatch(const FitConfig& fit) {
  return fit.validation_batch_size > 0 ? fit.validation_batch_size
                                       : fit.batch_size;
}

}  // namespace

FileSystem* CommandFileSystem() {
  // The object is never destroyed.
  static const auto* const disk =
      new std::shared_ptr<FileSystem>(SealedFiles("", /*seal=*/false));
  return disk->get();
}

Status LoadWithLora(RunConfig* config) {
  std::unique_ptr<Model> before;
  RINGLET_RETURN_IF_ERROR(
      LoadModelToCompile(config->saved_model, &before, config->disk.get())
          .Annotate("model"));
  RINGLET_RETURN_IF_ERROR(
      EnableLora(*before, *config->lora, &config->model).Annotate("lora"));
  const DataDescription* const description = before->data_description();
  if (description != nullptr) {
    config->model->set_data_description(*description);
  }
  return Status();
}

Status MakeModel(RunConfig* config, const InitFlags& init,
                 Collective* collective, int replicas) {
  RINGLET_RETURN_IF_ERROR(CheckLayout(init));
  CompileOptions options;
  options.collective = collective;
  options.reduction = config->strategy.options.reduction;
  options.local = config->strategy.options.local;
  options.replicas = replicas;
  options.threads = static_cast<int>(config->fit.threads);
  options.recompute = config->fit.recompute;
  options.dtype_policy = config->fit.dtype_policy;
  options.seed = static_cast<uint64_t>(config->fit.seed);
  FileSystem* const disk = config->disk.get();
  Status began;
  const std::string& saved = config->saved_model;
  if (!init.path.empty() || config->lora) {
    options.restore = [&](Model* model) {
      if (config->lora) {
        LoadWeightsOptions loading;
        loading.files = disk;
        began = LoadWeights(model, saved, loading).Annotate("model");
      }
      if (began.ok() && !init.path.empty())
        began = LoadInitialWeights(init, disk, model);
      return began;
    };
  }
  Status status;
  if (config->lora) {
    status = LoadWithLora(config);
  } else if (!saved.empty()) {
    status = config->has_compile
                 ? LoadModelToCompile(saved, &config->model, disk)
                 : LoadModel(saved, &config->model, options, disk);
    status = status.Annotate("model");
  }
  if (status.ok() && config->has_compile) {
    status = Compile(config->compile, options, config->model.get());
  }
  RINGLET_RETURN_IF_ERROR(began);
  RINGLET_RETURN_IF_ERROR(status);
  Model* const model = config->model.get();
  RINGLET_RETURN_IF_ERROR(model->status());
  if (!model->compiled()) {
    return InvalidArgument(
        "%s: was saved without how it is compiled; name it as \"model\" of a "
        "RUN.json with \"compile\"",
        config->saved_model.c_str());
  }
  return Status();
}

Status PrintOtherOrder(const InitFlags& init, const Model& model,
                       const std::optional<DataDescription>& data) {
  std::optional<DataDescription> before;
  RINGLET_RETURN_IF_ERROR(DescriptionOfInitFile(init, model, &before));
  if (!before || !data) return Status();
  const std::vector<std::string> names_before = ValueNames(before->columns);
  const std::vector<std::string> now = ValueNames(data->columns);
  if (names_before == now || Sorted(names_before) != Sorted(now))
    return Status();
  Notice(
      "note: --init %s: its weights are for the columns in this order: %s; the "
      "data have: %s; \"columns\" in RUN.json can give the first order",
      init.path.c_str(), ListNames(names_before).c_str(),
      ListNames(now).c_str());
  return Status();
}

Status CopyDescriptionOfInitFile(const InitFlags& init, Model* model) {
  std::optional<DataDescription> description;
  RINGLET_RETURN_IF_ERROR(DescriptionOfInitFile(init, *model, &description));
  // The weights count, not the file of the model's configuration.
  if (description) model->set_data_description(description);
  return Status();
}

// Takes the end of the data before they are shuffled, as Keras does.
Status Split(double share, Dataset* train, Dataset* validation) {
  const Dataset all = *train;
  RINGLET_RETURN_IF_ERROR(all.Batch(1).status());
  const std::vector<int64_t> groups = all.source()->GroupStarts();
  const bool in_groups = !groups.empty();
  const int64_t count =
      in_groups ? static_cast<int64_t>(groups.size()) : all.size();
  const int64_t split = FirstValidationIndex(count, share);
  if (split == 0 || split == count) {
    return InvalidArgument("fit.validation_split: %g of %" PRId64
                           " %s leaves none to %s%s",
                           share, count,
                           !in_groups   ? "examples"
                           : count == 1 ? "group"
                                        : "groups",
                           split == 0 ? "train" : "validate",
                           count == 1 ? "; a split needs two" : "");
  }
  const int64_t first = in_groups ? groups[static_cast<size_t>(split)] : split;
  *train = all.Take(first);
  *validation = all.Skip(first);
  return Status();
}

void RunData::Batch(const FitConfig& fit, int replicas) {
  train = train_examples.Batch(replicas * fit.batch_size);
  if (validation_examples.empty()) return;
  validation = validation_examples.Batch(replicas * ValidationBatch(fit));
}

int RequestedReplicas(const RunConfig& config, const ClusterConfig& cluster) {
  const int requested = config.strategy.options.replicas;
  const bool elastic = config.strategy.elastic();
  // If --shrink made the job elastic, all workers are on one machine and can
  // read the file.
  const bool reads = elastic ? config.strategy.may_shrink : cluster.is_chief;
  const int min_replicas = elastic ? cluster.world_size : 0;
  if (requested != 0) return requested;
  if (!reads || config.backup.empty()) return min_replicas;
  const int saved = ReplicasOfBackup(config.backup, config.disk.get());
  return saved > cluster.world_size ? saved : min_replicas;
}

Status OpenRunData(const RunConfig& config, int replicas, RunData* data) {
  const FitConfig& fit = config.fit;
  Model* model = config.model.get();
  if (config.train.empty()) return InvalidArgument("data.train: is missing");
  DataConfig training = config.train, validating = config.validation;
  RINGLET_RETURN_IF_ERROR(CopyStandardInput(&training));
  const DataDescription* const before = model->data_description();
  if (before != nullptr) MatchData(*before, &training);
  Dataset train = OpenData(training, *model);
  if (train.source() != nullptr) {
    data->description = DescribeData(training, *train.source(), before);
  }
  if (data->description && !validating.empty()) {
    RINGLET_RETURN_IF_ERROR(CheckHasScale(config.train, validating));
    DataDescription same = *data->description;
    same.scale = GivenScale(validating).value_or(same.scale);
    MatchData(same, &validating);
  }
  Dataset validation = OpenData(validating, *model);
  if (validation.empty() && fit.validation_split > 0) {
    RINGLET_RETURN_IF_ERROR(Split(fit.validation_split, &train, &validation));
  }
  RINGLET_RETURN_IF_ERROR(CheckExamples(model, train.Batch(fit.batch_size),
                                        config.train.in_memory,
                                        fit.class_weight)
                              .Annotate("data.train"));
  if (fit.shuffle) train = train.Shuffle(static_cast<uint64_t>(fit.seed));
  // Epochs of a number of steps continue where the last one ended.
  if (fit.steps_per_epoch > 0) train = train.Repeat();
  data->train_examples = train;
  data->validation_examples = validation;
  data->Batch(fit, replicas);
  if (validation.empty()) return Status();
  RINGLET_RETURN_IF_ERROR(
      data->validation.status().Annotate("data.validation"));
  RINGLET_RETURN_IF_ERROR(CheckSameClasses(train, validation));
  const bool in_memory = (validating.empty() ? training : validating).in_memory;
  return CheckExamples(model, validation.Batch(ValidationBatch(fit)), in_memory)
      .Annotate("data.validation");
}

FitOptions MakeFitOptions(const RunConfig& config, const RunData& data) {
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
  const bool in_lines =
      config.fit.verbose == Verbose::kAuto && isatty(STDOUT_FILENO) == 0;
  options.callbacks.push_back(
      std::make_shared<TimedLines>(in_lines ? stdout : nullptr));
  options.callbacks.push_back(std::make_shared<ServiceNotifier>());
  return options;
}

bool NameOneFile(const std::string& a, const std::string& b) {
  struct stat info_a, info_b;
  return stat(a.c_str(), &info_a) == 0 && stat(b.c_str(), &info_b) == 0 &&
         SameFile(info_a, info_b);
}

bool WouldBeOneFile(const std::string& a, const std::string& b) {
  return a == b || NameOneFile(a, b) ||
         (FileNameOf(a) == FileNameOf(b) &&
          NameOneFile(FolderOf(a), FolderOf(b)));
}

Status CheckNotRead(const char* flag, const std::string& path,
                    const std::vector<std::string>& read) {
  for (const std::string& file : read) {
    if (file.empty() || !NameOneFile(file, path)) continue;
    return InvalidArgument(
        "%s %s: is read here, and would be overwritten; give another name",
        flag, path.c_str());
  }
  return Status();
}

Status CheckNotData(const char* flag, const std::string& path,
                    const DataConfig& data) {
  std::vector<std::string> files = {
      data.images,        data.labels,         data.x, data.y, data.csv,
      data.sample_weight, data.text.vocabulary};
  if (data.csv.empty()) files.push_back(data.windows.group);
  for (const auto* parts : {&data.inputs, &data.targets}) {
    for (const DataPart& part : *parts) files.push_back(part.path);
  }
  for (const std::string& file : files) {
    if (file.empty() || !NameOneFile(SplitArrayPath(file).file, path)) continue;
    return InvalidArgument(
        "%s %s: holds the data that are read; give another name", flag,
        path.c_str());
  }
  return Status();
}

void PrintIgnoredJob() {
  const char* const job = std::getenv("TF_CONFIG");
  if (job == nullptr || *job == '\0') return;
  Notice(
      "note: TF_CONFIG is set, but this command works alone, on all the data");
}

void PrintWritten(const std::string& path, const std::string& contents) {
  struct stat about;
  const bool known = stat(path.c_str(), &about) == 0;
  // Prints nothing if the output goes to a pipe or a device, as /dev/stdout.
  if (known && !S_ISREG(about.st_mode)) return;
  Print("wrote %s: %s%s", path.c_str(), contents.c_str(),
        known ? (", " + std::to_string(about.st_size) + " bytes").c_str() : "");
}

Status CheckWritable(const char* flag, const std::string& path) {
  if (path.empty()) return Status();
  if (IsFolder(path)) {
    return InvalidArgument("%s %s: is a folder; give a file's name", flag,
                           path.c_str());
  }
  const std::string folder = FolderOf(path);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return Status();
  return OsError(errno, "%s %s: nothing can be written in %s", flag,
                 path.c_str(), folder.c_str());
}

}  // namespace ringlet
