// Files are not trusted. A configuration is first built without memory for
// weights. Its sizes are compared with the tensors' sizes, which the length of
// the file bounds. Only then is memory allocated.

#include "ringlet/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/model/model_parts.h"
#include "../files/file_kind.h"
#include "../keras/compile_arguments.h"
#include "../weights/model_metadata.h"
#include "../weights/safetensors.h"
#include "data_description.h"
#include "model_path.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

Status SeedFromText(const std::string& text, uint64_t* seed) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *seed);
  if (read.ec == std::errc() && read.ptr == end && !text.empty()) {
    return Status();
  }
  return InvalidArgument("'%s' is not a number from 0 to 2^64 - 1",
                         Printable(text).c_str());
}

// A configuration may have any sizes. The length of the file bounds the sizes
// of its tensors, and memory is allocated only for these.
Status CheckSizes(const SafetensorsReader& file, const Model& model) {
  for (const Variable& v : model.variables()) {
    const StoredTensor* tensor = file.Find(kWeightsPrefix + v.path);
    if (tensor != nullptr && tensor->shape == v.shape &&
        DTypeOf(tensor->storage) == DType::kFloat32) {
      continue;
    }
    return InvalidArgument(
        "%s: its configuration has a weight '%s' of shape %s, its tensors do "
        "not",
        file.path().c_str(), v.path.c_str(), v.shape.ToString().c_str());
  }
  return Status();
}

// The weights of a model without memory for them.
class WeightsBuffer final : public Saveable {
 public:
  explicit WeightsBuffer(const Model& model)
      : variables_(model.variables()),
        weights_(static_cast<size_t>(model.num_weights())) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    for (const Variable& v : variables_) {
      spans->push_back({kWeightsPrefix + v.path, DType::kFloat32, v.shape,
                        weights_.data() + v.offset});
    }
  }
  std::vector<float> Take() { return std::move(weights_); }

 private:
  const std::vector<Variable>& variables_;
  std::vector<float> weights_;
};

// The part of an optimizer's state that is kept with other slots: its steps and
// its rate.
class Progress final : public Saveable {
 public:
  explicit Progress(Saveable* optimizer) : optimizer_(*optimizer) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    std::vector<StateSpan> all;
    optimizer_.AppendState(&all);
    for (const StateSpan& span : all) {
      if (span.shape.rank() == 0) spans->push_back(span);
    }
  }
  Status StateLoaded() override { return optimizer_.StateLoaded(); }

 private:
  Saveable& optimizer_;
};

// An optimizer with local updates does not have the slots of an optimizer
// without them. If only one of the file and the model has local updates, slots
// start at zero, as in each round.
bool HasOtherSlots(const SafetensorsReader& file, Saveable* optimizer) {
  const auto is_outer = [](const auto& item) {
    return StartsWith(item.name, kOuterPrefix);
  };
  std::vector<StateSpan> spans;
  optimizer->AppendState(&spans);
  return std::any_of(file.tensors().begin(), file.tensors().end(), is_outer) !=
         std::any_of(spans.begin(), spans.end(), is_outer);
}

void WarnOfNotFinite(const std::string& path, const Model& model,
                     const float* weights) {
  const std::string bad =
      NonFiniteWeightsWarning(path, model.variables(), weights);
  if (!bad.empty()) Notice("warning: %s", bad.c_str());
}

// If `compiled`, the file also has the state of an optimizer, which is ignored.
Status RestoreUncompiled(const std::string& path, bool compiled,
                         FileSystem* files, Model* model) {
  WeightsBuffer buffer(*model);
  LoadOptions options;
  options.files = files;
  options.ignore_others = compiled;
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(path, {&buffer}, options));
  std::vector<float> weights = buffer.Take();
  WarnOfNotFinite(path, *model, weights.data());
  return model->SetInitialWeights(std::move(weights));
}

// Loads the weights, and the optimizer's state if the model has its slots.
Status RestoreState(const SafetensorsReader& file, FileSystem* files,
                    Model* model) {
  LoadOptions loading;
  loading.files = files;
  Progress progress(model->optimizer_state());
  loading.ignore_others = HasOtherSlots(file, model->optimizer_state());
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(
      file.path(),
      {model->weights_state(),
       loading.ignore_others ? &progress : model->optimizer_state()},
      loading));
  WarnOfNotFinite(file.path(), *model, model->weights());
  return Status();
}

