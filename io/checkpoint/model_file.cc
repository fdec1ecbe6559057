#include "model_file.h"

#include <cfloat>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <type_traits>

#include "../../core/base/json.h"
#include "../../core/base/message.h"
#include "../../core/base/text.h"
#include "../data/element_types.h"
#include "../files/file_kind.h"
#include "../keras/compile_arguments.h"
#include "../keras/model_json.h"
#include "keras_layout.h"
#include "torch_layout.h"
#include "weights_file.h"

namespace ringlet {
namespace {

constexpr char kModelKey[] = "model";
constexpr char kCompileKey[] = "compile";
constexpr char kSeedKey[] = "seed";

// --- whole models -----------------------------------------------------------

Status SeedFromText(const std::string& text, uint64_t* seed) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *seed);
  if (read.ec == std::errc() && read.ptr == end && !text.empty()) {
    return Status();
  }
  return InvalidArgument("'%s' is no number from 0 to 2^64 - 1",
                         Printable(text).c_str());
}

Status CheckCompiled(const Model* model) {
  RINGLET_RETURN_IF_ERROR(model->status());
  if (model->compiled()) return Status();
  return InvalidArgument("model '%s' has no weights yet: call Compile first",
                         model->name().c_str());
}

// A configuration may speak of any sizes; those the file holds are bounded by
// its length, and memory is taken only for these.
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

// Weights of a model that has no memory for them yet.
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

Status RestoreUncompiled(const std::string& path, FileSystem* files,
                         Model* model) {
  WeightsBuffer buffer(*model);
  LoadOptions options;
  options.files = files;
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(path, {&buffer}, options));
  return model->SetInitialWeights(buffer.Take());
}

Status RestoreCompiled(const std::string& path, const Metadata& metadata,
                       CompileOptions options, FileSystem* files,
                       Model* model) {
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
  model->Compile(arguments.optimizer, arguments.loss, arguments.metrics,
                 options);
  RINGLET_RETURN_IF_ERROR(model->status().Annotate("%s", path.c_str()));
  LoadOptions loading;
  loading.files = files;
  RINGLET_RETURN_IF_ERROR(LoadCheckpoint(
      path, {model->weights_state(), model->optimizer_state()}, loading));
  return model->CheckReplicas();
}

// --- weights by name --------------------------------------------------------

// What the file has for one weight of the model.
struct Match {
  const Variable* variable;
  TorchWeight stored;  // of a file in Keras's layout as it is here
  bool fits = false;
};

std::string LayerOf(const Variable& variable) {
  return variable.path.substr(0, variable.path.rfind('/'));
}

std::string Describe(const Match& match) {
  const StoredTensor& tensor = *match.stored.tensor;
  const bool renamed = tensor.name != match.variable->path &&
                       tensor.name != kWeightsPrefix + match.variable->path;
  return match.variable->path + ": " + NameOf(tensor.storage) + " " +
         tensor.shape.ToString() + " in the file" +
         (renamed ? " (" + tensor.name + ")" : "") + ", F32 " +
         match.stored.shape.ToString() +
         (match.stored.shape != match.variable->shape ? " expected" : " here");
}

Status MatchWeights(const WeightsFile& file, const Model& model,
                    const LoadWeightsOptions& options,
                    std::vector<Match>* matches) {
  std::vector<TorchWeight> weights;
  if (options.layout == WeightsLayout::kTorch) {
    RINGLET_RETURN_IF_ERROR(FindTorchWeights(
        file, model, /*names_only=*/options.by_name, &weights));
  } else {
    std::vector<const StoredTensor*> tensors;
    RINGLET_RETURN_IF_ERROR(FindKerasWeights(file, model, &tensors));
    for (size_t v = 0; v < tensors.size(); ++v) {
      TorchWeight weight;
      weight.tensor = tensors[v];
      weight.shape = model.variables()[v].shape;
      weights.push_back(weight);
    }
  }
  for (const Variable& v : model.variables()) {
    Match match;
    match.variable = &v;
    match.stored = weights[matches->size()];
    const StoredTensor* tensor = match.stored.tensor;
    match.fits = tensor != nullptr && tensor->shape == match.stored.shape;
    matches->push_back(match);
  }
  return Status();
}

// The file's weights that no weight of the model took.
std::vector<std::string> Unexpected(const WeightsFile& file,
                                    const std::vector<Match>& matches) {
  std::set<const StoredTensor*> taken;
  for (const Match& match : matches) {
    taken.insert(match.stored.tensor);
  }
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) {
    if (taken.count(&tensor) != 0) continue;
    if (StartsWith(tensor.name, kWeightsPrefix) || !file.is_ringlets()) {
      names.push_back(WithoutPrefix(tensor.name, kWeightsPrefix));
    }
  }
  return names;
}

