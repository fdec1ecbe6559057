#include "monitor.h"

#include <cmath>
#include <limits>
#include <vector>

#include "../base/text.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

namespace {

// Appends the names that the logs will have. Returns false if a callback may
// add names that are not known beforehand.
bool NamesInLogs(const FitState& fit, const Callback& callback,
                 Monitor::Logged when, std::vector<std::string>* names) {
  const Model& model = *fit.model;
  for (int i = 0; i < model.num_metrics(); ++i) {
    names->push_back(model.metric_name(i));
  }
  if (when == Monitor::Logged::kAfterBatches) return true;
  for (int i = 0; i < model.num_metrics(); ++i) {
    if (fit.validation == Validation::kNever) break;
    names->push_back("val_" + model.metric_name(i));
  }
  for (const auto& other : *fit.callbacks) {
    if (other.get() == &callback) break;
    if (!other->NamesInLogs(names)) return false;
  }
  return true;
}

Status CheckIsLogged(const FitState& fit, const Callback& callback,
                     Monitor::Logged when, const std::string& monitor) {
  std::vector<std::string> names;
  if (!NamesInLogs(fit, callback, when, &names)) return Status();
  std::string list;
  for (const std::string& name : names) {
    if (name == monitor) return Status();
    list += (list.empty() ? "" : ", ") + name;
  }
  const char* reason = "";
  if (StartsWith(monitor, "val_")) {
    if (when == Monitor::Logged::kAfterBatches) {
      reason = " after a number of batches";
    } else if (fit.validation == Validation::kNever) {
      reason = ", because the fit has no validation data";
    }
  }
  return InvalidArgument(
      "monitor='%s': the logs of this fit have no such value%s; they have %s",
      monitor.c_str(), reason, list.c_str());
}

}  // namespace

Status Monitor::Setup(const FitState& fit, const Callback& callback,
                      Logged when, const std::string& name, MonitorMode mode,
                      double min_delta) {
  name_ = name;
  min_delta_ = std::fabs(min_delta);
  lower_is_better_ = mode == MonitorMode::kMin;
  RINGLET_RETURN_IF_ERROR(CheckIsLogged(fit, callback, when, name));
  if (mode != MonitorMode::kAuto) return Status();
  const Model& model = *fit.model;
  const std::string base = WithoutPrefix(name, "val_");
  for (int i = 0; i < model.num_metrics(); ++i) {
    if (model.metric_name(i) != base) continue;
    lower_is_better_ = model.metric_lower_is_better(i);
    return Status();
  }
  return InvalidArgument(
      "monitor='%s' is none of the model's metrics, so it is not known whether "
      "larger is better; correct it%s, or set mode to min or max",
      name.c_str(),
      base == "acc" ? " (Keras 3 names it accuracy, val_accuracy)" : "");
}

bool Monitor::Improves(double value, double best) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(best)) best = lower_is_better_ ? kInfinity : -kInfinity;
  return lower_is_better_ ? value + min_delta_ < best
                          : value - min_delta_ > best;
}

const double* Monitor::Find(const Logs& logs, const char* callback) const {
  const double* value = logs.Find(name_);
  if (value != nullptr) return value;
  std::string names;
  for (const auto& entry : logs.entries()) {
    names += (names.empty() ? "" : ",") + entry.first;
  }
  Notice(
      "warning: %s conditioned on metric `%s` which is not "
      "available. Available metrics are: %s",
      callback, name_.c_str(), names.c_str());
  return nullptr;
}

}  // namespace ringlet
