// Makes a Fingerprint of the settings that must be equal on all ranks before
// the first step: data, class weights, epochs and the callbacks. Each setting
// that changes the numbers of a run must be here or in
// ReplicaConsistency::MakeFingerprint. A field of the local data, such as
// learned categories, is compared by its content, since each rank reads its own
// files.

#include "fit_plan.h"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/byte_order.h"
#include "../base/crc32c.h"
#include "../base/fnv1a.h"
#include "../base/number_text.h"
#include "../data/content_checksum.h"
#include "../data/dataset_parts.h"
#include "../exchange/participation.h"
#include "../layers/layer_kind.h"
#include "evaluation.h"

namespace ringlet {

Status FitPlan::Check() const {
  RINGLET_RETURN_IF_ERROR(model_.status());
  if (!model_.compiled()) return InvalidArgument("Fit: call Compile first");
  RINGLET_RETURN_IF_ERROR(dataset_.status());
  RINGLET_RETURN_IF_ERROR(
      CheckSampled(model_.local_updates(), model_.num_replicas()));
  const size_t num_workers = dataset_.parts().own_example_counts.size();
  if (num_workers > 0 &&
      num_workers != static_cast<size_t>(model_.num_replicas())) {
    return InvalidArgument(
        "%s: the own examples of %zu workers for %d replica%s; give a number "
        "for each",
        dataset_.source()->name().c_str(), num_workers, model_.num_replicas(),
        model_.num_replicas() == 1 ? "" : "s");
  }
  if (options_.epochs < 0 || options_.initial_epoch < 0) {
    return InvalidArgument("epochs and initial_epoch must be >= 0, not %" PRId64
                           " and %" PRId64,
                           options_.epochs, options_.initial_epoch);
  }
  if (options_.validation_freq < 1) {
    return InvalidArgument("validation_freq must be at least 1, not %" PRId64,
                           options_.validation_freq);
  }
  if (options_.check_replicas_every < kCheckByTime) {
    return InvalidArgument(
        "check_replicas_every must be a number of steps, 0 or kCheckByTime");
  }
  RINGLET_RETURN_IF_ERROR(
      CheckEndless(dataset_, options_.steps_per_epoch, "steps_per_epoch"));
  if (!validates()) return Status();
  const Dataset& validation = options_.validation_data;
  RINGLET_RETURN_IF_ERROR(validation.status().Annotate("validation_data"));
  return CheckEndless(validation, options_.validation_steps,
                      "validation_steps");
}

namespace {

Status TryData(const Dataset& dataset, const ClassWeights& class_weight,
               Model* model) {
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.class_weight = class_weight;
  loading.background = false;
  return model->OpenLoader(dataset, loading, &loader);
}

// Returns the checksum of the sample weights as little-endian numbers; 0
// without them.
uint64_t ChecksumOf(const Dataset& dataset) {
  if (dataset.parts().weights == nullptr) return 0;
  std::vector<float> weights = *dataset.parts().weights;
  const size_t bytes = weights.size() * sizeof(float);
  SwapToLittle(weights.data(), sizeof(float), weights.size());
  return static_cast<uint64_t>(dataset.parts().weights_per_example) << 32 |
         Crc32c(weights.data(), bytes);
}

std::string TextOf(const ClassWeights& class_weight) {
  std::string text;
  for (const auto& [number, weight] : class_weight) {
    text += (text.empty() ? "" : ", ") + std::to_string(number) + ": " +
            ShortestText(weight);
  }
  return text;
}

// `kind` is "classes" or "columns". The position of a name in the worker's own
// file gives a class its number, and a value its place.
void AddNames(const std::string& kind, const std::vector<std::string>& names,
              const std::string& suffix, bool learned_by_worker,
              Fingerprint* f) {
  constexpr size_t kMaxShown = 1000;  // bytes
  std::string text;
  Fnv1a all;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
    all.Add(name);
  }
  f->Add("the names of the " + kind + suffix,
         text.empty() ? "none" : text.substr(0, kMaxShown));
  if (learned_by_worker) {
    f->Advise("the names of the " + kind + suffix,
              "each worker learns them from its own examples; begin with a "
              "saved model that has them, or use numbers");
  }
  f->AddChecksum("names of the " + kind + suffix, all.value());
}

// Adds the means and variances, which a rank has adapted to the data that it
// reads.
void AddNormalizations(const Model& model, Fingerprint* f) {
  for (int i = 0; i < model.num_nodes(); ++i) {
    const Layer& layer = model.layer(i);
    if (layer.kind != Layer::Kind::kNormalization) continue;
    uint32_t crc = 0;
    for (const std::vector<float>* numbers : {&layer.means, &layer.variances}) {
      std::vector<float> little = *numbers;
      SwapToLittle(little.data(), sizeof(float), little.size());
      crc = Crc32c(little.data(), little.size() * sizeof(float), crc);
    }
    f->AddChecksum("mean and variance of layer '" + layer.name + "'", crc);
  }
}

// Returns the categories and means that a rank has learned from its table.
std::vector<std::string> TextsOf(const TableEncoding& encoding) {
  std::vector<std::string> texts;
  for (const auto& [place, column] : encoding.columns) {
    texts.push_back("column " + std::to_string(place));
    texts.insert(texts.end(), column.categories.begin(),
                 column.categories.end());
    if (column.fill) texts.push_back(ShortestText(*column.fill));
  }
  return texts;
}

// `suffix` tells the fields of the validation from the fields of the training.
void AddDataset(const Dataset& dataset, const std::optional<uint64_t>& content,
                const char* suffix, Fingerprint* f) {
  const auto add = [&](const char* name, const auto& value) {
    f->Add(std::string(name) + suffix, value);
  };
  std::string counts;
  for (const int64_t count : dataset.parts().own_example_counts) {
    counts += std::to_string(count) + " ";
  }
  add("the workers' own examples", counts);
  if (counts.empty()) add("the number of examples", dataset.size());
  add("the first example", dataset.parts().first);
  add("the stride of examples", dataset.parts().stride);
  add("the batch size", dataset.batch_size());
  add("drop_remainder", int64_t{dataset.parts().drop_remainder});
  add("the number of passes", dataset.parts().passes);
  add("batches across passes", int64_t{dataset.parts().batches_cross_passes});
  add("the shuffle's seed", dataset.parts().shuffle_seed());
  // The order of the shuffle depends on it.
  add("the memory of the examples", dataset.parts().memory);
  add("the sharding policy", static_cast<int64_t>(dataset.parts().policy));
  add("the scale's factor", dataset.scale().factor);
  add("the scale's offset", dataset.scale().offset);
  const DataDescription data = dataset.source()->Description();
  if (const std::optional<ImageResizing>& resizing = data.resizing) {
    add("the pictures' interpolation",
        static_cast<int64_t>(resizing->interpolation));
    add("crop_to_aspect_ratio", int64_t{resizing->crop_to_aspect_ratio});
  }
  if (data.sampling_rate > 0) add("the sampling rate", data.sampling_rate);
  const std::optional<TextVectorization>& text = data.text;
  const std::pair<const char*, std::vector<std::string>> all[] = {
      {"classes", data.classes},
      {"columns", ValueNames(data.columns)},
      {"categories and means", TextsOf(data.encoding)},
      {"tokens", text ? text->vocabulary : std::vector<std::string>()}};
  for (const auto& [kind, names] : all) {
    AddNames(kind, names, suffix, !counts.empty(), f);
  }
  if (!counts.empty()) return;  // other ranks do not have its weights either
  f->AddChecksum(std::string("sizes of the files") + suffix,
                 static_cast<uint64_t>(dataset.parts().FilesChecksum()));
  f->AddChecksum(std::string("sample weights") + suffix, ChecksumOf(dataset));
  f->AddChecksum(std::string("examples") + suffix, content.value_or(0));
}

void AddValidation(const FitOptions& options,
                   const std::optional<uint64_t>& content, Fingerprint* f) {
  if (options.validation_data.empty()) {
    f->Add("validation", "none");
    return;
  }
  AddDataset(options.validation_data, content, " of the validation data", f);
  f->Add("validation_steps", options.validation_steps);
  f->Add("validation_freq", options.validation_freq);
  std::string epochs;
  for (const int64_t epoch : options.validation_epochs) {
    epochs += (epochs.empty() ? "" : " ") + std::to_string(epoch);
  }
  f->Add("validation_epochs", epochs);
}

}  // namespace

