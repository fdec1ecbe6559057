#include <memory>
#include <string>

#include "../model/model_parts.h"
#include "fit_details.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {

FitState::FitState() : details(std::make_shared<FitDetails>()) {}

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
  const std::vector<size_t>& first_states =
      ModelParts(model).config().first_states;
  for (int i = 0; i < model->num_metrics(); ++i) {
    const size_t first = first_states[static_cast<size_t>(i)];
    const size_t next = first_states[static_cast<size_t>(i) + 1];
    spans->push_back({"metric/" + model->metric_name(i),
                      DType::kFloat64,
                      {static_cast<int64_t>(2 * (next - first))},
                      &metrics[first]});
  }
}

namespace {

// `epoch` and `step` count from 1. `steps` is the number of steps, or 0 if it
// is not known.
std::string StepText(int64_t epoch, int64_t step, int64_t steps) {
  std::string text =
      "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
  return steps > 0 ? text + " of " + std::to_string(steps) : text;
}

}  // namespace

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
