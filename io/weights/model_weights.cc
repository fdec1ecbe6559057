// Loads weights by name from files of ringlet, Keras and PyTorch. Each weight
// of the model is matched with a tensor of the file, and all matches are
// checked before the first weight is overwritten.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <type_traits>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/fnv1a.h"
#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/data/element_types.h"
#include "../../core/layers/basic/lora.h"
#include "../../core/model/normalizations.h"
#include "keras_layout.h"
#include "lora_alphas.h"
#include "model_metadata.h"
#include "normalizations.h"
#include "ringlet/checkpoint.h"
#include "ringlet/status.h"
#include "torch_layout.h"
#include "weights_file.h"

namespace ringlet {
namespace {

// The file's tensor for one weight of the model.
struct Match {
  const Variable* variable;
  TorchWeight stored;  // of a file in Keras's layout as it is here
  bool fits = false;
  std::string difference;  // if not one of types and shapes
};

// False for a frozen weight, and for a matrix under LoRA.
bool TrainingChanges(const Variable& v) {
  return v.trained() || v.change_offset >= 0;
}

// A digest of the weights that training does not change.
std::string DigestOfFrozen(Model* model) {
  Fnv1a digest;
  for (const Variable& v : model->variables()) {
    if (TrainingChanges(v)) continue;
    digest.Add(v.path.data(), v.path.size());
    for (int64_t i = 0; i < v.size(); ++i) {
      unsigned char bytes[4];
      uint32_t bits;
      std::memcpy(&bits, model->weights() + v.offset + i, sizeof(bits));
      StoreLittle(bits, bytes);
      digest.Add(bytes, sizeof(bytes));
    }
  }
  return HexText(digest.value());
}

// The weights that training changes.
class TrainableWeights final : public Saveable {
 public:
  explicit TrainableWeights(Model* model) : model_(*model) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    std::set<std::string> names;
    for (const Variable& v : model_.variables()) {
      if (TrainingChanges(v)) names.insert(kWeightsPrefix + v.path);
    }
    std::vector<StateSpan> all;
    model_.weights_state()->AppendState(&all);
    for (const StateSpan& span : all) {
      if (names.count(span.name) > 0) spans->push_back(span);
    }
  }

