#include "monitor.h"

#include <cmath>

#include "../base/message.h"
#include "../base/text.h"
#include "../model/model.h"

namespace ringlet {

Status Monitor::Setup(const Model& model, const std::string& name,
                      MonitorMode mode, double min_delta) {
  name_ = name;
  min_delta_ = std::fabs(min_delta);
  decreases_ = mode == MonitorMode::kMin;
  if (mode != MonitorMode::kAuto) return Status();
  const std::string base = WithoutPrefix(name, "val_");
  for (int i = 0; i < model.num_metrics(); ++i) {
    if (model.metric_name(i) != base) continue;
    decreases_ = model.metric_decreases(i);
    return Status();
  }
  return InvalidArgument(
      "monitor='%s' is none of the model's metrics, so it is not known whether "
      "larger is better; correct it, or set mode to min or max",
      name.c_str());
}

bool Monitor::Improves(double value, double best) const {
  if (std::isnan(best)) return true;
  return decreases_ ? value + min_delta_ < best : value - min_delta_ > best;
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