// With kFile and kOff the workers may have different examples.
void FitPlan::ReadContent(const Dataset& dataset,
                          std::optional<uint64_t>* content) {
  const bool may_differ =
      dataset.parts().HasReplicaStreams(model_.num_replicas()) ||
      dataset.parts().policy == AutoShardPolicy::kOff ||
      !dataset.parts().own_example_counts.empty();
  if (content->has_value() || may_differ || model_.collective()->size() == 1)
    return;
  *content = ContentChecksum(dataset);
}

Status FitPlan::ReserveAndProbe(Model* model) {
  const int replicas = model_.num_replicas();
  RINGLET_RETURN_IF_ERROR(dataset_.parts().CheckStart({}, replicas));
  int64_t largest = dataset_.parts().LargestPart(replicas);
  if (validates()) {
    largest = std::max(largest,
                       options_.validation_data.parts().LargestPart(replicas));
  }
  RINGLET_RETURN_IF_ERROR(model->Reserve(largest, /*training=*/true));
  RINGLET_RETURN_IF_ERROR(TryData(dataset_, options_.class_weight, model));
  ReadContent(dataset_, &content_);
  if (!validates()) return Status();
  const Dataset& validation = options_.validation_data;
  RINGLET_RETURN_IF_ERROR(
      TryData(validation, {}, model).Annotate("validation_data"));
  ReadContent(validation, &validation_content_);
  return Status();
}