 private:
  Model& model_;
};

std::string LayerOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string LayerOf(const Variable& variable) { return LayerOf(variable.path); }

// The start of Match::difference if the alphas of a LoRA matrix differ.
constexpr char kOtherAlpha[] = "lora_alpha ";

std::string DescribeMatch(const Match& match) {
  if (!match.difference.empty()) {
    return match.variable->path + ": " + match.difference;
  }
  const StoredTensor& tensor = *match.stored.tensor;
  const bool renamed = tensor.name != match.variable->path &&
                       tensor.name != kWeightsPrefix + match.variable->path;
  std::string found = StorageName(tensor.storage);
  if (!tensor.unread.empty()) found = tensor.unread;
  if (tensor.unread.empty() || tensor.shape.rank() > 0) {
    found += " " + tensor.shape.ToString();
  }
  return match.variable->path + ": " + found + " in the file" +
         (renamed ? " (" + tensor.name + ")" : "") + ", F32 " +
         match.stored.shape.ToString() +
         (match.stored.shape != match.variable->shape ? " expected" : " here");
}

// An ONNX model's weights have PyTorch's layout.
WeightsLayout LayoutOf(const WeightsFile& file,
                       const LoadWeightsOptions& options) {
  return file.is_onnx() ? WeightsLayout::kTorch : options.layout;
}

Status MatchWeights(const WeightsFile& file, const Model& model,
                    const LoadWeightsOptions& options,
                    std::vector<Match>* matches) {
  std::vector<TorchWeight> weights;
  if (LayoutOf(file, options) == WeightsLayout::kTorch) {
    RINGLET_RETURN_IF_ERROR(FindTorchWeights(
        file, model, /*names_only=*/options.by_name, &weights));
  } else {
    std::vector<const StoredTensor*> tensors;
    RINGLET_RETURN_IF_ERROR(FindKerasWeights(
        file, model, options.by_name || options.skip_mismatch, &tensors));
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
    match.fits = tensor != nullptr && tensor->unread.empty() &&
                 tensor->shape == match.stored.shape;
    matches->push_back(match);
  }
  return Status();
}

// Under another alpha the matrices of LoRA do not fit. A file of an earlier
// version may have no alphas.
Status CompareLoraAlphas(const WeightsFile& file, const Model& model,
                         std::vector<Match>* matches) {
  const LoraAlphas alphas = CollectLoraAlphas(model);
  if (alphas.empty()) return Status();
  LoraAlphas stored_alphas;
  RINGLET_RETURN_IF_ERROR(ReadLoraAlphas(file.metadata(), &stored_alphas)
                              .Annotate("%s", file.path().c_str()));
  for (Match& match : *matches) {
    const std::string& path = match.variable->path;
    if (!match.fits || !IsLoraMatrix(path)) continue;
    const auto saved = stored_alphas.find(
        LayerOf(WithoutPrefix(match.stored.tensor->name, kWeightsPrefix)));
    const auto current = alphas.find(LayerOf(path));
    if (saved == stored_alphas.end() || current == alphas.end()) continue;
    if (saved->second == current->second) continue;
    match.fits = false;
    match.difference = kOtherAlpha + std::to_string(saved->second) +
                       " in the file, " + std::to_string(current->second) +
                       " here";
  }
  return Status();
}

// Returns the file's tensors that match no weight of the model.
std::vector<std::string> FindUnexpected(const WeightsFile& file,
                                        WeightsLayout layout,
                                        const std::vector<Match>& matches,
                                        const Model& model) {
  std::set<const StoredTensor*> used;
  for (const StoredNormalization& stored : FindNormalizations(file, model)) {
    used.insert({stored.mean, stored.variance, stored.count});
  }
  for (const Match& match : matches) {
    used.insert({match.stored.tensor, match.stored.second});
  }
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) {
    if (used.count(&tensor) != 0 || file.is_identity(tensor)) continue;
    // PyTorch also stores a count of batches, which it needs only without
    // momentum.
    if (layout == WeightsLayout::kTorch &&
        EndsWith(tensor.name, ".num_batches_tracked")) {
      continue;
    }
    if (StartsWith(tensor.name, kWeightsPrefix) || !file.is_from_ringlet()) {
      names.push_back(WithoutPrefix(tensor.name, kWeightsPrefix));
    }
  }
  return names;
}

// The layers with LoRA of which the file has weights, and none of LoRA.
std::set<std::string> WithoutLora(const std::vector<Match>& matches) {
  std::set<std::string> layers, with, without;
  for (const Match& match : matches) {
    const bool is_lora = IsLoraMatrix(match.variable->path);
    const std::string layer = LayerOf(*match.variable);
    if (is_lora) layers.insert(layer);
    if (match.stored.tensor == nullptr) continue;
    (is_lora ? with : without).insert(layer);
  }
  std::set<std::string> found;
  for (const std::string& layer : layers) {
    if (without.count(layer) > with.count(layer)) found.insert(layer);
  }
  return found;
}

// The matches to load, and the report but for `loaded` and `verified`.
std::vector<Match> Compare(const WeightsFile& file, WeightsLayout layout,
                           const std::vector<Match>& matches,
                           const Model& model, bool partial_layers,
                           WeightsReport* report) {
  report->unexpected = FindUnexpected(file, layout, matches, model);
  const bool trainable_only = file.metadata().count(kTrainableOnlyKey) > 0;
  const std::set<std::string> without_lora =
      partial_layers ? std::set<std::string>() : WithoutLora(matches);
  const auto keeps_lora = [&without_lora](const Variable& v) {
    return IsLoraMatrix(v.path) && without_lora.count(LayerOf(v)) > 0;
  };
  std::set<std::string> left;  // layers
  for (const Match& match : matches) {
    const Variable& v = *match.variable;
    if (match.fits || keeps_lora(v)) continue;
    const bool missing = match.stored.tensor == nullptr;
    if (missing && partial_layers) continue;
    if (trainable_only && missing && !TrainingChanges(v)) continue;
    left.insert(LayerOf(v));
    if (missing) {
      report->missing.push_back(v.path);
    } else {
      report->mismatched.push_back(DescribeMatch(match));
    }
  }
  std::vector<Match> fitting;
  for (const Match& match : matches) {
    const Variable& v = *match.variable;
    const bool is_complete = left.count(LayerOf(v)) == 0;
    if (match.fits && is_complete) fitting.push_back(match);
    if (match.fits && !is_complete) report->skipped.push_back(v.path);
    if (is_complete && keeps_lora(v)) report->lora.push_back(v.path);
  }
  return fitting;
}

