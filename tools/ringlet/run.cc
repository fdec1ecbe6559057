// What commands have in common between a RUN.json that was read and a model
// that runs. MakeModel may be called twice, alone and with a collective: the
// second call compiles the model again, or loads it anew. OpenRunData looks at
// every label and at every example whose bounds the source does not know:
// whatever is wrong with the data is told before the first step.

#include "run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdlib>

#include "core/base/json.h"
#include "core/base/message.h"
#include "core/base/same_file.h"
#include "core/base/text.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/saving_callbacks.h"
#include "io/files/file_system.h"
#include "io/keras/compile_arguments.h"

namespace ringlet {

void FitFlags::AddStep(CommandLine* flags) {
  flags->Int("--batch-size", 1, int64_t{1} << 24, &batch_size,
             "examples a step, of each worker");
  flags->Int("--threads", 1, 1024, &threads,
             "that compute (no bit depends on them)");
  flags->Switch("--recompute", &recompute,
                "compute activations again, instead of keeping them\n"
                "(less memory, same bits)");
}

void FitFlags::AddAll(CommandLine* flags) {
  flags->Int("--epochs", 0, int64_t{1} << 40, &epochs,
             "epoch in which training ends");
  flags->Int("--steps-per-epoch", 1, int64_t{1} << 40, &steps_per_epoch,
             "instead of the whole data");
  AddStep(flags);
  AddOrder(flags);
}

void FitFlags::AddOrder(CommandLine* flags) {
  flags->Int("--seed", 0, INT64_MAX, &seed,
             "of initial weights and of the data's order");
  flags->Switch("--no-shuffle", &no_shuffle, "the data in their own order");
}

void FitFlags::Apply(FitConfig* fit) const {
  if (epochs >= 0) fit->epochs = epochs;
  if (steps_per_epoch >= 0) fit->steps_per_epoch = steps_per_epoch;
  if (batch_size >= 0) fit->batch_size = batch_size;
  if (seed >= 0) fit->seed = seed;
  if (threads >= 0) fit->threads = threads;
  if (no_shuffle) fit->shuffle = false;
  if (recompute) fit->recompute = true;
}

void InitFlags::Add(CommandLine* flags, const char* help) {
  flags->Text("--init", "WEIGHTS", &path, help);
  flags->Text("--init-layout", "NAME", &layout,
              "of them: keras (without this flag), or torch for a\n"
              "state_dict: \"fc.weight\", (units, inputs)");
  flags->Switch("--by-name", &by_name,
                "of --init: the layers that both have, no others");
  flags->Switch("--skip-mismatch", &skip_mismatch,
                "of --init: not the layers that differ");
}

namespace {

Status Load(const InitFlags& init, FileSystem* files, Model* model) {
  LoadWeightsOptions options;
  options.files = files;
  options.by_name = init.by_name;
  options.skip_mismatch = init.skip_mismatch;
  if (init.layout == "torch") options.layout = WeightsLayout::kTorch;
  return LoadWeights(model, init.path, options).Annotate("--init");
}

Status CheckLayout(const InitFlags& init) {
  if (init.path.empty() && (init.by_name || init.skip_mismatch)) {
    return InvalidArgument("%s: there is no --init",
                           init.by_name ? "--by-name" : "--skip-mismatch");
  }
  if (init.layout.empty()) return Status();
  if (init.path.empty()) {
    return InvalidArgument("--init-layout %s: there is no --init",
                           Printable(init.layout).c_str());
  }
  if (init.layout == "keras" || init.layout == "torch") return Status();
  return InvalidArgument("--init-layout %s: is neither keras nor torch",
                         Printable(init.layout).c_str());
}

}  // namespace

FileSystem* Disk() {
  static SealedFiles* const disk = new SealedFiles("", /*seal=*/false);
  return disk;
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
  options.seed = static_cast<uint64_t>(config->fit.seed);
  if (!config->saved_model.empty()) {
    RINGLET_RETURN_IF_ERROR(LoadModel(config->saved_model, &config->model,
                                      options, config->disk.get())
                                .Annotate("model"));
  }
  Model* model = config->model.get();
  if (config->has_compile) {
    RINGLET_RETURN_IF_ERROR(Compile(config->compile, options, model));
  }
  RINGLET_RETURN_IF_ERROR(model->status());
  if (!model->compiled()) {
    return InvalidArgument(
        "%s: was saved without how it is compiled; name it as \"model\" of a "
        "RUN.json with \"compile\"",
        config->saved_model.c_str());
  }
  return init.path.empty() ? Status() : Load(init, config->disk.get(), model);
}

namespace {

// Whether every value of x is known to be a finite float32 once it is scaled;
// a scale is monotone.
bool ValuesFit(const Dataset& data) {
  double ends[2] = {};
  if (!data.source()->XRange(&ends[0], &ends[1])) return false;
  for (const double end : ends) {
    const float value = static_cast<float>(end) * data.scale().factor;
    if (!std::isfinite(value + data.scale().offset)) return false;
  }
  return true;
}

// To the end, so that nothing is printed or written beside wrong data: labels,
// and of examples only what is not known without reading them.
Status CheckExamples(Model* model, const Dataset& batches,
                     const ClassWeights& class_weight = {}) {
  RINGLET_RETURN_IF_ERROR(batches.status());
  LoaderOptions options;
  options.class_weight = class_weight;
  options.background = false;
  options.examples = !ValuesFit(batches);
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(batches, options, &loader));
  for (Batch batch; !batch.last;) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
  }
  return Status();
}

}  // namespace