// The matches to load, and the report but for `loaded` and `verified`.
std::vector<Match> Compare(const WeightsFile& file,
                           const std::vector<Match>& matches,
                           WeightsReport* report) {
  report->unexpected = Unexpected(file, matches);
  std::set<std::string> left;  // layers
  for (const Match& match : matches) {
    if (match.fits) continue;
    left.insert(LayerOf(*match.variable));
    if (match.stored.tensor == nullptr) {
      report->missing.push_back(match.variable->path);
    } else {
      report->mismatched.push_back(Describe(match));
    }
  }
  std::vector<Match> fitting;
  for (const Match& match : matches) {
    if (!match.fits) continue;
    if (left.count(LayerOf(*match.variable)) == 0) {
      fitting.push_back(match);
    } else {
      report->skipped.push_back(match.variable->path);
    }
  }
  return fitting;
}

// "'a', 'b', 'c' and 4 more"
std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMost; ++i) {
    text += (i > 0 ? ", '" : "'") + Printable(names[i]) + "'";
  }
  if (names.size() <= kMost) return text;
  return text + " and " + std::to_string(names.size() - kMost) + " more";
}

std::string Differences(const WeightsReport& report) {
  std::string text;
  const auto add = [&text](const char* what,
                           const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + (what + Listed(names));
  };
  add("differing ", report.mismatched);
  add("missing in the file ", report.missing);
  add("in the file only ", report.unexpected);
  return text;
}

bool IsTorchs(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return EndsWith(name, ".weight");
  });
}

Status CheckReport(const std::string& path, const LoadWeightsOptions& options,
                   const WeightsReport& report) {
  const bool others = options.by_name || options.skip_mismatch;
  WeightsReport bad;
  if (!options.skip_mismatch) bad.mismatched = report.mismatched;
  if (!others) bad.unexpected = report.unexpected;
  // A layer of which only a part is there is one that differs.
  if (!others || (!options.skip_mismatch && !report.skipped.empty())) {
    bad.missing = report.missing;
  }
  const std::string text = Differences(bad);
  if (text.empty()) return Status();
  const char* advice =
      "by_name (--by-name) takes the layers that both have, skip_mismatch "
      "(--skip-mismatch) passes over those that differ";
  if (options.layout == WeightsLayout::kTorch) {
    advice =
        "Give the layers the modules' names; or save with numpy.savez, which "
        "keeps their order";
  } else if (IsTorchs(report.unexpected)) {
    advice =
        "These are PyTorch's names: ask for its layout (--init-layout torch, "
        "WeightsLayout::kTorch)";
  }
  return InvalidArgument("%s: the weights are not this model's: %s. %s",
                         path.c_str(), text.c_str(), advice);
}

// The elements as float32.
Status ReadFloats(const WeightsFile& file, const StoredTensor& tensor,
                  std::vector<float>* floats) {
  const size_t count = static_cast<size_t>(tensor.shape.elements());
  floats->resize(count);
  const DType dtype = DTypeOf(tensor.storage);
  if (dtype == DType::kFloat32) return file.Read(tensor, floats->data());
  std::vector<unsigned char> elements(count * SizeOf(dtype));
  RINGLET_RETURN_IF_ERROR(file.Read(tensor, elements.data()));
  bool fit = true;
  WithType(dtype, [&](auto* type) {
    std::remove_const_t<std::remove_pointer_t<decltype(type)>> value;
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
      const double wide = static_cast<double>(value);
      const bool fits = !std::isfinite(wide) || std::fabs(wide) <= FLT_MAX;
      fit = fit && fits;
      (*floats)[i] = fits ? static_cast<float>(value) : 0;
    }
  });
  if (fit) return Status();
  return InvalidArgument("%s: '%s': holds a number beyond float32",
                         file.path().c_str(), Printable(tensor.name).c_str());
}

// Whether all that is not float32 can be made so, before anything is.
Status CheckFloats(const WeightsFile& file, const std::vector<Match>& matches) {
  std::vector<float> floats;
  for (const Match& match : matches) {
    const StoredTensor& tensor = *match.stored.tensor;
    if (DTypeOf(tensor.storage) == DType::kFloat32) continue;
    RINGLET_RETURN_IF_ERROR(ReadFloats(file, tensor, &floats));
  }
  return Status();
}

Status ReadWeights(const WeightsFile& file, const std::vector<Match>& matches,
                   float* weights, WeightsReport* report) {
  std::vector<float> stored;
  for (const Match& match : matches) {
    float* weight = weights + match.variable->offset;
    RINGLET_RETURN_IF_ERROR(
        ReadFloats(file, *match.stored.tensor, &stored)
            .Annotate("the weights in memory are now partly overwritten and "
                      "must not be used"));
    FromTorch(match.stored, stored.data(), weight);
    report->loaded.push_back(match.variable->path);
  }
  return Status();
}

