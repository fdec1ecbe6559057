#include <limits>

#include "../../core/base/text.h"
#include "../../core/fit/fit_details.h"
#include "../readers/tables/csv_records.h"
#include "ringlet/loggers.h"
#include "ringlet/model.h"
#include "row_logger.h"

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
    for (const int metric : columns_) {
      row_ += ",";
      if (metric < 0) {
        row_ += "NA";
      } else {
        AppendShortest(ValueOf(fit, metric), &row_);
      }
    }
    if (writes_digests_) row_ += "," + HexText(fit.model->DigestWeights());
    file_.Write(row_ += "\n");
    return Status();
  }

 private:
  // NaN without an example, as in SetEpochMetrics.
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
    columns_.clear();
    for (int i = 0; i < model.num_metrics(); ++i) columns_.push_back(i);
    if (file_.offset() > 0) return ReadColumns(fit);
    row_ = "epoch,step";
    for (int i = 0; i < model.num_metrics(); ++i) {
      row_ += "," + CsvField(model.metric_name(i), ',');
    }
    if (digests_) row_ += kDigest;
    file_.Write(row_ += "\n");
    return Status();
  }

  // Reads the columns of the file. They may be of metrics that the model lacks.
  // If no header can be read, they are the columns of the model.
  Status ReadColumns(const FitState& fit) {
    const Model& model = *fit.model;
    RINGLET_RETURN_IF_ERROR(
        file_.ReadHeader(model.collective(), fit.details->in_memory(), &row_));
    if (row_.empty()) return Status();
    writes_digests_ = EndsWith(row_, kDigest);
    std::vector<std::string> fields;
    if (!RecordReader::SplitLine(WithoutSuffix(row_, kDigest), ',', &fields)
             .ok()) {
      return Status();
    }
    columns_.clear();
    constexpr size_t kFirst = 2;  // the column after epoch and step
    for (size_t i = kFirst; i < fields.size(); ++i) {
      columns_.push_back(MetricOf(model, fields[i]));
    }
    return Status();
  }
  // The number of the metric of this name; -1 if there is none.
  static int MetricOf(const Model& model, const std::string& name) {
    for (int i = 0; i < model.num_metrics(); ++i) {
      if (model.metric_name(i) == name) return i;
    }
    return -1;
  }

  static constexpr char kDigest[] = ",weights_digest";
  const bool digests_;
  // True if the file's header has a column of digests.
  bool writes_digests_ = false;
  // For each other column the number of the model's metric, or -1 if the model
  // has no metric of that name.
  std::vector<int> columns_;
  std::string row_;
};

}  // namespace

std::shared_ptr<Callback> StepLogger(const std::string& filename,
                                     bool digests) {
  return std::make_shared<StepLoggerCallback>(filename, digests);
}

}  // namespace ringlet