// "'a', 'b', 'c' and 4 more"
std::string ListOfNames(const std::vector<std::string>& names) {
  constexpr size_t kMax = 3;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMax; ++i) {
    text += (i > 0 ? ", '" : "'") + Printable(names[i]) + "'";
  }
  if (names.size() <= kMax) return text;
  return text + " and " + std::to_string(names.size() - kMax) + " more";
}

std::string DescribeDifferences(const WeightsReport& report) {
  std::string text;
  const auto add = [&text](const char* heading,
                           const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + (heading + ListOfNames(names));
  };
  add("differing ", report.mismatched);
  add("missing in the file ", report.missing);
  add("in the file only ", report.unexpected);
  return text;
}

bool AreTorchNames(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return EndsWith(name, ".weight");
  });
}

bool HasOtherAlphas(const std::vector<std::string>& mismatched) {
  const std::string part = std::string(": ") + kOtherAlpha;
  return std::any_of(mismatched.begin(), mismatched.end(),
                     [&part](const std::string& difference) {
                       return difference.find(part) != std::string::npos;
                     });
}

// `none` is true if no weight is loaded.
Status CheckReport(const WeightsFile& file, const LoadWeightsOptions& options,
                   bool none, const WeightsReport& report) {
  const bool others = !none && (options.by_name || options.skip_mismatch);
  WeightsReport bad;
  if (none || !options.skip_mismatch) bad.mismatched = report.mismatched;
  if (!others) bad.unexpected = report.unexpected;
  // A layer with only a part of its weights in the file counts as different.
  if (!others || (!options.skip_mismatch && !report.skipped.empty())) {
    bad.missing = report.missing;
  }
  const std::string text = DescribeDifferences(bad);
  if (text.empty()) return Status();
  const char* advice =
      "by_name (--by-name) takes the layers that both have, skip_mismatch "
      "(--skip-mismatch) skips those that differ";
  if (HasOtherAlphas(report.mismatched)) {
    advice =
        "With another alpha the matrices of LoRA are another function: give "
        "the layers the lora_alpha of the file, or \"lora\" that alpha";
  } else if (none && options.skip_mismatch) {
    advice = "skip_mismatch (--skip-mismatch) needs layers that fit";
  } else if (none && options.by_name) {
    advice = "by_name (--by-name) needs layers of the same names";
  } else if (file.is_onnx()) {
    advice =
        "Layers are matched by their names, or in order; torch.onnx.export "
        "keeps a BatchNormalization with training=TrainingMode.PRESERVE";
  } else if (options.layout == WeightsLayout::kTorch) {
    advice =
        "Give the layers the modules' names; or save model.state_dict() as it "
        "is with numpy.savez, which keeps their order";
  } else if (AreTorchNames(report.unexpected)) {
    advice =
        "These are PyTorch's names: give its layout (--init-layout torch, "
        "WeightsLayout::kTorch)";
  }
  return InvalidArgument("%s: the weights are not this model's: %s. %s",
                         file.path().c_str(), text.c_str(), advice);
}