// As Keras does: the end of the data, before they are shuffled.
Status Split(double share, Dataset* train, Dataset* validation) {
  const Dataset all = *train;
  RINGLET_RETURN_IF_ERROR(all.Batch(1).status());
  const int64_t at = static_cast<int64_t>(
      std::floor(static_cast<double>(all.size()) * (1 - share)));
  if (at == 0 || at == all.size()) {
    return InvalidArgument("fit.validation_split: %g of %" PRId64
                           " examples leaves none to %s",
                           share, all.size(), at == 0 ? "train" : "validate");
  }
  *train = all.Take(at);
  *validation = all.Skip(at);
  return Status();
}

namespace {

// A class's number is its name's place in its own file.
Status CheckSameClasses(const Dataset& train, const Dataset& validation) {
  const std::vector<std::string> a = train.source()->ClassNames(),
                                 b = validation.source()->ClassNames();
  if (a == b) return Status();
  return InvalidArgument(
      "data: the labels of %s have %zu names, those of %s %zu, and they are "
      "not "
      "the same; the two must have all classes, or class numbers",
      train.source()->y_name().c_str(), a.size(),
      validation.source()->y_name().c_str(), b.size());
}

int64_t ValidationBatch(const FitConfig& fit) {
  return fit.validation_batch_size > 0 ? fit.validation_batch_size
                                       : fit.batch_size;
}

}  // namespace

void RunData::Batch(const FitConfig& fit, int replicas) {
  train = train_examples.Batch(replicas * fit.batch_size);
  if (validation_examples.empty()) return;
  validation = validation_examples.Batch(replicas * ValidationBatch(fit));
}

int AskedReplicas(const RunConfig& config, const ClusterConfig& cluster) {
  const int asked = config.strategy.options.replicas;
  const bool elastic = config.strategy.elastic();
  // Where --shrink made it so, all are on one machine and can read it.
  const bool reads = elastic ? config.strategy.may_shrink : cluster.is_chief;
  const int least = elastic ? cluster.world_size : 0;
  if (asked != 0) return asked;
  if (!reads || config.backup.empty()) return least;
  const int saved = ReplicasOfBackup(config.backup, config.disk.get());
  return saved > cluster.world_size ? saved : least;
}

Status OpenRunData(const RunConfig& config, int replicas, RunData* data) {
  const FitConfig& fit = config.fit;
  Model* model = config.model.get();
  if (config.train.empty()) return InvalidArgument("data.train: is missing");
  Dataset train = OpenData(config.train, *model),
          validation = OpenData(config.validation, *model);
  if (validation.empty() && fit.validation_split > 0) {
    RINGLET_RETURN_IF_ERROR(Split(fit.validation_split, &train, &validation));
  }
  RINGLET_RETURN_IF_ERROR(
      CheckExamples(model, train.Batch(fit.batch_size), fit.class_weight)
          .Annotate("data.train"));
  if (fit.shuffle) train = train.Shuffle(static_cast<uint64_t>(fit.seed));
  // Epochs of a number of steps go on where the last one ended.
  if (fit.steps_per_epoch > 0) train = train.Repeat();
  data->train_examples = train;
  data->validation_examples = validation;
  data->Batch(fit, replicas);
  if (validation.empty()) return Status();
  RINGLET_RETURN_IF_ERROR(
      data->validation.status().Annotate("data.validation"));
  RINGLET_RETURN_IF_ERROR(CheckSameClasses(train, validation));
  return CheckExamples(model, validation.Batch(ValidationBatch(fit)))
      .Annotate("data.validation");
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat of_a, of_b;
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 &&
         SameFile(of_a, of_b);
}

Status CheckNotData(const char* flag, const std::string& path,
                    const DataConfig& data) {
  std::vector<std::string> files = {
      data.images, data.labels, data.x, data.y, data.csv, data.sample_weight};
  for (const auto* parts : {&data.inputs, &data.targets}) {
    for (const DataPart& part : *parts) files.push_back(part.path);
  }
  for (const std::string& file : files) {
    if (file.empty() || !IsSameFile(file, path)) continue;
    return InvalidArgument(
        "%s %s: holds the data that are read; give another name", flag,
        path.c_str());
  }
  return Status();
}

void NoteThatAlone() {
  const char* const job = std::getenv("TF_CONFIG");
  if (job == nullptr || *job == '\0') return;
  Notice(
      "note: TF_CONFIG is set, but this command works alone, on all the data");
}

Status CheckWritable(const char* flag, const std::string& path) {
  if (path.empty()) return Status();
  struct stat about;
  if (stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
    return InvalidArgument("%s %s: is a folder; give a file's name", flag,
                           path.c_str());
  }
  const std::string folder = FolderOf(path);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return Status();
  return OsError(errno, "%s %s: nothing can be written in %s", flag,
                 path.c_str(), folder.c_str());
}

}  // namespace ringlet
