// Two runs with the same digest train the same model. Files keep the value as
// metadata, so the order of the added values, kPiece and the choice of examples
// are a format. After a change of these, every earlier model counts as a model
// of another run, and is not replaced.

#include "run_digest.h"

#include <algorithm>

#include "core/base/crc32c.h"
#include "core/base/fnv1a.h"
#include "core/base/text.h"
#include "core/data/dataset_parts.h"
#include "io/checkpoint/data_description.h"
#include "io/keras/compile_arguments.h"
#include "io/readers/storage.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

constexpr size_t kBlockBytes = 64 << 10;  // bytes of examples in a read

// A hash of the parts of a run; the end of each part is included.
class Digest {
 public:
  void Add(const std::string& text) { hash_.Add(text); }
  void Add(int64_t number) { Add(std::to_string(number)); }
  void Add(double number) { Add(FormatText("%.17g", number)); }
  void AddElements(DType dtype, const void* elements, int64_t count) {
    const Storage storage = StorageOf(dtype);
    for (int64_t i = 0; i < count; i += kPiece) {
      const auto n = static_cast<size_t>(std::min(kPiece, count - i));
      EncodeElements(storage,
                     static_cast<const unsigned char*>(elements) +
                         static_cast<size_t>(i) * SizeOf(dtype),
                     n, little_.data());
      const uint32_t crc = Crc32c(little_.data(), n * SizeOf(storage));
      Add(int64_t{crc});
    }
  }
  std::string text() const { return HexText(hash_.value()); }

 private:
  static constexpr int64_t kPiece = 4096;  // elements: part of the value
  Fnv1a hash_;
  std::vector<unsigned char> little_ =
      std::vector<unsigned char>(kPiece * sizeof(int64_t));
};

// Adds `count` examples, evenly spaced, with the first and the last. Without
// `with_x` only their labels.
Status AddSome(const Dataset& data, int64_t count, bool with_x,
               Digest* digest) {
  Source* const source = data.source().get();
  const ExampleSpec x = source->x(), y = source->y();
  // Does not overflow for up to 2^53 examples.
  const int64_t step = (data.size() - 1) / std::max<int64_t>(count - 1, 1);
  const auto block = static_cast<int64_t>(std::clamp<size_t>(
      kBlockBytes / std::max<size_t>(x.bytes() + y.bytes(), 1), 1, 256));
  const auto max_examples = static_cast<size_t>(std::min(block, count));
  std::vector<unsigned char> x_data(max_examples * x.bytes()),
      y_data(max_examples * y.bytes());
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; i += block) {
    indices.clear();
    for (int64_t j = i; j < std::min(i + block, count); ++j) {
      const int64_t example = j + 1 == count ? data.size() - 1 : j * step;
      indices.push_back(data.parts().first + data.parts().stride * example);
    }
    RINGLET_RETURN_IF_ERROR(
        source->Read(indices.data(), static_cast<int>(indices.size()),
                     with_x ? x_data.data() : nullptr, y_data.data()));
    for (size_t j = 0; j < indices.size(); ++j) {
      if (with_x) {
        digest->AddElements(x.dtype, x_data.data() + j * x.bytes(),
                            x.shape.elements());
      }
      digest->AddElements(y.dtype, y_data.data() + j * y.bytes(),
                          y.shape.elements());
    }
  }
  return Status();
}

// Adds every example (`all`, for data in memory). Of data on disk it adds 64
// examples, and for the rest the source's digest. Without a digest it adds
// labels of one value each, which are in memory in any case.
Status AddExamples(const Dataset& data, bool all, Digest* digest) {
  Source* const source = data.source().get();
  digest->Add(source->x().shape.ToString() + source->y().shape.ToString());
  if (all) return AddSome(data, data.size(), /*with_x=*/true, digest);
  RINGLET_RETURN_IF_ERROR(AddSome(data, std::min<int64_t>(data.size(), 64),
                                  /*with_x=*/true, digest));
  if (const std::optional<uint64_t> known = source->Digest()) {
    DataDescription description;
    DataDescription whole = source->Description();
    description.classes = std::move(whole.classes);
    description.encoding = std::move(whole.encoding);
    description.encoding.decimal = '\0';  // so older digests hold
    digest->Add(HexText(*known) + ToJson(description));
  } else if (source->y().shape.elements() == 1) {
    return AddSome(data, data.size(), /*with_x=*/false, digest);
  }
  return Status();
}

