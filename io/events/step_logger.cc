#include <limits>

#include "../../core/base/text.h"
#include "../../core/model/model.h"
#include "loggers.h"
#include "row_file.h"

namespace ringlet {
namespace {

class StepLoggerCallback final : public RowLogger {
 public:
  StepLoggerCallback(const std::string& filename, bool digests)
      : RowLogger("step_logger", filename), digests_(digests) {}

  std::string Describe() const override {
    return std::string(name()) + (digests_ ? " with digests" : "");
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    return file_.is_open() ? Status() : Open(fit);
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    row_ = std::to_string(fit.epoch) + "," + std::to_string(fit.step);
    for (int i = 0; i < fit.model->num_metrics(); ++i) {
      AppendShortest(ValueOf(fit, i), &(row_ += ","));
    }
    if (writes_digests_) row_ += "," + HexText(fit.model->weights_digest());
    file_.Write(row_ += "\n");
    return Status();
  }

 private:
  // No number where nobody has seen an example, as SetEpochMetrics has it.
  static double ValueOf(const FitState& fit, int metric) {
    if (fit.step_metrics == nullptr) return 0;
    if (fit.step_metrics[0].count == 0) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return fit.model->metric_value(metric, fit.step_metrics);
  }
  Status Open(const FitState& fit) {
    const Model& model = *fit.model;
    RINGLET_RETURN_IF_ERROR(OpenFile(fit, /*append=*/false));
    writes_digests_ = digests_;
    if (file_.offset() > 0) return ReadColumns(model.collective());
    row_ = "epoch,step";
    for (int i = 0; i < model.num_metrics(); ++i) {
      row_ += "," + model.metric_name(i);
    }
    if (digests_) row_ += kDigest;
    file_.Write(row_ += "\n");
    return Status();
  }

  Status ReadColumns(Collective* collective) {
    RINGLET_RETURN_IF_ERROR(file_.ReadHeader(collective, &row_));
    if (!row_.empty()) writes_digests_ = EndsWith(row_, kDigest);
    return Status();
  }

  static constexpr char kDigest[] = ",weights_digest";
  const bool digests_;
  bool writes_digests_ = false;  // what the file's header has
  std::string row_;
};

}  // namespace

std::shared_ptr<Callback> StepLogger(const std::string& filename,
                                     bool digests) {
  return std::make_shared<StepLoggerCallback>(filename, digests);
}

}  // namespace ringlet