Status RestoreCompiled(const SafetensorsReader& file, CompileOptions options,
                       FileSystem* files, Model* model) {
  const std::string& path = file.path();
  const Metadata& metadata = file.metadata();
  CompileArguments arguments;
  RINGLET_RETURN_IF_ERROR(
      CompileArgumentsFromJson(metadata.at(kCompileKey), &arguments)
          .Annotate("%s: metadata '%s'", path.c_str(), kCompileKey));
  const auto seed = metadata.find(kSeedKey);
  if (seed != metadata.end()) {
    RINGLET_RETURN_IF_ERROR(
        SeedFromText(seed->second, &options.seed)
            .Annotate("%s: metadata '%s'", path.c_str(), kSeedKey));
  }
  // Comes before the workers connect: the state of a running job replaces it.
  const std::function<Status(Model*)> more = options.restore;
  Status restored;
  options.restore = [&](Model* compiled) {
    restored = RestoreState(file, files, compiled);
    if (restored.ok() && more != nullptr) restored = more(compiled);
    return restored;
  };
  const Status compiled = Compile(arguments, options, model);
  RINGLET_RETURN_IF_ERROR(restored);  // names its file
  return compiled.Annotate("%s", path.c_str());
}

// Loads a model. Compiles it unless `options` is null.
Status Load(const std::string& path, std::unique_ptr<Model>* model,
            const CompileOptions* options, FileSystem* files) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      files, path, {FileKind::Format::kSafetensors}, file.Open(files, path)));
  const Metadata& metadata = file.metadata();
  const auto configuration = metadata.find(kModelKey);
  if (configuration == metadata.end()) {
    return InvalidArgument(
        "%s: has weights, but no configuration of a model; give them together "
        "with the model: RUN.json --init %s (in C++ LoadWeights)",
        path.c_str(), path.c_str());
  }
  std::unique_ptr<Model> new_model;
  RINGLET_RETURN_IF_ERROR(
      ModelFromJson(configuration->second, &new_model)
          .Annotate("%s: metadata '%s'", path.c_str(), kModelKey));
  RINGLET_RETURN_IF_ERROR(CheckSizes(file, *new_model));
  std::optional<DataDescription> description;
  RINGLET_RETURN_IF_ERROR(ReadDataDescription(file, *new_model, &description));
  new_model->set_data_description(description);
  const bool compiled = metadata.count(kCompileKey) > 0;
  RINGLET_RETURN_IF_ERROR(
      compiled && options != nullptr
          ? RestoreCompiled(file, *options, files, new_model.get())
          : RestoreUncompiled(path, compiled, files, new_model.get()));
  *model = std::move(new_model);
  return Status();
}

}  // namespace

Status CheckSaveModel(const Model& model, bool include_optimizer) {
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    if (layer.custom == nullptr) continue;
    return InvalidArgument(
        "layer '%s' is %s of the program's own, which no file can build "
        "again; save the weights (SaveWeights, save_weights_only) and load "
        "them into a model that the program builds",
        layer.name.c_str(), WithArticle(ClassName(layer)).c_str());
  }
  const char* custom_name = nullptr;
  for (const OutputLoss& output : model.losses()) {
    if (output.loss.custom != nullptr) custom_name = output.loss.class_name();
  }
  for (const Metric& metric : model.metrics()) {
    if (custom_name == nullptr && metric.custom != nullptr)
      custom_name = metric.name.c_str();
  }
  if (!include_optimizer || custom_name == nullptr) return Status();
  return InvalidArgument(
      "%s is a loss or metric of the program's own, with which no file can "
      "compile; save the weights (SaveWeights, save_weights_only), or the "
      "model without its optimizer (include_optimizer), and compile what is "
      "loaded",
      custom_name);
}

Status SaveModel(Model* model, const std::string& path,
                 const SaveModelOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      ModelParts(model).graph().CheckAdapted().Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(CheckSaveModel(*model, options.include_optimizer)
                              .Annotate("%s", path.c_str()));
  Metadata metadata = options.metadata;
  metadata.erase(kCompileKey);
  metadata[kModelKey] = ToJson(*model);
  metadata[kVersionKey] = RINGLET_VERSION;
  metadata[kSeedKey] = std::to_string(model->seed());
  metadata.erase(kDataDescriptionKey);
  if (model->data_description() != nullptr) {
    metadata[kDataDescriptionKey] = ToJson(*model->data_description());
  }
  Saveables state = {model->weights_state()};
  if (options.include_optimizer) {
    metadata[kCompileKey] = CompileArgumentsToJson(*model);
    state.push_back(model->optimizer_state());
  }
  SaveOptions saving;
  saving.weights = options.weights;
  saving.files = options.files;
  saving.replace = options.replace;
  return SaveCheckpoint(path, state, metadata, saving);
}

Status LoadModel(const std::string& path, std::unique_ptr<Model>* model,
                 const CompileOptions& options, FileSystem* files) {
  return Load(path, model, &options, files);
}

Status LoadModelToCompile(const std::string& path,
                          std::unique_ptr<Model>* model, FileSystem* files) {
  return Load(path, model, nullptr, files);
}

}  // namespace ringlet