Status AddData(const Dataset& data, bool all, Digest* digest) {
  digest->Add(data.size());
  if (data.empty()) return Status();
  digest->Add(data.batch_size());
  digest->Add(double{data.scale().factor});
  digest->Add(double{data.scale().offset});
  digest->Add(static_cast<int64_t>(data.parts().policy));
  // (Without memory and weights nothing is added, so that the digests of older
  // files hold.)
  if (data.parts().memory > 0)
    digest->Add("memory " + std::to_string(data.parts().memory));
  if (data.parts().weights != nullptr) {
    digest->AddElements(DType::kFloat32, data.parts().weights->data(),
                        static_cast<int64_t>(data.parts().weights->size()));
  }
  for (const int64_t count : data.parts().own_example_counts)
    digest->Add(count);
  if (const uint64_t augments = data.source()->AugmentDigest()) {
    digest->Add(HexText(augments));
  }
  return AddExamples(data, all, digest);
}

void AddState(Saveable* state, Digest* digest) {
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  for (const StateSpan& span : spans) {
    digest->AddElements(span.dtype, span.data, span.shape.elements());
  }
}

void AddFit(const FitConfig& fit, Digest* digest) {
  for (const int64_t number :
       {fit.batch_size, fit.epochs, fit.initial_epoch, fit.steps_per_epoch,
        int64_t{fit.shuffle}, fit.seed, fit.threads, fit.validation_batch_size,
        fit.validation_steps, fit.validation_freq}) {
    digest->Add(number);
  }
  for (const int64_t epoch : fit.validation_epochs) digest->Add(epoch);
  for (const auto& [number, weight] : fit.class_weight) {
    digest->Add(number);
    digest->Add(double{weight});
  }
}

}  // namespace

Status RunDigest(const RunConfig& config, const InitFlags& init,
                 const RunData& data, int replicas, std::string* text) {
  Model* const model = config.model.get();
  Digest digest;
  digest.Add(ToJson(*model));
  digest.Add(CompileArgumentsToJson(*model));
  // Random initial weights follow from the seed.
  if (!init.path.empty() || !config.saved_model.empty()) {
    AddState(model->weights_state(), &digest);
    AddState(model->optimizer_state(), &digest);
  }
  AddFit(config.fit, &digest);
  RINGLET_RETURN_IF_ERROR(AddData(data.train, config.train.in_memory, &digest));
  // Validation data that are split from the training data are in memory if
  // those are.
  const DataConfig& validation =
      config.validation.empty() ? config.train : config.validation;
  RINGLET_RETURN_IF_ERROR(
      AddData(data.validation, validation.in_memory, &digest));
  for (const auto& callback : config.callbacks) {
    digest.Add(callback->Describe());
  }
  digest.Add(int64_t{replicas});
  const CommunicationOptions& communication =
      config.strategy.options.communication;
  digest.Add(static_cast<int64_t>(communication.implementation));
  digest.Add(static_cast<int64_t>(communication.wire_dtype));
  digest.Add(static_cast<int64_t>(config.strategy.options.reduction));
  const LocalUpdates& local = config.strategy.options.local;
  if (local.enabled()) {
    digest.Add(local.steps);
    digest.Add(double{local.learning_rate});
    digest.Add(double{local.momentum});
    digest.Add(int64_t{local.nesterov});
    digest.Add(static_cast<int64_t>(local.delta));
    // Defaults add nothing, so that the digests of older files hold.
    if (local.overlap) digest.Add("overlap");
    if (local.participation > 0 || local.quorum > 0) {
      digest.Add(int64_t{local.participation});
      digest.Add(int64_t{local.quorum});
      digest.Add(local.round_deadline_seconds);
    }
  }
  *text = digest.text();
  return Status();
}

}  // namespace ringlet