void Warn(const LoadWeightsOptions& options, const std::string& message) {
  if (options.warn) {
    options.warn(message);
  } else {
    Notice("warning: %s", message.c_str());
  }
}

}  // namespace

Status CheckSaveModel(const Model& model, bool include_optimizer) {
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    if (layer.custom == nullptr) continue;
    return InvalidArgument(
        "layer '%s' is a %s of the program's own, which no file can build "
        "again; save the weights (SaveWeights, save_weights_only) and load "
        "them into a model that the program builds",
        layer.name.c_str(), ClassName(layer));
  }
  const char* own =
      model.loss().custom != nullptr ? model.loss().class_name() : nullptr;
  for (const Metric& metric : model.metrics()) {
    if (own == nullptr && metric.custom != nullptr) own = metric.name.c_str();
  }
  if (!include_optimizer || own == nullptr) return Status();
  return InvalidArgument(
      "%s is a loss or metric of the program's own, with which no file can "
      "compile; save the weights (SaveWeights, save_weights_only), or the "
      "model "
      "without its optimizer (include_optimizer), and compile what is loaded",
      own);
}

Status SaveModel(Model* model, const std::string& path,
                 const SaveModelOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(CheckSaveModel(*model, options.include_optimizer)
                              .Annotate("%s", path.c_str()));
  Metadata metadata = options.metadata;
  metadata.erase(kCompileKey);
  metadata[kModelKey] = ToJson(*model);
  metadata[kSeedKey] = std::to_string(model->seed());
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

Status CheckModelName(const std::string& path) {
  constexpr const char* kOthers[] = {
      ".keras", ".h5",     ".hdf5", ".pt",   ".pth", ".ckpt", ".onnx",
      ".pb",    ".tflite", ".npz",  ".npy",  ".pkl", ".bin",  ".gguf",
      ".mat",   ".zip",    ".gz",   ".json", ".csv"};
  const std::string name = FileNameOf(path);
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return Status();
  std::string extension = name.substr(dot);
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const char* other : kOthers) {
    if (extension != other) continue;
    return InvalidArgument(
        "The filepath provided must end in `.safetensors`, the format of the "
        "file; `%s` is another program's. Received: filepath=%s",
        other, path.c_str());
  }
  return Status();
}

Status LoadModel(const std::string& path, std::unique_ptr<Model>* model,
                 const CompileOptions& options, FileSystem* files) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(OtherKind(
      files, path, {FileKind::Format::kSafetensors}, file.Open(files, path)));
  const Metadata& metadata = file.metadata();
  const auto configuration = metadata.find(kModelKey);
  if (configuration == metadata.end()) {
    return InvalidArgument(
        "%s: holds weights, but no model's configuration; name them beside the "
        "model: RUN.json --init %s (in C++ LoadWeights)",
        path.c_str(), path.c_str());
  }
  std::unique_ptr<Model> made;
  RINGLET_RETURN_IF_ERROR(
      ModelFromJson(configuration->second, &made)
          .Annotate("%s: metadata '%s'", path.c_str(), kModelKey));
  RINGLET_RETURN_IF_ERROR(CheckSizes(file, *made));
  RINGLET_RETURN_IF_ERROR(
      metadata.count(kCompileKey) == 0
          ? RestoreUncompiled(path, files, made.get())
          : RestoreCompiled(path, metadata, options, files, made.get()));
  *model = std::move(made);
  return Status();
}

Status SaveWeights(Model* model, const std::string& path,
                   const SaveOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  return SaveCheckpoint(path, {model->weights_state()}, {}, options);
}

Status LoadWeights(Model* model, const std::string& path,
                   const LoadWeightsOptions& options, WeightsReport* report) {
  WeightsReport own;
  if (report == nullptr) report = &own;
  *report = WeightsReport();
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  WeightsFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(options.files, path));
  std::vector<Match> matches;
  RINGLET_RETURN_IF_ERROR(MatchWeights(file, *model, options, &matches));
  const std::vector<Match> fitting = Compare(file, matches, report);
  RINGLET_RETURN_IF_ERROR(CheckReport(path, options, *report));
  if (file.verifiable()) RINGLET_RETURN_IF_ERROR(file.Verify());
  RINGLET_RETURN_IF_ERROR(CheckFloats(file, fitting));
  RINGLET_RETURN_IF_ERROR(ReadWeights(file, fitting, model->weights(), report));
  report->verified = file.verifiable();
  if (!report->verified) {
    Warn(options, path +
                      ": a file without checksums; its weights are not "
                      "verified");
  }
  const std::string passed_over = Differences(*report);
  if (!passed_over.empty()) {
    Warn(options, path + ": passed over: " + passed_over);
  }
  return Status();
}

}  // namespace ringlet