// Reads the elements as float32.
Status ReadFloats(const WeightsFile& file, const StoredTensor& tensor,
                  std::vector<float>* floats) {
  RINGLET_RETURN_IF_ERROR(CheckAddressable(file.path(), tensor));
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

// Checks that all other types can be converted, before a weight is overwritten.
Status CheckFloats(const WeightsFile& file, const std::vector<Match>& matches) {
  std::vector<float> floats;
  for (const Match& match : matches) {
    for (const StoredTensor* tensor :
         {match.stored.tensor, match.stored.second}) {
      if (tensor == nullptr) continue;
      if (DTypeOf(tensor->storage) == DType::kFloat32) continue;
      RINGLET_RETURN_IF_ERROR(ReadFloats(file, *tensor, &floats));
    }
  }
  return Status();
}

// Reads PyTorch's second bias, and adds it to the first or appends it.
Status ReadSecond(const WeightsFile& file, const TorchWeight& stored,
                  float* weight) {
  if (stored.second == nullptr) return Status();
  std::vector<float> floats, second;
  RINGLET_RETURN_IF_ERROR(ReadFloats(file, *stored.second, &floats));
  second.resize(floats.size());
  FromTorch(stored, floats.data(), second.data());
  for (size_t i = 0; i < second.size(); ++i) {
    if (stored.second_follows) {
      weight[second.size() + i] = second[i];
    } else {
      weight[i] += second[i];
    }
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
    RINGLET_RETURN_IF_ERROR(ReadSecond(file, match.stored, weight));
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

// Sets the B among these matrices to zeros. The layers then compute as in the
// file, which has no LoRA.
void ClearLora(const LoadWeightsOptions& options, const std::string& path,
               const std::vector<std::string>& lora, Model* model) {
  std::vector<std::string> cleared;
  for (const Variable& v : model->variables()) {
    if (!EndsWith(v.path, "_b")) continue;
    if (std::find(lora.begin(), lora.end(), v.path) == lora.end()) continue;
    float* const begin = model->weights() + v.offset;
    const auto is_zero = [](float value) { return value == 0; };
    if (std::all_of(begin, begin + v.size(), is_zero)) continue;
    std::fill_n(begin, v.size(), 0.0f);
    cleared.push_back(v.path);
  }
  if (cleared.empty()) return;
  Warn(options, path + ": has no weights of LoRA; set to zeros: " +
                    ListOfNames(cleared) +
                    ", so that the layers compute as in the file");
}

// Reads the statistics of the file that the model takes. All fit.
Status ReadNormalizations(const WeightsFile& file,
                          const LoadWeightsOptions& options, const Model& model,
                          std::vector<LayerStatistics>* found) {
  // An exported file has them in its metadata too.
  if (file.is_from_ringlet() || file.metadata().count(kNormalizationsKey) > 0) {
    std::function<void(const std::string&)> skip;
    if (options.skip_mismatch) {
      skip = [&options](const std::string& message) { Warn(options, message); };
    }
    return FindStatistics(file.metadata(), file.path(), skip, model, found);
  }
  for (const StoredNormalization& stored : FindNormalizations(file, model)) {
    std::vector<float> mean, variance;
    RINGLET_RETURN_IF_ERROR(ReadFloats(file, *stored.mean, &mean));
    RINGLET_RETURN_IF_ERROR(ReadFloats(file, *stored.variance, &variance));
    RINGLET_RETURN_IF_ERROR(
        CheckNormalization(stored.layer, mean, variance, model)
            .Annotate("%s", file.path().c_str()));
    found->push_back({stored.layer, std::move(mean), std::move(variance)});
  }
  return Status();
}

// Warns of each skipped weight, of at most kMax of a kind, and of their
// numbers.
void WarnOfDifferences(const LoadWeightsOptions& options,
                       const std::string& path, size_t weights,
                       const WeightsReport& report) {
  constexpr size_t kMax = 10;  // lines of a kind
  std::string counts;
  const auto add = [&](const std::vector<std::string>& names,
                       const char* suffix, const char* counted) {
    for (size_t i = 0; i < names.size() && i < kMax; ++i) {
      Warn(options, path + ": skipped: " + Printable(names[i]) + suffix);
    }
    if (names.empty()) return;
    counts += ", " + std::to_string(names.size()) + counted;
  };
  add(report.mismatched, "", " differ");
  add(report.missing, ": missing in the file", " missing in the file");
  add(report.skipped, ": another weight of the layer does not fit",
      " of layers that do not fit");
  add(report.unexpected, ": in the file only", " in the file only");
  if (counts.empty()) return;
  Warn(options, path + ": " + std::to_string(report.loaded.size()) + " of " +
                    std::to_string(weights) + " weights are taken" + counts);
}

}  // namespace

Status CheckCompiled(const Model* model) {
  RINGLET_RETURN_IF_ERROR(model->status());
  if (model->compiled()) return Status();
  return InvalidArgument("model '%s' has no weights yet: call Compile first",
                         model->name().c_str());
}

std::string NonFiniteWeightsWarning(const std::string& path,
                                    const std::vector<Variable>& variables,
                                    const float* weights) {
  std::vector<std::string> names;
  for (const Variable& v : variables) {
    const float* const begin = weights + v.offset;
    const bool finite = std::all_of(begin, begin + v.size(), [](float value) {
      return std::isfinite(value);
    });
    if (!finite) names.push_back(v.path);
  }
  if (names.empty()) return "";
  return path + ": NaN or infinite numbers in " + ListOfNames(names) +
         ", and so in all that is computed of them";
}

Status SaveWeights(Model* model, const std::string& path,
                   const SaveOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  Metadata metadata;
  const std::string normalizations = NormalizationsToJson(*model);
  if (!normalizations.empty()) metadata[kNormalizationsKey] = normalizations;
  AddLoraAlphas(CollectLoraAlphas(*model), &metadata);
  PrintNormalizationsLeftOut(*model, path.c_str());
  TrainableWeights trainable(model);
  Saveable* state = model->weights_state();
  if (options.trainable_only) {
    metadata[kTrainableOnlyKey] = DigestOfFrozen(model);
    state = &trainable;
  }
  return SaveCheckpoint(path, {state}, metadata, options);
}

Status LoadWeights(Model* model, const std::string& path,
                   const LoadWeightsOptions& options, WeightsReport* report) {
  WeightsReport local_report;
  if (report == nullptr) report = &local_report;
  *report = WeightsReport();
  RINGLET_RETURN_IF_ERROR(CheckCompiled(model).Annotate("%s", path.c_str()));
  WeightsFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(options.files, path));
  std::vector<Match> matches;
  RINGLET_RETURN_IF_ERROR(MatchWeights(file, *model, options, &matches));
  RINGLET_RETURN_IF_ERROR(CompareLoraAlphas(file, *model, &matches));
  const bool partial_layers =
      options.partial_layers && file.metadata().count(kModelKey) == 0;
  const std::vector<Match> fitting = Compare(
      file, LayoutOf(file, options), matches, *model, partial_layers, report);
  RINGLET_RETURN_IF_ERROR(CheckReport(file, options, fitting.empty(), *report));
  if (file.verifiable()) RINGLET_RETURN_IF_ERROR(file.Verify());
  RINGLET_RETURN_IF_ERROR(CheckFloats(file, fitting));
  std::vector<LayerStatistics> statistics;
  RINGLET_RETURN_IF_ERROR(
      ReadNormalizations(file, options, *model, &statistics));
  RINGLET_RETURN_IF_ERROR(ReadWeights(file, fitting, model->weights(), report));
  for (const LayerStatistics& layer_statistics : statistics) {
    RINGLET_RETURN_IF_ERROR(SetNormalization(layer_statistics.layer,
                                             layer_statistics.mean,
                                             layer_statistics.variance, model));
  }
  ClearLora(options, path, report->lora, model);
  const auto frozen = file.metadata().find(kTrainableOnlyKey);
  if (frozen != file.metadata().end() &&
      frozen->second != DigestOfFrozen(model)) {
    Warn(options,
         path +
             ": was trained with other frozen weights than the model has; load "
             "those first");
  }
  report->verified = file.verifiable();
  if (!report->verified) {
    Warn(options, path +
                      ": a file without checksums; its weights are not "
                      "verified");
  }
  const std::string bad =
      NonFiniteWeightsWarning(path, model->variables(), model->weights());
  if (!bad.empty()) Warn(options, bad);
  WarnOfDifferences(options, path, model->variables().size(), *report);
  return Status();
}

}  // namespace ringlet