Status FitPlan::Agree(const JoiningMembers& joining) const {
  Fingerprint f;
  const Collective& collective = *model_.collective();
  f.Add(collective.elastic() ? "the number of this fit of the model (workers "
                               "are taken back in the first)"
                             : "the number of this fit of the model",
        number_);
  AddDataset(dataset_, content_, "", &f);
  AddNormalizations(model_, &f);
  f.Add("class_weight", TextOf(options_.class_weight));
  f.Add("epochs", options_.epochs);
  f.Add("initial_epoch", options_.initial_epoch);
  f.Add("steps_per_epoch", StepsPerEpoch());
  f.Add("steps_per_epoch as given", options_.steps_per_epoch);
  f.Add("check_replicas_every", options_.check_replicas_every);
  if (collective.elastic()) f.Add("cross_check", int64_t{options_.cross_check});
  AddValidation(options_, validation_content_, &f);
  f.Add("the number of callbacks",
        static_cast<int64_t>(options_.callbacks.size()));
  for (size_t i = 0; i < options_.callbacks.size(); ++i) {
    f.Add("callback " + std::to_string(i), options_.callbacks[i]->Describe());
  }
  return ringlet::Agree(model_.collective(), "Fit", f, joining);
}

int64_t FitPlan::StepsPerEpoch() const {
  return options_.steps_per_epoch > 0 ? options_.steps_per_epoch
                                      : dataset_.steps(model_.num_replicas());
}

bool FitPlan::Validates(int64_t epoch) const {
  if (!validates()) return false;
  const int64_t number = epoch + 1;
  const std::vector<int64_t>& listed = options_.validation_epochs;
  if (!listed.empty()) {
    return std::find(listed.begin(), listed.end(), number) != listed.end();
  }
  return number % options_.validation_freq == 0;
}

Validation FitPlan::ValidationOfAll() const {
  if (!validates()) return Validation::kNever;
  if (options_.validation_epochs.empty() && options_.validation_freq == 1) {
    return Validation::kAfterEveryEpoch;
  }
  // Ends at the latest at the end of the list, or in the second epoch.
  for (int64_t e = options_.initial_epoch; e < options_.epochs; ++e) {
    if (!Validates(e)) return Validation::kAfterSomeEpochs;
  }
  return Validation::kAfterEveryEpoch;
}

int64_t FitPlan::StepsOfData(int64_t epoch, int64_t step) const {
  if (options_.steps_per_epoch == 0 || dataset_.parts().endless())
    return INT64_MAX;
  const int64_t used =
      (epoch - options_.initial_epoch) * options_.steps_per_epoch + step;
  return dataset_.steps(model_.num_replicas()) - used;
}

bool FitPlan::IsDataExhausted(int64_t epoch, int64_t step) const {
  return StepsOfData(epoch, step) <= 0;
}

int64_t FitPlan::StepsLeft(int64_t epoch, int64_t step) const {
  return std::min(StepsPerEpoch() - step, StepsOfData(epoch, step));
}

}  // namespace ringlet
