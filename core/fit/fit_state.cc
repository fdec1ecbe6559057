#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "../base/crc32c.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "run_state.h"

namespace ringlet {

void FitState::AppendState(std::vector<StateSpan>* spans) {
  spans->push_back({"fit/epoch", DType::kInt64, {}, &epoch});
  spans->push_back({"fit/step", DType::kInt64, {}, &step});
  spans->push_back({"fit/pass", DType::kInt64, {}, &position.pass});
  spans->push_back({"fit/used", DType::kInt64, {}, &position.used});
  spans->push_back({"fit/stop_training", DType::kUint8, {}, &stop_training});
  if (model->local_updates().steps == LocalUpdates::kAutoSteps) {
    spans->push_back({"fit/local_steps",
                      DType::kInt64,
                      {},
                      &local_steps,
                      /*optional=*/true});
  }
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  if (metrics.empty()) return;
  for (int i = 0; i < model->num_metrics(); ++i) {
    const int first = model->first_metric_state(i);
    const int count = model->first_metric_state(i + 1) - first;
    spans->push_back({"metric/" + model->metric_name(i),
                      DType::kFloat64,
                      {2 * count},
                      &metrics[static_cast<size_t>(first)]});
  }
}

namespace {

// `epoch` and `step` count from 1. `steps` is the number of steps; 0: unknown.
std::string StepText(int64_t epoch, int64_t step, int64_t steps) {
  std::string text =
      "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
  return steps > 0 ? text + " of " + std::to_string(steps) : text;
}

// The checksums of the tensors that SaveModel writes.
std::vector<uint32_t> ChecksumsOf(Model* model) {
  std::vector<StateSpan> spans;
  model->weights_state()->AppendState(&spans);
  model->optimizer_state()->AppendState(&spans);
  std::vector<uint32_t> checksums;
  checksums.reserve(spans.size());
  for (const StateSpan& span : spans) {
    checksums.push_back(Crc32c(span.data, span.bytes()));
  }
  return checksums;
}

// True if a file with weights of this type has exactly this weight.
bool IsExactIn(Storage storage, float weight) {
  if (storage == Storage::kF32) return true;
  uint32_t bits;
  std::memcpy(&bits, &weight, sizeof(bits));
  if (storage == Storage::kBF16) return (bits & 0xffff) == 0;
  constexpr int kMantissa = 23, kMantissaOfF16 = 10;
  constexpr int kMin = -14, kMax = 15;  // exponents of F16
  if ((bits & 0x7fffffff) == 0) return true;
  const int exponent = static_cast<int>(bits >> kMantissa & 0xff) - 127;
  if (exponent > kMax) return std::isinf(weight);
  // The bits of the mantissa that F16 does not have; more if it is subnormal.
  const int lacks = kMantissa - kMantissaOfF16 + std::max(0, kMin - exponent);
  if (lacks > kMantissa) return false;
  return (bits & ((uint32_t{1} << lacks) - 1)) == 0;
}

}  // namespace

void FitState::RecordSavedModel(const std::string& path, Storage storage) {
  saved_model = path;
  saved_is_shared = false;
  saved_checksums.clear();
  const float* const weights = model->weights();
  const float* const end = weights + model->num_weights();
  const bool exact = std::all_of(weights, end, [storage](float weight) {
    return IsExactIn(storage, weight);
  });
  if (exact) saved_checksums = ChecksumsOf(model);
  saved_finite = std::all_of(
      weights, end, [](float weight) { return std::isfinite(weight); });
}

bool FitState::SavedModelIsCurrent() const {
  return !saved_model.empty() && saved_checksums == ChecksumsOf(model);
}

std::string FitState::LastStep() const {
  if (step > 0) return StepText(epoch + 1, step, steps_per_epoch);
  if (epoch == 0) return "no step";
  return "epoch " + std::to_string(epoch);
}

std::string FitState::NextStep() const {
  if (steps_per_epoch > 0 && step >= steps_per_epoch) {
    return "the end of epoch " + std::to_string(epoch + 1);
  }
  return StepText(epoch + 1, step + 1, steps_per_epoch);
}

Status FitState::StateLoaded() {
  if (epoch < 0 || step < 0 || position.pass < 0 || position.used < 0) {
    return Corruption(
        "the saved position of the fit is negative: epoch %lld, step %lld, "
        "pass %lld, example %lld",
        static_cast<long long>(epoch), static_cast<long long>(step),
        static_cast<long long>(position.pass),
        static_cast<long long>(position.used));
  }
  if (local_steps < 0) {
    return Corruption("fit/local_steps is %lld; it must not be negative",
                      static_cast<long long>(local_steps));
  }
  if (stop_training > 1) {
    return Corruption("fit/stop_training is %d; it must be 0 or 1",
                      stop_training);
  }
  return Status();
}

void Logs::Set(const std::string& name, double value) {
  for (auto& entry : entries_) {
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  }
  entries_.emplace_back(name, value);
}

const double* Logs::Find(const std::string& name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

}  // namespace ringlet
