#include <algorithm>
#include <string>

#include "../model/model.h"
#include "../model/worker_steps.h"
#include "callback.h"

namespace ringlet {

bool AnyRestoresAfterLoss(
    const std::vector<std::shared_ptr<Callback>>& callbacks) {
  return std::any_of(
      callbacks.begin(), callbacks.end(),
      [](const auto& callback) { return callback->RestoresAfterLoss(); });
}

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

// Both counted from 1; of = 0: not known.
std::string StepText(int64_t epoch, int64_t step, int64_t of) {
  std::string text =
      "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
  return of > 0 ? text + " of " + std::to_string(of) : text;
}

}  // namespace

bool FitState::HasNamed() const {
  return disbelief != nullptr && disbelief->HasNamed();
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
    return Corruption("the saved position of the fit is negative");
  }
  if (local_steps < 0) {
    return Corruption("fit/local_steps is %lld",
                      static_cast<long long>(local_steps));
  }
  if (stop_training > 1) {
    return Corruption("fit/stop_training is %d", stop_training);
  }
  return Status();
}

}  // namespace ringlet
