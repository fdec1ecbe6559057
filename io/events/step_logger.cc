#include <charconv>
#include <cmath>

#include "../../core/model/model.h"
#include "csv_logger.h"
#include "row_file.h"

namespace ringlet {
namespace {

class StepLoggerCallback final : public Callback {
 public:
  explicit StepLoggerCallback(const std::string& filename)
      : file_(name(), filename) {}

  const char* name() const override { return "step_logger"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState&) override {
    file_.Reset();
    return Status();
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    return file_.is_open() ? Status() : Open(*fit.model);
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    row_ = std::to_string(fit.epoch) + "," + std::to_string(fit.step);
    for (int i = 0; i < fit.model->num_metrics(); ++i) {
      AppendValue(fit.step_metrics == nullptr ? 0
                                              : fit.step_metrics[i].Result());
    }
    file_.Write(row_ += "\n");
    return Status();
  }

  Status OnTrainEnd(FitState&, const Logs&) override {
    file_.Close();
    return Status();
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    file_.AppendState(spans);
  }
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    file_.AppendLiveState(spans);
  }
  Status StateLoaded() override { return file_.StateLoaded(); }

 private:
  Status Open(const Model& model) {
    RINGLET_RETURN_IF_ERROR(file_.Open(model.collective(), /*append=*/false));
    if (file_.offset() > 0) return Status();
    row_ = "epoch,step";
    for (int i = 0; i < model.num_metrics(); ++i) {
      row_ += "," + model.metric_name(i);
    }
    file_.Write(row_ += "\n");
    return Status();
  }

  // Machines differ in the sign of a NaN.
  void AppendValue(double value) {
    if (std::isnan(value)) {
      row_ += ",nan";
      return;
    }
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value);
    row_.append(",").append(digits, end.ptr);
  }

  RowFile file_;
  std::string row_;
};

}  // namespace

std::shared_ptr<Callback> StepLogger(const std::string& filename) {
  return std::make_shared<StepLoggerCallback>(filename);
}

}  // namespace ringlet
