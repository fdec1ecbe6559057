#include "step_logger.h"

#include <charconv>

#include "model.h"
#include "row_file.h"

namespace ringlet {
namespace {

class StepLoggerCallback final : public Callback {
 public:
  explicit StepLoggerCallback(const std::string& filename)
      : file_(name(), filename) {}

  const char* name() const override { return "step_logger"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    file_.Reset();
    before_.assign(fit.model->num_metrics(), MetricState());
    after_ = before_;
    return Status();
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.chief && !file_.is_open()) {
      RINGLET_RETURN_IF_ERROR(Open(*fit.model));
    }
    return fit.model->ReduceMetrics(before_.data());
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    RINGLET_RETURN_IF_ERROR(fit.model->ReduceMetrics(after_.data()));
    if (!fit.chief) return Status();
    row_ = std::to_string(fit.epoch) + "," + std::to_string(fit.step);
    for (size_t i = 0; i < after_.size(); ++i) {
      const double count = after_[i].count - before_[i].count;
      const double total = after_[i].total - before_[i].total;
      char digits[64];
      const auto end = std::to_chars(digits, digits + sizeof(digits),
                                     count > 0 ? total / count : 0);
      row_.append(",").append(digits, end.ptr);
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
  Status StateLoaded() override { return file_.StateLoaded(); }

 private:
  Status Open(const Model& model) {
    RINGLET_RETURN_IF_ERROR(file_.Open(/*append=*/false));
    if (file_.offset() > 0) return Status();
    row_ = "epoch,step";
    for (int i = 0; i < model.num_metrics(); ++i) {
      row_ += "," + model.metric_name(i);
    }
    file_.Write(row_ += "\n");
    return Status();
  }

  RowFile file_;
  std::string row_;
  std::vector<MetricState> before_, after_;  // sums over all ranks
};

}  // namespace

std::shared_ptr<Callback> StepLogger(const std::string& filename) {
  return std::make_shared<StepLoggerCallback>(filename);
}

}  // namespace ringlet
