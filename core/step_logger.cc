#include "step_logger.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "csv_rows.h"
#include "model.h"

namespace ringlet {
namespace {

struct FileCloser {
  void operator()(FILE* file) const { std::fclose(file); }
};

class StepLoggerCallback final : public Callback {
 public:
  explicit StepLoggerCallback(const std::string& filename)
      : filename_(filename) {}

  const char* name() const override { return "step_logger"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    file_.reset();
    offset_ = -1;
    before_.assign(fit.model->num_metrics(), MetricState());
    after_ = before_;
    return Status();
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.chief && file_ == nullptr) {
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
    return Write();
  }

  Status OnTrainEnd(FitState&, const Logs&) override {
    if (file_ == nullptr || std::fclose(file_.release()) == 0) return Status();
    return OsError(errno, "%s: closing", filename_.c_str());
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"callback/step_logger/offset", DType::kInt64, {}, &offset_});
  }
  Status StateLoaded() override {
    if (offset_ >= -1) return Status();
    return Corruption("callback/step_logger/offset is %" PRId64, offset_);
  }

 private:
  // offset_ >= 0 says that a backup was restored: what lies behind is of steps
  // that are yet to come.
  Status Open(const Model& model) {
    const bool resumed = offset_ >= 0;
    if (resumed) {
      RINGLET_RETURN_IF_ERROR(KeepRows(name(), filename_, &offset_));
    }
    file_.reset(std::fopen(filename_.c_str(), resumed ? "a+b" : "wb"));
    if (file_ == nullptr) {
      return OsError(errno, "%s: cannot be written", filename_.c_str());
    }
    if (resumed && offset_ > 0) return Status();
    offset_ = 0;
    row_ = "epoch,step";
    for (int i = 0; i < model.num_metrics(); ++i) {
      row_ += "," + model.metric_name(i);
    }
    return Write();
  }

  Status Write() {
    row_ += "\n";
    if (std::fwrite(row_.data(), 1, row_.size(), file_.get()) != row_.size() ||
        std::fflush(file_.get()) != 0) {
      return OsError(errno, "%s: writing a row", filename_.c_str());
    }
    offset_ += static_cast<int64_t>(row_.size());
    return Status();
  }

  const std::string filename_;
  std::unique_ptr<FILE, FileCloser> file_;
  int64_t offset_ = -1;  // where the next row goes; -1: not open yet
  std::string row_;
  std::vector<MetricState> before_, after_;  // sums over all ranks
};

}  // namespace

std::shared_ptr<Callback> StepLogger(const std::string& filename) {
  return std::make_shared<StepLoggerCallback>(filename);
}

}  // namespace ringlet
